//! YAML text to a tree whose every node knows its place.
//!
//! YAML 1.2 with its core schema, which makes JSON YAML too. Anchors and aliases are followed, tags of the core schema honoured, others
//! refused; a mapping has text for keys, each once, and no merge keys.
//!
//! The parser is given text of unknown origin, so everything is bounded: see the constants. What is over a bound is a problem with a
//! position, and nothing after it in that file is read.

mod build;
mod size;
mod tag;

use std::sync::Arc;

use super::{problem::Problems, source::Source};
use crate::yaml;
pub(crate) use crate::yaml::Value;

/// Documents in one file, at most.
const MAX_DOCUMENTS: usize = 1000;
/// Lists and mappings within each other, at most.
const MAX_DEPTH: usize = 64;
/// Keys, scalars, lists and mappings in one file, at most; what an alias stands for counts again each time.
pub const MAX_NODES: usize = 300_000;
/// Bytes of one scalar, at most. Bigger contents have their place beside the policy.
const MAX_SCALAR: usize = 1 << 20;
/// Bytes of all scalars of a file, at most, counted as [`MAX_NODES`] counts.
const MAX_TEXT: usize = 16 << 20;

/// Characters of a source: line and column from 1, length in characters, all on that line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) length: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The text as it is after quotes, escapes and folding, and what the core schema takes it for.
    Scalar(Arc<str>, Value),
    List(Vec<Node>),
    /// A scalar with a problem, which has been said.
    Broken,
    /// In the order of the file, no key twice.
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Arc<str>,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

/// The documents of `source`, without the empty ones. Where there is a problem, what could be read before it.
pub(crate) fn read(source: &Arc<Source>, problems: &mut Problems) -> Vec<Node> {
    build::Builder::new(source, problems).documents()
}

/// Whether `text` without quotes is a text to the core schema.
pub(crate) fn is_text(text: &str) -> bool {
    yaml::resolve(text) == Value::Text
}

#[cfg(test)]
mod tests;
