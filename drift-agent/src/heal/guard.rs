//! What holds healing back: a healer that fights another program, or makes of one wrong policy a thousand wrong files, is worse than none.
//!
//! Pure: the time is an argument.

mod backoff;
mod budget;
mod fight;
mod mass;

pub use backoff::{Brake, Verdict};
pub use budget::Budget;
pub use fight::{Contested, Fights, Rival};
pub use mass::{Mass, MassVerdict};
