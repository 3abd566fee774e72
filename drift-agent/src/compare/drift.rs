//! The kinds of drift.

use serde::Serialize;

/// The kinds of drift: a closed set; the name is the same in code, records, metrics and documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drift {
    Content,
    Missing,
    Type,
    Mode,
    Owner,
    /// The declared path resolves elsewhere: a symlink stands in its way.
    Relocated,
    Unreadable,
    /// Still being written: no two reads agreed.
    Unstable,
}
