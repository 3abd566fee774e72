//! Fits the pieces of a line into a terminal's columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// One piece of a line.
#[derive(Debug)]
pub(super) struct Cell {
    text: String,
    /// Columns kept for it where there is room, so that lines stand under each other.
    pad: usize,
    /// Columns it is not cut below while another cell has more.
    min: usize,
    /// Where not even that has room, the cell with the most of these goes first. None: it stays.
    spare: u8,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, pad: usize, min: usize) -> Cell {
        Cell {
            text: text.into(),
            pad,
            min,
            spare: 0,
        }
    }

    pub(super) fn spare(self, spare: u8) -> Cell {
        Cell { spare, ..self }
    }
}

const GAP: usize = 2;

/// Columns below which no cell is cut by itself.
const NARROW: usize = 8;

/// Joins the cells, at most `columns` wide. First the padding goes, from the right; then the widest cell is cut in its middle, and so on. On a
/// narrow terminal what can be spared is left out, and what is left is cut further.
pub(super) fn fit(mut cells: Vec<Cell>, columns: usize) -> String {
    cells.retain(|cell| !cell.text.is_empty());
    spare(&mut cells, columns);
    let gaps = GAP * cells.len().saturating_sub(1);
    let mut widths: Vec<usize> = cells.iter().map(|cell| width(&cell.text)).collect();
    let mut pads: Vec<usize> = cells
        .iter()
        .zip(&widths)
        .map(|(cell, width)| cell.pad.saturating_sub(*width))
        .collect();
    if let Some(last) = pads.last_mut() {
        *last = 0;
    }
    let mut over =
        (gaps + widths.iter().sum::<usize>() + pads.iter().sum::<usize>()).saturating_sub(columns);
    for pad in pads.iter_mut().rev() {
        let less = over.min(*pad);
        *pad -= less;
        over -= less;
    }
    let least = |at: usize| cells[at].min;
    let narrow = |at: usize| cells[at].min.min(NARROW);
    for least in [&least as &dyn Fn(usize) -> usize, &narrow] {
        while over > 0 {
            let room = |(at, width): (usize, &usize)| (width.saturating_sub(least(at)), at);
            let Some((room, at)) = widths.iter().enumerate().map(room).max() else {
                break;
            };
            if room == 0 {
                break;
            }
            widths[at] -= 1;
            over -= 1;
        }
    }
    let mut line = String::new();
    for (at, cell) in cells.iter().enumerate() {
        if at > 0 {
            line.extend(std::iter::repeat_n(' ', GAP));
        }
        let text = cut_middle(&cell.text, widths[at]);
        let short = widths[at].saturating_sub(width(&text)) + pads[at];
        line.push_str(&text);
        line.extend(std::iter::repeat_n(' ', short));
    }
    let line = line.trim_end();
    cut_middle(line, columns)
}

/// Leaves out what can be spared while the rest does not even fit cut.
fn spare(cells: &mut Vec<Cell>, columns: usize) {
    let least = |cell: &Cell| width(&cell.text).min(cell.min);
    let all = |cells: &[Cell]| {
        GAP * cells.len().saturating_sub(1) + cells.iter().map(least).sum::<usize>()
    };
    while all(cells) > columns {
        let most = (0..cells.len()).max_by_key(|at| cells[*at].spare);
        match most.filter(|at| cells[*at].spare > 0) {
            Some(at) => drop(cells.remove(at)),
            None => break,
        }
    }
}

/// Columns the text takes. Where terminals disagree (a variation selector) the wider answer is given: better a gap than a wrapped line.
pub(super) fn width(text: &str) -> usize {
    text.width().max(text.chars().map(char_width).sum())
}

fn char_width(char: char) -> usize {
    match char {
        '\u{fe0f}' => 1,
        char => char.width().unwrap_or(0),
    }
}

/// The text in at most `columns`: what does not fit is taken out of the middle, since names tell most at their ends.
pub(super) fn cut_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    // The end gets the odd column: file names end in what tells them apart.
    let head = take(text.chars(), room / 2);
    let mut tail = take(text.chars().rev(), room - room / 2);
    // A combining mark would sit on the ellipsis.
    while tail.last().is_some_and(|char| char_width(*char) == 0) {
        tail.pop();
    }
    head.into_iter()
        .chain(['…'])
        .chain(tail.into_iter().rev())
        .collect()
}

fn take(chars: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut taken = Vec::new();
    let mut used = 0;
    for char in chars {
        used += char_width(char);
        if used > columns {
            break;
        }
        taken.push(char);
    }
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Cell, cut_middle, fit, width};

    #[test]
    fn names_are_cut_in_the_middle() {
        #[track_caller]
        fn check(text: &str, columns: usize, cut: &str) {
            assert_eq!(cut_middle(text, columns), cut);
        }
        check("/etc/app.conf", 13, "/etc/app.conf");
        check("/etc/app.conf", 12, "/etc/…p.conf");
        check("abcdef", 3, "a…f");
        check("abcdef", 1, "…");
        check("abcdef", 0, "");
        check("設定設定設定.conf", 10, "設定….conf");
        check("e\u{301}xxxxe\u{301}", 3, "e\u{301}…e\u{301}");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(width("設定"), 4);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(width("abc"), 3);
    }

    #[test]
    fn padding_goes_first_then_the_widest_cell_is_cut() {
        let cells = || {
            vec![
                Cell::new("DRIFT", 6, 6),
                Cell::new("/etc/app/app.conf", 20, 8),
                Cell::new("", 9, 0),
                Cell::new("content", 9, 7),
            ]
        };
        assert_eq!(fit(cells(), 40), "DRIFT   /etc/app/app.conf     content");
        assert_eq!(fit(cells(), 36), "DRIFT   /etc/app/app.conf    content");
        assert_eq!(fit(cells(), 33), "DRIFT  /etc/app/app.conf  content");
        assert_eq!(fit(cells(), 29), "DRIFT  /etc/a…p.conf  content");
        assert_eq!(fit(cells(), 12), "DRIFT…ontent");
    }

    #[test]
    fn a_narrow_terminal_shows_what_and_where() {
        let cells = || {
            vec![
                Cell::new("14:02:11", 8, 8),
                Cell::new("DRIFT", 6, 6),
                Cell::new("/etc/app/conf.d/app.conf", 24, 24),
                Cell::new("mode 0644 -> 0600", 9, 9),
                Cell::new("web 1.0.0", 12, 12).spare(2),
                Cell::new("found by the scan", 0, 16).spare(4),
                Cell::new("flags: none, not immutable", 0, 16).spare(3),
            ]
        };
        assert_eq!(
            fit(cells(), 80),
            "14:02:11  DRIFT   /etc/app/conf.d/app.conf  mode 0644 -> 0600  web 1.0.0"
        );
        assert_eq!(
            fit(cells(), 60),
            "14:02:11  DRIFT  /etc/app/conf.d/app.conf  mode 0644 -> 0600"
        );
        assert_eq!(fit(cells(), 40), "14:02:11  DRIFT  /etc/…p.conf  mode…0600");
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_asked(texts in proptest::collection::vec("\\PC{0,60}", 0..5), columns in 0..120_usize) {
            let cells = texts.iter().map(|text| Cell::new(text.as_str(), 12, 8)).collect();
            prop_assert!(width(&fit(cells, columns)) <= columns);
        }
    }
}
