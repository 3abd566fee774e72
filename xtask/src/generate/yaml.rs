//! JSON values as YAML that people read, and that every reader of YAML 1.1 and 1.2 takes for the same.

use std::fmt::Write as _;

use serde_json::Value;

/// A whole document.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    block(&mut text, value, 0);
    text
}

fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                indent(text, depth);
                text.push_str(&scalar(name));
                text.push(':');
                nested(text, value, depth + 1, depth);
            }
        }
        Value::Array(items) => {
            for item in items {
                indent(text, depth);
                text.push('-');
                match item {
                    // The first field beside the dash, the others beneath it.
                    Value::Object(fields) if !fields.is_empty() => {
                        let mut inner = String::new();
                        block(&mut inner, item, depth + 1);
                        text.push(' ');
                        text.push_str(inner.trim_start());
                    }
                    other => nested(text, other, depth + 1, depth + 1),
                }
            }
        }
        other => {
            indent(text, depth);
            text.push_str(&flow(other));
            text.push('\n');
        }
    }
}

/// What comes behind a key or a dash. Lists stand at the depth of their key.
fn nested(text: &mut String, value: &Value, depth: usize, list_depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            block(text, value, depth);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            block(text, value, list_depth);
        }
        other => {
            // Writing into a String cannot fail.
            writeln!(text, " {}", flow(other)).ok();
        }
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(word) => scalar(word),
        other => other.to_string(), // an empty list or mapping, a number, true, null
    }
}

/// A text, in quotes unless no reader could take it for something else.
fn scalar(word: &str) -> String {
    const TAKEN: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./ ".contains(c))
        && !word.ends_with(' ')
        && !TAKEN.contains(&word.to_ascii_lowercase().as_str());
    if plain {
        word.to_owned()
    } else {
        Value::from(word).to_string() // a JSON string is a YAML string
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_as_blocks_and_what_could_be_mistaken_in_quotes() {
        let value = json!({
            "a": {"b": [1, "two", {"c": true, "d": []}, ["x"]], "e": {}},
            "no": "yes",
            "text": "it's: \"so\"",
            "version": "1.0",
        });
        assert_eq!(
            document(&value),
            "a:\n  b:\n  - 1\n  - two\n  - c: true\n    d: []\n  -\n    - x\n  e: {}\n\"no\": \"yes\"\ntext: \"it's: \\\"so\\\"\"\nversion: \"1.0\"\n"
        );
    }
}
