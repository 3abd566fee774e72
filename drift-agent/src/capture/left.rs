//! Why something is not in a snapshot.

use std::{fmt, io};

use drift_common::policy::MAX_CONTENT;

use crate::{
    observe::{Found, Whole},
    report::FileType,
};

/// Why something is not in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// What no policy can declare.
    Special(FileType),
    Unreadable(io::ErrorKind),
    TooLarge,
    /// A directory with more names than anybody can declare.
    TooManyNames,
    Unstable,
    /// It was there when its directory was listed.
    Gone,
    /// A link stands on the way to it by now.
    Relocated,
    /// A link that holds what is no text.
    Target,
    /// Its path is longer than a path can be.
    PathTooLong,
    /// The kernel's own files.
    Virtual,
    /// Asked for: another file system is mounted here.
    OtherFileSystem,
    /// The policies themselves.
    Policies,
}

impl Left {
    /// One of a closed set.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Special(_) => "special",
            Self::Unreadable(_) => "unreadable",
            Self::TooLarge => "too-large",
            Self::TooManyNames => "too-many-names",
            Self::Unstable => "unstable",
            Self::Gone => "gone",
            Self::Relocated => "relocated",
            Self::Target => "target",
            Self::PathTooLong => "path-too-long",
            Self::Virtual => "virtual",
            Self::OtherFileSystem => "other-file-system",
            Self::Policies => "policies",
        }
    }

    /// Whether the snapshot is meant to be without it.
    #[must_use]
    pub const fn is_meant(self) -> bool {
        matches!(self, Self::OtherFileSystem | Self::Policies | Self::Virtual)
    }

    /// What the reader found where there is nothing to declare.
    pub(super) fn of(whole: &Whole, is_directory: bool) -> Self {
        match whole {
            Whole::Special(file_type) => Self::Special(*file_type),
            Whole::TooLarge if is_directory => Self::TooManyNames,
            Whole::TooLarge => Self::TooLarge,
            Whole::Virtual => Self::Virtual,
            Whole::Not(Found::Absent) => Self::Gone,
            Whole::Not(Found::Relocated) => Self::Relocated,
            Whole::Not(Found::Unreadable(kind)) => Self::Unreadable(*kind),
            Whole::Not(
                Found::Unstable
                | Found::Link(_)
                | Found::Directory(_)
                | Found::Other(_)
                | Found::File(_),
            )
            | Whole::File(_)
            | Whole::Directory(_)
            | Whole::Link(_) => Self::Unstable,
        }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Special(file_type) => {
                let what = match file_type {
                    FileType::Fifo => "a FIFO",
                    FileType::Socket => "a socket",
                    FileType::Block | FileType::Char => "a device",
                    FileType::File | FileType::Directory | FileType::Symlink | FileType::Absent => {
                        "of an unknown type"
                    }
                };
                write!(f, "{what}; files, links and directories can be declared")
            }
            Self::Unreadable(io::ErrorKind::PermissionDenied) => {
                f.write_str("not readable for this user; root can read it")
            }
            Self::Unreadable(kind) => write!(f, "cannot be read: {kind}"),
            Self::TooLarge => write!(
                f,
                "larger than the {} MiB a content may have",
                MAX_CONTENT >> 20
            ),
            Self::TooManyNames => f.write_str("has more names in it than a snapshot is made of"),
            Self::Unstable => f.write_str("changed each time it was read; try again when it rests"),
            Self::Gone => f.write_str("went away before it was read"),
            Self::Relocated => f.write_str("a link stands on the way to it by now"),
            Self::Target => f.write_str("a link that holds bytes which are not UTF-8"),
            Self::PathTooLong => f.write_str("its path is longer than a path can be"),
            Self::Virtual => f.write_str("made up by the kernel, no configuration"),
            Self::OtherFileSystem => f.write_str("another file system, as was asked for"),
            Self::Policies => f.write_str("the policy folder itself"),
        }
    }
}
