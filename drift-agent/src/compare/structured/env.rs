//! `KEY=value` with quotes, `export` and comments, and the properties of Java (`key: value`, `key = value`, `!` comments, lines that go on).
//!
//! * In single quotes everything is itself. In double quotes a backslash escapes; quotes may hold several lines.
//! * A value in which a shell would put something (`$HOME`) is not equal to the same text in single quotes.
//! * Behind `KEY=value` without quotes, ` #` begins a comment, as shells and dotenv have it. (systemd and Docker take it for part of the
//!   value: there, the change of such a comment is told as another way of writing.)
//! * `export KEY=value` is not equal to `KEY=value`.

use super::{
    ParseError,
    lines::{Line, bare, bare_end, bare_start, goes_on, is_blank, trim},
    value::{Budget, Entry, Node, Span, Value},
};

pub(super) const EXPORT: &str = "export";

pub(super) fn parse(text: &str) -> Result<Node, ParseError> {
    let mut budget = Budget::default();
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(line) = Line::at(text, at) {
        at = line.next;
        let shown = bare(line.text(text));
        if shown.is_empty() || shown.starts_with(['#', '!']) {
            continue;
        }
        budget.take(text, line.start, 1)?;
        let (entry, next) = entry(text, line)?;
        entries.push(entry);
        at = next;
    }
    Ok(Node::new(Span::new(0, text.len()), Value::Map(entries)))
}

fn entry(text: &str, line: Line) -> Result<(Entry, usize), ParseError> {
    let whole = trim(text, line.start, line.end);
    let shown = &text[whole.range()];
    let exported = shown
        .strip_prefix(EXPORT)
        .filter(|rest| rest.starts_with(is_blank))
        .map(bare_start)
        .filter(|rest| !rest.starts_with(['=', ':']));
    let pair = exported.unwrap_or(shown);
    let key_at = whole.end() - pair.len();
    let length = pair
        .find(|c: char| matches!(c, '=' | ':') || is_blank(c))
        .unwrap_or(pair.len());
    if length == 0 {
        return Err(ParseError::syntax(text, key_at, "expected a name"));
    }
    let rest = bare_start(&pair[length..]);
    let is_tight = rest.len() == pair.len() - length && rest.starts_with('=');
    let written = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    // `KEY= value` is the value of a property; `KEY=value` that of a shell.
    let is_tight = is_tight && !written.starts_with(is_blank);
    let begin = whole.end() - bare_start(written).len();
    let (value, span, next) = if length == pair.len() {
        (Value::Null, Span::new(begin, begin), line.next)
    } else {
        value(text, begin, line, is_tight)?
    };
    let mut node = Node::new(span, value);
    node.tag = exported.map(|_| EXPORT.into());
    let entry = Entry {
        key: pair[..length].into(),
        span: Span::new(whole.start(), span.end()),
        merged: false,
        value: node,
    };
    Ok((entry, next))
}

/// The value that begins at byte `begin` of `line`: where it stands, and where the next line begins.
fn value(
    text: &str,
    begin: usize,
    line: Line,
    is_tight: bool,
) -> Result<(Value, Span, usize), ParseError> {
    if let Some(quote @ ('"' | '\'')) = text[begin..line.end].chars().next() {
        let Some((value, end)) = quoted(text, begin, quote) else {
            return Err(ParseError::syntax(
                text,
                begin,
                "this quote is never closed",
            ));
        };
        let last = Line::around(text, end).unwrap_or(line);
        let behind = &text[end..last.end.max(end)];
        let is_alone = bare(behind).is_empty();
        if is_alone || behind.starts_with(is_blank) && bare_start(behind).starts_with('#') {
            return Ok((value, Span::new(begin, end), last.next.max(end)));
        }
        // Quotes in the middle of a value: it is what stands there.
    }
    let mut last = line;
    let mut joined = String::new();
    let mut from = begin;
    while goes_on(&text[from..last.end])
        && let Some(next) = Line::at(text, last.next)
    {
        joined.push_str(&text[from..last.end - 1]);
        from = next.start + (next.text(text).len() - bare_start(next.text(text)).len());
        last = next;
    }
    let part = &text[from..last.end];
    let comment = match (is_tight, part.starts_with('#')) {
        (true, false) => part.find(" #").or_else(|| part.find("\t#")),
        (true, true) | (false, _) => None,
    };
    let part = bare_end(&part[..comment.unwrap_or(part.len())]);
    joined.push_str(part);
    let span = Span::new(begin, (from + part.len()).max(begin));
    let value = if is_tight && expands(&joined) {
        Value::Word(joined.into())
    } else {
        Value::Text(joined.into())
    };
    Ok((value, span, last.next))
}

/// What stands in the quotes that open at byte `begin`, and where they end.
fn quoted(text: &str, begin: usize, quote: char) -> Option<(Value, usize)> {
    let inside = begin + 1;
    if quote == '\'' {
        let end = inside + text[inside..].find('\'')?;
        return Some((Value::Text(text[inside..end].into()), end + 1));
    }
    let mut value = String::new();
    let mut is_word = false;
    let mut chars = text[inside..].char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let value = if is_word {
                    Value::Word(value.into())
                } else {
                    Value::Text(value.into())
                };
                return Some((value, inside + at + 1));
            }
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                c @ ('"' | '\\' | '$' | '`') => value.push(c),
                '\n' => {}
                c => value.extend(['\\', c]),
            },
            c => {
                is_word |= matches!(c, '$' | '`');
                value.push(c);
            }
        }
    }
    None
}

/// Whether a shell would put something else there.
fn expands(text: &str) -> bool {
    text.contains(['$', '`'])
}
