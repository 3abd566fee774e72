//! Source files that no `mod` declares: Cargo never compiles them, and a test in one never runs.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{Finding, files::Files};

pub(super) fn check(files: &Files) -> Vec<Finding> {
    let all: BTreeSet<&Path> = files.with_extension("rs").map(|(path, _)| path).collect();
    let mut reached = BTreeSet::new();
    let mut next: Vec<PathBuf> = all
        .iter()
        .filter(|path| is_crate_root(files, path))
        .map(|path| (*path).to_owned())
        .collect();
    while let Some(path) = next.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        let text = files.text(&path).unwrap_or_default();
        next.extend(
            declared(text)
                .flat_map(|name| places(files, &path, name))
                .chain(included(&path, text))
                .filter(|place| all.contains(place.as_path())),
        );
    }
    all.into_iter()
        .filter(|path| !reached.contains(*path))
        .map(|path| Finding {
            file: path.to_owned(),
            line: 0,
            what: "is declared by no `mod`: it is never compiled, and a test in it never runs"
                .to_owned(),
            remedy: "declare it where it belongs, or delete it".to_owned(),
        })
        .collect()
}

/// What Cargo compiles by itself: main.rs, lib.rs, src/bin, build.rs, and each file directly in tests, examples and benches.
fn is_crate_root(files: &Files, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(folder) = path.parent() else {
        return false;
    };
    let package = |folder: &Path| files.has(&folder.join("Cargo.toml"));
    let outer = folder.parent();
    match (folder.file_name().and_then(|name| name.to_str()), name) {
        (Some("src"), Some("main.rs" | "lib.rs")) => outer.is_some_and(package),
        (Some("bin"), _) => folder.parent().is_some_and(|src| src.ends_with("src")),
        (Some("tests" | "examples" | "benches" | "fuzz_targets"), Some(name)) => {
            name != "build.rs" && outer.is_some_and(|outer| is_found(files, outer, path))
        }
        (_, Some("build.rs")) => package(folder),
        (_, Some("main.rs")) => {
            // tests/foo/main.rs is a test of its own
            outer.is_some_and(|outer| {
                outer.ends_with("examples")
                    || outer.ends_with("bin")
                    || (outer.ends_with("tests")
                        && outer
                            .parent()
                            .is_some_and(|package| is_found(files, package, path)))
            })
        }
        _ => false,
    }
}

/// Whether Cargo finds a program of a package by where it lies. A package with `autotests = false` names its tests.
fn is_found(files: &Files, package: &Path, path: &Path) -> bool {
    let manifest = package.join("Cargo.toml");
    if !files.has(&manifest) {
        return false;
    }
    let manifest = files.text(&manifest).unwrap_or_default();
    let Ok(within) = path.strip_prefix(package) else {
        return false;
    };
    let is_test = within.starts_with("tests");
    let named = format!("path = \"{}\"", within.display());
    !is_test || !manifest.contains("autotests = false") || manifest.contains(&named)
}

/// Names in `mod name;` lines.
fn declared(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = match line.strip_prefix("pub") {
            Some(rest) => match rest.strip_prefix('(') {
                Some(rest) => rest.split_once(')')?.1,
                None => rest,
            },
            None => line,
        };
        let name = line.trim_start().strip_prefix("mod ")?.split_once(';')?.0;
        Some(name.trim().trim_start_matches("r#"))
    })
}

/// Where `mod name;` in the file `from` may be found.
fn places(files: &Files, from: &Path, name: &str) -> Vec<PathBuf> {
    let folder = from.parent().unwrap_or(Path::new(""));
    let stem = from.file_stem().unwrap_or_default();
    let base = if is_crate_root(files, from) || stem == "mod" {
        folder.to_owned()
    } else {
        folder.join(stem)
    };
    vec![
        base.join(format!("{name}.rs")),
        base.join(name).join("mod.rs"),
    ]
}

/// Files named by `#[path = "…"]` and `include!("…")`, seen from the folder of `from`.
fn included(from: &Path, text: &str) -> impl Iterator<Item = PathBuf> {
    let folder = from.parent().unwrap_or(Path::new("")).to_owned();
    text.lines().filter_map(move |line| {
        let rest = line
            .split_once("include!(")
            .or_else(|| line.split_once("#[path"))?
            .1;
        let name = rest.split('"').nth(1)?;
        Some(folder.join(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files::from_texts;

    #[test]
    fn a_file_that_nothing_declares_is_found() {
        let root = tempfile::tempdir().unwrap();
        for package in ["agent", "tests", "named"] {
            std::fs::create_dir_all(root.path().join(package)).unwrap();
            std::fs::write(root.path().join(package).join("Cargo.toml"), "").unwrap();
        }
        let files = from_texts(
            root.path(),
            &[
                ("agent/build.rs", ""),
                (
                    "agent/src/main.rs",
                    "mod heal;\npub(crate) mod probe;\nmod r#loop;\nmod inline {\n}\n",
                ),
                ("agent/src/heal.rs", "mod plan;\n"),
                ("agent/src/heal/plan.rs", ""),
                ("agent/src/heal/lost.rs", ""),
                (
                    "agent/src/probe/mod.rs",
                    "#[cfg(test)]\n#[path = \"cases.rs\"]\nmod other;\n",
                ),
                ("agent/src/probe/cases.rs", ""),
                ("agent/src/loop.rs", ""),
                ("tests/src/lib.rs", "pub mod agent;\n"),
                ("tests/src/agent.rs", ""),
                ("tests/tests/flow_heal.rs", "mod flow;\n"),
                ("tests/tests/flow/mod.rs", ""),
                ("tests/tests/flow/undeclared.rs", ""),
                (
                    "named/Cargo.toml",
                    "autotests = false\n[[test]]\npath = \"tests/flow.rs\"\n",
                ),
                ("named/tests/flow.rs", "mod flow_heal;\n"),
                ("named/tests/flow_heal.rs", ""),
                ("named/tests/flow_lost.rs", ""),
                ("named/tests/alone/main.rs", ""),
            ],
        );
        let found: Vec<_> = check(&files)
            .into_iter()
            .map(|finding| finding.file.display().to_string())
            .collect();
        assert_eq!(
            found,
            [
                "agent/src/heal/lost.rs",
                "named/tests/alone/main.rs",
                "named/tests/flow_lost.rs",
                "tests/tests/flow/undeclared.rs"
            ]
        );
    }
}
