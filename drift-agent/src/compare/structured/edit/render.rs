//! Values as text.

use crate::compare::structured::{
    value::{Entry, Node, Value},
    yaml::is_word,
};
use drift_common::yaml;

/// A string in double quotes, with the escapes of JSON (which YAML and TOML know too).
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// `value` as JSON; over several lines where `lines` says how they end and how the value and what is inside it are indented.
pub(super) fn json(node: &Node, lines: Option<(&str, &str, &str)>) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(is) => is.to_string(),
        Value::Integer(text) | Value::Float(text) | Value::Word(text) | Value::Time(text) => {
            text.to_string()
        }
        Value::Text(text) => quoted(text),
        Value::List(items) => bracketed(['[', ']'], lines, items, json),
        Value::Map(entries) => bracketed(['{', '}'], lines, entries, |entry, lines| {
            format!("{}: {}", quoted(&entry.key), json(&entry.value, lines))
        }),
    }
}

type Lines<'l> = Option<(&'l str, &'l str, &'l str)>;

fn bracketed<T>(
    [open, close]: [char; 2],
    lines: Lines<'_>,
    items: &[T],
    show: impl Fn(&T, Lines<'_>) -> String,
) -> String {
    if items.is_empty() {
        return format!("{open}{close}");
    }
    let Some((eol, indent, unit)) = lines else {
        let shown: Vec<String> = items.iter().map(|item| show(item, None)).collect();
        return format!("{open}{}{close}", shown.join(", "));
    };
    let deeper = format!("{indent}{unit}");
    let shown = items.iter().map(|item| {
        let item = show(item, Some((eol, &deeper, unit)));
        format!("{eol}{deeper}{item}")
    });
    format!(
        "{open}{}{eol}{indent}{close}",
        shown.collect::<Vec<_>>().join(",")
    )
}

/// `node` in TOML, on one line.
pub(super) fn toml(node: &Node) -> String {
    match &node.value {
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(toml).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Map(entries) => {
            let entries = entries.iter();
            let entries: Vec<String> = entries
                .map(|entry| format!("{} = {}", toml_key(&entry.key), toml(&entry.value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        _ => json(node, None),
    }
}

pub(super) fn toml_key(key: &str) -> String {
    let is_bare = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    if !key.is_empty() && key.bytes().all(is_bare) {
        return key.to_owned();
    }
    quoted(key)
}

/// `node` in YAML, on one line. `flow`: within brackets.
pub(super) fn yaml_flow(node: &Node, flow: bool) -> String {
    let value = match &node.value {
        Value::Text(text) if is_plain(text, flow) => text.to_string(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(|item| yaml_flow(item, true)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) => {
            let entries = entries.iter();
            let entries: Vec<String> = entries.map(yaml_entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        _ => json(node, None),
    };
    tagged(node, value)
}

pub(super) fn yaml_entry(entry: &Entry) -> String {
    let value = yaml_flow(&entry.value, true);
    format!("{}: {value}", yaml_key(&entry.key))
}

fn tagged(node: &Node, value: String) -> String {
    match &node.tag {
        Some(tag) => format!("{tag} {value}"),
        None => value,
    }
}

pub(super) fn yaml_key(key: &str) -> String {
    if is_plain(key, true) {
        return key.to_owned();
    }
    // A key that is `yes` or `8080` is a text to this reader; quotes would not change that.
    quoted(key)
}

/// `node` in YAML as what follows `key:` or `-`, with its blank or new line: lines of their own for what has them, indented by `indent`.
pub(super) fn yaml_block(node: &Node, indent: &str, eol: &str) -> String {
    match &node.value {
        Value::List(items) if !items.is_empty() => {
            let lines = items.iter().map(|item| {
                let value = yaml_block(item, &format!("{indent}  "), eol);
                format!("{eol}{indent}-{}", compact(item, &value, indent, eol))
            });
            tag_before(node) + &lines.collect::<String>()
        }
        Value::Map(entries) if !entries.is_empty() => {
            let lines = entries.iter().map(|entry| {
                let value = yaml_block(&entry.value, &format!("{indent}  "), eol);
                format!("{eol}{indent}{}:{value}", yaml_key(&entry.key))
            });
            tag_before(node) + &lines.collect::<String>()
        }
        Value::Text(text) if is_literal(text) => {
            let chomp = if text.ends_with('\n') { "" } else { "-" };
            let lines = text.lines().map(|line| {
                if line.is_empty() {
                    eol.to_owned()
                } else {
                    format!("{eol}{indent}{line}")
                }
            });
            format!("{} |{chomp}{}", tag_before(node), lines.collect::<String>())
        }
        _ => format!(" {}", yaml_flow(node, false)),
    }
}

/// A map within a list begins behind its dash.
fn compact(item: &Node, value: &str, indent: &str, eol: &str) -> String {
    let start = format!("{eol}{indent}  ");
    match (&item.tag, value.strip_prefix(&start)) {
        (None, Some(rest)) => format!(" {rest}"),
        _ => value.to_owned(),
    }
}

fn tag_before(node: &Node) -> String {
    node.tag
        .as_ref()
        .map_or_else(String::new, |tag| format!(" {tag}"))
}

/// A text of several lines that reads the same as a block.
fn is_literal(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && text
            .chars()
            .all(|c| c == '\n' || c == '\t' || !c.is_control() && c != '\u{feff}')
        && !text.contains(['\u{85}', '\u{2028}', '\u{2029}'])
        && body
            .lines()
            .all(|line| !line.is_empty() || line.trim() == line)
}

/// Whether a text without quotes is this text to every reader.
fn is_plain(text: &str, flow: bool) -> bool {
    let starts_badly = |c: char| "-?:,[]{}#&*!|>'\"%@`=~<".contains(c) || c.is_whitespace();
    yaml::resolve(text) == yaml::Value::Text
        && !is_word(text)
        && !text.starts_with(starts_badly)
        && !text.ends_with(|c: char| c == ':' || c.is_whitespace())
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with("...")
        && !text
            .chars()
            .any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{a0}'))
        && !(flow && text.contains([',', '[', ']', '{', '}', ':']))
}
