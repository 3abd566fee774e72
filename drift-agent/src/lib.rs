//! The agent, in the order the data flows.

pub mod compare;
pub mod declare;
pub mod heal;
pub mod observe;
pub mod probe;
pub mod report;
