//! JSON (RFC 8259), and JSON5 with everything people call JSON with comments.
//!
//! A key twice in one object is refused: readers do not agree which counts.

mod string;

use std::{collections::HashSet, sync::Arc};

use drift_common::escape;

use super::{
    ParseError,
    value::{self, Budget, Entry, Node, Span, Value},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Strict,
    Json5,
}

pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Node, ParseError> {
    let mut parser = Parser {
        text,
        at: 0,
        dialect,
        budget: Budget::default(),
    };
    parser.blank()?;
    let node = parser.node(0)?;
    parser.blank()?;
    if parser.at < text.len() {
        return Err(parser.error("something stands after the end of the value"));
    }
    Ok(node)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    dialect: Dialect,
    budget: Budget,
}

impl Parser<'_> {
    fn node(&mut self, depth: usize) -> Result<Node, ParseError> {
        self.budget.take(self.text, self.at, 1)?;
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.object(depth + 1)?,
            Some(b'[') => self.array(depth + 1)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'\'') if self.is_json5() => Value::Text(self.string()?),
            Some(_) => self.word()?,
            None => return Err(self.error("the text ends where a value should stand")),
        };
        Ok(Node::new(Span::new(start, self.at), value))
    }

    fn object(&mut self, depth: usize) -> Result<Value, ParseError> {
        value::depth(self.text, self.at, depth)?;
        self.at += 1;
        let mut entries: Vec<Entry> = Vec::new();
        let mut keys: HashSet<Arc<str>> = HashSet::new();
        loop {
            self.blank()?;
            if self.peek() == Some(b'}') && (entries.is_empty() || self.is_json5()) {
                break;
            }
            let start = self.at;
            let key = self.key()?;
            if !keys.insert(key.clone()) {
                self.at = start;
                return Err(self.error(format!("the key {} is given twice", escape::name(&key))));
            }
            self.budget.take(self.text, self.at, 1)?;
            self.blank()?;
            self.expect(b':', "expected `:` after the key")?;
            self.blank()?;
            let value = self.node(depth)?;
            entries.push(Entry {
                key,
                span: Span::new(start, self.at),
                merged: false,
                value,
            });
            self.blank()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.error("expected `,` or `}`")),
            }
        }
        self.at += 1;
        Ok(Value::Map(entries))
    }

    fn array(&mut self, depth: usize) -> Result<Value, ParseError> {
        value::depth(self.text, self.at, depth)?;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.blank()?;
            if self.peek() == Some(b']') && (items.is_empty() || self.is_json5()) {
                break;
            }
            items.push(self.node(depth)?);
            self.blank()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.error("expected `,` or `]`")),
            }
        }
        self.at += 1;
        Ok(Value::List(items))
    }

    fn key(&mut self) -> Result<Arc<str>, ParseError> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'\'') if self.is_json5() => self.string(),
            _ if self.is_json5() => self.name(),
            _ => Err(self.error("expected a key in double quotes")),
        }
    }

    /// A key without quotes, in which a character may be written as `\uXXXX`.
    fn name(&mut self) -> Result<Arc<str>, ParseError> {
        let is_name =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '\u{200c}' | '\u{200d}');
        let mut name = String::new();
        let mut at = self.at;
        loop {
            let rest = &self.text[at..];
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            name.push_str(&rest[..end]);
            at += end;
            let escaped = rest[end..].strip_prefix('\\');
            let escaped = escaped.filter(|escaped| escaped.starts_with('u'));
            match escaped.and_then(|escaped| string::escaped(escaped, true)) {
                Some((Some(c), length)) if is_name(c) => {
                    name.push(c);
                    at += 1 + length;
                }
                _ => break,
            }
        }
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.error("expected a key"));
        }
        self.at = at;
        Ok(name.into())
    }

    fn string(&mut self) -> Result<Arc<str>, ParseError> {
        let (string, end) = string::read(self.text, self.at, self.is_json5())?;
        self.at = end;
        Ok(string.into())
    }

    /// A number, `true`, `false`, `null`.
    fn word(&mut self) -> Result<Value, ParseError> {
        let rest = &self.text[self.at..];
        let is_word =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_' | '$');
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let value = match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            word if is_number(word) => number(word),
            word if self.is_json5() && is_json5_number(word) => number(word),
            _ => return Err(self.error("expected a value")),
        };
        self.at += end;
        Ok(value)
    }

    fn blank(&mut self) -> Result<(), ParseError> {
        loop {
            let rest = &self.text[self.at..];
            let is_blank = |c: char| match self.dialect {
                Dialect::Strict => matches!(c, ' ' | '\t' | '\n' | '\r'),
                // All that Unicode calls white space but for the next line (U+0085).
                Dialect::Json5 => c.is_whitespace() && c != '\u{85}' || c == '\u{feff}',
            };
            self.at += rest.find(|c| !is_blank(c)).unwrap_or(rest.len());
            let rest = &self.text[self.at..];
            if self.is_json5() && rest.starts_with("//") {
                let ends = |c| matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}');
                self.at += rest.find(ends).unwrap_or(rest.len());
            } else if self.is_json5() && rest.starts_with("/*") {
                let Some(end) = rest[2..].find("*/") else {
                    return Err(self.error("this comment is never closed"));
                };
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    fn expect(&mut self, byte: u8, message: &str) -> Result<(), ParseError> {
        if self.peek() != Some(byte) {
            return Err(self.error(message));
        }
        self.at += 1;
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn is_json5(&self) -> bool {
        self.dialect == Dialect::Json5
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::syntax(self.text, self.at, message)
    }
}

fn number(word: &str) -> Value {
    let lower = word.to_ascii_lowercase();
    let is_hex = lower.trim_start_matches(['+', '-']).starts_with("0x");
    if is_hex || !lower.contains(['.', 'e', 'i', 'n']) {
        Value::Integer(word.into())
    } else {
        Value::Float(word.into())
    }
}

/// As RFC 8259 has it.
fn is_number(word: &str) -> bool {
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_whole = is_digits(whole) && (whole == "0" || !whole.starts_with('0'));
    is_whole
        && fraction.is_none_or(is_digits)
        && exponent.is_none_or(|text| is_digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
}

/// What JSON5 adds: a plus, hexadecimals, a point at either end, infinity and what is no number.
fn is_json5_number(word: &str) -> bool {
    let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
    if matches!(unsigned, "Infinity" | "NaN") {
        return true;
    }
    if let Some(digits) = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")) {
        return !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_hexdigit());
    }
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let or_empty = |text: &str| text.is_empty() || is_digits(text);
    (is_digits(whole) || whole.is_empty() && is_digits(fraction))
        && (whole.len() < 2 || !whole.starts_with('0'))
        && or_empty(fraction)
        && is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())
}
