//! Rules for single source files.

use std::path::Path;

use super::{Finding, files::Files};

const LONGEST: usize = 600;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 10] = [
    "util", "utils", "helper", "helpers", "common", "commons", "misc", "types", "manager",
    "managers",
];

pub(super) fn check_names(files: &Files) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, _) in files.with_extension("rs") {
        let mut names: Vec<&str> = path
            .parent()
            .into_iter()
            .flat_map(Path::iter)
            .filter_map(|name| name.to_str())
            .collect();
        names.extend(path.file_stem().and_then(|stem| stem.to_str()));
        // The crate of that name is what both halves have in common, and says so.
        if let Some(name) = names.into_iter().find(|name| says_nothing(name)) {
            findings.push(Finding {
                file: path.to_owned(),
                line: 0,
                what: format!("is called `{name}`, which says nothing about what is inside"),
                remedy: "name it after what it holds".to_owned(),
            });
        }
    }
    findings
}

fn says_nothing(name: &str) -> bool {
    EMPTY_NAMES.iter().any(|empty| {
        name == *empty
            || name
                .strip_suffix(empty)
                .is_some_and(|before| before.ends_with('_'))
    })
}

/// In two pieces each, so that this file does not find itself.
const FORBIDDEN: [(&str, &str, &str, &str); 3] = [
    (
        "#[",
        "ignore",
        "is a test that never runs",
        "let the test say at run time why it cannot run (a skip), or take it out",
    ),
    (
        "to",
        "do!",
        "panics when it is reached",
        "write it, or take the seam out until it is needed",
    ),
    (
        "unimple",
        "mented!",
        "panics when it is reached",
        "write it, or take the seam out until it is needed",
    ),
];

pub(super) fn check(files: &Files) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.with_extension("rs") {
        for (index, line) in text.lines().enumerate() {
            for (head, tail, what, remedy) in FORBIDDEN {
                let forbidden = [head, tail].concat();
                if contains_word(line, &forbidden) {
                    findings.push(Finding {
                        file: path.to_owned(),
                        line: index + 1,
                        what: format!("`{forbidden}` {what}"),
                        remedy: remedy.to_owned(),
                    });
                }
            }
        }
        let lines = text.lines().count();
        if lines > LONGEST {
            findings.push(Finding {
                file: path.to_owned(),
                line: LONGEST + 1,
                what: format!("has {lines} lines, more than {LONGEST}"),
                remedy: "split it along the data's way: foo.rs and foo/".to_owned(),
            });
        }
    }
    findings
}

/// `line` has `word` in it, not as the end of a longer one.
fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files::from_texts;

    #[test]
    fn empty_names_are_found_in_files_and_folders_but_not_in_the_crates_name() {
        let files = from_texts(
            Path::new("/"),
            &[
                ("drift-common/src/abi.rs", ""),
                ("drift-agent/src/utils.rs", ""),
                ("drift-agent/src/misc/a.rs", ""),
                ("drift-agent/src/path_helpers.rs", ""),
                ("drift-agent/src/commonplace.rs", ""),
            ],
        );
        let found: Vec<_> = check_names(&files)
            .into_iter()
            .map(|finding| finding.file.display().to_string())
            .collect();
        assert_eq!(
            found,
            [
                "drift-agent/src/misc/a.rs",
                "drift-agent/src/path_helpers.rs",
                "drift-agent/src/utils.rs"
            ]
        );
    }

    #[test]
    fn forbidden_words_and_long_files_are_found_with_their_line() {
        let ignored = ["fn a() {}\n#[", "ignore = \"slow\"]\nfn b() {}\n"].concat();
        let long = "\n".repeat(601);
        let files = from_texts(
            Path::new("/"),
            &[
                ("a.rs", &ignored),
                ("b.rs", &long),
                ("c.rs", "fn c() { not_auto_do!() }"),
                ("d.md", &ignored),
            ],
        );
        let found: Vec<_> = check(&files)
            .into_iter()
            .map(|finding| format!("{}:{}", finding.file.display(), finding.line))
            .collect();
        assert_eq!(found, ["a.rs:2", "b.rs:601"]);
    }
}
