//! What the guests said, test by test.
//!
//! A guest is believed only as far as it speaks: a file of tests that was begun and not ended, and a guest that did not say that it is done, are
//! failures, with the kernel's last words.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{boot::Said, kernel::Series};
use crate::test::Counts;

/// Of one test in one guest under one sensor.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped,
    /// The sensor does not run in this kernel, and is not expected to.
    Unsupported,
    /// The guest could not be had.
    Missing,
}

impl Verdict {
    fn from_libtest(said: &str) -> Option<Verdict> {
        match said {
            "ok" => Some(Verdict::Passed),
            "FAILED" => Some(Verdict::Failed),
            _ if said.starts_with("ignored") => Some(Verdict::Skipped),
            _ => None,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => "ok",
            Verdict::Failed => "FAILED",
            Verdict::Skipped => "skipped",
            Verdict::Unsupported => "not sup.",
            Verdict::Missing => "-",
        }
    }
}

/// One guest.
#[derive(Debug)]
pub(super) struct Run {
    kernel: &'static str,
    /// As it names itself; as it is asked for where it does not speak.
    release: String,
    /// (sensor, test) -> verdict.
    tests: BTreeMap<(String, String), Verdict>,
    /// Sensors that do not run in this kernel.
    unsupported: BTreeSet<String>,
    /// What is to be said besides: reasons of skips, last words.
    notes: BTreeSet<String>,
    failed: bool,
}

impl Run {
    /// A kernel that is not to be had.
    pub(super) fn not_booted(kernel: &'static str, sensors: &[&str], reason: &str) -> Run {
        Run {
            kernel,
            release: kernel.to_owned(),
            tests: sensors
                .iter()
                .map(|sensor| (((*sensor).to_owned(), String::new()), Verdict::Missing))
                .collect(),
            unsupported: BTreeSet::new(),
            notes: [format!("{kernel} was not booted: {reason}")].into(),
            failed: false,
        }
    }

    /// From what a guest said.
    pub(super) fn read(series: &'static Series, sensors: &[&str], said: &Said) -> Run {
        let kernel = series.name;
        let mut run = Run {
            kernel,
            release: kernel.to_owned(),
            tests: BTreeMap::new(),
            unsupported: BTreeSet::new(),
            notes: BTreeSet::new(),
            failed: false,
        };
        // (sensor, file) under way.
        let mut current: Option<(String, String)> = None;
        let mut begun = BTreeSet::new();
        let mut named = None;
        let mut done = false;
        for line in said.tests.lines().map(str::trim) {
            if let Some(words) = line.strip_prefix("@@ ") {
                let words: Vec<&str> = words.splitn(4, ' ').collect();
                match words[..] {
                    ["kernel", release] => run.release = release.to_owned(),
                    ["begin", sensor, file] => {
                        begun.insert(sensor.to_owned());
                        current = Some((sensor.to_owned(), file.to_owned()));
                    }
                    ["end", sensor, file, status] => {
                        current = None;
                        run.ended(sensor, file, status);
                    }
                    // `SKIPPED <test>: <reason>`
                    ["skip", "SKIPPED", test, reason] => {
                        let test = test.trim_end_matches(':');
                        if let Some((sensor, _)) = &current {
                            // A part of a test may be left out, and another have failed.
                            let key = (sensor.clone(), test.to_owned());
                            let verdict = run.tests.entry(key).or_insert(Verdict::Skipped);
                            if *verdict == Verdict::Passed {
                                *verdict = Verdict::Skipped;
                            }
                            run.notes
                                .insert(format!("{kernel} {sensor}: {test}: {reason}"));
                        }
                    }
                    ["unsupported", sensor, reason, rest] => {
                        begun.insert(sensor.to_owned());
                        run.unsupported(series, sensor, &format!("{reason} {rest}"));
                    }
                    ["done"] => done = true,
                    _ => {
                        run.failed = true;
                        run.notes.insert(format!("{kernel} said `{line}`"));
                    }
                }
            } else if let Some((sensor, _)) = &current {
                if let Some((test, _)) = test_line(line) {
                    named = Some(test);
                }
                // What a test's own children say stands between its name and its verdict.
                let said = test_line(line).map_or(line, |(_, said)| said);
                if let Some(test) = named
                    && let Some(verdict) = Verdict::from_libtest(said)
                {
                    named = None;
                    run.failed |= verdict == Verdict::Failed;
                    run.tests.insert((sensor.clone(), test.to_owned()), verdict);
                }
            }
        }
        if let Some((sensor, file)) = current {
            run.fail(&sensor, &format!("({file} did not end)"));
        }
        if !done {
            let last = if said.ended_by_us {
                "it was ended: its time was up"
            } else {
                last_words(&said.console)
            };
            for sensor in sensors.iter().filter(|sensor| !begun.contains(**sensor)) {
                run.fail(sensor, "(the guest did not come so far)");
            }
            run.failed = true;
            run.notes
                .insert(format!("{kernel} did not come to its end: {last}"));
        }
        run
    }

    fn unsupported(&mut self, series: &Series, sensor: &str, reason: &str) {
        self.unsupported.insert(sensor.to_owned());
        self.notes
            .insert(format!("{} {sensor}: not supported: {reason}", self.kernel));
        if series.without.contains(&sensor) {
            self.tests
                .insert((sensor.to_owned(), String::new()), Verdict::Unsupported);
        } else {
            self.fail(sensor, "(it should run in this kernel)");
        }
    }

    fn ended(&mut self, sensor: &str, file: &str, status: &str) {
        // 101: a test failed, which stands in a line of its own.
        let known = status == "0" || status == "101";
        let any = self.tests.keys().any(|(of, _)| of == sensor);
        if !known || !any && status == "101" {
            let how = if status == "124" {
                "its time was up"
            } else {
                "it ended badly"
            };
            self.fail(sensor, &format!("({file}: {how})"));
        }
    }

    /// Of its column: what stands over it may be longer than a verdict.
    fn width(&self) -> usize {
        self.kernel.len().max(8)
    }

    fn fail(&mut self, sensor: &str, test: &str) {
        self.failed = true;
        self.tests
            .insert((sensor.to_owned(), test.to_owned()), Verdict::Failed);
    }
}

/// `test kernel_a::a_name ... ok`, as libtest says it: name, without the file, and verdict.
fn test_line(line: &str) -> Option<(&str, &str)> {
    let (path, said) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((path.rsplit("::").next().unwrap_or(path), said))
}

/// The console's last line that says something.
fn last_words(console: &str) -> &str {
    console
        .lines()
        .map(str::trim)
        .rfind(|line| line.contains("Kernel panic") || line.contains("not syncing"))
        .or_else(|| {
            console
                .lines()
                .map(str::trim)
                .rfind(|line| !line.is_empty())
        })
        .unwrap_or("its kernel said nothing")
}

/// Every kernel, every sensor, every test.
#[derive(Debug, Default)]
pub(crate) struct Table {
    runs: Vec<Run>,
}

impl Table {
    pub(super) fn add(&mut self, run: Run) {
        self.runs.push(run);
    }

    /// Every test in every guest counts; a kernel that is not to be had is one that was skipped.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for verdict in self.runs.iter().flat_map(|run| run.tests.values()) {
            match verdict {
                Verdict::Passed => counts.passed += 1,
                Verdict::Failed => counts.failed += 1,
                Verdict::Skipped | Verdict::Missing | Verdict::Unsupported => counts.skipped += 1,
            }
        }
        counts
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.runs.iter().any(|run| run.failed)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sensors: BTreeSet<&str> = self
            .runs
            .iter()
            .flat_map(|run| run.tests.keys().map(|(sensor, _)| sensor.as_str()))
            .collect();
        for sensor in sensors {
            let tests: BTreeSet<&str> = self
                .runs
                .iter()
                .flat_map(|run| run.tests.keys())
                .filter(|(of, test)| of == sensor && !test.is_empty())
                .map(|(_, test)| test.as_str())
                .collect();
            let width = tests.iter().map(|test| test.len()).max().unwrap_or(0);
            write!(f, " {:<width$}", format!("sensor {sensor}"))?;
            for run in &self.runs {
                write!(f, "  {:>1$}", run.kernel, run.width())?;
            }
            writeln!(f)?;
            for test in tests {
                write!(f, " {test:<width$}")?;
                for run in &self.runs {
                    let word = run
                        .tests
                        .get(&(sensor.to_owned(), test.to_owned()))
                        .unwrap_or(if run.unsupported.contains(sensor) {
                            &Verdict::Unsupported
                        } else {
                            &Verdict::Missing
                        })
                        .word();
                    write!(f, "  {word:>0$}", run.width())?;
                }
                writeln!(f)?;
            }
            writeln!(f)?;
        }
        for run in &self.runs {
            if run.release != run.kernel {
                writeln!(f, " {}: {}", run.kernel, run.release)?;
            }
        }
        for note in self.runs.iter().flat_map(|run| &run.notes) {
            writeln!(f, " {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    static SERIES: Series = Series {
        name: "6.1",
        architecture: crate::architecture::Architecture::Amd64,
        suite: "x",
        without: &["other"],
    };

    fn read(tests: &str) -> Run {
        Run::read(
            &SERIES,
            &["tracepoint"],
            &Said {
                tests: tests.replace('\n', "\r\n"),
                console: "booting\nKernel panic - not syncing: oh\nrebooting\n".into(),
                ended_by_us: false,
                worked: Duration::ZERO,
            },
        )
    }

    const WHOLE: &str = "@@ kernel 6.1.0-50\n@@ begin tracepoint kernel_a\n\nrunning 3 tests\ntest kernel_a::one ... ok\ntest two ... mount: oh\n  no\nFAILED\ntest three ... ok\n\
                         @@ skip SKIPPED three: no overlay here\n@@ end tracepoint kernel_a 101\n@@ done\n";

    #[test]
    fn each_test_has_its_verdict_and_a_skipped_one_its_reason() {
        let run = read(WHOLE);
        let verdict = |test: &str| run.tests[&("tracepoint".to_owned(), test.to_owned())].clone();
        assert_eq!(verdict("one"), Verdict::Passed);
        assert_eq!(verdict("two"), Verdict::Failed);
        assert_eq!(verdict("three"), Verdict::Skipped);
        assert!(run.failed);
        assert!(run.notes.contains("6.1 tracepoint: three: no overlay here"));
        let mut table = Table::default();
        table.add(run);
        assert_eq!(
            table.to_string(),
            " sensor tracepoint       6.1\n one          ok\n three   skipped\n two      FAILED\n\n 6.1: 6.1.0-50\n 6.1 tracepoint: three: no overlay here\n"
        );
    }

    #[test]
    fn a_test_of_which_a_part_was_left_out_and_another_has_failed_has_failed() {
        let run = read(
            "@@ kernel 6.1.0-50\n@@ begin tracepoint kernel_a\ntest kernel_a::one ... FAILED\n@@ skip SKIPPED one: (xfs): no xfs here\n\
             @@ end tracepoint kernel_a 101\n@@ done\n",
        );
        let one = &run.tests[&("tracepoint".to_owned(), "one".to_owned())];
        assert_eq!(*one, Verdict::Failed);
        assert!(
            run.notes
                .contains("6.1 tracepoint: one: (xfs): no xfs here")
        );
    }

    #[test]
    fn a_sensor_that_does_not_run_is_a_failure_unless_it_is_known_that_it_cannot() {
        let said = |sensor: &str| {
            format!(
                "@@ kernel 6.1\n@@ unsupported {sensor} no-functions: not on this processor\n@@ done\n"
            )
        };
        let read = |sensor: &'static str| {
            Run::read(
                &SERIES,
                &[sensor],
                &Said {
                    tests: said(sensor),
                    console: String::new(),
                    ended_by_us: false,
                    worked: Duration::ZERO,
                },
            )
        };
        assert!(read("tracepoint").failed);
        let known = read("other");
        assert!(!known.failed);
        assert!(
            known
                .notes
                .contains("6.1 other: not supported: no-functions: not on this processor")
        );
    }

    #[test]
    fn silence_is_a_failure() {
        let good = WHOLE.replace("FAILED", "ok").replace(" 101", " 0");
        assert!(!read(&good).failed);
        for cut in ["@@ done", "@@ end", "@@ begin", "@@ kernel"] {
            let run = read(&good[..good.find(cut).unwrap()]);
            assert!(run.failed, "cut at {cut}");
            let notes = format!("{:?}", run.notes);
            assert!(notes.contains("Kernel panic"), "{notes}");
        }
        let timed_out = good.replace("kernel_a 0", "kernel_a 124");
        assert!(read(&timed_out).failed);
    }

    #[test]
    fn a_kernel_that_is_not_to_be_had_is_told_and_no_failure() {
        let mut table = Table::default();
        table.add(Run::not_booted(
            "5.10",
            &["tracepoint"],
            "the suite is gone",
        ));
        assert!(!table.has_failed());
        assert_eq!(table.counts().to_string(), "0 passed, 0 failed, 1 skipped");
        assert!(
            table
                .to_string()
                .contains("5.10 was not booted: the suite is gone")
        );
    }
}
