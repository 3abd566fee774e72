//! JSON and JSON5.

use super::{
    EditError,
    flow::{self, Comments, own_line},
    plan::Change,
    render,
    splice::Splices,
};
use crate::compare::structured::{
    lines::{Line, indentation},
    value::Node,
};

pub(super) fn apply(change: &Change<'_>, splices: &mut Splices<'_>) -> Result<(), EditError> {
    match change {
        Change::Set {
            observed, declared, ..
        } => {
            let value = value(splices, declared, observed.span.start(), 0);
            splices.replace(observed.span.range(), value);
        }
        Change::Remove {
            parent, entries, ..
        } => flow::remove(splices, parent, entries, Comments::Slashes),
        Change::Add {
            parent, additions, ..
        } => {
            let at = match parent.entries().and_then(<[_]>::last) {
                Some(last) => last.span.start(),
                None => parent.span.start(),
            };
            let empty = parent.entries().is_none_or(<[_]>::is_empty);
            let items: Vec<String> = additions
                .iter()
                .map(|addition| {
                    let value = value(splices, &addition.value, at, usize::from(empty));
                    format!("{}: {value}", render::quoted(&addition.key))
                })
                .collect();
            if empty && splices.text.contains('\n') && is_bare(splices.text, parent) {
                let (eol, indent) = (splices.eol(), line_indent(splices.text, at));
                let inside = format!("{eol}{indent}{}", unit(splices.text));
                let items = items.join(&format!(",{inside}"));
                let range = parent.span.start() + 1..parent.span.end() - 1;
                splices.replace(range, format!("{inside}{items}{eol}{indent}"));
            } else {
                flow::insert(splices, parent, &items, Comments::Slashes);
            }
        }
        Change::Document { pointer, .. } => {
            return Err(EditError::Unsupported {
                pointer: pointer.clone(),
                why: "JSON has one document",
            });
        }
    }
    Ok(())
}

/// `node` as it is written where the line of byte `at` is, `deeper` levels below it.
fn value(splices: &Splices<'_>, node: &Node, at: usize, deeper: usize) -> String {
    let text = splices.text;
    let unit = unit(text);
    let indent = format!("{}{}", line_indent(text, at), unit.repeat(deeper));
    // A file on one line stays on one line, and so does a map within a line of others.
    let lines = text.trim_end().contains('\n')
        && (own_line(text, at).is_some() || deeper > 0 || starts_line(text, at));
    render::json(node, lines.then_some((splices.eol(), &indent, unit)))
}

/// Whether byte `at` is the value of the key that begins its line.
fn starts_line(text: &str, at: usize) -> bool {
    let before = Line::around(text, at).map_or("", |line| &text[line.start..at]);
    !before.contains(['{', '[', ','])
}

fn is_bare(text: &str, map: &Node) -> bool {
    let inside = map.span.start() + 1..map.span.end().saturating_sub(1);
    text.get(inside)
        .is_some_and(|inside| inside.trim().is_empty())
}

fn line_indent(text: &str, at: usize) -> &str {
    Line::around(text, at).map_or("", |line| indentation(line.text(text)))
}

/// What one level is indented by: the first indentation there is.
fn unit(text: &str) -> &str {
    text.lines()
        .map(indentation)
        .find(|indent| !indent.is_empty())
        .unwrap_or("  ")
}
