//! What is there: the ring of doorbells, and the only reader of the host.

mod actor;
mod decode;
mod read;
mod settle;

pub use actor::{Identify, is_same_process};
pub use decode::{Decoded, decode};
pub use read::{Found, Host, Known, Observed, Stat, Times, observe};
pub use settle::{Settle, VANISHED, Wait};
