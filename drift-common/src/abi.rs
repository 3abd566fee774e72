//! The bytes that cross the border between kernel and agent.
//!
//! Everything here is `repr(C)`, made of fixed-width integers and byte arrays, and has no padding: the size and the offsets are asserted
//! beside each type, and with the `std` feature `zerocopy` proves that every bit pattern is valid, so decoding cannot go wrong in more ways
//! than "too short", "too long" and "a number outside its closed set".

mod counter;
mod event;
mod function;
mod key;
mod knob;
mod offsets;
mod slot;

pub use counter::Counter;
pub use event::{Event, Kind};
pub use function::{Function, MOST_PLACES, Parameter, Signature, Signatures};
pub use key::{
    INSIDE, Key, Learned, MAYBE_WORDS, NAME_HASH_START, NameKey, WHOLE, maybe_bit, name_hash,
    name_hash_step,
};
pub use knob::{Knobs, TICK_NS};
pub use offsets::{ABSENT, Offsets};
pub use slot::{CANARY_SLOT, Level, MOUNT_SLOT, SWEEP_SLOT, Slot};
