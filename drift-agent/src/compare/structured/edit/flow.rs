//! Maps in brackets: JSON objects, YAML's and TOML's inline ones.

use super::splice::Splices;
use crate::compare::structured::{
    lines::{Line, indentation},
    value::{Entry, Node},
};

/// How comments are written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comments {
    None,
    /// `// …` and `/* … */`.
    Slashes,
    /// `# …`.
    Hash,
}

/// Puts `items` (`"key": value` each) behind what the map has.
pub(super) fn insert(splices: &mut Splices<'_>, map: &Node, items: &[String], comments: Comments) {
    let text = splices.text;
    let entries = map.entries().unwrap_or_default();
    let Some(last) = entries.iter().rfind(|entry| !entry.merged) else {
        first(splices, map, items);
        return;
    };
    let eol = splices.eol();
    let own_line = begins_line(text, last.span.start());
    let separator = own_line.map_or_else(|| " ".to_owned(), |indent| format!("{eol}{indent}"));
    // A comment on the last entry's line stays on it.
    let behind = |at: usize| {
        let line = Line::around(text, at).map_or(at, |line| line.end.max(at));
        let rest = text[at..line].trim();
        let is_comment = match comments {
            Comments::None => false,
            Comments::Slashes => {
                rest.starts_with("//") || rest.starts_with("/*") && rest.ends_with("*/")
            }
            Comments::Hash => rest.starts_with('#'),
        };
        if own_line.is_some() && (rest.is_empty() || is_comment) {
            line
        } else {
            at
        }
    };
    let end = last.span.end();
    let next = skip(text, end, comments);
    if text[next..].starts_with(',') {
        let added: String = items
            .iter()
            .map(|item| format!("{separator}{item},"))
            .collect();
        splices.insert(behind(next + 1), added);
    } else {
        splices.insert(end, ",");
        let added = items.join(&format!(",{separator}"));
        splices.insert(behind(end), format!("{separator}{added}"));
    }
}

/// The first entries of a map.
fn first(splices: &mut Splices<'_>, map: &Node, items: &[String]) {
    let text = splices.text;
    let (open, close) = (map.span.start() + 1, map.span.end().saturating_sub(1));
    let joined = items.join(", ");
    if close < open || !text[open..close].trim().is_empty() {
        // A comment stands inside, or what merge keys bring in.
        splices.insert(close.max(open), format!(" {joined} "));
        return;
    }
    splices.replace(open..close, joined);
}

/// Takes entries out, with their commas, and lines that held nothing else.
pub(super) fn remove(splices: &mut Splices<'_>, map: &Node, removed: &[usize], comments: Comments) {
    let text = splices.text;
    let entries = map.entries().unwrap_or_default();
    let comma = |entry: &Entry| {
        let at = skip(text, entry.span.end(), comments);
        text[at..].starts_with(',').then_some(at)
    };
    let last_kept = (0..entries.len())
        .rev()
        .find(|index| !removed.contains(index));
    let ends_in_comma = entries.last().and_then(comma).is_some();
    if let Some(kept) = last_kept
        && kept + 1 < entries.len()
        && !ends_in_comma
        && let Some(at) = comma(&entries[kept])
    {
        splices.replace(at..at + 1, "");
    }
    for entry in removed.iter().filter_map(|index| entries.get(*index)) {
        let mut end = entry.span.end();
        match comma(entry) {
            Some(at) if text[end..at].trim().is_empty() => end = at + 1,
            Some(at) => splices.replace(at..at + 1, ""),
            None => {}
        }
        let line =
            Line::around(text, end).map_or((end, end), |line| (line.end.max(end), line.next));
        let start = entry.span.start();
        match own_line(text, start) {
            Some(indent) if text[end..line.0].trim().is_empty() => {
                splices.replace(start - indent.len()..line.1.max(end), "");
            }
            // At the end what stands before it goes with it, else what stands behind it.
            _ if last_kept.is_none_or(|kept| entry.span.start() > entries[kept].span.start()) => {
                let before = text[..start].trim_end_matches([' ', '\t']).len();
                splices.replace(before..end, "");
            }
            _ => {
                let blank = text[end..line.0].len() - text[end..line.0].trim_start().len();
                splices.replace(start..end + blank, "");
            }
        }
    }
}

/// The indentation of the line that byte `at` is in, if nothing else stands before it.
pub(super) fn own_line(text: &str, at: usize) -> Option<&str> {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = &text[start..at];
    (start > 0 && indentation(before).len() == before.len()).then_some(before)
}

/// As [`own_line`], or behind a comment.
fn begins_line(text: &str, at: usize) -> Option<&str> {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = text[start..at].trim();
    let is_comment = before.starts_with("/*") && before.ends_with("*/");
    let is_own = start > 0 && (before.is_empty() || is_comment);
    is_own.then(|| indentation(&text[start..at]))
}

/// The next byte that is neither blank nor in a comment.
fn skip(text: &str, mut at: usize, comments: Comments) -> usize {
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        at += blank;
        let rest = &text[at..];
        let line = rest.find('\n').unwrap_or(rest.len());
        let length = match comments {
            Comments::Hash if rest.starts_with('#') => line,
            Comments::Slashes if rest.starts_with("//") => line,
            Comments::Slashes if rest.starts_with("/*") => {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            }
            Comments::None | Comments::Hash | Comments::Slashes => return at,
        };
        at += length;
    }
}
