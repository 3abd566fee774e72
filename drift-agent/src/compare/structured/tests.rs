//! Two texts -> what differs.

mod cases;
mod edit;
mod formats;
mod properties;
mod refused;
mod rules;
mod strict;

use super::*;
use crate::{declare::Redact, report::Redactor};

/// Each difference on a line: kind, pointer, values.
fn told(differences: &Differences) -> String {
    let lines = differences.list.iter().map(|difference| {
        let side = |side: &Option<Side>| {
            side.as_ref().map_or_else(
                || "-".to_owned(),
                |side| Redactor::new(Redact::None).show(&side.text).to_string(),
            )
        };
        let values = match (&difference.declared, &difference.observed) {
            (None, None) => String::new(),
            (declared, observed) => format!(" {} -> {}", side(declared), side(observed)),
        };
        format!("{} {}{values}", difference.kind.name(), difference.pointer)
            .trim_end()
            .to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// `Err`: what is declared is not of the format.
fn verdict(
    format: Format,
    rules: &Rules,
    declared: &[u8],
    observed: &[u8],
) -> Result<Verdict, ParseError> {
    Ok(Meaning::of(format, rules.clone(), declared)?.verdict(observed))
}

/// What `declared` and `observed` differ in.
#[track_caller]
fn check_with(format: Format, rules: &Rules, declared: &str, observed: &str, expected: &str) {
    let found = match verdict(format, rules, declared.as_bytes(), observed.as_bytes()) {
        Ok(Verdict::Same) => String::new(),
        Ok(Verdict::Differs(differences)) => told(&differences),
        Ok(Verdict::Unparsable(error)) => format!("observed {error}"),
        Err(error) => format!("declared {error}"),
    };
    assert_eq!(
        found, expected,
        "\n--- declared\n{declared}\n--- observed\n{observed}\n---"
    );
}

#[track_caller]
fn check(format: Format, declared: &str, observed: &str, expected: &str) {
    check_with(format, &Rules::default(), declared, observed, expected);
}
