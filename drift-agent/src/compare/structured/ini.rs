//! Sections of keys: `[section]`, `key = value` (or `key: value`, or a key alone); `;` and `#` begin a comment at the start of a line.
//!
//! * A value is what stands there, its quotes and what may be a comment behind it included: programs do not agree about either.
//! * A key that stands several times has several values, in their order. A section that stands several times is several sections
//!   (WireGuard's `[Peer]`); a systemd unit that splits one in two is therefore not the same. Blanks within the brackets belong to the name.
//! * A line that ends in a backslash goes on in the next. So does a value whose next line is indented further and has no `=` or `:`.
//! * What stands before the first section is at the root.

use super::{
    ParseError,
    lines::{Line, bare, bare_start, goes_on, indentation, trim},
    value::{Budget, Entry, Node, Span, Value},
};

pub(super) fn parse(text: &str) -> Result<Node, ParseError> {
    let mut budget = Budget::default();
    let mut root = Vec::new();
    // The section that is open: its name, where its header ends, what is in it.
    let mut section: Option<(Entry, Vec<Entry>)> = None;
    let mut at = 0;
    while let Some(line) = Line::at(text, at) {
        at = line.next;
        let shown = bare(line.text(text));
        if shown.is_empty() || shown.starts_with([';', '#']) {
            continue;
        }
        budget.take(text, line.start, 1)?;
        if shown.starts_with('[') {
            let header = header(text, line)?;
            root.extend(section.take().map(close));
            section = Some((header, Vec::new()));
            continue;
        }
        let (entry, next) = entry(text, line);
        at = next;
        match &mut section {
            Some((_, entries)) => entries.push(entry),
            None => root.push(entry),
        }
    }
    root.extend(section.take().map(close));
    Ok(Node::new(Span::new(0, text.len()), Value::Map(root)))
}

fn header(text: &str, line: Line) -> Result<Entry, ParseError> {
    let span = trim(text, line.start, line.end);
    let inside = &text[span.range()][1..];
    let end = inside.rfind(']').filter(|end| {
        let behind = bare_start(&inside[end + 1..]);
        behind.is_empty() || behind.starts_with([';', '#'])
    });
    // A `]` in the comment behind it is not the one.
    let end = end.or_else(|| {
        let first = inside.find(']')?;
        let behind = bare_start(&inside[first + 1..]);
        behind.starts_with([';', '#']).then_some(first)
    });
    let Some(end) = end else {
        let message = "a section is written `[name]`, alone on its line";
        return Err(ParseError::syntax(text, span.start(), message));
    };
    Ok(Entry {
        key: inside[..end].into(),
        span: Span::new(span.start(), span.start() + end + 2),
        merged: false,
        value: Node::new(span, Value::Null),
    })
}

fn close((mut header, entries): (Entry, Vec<Entry>)) -> Entry {
    let last = entries
        .last()
        .map_or(header.span.end(), |entry| entry.span.end());
    header.span = Span::new(header.span.start(), last);
    header.value = Node::new(header.span, Value::Map(entries));
    header
}

/// The key and value that begin in `first`, and where the next line begins.
fn entry(text: &str, first: Line) -> (Entry, usize) {
    let shown = first.text(text);
    let separator = shown.find(['=', ':']);
    let key = trim(
        text,
        first.start,
        first.start + separator.unwrap_or(shown.len()),
    );
    let Some(separator) = separator else {
        let value = Node::new(Span::new(key.end(), key.end()), Value::Null);
        return (plain(text, key, key, value), first.next);
    };
    let begin = first.start + separator + 1;
    let (mut last, mut value) = (first, String::new());
    let mut from = begin;
    loop {
        let part = &text[from..last.end];
        let ahead = Line::at(text, last.next);
        if goes_on(part)
            && let Some(next) = ahead
        {
            // systemd puts a blank in the place of the two.
            value.push_str(bare(&part[..part.len() - 1]));
            value.push(' ');
            (from, last) = (next.start, next);
            continue;
        }
        value.push_str(bare(part));
        match ahead {
            Some(next) if continues(shown, next.text(text)) => {
                value.push('\n');
                (from, last) = (next.start, next);
            }
            Some(_) | None => break,
        }
    }
    let span = trim(text, begin, last.end);
    let span = if span.start() == span.end() {
        Span::new(begin, begin)
    } else {
        span
    };
    let node = Node::new(span, Value::Text(bare(&value).into()));
    let whole = Span::new(key.start(), span.end());
    (plain(text, key, whole, node), last.next)
}

/// Whether `next` belongs to the value of the key in `line`.
fn continues(line: &str, next: &str) -> bool {
    let shown = bare(next);
    !shown.is_empty()
        && !shown.starts_with(['#', ';', '['])
        && !shown.contains(['=', ':'])
        && indentation(next).len() > indentation(line).len()
}

fn plain(text: &str, key: Span, whole: Span, value: Node) -> Entry {
    Entry {
        key: text[key.range()].into(),
        span: whole,
        merged: false,
        value,
    }
}
