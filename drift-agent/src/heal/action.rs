//! What healing would do, as data.

use std::ffi::OsString;

/// One action on one declared path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put a new file, link or directory as declared in place of whatever stands there.
    Replace,
    /// What it is and holds is right: set owner, mode and other attributes on what is there. A file that may have no other name, and has one, is replaced: what is
    /// there under that name is not ours to change.
    Attributes,
    /// Remove what stands there.
    Remove,
    /// Remove these names from the directory, and set its attributes.
    Clear(Vec<OsString>),
}
