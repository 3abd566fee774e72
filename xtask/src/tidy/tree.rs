//! The tree in docs/architecture.md against the tree on disk.
//!
//! The block is fenced as ```` ```tree ````. A line is a path, or several joined by ` + `, then what it is for; two more spaces of indentation mean
//! inside the line above (inside the part of it that ends in `/`); `{a,b}` stands for both. A line that is indented further than that goes on
//! describing the entry above it.

use std::path::{Path, PathBuf};

use super::{Finding, files::Files};

const DOCUMENT: &str = "docs/architecture.md";

pub(super) fn check(files: &Files) -> Vec<Finding> {
    let Some(text) = files.text(DOCUMENT) else {
        return vec![]; // being written; nothing to hold against it
    };
    let entries = entries(text);
    if entries.is_empty() {
        return vec![Finding {
            file: DOCUMENT.into(),
            line: 0,
            what: "has no ```tree block that shows where things live".to_owned(),
            remedy: "fence the tree as ```tree, so that it can be held against the checkout"
                .to_owned(),
        }];
    }
    entries
        .into_iter()
        .filter(|(_, path)| !files.has(path))
        .map(|(line, path)| Finding {
            file: DOCUMENT.into(),
            line,
            what: format!("names {}, which does not exist", path.display()),
            remedy: "name what is there now, or take it out".to_owned(),
        })
        .collect()
}

/// Each path named in the tree blocks, with its line.
fn entries(text: &str) -> Vec<(usize, PathBuf)> {
    let mut found = Vec::new();
    let mut inside = false;
    let mut open: Vec<(usize, PathBuf)> = Vec::new(); // folders by indentation
    let mut last = 0;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = !inside && line.trim() == "```tree";
            open.clear();
            last = 0;
            continue;
        }
        let indentation = line.len() - line.trim_start().len();
        if !inside || line.trim().is_empty() || indentation > last + 2 {
            continue;
        }
        last = indentation;
        while open.last().is_some_and(|(depth, _)| *depth >= indentation) {
            open.pop();
        }
        let parent = open
            .last()
            .map_or_else(PathBuf::new, |(_, folder)| folder.clone());
        for name in names(line) {
            for name in expand(name) {
                let path = parent.join(&name);
                if name.ends_with('/') {
                    open.retain(|(depth, _)| *depth < indentation);
                    open.push((indentation, path.clone()));
                }
                found.push((index + 1, path));
            }
        }
    }
    found
}

/// The first word, and each word behind a `+`; the rest describes.
fn names(line: &str) -> Vec<&str> {
    let mut words = line.split_whitespace();
    let mut names = Vec::from_iter(words.next());
    while words.next() == Some("+") {
        names.extend(words.next());
    }
    names
}

/// `hook/{open,read}.rs` is `hook/open.rs` and `hook/read.rs`.
fn expand(name: &str) -> Vec<String> {
    let parts = name
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (choices, after))) => choices
            .split(',')
            .map(|choice| format!("{before}{choice}{after}"))
            .collect(),
        None => vec![Path::new(name).to_string_lossy().into_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
# Where
```
not/this
```
```tree
drift-common/src/        what both halves share
  abi.rs + abi/ the border,
                         in bytes
    {key,slot}.rs
  policy.rs
xtask/                   commands
```
";

    #[test]
    fn a_tree_names_its_paths_with_their_lines() {
        let named: Vec<_> = entries(TREE)
            .into_iter()
            .map(|(line, path)| format!("{line} {}", path.display()))
            .collect();
        assert_eq!(
            named,
            [
                "6 drift-common/src/",
                "7 drift-common/src/abi.rs",
                "7 drift-common/src/abi/",
                "9 drift-common/src/abi/key.rs",
                "9 drift-common/src/abi/slot.rs",
                "10 drift-common/src/policy.rs",
                "11 xtask/",
            ]
        );
    }

    #[test]
    fn a_path_that_is_gone_is_found_with_its_line() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("xtask")).unwrap();
        let text = "```tree\nxtask/  here\ngone.rs  not here\n```\n";
        let findings = check(&super::super::files::from_texts(
            root.path(),
            &[(DOCUMENT, text)],
        ));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 3);
        assert!(findings[0].what.contains("gone.rs"));
    }
}
