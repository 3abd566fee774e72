//! YAML 1.2's core schema: what a scalar without quotes means. (<https://yaml.org/spec/1.2.2/#103-core-schema>)

/// What a scalar is. The text is kept beside it: `0644` and `1.20` are numbers, but as modes and versions their text counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    Integer,
    Float,
    Text,
}

/// What `text` without quotes and tag is.
#[must_use]
pub fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        text if is_integer(text) => Value::Integer,
        text if is_float(text) => Value::Float,
        _ => Value::Text,
    }
}

fn all(text: &str, digit: impl Fn(&u8) -> bool) -> bool {
    !text.is_empty() && text.as_bytes().iter().all(digit)
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

fn is_integer(text: &str) -> bool {
    if let Some(octal) = text.strip_prefix("0o") {
        return all(octal, |c| matches!(c, b'0'..=b'7'));
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return all(hex, u8::is_ascii_hexdigit);
    }
    all(unsigned(text), u8::is_ascii_digit)
}

fn is_float(text: &str) -> bool {
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let text = unsigned(text);
    if matches!(text, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(unsigned(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| all(exponent, u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::{Value, resolve};

    #[test]
    fn the_core_schema() {
        #[track_caller]
        fn check(value: Value, texts: &[&str]) {
            for text in texts {
                assert_eq!(resolve(text), value, "{text}");
            }
        }
        check(Value::Null, &["", "~", "null", "Null", "NULL"]);
        check(Value::Bool(true), &["true", "True", "TRUE"]);
        check(Value::Bool(false), &["false", "False", "FALSE"]);
        check(Value::Integer, &["0", "-1", "+12", "0644", "0o644", "0xfF"]);
        check(
            Value::Float,
            &["1.2", "-1.", ".5", "1e3", "1.2E-3", ".inf", "-.INF", ".nan"],
        );
        check(
            Value::Text,
            &[
                "1.2.0", "yes", "no", "on", "off", "y", "nUll", "tRue", "0o8", "0x", "1_000", "-",
                "+", ".", "e3", "1e", "-.nan", "0755x", " 1", "١",
            ],
        );
    }
}
