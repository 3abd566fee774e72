//! The parser's events, put together.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use drift_common::{
    escape,
    yaml::{self, Event, Events, ScalarStyle, Tag, tag_name},
};

use super::{is_word, position::Positions, refused};
use crate::compare::structured::{
    ParseError,
    value::{self, Budget, Entry, MAX_DEPTH, Node, Span, Value},
};

/// A list or map whose end has not been seen.
struct Open {
    /// Zero: none.
    anchor: usize,
    node: Node,
    /// Where the last thing inside ends, so far.
    end: usize,
    is_flow: bool,
    /// Of a map: the key whose value comes next, and where it stands.
    key: Option<(Arc<str>, Span, bool)>,
    keys: HashSet<Arc<str>>,
    /// Of a map: what its merge keys bring in.
    merges: Vec<Node>,
}

pub(super) struct Builder<'t> {
    text: &'t str,
    positions: Positions<'t>,
    budget: Budget,
    open: Vec<Open>,
    documents: Vec<Node>,
    anchors: HashMap<usize, Node>,
}

impl<'t> Builder<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            positions: Positions::new(text),
            budget: Budget::default(),
            open: Vec::new(),
            documents: Vec::new(),
            anchors: HashMap::new(),
        }
    }

    pub(super) fn documents(mut self) -> Result<Vec<Node>, ParseError> {
        for event in Events::new(self.text) {
            let (event, span) =
                event.map_err(|fault| refused(self.text, &mut self.positions, &fault))?;
            let start = self.positions.byte(span.start);
            let end = self.positions.byte(span.end);
            self.event(event, Span::new(start, end))?;
        }
        Ok(self.documents)
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), ParseError> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.anchors.clear();
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.budget.take(self.text, span.start(), 1)?;
                let node = scalar(text, style, tag.as_deref(), self.trimmed(span, style));
                self.complete(anchor, node, style == ScalarStyle::Plain)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(span, anchor, tag.as_deref(), Value::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(span, anchor, tag.as_deref(), Value::Map(Vec::new()))
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(mut open) => {
                    self.merge(&mut open, span)?;
                    // The parser says only where the next thing begins.
                    let end = if open.is_flow { span.end() } else { open.end };
                    open.node.span = Span::new(open.node.span.start(), end);
                    self.complete(open.anchor, open.node, false)
                }
                None => Ok(()), // the parser's events are balanced
            },
            Event::Alias(anchor) => {
                if self.open.iter().any(|open| open.anchor == anchor) {
                    return Err(self.error(span, "an alias within what it stands for"));
                }
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(self.error(span, "an alias without an anchor"));
                };
                let mut node = node.clone();
                let (nodes, bytes, height) = measure(&node);
                value::depth(self.text, span.start(), self.open.len() + height)?;
                self.budget.take(self.text, span.start(), nodes)?;
                self.budget.repeat(self.text, span.start(), bytes)?;
                share(&mut node);
                node.span = span;
                self.add(node, false)
            }
        }
    }

    /// A text of several lines ends with its last character that is not white space: what follows belongs to nobody. One in a block begins
    /// with its `|` or `>`; the parser says where its first line does.
    fn trimmed(&self, span: Span, style: ScalarStyle) -> Span {
        let text = &self.text[span.range()];
        match style {
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => span,
            ScalarStyle::Plain => Span::new(span.start(), span.start() + text.trim_end().len()),
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let end = span.start() + text.trim_end().len();
                let start = if text.starts_with(['|', '>', '&', '!']) && is_header(text) {
                    span.start()
                } else {
                    block_header(self.text, span.start()).unwrap_or(span.start())
                };
                Span::new(start, end.max(start))
            }
        }
    }

    fn begin(
        &mut self,
        span: Span,
        anchor: usize,
        tag: Option<&Tag>,
        value: Value,
    ) -> Result<(), ParseError> {
        value::depth(self.text, span.start(), self.open.len() + 1)?;
        self.budget.take(self.text, span.start(), 1)?;
        let mut node = Node::new(span, value);
        node.tag = tag.map(tag_name).filter(|tag| !is_own(tag)).map(Into::into);
        let is_flow =
            self.text[span.start()..].starts_with(['{', '[']) && span.end() > span.start();
        // The parser lets this pass at the top, where no other reader does.
        if !is_flow && is_indented_by_tabs(&self.text[..span.start()]) {
            return Err(self.error(span, "a tab in the indentation (indent with spaces)"));
        }
        self.open.push(Open {
            anchor,
            node,
            end: span.end(),
            is_flow,
            key: None,
            keys: HashSet::new(),
            merges: Vec::new(),
        });
        Ok(())
    }

    fn complete(&mut self, anchor: usize, node: Node, is_plain: bool) -> Result<(), ParseError> {
        if anchor != 0 {
            let (nodes, bytes, _) = measure(&node);
            self.budget.take(self.text, node.span.start(), nodes)?; // kept a second time
            self.budget.repeat(self.text, node.span.start(), bytes)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.add(node, is_plain)
    }

    fn add(&mut self, node: Node, is_plain: bool) -> Result<(), ParseError> {
        let text = self.text;
        let Some(open) = self.open.last_mut() else {
            self.documents.push(node);
            return Ok(());
        };
        open.end = open.end.max(node.span.end());
        match (&mut open.node.value, open.key.take()) {
            (Value::List(items), _) => items.push(node),
            (Value::Map(_), Some((_, _, true))) => open.merges.push(node),
            (Value::Map(entries), Some((key, at, false))) => {
                let end = if node.span.end() == node.span.start() {
                    // Nothing stands there: the entry ends behind its colon.
                    colon(text, at.end())
                } else {
                    node.span.end()
                };
                open.end = open.end.max(end);
                entries.push(Entry {
                    key,
                    span: Span::new(at.start(), end.max(at.end())),
                    merged: false,
                    value: node,
                });
            }
            (Value::Map(_), None) => {
                let span = node.span;
                let key: Arc<str> = match &node.value {
                    Value::Null => "".into(),
                    Value::List(_) | Value::Map(_) => {
                        return Err(self.error(span, "a list or a map for a key"));
                    }
                    Value::Bool(_) => self.text[span.range()].into(),
                    Value::Integer(text)
                    | Value::Float(text)
                    | Value::Text(text)
                    | Value::Word(text)
                    | Value::Time(text) => text.clone(),
                };
                let is_merge = is_plain && &*key == "<<";
                if let Some(open) = self.open.last_mut() {
                    if !open.keys.insert(key.clone()) && !is_merge {
                        let shown = escape::name(&key).to_string();
                        return Err(self.error(span, &format!("the key {shown} is given twice")));
                    }
                    open.key = Some((key, span, is_merge));
                }
            }
            _ => {} // a scalar is never open
        }
        Ok(())
    }

    /// What the merge keys of a map bring in: what it does not have itself.
    fn merge(&mut self, open: &mut Open, end: Span) -> Result<(), ParseError> {
        let merges = std::mem::take(&mut open.merges);
        let Value::Map(entries) = &mut open.node.value else {
            return Ok(());
        };
        let mut has: HashSet<Arc<str>> = entries.iter().map(|entry| entry.key.clone()).collect();
        let mut bring = |node: Node| -> Result<(), ParseError> {
            let Value::Map(merged) = node.value else {
                let message = "a merge key (`<<`) needs a map, or a list of maps";
                return Err(ParseError::syntax(self.text, node.span.start(), message));
            };
            for mut entry in merged {
                if has.insert(entry.key.clone()) {
                    self.budget.take(self.text, end.start(), 1)?;
                    entry.merged = true;
                    entry.span = Span::default();
                    share(&mut entry.value);
                    entries.push(entry);
                }
            }
            Ok(())
        };
        for node in merges {
            match node.value {
                Value::List(items) => items.into_iter().try_for_each(&mut bring)?,
                _ => bring(node)?,
            }
        }
        Ok(())
    }

    fn error(&self, span: Span, message: &str) -> ParseError {
        ParseError::syntax(self.text, span.start(), message)
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Node {
    let text: Arc<str> = text.into();
    let tag = tag.map(tag_name);
    let resolved = match tag.as_deref() {
        Some("!!str" | "!") => yaml::Value::Text,
        None if style != ScalarStyle::Plain => yaml::Value::Text,
        _ => yaml::resolve(&text),
    };
    let leads_with_zero = |text: &str| {
        let digits = text.trim_start_matches(['+', '-']);
        digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit()
    };
    let value = match resolved {
        yaml::Value::Null => Value::Null,
        yaml::Value::Bool(is) => Value::Bool(is),
        yaml::Value::Integer if leads_with_zero(&text) => Value::Word(text),
        yaml::Value::Integer => Value::Integer(text),
        yaml::Value::Float => Value::Float(text),
        yaml::Value::Text if tag.is_none() && style == ScalarStyle::Plain && is_word(&text) => {
            Value::Word(text)
        }
        yaml::Value::Text => Value::Text(text),
    };
    let mut node = Node::new(span, value);
    node.tag = tag.filter(|tag| !is_own(tag)).map(Into::into);
    node
}

/// Where the `|` or `>` stands of the block whose first line begins at byte `at`.
fn block_header(text: &str, at: usize) -> Option<usize> {
    let before = text[..at].trim_end();
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let mut marks = before[line..].match_indices(['|', '>']);
    marks.find_map(|(column, _)| {
        let is_apart = column == 0 || before[line..][..column].ends_with([' ', '\t']);
        (is_apart && is_header(&before[line + column..])).then_some(line + column)
    })
}

/// Whether the first line of `text` ends as one that begins a block does: `|`, `>2-`, perhaps with a comment.
fn is_header(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(" #").next().unwrap_or_default().trim_end();
    let mark = line.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
    mark.ends_with(['|', '>'])
}

/// Tags of the core schema say only what is there anyway.
fn is_own(tag: &str) -> bool {
    matches!(
        tag,
        "!" | "!!str" | "!!null" | "!!bool" | "!!int" | "!!float" | "!!seq" | "!!map"
    )
}

/// Whether what follows `before` begins its line, behind a tab.
fn is_indented_by_tabs(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.contains('\t') && line.chars().all(|c| matches!(c, ' ' | '\t'))
}

/// Where the colon behind a key ends.
fn colon(text: &str, key_end: usize) -> usize {
    let rest = &text[key_end..];
    let blank = rest.len() - rest.trim_start().len();
    key_end
        + if rest[blank..].starts_with(':') {
            blank + 1
        } else {
            0
        }
}

/// Nodes, bytes of texts, and how deep.
fn measure(node: &Node) -> (usize, usize, usize) {
    let mut sum = (1, 0, 0);
    let mut inside = |node: &Node, key: usize| {
        let (nodes, bytes, height) = measure(node);
        sum.0 += nodes + usize::from(key > 0);
        sum.1 += bytes + key;
        sum.2 = height.max(sum.2);
    };
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| inside(item, 0)),
        Value::Map(entries) => entries
            .iter()
            .for_each(|entry| inside(&entry.value, entry.key.len())),
        Value::Integer(text)
        | Value::Float(text)
        | Value::Text(text)
        | Value::Word(text)
        | Value::Time(text) => return (1, text.len(), 0),
        Value::Null | Value::Bool(_) => return sum,
    }
    sum.2 = (sum.2 + 1).min(MAX_DEPTH + 1);
    sum
}

/// Marks that what is here stands elsewhere in the file.
fn share(node: &mut Node) {
    node.shared = true;
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(share),
        Value::Map(entries) => entries.iter_mut().for_each(|entry| share(&mut entry.value)),
        _ => {}
    }
}
