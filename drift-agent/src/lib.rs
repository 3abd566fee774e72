//! The agent, in the order the data flows.

// They end the program where nobody reads on: `report::complain` and `cli::policy::print` do not.
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

pub mod cli;
pub mod settings;

pub mod kept;

pub mod memory;

pub mod sync;

pub mod declare;

pub mod cluster;

pub mod store;

pub mod probe;

pub mod observe;

pub mod capture;

pub mod compare;

pub mod lint;

pub mod heal;

pub mod reload;

pub mod stop;

pub mod switch;

pub mod confine;

pub mod restore;

pub mod report;

pub mod serve;

pub mod pipeline;
