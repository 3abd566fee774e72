//! The checkout's own files: what Git knows or would add, with their text.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::step::Step;

/// Every text file by its path relative to the checkout. What is not UTF-8 is no text and is left out.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) root: PathBuf,
    texts: BTreeMap<PathBuf, String>,
}

impl Files {
    pub(super) fn find(root: &Path, target: &Path) -> Result<Files> {
        let known = Step::new("list the files", "git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .read();
        let paths = match known {
            Ok(listed) => listed.split_terminator('\0').map(PathBuf::from).collect(),
            Err(_) => walk(root, target)?, // not a clone: an unpacked archive
        };
        let mut texts = BTreeMap::new();
        for path in paths {
            // A file that is deleted but not committed yet is listed, and gone.
            let Ok(bytes) = fs::read(root.join(&path)) else {
                continue;
            };
            if let Ok(text) = String::from_utf8(bytes) {
                texts.insert(path, text);
            }
        }
        Ok(Files {
            root: root.to_owned(),
            texts,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<&str> {
        self.texts.get(path.as_ref()).map(String::as_str)
    }

    /// All files whose name ends in `.extension`.
    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = (&Path, &str)> {
        self.texts.iter().filter_map(move |(path, text)| {
            (path.extension().is_some_and(|own| own == extension))
                .then_some((path.as_path(), text.as_str()))
        })
    }

    /// Whether a file, or a folder with files in it, is there.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.root.join(path).exists()
    }
}

fn walk(root: &Path, target: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            if path == target || name == ".git" || name == "target" {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if let Ok(relative) = path.strip_prefix(root) {
                found.push(relative.to_owned());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
pub(super) fn from_texts(root: &Path, texts: &[(&str, &str)]) -> Files {
    Files {
        root: root.to_owned(),
        texts: texts
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect(),
    }
}
