//! TOML: lines under headers.

use toml_edit::{Document, Item};

use super::{
    EditError,
    flow::{self, Comments},
    plan::{Addition, Change},
    render,
    splice::Splices,
};
use crate::compare::structured::{
    lines::{Line, indentation},
    pointer::{Pointer, Token},
    value::{Node, Tree, Value},
};

pub(super) fn apply(
    tree: &Tree,
    change: &Change<'_>,
    splices: &mut Splices<'_>,
) -> Result<(), EditError> {
    let unsupported = |pointer: &Pointer, why| EditError::Unsupported {
        pointer: pointer.clone(),
        why,
    };
    let text = splices.text;
    match change {
        Change::Set {
            pointer,
            observed,
            declared,
            ..
        } => {
            if observed.span.range().is_empty() || is_section(text, observed) {
                return Err(unsupported(
                    pointer,
                    "it is a table with a header of its own",
                ));
            }
            splices.replace(observed.span.range(), render::toml(declared));
        }
        Change::Remove {
            pointer,
            parent,
            entries,
        } => {
            if is_inline(text, parent) {
                flow::remove(splices, parent, entries, Comments::None);
                return Ok(());
            }
            let entries = entries
                .iter()
                .filter_map(|index| parent.entries()?.get(*index));
            for entry in entries {
                remove(splices, &entry.value).ok_or_else(|| {
                    unsupported(pointer, "it cannot be told apart from what is around it")
                })?;
            }
        }
        Change::Add {
            pointer,
            parent,
            additions,
        } => {
            if is_inline(text, parent) {
                let items: Vec<String> = additions.iter().map(line).collect();
                flow::insert(splices, parent, &items, Comments::None);
                return Ok(());
            }
            let (tables, values): (Vec<_>, Vec<_>) = additions
                .iter()
                .partition(|addition| is_table(&addition.value));
            add_values(tree, splices, pointer, &values)
                .ok_or_else(|| unsupported(pointer, "its table cannot be found"))?;
            let path = path(pointer).ok_or_else(|| unsupported(pointer, "it is in a list"))?;
            for table in tables {
                let mut path = path.clone();
                path.push(render::toml_key(&table.key));
                add_table(splices, &path, &table.value);
            }
        }
        Change::Document { pointer, .. } => {
            return Err(unsupported(pointer, "TOML has one document"));
        }
    }
    Ok(())
}

fn is_inline(text: &str, node: &Node) -> bool {
    let own = &text[node.span.range()];
    own.starts_with('{')
}

/// A table with a header: its span begins with it.
fn is_section(text: &str, node: &Node) -> bool {
    matches!(node.value, Value::Map(_)) && !is_inline(text, node)
}

fn is_table(node: &Node) -> bool {
    node.entries().is_some_and(|entries| !entries.is_empty())
}

fn line(addition: &Addition<'_>) -> String {
    format!(
        "{} = {}",
        render::toml_key(&addition.key),
        render::toml(&addition.value)
    )
}

/// The keys of a pointer as a header has them; none within a list.
fn path(pointer: &Pointer) -> Option<Vec<String>> {
    let keys = pointer.tokens.iter().map(|token| match token {
        Token::Key(key) => Some(render::toml_key(key)),
        Token::Index(_) | Token::Repeat(_) => None,
    });
    keys.collect()
}

/// Takes out the line of a value, or the header and all lines of a table.
fn remove(splices: &mut Splices<'_>, node: &Node) -> Option<()> {
    let text = splices.text;
    match &node.value {
        Value::Map(entries) if !is_inline(text, node) => {
            let header = node.span.range();
            if text[header.clone()].starts_with('[') {
                let line = Line::around(text, header.start)?;
                splices.replace(line.start..line.next, "");
            }
            entries
                .iter()
                .try_for_each(|entry| remove(splices, &entry.value))
        }
        Value::List(items)
            if node.span.range().is_empty() || text[node.span.range()].starts_with("[[") =>
        {
            // Its tables have no place of their own.
            items.is_empty().then_some(())
        }
        _ => {
            if node.span.range().is_empty() {
                return None;
            }
            let first = Line::around(text, node.span.start())?;
            let last = Line::around(text, node.span.end())?;
            splices.replace(first.start..last.next, "");
            Some(())
        }
    }
}

/// Puts `additions` behind the last value of the table at `pointer`.
fn add_values(
    tree: &Tree,
    splices: &mut Splices<'_>,
    pointer: &Pointer,
    additions: &[&Addition<'_>],
) -> Option<()> {
    if additions.is_empty() {
        return Some(());
    }
    let (text, eol) = (splices.text, splices.eol());
    let document = Document::parse(&*tree.text).ok()?;
    let mut item = document.as_item();
    for token in &pointer.tokens {
        item = match token {
            Token::Key(key) => item.get(&**key)?,
            Token::Index(index) | Token::Repeat(index) => item.get(*index)?,
        };
    }
    let table = item.as_table()?;
    let values = table.iter().filter_map(|(_, item)| match item {
        Item::Value(value) => value.span(),
        Item::None | Item::Table(_) | Item::ArrayOfTables(_) => None,
    });
    let behind = values.max_by_key(|span| span.end);
    let lines: Vec<String> = additions.iter().map(|addition| line(addition)).collect();
    if let Some(span) = behind {
        let first = Line::around(text, span.start)?;
        let prefix = dotted_prefix(first.text(text));
        let last = Line::around(text, span.end)?;
        let added = lines.iter().map(|line| format!("{eol}{prefix}{line}"));
        splices.insert(last.end, added.collect::<String>());
        return Some(());
    }
    if pointer.tokens.is_empty() {
        // Before the first header, and the comments over it.
        let at = first_header(text);
        let gap = if at == text.len() { "" } else { eol };
        let added = lines.iter().map(|line| format!("{line}{eol}"));
        let start = if at == text.len() && !text.is_empty() && !text.ends_with('\n') {
            eol
        } else {
            ""
        };
        splices.insert(at, format!("{start}{}{gap}", added.collect::<String>()));
        return Some(());
    }
    match table.span() {
        Some(span) if text[span.clone()].starts_with('[') => {
            let header = Line::around(text, span.start)?;
            let added = lines.iter().map(|line| format!("{eol}{line}"));
            splices.insert(header.end, added.collect::<String>());
        }
        _ => {
            let path = path(pointer)?.join(".");
            let added = lines.iter().map(|line| format!("{line}{eol}"));
            append(
                splices,
                &format!("[{path}]{eol}{}", added.collect::<String>()),
            );
        }
    }
    Some(())
}

/// The indentation of a line, and the keys before its last one (`a.b.` of `a.b.c = 1`).
fn dotted_prefix(line: &str) -> &str {
    let indent = indentation(line);
    let key = line.split('=').next().unwrap_or_default();
    let is_simple = !key.contains(['"', '\'']);
    match key.rfind('.') {
        Some(at) if is_simple => &line[..=at],
        _ => indent,
    }
}

/// Where the first header begins.
fn first_header(text: &str) -> usize {
    let mut at = 0;
    let mut comments = 0;
    while let Some(line) = Line::at(text, at) {
        let shown = line.text(text).trim();
        if shown.starts_with('[') {
            return comments;
        }
        at = line.next;
        if !shown.starts_with('#') {
            comments = at;
        }
    }
    text.len()
}

fn add_table(splices: &mut Splices<'_>, path: &[String], table: &Node) {
    let eol = splices.eol();
    let entries = table.entries().unwrap_or_default();
    let (tables, values): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| is_table(&entry.value));
    let lines = values.iter().map(|entry| {
        format!(
            "{} = {}{eol}",
            render::toml_key(&entry.key),
            render::toml(&entry.value)
        )
    });
    if !values.is_empty() {
        let lines: String = lines.collect();
        append(splices, &format!("[{}]{eol}{lines}", path.join(".")));
    }
    for entry in tables {
        let mut path = path.to_vec();
        path.push(render::toml_key(&entry.key));
        add_table(splices, &path, &entry.value);
    }
}

fn append(splices: &mut Splices<'_>, section: &str) {
    let (text, eol) = (splices.text, splices.eol());
    let start = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        eol
    };
    let gap = if text.is_empty() { "" } else { eol };
    splices.insert(text.len(), format!("{start}{gap}{section}"));
}
