//! Text made by strangers (file names, process names, values, comments), made safe to show.
//!
//! A file may be called `\e]0;owned\a`, and a process `fdp.exe` with a mark in front that turns the text round. Shown raw, the first drives
//! the reader's terminal and the second reads backwards. What cannot be shown as itself ([`is_deceptive`]) is replaced by an escape; nothing
//! is dropped.
//!
//! * [`bytes`] is for names, and can be turned back: each byte of what cannot be shown, or is not UTF-8, is written `\xNN` in lower-case
//!   hexadecimal; so is a backslash that is followed by `x` and two hexadecimal digits, since it would read as one of these escapes. Every
//!   other backslash stands for itself. The way back: replace each `\xNN` by that byte, touch nothing else.
//! * [`printable`] is for prose that may quote such names: backslashes are left alone, and doing it twice changes nothing.
//! * [`text`], [`name`] and [`path_name`] are for messages about a file's text: a character is written as YAML and Rust know it,
//!   `\u{202e}`.

use std::{borrow::Cow, fmt, os::unix::ffi::OsStrExt, path::Path};

/// Whether `c`, shown as it is, can hide or reorder what stands around it: control characters (C0, DEL, C1), the line and paragraph
/// separators, and what has no shape of its own: bidi marks and overrides, zero-width and other invisible ones (categories Cc, Cf, Zl and
/// Zp, and the blank letters).
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{06dd}' | '\u{070f}' | '\u{08e2}'
            | '\u{0600}'..='\u{0605}' | '\u{0890}'..='\u{0891}'
            | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A name that can be shown on a terminal and in one line, and can be turned back into its bytes.
#[must_use]
pub fn bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(is_deceptive)
        && !text.contains("\\x")
    {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(bytes.len() + 16);
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for (offset, c) in chunk.valid().char_indices() {
            let misread = c == '\\' && reads_as_escape(&bytes[at + offset..]);
            if misread || is_deceptive(c) {
                push_bytes(&mut shown, c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                shown.push(c);
            }
        }
        push_bytes(&mut shown, chunk.invalid());
        at += chunk.valid().len() + chunk.invalid().len();
    }
    Cow::Owned(shown)
}

/// What [`bytes`] has shown, turned back.
#[must_use]
pub fn original(shown: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = shown.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let escaped = match rest {
            [b'\\', b'x', high, low, ..] => digit(*high)
                .zip(digit(*low))
                .map(|(high, low)| high << 4 | low),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &rest[4..] } else { more };
    }
    bytes
}

/// Of a lower-case hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Prose that may quote strangers' names: nothing in it can drive a terminal, backslashes are left alone. Doing it twice changes nothing.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_deceptive(c) {
            push_bytes(&mut shown, c.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn push_bytes(shown: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    for byte in bytes {
        shown.push_str("\\x");
        shown.push(DIGITS[usize::from(byte >> 4)]);
        shown.push(DIGITS[usize::from(byte & 15)]);
    }
}

fn reads_as_escape(rest: &[u8]) -> bool {
    matches!(rest, [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

/// How `c` is shown: itself, `\xNN` for a control character of ASCII, `\u{…}` for the other deceptive ones.
pub(crate) fn write_char(c: char, out: &mut impl fmt::Write) -> fmt::Result {
    match c {
        c if !is_deceptive(c) => out.write_char(c),
        c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)),
    }
}

/// `text`, safe to show.
pub fn text(text: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| text.chars().try_for_each(|c| write_char(c, f)))
}

/// `path` as [`bytes`] shows a name.
pub fn path(path: &Path) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| f.write_str(&bytes(path.as_os_str().as_bytes())))
}

/// More characters than this of a name are not shown.
const NAME_SHOWN: usize = 60;

/// `name` in backquotes, safe to show, and cut in the middle when it is long: both ends of a name say more than its middle.
pub fn name(name: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| write!(f, "`{}`", short(name)))
}

/// The same without the backquotes.
pub fn short(name: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        let count = name.chars().count();
        if count <= NAME_SHOWN {
            return write!(f, "{}", text(name));
        }
        let half = NAME_SHOWN / 2;
        let at = |n: usize| name.char_indices().nth(n).map_or(name.len(), |(at, _)| at);
        let (start, end) = (&name[..at(half)], &name[at(count - half)..]);
        write!(f, "{}…{}", text(start), text(end))
    })
}

/// `path` as [`name`] shows a name.
pub fn path_name(path: &Path) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        let shown = self::path(path).to_string();
        write!(f, "{}", name(&shown))
    })
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

    use proptest::prelude::*;

    use super::{bytes, original, printable};

    #[test]
    fn what_can_deceive_is_escaped_and_the_rest_is_not() {
        let shown = super::text("ä 配 \u{1b}[31m \u{202e}dcba \u{200b} \u{2028} \u{85} \x7f \t")
            .to_string();
        assert_eq!(
            shown,
            r"ä 配 \x1b[31m \u{202e}dcba \u{200b} \u{2028} \u{85} \x7f \x09"
        );
    }

    #[test]
    fn a_path_shows_its_bytes() {
        let path = Path::new(OsStr::from_bytes(b"/etc/caf\xe9\n.conf"));
        assert_eq!(super::path(path).to_string(), r"/etc/caf\xe9\x0a.conf");
    }

    #[test]
    fn a_long_name_is_cut_in_the_middle() {
        let name = format!("{}{}", "a".repeat(500), "é".repeat(500));
        assert_eq!(
            super::name(&name).to_string(),
            format!("`{}…{}`", "a".repeat(30), "é".repeat(30))
        );
        assert_eq!(super::name("mode").to_string(), "`mode`");
    }

    #[track_caller]
    fn check(name: &[u8], shown: &str) {
        assert_eq!(bytes(name), shown);
        assert_eq!(original(shown), name, "{shown} does not turn back");
    }

    #[test]
    fn ordinary_names_are_shown_as_they_are() {
        check(b"/etc/app/app.conf", "/etc/app/app.conf");
        check("/etc/größe/設定.conf".as_bytes(), "/etc/größe/設定.conf");
        check(b"a b\"c'd", "a b\"c'd");
    }

    #[test]
    fn what_drives_a_terminal_is_shown_as_bytes() {
        check(b"x\x1b[2J", "x\\x1b[2J");
        check(b"two\nlines\r\x7f", "two\\x0alines\\x0d\\x7f");
        check("c1\u{9b}31m".as_bytes(), "c1\\xc2\\x9b31m");
    }

    #[test]
    fn what_turns_or_hides_text_is_shown_as_bytes() {
        check("a\u{202e}fdp.exe".as_bytes(), "a\\xe2\\x80\\xaefdp.exe");
        check("a\u{200b}b".as_bytes(), "a\\xe2\\x80\\x8bb");
        check("a\u{2028}b".as_bytes(), "a\\xe2\\x80\\xa8b");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_shown_as_bytes() {
        check(b"caf\xe9.conf", "caf\\xe9.conf");
        check(b"\xff\xfe", "\\xff\\xfe");
        check(b"cut \xe2\x80", "cut \\xe2\\x80");
    }

    #[test]
    fn only_a_backslash_that_reads_as_an_escape_is_escaped() {
        check(b"a\\b", "a\\b");
        check(b"home-my\\x2ddata.mount", "home-my\\x5cx2ddata.mount");
        check(b"\\x2", "\\x2");
        check(b"\\xzz", "\\xzz");
        check(b"\\\\x41", "\\\\x5cx41");
        check(b"\\\xe9", "\\\\xe9");
        check(b"\\x4\x01", "\\x4\\x01");
    }

    proptest! {
        #[test]
        fn every_name_turns_back_and_stays_on_its_line(name in proptest::collection::vec(any::<u8>(), 0..64)) {
            let shown = bytes(&name);
            prop_assert!(!shown.chars().any(char::is_control));
            prop_assert_eq!(original(&shown), name);
        }

        #[test]
        fn names_full_of_backslashes_turn_back(name in "[\\\\x0-9a-fA-F\u{1}é]{0,24}") {
            prop_assert_eq!(original(&bytes(name.as_bytes())), name.as_bytes());
        }

        #[test]
        fn prose_is_made_printable_once(text in any::<String>()) {
            let once = printable(&text).into_owned();
            prop_assert!(!once.chars().any(char::is_control));
            prop_assert_eq!(printable(&once), once.as_str());
        }
    }
}
