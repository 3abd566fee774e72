//! Strings in quotes.

use crate::compare::structured::ParseError;

/// The string whose quote stands at byte `start`, and where it ends.
pub(super) fn read(text: &str, start: usize, json5: bool) -> Result<(String, usize), ParseError> {
    let bytes = text.as_bytes();
    let quote = bytes.get(start).copied().unwrap_or(b'"');
    let error = |at, message: &str| Err(ParseError::syntax(text, at, message));
    let mut string = String::new();
    let mut at = start + 1;
    loop {
        let rest = &text[at..];
        let stops = |c: char| c == char::from(quote) || c == '\\' || c < ' ';
        let Some(end) = rest.find(stops) else {
            return error(start, "this quote is never closed");
        };
        string.push_str(&rest[..end]);
        at += end;
        match bytes.get(at) {
            Some(b'\\') => {
                let Some((c, length)) = escaped(&text[at + 1..], json5) else {
                    return error(at, "an escape that JSON does not know");
                };
                string.extend(c);
                at += 1 + length;
            }
            Some(c) if *c == quote => return Ok((string, at + 1)),
            Some(b'\t') if json5 => {
                string.push('\t');
                at += 1;
            }
            _ => {
                return error(
                    at,
                    "a control character in a text; it is written as an escape",
                );
            }
        }
    }
}

/// What follows a backslash: the character it stands for, if it is one, and how long it is written.
pub(super) fn escaped(rest: &str, json5: bool) -> Option<(Option<char>, usize)> {
    let first = rest.chars().next()?;
    let simple = |c| Some((Some(c), first.len_utf8()));
    match first {
        '"' | '\\' | '/' => simple(first),
        'b' => simple('\u{8}'),
        'f' => simple('\u{c}'),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'u' => {
            let unit = hex(rest.get(1..5)?)?;
            if !(0xd800..0xe000).contains(&unit) {
                return Some((char::from_u32(unit), 5));
            }
            // The second half of a pair has to follow; a half alone is no character.
            let low = hex(rest.get(5..)?.strip_prefix("\\u")?.get(..4)?)?;
            if unit >= 0xdc00 || !(0xdc00..0xe000).contains(&low) {
                return None;
            }
            let point = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            Some((Some(char::from_u32(point)?), 11))
        }
        _ if !json5 => None,
        'v' => simple('\u{b}'),
        '0' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => simple('\0'),
        'x' => Some((char::from_u32(hex(rest.get(1..3)?)?), 3)),
        '\r' if rest.starts_with("\r\n") => Some((None, 2)),
        '\n' | '\r' | '\u{2028}' | '\u{2029}' => Some((None, first.len_utf8())),
        '0'..='9' => None,
        other => simple(other),
    }
}

fn hex(digits: &str) -> Option<u32> {
    let all = digits.bytes().all(|c| c.is_ascii_hexdigit());
    all.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}
