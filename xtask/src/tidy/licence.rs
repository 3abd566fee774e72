//! Every crate names its licence, and the text of each licence is where a reader looks for it.

use super::{Finding, files::Files};

const DEFAULT: &str = "Apache-2.0 OR MIT";
/// The kernel refuses some of its functions to programs that are not under the GPL.
const KERNEL: (&str, &str) = ("drift-ebpf", "GPL-2.0 OR MIT");

const TEXTS: [(&str, &str); 3] = [
    ("LICENSE-APACHE", "Apache License"),
    ("LICENSE-MIT", "MIT License"),
    ("drift-ebpf/LICENSE-GPL2", "GNU GENERAL PUBLIC LICENSE"),
];

pub(super) fn check(files: &Files, licenses: &[(String, Option<String>)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, license) in licenses {
        let expected = if package == KERNEL.0 {
            KERNEL.1
        } else {
            DEFAULT
        };
        if license.as_deref() != Some(expected) {
            let folder = if package == "drift-tests" {
                "tests"
            } else {
                package
            };
            findings.push(Finding {
                file: format!("{folder}/Cargo.toml").into(),
                line: 0,
                what: format!(
                    "says license = {}",
                    license
                        .as_deref()
                        .map_or_else(|| "nothing".to_owned(), |license| format!("\"{license}\""))
                ),
                remedy: format!("{package} is under \"{expected}\""),
            });
        }
    }
    for (path, title) in TEXTS {
        if !files.text(path).is_some_and(|text| text.contains(title)) {
            findings.push(Finding {
                file: path.into(),
                line: 0,
                what: format!("is missing, or is not the text of the {title}"),
                remedy: "put the licence's text there".to_owned(),
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files::from_texts;

    #[test]
    fn a_crate_without_its_licence_and_a_missing_text_are_found() {
        let files = from_texts(
            std::path::Path::new("/"),
            &[
                ("LICENSE-APACHE", "Apache License\n"),
                ("LICENSE-MIT", "MIT License\n"),
            ],
        );
        let own = |name: &str, license: Option<&str>| (name.to_owned(), license.map(str::to_owned));
        let found: Vec<_> = check(
            &files,
            &[
                own("drift-agent", Some(DEFAULT)),
                own("drift-ebpf", Some(DEFAULT)),
                own("drift-tests", None),
            ],
        )
        .into_iter()
        .map(|finding| finding.file.display().to_string())
        .collect();
        assert_eq!(
            found,
            [
                "drift-ebpf/Cargo.toml",
                "tests/Cargo.toml",
                "drift-ebpf/LICENSE-GPL2"
            ]
        );
    }
}
