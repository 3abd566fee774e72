//! What is there: the ring of doorbells, and the only reader of the host.

mod actor;
mod attribute;
mod clock;
mod container;
mod decode;
mod holder;
mod objects;
mod read;
mod register;
mod scan;
mod seen;
mod settle;

pub use actor::{Identify, actor_of, is_same_process, start_ticks};
pub use attribute::{Place, Reading, read as read_attribute, read_all as read_attributes};
pub use clock::boot_ns;
pub use decode::{Decoded, decode};
pub use holder::{OldFile, Search};
pub use objects::{Directory, Name, Object, Objects};
pub use read::{
    Found, Held, Host, Known, Look, Observed, PathPlace, Places, Stat, Times, Unexpected, observe,
    observe_at_rest,
    take::{Leaving, Taken, Whole, take},
};
pub use register::Register;
pub use scan::{Pace, scan};
pub use seen::{Row, Seen};
pub use settle::{GLANCE, Settle, VANISHED, Wait};
