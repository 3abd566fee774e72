//! Where something was declared: files, positions in them, and values that remember theirs.

use std::{fmt, path::Path, sync::Arc};

use super::{problem::Problem, tree::Span};
use crate::escape;

/// Bytes of one policy file, at most.
pub const MAX_FILE: usize = 4 << 20;

/// Where in a policy file something was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub file: Arc<Path>,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = escape::path(&self.file);
        write!(f, "{file}:{}:{}", self.line, self.column)
    }
}

/// One policy file's text.
pub struct Source {
    name: Arc<Path>,
    text: String,
    /// Where each line begins, in bytes. A line ends where YAML ends it: `\n`, `\r\n`, or `\r` alone.
    lines: Vec<u32>,
}

impl Source {
    /// `name` is shown in problems, as it is. A byte order mark at the start is no part of the text.
    ///
    /// # Errors
    /// More than [`MAX_FILE`] bytes, or not UTF-8.
    pub fn new(name: Arc<Path>, bytes: Vec<u8>) -> Result<Arc<Self>, Problem> {
        if bytes.len() > MAX_FILE {
            let message = format!(
                "this file is larger than the {} MiB a policy file may have",
                MAX_FILE >> 20
            );
            return Err(Problem::of_file(name, message)
                .help("keep big contents in files of their own: `content: {file: …}`"));
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                return Err(not_utf8(
                    name,
                    error.as_bytes(),
                    error.utf8_error().valid_up_to(),
                ));
            }
        };
        Ok(Arc::new(Self::of_text(name, text)))
    }

    fn of_text(name: Arc<Path>, mut text: String) -> Self {
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        let bytes = text.as_bytes();
        let mut lines = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' || *byte == b'\r' && bytes.get(at + 1) != Some(&b'\n') {
                lines.push(u32::try_from(at + 1).unwrap_or(u32::MAX)); // MAX_FILE is far below
            }
        }
        Self { name, text, lines }
    }

    pub fn name(&self) -> &Arc<Path> {
        &self.name
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line `line` (from 1) without its end; empty where there is no such line.
    pub(crate) fn line(&self, line: u32) -> &str {
        let index = (line as usize).saturating_sub(1);
        let start = |index: usize| self.lines.get(index).map(|at| *at as usize);
        let Some(from) = start(index) else { return "" };
        let to = start(index + 1).unwrap_or(self.text.len());
        self.text[from..to].trim_end_matches(['\n', '\r'])
    }

    /// What comes after the last character that is not white space.
    pub(crate) fn end(&self) -> Span {
        Span {
            length: 0,
            ..self.span_at(self.text.trim_end().len())
        }
    }

    /// The character that begins at byte `at`.
    pub(crate) fn span_at(&self, at: usize) -> Span {
        let index = self
            .lines
            .partition_point(|start| *start as usize <= at)
            .max(1)
            - 1;
        let start = self.lines.get(index).map_or(0, |start| *start as usize);
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span {
            line: number(index + 1),
            column: number(self.text[start..at].chars().count() + 1),
            length: 1,
        }
    }

    /// The place of what no text says yet: documents that a program makes.
    pub fn start(self: &Arc<Self>) -> Place {
        self.place(1, 1, 0)
    }

    /// The place of `length` characters at `line` and `column` (both from 1).
    pub(crate) fn place(self: &Arc<Self>, line: u32, column: u32, length: u32) -> Place {
        Place {
            source: self.clone(),
            line,
            column,
            length,
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may hold secrets.
        write!(
            f,
            "Source({}, {} bytes)",
            self.name.display(),
            self.text.len()
        )
    }
}

fn not_utf8(name: Arc<Path>, bytes: &[u8], valid: usize) -> Problem {
    let wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    // The sound part, and one stand-in for what is not: enough to point at it.
    let mut text = String::from_utf8_lossy(&bytes[..valid]).into_owned();
    text.push(char::REPLACEMENT_CHARACTER);
    let source = Arc::new(Source::of_text(name, text));
    let line = u32::try_from(source.lines.len()).unwrap_or(u32::MAX);
    let column = u32::try_from(source.line(line).chars().count()).unwrap_or(u32::MAX);
    source
        .place(line, column.max(1), 1)
        .problem(if wide {
            "this file is UTF-16, not UTF-8".to_owned()
        } else {
            format!("not UTF-8: the byte \\x{:02x}", bytes[valid])
        })
        .help(if wide {
            "save it as UTF-8"
        } else {
            "save the file as UTF-8; a path that is not UTF-8 is written as `pathBytes: BASE64`, such contents as `content: {file: …}`"
        })
}

/// Some characters of a file.
#[derive(Clone)]
pub struct Place {
    source: Arc<Source>,
    line: u32,
    pub(super) column: u32,
    /// In characters; zero is shown as one.
    pub(super) length: u32,
}

impl Place {
    pub fn position(&self) -> Position {
        Position {
            file: self.source.name.clone(),
            line: self.line,
            column: self.column,
        }
    }

    /// What is wrong here.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        Problem {
            at: self.position(),
            message: message.into(),
            help: Vec::new(),
            place: Some(self.clone()),
        }
    }

    /// The line it is in.
    pub(super) fn text(&self) -> &str {
        self.source.line(self.line)
    }

    /// To compare places: the file first, then line and column.
    pub(crate) fn order(&self) -> (&Path, u32, u32) {
        (&self.source.name, self.line, self.column)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.position(), self.length)
    }
}

/// A declared value that remembers where it was declared. Two are equal when their values are, wherever they stand.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    pub value: T,
    pub at: Place,
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Spanned<T> {}
