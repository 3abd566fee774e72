//! One immutable declared snapshot.

use std::{path::PathBuf, sync::Arc};

use semver::Version;

use super::source::Spanned;

/// A declared snapshot of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVersion {
    /// Of the document, not of the policy.
    pub name: Spanned<String>,
    /// The policy this is a version of.
    pub policy: Spanned<String>,
    pub version: Spanned<Version>,
    pub files: Vec<FileSpec>,
}

/// What a version says about one path: a regular file with exactly this content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Absolute, without `.`, `..`, empty components or a closing `/`. Any bytes but NUL.
    pub path: Spanned<PathBuf>,
    pub content: Spanned<Content>,
    /// Permission bits with setuid, setgid and sticky (07777). `None`: left alone.
    pub mode: Option<u32>,
    /// `None`: left alone.
    pub owner: Option<Spanned<Principal>>,
    /// `None`: left alone.
    pub group: Option<Spanned<Principal>>,
}

/// Where the bytes of a file come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Inline(Arc<str>),
    /// Those of this file, relative to the folder of the policy file and beneath it.
    File(PathBuf),
}

/// A user or a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Principal {
    /// A number, written as such or as a text of digits. Never the one that means "leave it alone" to the kernel.
    Id(u32),
    /// Looked up on each node.
    Name(String),
}
