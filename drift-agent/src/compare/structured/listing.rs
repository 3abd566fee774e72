//! A value as people are shown it: on one line, with the keys that redaction goes by.

use std::sync::Arc;

use super::{
    Format, canonical, number,
    pointer::Token,
    value::{Node, Value},
    yaml,
};
use crate::report::Redactable;

/// Bytes of a value that are kept to be shown; a line of a terminal has room for far less.
const MAX_SHOWN: usize = 2048;

/// `node`, which stands at `tokens`.
pub(super) fn redactable(node: &Node, tokens: &[Token], format: Format) -> Redactable<'static> {
    let keys = tokens.iter().filter_map(|token| match token {
        Token::Key(key) => Some(key.clone()),
        Token::Index(_) | Token::Repeat(_) => None,
    });
    let mut writer = Writer {
        text: Redactable::default(),
        keys: keys.collect(),
        format,
        left: MAX_SHOWN,
    };
    writer.node(node);
    writer.text
}

struct Writer {
    text: Redactable<'static>,
    keys: Vec<Arc<str>>,
    format: Format,
    left: usize,
}

impl Writer {
    fn node(&mut self, node: &Node) {
        if let Some(tag) = &node.tag {
            self.plain(&format!("{tag} "));
        }
        match &node.value {
            Value::Null => self.plain("null"),
            Value::Bool(is) => self.plain(if *is { "true" } else { "false" }),
            Value::List(items) => {
                self.plain("[");
                for (index, item) in items.iter().enumerate() {
                    if self.is_full(index) {
                        break;
                    }
                    self.node(item);
                }
                self.plain("]");
            }
            Value::Map(entries) => {
                self.plain("{");
                for (index, entry) in entries.iter().enumerate() {
                    if self.is_full(index) {
                        break;
                    }
                    self.plain(&format!("{}: ", entry.key));
                    self.keys.push(entry.key.clone());
                    self.node(&entry.value);
                    self.keys.pop();
                }
                self.plain("}");
            }
            scalar => {
                let text = canonical::text(scalar).unwrap_or_default();
                let quote = if is_misread(scalar, &text, self.format) {
                    "\""
                } else {
                    ""
                };
                self.plain(quote);
                if !text.is_empty() {
                    self.left = self.left.saturating_sub(text.len());
                    // Whole, also where it is long: a secret cut in two would not be recognised.
                    self.text.value(&self.keys, text.into_owned());
                }
                self.plain(quote);
            }
        }
    }

    /// Between the items of a list or map; says so where the rest is left out.
    fn is_full(&mut self, index: usize) -> bool {
        if index > 0 {
            self.plain(", ");
        }
        if self.left == 0 {
            self.plain("…");
        }
        self.left == 0
    }

    fn plain(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.left = self.left.saturating_sub(text.len());
        self.text.syntax(text.to_owned());
    }
}

/// Whether a text without quotes would be taken for something else than this text.
fn is_misread(value: &Value, text: &str, format: Format) -> bool {
    let Value::Text(_) = value else { return false };
    if text.trim().len() != text.len() || text.is_empty() {
        return true;
    }
    match format {
        Format::Ini | Format::KeyValue => return false, // every value is a text
        Format::Env => return text.contains(['$', '`']),
        Format::Yaml | Format::Json | Format::Json5 | Format::Toml => {}
    }
    matches!(text, "null" | "true" | "false" | "-")
        || number::canonical(text).is_some()
        || yaml::is_word(text)
}
