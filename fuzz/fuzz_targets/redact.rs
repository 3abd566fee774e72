#![no_main]

use drift_agent::{
    declare::Redact,
    report::{Redactable, Redactor},
};
use libfuzzer_sys::fuzz_target;

/// Not a word of any file that is not about it.
const SENTINEL: &str = "S3ntinel-9f8e7d-0c1b2a";

fuzz_target!(|bytes: &[u8]| {
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let text = String::from_utf8_lossy(one);
    let with_secret = format!("{text}{SENTINEL}\n{}", String::from_utf8_lossy(other));
    for level in [Redact::None, Redact::Keys, Redact::All] {
        let redactor = Redactor::new(level).with_secret(SENTINEL);
        for line in redactor.unified(one, with_secret.as_bytes()) {
            let line = line.to_string();
            assert!(!line.contains(SENTINEL) && !line.contains(['\n', '\u{1b}']));
        }
        let shown = redactor.show(&Redactable::of(with_secret.as_str())).to_string();
        assert!(!shown.contains(SENTINEL));
    }
});
