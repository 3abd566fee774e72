//! The commands of the built agent.

mod cli_check;
mod cli_diff;
mod cli_history;
mod cli_lint;
mod cli_round_trip;
mod cli_snapshot;
mod cli_snapshot_against;
mod cli_snapshot_attributes;
mod cli_status;
mod policy_commands;
