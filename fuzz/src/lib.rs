//! What the targets of the structured formats have in common: two files and a pointer from any bytes, compared, edited and shown.

use drift_agent::{
    compare::structured::{Format, Meaning, Rules, Verdict},
    declare::Redact,
    report::Redactor,
};

/// Bytes that part the declared file, the managed pointer and the observed file.
const PART: u8 = 0xff;

/// Compares, edits and lists; what an edit gives must compare clean and be its own edit.
pub fn structured(format: Format, bytes: &[u8]) {
    let mut parts = bytes.split(|byte| *byte == PART);
    let declared = parts.next().unwrap_or_default();
    let pointer = parts.next().unwrap_or_default();
    let observed = parts.next().unwrap_or_default();
    let Ok(meaning) = Meaning::of(format, Rules::default(), declared) else {
        return;
    };
    if let Verdict::Differs(differences) = meaning.verdict(observed) {
        for line in Redactor::new(Redact::Keys).listing(&differences) {
            assert!(!line.to_string().contains(['\n', '\u{1b}']));
        }
    }
    let pointer = String::from_utf8_lossy(pointer);
    let Ok(rules) = Rules::default().manage(&format!("/{pointer}")) else {
        return;
    };
    let Ok(meaning) = Meaning::of(format, rules, declared) else {
        return;
    };
    if let Ok(edited) = meaning.edit(observed) {
        assert!(matches!(meaning.verdict(&edited), Verdict::Same));
        assert_eq!(meaning.edit(&edited).as_ref(), Ok(&edited));
    }
}
