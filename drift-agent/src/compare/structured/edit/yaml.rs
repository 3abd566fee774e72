//! YAML: lines in blocks, brackets as in JSON.

use super::{
    EditError,
    flow::{self, Comments},
    plan::{Addition, Change},
    render,
    splice::Splices,
};
use crate::compare::structured::{
    lines::Line,
    value::{Entry, Node, Value},
};

pub(super) fn apply(change: &Change<'_>, splices: &mut Splices<'_>) -> Result<(), EditError> {
    match change {
        Change::Set {
            parent,
            entry,
            observed,
            declared,
            ..
        } => set(splices, *parent, *entry, observed, declared),
        Change::Remove {
            parent, entries, ..
        } => {
            if is_flow(splices.text, parent) {
                flow::remove(splices, parent, entries, Comments::Hash);
            } else {
                remove(splices, parent, entries);
            }
        }
        Change::Add {
            parent, additions, ..
        } => {
            if is_flow(splices.text, parent) {
                let item = |addition: &Addition<'_>| {
                    let value = render::yaml_flow(&addition.value, true);
                    format!("{}: {value}", render::yaml_key(&addition.key))
                };
                let items: Vec<String> = additions.iter().map(item).collect();
                flow::insert(splices, parent, &items, Comments::Hash);
            } else {
                add(splices, parent, additions);
            }
        }
        Change::Document { pointer, declared } => {
            let (text, eol) = (splices.text, splices.eol());
            let is_first = pointer.document.is_none_or(|document| document == 0);
            let mut added = String::new();
            if !text.is_empty() && !text.ends_with('\n') {
                added.push_str(eol);
            }
            if !is_first {
                added.push_str("---");
                added.push_str(eol);
            }
            added.push_str(render::yaml_block(declared, "", eol).trim_start());
            added.push_str(eol);
            splices.insert(text.len(), added);
        }
    }
    Ok(())
}

fn is_flow(text: &str, node: &Node) -> bool {
    text[node.span.range()].starts_with(['{', '['])
}

fn set(
    splices: &mut Splices<'_>,
    parent: Option<&Node>,
    entry: Option<&Entry>,
    observed: &Node,
    declared: &Node,
) {
    let (text, eol) = (splices.text, splices.eol());
    let in_flow = parent.is_some_and(|parent| is_flow(text, parent));
    let one_line = |splices: &Splices<'_>| {
        let own = &splices.text[observed.span.range()];
        match &declared.value {
            // The quotes that are there stay.
            Value::Text(text) if own.starts_with('"') => render::quoted(text),
            Value::Text(text) if own.starts_with('\'') && is_single(text) => format!("'{text}'"),
            _ => render::yaml_flow(declared, in_flow),
        }
    };
    let tagged = observed.tag.is_some() || declared.tag.is_some();
    let is_block = observed.is_container() && !is_flow(text, observed) && !observed.shared;
    let column = column(text, parent.unwrap_or(observed));
    let Some(entry) = entry.filter(|_| !in_flow) else {
        if is_block && declared.is_container() && !is_empty(declared) && !tagged {
            let indent = self::column(text, observed);
            let block = render::yaml_block(declared, &indent, eol);
            splices.replace(observed.span.range(), block.trim_start());
        } else if observed.span.range().is_empty() {
            splices.insert(observed.span.start(), format!(" {}", one_line(splices)));
        } else {
            splices.replace(observed.span.range(), one_line(splices));
        }
        return;
    };
    let behind_colon = colon(text, entry);
    if tagged || is_block || observed.span.range().is_empty() {
        let end = observed.span.end().max(behind_colon);
        let end = if observed.span.range().is_empty() {
            behind_colon
        } else {
            end
        };
        let value = render::yaml_block(declared, &format!("{column}  "), eol);
        splices.replace(behind_colon..end, value);
        return;
    }
    let is_long = matches!(&declared.value, Value::Text(text) if text.contains('\n'));
    let own = &text[observed.span.range()];
    if is_long || own.starts_with(['|', '>']) {
        let value = render::yaml_block(declared, &format!("{column}  "), eol);
        splices.replace(observed.span.range(), value.trim_start());
    } else {
        splices.replace(observed.span.range(), one_line(splices));
    }
}

fn is_empty(node: &Node) -> bool {
    match &node.value {
        Value::Map(entries) => entries.is_empty(),
        Value::List(items) => items.is_empty(),
        _ => false,
    }
}

/// Whether a text can stand in single quotes as it is.
fn is_single(text: &str) -> bool {
    !text
        .chars()
        .any(|c| c == '\'' || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}'))
}

/// Where the colon behind the entry's key ends.
fn colon(text: &str, entry: &Entry) -> usize {
    let start = entry.span.start();
    let line = &text[start..];
    // A key in quotes may have a colon in it.
    let key = match line.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let mut escaped = false;
            let end = line[1..].find(|c| {
                let is_end = c == quote && !escaped;
                escaped = c == '\\' && quote == '"' && !escaped;
                is_end
            });
            end.map_or(0, |end| end + 2)
        }
        _ => 0,
    };
    line[key..]
        .find(':')
        .map_or(entry.span.end(), |at| start + key + at + 1)
}

/// As many blanks as stand before a block.
fn column(text: &str, node: &Node) -> String {
    let start = node.span.start();
    let line = text[..start].rfind('\n').map_or(0, |end| end + 1);
    " ".repeat(text[line..start].chars().count())
}

fn add(splices: &mut Splices<'_>, parent: &Node, additions: &[Addition<'_>]) {
    let (text, eol) = (splices.text, splices.eol());
    let indent = column(text, parent);
    let end = parent.span.end();
    let at = Line::around(text, end).map_or(end, |line| line.end.max(end));
    let lines = additions.iter().map(|addition| {
        let value = render::yaml_block(&addition.value, &format!("{indent}  "), eol);
        format!("{eol}{indent}{}:{value}", render::yaml_key(&addition.key))
    });
    let added: String = lines.collect();
    splices.insert(at, added);
}

fn remove(splices: &mut Splices<'_>, parent: &Node, removed: &[usize]) {
    let text = splices.text;
    let entries = parent.entries().unwrap_or_default();
    for entry in removed.iter().filter_map(|index| entries.get(*index)) {
        let (start, end) = (entry.span.start(), entry.span.end());
        let Some(line) = Line::around(text, start) else {
            continue;
        };
        let last = Line::around(text, end).unwrap_or(line);
        if text[line.start..start].trim().is_empty() {
            splices.replace(line.start..last.next.max(end), "");
            continue;
        }
        // Behind the dash of a list: the next key takes its place, unless a comment stands between.
        let next = entries
            .iter()
            .map(|next| next.span.start())
            .filter(|next| *next >= end)
            .min();
        match next {
            Some(next) if !text[end..next].contains('#') => splices.replace(start..next, ""),
            _ => splices.replace(start..end, ""),
        }
    }
}
