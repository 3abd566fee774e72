//! Files that are compared as they are, byte for byte, but for what the policy says is no difference.

use std::borrow::Cow;

use super::structured::{Heed, Rules};

/// What is no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextRules {
    pub final_newline: Heed,
    pub line_endings: Heed,
}

impl From<&Rules> for TextRules {
    fn from(rules: &Rules) -> Self {
        Self {
            final_newline: rules.final_newline,
            line_endings: rules.line_endings,
        }
    }
}

/// How two texts differ: the smallest thing that can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exact {
    /// Byte for byte, or but for what the rules say is no difference.
    Same,
    /// One has a new line at its end, the other not.
    FinalNewline,
    /// `\r\n` against `\n`, and perhaps the new line at the end.
    LineEndings,
    Different,
}

/// How `observed` differs from `declared`.
#[must_use]
pub fn exact(declared: &[u8], observed: &[u8], rules: TextRules) -> Exact {
    if declared == observed {
        return Exact::Same;
    }
    let ignored = |heed| heed == Heed::Ignore;
    if without_end(declared) == without_end(observed) && declared_ends(declared, observed) {
        return if ignored(rules.final_newline) {
            Exact::Same
        } else {
            Exact::FinalNewline
        };
    }
    let (one, other) = (unix(declared), unix(observed));
    let found = if one == other {
        ignored(rules.line_endings)
    } else if without_end(&one) == without_end(&other) {
        ignored(rules.line_endings) && ignored(rules.final_newline)
    } else {
        return Exact::Different;
    };
    if found {
        Exact::Same
    } else {
        Exact::LineEndings
    }
}

/// Whether exactly one of them ends in a new line.
fn declared_ends(declared: &[u8], observed: &[u8]) -> bool {
    declared.ends_with(b"\n") != observed.ends_with(b"\n")
}

fn without_end(bytes: &[u8]) -> &[u8] {
    match bytes {
        [rest @ .., b'\r', b'\n'] | [rest @ .., b'\n'] => rest,
        rest => rest,
    }
}

fn unix(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.contains(&b'\r') {
        return Cow::Borrowed(bytes);
    }
    let mut unix = Vec::with_capacity(bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        if *byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            unix.push(*byte);
        }
    }
    Cow::Owned(unix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_rules_allow_is_the_same_and_nothing_else_is() {
        use Exact::{Different, FinalNewline, LineEndings, Same};
        use Heed::{Exact as E, Ignore as I};
        #[track_caller]
        fn check(
            declared: &str,
            observed: &str,
            final_newline: Heed,
            line_endings: Heed,
            is: Exact,
        ) {
            let rules = TextRules {
                final_newline,
                line_endings,
            };
            let (one, other) = (declared.as_bytes(), observed.as_bytes());
            assert_eq!(exact(one, other, rules), is, "{declared:?} {observed:?}");
            assert_eq!(exact(other, one, rules), is, "{observed:?} {declared:?}");
        }
        check("x", "x", E, E, Same);
        // B047, B048
        check("x", "x\n", E, E, FinalNewline);
        check("x", "x\n", I, E, Same);
        check("x", "x\r\n", I, E, Same);
        check("x", "x\n\n", I, I, Different);
        check("", "\n", I, E, Same);
        // B049
        check("a\nb\n", "a\r\nb\r\n", E, E, LineEndings);
        check("a\nb\n", "a\r\nb\r\n", I, E, LineEndings);
        check("a\nb\n", "a\r\nb\r\n", E, I, Same);
        check("a\nb", "a\r\nb\r\n", E, I, LineEndings);
        check("a\nb", "a\r\nb\r\n", I, I, Same);
        check("a\rb", "a\nb", I, I, Different);
        check("a", "b", I, I, Different);
    }
}
