//! What people do by hand: hold healing, let it go on, heal now. Requests, and what is answered to the last.

use serde::{Deserialize, Serialize};

/// A change of versions is not to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aborting {
    /// One of those that it moves.
    pub policy: String,
    /// Who asks, as far as the command knows; the agent adds what the kernel says of it.
    pub by: String,
    pub reason: String,
}

/// Hold healing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pausing {
    /// `None`: of all policies.
    pub policy: Option<String>,
    /// At most what [`LONGEST_PAUSE`](crate::store::LONGEST_PAUSE) is.
    pub seconds: u64,
    /// Who asks, as far as the command knows; the agent adds what the kernel says of it.
    pub by: String,
    pub reason: String,
}

/// Let healing go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resuming {
    /// `None`: whatever is paused.
    pub policy: Option<String>,
    pub by: String,
}

/// Heal now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Healing {
    /// These paths, and what is beneath them. Empty: all. Any bytes: see [`PathForm`](crate::store::PathForm).
    pub paths: Vec<crate::store::PathForm>,
    pub policy: Option<String>,
    /// Only say what would happen.
    pub dry_run: bool,
    /// In spite of brakes.
    pub force: bool,
    pub by: String,
}

/// What has come of a heal by hand, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// Paths that were asked for and are as declared: counted, and not shown.
    pub as_declared: usize,
    /// What was done for programs to take it in: a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Escaped.
    pub path: String,
    pub policy: String,
    pub version: String,
    /// Kinds of drift.
    pub drift: Vec<String>,
    /// What healing does, in a word; what it comes to, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    pub outcome: Outcome,
    /// For held and failed: one of the reasons of records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    WouldHeal,
    /// A brake holds it; without `--force` it is left.
    Held,
    /// Nothing of it is put back by healing.
    Reported,
    Healed,
    Failed,
    Unverifiable,
    /// It was asked for, and there is no answer yet.
    NotOver,
}

impl Outcome {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::WouldHeal => "would-heal",
            Outcome::Held => "held",
            Outcome::Reported => "reported",
            Outcome::Healed => "healed",
            Outcome::Failed => "failed",
            Outcome::Unverifiable => "unverifiable",
            Outcome::NotOver => "not-over",
        }
    }
}

impl Rows {
    /// The status of the command: 0, or 4 where something is left that is not as declared.
    #[must_use]
    pub fn status(&self) -> u8 {
        let is_well = |row: &Row| matches!(row.outcome, Outcome::Healed | Outcome::WouldHeal);
        if self.rows.iter().all(is_well) { 0 } else { 4 }
    }
}
