//! The parser's events, put together.

use std::{collections::HashMap, sync::Arc};

use super::{
    Entry, Kind, MAX_DEPTH, MAX_DOCUMENTS, MAX_NODES, MAX_SCALAR, MAX_TEXT, Node, Span, Value,
    size::Size,
    tag::{self, Wrong},
};
use crate::{
    escape,
    policy::{
        problem::{Problem, Problems},
        source::Source,
    },
    yaml::{self, Event, Events, Fault, MAX_MARKS, Marker, Tag},
};

/// How far a tab in the indentation of a text is looked for.
const MAX_LINES_OF_TEXT: usize = 1000;

/// A problem after which nothing more of the file is read.
struct Fatal(Problem);

/// A list or mapping whose end has not been seen.
struct Open {
    span: Span,
    /// Zero: none.
    anchor: usize,
    kind: Kind,
    /// Of a mapping: the key whose value comes next.
    key: Option<Key>,
    /// Of a mapping: the keys so far.
    keys: HashMap<Arc<str>, Span>,
}

enum Key {
    Good(Arc<str>, Span),
    /// A problem has been said; the value is left out.
    Bad,
}

pub(super) struct Builder<'s> {
    source: &'s Arc<Source>,
    end: Span,
    problems: &'s mut Problems,
    open: Vec<Open>,
    documents: Vec<Node>,
    /// What the anchors of this document stand for, by number; those that are not closed yet are in `open`.
    anchors: HashMap<usize, Node>,
    nodes: usize,
    text: usize,
}

impl<'s> Builder<'s> {
    pub(super) fn new(source: &'s Arc<Source>, problems: &'s mut Problems) -> Self {
        Self {
            source,
            end: source.end(),
            problems,
            open: Vec::new(),
            documents: Vec::new(),
            anchors: HashMap::new(),
            nodes: 0,
            text: 0,
        }
    }

    pub(super) fn documents(mut self) -> Vec<Node> {
        if let Err(Fatal(problem)) = self.read() {
            self.problems.push(problem);
        }
        self.documents
    }

    fn read(&mut self) -> Result<(), Fatal> {
        let source = self.source;
        for event in Events::new(source.text()) {
            let (event, span) = event.map_err(|fault| self.fault(&fault))?;
            self.event(event, self.span(span.start, span.end))?;
        }
        Ok(())
    }

    fn fault(&self, fault: &Fault) -> Fatal {
        match fault {
            Fault::Forbidden(c, at) => {
                let shown = escape::text(c.encode_utf8(&mut [0; 4])).to_string();
                self.fatal(
                    self.source.span_at(*at),
                    format!("YAML does not allow the control character {shown}"),
                    &format!("in a text in double quotes it is written as `{shown}`"),
                )
            }
            Fault::Marks(span) => self.fatal(
                self.span(span.start, span.end),
                format!("more than {MAX_MARKS} marks of punctuation in one `{{…}}`, `[…]` or text"),
                "write it as lines with indentation, or keep big contents in files of their own: `content: {file: …}`",
            ),
            Fault::Syntax(error) => self.syntax(error.info(), error.marker()),
        }
    }

    /// What the parser says, where it should say it.
    fn syntax(&self, said: &str, marker: &Marker) -> Fatal {
        let mut at = self.point(marker);
        if said == yaml::TAB_IN_TEXT {
            // Said of the text's first line; the tab is in a later one.
            let is_it = |line: &u32| {
                let line = self.source.line(*line);
                line[..line.len() - line.trim_start().len()].contains('\t')
            };
            at.line = (at.line + 1..)
                .take(MAX_LINES_OF_TEXT)
                .find(is_it)
                .unwrap_or(at.line);
            at.column = 1;
        }
        let (message, help) = yaml::explain(said);
        let mut problem = self.place(at).problem(message);
        problem.help.extend(help.map(str::to_owned));
        if let Some(open) = self.open.last()
            && let Some(bracket @ ('{' | '[')) = self.first(open.span)
            && yaml::is_unclosed(said)
        {
            let opened = self.place(open.span).position();
            problem = problem.help(format!("the `{bracket}` at {opened} is not closed yet"));
        }
        Fatal(problem)
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Fatal> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.anchors.clear();
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                if text.len() > MAX_SCALAR {
                    return Err(self.fatal(
                        span,
                        format!(
                            "a text of {} bytes; at most {MAX_SCALAR} are allowed",
                            text.len()
                        ),
                        "keep big contents in files of their own: `content: {file: …}`",
                    ));
                }
                self.count(span, 1, text.len())?;
                let kind = match tag::value(&text, style, tag.as_deref()) {
                    Ok(value) => Kind::Scalar(text.into(), value),
                    Err(wrong) => {
                        self.wrong_tag(wrong, span);
                        Kind::Broken
                    }
                };
                self.anchor(anchor, Node { span, kind })
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(span, anchor, tag.as_deref(), Kind::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(span, anchor, tag.as_deref(), Kind::Map(Vec::new()))
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open {
                    mut span,
                    anchor,
                    kind,
                    ..
                }) => {
                    if let Kind::Map(entries) = &kind
                        && let Some(first) = entries.first()
                        && span.length == 0
                    {
                        span.length = first.key_span.length;
                    }
                    self.anchor(anchor, Node { span, kind })
                }
                None => Ok(()), // the parser's events are balanced
            },
            Event::Alias(anchor) => {
                if self.open.iter().any(|open| open.anchor == anchor) {
                    return Err(self.fatal(
                        span,
                        "an alias within what it stands for",
                        "a policy cannot contain itself",
                    ));
                }
                let Some(node) = self.anchors.get(&anchor) else {
                    let (message, help) = yaml::explain("while parsing node, found unknown anchor");
                    return Err(self.fatal(span, message, help.unwrap_or_default()));
                };
                let size = Size::of(node);
                // The place of the use for what stands there, the place of the text for what is inside.
                let node = Node {
                    span,
                    kind: node.kind.clone(),
                };
                self.depth(span, self.open.len() + size.height)?;
                self.count(span, size.nodes, size.text)?;
                self.add(node)
            }
        }
    }

    fn begin(
        &mut self,
        span: Span,
        anchor: usize,
        tag: Option<&Tag>,
        kind: Kind,
    ) -> Result<(), Fatal> {
        self.depth(span, self.open.len() + 1)?;
        self.count(span, 1, 0)?;
        if let Some(tag) = tag
            && let Err(wrong) = tag::collection(tag, matches!(kind, Kind::List(_)))
        {
            self.wrong_tag(wrong, span);
        }
        self.open.push(Open {
            span,
            anchor,
            kind,
            key: None,
            keys: HashMap::new(),
        });
        Ok(())
    }

    /// A node is complete.
    fn anchor(&mut self, anchor: usize, node: Node) -> Result<(), Fatal> {
        if anchor != 0 {
            let size = Size::of(&node);
            self.count(node.span, size.nodes, size.text)?; // it is kept a second time
            self.anchors.insert(anchor, node.clone());
        }
        self.add(node)
    }

    fn add(&mut self, node: Node) -> Result<(), Fatal> {
        let Some(open) = self.open.last_mut() else {
            if matches!(node.kind, Kind::Scalar(_, Value::Null)) {
                return Ok(());
            }
            if self.documents.len() == MAX_DOCUMENTS {
                let message = format!("more than {MAX_DOCUMENTS} documents in one file");
                return Err(self.fatal(node.span, message, "split it into several files"));
            }
            self.documents.push(node);
            return Ok(());
        };
        match (&mut open.kind, open.key.take()) {
            (Kind::List(items), _) => items.push(node),
            (Kind::Map(entries), Some(Key::Good(key, key_span))) => entries.push(Entry {
                key,
                key_span,
                value: node,
            }),
            (Kind::Map(_), Some(Key::Bad)) => {}
            (Kind::Map(_), None) => {
                let key = self.key(node);
                if let Some(open) = self.open.last_mut() {
                    open.key = Some(key);
                }
            }
            (Kind::Scalar(..) | Kind::Broken, _) => {} // are never open
        }
        Ok(())
    }

    /// The key that `node` is for the innermost mapping.
    fn key(&mut self, node: Node) -> Key {
        let (name, value) = match node.kind {
            Kind::Scalar(name, value) if value != Value::Null => (name, value),
            Kind::Broken => return Key::Bad,
            Kind::Scalar(..) | Kind::List(_) | Kind::Map(_) => {
                let place = self.place(node.span);
                self.problems
                    .push(place.problem("a field's name must be a text").help(
                    "write `name: value`; put a text that begins with `{`, `[` or `?` in quotes",
                ));
                return Key::Bad;
            }
        };
        if &*name == "<<" && value == Value::Text && self.first(node.span) == Some('<') {
            let place = self.place(node.span);
            self.problems.push(
                place
                    .problem("merge keys (`<<`) are not part of YAML 1.2")
                    .help(
                        "write the fields out, or use an alias for a whole value: `guard: *guard`",
                    ),
            );
            return Key::Bad;
        }
        let Some(open) = self.open.last_mut() else {
            return Key::Bad;
        };
        if let Some(first) = open.keys.insert(name.clone(), node.span) {
            open.keys.insert(name.clone(), first);
            let first = self.place(first).position();
            let place = self.place(node.span);
            self.problems.push(
                place
                    .problem(format!("the field {} is given twice", escape::name(&name)))
                    .help(format!("first given at {first}")),
            );
            return Key::Bad;
        }
        Key::Good(name, node.span)
    }

    /// The first character of what stands at `span`.
    fn first(&self, span: Span) -> Option<char> {
        let line = self.source.line(span.line);
        line.chars().nth(span.column.saturating_sub(1) as usize)
    }

    fn wrong_tag(&mut self, Wrong { message, help }: Wrong, span: Span) {
        let problem = self.place(span).problem(message).help(help);
        self.problems.push(problem);
    }

    fn depth(&self, span: Span, depth: usize) -> Result<(), Fatal> {
        if depth > MAX_DEPTH {
            let (message, help) = yaml::explain("recursion limit exceeded");
            return Err(self.fatal(span, message, help.unwrap_or_default()));
        }
        Ok(())
    }

    fn count(&mut self, span: Span, nodes: usize, text: usize) -> Result<(), Fatal> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.text = self.text.saturating_add(text);
        let message = if self.nodes > MAX_NODES {
            format!(
                "more than {MAX_NODES} fields and values in one file, what aliases stand for included"
            )
        } else if self.text > MAX_TEXT {
            format!(
                "more than {} MiB of text in one file, what aliases stand for included",
                MAX_TEXT >> 20
            )
        } else {
            return Ok(());
        };
        Err(self.fatal(
            span,
            message,
            "split it into several files, and use fewer aliases",
        ))
    }

    fn fatal(&self, span: Span, message: impl Into<String>, help: &str) -> Fatal {
        Fatal(self.place(span).problem(message).help(help))
    }

    fn place(&self, span: Span) -> crate::policy::Place {
        self.source.place(span.line, span.column, span.length)
    }

    fn point(&self, at: &Marker) -> Span {
        self.span(*at, *at)
    }

    /// The parser counts lines from 1 and columns from 0, and what ends with the text it may put on a line that is not there.
    fn span(&self, start: Marker, end: Marker) -> Span {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (line, column) = (number(start.line()), number(start.col() + 1));
        if (line, column) > (self.end.line, self.end.column) {
            return self.end;
        }
        let end = if end.line() == start.line() {
            end.col()
        } else {
            self.source.line(line).chars().count()
        };
        Span {
            line,
            column,
            length: number(end.saturating_sub(start.col())),
        }
    }
}
