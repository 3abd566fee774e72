//! Writing the history: the one who does holds the agent's lock.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{Bounds, FOLDER, MOST_LINE, MOST_SEGMENT, line, name, number};
use crate::store::folder::Folder;

/// A segment is closed after this time, so that what is too old can go.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// One that is not written to any more.
#[derive(Debug)]
struct Closed {
    number: u64,
    size: u64,
    /// When it was written to last.
    last: SystemTime,
}

/// Appends to the history, and keeps it within its bounds. Everything blocks.
#[derive(Debug)]
pub struct HistoryWriter {
    folder: Folder,
    bounds: Bounds,
    /// The oldest first.
    closed: VecDeque<Closed>,
    file: File,
    number: u64,
    size: u64,
    begun: SystemTime,
    /// When it was written to last.
    last: SystemTime,
    /// Something was written that may not last yet.
    unsynced: bool,
}

impl HistoryWriter {
    /// Goes on with the history in the state folder, or begins one. What a kill has cut off is removed; whatever else stands there is left
    /// alone, or goes where the history needs its name.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn open(state_dir: &Path, bounds: Bounds, now: SystemTime) -> io::Result<Self> {
        let folder = Folder::named(state_dir)?.folder(FOLDER)?;
        let mut closed = Vec::new();
        let mut last = 0;
        for name in folder.names()? {
            let Some(number) = number(&name) else {
                continue;
            };
            last = last.max(number);
            if let Some(stat) = folder.stat(&name)? {
                let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
                closed.push(Closed {
                    number,
                    size: u64::try_from(stat.st_size).unwrap_or(0),
                    last: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
                });
            }
        }
        closed.sort_unstable_by_key(|segment| segment.number);
        let current = closed
            .pop_if(|segment| segment.size < bounds.segment())
            .map(|segment| segment.number);
        let (number, file, size) = match current.map(|number| (number, take_up(&folder, number))) {
            Some((number, Ok((file, size)))) => (number, file, size),
            // Not a file, or one that is not to be trusted: a new one is begun, and it goes in its turn.
            Some((_, Err(_))) | None => {
                let number = last.saturating_add(1);
                (number, begin(&folder, number)?, 0)
            }
        };
        let mut writer = Self {
            folder,
            bounds,
            closed: closed.into(),
            file,
            number,
            size,
            begun: now,
            last: now,
            unsynced: false,
        };
        writer.keep_within(0, now)?;
        Ok(writer)
    }

    /// Appends records, one line of JSON each, together. They survive the end of this process when it returns, and a power cut after
    /// [`HistoryWriter::sync`]. Of an error nothing remains but what is cut off again by the next call.
    ///
    /// # Errors
    /// The file system's. Records larger than [`MOST_LINE`] are one.
    pub fn append<'r>(
        &mut self,
        records: impl Iterator<Item = &'r str>,
        now: SystemTime,
    ) -> io::Result<()> {
        let mut text = String::new();
        for record in records {
            if record.len() > MOST_LINE || record.contains('\n') {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            text.push_str(&line(record));
        }
        let size = text.len() as u64;
        let is_old = now
            .duration_since(self.begun)
            .is_ok_and(|age| age > LONGEST);
        if self.size > 0 && (is_old || self.size + size > self.bounds.segment()) {
            self.begin_next(now)?;
        }
        self.keep_within(size, now)?;
        if let Err(error) = self.file.write_all_at(text.as_bytes(), self.size) {
            // Where this fails too, the next one writes over it, and readers leave out what is not whole.
            let _cut_off_at_the_next_start = self.file.set_len(self.size);
            return Err(error);
        }
        self.size += size;
        self.last = now;
        self.unsynced = true;
        Ok(())
    }

    /// Makes what was appended last.
    ///
    /// # Errors
    /// The disk does not take it: what was not synced may be lost. It is not tried again; a new segment is begun.
    pub fn sync(&mut self, now: SystemTime) -> io::Result<()> {
        if !std::mem::take(&mut self.unsynced) {
            return Ok(());
        }
        let synced = self.file.sync_data();
        if synced.is_err() {
            self.begin_next(now)?;
        }
        synced
    }

    /// Removes what is too old.
    ///
    /// # Errors
    /// The file system's.
    pub fn expire(&mut self, now: SystemTime) -> io::Result<()> {
        self.keep_within(0, now)
    }

    fn begin_next(&mut self, now: SystemTime) -> io::Result<()> {
        let unsynced = std::mem::take(&mut self.unsynced);
        if unsynced && let Err(error) = self.file.sync_data() {
            log::warn!("the last records of the history may not survive a power cut: {error}");
        }
        let number = self.number.saturating_add(1);
        let file = begin(&self.folder, number)?;
        self.closed.push_back(Closed {
            number: self.number,
            size: self.size,
            last: self.last,
        });
        (self.file, self.number, self.size, self.begun) = (file, number, 0, now);
        Ok(())
    }

    /// Removes the oldest segments until there is room for `more` bytes, and those that are too old.
    fn keep_within(&mut self, more: u64, now: SystemTime) -> io::Result<()> {
        while let Some(oldest) = self.closed.front() {
            let closed: u64 = self.closed.iter().map(|segment| segment.size).sum();
            let is_old = now
                .duration_since(oldest.last)
                .is_ok_and(|age| age > self.bounds.age);
            if !is_old && closed + self.size + more <= self.bounds.bytes {
                break;
            }
            let name = name(oldest.number);
            if let Err(error) = self.folder.remove(&name) {
                // A folder with something in it, say: it is somebody's, and nothing that is counted.
                log::warn!("{name} in the history cannot be removed: {error}");
            }
            self.closed.pop_front();
        }
        Ok(())
    }
}

/// A segment to go on with: its whole lines.
fn take_up(folder: &Folder, number: u64) -> io::Result<(File, u64)> {
    let mut file = folder.file_to_change(&name(number))?;
    let length = file.metadata()?.len();
    if length > MOST_SEGMENT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    (&file).take(MOST_SEGMENT).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n');
    let size = whole.map_or(0, |at| at as u64 + 1);
    if size < length {
        file.set_len(size)?;
    }
    Ok((file, size))
}

fn begin(folder: &Folder, number: u64) -> io::Result<File> {
    let name = name(number);
    let file = match folder.file_to_change(&name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            folder.remove(&name)?;
            folder.file_to_change(&name)?
        }
        Err(error) => return Err(error),
    };
    file.set_len(0)?;
    folder.sync()?;
    Ok(file)
}
