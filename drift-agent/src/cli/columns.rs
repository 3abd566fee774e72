//! Tables for people: cells side by side, sentences below them, and how long something took or is ago.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Between the columns.
pub(super) const GAP: &str = "   ";
/// Between them where there is little room.
const NARROW: &str = "  ";
/// Nothing is wider, on any terminal.
const MOST: usize = 100;
/// A cell that is cut has so much left.
const LEAST: usize = 6;

/// A cell, and whether it stands to the right.
pub(super) type Row = Vec<(String, bool)>;

/// Rows with their columns side by side.
pub(super) fn columns(rows: &[Row]) -> String {
    aligned(rows, &widths(rows), GAP).concat()
}

/// A line for each row, none of them too wide: what stands to the left is cut in the middle where it must be.
pub(super) fn fitted(mut rows: Vec<Row>) -> Vec<String> {
    let mut widths = widths(&rows);
    let total = |widths: &[usize], gap: &str| {
        1 + widths.iter().sum::<usize>() + gap.len() * widths.len().saturating_sub(1)
    };
    if total(&widths, GAP) <= MOST {
        return aligned(&rows, &widths, GAP);
    }
    while total(&widths, NARROW) > MOST {
        let is_text = |at: usize| rows.iter().flat_map(|row| row.get(at)).all(|cell| !cell.1);
        let widest = (0..widths.len())
            .filter(|at| widths[*at] > LEAST && is_text(*at))
            .max_by_key(|at| widths[*at]);
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
    }
    for row in &mut rows {
        for ((cell, _), width) in row.iter_mut().zip(&widths) {
            *cell = cut(cell, *width);
        }
    }
    aligned(&rows, &widths, NARROW)
}

fn widths(rows: &[Row]) -> Vec<usize> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    (0..count)
        .map(|at| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells.map(|(cell, _)| cell.width()).max().unwrap_or(0)
        })
        .collect()
}

fn aligned(rows: &[Row], widths: &[usize], gap: &str) -> Vec<String> {
    rows.iter()
        .map(|row| {
            let cells = row.iter().zip(widths).map(|((cell, right), width)| {
                let pad = " ".repeat(width.saturating_sub(cell.width()));
                if *right {
                    pad + cell
                } else {
                    cell.clone() + &pad
                }
            });
            let line = format!(" {}", cells.collect::<Vec<_>>().join(gap));
            format!("{}\n", line.trim_end())
        })
        .collect()
}

/// At most so wide: both ends of a name say more than its middle.
fn cut(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(1);
    let back: String = text.chars().rev().collect();
    let end: String = beginning(&back, room / 2).chars().rev().collect();
    format!("{}…{end}", beginning(text, room - room / 2))
}

/// So much of `text` as is so wide.
fn beginning(text: &str, most: usize) -> &str {
    let mut width = 0;
    let end = text.char_indices().find(|(_, c)| {
        width += c.width().unwrap_or(0);
        width > most
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

/// `text` on lines that begin with `indent`. It is broken between words; a word that is wider than a line goes on in the next, so that all of it is there.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    let room = MOST.saturating_sub(indent.width()).max(LEAST);
    let mut lines = String::new();
    let mut line = String::new();
    let mut end = |line: &mut String| {
        lines += &format!("{indent}{line}\n");
        line.clear();
    };
    for mut word in text.split(' ') {
        if !line.is_empty() && line.width() + 1 + word.width() > room {
            end(&mut line);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        while word.width() > room {
            let part = beginning(word, room);
            line += part;
            end(&mut line);
            word = &word[part.len()..];
        }
        line += word;
    }
    end(&mut line);
    lines
}

/// `45 s`, `4 min`, `3 h`, `3 days`.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(text: &str) -> (String, bool) {
        (text.to_owned(), false)
    }

    #[test]
    fn what_is_too_wide_is_cut_in_the_middle_and_numbers_are_not() {
        let long = format!("{}-{}", "a".repeat(80), "b".repeat(80));
        let rows = vec![
            vec![left("node"), ("files".to_owned(), true), left("agent")],
            vec![
                left(&long),
                ("4294967295".to_owned(), true),
                left("配".repeat(90).as_str()),
            ],
        ];
        let lines = fitted(rows);
        for line in &lines {
            assert!(line.trim_end().width() <= MOST, "{line}");
        }
        assert!(lines[1].contains("4294967295"), "{lines:?}");
        assert!(
            lines[1].starts_with(" aaa") && lines[1].contains("aa…bb"),
            "{lines:?}"
        );
        assert!(lines[1].trim_end().ends_with('配'), "{lines:?}");
        assert_eq!(cut("abcdefgh", 5), "ab…gh");
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn sentences_are_broken_between_words_and_long_words_are_whole() {
        let path = format!("/etc/{}", "x".repeat(150));
        let text = wrapped(&format!("{path}: content, by nobody"), "    ");
        assert!(text.lines().all(|line| line.width() <= MOST), "{text}");
        let whole: String = text.lines().map(str::trim_start).collect();
        assert!(whole.starts_with(&path), "{text}");
        assert_eq!(wrapped("a b", " "), " a b\n");
    }
}
