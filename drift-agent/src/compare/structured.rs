//! Configuration files compared by what they say, not by how it is written.
//!
//! Both sides are read into the same kind of tree ([`parse`]), and the trees are compared place by place under [`Rules`] ([`compare`]).
//! Where only some keys are declared (`manage`), [`edit`] puts those into the observed file and leaves every other byte as it is.
//!
//! What a format is taken for, where its readers do not agree, is the stricter of the possible: a difference that may mean something is
//! never taken for another way of writing. The modules of the formats say what that comes to.

mod canonical;
mod diff;
mod edit;
mod env;
mod ini;
mod json;
mod keyvalue;
mod lines;
mod listing;
mod meaning;
mod number;
mod pointer;
mod rules;
mod toml;
mod value;
mod yaml;

pub use diff::{Difference, Differences, Kind, MAX_DIFFERENCES, Side, compare};
pub use drift_common::policy::{Absence, Equal, Format, Keys};
pub use edit::{EditError, edit};
pub use meaning::{Meaning, Verdict};
pub use pointer::{PatternError, Pointer, Token};
pub use rules::{Rules, RulesError};
pub use value::{MAX_DEPTH, MAX_NODES, Tree};

use value::Node;

/// Bytes of one file that is compared by structure, at most.
pub const MAX_SIZE: usize = 8 << 20;

/// Why a file says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unparsable {
    /// More than [`MAX_SIZE`].
    TooLarge,
    NotUtf8,
    /// Not as the format has it.
    Syntax,
    /// Deeper than [`MAX_DEPTH`].
    TooDeep,
    /// More than [`MAX_NODES`] keys and values, or too much through aliases.
    TooMany,
}

/// A file that is not of its format, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct ParseError {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    pub why: Unparsable,
    /// A sentence without a full stop, safe to show; it quotes nothing of the file but keys.
    pub message: String,
}

impl ParseError {
    /// A short name for records and metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self.why {
            Unparsable::TooLarge => "too-large",
            Unparsable::NotUtf8 => "not-utf8",
            Unparsable::Syntax => "syntax",
            Unparsable::TooDeep => "too-deep",
            Unparsable::TooMany => "too-many-values",
        }
    }

    fn at(text: &str, at: usize, why: Unparsable, message: impl Into<String>) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            line: number(before.matches('\n').count() + 1),
            column: number(before[start..].chars().count() + 1),
            why,
            message: message.into(),
        }
    }

    fn syntax(text: &str, at: usize, message: impl Into<String>) -> Self {
        Self::at(text, at, Unparsable::Syntax, message)
    }
}

/// What `bytes` say.
///
/// # Errors
/// Not of this format, or more than is looked at. Time and memory are bounded by the constants of this module.
pub fn parse(format: Format, bytes: &[u8]) -> Result<Tree, ParseError> {
    if bytes.len() > MAX_SIZE {
        let message = format!("more than the {} MiB that are looked at", MAX_SIZE >> 20);
        return Err(ParseError::at("", 0, Unparsable::TooLarge, message));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let sound = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let message = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "UTF-16, not UTF-8",
            _ => "not UTF-8",
        };
        ParseError::at(&sound, sound.len(), Unparsable::NotUtf8, message)
    })?;
    let bare = text.strip_prefix('\u{feff}');
    Tree::of(format, bare.unwrap_or(text), bare.is_some())
}

impl Tree {
    fn of(format: Format, text: &str, marked: bool) -> Result<Self, ParseError> {
        let one = |node: Result<Node, ParseError>| node.map(|node| vec![node]);
        let documents = match format {
            Format::Yaml => yaml::parse(text)?,
            Format::Json => one(json::parse(text, json::Dialect::Strict))?,
            Format::Json5 => one(json::parse(text, json::Dialect::Json5))?,
            Format::Toml => one(toml::parse(text))?,
            Format::Ini => one(ini::parse(text))?,
            Format::Env => one(env::parse(text))?,
            Format::KeyValue => one(keyvalue::parse(text))?,
        };
        Ok(Self {
            format,
            text: text.into(),
            marked,
            documents,
        })
    }

    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }
}

#[cfg(test)]
mod tests;
