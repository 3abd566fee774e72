//! What who writes to the cluster must know of what was read from it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::seen::Key;

/// After so long without an answer what is known counts as old.
pub(super) const FRESH: Duration = Duration::from_secs(300);

/// As it is now. One task writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// The UID of this node's Node; `None`: it was not seen yet, or there is none.
    pub(super) node: Option<String>,
    /// The Policies of this node by their names on it, with their UIDs.
    pub(super) policies: BTreeMap<String, (Key, String)>,
    /// Why what a namespace says is not taken.
    pub(super) refused: BTreeMap<String, String>,
    /// Why what the node's own policy folder says is not taken.
    pub(super) files: Option<String>,
    /// Everything was listed at least once since the start.
    pub(super) complete: bool,
    /// How often the API server may have become another one: each time everything is listed anew.
    pub(super) era: u64,
    /// Since when nothing but errors has come.
    pub(super) silent: Option<Instant>,
}

impl View {
    /// Whether nothing was heard for too long.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        let silent = self
            .silent
            .map(|since| now.saturating_duration_since(since));
        silent.is_some_and(|silent| silent >= FRESH)
    }
}
