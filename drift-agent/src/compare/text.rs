//! Files that are compared as they are, byte for byte, but for what the policy says is no difference.

use std::borrow::Cow;

use super::structured::Rules;
use crate::declare::{Heed, with_unix_line_ends, without_final_newline};

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
    let same = |rules| normal(declared, rules) == normal(observed, rules);
    let ends_alike = declared.ends_with(b"\n") == observed.ends_with(b"\n");
    if same(rules) {
        Exact::Same
    } else if !ends_alike && without_final_newline(declared) == without_final_newline(observed) {
        Exact::FinalNewline
    } else if same(LENIENT) {
        Exact::LineEndings
    } else {
        Exact::Different
    }
}

const LENIENT: TextRules = TextRules {
    final_newline: Heed::Ignore,
    line_endings: Heed::Ignore,
};

/// Texts are the same where these are.
#[must_use]
pub fn normal(text: &[u8], rules: TextRules) -> Cow<'_, [u8]> {
    let text = match rules.final_newline {
        Heed::Exact => text,
        Heed::Ignore => without_final_newline(text),
    };
    match rules.line_endings {
        Heed::Exact => Cow::Borrowed(text),
        Heed::Ignore => with_unix_line_ends(text),
    }
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
        check("x\n", "x\r\n", I, E, Same);
        check("x\n", "x\r\n", E, E, LineEndings);
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
