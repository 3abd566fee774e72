//! From a tree to values: a cursor that knows its way, and a decoder that collects every problem instead of stopping at the first.
//!
//! The rule for all decoding functions, here and in `parse`: `None` means that a problem was said. Whoever decodes a whole document looks
//! at the problems in the end, so a function may go on with what it has.

use std::{fmt, sync::Arc};

use super::{
    problem::{Problem, Problems},
    shape::Shape,
    source::{Place, Source, Spanned},
    suggest,
    tree::{Entry, Kind, Node, Span, Value},
};
use crate::escape;

/// The way to a node, shown as in `spec.files[3].content`.
#[derive(Clone, Copy, Debug)]
enum Way<'n> {
    Root,
    Field(&'n Way<'n>, &'n str),
    Item(&'n Way<'n>, usize),
}

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            // In a mapping from any keys the name is a stranger's.
            Self::Field(Self::Root, name) => write!(f, "{}", escape::short(name)),
            Self::Field(parent, name) => write!(f, "{parent}.{}", escape::short(name)),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A node and the way to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'n> {
    node: &'n Node,
    way: Way<'n>,
    /// What stands here may be a secret: messages do not repeat it. (They leave the node in records; the lines shown below them do not.)
    private: bool,
}

impl<'n> Cursor<'n> {
    pub(super) fn root(node: &'n Node) -> Self {
        Self {
            node,
            way: Way::Root,
            private: false,
        }
    }

    /// What stands here and beneath may be a secret.
    pub(super) fn private(self) -> Self {
        Self {
            private: true,
            ..self
        }
    }

    /// The text of a scalar, and what it is taken for.
    pub(super) fn scalar(&self) -> Option<(&'n Arc<str>, Value)> {
        match &self.node.kind {
            Kind::Scalar(text, value) => Some((text, *value)),
            Kind::Broken | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// What stands here, in words.
    pub(super) fn found(&self) -> String {
        match &self.node.kind {
            Kind::Scalar(text, value) => {
                let what = match value {
                    Value::Null if text.is_empty() => return "nothing".to_owned(),
                    Value::Null => "null value",
                    Value::Bool(_) => "boolean",
                    Value::Integer | Value::Float => "number",
                    Value::Text => "text",
                };
                if self.private {
                    return format!("a {what}");
                }
                format!("the {what} {}", escape::name(text))
            }
            Kind::Broken => "something else".to_owned(),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
        }
    }

    /// `` at `spec.files[3]` ``; nothing for a document as a whole.
    fn whereabouts(&self, word: &str) -> String {
        match self.way {
            Way::Root => String::new(),
            way => format!(" {word} `{way}`"),
        }
    }
}

/// Bytes that the packed contents of one file may come to.
const MAX_UNPACKED: u64 = 64 << 20;

pub(super) struct Decoder<'s> {
    source: &'s Arc<Source>,
    problems: &'s mut Problems,
    room: u64,
}

impl<'s> Decoder<'s> {
    pub(super) fn new(source: &'s Arc<Source>, problems: &'s mut Problems) -> Self {
        Self {
            source,
            problems,
            room: MAX_UNPACKED,
        }
    }

    /// Bytes that may still be unpacked of this file.
    pub(super) fn room(&self) -> u64 {
        self.room
    }

    pub(super) fn take_room(&mut self, bytes: u64) {
        self.room = self.room.saturating_sub(bytes);
    }

    /// How many problems there were so far.
    pub(super) fn problems(&self) -> usize {
        self.problems.len()
    }

    pub(super) fn place(&self, cursor: Cursor<'_>) -> Place {
        self.at(cursor.node.span)
    }

    fn at(&self, span: Span) -> Place {
        self.source.place(span.line, span.column, span.length)
    }

    pub(super) fn spanned<T>(&self, cursor: Cursor<'_>, value: T) -> Spanned<T> {
        let at = self.place(cursor);
        Spanned { value, at }
    }

    pub(super) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Says `message` and `help` of what stands at `cursor`.
    pub(super) fn wrong<T>(
        &mut self,
        cursor: Cursor<'_>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        let problem = self.place(cursor).problem(message).help(help);
        self.problem(problem);
        None
    }

    /// Says that `expected` (with its article) was expected at `cursor`.
    pub(super) fn expected<T>(
        &mut self,
        cursor: Cursor<'_>,
        expected: &str,
        help: &str,
    ) -> Option<T> {
        if matches!(cursor.node.kind, Kind::Broken) {
            return None; // said when it was read
        }
        let message = format!(
            "expected {expected}{}, found {}",
            cursor.whereabouts("at"),
            cursor.found()
        );
        let mut problem = self.place(cursor).problem(message);
        if !help.is_empty() {
            problem = problem.help(help);
        }
        self.problem(problem);
        None
    }

    /// A text. What the core schema takes for something else needs quotes.
    pub(super) fn text(&mut self, cursor: Cursor<'_>) -> Option<Arc<str>> {
        match cursor.scalar() {
            Some((text, Value::Text)) => Some(text.clone()),
            Some((_, Value::Bool(_) | Value::Integer | Value::Float)) => {
                self.expected(cursor, "a text", "put it in quotes")
            }
            _ => self.expected(cursor, "a text", ""),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, cursor: Cursor<'_>) -> Option<bool> {
        match cursor.scalar() {
            Some((_, Value::Bool(flag))) => Some(flag),
            _ => self.expected(cursor, "`true` or `false`", ""),
        }
    }

    /// One of the words of `known`.
    pub(super) fn word<T: Copy>(
        &mut self,
        cursor: Cursor<'_>,
        what: &str,
        known: &[(&str, T)],
    ) -> Option<T> {
        let words = || known.iter().map(|(word, _)| *word);
        let allowed = || format!("allowed here: {}", suggest::list(words()));
        let Some((text, Value::Text)) = cursor.scalar() else {
            let help = allowed();
            return self.expected(cursor, "a text", &help);
        };
        if let Some((_, value)) = known.iter().find(|(word, _)| *word == &**text) {
            return Some(*value);
        }
        let meant = suggest::did_you_mean(text, words());
        self.wrong(
            cursor,
            format!("unknown {what} {}{meant}", escape::name(text)),
            allowed(),
        )
    }

    /// Every item of a list, decoded by `item`. The ones with a problem are left out.
    pub(super) fn list<T>(
        &mut self,
        cursor: Cursor<'_>,
        mut item: impl FnMut(&mut Self, Cursor<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Kind::List(items) = &cursor.node.kind else {
            return self.expected(cursor, "a list", "an empty list is written `[]`");
        };
        let mut all = Vec::with_capacity(items.len());
        for (index, node) in items.iter().enumerate() {
            let way = Way::Item(&cursor.way, index);
            let private = cursor.private;
            all.extend(item(self, Cursor { node, way, private }));
        }
        Some(all)
    }

    /// Every entry of a mapping from any keys, handed to `entry` with its key and the place of that.
    pub(super) fn map(
        &mut self,
        cursor: Cursor<'_>,
        what: &str,
        mut entry: impl FnMut(&mut Self, &str, Place, Cursor<'_>),
    ) -> Option<()> {
        let Kind::Map(entries) = &cursor.node.kind else {
            return self.expected(cursor, what, "");
        };
        for Entry {
            key,
            key_span,
            value: node,
        } in entries
        {
            let way = Way::Field(&cursor.way, key);
            let private = cursor.private;
            let at = self.at(*key_span);
            entry(self, key, at, Cursor { node, way, private });
        }
        Some(())
    }

    /// The fields of a mapping that the language's description has.
    pub(super) fn shaped<'n>(
        &mut self,
        cursor: Cursor<'n>,
        shape: &'static Shape,
    ) -> Option<Fields<'n>> {
        let fields = self.fields(cursor, shape.what)?;
        Some(Fields {
            shape: Some(shape),
            ..fields
        })
    }

    /// The fields of a mapping; `what` it is, with its article.
    pub(super) fn fields<'n>(&mut self, cursor: Cursor<'n>, what: &str) -> Option<Fields<'n>> {
        let Kind::Map(entries) = &cursor.node.kind else {
            return self.expected(cursor, what, "");
        };
        Some(Fields {
            cursor,
            entries,
            shape: None,
            known: Vec::new(),
            ignored: Vec::new(),
            missing: Vec::new(),
        })
    }
}

/// The fields of a mapping, asked for by name. What was never asked for is unknown: see [`Fields::end`].
pub(super) struct Fields<'n> {
    cursor: Cursor<'n>,
    entries: &'n [Entry],
    shape: Option<&'static Shape>,
    known: Vec<&'static str>,
    ignored: Vec<&'static str>,
    missing: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    fn find(&self, name: &str) -> Option<&'n Entry> {
        self.entries.iter().find(|entry| &*entry.key == name)
    }

    /// Whether a field is there is as the description says: a mistake of this program, not of a policy.
    fn agrees(&self, name: &str, required: bool) -> bool {
        let described = |shape: &Shape| {
            let mut fields = shape.fields.iter();
            fields.any(|field| field.name == name && field.required == required)
        };
        self.shape.is_none_or(described)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The text of the field `name` where it is a scalar, without asking for it.
    pub(super) fn scalar(&self, name: &str) -> Option<&'n str> {
        match &self.find(name)?.value.kind {
            Kind::Scalar(text, _) => Some(text),
            Kind::Broken | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// The field `name`, decoded by `value`. `None` where it is missing, too.
    pub(super) fn optional<T>(
        &mut self,
        decoder: &mut Decoder<'_>,
        name: &'static str,
        value: impl FnOnce(&mut Decoder<'_>, Cursor<'_>) -> Option<T>,
    ) -> Option<T> {
        debug_assert!(self.agrees(name, false), "{name}");
        self.field(decoder, name, value)
    }

    /// The field `name`, decoded by `value`. That it is missing is said by [`Fields::end`].
    pub(super) fn required<T>(
        &mut self,
        decoder: &mut Decoder<'_>,
        name: &'static str,
        value: impl FnOnce(&mut Decoder<'_>, Cursor<'_>) -> Option<T>,
    ) -> Option<T> {
        debug_assert!(self.agrees(name, true), "{name}");
        if !self.has(name) {
            self.missing.push(name);
        }
        self.field(decoder, name, value)
    }

    fn field<T>(
        &mut self,
        decoder: &mut Decoder<'_>,
        name: &'static str,
        value: impl FnOnce(&mut Decoder<'_>, Cursor<'_>) -> Option<T>,
    ) -> Option<T> {
        self.known.push(name);
        let node = &self.find(name)?.value;
        let way = Way::Field(&self.cursor.way, name);
        let private = self.cursor.private;
        value(decoder, Cursor { node, way, private })
    }

    /// Exactly one of `names` must be there; whether that is so. Asking for each is left to the caller.
    pub(super) fn one_of(&self, decoder: &mut Decoder<'_>, names: &[&'static str]) -> bool {
        let mut given = self
            .entries
            .iter()
            .filter(|entry| names.contains(&&*entry.key));
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let quoted = match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.concat(),
        };
        match (given.next(), given.next()) {
            (Some(_), None) => true,
            (Some(_), Some(second)) => {
                let message = format!(
                    "only one of {quoted} can be given{}",
                    self.cursor.whereabouts("in")
                );
                let problem = decoder.at(second.key_span).problem(message);
                decoder.problem(problem);
                false
            }
            (None, _) => {
                // A misspelt one is said to be unknown, which is enough.
                let misspelt = self
                    .entries
                    .iter()
                    .any(|entry| suggest::closest(&entry.key, names.iter().copied()).is_some());
                if !misspelt {
                    let message =
                        format!("missing field {quoted}{}", self.cursor.whereabouts("in"));
                    let problem = decoder.place(self.cursor).problem(message);
                    decoder.problem(problem);
                }
                false
            }
        }
    }

    /// These may be there; nobody looks at what they hold.
    pub(super) fn known(&mut self, names: &[&'static str]) {
        self.known.extend(names);
    }

    /// These may be there, and nobody would write them.
    pub(super) fn ignored(&mut self, names: &[&'static str]) {
        self.ignored.extend(names);
    }

    /// Says which fields are unknown and which are missing.
    pub(super) fn end(mut self, decoder: &mut Decoder<'_>) {
        let all = || self.known.iter().chain(&self.ignored).copied();
        for entry in self
            .entries
            .iter()
            .filter(|entry| all().all(|known| known != &*entry.key))
        {
            let meant = suggest::closest(&entry.key, all());
            let message = format!(
                "unknown field {}{}",
                escape::name(&entry.key),
                suggest::did_you_mean(&entry.key, meant)
            );
            let problem = decoder.at(entry.key_span).problem(message);
            decoder.problem(problem.help(format!("allowed here: {}", self.known.join(", "))));
            // The misspelt one is missing, too, which needs no second problem.
            if let Some(meant) = meant {
                self.missing.retain(|missing| *missing != meant);
            }
        }
        for missing in &self.missing {
            let message = format!("missing field `{missing}`{}", self.cursor.whereabouts("in"));
            let problem = decoder.place(self.cursor).problem(message);
            decoder.problem(problem);
        }
    }
}
