//! The file by which the agent hears itself (`pipeline/selftest.rs`): a number, written anew each time.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::folder::Folder;

const NAME: &str = "canary";

/// The canary's file, open for writing.
#[derive(Debug)]
pub struct Canary(File);

impl super::Store {
    /// Opens the canary's file; made if it is not there.
    pub fn canary(&self) -> io::Result<Canary> {
        self.folder().file_to_change(NAME).map(Canary)
    }

    /// The number in it, read anew through its name.
    pub fn canary_number(&self) -> io::Result<Option<u64>> {
        let Some(file) = self.folder().file(NAME)? else {
            return Ok(None);
        };
        let mut bytes = [0; size_of::<u64>()];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }
}

impl Canary {
    /// Writes the number and closes the file. Nothing is synced: it need not outlive anything.
    pub fn write(self, number: u64) -> io::Result<()> {
        self.0.write_all_at(&number.to_le_bytes(), 0)
    }
}
