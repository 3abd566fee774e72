//! Policies in, an immutable [`Snapshot`] of what this node must have out.

use std::{fmt, path::Path, path::PathBuf, sync::Arc, time::Duration};

/// Where in a policy file something was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub file: Arc<Path>,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// What to do on drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Report only.
    Observe,
    /// Report and put the declared state back.
    Heal,
}

/// How long a path is left alone after it was healed, when it drifts again: `first`, then `factor` times longer each time, at most `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Zero: no waiting at all.
    pub first: Duration,
    pub factor: u32,
    pub cap: Duration,
}

/// A policy's part of the snapshot that is the same for all its files.
#[derive(Debug, PartialEq, Eq)]
pub struct ActivePolicy {
    pub name: String,
    pub version: String,
    pub mode: Mode,
    pub backoff: Backoff,
}

/// What the active versions say about one path: one regular file with exactly this content.
#[derive(Debug, PartialEq, Eq)]
pub struct Declared {
    /// Absolute, without `.`, `..`, empty components or a trailing slash. Any bytes but NUL.
    pub path: PathBuf,
    pub policy: Arc<ActivePolicy>,
    pub content: Arc<[u8]>,
    /// BLAKE3 of `content`.
    pub digest: blake3::Hash,
    /// Permission bits with setuid, setgid and sticky (07777). `None`: left alone.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub at: Position,
}

/// Everything this node must have now. Never changed: a new declaration is a new snapshot, swapped whole.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Sorted by path, no path twice.
    pub files: Vec<Arc<Declared>>,
    /// Sorted by name. A policy without files is here too.
    pub policies: Vec<Arc<ActivePolicy>>,
}
