//! One immutable declared snapshot.

use std::path::PathBuf;

use semver::Version;

use super::{
    compare::Compare,
    content::Content,
    expect::{FinalNewline, Redact, Severity},
    guard::Mode,
    reload::AfterHeal,
    requirement::{Dependency, Environment},
    source::Spanned,
};

/// A declared snapshot of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVersion {
    /// Of the document, not of the policy.
    pub name: Spanned<String>,
    /// The policy this is a version of.
    pub policy: Spanned<String>,
    pub version: Spanned<Version>,
    pub files: Vec<FileSpec>,
    /// What processes must find in their environment.
    pub environment: Vec<Environment>,
    /// Versions of other policies that this one needs.
    pub dependencies: Vec<Dependency>,
}

/// What a version says about one path: a regular file with this content.
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
    /// `None`: what the policy says.
    pub on_drift: Option<Mode>,
    pub severity: Severity,
    pub redact: Redact,
    /// Bytes; a file with more is not read, and not as declared.
    pub max_size: Option<Spanned<u64>>,
    pub final_newline: FinalNewline,
    pub compare: Spanned<Compare>,
    pub after_heal: Vec<Spanned<AfterHeal>>,
}

/// A user or a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Principal {
    /// A number, written as such or as a text of digits. Never the one that means "leave it alone" to the kernel.
    Id(u32),
    /// Looked up on each node.
    Name(String),
}
