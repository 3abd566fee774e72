//! What was reported, kept on the node: the agent appends, anybody who may read the folder reads, at the same time and without a lock.
//!
//! ```text
//! <state>/history/0000000017.log    one segment; the highest number is the one that is being written
//! ```
//!
//! A line is the first 8 bytes of the BLAKE3 digest of a record, in hexadecimal, a space, and the record, one line of JSON. A line that is not
//! what its digest says is left out and counted; the others count. What a kill has cut off goes at the next start. Beyond [`Bounds`] the
//! oldest segment goes. This is a log, and not in the database: that one belongs to the agent alone while it runs.

mod read;
mod write;

pub use read::{Past, read};
pub use write::HistoryWriter;

use std::{ffi::OsStr, time::Duration};

const FOLDER: &str = "history";
const EXTENSION: &str = ".log";

/// Digits of a segment's number: names sort as numbers do.
const DIGITS: usize = 10;

/// Hexadecimal digits in front of a record.
const CHECK: usize = 16;

/// Bytes of a segment that are read, at most: what is larger is not the agent's.
const MOST_SEGMENT: u64 = 64 << 20;

/// Bytes of one record, at most. Paths and messages are bounded far below it.
pub const MOST_LINE: usize = 256 << 10;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Segments go when what was written to them last is older than this.
    pub age: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            age: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

impl Bounds {
    /// A new segment is begun beyond so many bytes.
    fn segment(&self) -> u64 {
        (self.bytes / 16).min(MOST_SEGMENT / 2)
    }
}

fn name(number: u64) -> String {
    format!("{number:0DIGITS$}{EXTENSION}")
}

/// The number of the segment with this name.
fn number(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_suffix(EXTENSION)?;
    let is_number = digits.len() >= DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Beyond, the next one would have no number: none of ours.
    is_number
        .then(|| digits.parse().ok())?
        .filter(|number| *number < u64::MAX / 2)
}

fn check(record: &str) -> String {
    blake3::hash(record.as_bytes()).to_hex()[..CHECK].to_owned()
}

fn line(record: &str) -> String {
    format!("{} {record}\n", check(record))
}

/// The record in a line, if it is whole.
fn record(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?;
    let (known, record) = line.split_at_checked(CHECK)?;
    let record = record.strip_prefix(' ')?;
    (known == check(record)).then_some(record)
}
