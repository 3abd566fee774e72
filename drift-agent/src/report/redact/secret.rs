//! The values of declared secrets, found by being the same.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

/// A shorter value is recognised only where it is all of a value: `LIVE` must not blank `DELIVERY`.
const SHORTEST_WITHIN: usize = 6;
/// A longer value is recognised in the middle of a word too.
const IN_WORDS: usize = 16;

#[derive(Clone, Default)]
pub(super) struct Secrets {
    values: BTreeSet<Arc<str>>,
}

impl Secrets {
    /// A secret of several lines is seen line by line.
    pub(super) fn add(&mut self, secret: &str) {
        let lines = secret.lines().map(str::trim);
        let lines = lines.filter(|line| line.len() >= SHORTEST_WITHIN);
        let whole = [secret, secret.trim()];
        let all = whole.into_iter().chain(lines);
        let values = all.filter(|text| !text.is_empty()).map(Arc::from);
        self.values.extend(values);
    }

    /// Whether all of `text` is one.
    pub(super) fn is_one(&self, text: &str) -> bool {
        self.values.contains(text) || self.values.contains(text.trim())
    }

    /// Where one stands in `text`.
    pub(super) fn within(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for value in self
            .values
            .iter()
            .filter(|value| value.len() >= SHORTEST_WITHIN)
        {
            for (at, part) in text.match_indices(&**value) {
                let end = at + part.len();
                let touches = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                let in_word =
                    touches(text[..at].chars().next_back()) || touches(text[end..].chars().next());
                if !in_word || value.len() >= IN_WORDS {
                    found.push(at..end);
                }
            }
        }
        found
    }
}
