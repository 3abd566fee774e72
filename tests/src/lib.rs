//! The harness.

pub mod collector;
pub mod peer;
pub mod report;
pub mod skip;
pub mod wait;
