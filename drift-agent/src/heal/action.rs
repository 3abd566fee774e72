//! What healing would do, as data.

use std::ffi::OsString;

/// One action on one declared path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put a new file, link or directory as declared in place of whatever stands there.
    Replace,
    /// Put the managed keys of the file that stands there to their declared values, and set its owner and mode.
    Edit,
    /// What it is and holds is right: set owner and mode on what is there.
    Attributes,
    /// Remove what stands there.
    Remove,
    /// Remove these names from the directory, and set its owner and mode.
    Clear(Vec<OsString>),
}
