//! TOML 1.0.

use toml_edit::{Document, Item, TableLike};

use super::{
    ParseError, Unparsable,
    value::{self, Budget, Entry, Node, Span, Value},
};

pub(super) fn parse(text: &str) -> Result<Node, ParseError> {
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let why = if error.message().contains("recurs") {
            Unparsable::TooDeep
        } else {
            Unparsable::Syntax
        };
        // The library's message may quote the file; where it stands is enough.
        let message = error.message().lines().next().unwrap_or_default();
        let message: String = message.chars().take(200).collect();
        let shown = drift_common::escape::text(&message).to_string();
        ParseError::at(text, at, why, shown)
    })?;
    let mut reader = Reader {
        text,
        budget: Budget::default(),
    };
    let entries = reader.table(document.as_table(), 1)?;
    Ok(Node::new(Span::new(0, text.len()), Value::Map(entries)))
}

struct Reader<'t> {
    text: &'t str,
    budget: Budget,
}

impl Reader<'_> {
    fn table(&mut self, table: &dyn TableLike, depth: usize) -> Result<Vec<Entry>, ParseError> {
        value::depth(self.text, 0, depth)?;
        let mut entries = Vec::with_capacity(table.len());
        for (key, item) in table.iter() {
            if let Some(node) = self.item(item, depth)? {
                let start = table.key(key).and_then(toml_edit::Key::span);
                let start = start.map_or(node.span.start(), |span| span.start);
                entries.push(Entry {
                    key: key.into(),
                    span: Span::new(start.min(node.span.start()), node.span.end()),
                    merged: false,
                    value: node,
                });
            }
        }
        Ok(entries)
    }

    fn item(&mut self, item: &Item, depth: usize) -> Result<Option<Node>, ParseError> {
        let span = item.span().unwrap_or_default();
        self.budget.take(self.text, span.start, 2)?;
        let value = match item {
            Item::None => return Ok(None),
            Item::Value(value) => return self.value(value, depth).map(Some),
            Item::Table(table) => Value::Map(self.table(table, depth + 1)?),
            Item::ArrayOfTables(tables) => {
                value::depth(self.text, span.start, depth + 1)?;
                let mut items = Vec::with_capacity(tables.len());
                for table in tables {
                    self.budget.take(self.text, span.start, 1)?;
                    let entries = self.table(table, depth + 2)?;
                    items.push(Node::new(Span::default(), Value::Map(entries)));
                }
                Value::List(items)
            }
        };
        Ok(Some(Node::new(Span::new(span.start, span.end), value)))
    }

    fn value(&mut self, value: &toml_edit::Value, depth: usize) -> Result<Node, ParseError> {
        let span = value.span().unwrap_or_default();
        let value = match value {
            toml_edit::Value::String(text) => Value::Text(text.value().as_str().into()),
            toml_edit::Value::Integer(number) => Value::Integer(number.value().to_string().into()),
            // As it is written: not every decimal is what a float makes of it.
            toml_edit::Value::Float(_) => {
                let written = self.text.get(span.clone()).unwrap_or_default();
                Value::Float(written.replace('_', "").into())
            }
            toml_edit::Value::Boolean(is) => Value::Bool(*is.value()),
            toml_edit::Value::Datetime(time) => Value::Time(time.value().to_string().into()),
            toml_edit::Value::Array(array) => {
                value::depth(self.text, span.start, depth + 1)?;
                let mut items = Vec::with_capacity(array.len());
                for item in array {
                    self.budget.take(self.text, span.start, 1)?;
                    items.push(self.value(item, depth + 1)?);
                }
                Value::List(items)
            }
            toml_edit::Value::InlineTable(table) => Value::Map(self.table(table, depth + 1)?),
        };
        Ok(Node::new(Span::new(span.start, span.end), value))
    }
}
