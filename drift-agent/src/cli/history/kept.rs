//! What is kept beside a record: what a heal has taken away, against what is declared, and what commands have printed. Shown as the policy said then.

use std::path::Path;

use drift_common::escape::printable;
use serde_json::Value;

use crate::{
    declare::Redact,
    report::{Event, Redactor, Shown},
    store::Store,
};

/// Lines that are shown of one content.
const MOST_LINES: usize = 200;

/// For people. Nothing, where nothing is kept.
pub(super) fn shown(state: &Path, record: &Value) -> String {
    let mut text = String::new();
    let declared = digest(&record["declared"]["digest"]);
    let word = if record["event"] == Event::PolicyActivated.name() {
        "replaced"
    } else {
        "healed"
    };
    for kept in record["evidence"].as_array().into_iter().flatten() {
        let name = kept["name"].as_str();
        let what = name.map_or(String::new(), |name| format!(" ({})", printable(name)));
        let Some(of) = digest(&kept["digest"]) else {
            let why = kept["not_kept"].as_str().unwrap_or("unknown");
            text += &format!("\nWhat was {word}{what} is not kept: {}\n", printable(why));
            continue;
        };
        let bytes = match Store::peek_blob(state, &of) {
            Ok(bytes) => bytes,
            Err(error) => {
                text += &format!("\nWhat was {word}{what} is kept no longer: {error}\n");
                continue;
            }
        };
        let level = Redact::ALL
            .into_iter()
            .find(|(word, _)| kept["redact"].as_str() == Some(word))
            // Of a level that nobody knows nothing is shown.
            .map_or(Redact::All, |(_, level)| level);
        let redactor = Redactor::new(level);
        let before = declared.filter(|_| name.is_none());
        let before = before.and_then(|before| Store::peek_blob(state, &before).ok());
        match &before {
            Some(before) => {
                text += &format!("\n--- declared\n+++ {word}{what}\n");
                text += &lines(&redactor.unified(before, &bytes));
            }
            None => {
                text += &format!("\nWas {word}{what}, {} bytes:\n", bytes.len());
                text += &lines(&redactor.unified(b"", &bytes));
            }
        }
    }
    for done in record["after_heal"].as_array().into_iter().flatten() {
        let Some(of) = digest(&done["output"]) else {
            continue;
        };
        let action = printable(done["action"].as_str().unwrap_or_default()).into_owned();
        match Store::peek_blob(state, &of) {
            Ok(bytes) => {
                text += &format!("\nPrinted by {action}:\n");
                text += &lines(&Redactor::default().unified(b"", &bytes));
            }
            Err(error) => {
                text += &format!("\nWhat {action} has printed is kept no longer: {error}\n");
            }
        }
    }
    text
}

fn lines(shown: &[Shown]) -> String {
    let mut text: String = shown
        .iter()
        .take(MOST_LINES)
        .map(|line| format!("{line}\n"))
        .collect();
    if shown.len() > MOST_LINES {
        text += &format!("… and {} more lines\n", shown.len() - MOST_LINES);
    }
    text
}

fn digest(value: &Value) -> Option<blake3::Hash> {
    blake3::Hash::from_hex(value.as_str()?.strip_prefix("blake3:")?).ok()
}
