//! What is said on standard error, beside records and answers.

use std::{
    fmt,
    io::{self, Write},
};

/// Says it on a line of its own. Whoever read standard error may have gone, and the disk behind it may be full: neither is a reason for
/// anything else to end, so what cannot be said is not.
pub(crate) fn complain(said: impl fmt::Display) {
    let _unheard = writeln!(io::stderr(), "{said}");
}

/// The same in the middle of a line.
pub(crate) fn progress(said: impl fmt::Display) {
    let _unheard = write!(io::stderr(), "{said}");
}
