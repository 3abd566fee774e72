//! From the parser's lines and columns to bytes.

use drift_common::yaml::Marker;

/// Remembers where it was last: what is asked for mostly goes forward, and a line may be a megabyte long.
pub(super) struct Positions<'t> {
    text: &'t str,
    /// Where each line begins. A line ends where YAML ends it: `\n`, `\r\n`, or `\r` alone.
    lines: Vec<u32>,
    is_ascii: bool,
    last: (usize, usize, usize),
}

impl<'t> Positions<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let bytes = text.as_bytes();
        let mut lines = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' || *byte == b'\r' && bytes.get(at + 1) != Some(&b'\n') {
                lines.push(u32::try_from(at + 1).unwrap_or(u32::MAX)); // `MAX_SIZE` is far below
            }
        }
        Self {
            text,
            lines,
            is_ascii: text.is_ascii(),
            last: (0, 0, 0),
        }
    }

    /// The byte where `marker` stands; the end of the text for one behind it.
    pub(super) fn byte(&mut self, marker: Marker) -> usize {
        let (line, column) = (marker.line().saturating_sub(1), marker.col());
        let Some(start) = self.lines.get(line).map(|start| *start as usize) else {
            return self.text.len();
        };
        if self.is_ascii {
            return (start + column).min(self.text.len());
        }
        let (known_line, known_column, known) = self.last;
        let (from, skip) = if known_line == line && known_column <= column {
            (known, column - known_column)
        } else {
            (start, column)
        };
        let at = self.text[from..]
            .char_indices()
            .nth(skip)
            .map_or(self.text.len(), |(at, _)| from + at);
        self.last = (line, column, at);
        at
    }
}
