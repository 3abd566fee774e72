//! What is wrong with a policy, said so that it can be put right: where, what, and what to write instead.

use std::{collections::BTreeSet, fmt, path::Path, sync::Arc};

use unicode_width::UnicodeWidthChar;

use super::source::{Place, Position};
use crate::escape;

/// Columns of a terminal that a problem fits in.
const WIDTH: usize = 100;

/// One thing that is wrong with a policy. Displayed as
///
/// ```text
/// error: unknown field `modde`, did you mean `mode`?
///   --> policies/web.yaml:7:3
///    |
///  7 |   modde: heal
///    |   ^^^^^
///    = allowed here: activeVersion, mode, onRemove, guard, evidence, nodeSelector, rollout
/// ```
///
/// without a new line at the end: for the people of this node only, since the line shown may hold a secret. What leaves the node is
/// [`Problem::one_line`]. Text from the file is escaped; nothing but the position is wider than 100 columns.
#[derive(Clone, Debug)]
pub struct Problem {
    pub at: Position,
    /// A sentence without a full stop, safe to show.
    pub message: String,
    /// What would be right, or where to look. Safe to show.
    pub help: Vec<String>,
    /// What is shown of the file; `None` where it could not be read. A line is looked up only when it is shown: it can be a megabyte long,
    /// and there can be thousands of problems in it.
    pub(super) place: Option<Place>,
}

impl Problem {
    /// A problem of a whole file.
    pub fn of_file(file: Arc<Path>, message: impl Into<String>) -> Self {
        Self {
            at: Position {
                file,
                line: 1,
                column: 1,
            },
            message: message.into(),
            help: Vec::new(),
            place: None,
        }
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// `file:line:column: message`.
    pub fn one_line(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| write!(f, "{}: {}", self.at, self.message))
    }
}

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        wrap(f, "error: ", &self.message)?;
        let number = self.at.line.to_string();
        let gutter = " ".repeat(number.len() + 2);
        let arrow = &gutter[1..];
        write!(f, "\n{arrow}--> {}", self.at)?;
        if let Some(place) = &self.place {
            let (text, marks) = Excerpt::of(place).shown(WIDTH - gutter.len() - 2);
            let line = format!(" {number} | {text}");
            write!(f, "\n{gutter}|\n{}\n{gutter}| {marks}", line.trim_end())?;
        }
        for help in &self.help {
            f.write_str("\n")?;
            wrap(f, &format!("{gutter}= "), help)?;
        }
        Ok(())
    }
}

/// Writes `text` after `prefix`, going on under its beginning where the terminal ends.
fn wrap(f: &mut fmt::Formatter<'_>, prefix: &str, text: &str) -> fmt::Result {
    f.write_str(prefix)?;
    let indent = prefix.chars().count();
    let mut column = indent;
    for word in text.split(' ') {
        let width: usize = word.chars().map(|c| c.width().unwrap_or(0)).sum();
        if column > indent && column + 1 + width > WIDTH {
            write!(f, "\n{:indent$}", "")?;
            column = indent;
        } else if column > indent {
            f.write_str(" ")?;
            column += 1;
        }
        f.write_str(word)?;
        column += width;
    }
    Ok(())
}

/// The part of a line that a problem shows, as it stands in the file.
struct Excerpt {
    text: String,
    /// In characters of `text`, from 0.
    start: usize,
    /// In characters; at least 1. May reach past the end of the text.
    length: usize,
    cut_before: bool,
    cut_after: bool,
}

impl Excerpt {
    fn of(place: &Place) -> Self {
        // More than a screen on both sides: lines can be a megabyte long.
        const KEPT: usize = 2 * WIDTH;
        let start = (place.column as usize).saturating_sub(1);
        let first = start.saturating_sub(KEPT);
        let mut rest = place.text().chars().skip(first);
        let text: String = rest.by_ref().take(2 * KEPT).collect();
        Self {
            start: start - first,
            length: (place.length as usize).max(1),
            text,
            cut_before: first > 0,
            cut_after: rest.next().is_some(),
        }
    }

    /// The text in at most `width` columns, and the marks below it.
    fn shown(&self, width: usize) -> (String, String) {
        let pieces: Vec<(String, usize)> = self.text.chars().map(piece).collect();
        let end = (self.start + self.length).min(pieces.len());
        let columns =
            |range: &[(String, usize)]| range.iter().map(|(_, width)| width).sum::<usize>();
        // A mark after the end takes a column of its own.
        let all = columns(&pieces) + usize::from(self.start >= pieces.len());
        let whole = !self.cut_before && !self.cut_after && all <= width;
        let (from, to) = if whole {
            (0, pieces.len())
        } else {
            window(
                &pieces,
                self.start.min(pieces.len()),
                width.saturating_sub(2),
            )
        };
        let before = self.cut_before || from > 0;
        let after = self.cut_after || to < pieces.len();

        let mut text = String::new();
        text.extend(before.then_some('…'));
        text.extend(pieces[from..to].iter().map(|(shown, _)| shown.as_str()));
        text.extend(after.then_some('…'));

        let start = self.start.clamp(from, to);
        let mut marks = " ".repeat(usize::from(before) + columns(&pieces[from..start]));
        let marked = columns(&pieces[start..end.clamp(start, to)]);
        marks.push_str(&"^".repeat(marked.max(1)));
        (text, marks)
    }
}

/// A character as it is shown, and its columns.
fn piece(c: char) -> (String, usize) {
    match c {
        '\t' => (" ".repeat(4), 4),
        c if escape::is_deceptive(c) => {
            let mut shown = String::new();
            if escape::write_char(c, &mut shown).is_err() {
                shown.push(char::REPLACEMENT_CHARACTER); // a String takes what is written to it
            }
            let width = shown.len();
            (shown, width)
        }
        c => (c.to_string(), c.width().unwrap_or(0)),
    }
}

/// The pieces around `start` that fit `width`: a third of it before, the rest after, and what is free then before again.
fn window(pieces: &[(String, usize)], start: usize, width: usize) -> (usize, usize) {
    let (mut from, mut to, mut used) = (start, start, 0);
    let grow_left = |from: &mut usize, used: &mut usize, limit: usize| {
        while *from > 0 && *used + pieces[*from - 1].1 <= limit {
            *from -= 1;
            *used += pieces[*from].1;
        }
    };
    grow_left(&mut from, &mut used, width / 3);
    while to < pieces.len() && used + pieces[to].1 <= width {
        used += pieces[to].1;
        to += 1;
    }
    grow_left(&mut from, &mut used, width);
    (from, to)
}

/// Problems kept, at most: nobody reads more, and a file can hold millions.
const KEPT: usize = 100;

/// All that is wrong, as far as it is worth keeping.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    kept: Vec<Problem>,
    /// How many there were, kept or not.
    count: usize,
    files: BTreeSet<Arc<Path>>,
    is_of_closure: bool,
}

impl Problems {
    /// Each policy is right by itself, and the versions that would be active do not fit together.
    pub fn is_of_closure(&self) -> bool {
        self.is_of_closure
    }

    /// All that is here is about versions that do not fit together. See [`Problems::is_of_closure`].
    pub(super) fn are_of_closure(&mut self) {
        self.is_of_closure = true;
    }

    pub fn push(&mut self, problem: Problem) {
        self.count += 1;
        if self.kept.len() < KEPT {
            self.files.insert(problem.at.file.clone());
            self.kept.push(problem);
        }
    }

    /// Adds what was found elsewhere, after what was found here.
    pub fn append(&mut self, others: Problems) {
        let kept = others.kept.len();
        self.is_of_closure &= others.is_empty();
        for problem in others.kept {
            self.push(problem);
        }
        self.count += others.count - kept;
    }

    /// How many there are, kept or not.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many files they are in.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The ones kept, by file, line and column.
    pub fn sorted(&self) -> Vec<&Problem> {
        let mut all: Vec<&Problem> = self.kept.iter().collect();
        all.sort_by_key(|problem| (&*problem.at.file, problem.at.line, problem.at.column));
        all
    }

    /// All that were kept, each as `file:line:column: message` with what would be right beneath it, and how many were not: without the text
    /// of files, for logs that may leave the node.
    pub fn lines(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            for (index, problem) in self.sorted().into_iter().enumerate() {
                let end = if index == 0 { "" } else { "\n" };
                write!(f, "{end}{}", problem.one_line())?;
                for help in &problem.help {
                    write!(f, "\n  = {help}")?;
                }
            }
            match self.count - self.kept.len() {
                0 => Ok(()),
                more => write!(f, "\nand {more} more"),
            }
        })
    }

    /// The first as `file:line:column: message`, and how many more there are.
    pub fn one_line(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            let sorted = self.sorted();
            let Some(first) = sorted.first() else {
                return Ok(());
            };
            write!(f, "{}", first.one_line())?;
            match self.count - 1 {
                0 => Ok(()),
                more => write!(f, " (and {more} more)"),
            }
        })
    }
}

/// All that were kept, an empty line between each two, and how many were not.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.sorted().into_iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{problem}")?;
        }
        match self.count - self.kept.len() {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more"),
        }
    }
}
