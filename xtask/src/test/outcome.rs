//! What `cargo test` and the tests themselves said.

use std::fmt;

/// Added up over all test binaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Counts {
    pub(super) const ONE_SKIPPED: Counts = Counts {
        passed: 0,
        failed: 0,
        skipped: 1,
    };

    /// From the lines `test result: ok. 3 passed; 0 failed; 0 ignored; …`.
    pub(super) fn add_up(output: &str) -> Counts {
        let mut counts = Counts::default();
        for line in output.lines() {
            let Some((_, result)) = line.split_once("test result: ") else {
                continue;
            };
            let of = |word: &str| {
                result
                    .split([';', '.'])
                    .find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<usize>().ok())
                    .unwrap_or(0)
            };
            counts.passed += of("passed");
            counts.failed += of("failed");
            counts.skipped += of("ignored");
        }
        counts
    }

    pub(super) fn plus(self, other: Counts) -> Counts {
        Counts {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }

    /// `skips` tests returned early and were counted as passed.
    pub(super) fn without(self, skips: usize) -> Counts {
        let skips = skips.min(self.passed);
        Counts {
            passed: self.passed - skips,
            failed: self.failed,
            skipped: self.skipped + skips,
        }
    }
}

/// The closing line that continuous integration reads.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// A test that could not run here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Skip {
    pub(super) test: String,
    pub(super) reason: String,
}

impl Skip {
    /// For want of something that could have been installed.
    pub(super) fn is_avoidable(&self) -> bool {
        self.reason.starts_with("not installed: ")
    }
}

/// From the lines `SKIPPED <test name>: <reason>`. A line of another form is a skip too: none may get lost.
pub(super) fn skips(text: &str) -> Vec<Skip> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let line = line.trim();
            let said = line.strip_prefix("SKIPPED ").unwrap_or(line);
            // A test's name has `::` in it, never a colon and a space.
            let (test, reason) = said.split_once(": ").unwrap_or((said, "no reason given"));
            Skip {
                test: test.to_owned(),
                reason: reason.to_owned(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_add_up_and_skips_are_taken_from_the_passed() {
        let output = "\
running 2 tests
test a ... ok
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.20s
";
        let counts = Counts::add_up(output);
        assert_eq!(counts.to_string(), "15 passed, 2 failed, 1 skipped");
        assert_eq!(
            counts.without(4).to_string(),
            "11 passed, 2 failed, 5 skipped"
        );
        assert_eq!(
            counts.without(99).to_string(),
            "0 passed, 2 failed, 16 skipped"
        );
    }

    #[test]
    fn skips_are_read_line_by_line() {
        let found = skips(
            "SKIPPED kernel::a_rename_is_seen: bpf(BPF_PROG_LOAD): EPERM\n\nSKIPPED otlp: not installed: strace\nodd\n",
        );
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].test, "kernel::a_rename_is_seen");
        assert_eq!(found[0].reason, "bpf(BPF_PROG_LOAD): EPERM");
        assert!(!found[0].is_avoidable() && found[1].is_avoidable());
        assert_eq!(found[2].reason, "no reason given");
    }
}
