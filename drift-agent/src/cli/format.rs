//! The ways in which commands print what they found.

use clap::ValueEnum;
use serde_json::Value;

/// How to print it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    Json,
    /// Each value on a line.
    Jsonl,
    Yaml,
}

impl Format {
    /// Values for programs; `table` gives what people are shown instead.
    pub fn print(self, values: Vec<Value>, table: impl FnOnce() -> String) -> String {
        match self {
            Format::Table => table(),
            Format::Json => format!("{:#}\n", Value::Array(values)),
            Format::Jsonl => values.iter().map(|value| format!("{value}\n")).collect(),
            Format::Yaml => yaml(&Value::Array(values)),
        }
    }

    /// As [`Format::print`], where there is exactly one.
    pub fn print_one(self, value: Value, table: impl FnOnce() -> String) -> String {
        match self {
            Format::Json => format!("{value:#}\n"),
            Format::Yaml => yaml(&value),
            Format::Table | Format::Jsonl => self.print(vec![value], table),
        }
    }
}

/// `value` as YAML: keys and texts in quotes where they need them, so that every reader takes them for the same.
pub(super) fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

/// Writes `value` on lines of its own, `depth` steps to the right.
fn block(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut inner = String::new();
                block(item, depth + 1, &mut inner);
                // The first line of the item begins after the dash.
                text.push_str(&indent);
                text.push_str("- ");
                text.push_str(inner.trim_start());
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                text.push_str(&format!("{indent}{}:", scalar(key)));
                if is_block(value) {
                    text.push('\n');
                    block(value, depth + 1, text);
                } else {
                    text.push_str(&format!(" {}\n", flat(value)));
                }
            }
        }
        other => text.push_str(&format!("{indent}{}\n", flat(other))),
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        // JSON is YAML.
        other => other.to_string(),
    }
}

fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric());
    let is_other = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if is_word && !is_other {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::yaml;

    #[test]
    fn values_as_yaml() {
        #[track_caller]
        fn check(value: &serde_json::Value, expected: &str) {
            assert_eq!(yaml(value), expected);
        }
        check(&json!([]), "[]\n");
        check(&json!("no"), "\"no\"\n");
        check(
            &json!([{"policy": "web", "versions": [{"version": "1.2.0", "active": true}, {}], "x y": null}, [1, "a"]]),
            "- policy: web\n  versions:\n    - active: true\n      version: \"1.2.0\"\n    - {}\n  \"x y\": null\n- - 1\n  - a\n",
        );
    }
}
