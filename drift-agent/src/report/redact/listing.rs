//! The differences of a structured file, one a line: `listen        80  ->  8080`.

use drift_common::escape;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{MASK, Redactor, Shown, Why};
use crate::compare::structured::{Difference, Differences, Kind, Side};

/// What a terminal is taken to have.
pub(super) const COLUMNS: usize = 100;
/// Of the names of what differs.
const NAME: usize = 40;
/// Lines, at most.
const LINES: usize = 200;
/// What is left for a value when even the longest name and note stand beside it.
const LEAST: usize = 8;

impl Redactor {
    /// The differences of a structured file, a line each, redacted, escaped and no wider than a terminal.
    #[must_use]
    pub fn listing(&self, differences: &Differences) -> Vec<Shown> {
        let shown = differences.list.iter().take(LINES);
        let names: Vec<String> = shown.clone().map(name).collect();
        let width = names.iter().map(|name| name.width()).max().unwrap_or(0);
        let mut lines: Vec<Shown> = names
            .iter()
            .zip(shown)
            .map(|(name, difference)| self.difference(name, width, difference))
            .collect();
        let more = differences.omitted + differences.list.len().saturating_sub(LINES);
        if more > 0 {
            let text = format!("… and {more} more");
            lines.push(Shown { text, why: None });
        }
        lines
    }

    fn difference(&self, name: &str, width: usize, difference: &Difference) -> Shown {
        if difference.kind == Kind::Equivalent {
            let text = "written in another way; the values are the same".to_owned();
            return Shown { text, why: None };
        }
        let side = |side: &Option<Side>| side.as_ref().map(|side| self.bare(&side.text));
        let (declared, observed) = (side(&difference.declared), side(&difference.observed));
        let because =
            |side: &Option<(String, Option<Why>)>| side.as_ref().and_then(|(_, why)| *why);
        let why = because(&declared).max(because(&observed));
        let kind = difference.kind.name();
        let note = match why {
            Some(why) => format!("   ({kind}; redacted {})", why.name()),
            None if difference.kind == Kind::Changed => String::new(),
            None => format!("   ({kind})"),
        };
        let text = |side: Option<(String, Option<Why>)>| {
            side.map_or_else(
                || "-".to_owned(),
                |(text, _)| escape::printable(&text).into_owned(),
            )
        };
        let pad = " ".repeat(width.saturating_sub(name.width()));
        let left = COLUMNS.saturating_sub(width + 2 + "  ->  ".len() + note.width());
        let (declared, observed) = fit(&text(declared), &text(observed), left.max(2 * LEAST));
        let text = format!("{name}{pad}  {declared}  ->  {observed}{note}");
        Shown {
            text: cut(&text, COLUMNS),
            why,
        }
    }
}

/// Cut in the middle where it is long: both ends say more.
fn name(difference: &Difference) -> String {
    let whole = match difference.pointer.dotted() {
        whole if whole.is_empty() => "(all of it)".to_owned(),
        whole => whole,
    };
    if whole.width() <= NAME {
        return whole;
    }
    let half = (NAME - 1) / 2;
    let end: String = whole.chars().rev().collect();
    let end: String = prefix(&end, half).chars().rev().collect();
    format!("{}…{end}", prefix(&whole, NAME - 1 - half))
}

/// Both values in `width` columns. Where they have to be cut, what they begin with alike goes first: what differs has to be seen.
fn fit(one: &str, other: &str, width: usize) -> (String, String) {
    if one.width() + other.width() <= width {
        return (one.to_owned(), other.to_owned());
    }
    let half = width / 2;
    let (first, second) = if one.width() <= half {
        (one.width(), width - one.width())
    } else if other.width() <= half {
        (width - other.width(), other.width())
    } else {
        (half, width - half)
    };
    /// Characters before the first difference that stay.
    const BEFORE: usize = 4;
    let same = one
        .chars()
        .zip(other.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let keep = first.min(second).saturating_sub(BEFORE + 1);
    let skip = if same > keep && one.chars().count().max(other.chars().count()) > same {
        same.saturating_sub(BEFORE)
    } else {
        0
    };
    let from = |text: &str| {
        let masked = text.starts_with(MASK);
        if skip == 0 || masked {
            return text.to_owned();
        }
        let rest: String = text.chars().skip(skip).collect();
        format!("…{rest}")
    };
    (cut(&from(one), first), cut(&from(other), second))
}

/// `text` in at most `width` columns, with `…` at its end where something is missing.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    format!("{}…", prefix(text, width.saturating_sub(1)))
}

/// As much of `text` as has room in `width` columns.
fn prefix(text: &str, width: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > width
    });
    end.map_or(text, |(at, _)| &text[..at])
}
