//! Text made by strangers (file names, process names), made safe to show.
//!
//! A file may be called `\e]0;owned\a`, and a process `fdp.exe` with a mark in front that turns the text round. Shown raw, the first drives the reader's terminal and the second reads
//! backwards. So what cannot be shown as itself is written as `\xNN`, one for each byte, in lower-case hexadecimal:
//!
//! * bytes that are not UTF-8;
//! * control characters (C0, DEL, C1) and the line and paragraph separators;
//! * characters without a shape of their own: bidi marks and overrides, zero-width and other invisible ones;
//! * a backslash that is followed by `x` and two hexadecimal digits, since it would read as one of these escapes.
//!
//! Every other backslash stands for itself. So the rule can be undone without loss: replace each `\xNN` by that byte, touch nothing else.

use std::borrow::Cow;

/// A name that can be shown on a terminal and in one line, and can be turned back into its bytes.
#[must_use]
pub fn escape(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(invisible)
        && !text.contains("\\x")
    {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(bytes.len() + 16);
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for (offset, char) in chunk.valid().char_indices() {
            let misread = char == '\\' && reads_as_escape(&bytes[at + offset..]);
            if misread || invisible(char) {
                push_bytes(&mut shown, char.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                shown.push(char);
            }
        }
        push_bytes(&mut shown, chunk.invalid());
        at += chunk.valid().len() + chunk.invalid().len();
    }
    Cow::Owned(shown)
}

/// Prose that may quote strangers' names: nothing in it can drive a terminal, backslashes are left alone. Doing it twice changes nothing.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(invisible) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if invisible(char) {
            push_bytes(&mut shown, char.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            shown.push(char);
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

/// Characters that move the cursor, turn the writing direction or cannot be seen: categories Cc, Cf, Zl and Zp, and the blank letters.
fn invisible(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{06dd}' | '\u{070f}' | '\u{08e2}'
            | '\u{0600}'..='\u{0605}' | '\u{0890}'..='\u{0891}'
            | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{escape, printable};

    #[track_caller]
    fn check(name: &[u8], shown: &str) {
        assert_eq!(escape(name), shown);
        assert_eq!(undo(shown), name, "{shown} does not turn back");
    }

    /// The documented way back.
    fn undo(shown: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = shown.as_bytes();
        while let Some((first, more)) = rest.split_first() {
            let escaped = match rest {
                [b'\\', b'x', high, low, ..] => std::str::from_utf8(&[*high, *low])
                    .ok()
                    .filter(|digits| !digits.contains(|c: char| c.is_ascii_uppercase() || c == '+'))
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok()),
                _ => None,
            };
            bytes.push(escaped.unwrap_or(*first));
            rest = if escaped.is_some() { &rest[4..] } else { more };
        }
        bytes
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
            let shown = escape(&name);
            prop_assert!(!shown.chars().any(char::is_control));
            prop_assert_eq!(undo(&shown), name);
        }

        #[test]
        fn names_full_of_backslashes_turn_back(name in "[\\\\x0-9a-fA-F\u{1}é]{0,24}") {
            prop_assert_eq!(undo(&escape(name.as_bytes())), name.as_bytes());
        }

        #[test]
        fn prose_is_made_printable_once(text in any::<String>()) {
            let once = printable(&text).into_owned();
            prop_assert!(!once.chars().any(char::is_control));
            prop_assert_eq!(printable(&once), once.as_str());
        }
    }
}
