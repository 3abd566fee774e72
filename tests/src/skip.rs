//! Tests that need what is not on this machine.

use std::{env, fs::OpenOptions, io::Write};

/// Says that a test was not run, and why: on standard error, and as a line in the file that `DRIFT_SKIPS` names, where `cargo xtask test`
/// counts them. The caller returns at once.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED {test}: {reason}\n");
    eprint!("{line}");
    let Some(file) = env::var_os("DRIFT_SKIPS") else {
        return;
    };
    let appended = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&file)
        .and_then(|mut skips| skips.write_all(line.as_bytes()));
    if let Err(error) = appended {
        // A skipped test that nobody counts would look like one that passed.
        panic!("cannot note a skipped test in {}: {error}", file.display());
    }
}
