//! What is there: the ring of doorbells, and the only reader of the host.

mod actor;
mod decode;
mod objects;
mod read;
mod register;
mod scan;
mod seen;
mod settle;

pub use actor::{Identify, is_same_process};
pub use decode::{Decoded, decode};
pub use objects::{Directory, Name, Object, Objects};
pub use read::{Found, Host, Known, Look, Observed, Stat, Times, Unexpected, observe};
pub use register::Register;
pub use scan::{Pace, scan};
pub use seen::{Row, Seen};
pub use settle::{Settle, VANISHED, Wait};
