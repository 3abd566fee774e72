//! The harness.

pub mod collector;
pub mod skip;
pub mod wait;
