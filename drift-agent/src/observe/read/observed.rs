//! What a look has found.

use std::{ffi::OsString, io, sync::Arc};

use drift_common::abi::Key;

use super::{Stat, Unexpected};
use crate::{observe::attribute::Reading, report::FileType};

/// What stands at the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing; or a directory on the way does not exist.
    Absent,
    /// A symbolic link that is not as declared, or something that is no directory, stands in the way: the path leads elsewhere.
    Relocated,
    /// It is there and cannot be read, and why.
    Unreadable(io::ErrorKind),
    /// No two looks agreed.
    Unstable,
    /// A symbolic link, and what it holds, which is a text and not a path: see [`Target::Symlink`].
    Link(OsString),
    /// A directory where one is declared, and what may not be in it.
    Directory(Unexpected),
    /// Something of another type than is declared.
    Other(FileType),
    /// A regular file; `None` where it is too large to read.
    File(Option<blake3::Hash>),
}

/// One observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub found: Found,
    /// Digest of a file's content without its final line end.
    pub body: Option<blake3::Hash>,
    /// Digest of it as [`crate::declare::Content::lines`] has it, where that is asked for.
    pub lines: Option<blake3::Hash>,
    /// The bytes that were hashed, where they are needed and are not as declared.
    pub held: Option<Held>,
    /// Of what stands there itself, not of what a link leads to.
    pub stat: Option<Stat>,
    /// What stands in each of the declared extended attributes.
    pub attributes: Vec<Reading>,
    /// The kernel's name of the file and of its directory, where probes tell it.
    pub known: Known,
    /// How many had the file open for writing, where probes tell it.
    pub writers: u32,
}

impl Observed {
    pub(in crate::observe) fn nothing() -> Self {
        Self {
            found: Found::Absent,
            body: None,
            lines: None,
            held: None,
            stat: None,
            attributes: Vec::new(),
            known: Known::default(),
            writers: 0,
        }
    }
}

/// What a file held, as it was read: to be compared, edited or redacted, and never to be shown as it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Held(pub(super) Arc<[u8]>);

impl Held {
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({} bytes)", self.0.len())
    }
}

/// The inodes under which the kernel half knows a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub file: Option<Key>,
    pub parent: Option<Key>,
}
