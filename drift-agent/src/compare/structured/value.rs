//! What all formats are read into: nodes that know where they stand.

use std::{fmt, ops::Range, sync::Arc};

use super::{Format, ParseError, Unparsable};

/// Lists and maps within each other, at most. Every walk over a tree is a recursion of this depth.
pub const MAX_DEPTH: usize = 100;
/// Keys and values of one file, at most; what an alias stands for counts again each time.
pub const MAX_NODES: usize = 500_000;
/// Bytes of what aliases repeat, at most.
pub(super) const MAX_REPEATED: usize = 16 << 20;

/// A file's text, and what it says.
#[derive(Clone)]
pub struct Tree {
    pub(super) format: Format,
    /// Without a byte order mark.
    pub(super) text: Arc<str>,
    pub(super) marked: bool,
    /// Of YAML those that say something; of every other format exactly one.
    pub(super) documents: Vec<Node>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values may be secrets.
        let (format, documents) = (self.format, self.documents.len());
        write!(f, "Tree({format:?}, {documents} documents)")
    }
}

/// Bytes of [`Tree::text`]. Four bytes each: a tree has one for every key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) fn new(start: usize, end: usize) -> Self {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX); // `MAX_SIZE` is far below
        Self {
            start: number(start),
            end: number(end.max(start)),
        }
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    pub(super) fn end(self) -> usize {
        self.end as usize
    }
}

#[derive(Clone)]
pub(super) struct Node {
    pub(super) span: Span,
    /// A tag that is not of YAML's own schema; part of the value.
    pub(super) tag: Option<Arc<str>>,
    /// Stands here through an alias: the span of what is inside is that of the anchor's text.
    pub(super) shared: bool,
    pub(super) value: Value,
}

#[derive(Clone)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// As it is written, or in another way of writing the same number.
    Integer(Arc<str>),
    Float(Arc<str>),
    Text(Arc<str>),
    /// A text without quotes that some readers of YAML take for a truth or another number (`no`, `0644`, `12:30:00`): never equal to the
    /// same text in quotes.
    Word(Arc<str>),
    Time(Arc<str>),
    List(Vec<Node>),
    /// In the order of the file. A key stands several times only where the format lets it (INI, key-value, environment).
    Map(Vec<Entry>),
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) key: Arc<str>,
    /// From the key to the value's end.
    pub(super) span: Span,
    /// Came here through a merge key (`<<`): not written in this map.
    pub(super) merged: bool,
    pub(super) value: Node,
}

impl Node {
    pub(super) fn new(span: Span, value: Value) -> Self {
        Self {
            span,
            tag: None,
            shared: false,
            value,
        }
    }

    pub(super) fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn is_container(&self) -> bool {
        matches!(self.value, Value::Map(_) | Value::List(_))
    }
}

impl Value {
    /// What people call it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Bool(_) => "a truth value",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Text(_) | Value::Word(_) => "a text",
            Value::Time(_) => "a time",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// Counts what a file comes to.
#[derive(Default)]
pub(super) struct Budget {
    nodes: usize,
    repeated: usize,
}

impl Budget {
    /// Another `nodes` nodes, seen at byte `at` of `text`.
    pub(super) fn take(&mut self, text: &str, at: usize, nodes: usize) -> Result<(), ParseError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} keys and values");
            return Err(ParseError::at(text, at, Unparsable::TooMany, message));
        }
        Ok(())
    }

    /// Another `bytes` of texts that stand in the file only once.
    pub(super) fn repeat(&mut self, text: &str, at: usize, bytes: usize) -> Result<(), ParseError> {
        self.repeated = self.repeated.saturating_add(bytes);
        if self.repeated > MAX_REPEATED {
            let message = format!("aliases stand for more than {} MiB", MAX_REPEATED >> 20);
            return Err(ParseError::at(text, at, Unparsable::TooMany, message));
        }
        Ok(())
    }
}

/// Whether something at depth `depth` may stand at byte `at` of `text`.
pub(super) fn depth(text: &str, at: usize, depth: usize) -> Result<(), ParseError> {
    if depth > MAX_DEPTH {
        let message = format!("more than {MAX_DEPTH} lists and maps within each other");
        return Err(ParseError::at(text, at, Unparsable::TooDeep, message));
    }
    Ok(())
}
