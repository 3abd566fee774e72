//! The agent and a real API server.

mod cluster_capability;
mod cluster_deploy;
mod cluster_faults;
mod cluster_kubectl;
mod cluster_node_drift;
mod cluster_own_node;
mod cluster_source;
mod cluster_who;
