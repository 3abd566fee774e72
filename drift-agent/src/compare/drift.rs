//! The kinds of drift.

use serde::Serialize;

/// The kinds of drift: a closed set; the name is the same in code, records, metrics and documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drift {
    Content,
    /// The file says the same, written in another way.
    ContentEquivalent,
    Missing,
    /// Something is where nothing may be.
    Unexpected,
    Type,
    Mode,
    Owner,
    /// An extended attribute, an access list, a label, capabilities or flags.
    Xattr,
    /// A symbolic link holds something else.
    LinkTarget,
    /// The declared path resolves elsewhere: a symlink stands in its way.
    Relocated,
    /// A file has another name.
    Hardlinked,
    Unreadable,
    /// Still being written: no two reads agreed.
    Unstable,
}

impl Drift {
    /// Every kind.
    pub const ALL: [Drift; 13] = [
        Drift::Content,
        Drift::ContentEquivalent,
        Drift::Missing,
        Drift::Unexpected,
        Drift::Type,
        Drift::Mode,
        Drift::Owner,
        Drift::Xattr,
        Drift::LinkTarget,
        Drift::Relocated,
        Drift::Hardlinked,
        Drift::Unreadable,
        Drift::Unstable,
    ];

    /// The kind's name in records, metrics and documents (the same that `Serialize` writes).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Drift::Content => "content",
            Drift::ContentEquivalent => "content-equivalent",
            Drift::Missing => "missing",
            Drift::Unexpected => "unexpected",
            Drift::Type => "type",
            Drift::Mode => "mode",
            Drift::Owner => "owner",
            Drift::Xattr => "xattr",
            Drift::LinkTarget => "link-target",
            Drift::Relocated => "relocated",
            Drift::Hardlinked => "hardlinked",
            Drift::Unreadable => "unreadable",
            Drift::Unstable => "unstable",
        }
    }
}
