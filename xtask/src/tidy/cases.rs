//! docs/cases.md against the tests it names.
//!
//! A row of its tables is a case's number, what goes wrong, and the file and the name of the test that shows that it does not:
//! ```text
//! | B… | what goes wrong | `path/of/the/test.rs` `name_of_the_test` |
//! ```

use super::{Finding, files::Files};

const DOCUMENT: &str = "docs/cases.md";

pub(super) fn check(files: &Files) -> Vec<Finding> {
    let Some(text) = files.text(DOCUMENT) else {
        return vec![]; // nothing to hold against the sources
    };
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(row) = line.strip_prefix("| ") else {
            continue;
        };
        let Some(case) = cases(row).next().filter(|case| row.starts_with(*case)) else {
            continue;
        };
        if let Some(what) = wrong(files, case, row) {
            findings.push(Finding {
                file: DOCUMENT.into(),
                line: index + 1,
                what: format!("{case}: {what}"),
                remedy: "name the test that shows the case now, and the case in the test"
                    .to_owned(),
            });
        }
    }
    findings
}

/// What is wrong with a row.
fn wrong(files: &Files, case: &str, row: &str) -> Option<String> {
    let quoted: Vec<&str> = row
        .rsplit('|')
        .nth(1)?
        .split('`')
        .skip(1)
        .step_by(2)
        .collect();
    let [file, test] = quoted[..] else {
        return Some("the last column is not a file and a test, each in backquotes".to_owned());
    };
    let Some(text) = files.text(file) else {
        return Some(format!("{file} does not exist"));
    };
    if !text.contains(&format!("fn {test}(")) {
        return Some(format!("{file} has no test {test}"));
    }
    let is_named = cases(text).any(|named| named == case);
    (!is_named).then(|| format!("{file} does not say which of its tests is about it"))
}

/// The numbers of cases in a text: a B and three digits, which is no part of a longer word.
fn cases(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| {
            let digits = word.strip_prefix('B').unwrap_or_default();
            digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files::from_texts;

    #[test]
    fn rows_that_name_no_test_of_theirs_are_found() {
        let root = tempfile::tempdir().unwrap();
        // In two pieces, so that this file names no case.
        let of = |text: &str| text.replace('#', "B");
        let document = of("| case | what | test |\n|---|---|---|\n\
             | #001 | a | `t.rs` `holds` |\n\
             | #002 | a | `gone.rs` `holds` |\n\
             | #003 | a | `t.rs` `gone` |\n\
             | #004 | a | `t.rs` `holds` |\n\
             | #005 | a | somewhere |\n");
        let source = of("// #001, #003\nfn holds() {}\n// X#004 #0041\n");
        let files = from_texts(root.path(), &[(DOCUMENT, &document), ("t.rs", &source)]);
        let found: Vec<_> = check(&files)
            .into_iter()
            .map(|finding| format!("{} {}", finding.line, finding.what))
            .collect();
        let expected = [
            "4 #002: gone.rs does not exist",
            "5 #003: t.rs has no test gone",
            "6 #004: t.rs does not say which of its tests is about it",
            "7 #005: the last column is not a file and a test, each in backquotes",
        ];
        assert_eq!(found, expected.map(of));
    }
}
