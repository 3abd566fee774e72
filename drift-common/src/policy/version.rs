//! One immutable declared snapshot.

use std::path::PathBuf;

use semver::Version;

use super::{
    attribute::Attributes,
    compare::Compare,
    content::Content,
    expect::{HardLinks, Heed, Redact, Severity, Writing},
    globs::Globs,
    guard::Mode,
    reload::AfterHeal,
    requirement::{Dependency, Environment},
    source::Spanned,
    through::Through,
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
    pub symlinks: Vec<SymlinkSpec>,
    /// Paths at which nothing may be.
    pub absent: Vec<AbsentSpec>,
    pub directories: Vec<DirectorySpec>,
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
    /// `None`: no link may be on its way.
    pub through: Option<Through>,
    pub content: Spanned<Content>,
    /// Permission bits with setuid, setgid and sticky (07777). `None`: left alone.
    pub mode: Option<u32>,
    /// `None`: left alone.
    pub owner: Option<Spanned<Principal>>,
    /// `None`: left alone.
    pub group: Option<Spanned<Principal>>,
    pub attributes: Attributes,
    /// `None`: what the policy says.
    pub on_drift: Option<Mode>,
    pub severity: Severity,
    pub redact: Redact,
    /// Bytes; a file with more is not read, and not as declared.
    pub max_size: Option<Spanned<u64>>,
    /// One line end more or less at the end.
    pub final_newline: Heed,
    /// `\r\n` against `\n`.
    pub line_endings: Heed,
    pub hard_links: HardLinks,
    pub write: Writing,
    pub compare: Spanned<Compare>,
    pub after_heal: Vec<Spanned<AfterHeal>>,
}

/// A symbolic link. A mask is one to `/dev/null`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymlinkSpec {
    pub path: Spanned<PathBuf>,
    /// `None`: no link may be on its way.
    pub through: Option<Through>,
    /// Exactly what the link holds. Nothing is said of what is there.
    pub target: PathBuf,
    /// `None`: left alone.
    pub owner: Option<Spanned<Principal>>,
    /// `None`: left alone.
    pub group: Option<Spanned<Principal>>,
    /// Of the link itself.
    pub attributes: Attributes,
    pub on_drift: Option<Mode>,
    pub severity: Severity,
}

/// Nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentSpec {
    pub path: Spanned<PathBuf>,
    /// `None`: no link may be on its way.
    pub through: Option<Through>,
    pub on_drift: Option<Mode>,
    pub severity: Severity,
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectorySpec {
    pub path: Spanned<PathBuf>,
    /// `None`: no link may be on its way.
    pub through: Option<Through>,
    /// As of a file.
    pub mode: Option<u32>,
    /// `None`: left alone.
    pub owner: Option<Spanned<Principal>>,
    /// `None`: left alone.
    pub group: Option<Spanned<Principal>>,
    pub attributes: Attributes,
    /// `None`: what is in it is left alone.
    pub exhaustive: Option<Exhaustive>,
    pub on_drift: Option<Mode>,
    pub severity: Severity,
}

/// Nothing but what is declared may be in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exhaustive {
    /// Names that may be there all the same.
    pub ignore: Globs,
    pub on_unexpected: OnUnexpected,
}

/// What healing does with what may not be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnexpected {
    /// Nothing: it is reported.
    #[default]
    Report,
    /// It is removed; of directories, those that are empty.
    Remove,
}

impl OnUnexpected {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 2] = [("report", Self::Report), ("remove", Self::Remove)];
}

/// A user or a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// A number, written as such or as a text of digits. Never the one that means "leave it alone" to the kernel.
    Id(u32),
    /// Looked up on each node.
    Name(String),
}
