//! What the documents name has to exist: links, commands, the contract.

use std::path::{Component, Path, PathBuf};

use super::{Finding, files::Files};

const SCHEMA: &str = "docs/record.schema.json";
/// Beside the checkout where the project is developed; elsewhere there is nothing to compare with.
const CONTRACT: &str = "../shared/contract/record.schema.json";

pub(super) fn check(files: &Files, commands: &[String]) -> Vec<Finding> {
    files
        .with_extension("md")
        .filter(|(path, _)| *path == Path::new("README.md") || path.starts_with("docs"))
        .flat_map(|(path, text)| check_document(files, commands, path, text))
        .collect()
}

fn check_document(files: &Files, commands: &[String], path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut find = |what: String, remedy: &str| {
            findings.push(Finding {
                file: path.to_owned(),
                line: index + 1,
                what,
                remedy: remedy.to_owned(),
            });
        };
        for link in relative_links(line) {
            let target = beside(path, link);
            if !files.has(&target) {
                find(
                    format!("links to {link}, which does not exist"),
                    "name what is there now, or take the link out",
                );
            }
        }
        for command in xtask_commands(line) {
            if !commands.iter().any(|known| known == command) {
                find(
                    format!("names `cargo xtask {command}`, which is no command"),
                    "name a command that `cargo xtask --help` lists",
                );
            }
        }
    }
    findings
}

/// Targets of Markdown links to files of the checkout, without their `#part`.
fn relative_links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', ' ', '#']).next()?;
        (!target.is_empty() && !target.contains("://") && !target.starts_with("mailto:"))
            .then_some(target)
    })
}

/// The words after `cargo xtask`, where they can be a command.
fn xtask_commands(line: &str) -> impl Iterator<Item = &str> {
    line.split("cargo xtask ").skip(1).filter_map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .unwrap_or(rest.len());
        let word = &rest[..end];
        (!word.is_empty() && !word.starts_with('-')).then_some(word)
    })
}

/// `link` as seen from the folder of `document`, with its `..` taken.
fn beside(document: &Path, link: &str) -> PathBuf {
    let mut path = document.parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(link).components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            Component::Normal(name) => path.push(name),
        }
    }
    path
}

pub(super) fn check_contract(files: &Files) -> Vec<Finding> {
    let Ok(contract) = std::fs::read(files.root.join(CONTRACT)) else {
        return vec![];
    };
    if files.text(SCHEMA).map(str::as_bytes) == Some(&contract[..]) {
        return vec![];
    }
    vec![Finding {
        file: SCHEMA.into(),
        line: 0,
        what: format!("is not byte for byte {CONTRACT}"),
        remedy: format!("cp {CONTRACT} {SCHEMA}, and make the records fit it"),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files::from_texts;

    #[test]
    fn links_and_commands_that_are_gone_are_found() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("docs")).unwrap();
        std::fs::write(root.path().join("README.md"), "").unwrap();
        let text = "[home](../README.md#top) [gone](gone.md) [web](https://example.org/x)\n\
                    Run `cargo xtask demo`, then `cargo xtask demmo`, `cargo xtask --help`.\n";
        let files = from_texts(root.path(), &[("docs/a.md", text)]);
        let found: Vec<_> = check(&files, &["demo".to_owned()])
            .iter()
            .map(|finding| format!("{} {}", finding.line, finding.what))
            .collect();
        assert_eq!(
            found,
            [
                "1 links to gone.md, which does not exist",
                "2 names `cargo xtask demmo`, which is no command"
            ]
        );
    }

    #[test]
    fn the_schema_is_held_against_the_contract_where_there_is_one() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("checkout");
        std::fs::create_dir_all(&root).unwrap();
        let files = from_texts(&root, &[(SCHEMA, "{}")]);
        assert_eq!(check_contract(&files), []);
        std::fs::create_dir_all(outer.path().join("shared/contract")).unwrap();
        std::fs::write(root.join(CONTRACT), "{}").unwrap();
        assert_eq!(check_contract(&files), []);
        std::fs::write(root.join(CONTRACT), "{ }").unwrap();
        assert_eq!(check_contract(&files).len(), 1);
    }
}
