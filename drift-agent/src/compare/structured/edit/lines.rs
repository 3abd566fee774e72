//! The formats that are made of lines: INI, environment, key-value.

use super::{
    EditError,
    plan::{Addition, Change},
    splice::Splices,
};
use crate::compare::structured::{
    Format, Pointer,
    env::EXPORT,
    keyvalue::BLOCK,
    lines::{Line, indentation},
    value::{Entry, Node, Tree, Value},
};

pub(super) fn apply(
    tree: &Tree,
    change: &Change<'_>,
    splices: &mut Splices<'_>,
) -> Result<(), EditError> {
    let writer = Writer {
        tree,
        pointer: change.pointer(),
    };
    match change {
        Change::Set {
            entry: Some(entry),
            declared,
            ..
        } => writer.set(splices, entry, declared),
        Change::Set { .. } => Err(writer.unsupported("it is the whole file")),
        Change::Remove {
            parent, entries, ..
        } => {
            for entry in entries
                .iter()
                .filter_map(|index| parent.entries()?.get(*index))
            {
                let text = splices.text;
                let first = Line::around(text, entry.span.start());
                let last = Line::around(text, entry.span.end());
                if let (Some(first), Some(last)) = (first, last) {
                    splices.replace(first.start..last.next, "");
                }
            }
            Ok(())
        }
        Change::Add {
            parent, additions, ..
        } => {
            let additions = additions.iter();
            let mut additions = additions.map(|addition| writer.add(splices, parent, addition));
            additions.try_for_each(|added| added)
        }
        Change::Document { .. } => Err(writer.unsupported("such a file has one document")),
    }
}

struct Writer<'t> {
    tree: &'t Tree,
    pointer: Pointer,
}

impl Writer<'_> {
    fn set(
        &self,
        splices: &mut Splices<'_>,
        entry: &Entry,
        declared: &Node,
    ) -> Result<(), EditError> {
        if entry.value.is_container() || declared.is_container() {
            return Err(self.unsupported("a section there is a key here, or the other way round"));
        }
        let is_bare = |node: &Node| matches!(node.value, Value::Null);
        if is_bare(&entry.value) || is_bare(declared) || entry.value.tag != declared.tag {
            let line = self.line(splices.text, &entry.key, declared, Some(entry))?;
            splices.replace(entry.span.range(), line);
            return Ok(());
        }
        let own = &splices.text[entry.value.span.range()];
        let indent = Line::around(splices.text, entry.span.start())
            .map_or("", |line| indentation(line.text(splices.text)));
        let value = self.value(declared, own, indent, splices.eol())?;
        let span = entry.value.span.range();
        // `K=` has its value right behind; `Key` needs a blank first.
        let start = &splices.text[entry.span.start()..span.start];
        let gap = if start.ends_with(['=', ':', ' ', '\t']) {
            ""
        } else {
            " "
        };
        splices.replace(span, format!("{gap}{value}"));
        Ok(())
    }

    fn add(
        &self,
        splices: &mut Splices<'_>,
        parent: &Node,
        addition: &Addition<'_>,
    ) -> Result<(), EditError> {
        let (text, eol) = (splices.text, splices.eol());
        let entries = parent.entries().unwrap_or_default();
        if let Some(inside) = addition.value.entries() {
            let section = self.section(text, &addition.key, inside, eol)?;
            let start = if text.is_empty() || text.ends_with('\n') {
                ""
            } else {
                eol
            };
            let gap = if text.is_empty() { "" } else { eol };
            splices.insert(text.len(), format!("{start}{gap}{section}"));
            return Ok(());
        }
        let plain = |entry: &&Entry| !entry.value.is_container();
        let neighbour = addition.after.or_else(|| entries.iter().rfind(plain));
        let line = self.line(text, &addition.key, &addition.value, neighbour)?;
        if let Some(neighbour) = neighbour {
            let first = Line::around(text, neighbour.span.start());
            let indent = first.map_or("", |line| indentation(line.text(text)));
            let end = neighbour.span.end();
            let at = Line::around(text, end).map_or(end, |line| line.end.max(end));
            splices.insert(at, format!("{eol}{indent}{line}"));
            return Ok(());
        }
        let is_root = parent.span.range() == (0..text.len());
        if !is_root {
            // Behind the header of a section without keys.
            let at = Line::around(text, parent.span.start()).map_or(text.len(), |line| line.end);
            splices.insert(at, format!("{eol}{line}"));
            return Ok(());
        }
        match entries
            .first()
            .and_then(|entry| Line::around(text, entry.span.start()))
        {
            Some(header) => splices.insert(header.start, format!("{line}{eol}{eol}")),
            None => {
                let start = if text.is_empty() || text.ends_with('\n') {
                    ""
                } else {
                    eol
                };
                splices.insert(text.len(), format!("{start}{line}{eol}"));
            }
        }
        Ok(())
    }

    fn section(
        &self,
        text: &str,
        key: &str,
        inside: &[Entry],
        eol: &str,
    ) -> Result<String, EditError> {
        let mut section = String::new();
        match self.tree.format {
            Format::Ini => section = format!("[{key}]{eol}"),
            Format::KeyValue if key.eq_ignore_ascii_case(BLOCK) => {}
            _ => return Err(self.unsupported("there are no sections in this format")),
        }
        for (index, entry) in inside.iter().enumerate() {
            if entry.value.is_container() {
                return Err(self.unsupported("there are no sections within sections"));
            }
            // What is in a block of sshd is indented by habit.
            let is_inside = self.tree.format == Format::KeyValue && index > 0;
            section.push_str(if is_inside { "    " } else { "" });
            section.push_str(&self.line(text, &entry.key, &entry.value, None)?);
            section.push_str(eol);
        }
        Ok(section)
    }

    /// `key` and `value`, with what stands between them in `neighbour` or else anywhere in the file.
    fn line(
        &self,
        text: &str,
        key: &str,
        value: &Node,
        neighbour: Option<&Entry>,
    ) -> Result<String, EditError> {
        let export = match (&value.tag, self.tree.format) {
            (Some(_), Format::Env) => format!("{EXPORT} "),
            _ => String::new(),
        };
        if matches!(value.value, Value::Null) {
            return Ok(format!("{export}{key}"));
        }
        let root = self.tree.documents.first().and_then(Node::entries);
        let all = root.unwrap_or_default().iter();
        let all = all.flat_map(|entry| match entry.value.entries() {
            Some(inside) => inside.iter(),
            None => std::slice::from_ref(entry).iter(),
        });
        let between = neighbour
            .into_iter()
            .chain(all)
            .find_map(|entry| between(text, entry));
        let default = match self.tree.format {
            Format::KeyValue => " ",
            _ => "=",
        };
        let between = between.unwrap_or(default);
        let own = if between == "=" { "" } else { between };
        let value = self.value(value, own, "", "\n")?;
        Ok(format!("{export}{key}{between}{value}"))
    }

    /// The value as it is written where `own` stands now.
    fn value(&self, node: &Node, own: &str, indent: &str, eol: &str) -> Result<String, EditError> {
        let (text, is_word) = match &node.value {
            Value::Text(text) => (&**text, false),
            Value::Word(text) => (&**text, true),
            _ => return Err(self.unsupported("such a value cannot be written in this format")),
        };
        match self.tree.format {
            Format::Env => Ok(env(text, is_word, own)),
            Format::Ini => Ok(text.replace('\n', &format!("{eol}{indent}    "))),
            _ if text.contains(['\n', '\r']) => Err(self.unsupported("a value is one line here")),
            _ => Ok(text.to_owned()),
        }
    }

    fn unsupported(&self, why: &'static str) -> EditError {
        EditError::Unsupported {
            pointer: self.pointer.clone(),
            why,
        }
    }
}

/// What stands between the key and the value of an entry that has one.
fn between<'t>(text: &'t str, entry: &Entry) -> Option<&'t str> {
    let start = entry.span.start();
    let value = entry.value.span.start();
    if matches!(entry.value.value, Value::Null) || entry.value.is_container() || value <= start {
        return None;
    }
    let head = &text[start..value];
    let at = head.rfind(&*entry.key)? + entry.key.len();
    let between = &head[at..];
    (!between.is_empty()).then_some(between)
}

/// A value of an environment file; `own` is what stands there now: its quotes stay.
fn env(text: &str, is_word: bool, own: &str) -> String {
    let has_control = text.contains(|c: char| c.is_control());
    let is_bare = |c: char| c.is_alphanumeric() || "_-./:@%+,=".contains(c);
    let escaped = |also: &[char]| {
        let mut quoted = String::from('"');
        for c in text.chars() {
            match c {
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '"' | '\\' => quoted.extend(['\\', c]),
                c if also.contains(&c) => quoted.extend(['\\', c]),
                c => quoted.push(c),
            }
        }
        quoted.push('"');
        quoted
    };
    if is_word {
        return escaped(&[]);
    }
    if own.starts_with('\'') && !text.contains('\'') {
        return format!("'{text}'");
    }
    if own.starts_with('"') || has_control {
        return escaped(&['$', '`']);
    }
    // Properties have no quotes; what is there without any is written without.
    let is_property = own.contains(':') || own.contains(' ');
    if text.chars().all(is_bare) || is_property && !text.starts_with(['"', '\'']) {
        return text.to_owned();
    }
    escaped(&['$', '`'])
}
