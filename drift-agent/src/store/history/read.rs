//! Reading the history, beside an agent that writes it or without one.

use std::{
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{FOLDER, MOST_SEGMENT, name, number, record};
use crate::store::{StoreError, folder::Folder};

/// What a reading of the history has come upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// There is a history, be it empty.
    pub exists: bool,
    /// Records that were read.
    pub records: u64,
    /// Lines that were not what was written, and were left out.
    pub damaged: u64,
}

/// Gives the records in the state folder to `each`, in the order they were kept. Segments that were written to before `since` only are left
/// out. Changes nothing.
///
/// # Errors
/// The folder cannot be read.
pub fn read(
    state_dir: &Path,
    since: Option<SystemTime>,
    mut each: impl FnMut(&str),
) -> Result<Past, StoreError> {
    let unreadable = |source| StoreError::History {
        path: state_dir.to_owned(),
        source,
    };
    let mut past = Past::default();
    let state = match Folder::named(state_dir) {
        Ok(state) => state,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(past),
        Err(error) => return Err(unreadable(error)),
    };
    let Some(folder) = state.existing(FOLDER.as_ref()).map_err(unreadable)? else {
        return Ok(past);
    };
    past.exists = true;
    let names = folder.names().map_err(unreadable)?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| number(name)).collect();
    numbers.sort_unstable();
    for at in &numbers {
        let name = name(*at);
        if let Some(since) = since
            && let Ok(Some(stat)) = folder.stat(name.as_ref())
            && SystemTime::UNIX_EPOCH
                + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0) + 1)
                < since
        {
            continue;
        }
        let bytes = match folder.read(&name, MOST_SEGMENT) {
            Ok(Some(bytes)) => bytes,
            // It was the oldest, and went meanwhile.
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                past.damaged += 1;
                continue;
            }
            Err(error) => return Err(unreadable(error)),
        };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = line.strip_suffix(b"\n") else {
                // In the last segment it is being written, or was when the agent was killed.
                past.damaged += u64::from(Some(at) != numbers.last());
                continue;
            };
            match record(line) {
                Some(record) => {
                    past.records += 1;
                    each(record);
                }
                None => past.damaged += 1,
            }
        }
    }
    Ok(past)
}
