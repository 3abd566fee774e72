//! `Key value`, `key = value` or `key` alone on a line; `#` and `;` begin a comment at the start of a line.
//!
//! * A value is all that stands there: what begins with `#` behind it is a comment to some programs only.
//! * A key that stands several times has several values, in their order. The order of different keys is free.
//! * `Match` (and `Host`, without `=`) begins a block, as in the files of ssh. All blocks are one list, `/Match`, in their order: in
//!   `/Match/0` the key `Match` (or `Host`) has what the block is for.

use super::{
    ParseError,
    lines::{Line, bare_start, is_blank, trim},
    value::{Budget, Entry, Node, Span, Value},
};

/// Under what key the blocks stand.
pub(super) const BLOCK: &str = "Match";

pub(super) fn parse(text: &str) -> Result<Node, ParseError> {
    let mut budget = Budget::default();
    let mut root = Vec::new();
    let mut block: Option<Vec<Entry>> = None;
    let mut at = 0;
    while let Some(line) = Line::at(text, at) {
        at = line.next;
        let span = trim(text, line.start, line.end);
        let shown = &text[span.range()];
        if shown.is_empty() || shown.starts_with(['#', ';']) {
            continue;
        }
        budget.take(text, line.start, 1)?;
        let entry = entry(text, span);
        if begins_block(text, &entry) {
            root.extend(block.take().map(close));
            block = Some(vec![entry]);
        } else {
            block.as_mut().unwrap_or(&mut root).push(entry);
        }
    }
    root.extend(block.take().map(close));
    Ok(Node::new(Span::new(0, text.len()), Value::Map(root)))
}

fn entry(text: &str, line: Span) -> Entry {
    let shown = &text[line.range()];
    let length = shown
        .find(|c: char| c == '=' || is_blank(c))
        .unwrap_or(shown.len());
    let rest = bare_start(&shown[length..]);
    let rest = bare_start(rest.strip_prefix('=').unwrap_or(rest));
    let begin = line.end() - rest.len();
    let is_bare = shown.len() == length;
    let value = if is_bare {
        Value::Null
    } else {
        Value::Text(rest.into())
    };
    Entry {
        key: shown[..length].into(),
        span: line,
        merged: false,
        value: Node::new(Span::new(begin, line.end()), value),
    }
}

fn begins_block(text: &str, entry: &Entry) -> bool {
    let between = &text[entry.span.start() + entry.key.len()..entry.value.span.start()];
    entry.key.eq_ignore_ascii_case(BLOCK)
        || entry.key.eq_ignore_ascii_case("host") && !between.is_empty() && !between.contains('=')
}

fn close(entries: Vec<Entry>) -> Entry {
    let start = entries.first().map_or(0, |entry| entry.span.start());
    let end = entries.last().map_or(start, |entry| entry.span.end());
    let span = Span::new(start, end);
    Entry {
        key: BLOCK.into(),
        span,
        merged: false,
        value: Node::new(span, Value::Map(entries)),
    }
}
