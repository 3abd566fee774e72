//! YAML 1.2, read so that what its older readers take for something else stays apart.
//!
//! * Documents that say nothing (only comments, a `---` too many) are none.
//! * `no`, `0644`, `12:30:00` and the like without quotes are truths and other numbers to readers of YAML 1.1: such a word is equal to the
//!   same word, never to the text in quotes.
//! * A merge key (`<<`) brings in what the map does not have itself; of several, the first counts.
//! * Tags of programs (`!vault`, `!Ref`) are part of the value.
//! * A key twice in one map is refused, as is a list or a map for a key.

mod build;
mod position;

use drift_common::yaml::{Fault, MAX_MARKS, explain};

use super::{
    ParseError, Unparsable,
    value::{Node, Value},
};
use position::Positions;

pub(super) fn parse(text: &str) -> Result<Vec<Node>, ParseError> {
    let mut documents = build::Builder::new(text).documents()?;
    documents.retain(|node| node.tag.is_some() || !matches!(node.value, Value::Null));
    Ok(documents)
}

fn refused(text: &str, positions: &mut Positions<'_>, fault: &Fault) -> ParseError {
    match fault {
        Fault::Forbidden(c, at) => {
            let message = format!("YAML does not allow the control character {c:?}");
            ParseError::syntax(text, *at, message)
        }
        Fault::Marks(span) => {
            let at = positions.byte(span.start);
            let message = format!("more than {MAX_MARKS} marks of punctuation in one value");
            ParseError::at(text, at, Unparsable::TooMany, message)
        }
        Fault::Syntax(error) => {
            let at = positions.byte(*error.marker());
            let (message, help) = explain(error.info());
            let why = if error.info() == "recursion limit exceeded" {
                Unparsable::TooDeep
            } else {
                Unparsable::Syntax
            };
            let help = help.map(|help| format!(" ({help})")).unwrap_or_default();
            ParseError::at(text, at, why, message + &help)
        }
    }
}

/// Whether a reader of YAML 1.1 takes this text without quotes for something else than a text. (<https://yaml.org/type/>)
pub(super) fn is_word(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    if matches!(
        lower.as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "=" | "<<"
    ) {
        return true;
    }
    let unsigned = lower.strip_prefix(['+', '-']).unwrap_or(&lower);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return false;
    }
    let of = |text: &str, allowed: &str| text.chars().all(|c| allowed.contains(c));
    let prefixed = |prefix, digits| {
        unsigned
            .strip_prefix(prefix)
            .is_some_and(|rest| of(rest, digits))
    };
    let spaced =
        of(unsigned, "0123456789_.") && unsigned.contains('_') && unsigned.matches('.').count() < 2;
    spaced
        || prefixed("0b", "01_")
        || prefixed("0x", "0123456789abcdef_")
        || is_sexagesimal(unsigned)
        || is_date(text)
}

/// `12:30:00`: a number to the base of 60.
fn is_sexagesimal(text: &str) -> bool {
    let mut parts = text.split(':');
    let digits = |part: &str| part.bytes().all(|c| c.is_ascii_digit());
    let first = parts.next().unwrap_or_default();
    let mut count = 0;
    let rest = parts.all(|part| {
        count += 1;
        let whole = part.split_once('.').map_or(part, |(whole, _)| whole);
        digits(whole) && whole.parse().is_ok_and(|number: u32| number < 60)
    });
    digits(first) && rest && count > 0
}

/// `2001-12-14`, alone or with a time.
fn is_date(text: &str) -> bool {
    let date = text.split(['T', 't', ' ']).next().unwrap_or_default();
    let parts: Vec<_> = date.split('-').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(digits) && parts[0].len() == 4
}
