//! Lines, as the formats that are made of them see them.

use super::value::Span;

/// One line: where it begins and where its text ends (without `\n` or `\r\n`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Where the next one begins.
    pub(super) next: usize,
}

impl Line {
    /// The line that begins at `start`.
    pub(super) fn at(text: &str, start: usize) -> Option<Self> {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let length = rest.find('\n').unwrap_or(rest.len());
        let line = rest[..length].strip_suffix('\r').unwrap_or(&rest[..length]);
        Some(Self {
            start,
            end: start + line.len(),
            next: (start + length + 1).min(text.len()),
        })
    }

    /// The line that byte `at` is in.
    pub(super) fn around(text: &str, at: usize) -> Option<Self> {
        let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
        Self::at(text, start)
    }

    pub(super) fn text(self, text: &str) -> &str {
        &text[self.start..self.end]
    }
}

/// What stands around keys and values. Nothing else is white space to all programs: a no-break space that was pasted in, or a form feed, is
/// part of what it stands beside.
pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// `text` without blanks at its beginning.
pub(super) fn bare_start(text: &str) -> &str {
    text.trim_start_matches(is_blank)
}

/// `text` without blanks at its end.
pub(super) fn bare_end(text: &str) -> &str {
    text.trim_end_matches(is_blank)
}

/// `text` without blanks at its ends.
pub(super) fn bare(text: &str) -> &str {
    bare_start(bare_end(text))
}

/// The part of `text` from `start` to `end` without blanks at its ends.
pub(super) fn trim(text: &str, start: usize, end: usize) -> Span {
    let part = &text[start..end];
    let start = start + (part.len() - bare_start(part).len());
    Span::new(start, start + bare(part).len())
}

/// How far a line is indented.
pub(super) fn indentation(line: &str) -> &str {
    &line[..line.len() - bare_start(line).len()]
}

/// Whether a line ends in a backslash that makes the next one part of it.
pub(super) fn goes_on(line: &str) -> bool {
    let backslashes = line.len() - line.trim_end_matches('\\').len();
    backslashes % 2 == 1
}
