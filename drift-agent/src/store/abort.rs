//! That somebody wants a change of versions stopped: a file that is there or not. Who makes the change looks for it until it is decided.
//!
//! The process that looks puts it there and the restorer reads it: whoever has taken over the first can keep versions from changing, as it
//! can anyhow.

use std::ffi::OsStr;

use super::{Store, StoreError};

const NAME: &str = "abort";

impl Store {
    /// What is under way between versions is to stop, if it is not decided.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn ask_abort(&self) -> Result<(), StoreError> {
        let io = StoreError::io("ask for the end of a change of versions");
        self.folder.write(NAME, b"").map_err(io)
    }

    /// Whether somebody wants that. What cannot be looked at asks for nothing.
    #[must_use]
    pub fn is_abort_asked(&self) -> bool {
        matches!(self.folder.stat(OsStr::new(NAME)), Ok(Some(_)))
    }

    /// For whoever begins a change: what was asked of an earlier one does not count.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget_abort(&self) -> Result<(), StoreError> {
        let io = StoreError::io("forget that an earlier change of versions was to end");
        self.folder.remove(NAME).map_err(io)
    }
}
