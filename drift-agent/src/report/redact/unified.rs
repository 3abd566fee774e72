//! Two texts as people know differences: lines with `-` and `+`, and a few of those around them.

use drift_common::escape;
use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use super::{
    Redactor, Shown, Why,
    line::Lines,
    listing::{COLUMNS, cut},
};

/// Lines around a difference that are shown too.
const AROUND: usize = 3;
/// Lines shown, at most.
const LINES: usize = 200;
/// Lines of both sides between the first and the last difference, at most: the time this takes grows with their square. Where there are
/// more, they are shown as one difference.
const COMPARED: usize = 8000;

impl Redactor {
    /// What differs between two texts, a line each, redacted, escaped and no wider than a terminal. `-` is declared, `+` is there.
    ///
    /// Redaction looks at whole texts, so a line within a key's block is hidden also where the block's first line is not shown.
    #[must_use]
    pub fn unified(&self, declared: &[u8], observed: &[u8]) -> Vec<Shown> {
        let (one, other) = (lines(declared), lines(observed));
        let (one_shown, other_shown) = (self.all(&one), self.all(&other));
        let mut out = Out::default();
        for group in group_diff_ops(operations(&one, &other), AROUND) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else {
                continue;
            };
            let old = first.old_range().start..last.old_range().end;
            let new = first.new_range().start..last.new_range().end;
            let range =
                |range: &std::ops::Range<usize>| format!("{},{}", range.start + 1, range.len());
            out.push(format!("@@ -{} +{} @@", range(&old), range(&new)), None);
            for operation in &group {
                let (old, new) = (operation.old_range(), operation.new_range());
                if let DiffOp::Equal { .. } = operation {
                    old.for_each(|line| out.line(' ', &one_shown[line]));
                } else {
                    old.for_each(|line| out.line('-', &one_shown[line]));
                    new.for_each(|line| out.line('+', &other_shown[line]));
                }
            }
        }
        if out.omitted > 0 {
            let text = format!("… and {} more lines", out.omitted);
            out.shown.push(Shown { text, why: None });
        }
        out.shown
    }

    fn all(&self, lines: &[&[u8]]) -> Vec<(String, Option<Why>)> {
        let mut state = Lines::new(self);
        let show = |line: &&[u8]| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            match std::str::from_utf8(line) {
                Ok(text) => {
                    let (shown, why) = state.next(text);
                    (escape::printable(&shown).into_owned(), why)
                }
                // Redacted as the text it nearly is, each wrong byte a stand-in.
                Err(_) => {
                    let (shown, why) = state.next(&String::from_utf8_lossy(line));
                    (escape::printable(&shown).into_owned(), why)
                }
            }
        };
        lines.iter().map(show).collect()
    }
}

#[derive(Default)]
struct Out {
    shown: Vec<Shown>,
    omitted: usize,
}

impl Out {
    fn line(&mut self, sign: char, (text, why): &(String, Option<Why>)) {
        if self.shown.len() < LINES {
            self.push(cut(&format!("{sign}{text}"), COLUMNS), *why);
        } else {
            self.omitted += 1;
        }
    }

    fn push(&mut self, text: String, why: Option<Why>) {
        if self.shown.len() < LINES {
            self.shown.push(Shown { text, why });
        }
    }
}

/// Each with its end, so that a missing new line at the end is a difference.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn operations(one: &[&[u8]], other: &[&[u8]]) -> Vec<DiffOp> {
    let same = |(one, other): &(&&[u8], &&[u8])| one == other;
    let shorter = one.len().min(other.len());
    let start = one.iter().zip(other).take_while(same).count();
    let rest = one.iter().rev().zip(other.iter().rev());
    let end = rest.take(shorter - start).take_while(same).count();
    let (old, new) = (one.len() - end - start, other.len() - end - start);
    if old + new <= COMPARED {
        return capture_diff_slices(Algorithm::Myers, one, other);
    }
    let equal = |old_index, new_index, len| DiffOp::Equal {
        old_index,
        new_index,
        len,
    };
    vec![
        equal(0, 0, start),
        DiffOp::Replace {
            old_index: start,
            old_len: old,
            new_index: start,
            new_len: new,
        },
        equal(start + old, start + new, end),
    ]
}
