//! Pieces of a text to be replaced.

use std::ops::Range;

pub(super) struct Splices<'t> {
    pub(super) text: &'t str,
    pieces: Vec<(Range<usize>, String)>,
}

impl<'t> Splices<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            pieces: Vec::new(),
        }
    }

    pub(super) fn replace(&mut self, range: Range<usize>, with: impl Into<String>) {
        self.pieces.push((range, with.into()));
    }

    pub(super) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    /// What ends the lines of this text.
    pub(super) fn eol(&self) -> &'static str {
        if self.text.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        }
    }

    /// The text with all pieces replaced, those at the same place in the order they came; none where two overlap.
    pub(super) fn finish(mut self) -> Option<String> {
        self.pieces
            .sort_by_key(|(range, _)| (range.start, range.end));
        let mut edited = String::with_capacity(self.text.len() + 64);
        let mut at = 0;
        for (range, with) in &self.pieces {
            edited.push_str(self.text.get(at..range.start)?);
            edited.push_str(with);
            at = range.end;
        }
        edited.push_str(self.text.get(at..)?);
        Some(edited)
    }
}
