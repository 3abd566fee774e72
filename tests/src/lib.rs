//! The harness.

pub mod agent;
pub mod cluster;
pub mod collector;
pub mod command;
pub mod fuse;
pub mod mutate;
pub mod peer;
pub mod privilege;
pub mod report;
pub mod scene;
pub mod skip;
pub mod stage;
pub mod sweep;
pub mod tamper;
pub mod tree;
pub mod wait;
