//! Many small files as configuration files are, and what several programs want to be told of them.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// Files in one folder.
const IN_A_FOLDER: usize = 100;
/// Files in one policy.
const IN_A_POLICY: usize = 10_000;

/// A tree of files, and beside it how they are declared.
#[derive(Debug)]
pub(super) struct Tree {
    folder: PathBuf,
    pub(super) files: usize,
    /// Of all contents.
    pub(super) bytes: u64,
}

/// The path of a file.
pub(super) fn path(tree: &Path, number: usize) -> PathBuf {
    let (folder, file) = (number / IN_A_FOLDER, number % IN_A_FOLDER);
    tree.join(format!("d{folder:05}/f{file:02}.conf"))
}

/// Some lines that are like no other file's, 80 to 1600 bytes.
fn content(number: usize) -> String {
    let mut content = format!("# file {number}\n");
    for line in 0..4 + number * 7919 % 56 {
        let setting = (number * 31 + line) * 2_654_435_761 % 1_000_000_007;
        writeln!(content, "setting-{line:02} = {setting}").expect("memory does not fail");
    }
    content
}

impl Tree {
    /// Makes it in `folder`.
    pub(super) fn make(folder: &Path, files: usize) -> Result<Tree> {
        let mut tree = Tree {
            folder: folder.to_owned(),
            files,
            bytes: 0,
        };
        fs::create_dir(tree.policies())?;
        let mut sums = BufWriter::new(File::create(tree.sums())?);
        for first in (0..files).step_by(IN_A_POLICY) {
            let policy = first / IN_A_POLICY;
            let place = tree.policies().join(format!("tree-{policy}.yaml"));
            let mut policies = BufWriter::new(File::create(place)?);
            write!(
                policies,
                "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: tree-{policy}}}\nspec: {{activeVersion: 1.0.0}}\n\
                 ---\napiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: tree-{policy}-1.0.0}}\n\
                 spec:\n  policy: tree-{policy}\n  version: 1.0.0\n  files:\n"
            )?;
            for number in first..(first + IN_A_POLICY).min(files) {
                let path = path(&tree.root(), number);
                if number % IN_A_FOLDER == 0 {
                    let parent = path.parent().context("a file lies in a folder")?;
                    fs::create_dir_all(parent)?;
                }
                let content = content(number);
                tree.bytes += content.len() as u64;
                fs::write(&path, &content)?;
                let digest = blake3::hash(content.as_bytes());
                let path = path.display();
                writeln!(sums, "{digest}  {path}")?;
                write!(
                    policies,
                    "    - path: {path}\n      content: {{digest: \"blake3:{digest}\"}}\n      mode: \"0644\"\n"
                )?;
            }
            policies.flush()?;
        }
        sums.flush()?;
        fs::write(
            tree.aide_settings(),
            format!(
                "database_in=file:{database}\ndatabase_out=file:{database}\ngzip_dbout=no\nlog_level=error\nreport_url=stdout\n\
                 {} p+u+g+s+m+c+i+sha256\n",
                tree.root().display(),
                database = tree.folder.join("aide.db").display(),
            ),
        )?;
        Ok(tree)
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// A policy folder.
    pub(super) fn policies(&self) -> PathBuf {
        self.folder.join("policies")
    }

    /// What `b3sum -c` reads.
    pub(super) fn sums(&self) -> PathBuf {
        self.folder.join("b3sums")
    }

    pub(super) fn aide_settings(&self) -> PathBuf {
        self.folder.join("aide.conf")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_declared_once_and_summed_once() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::make(folder.path(), 250).unwrap();
        let sums = fs::read_to_string(tree.sums()).unwrap();
        let policy = fs::read_to_string(tree.policies().join("tree-0.yaml")).unwrap();
        assert_eq!(sums.lines().count(), 250);
        let mut bytes = 0;
        for number in 0..250 {
            let path = path(&tree.root(), number);
            let content = fs::read(&path).unwrap();
            assert!((80..1700).contains(&content.len()), "{}", content.len());
            bytes += content.len() as u64;
            let digest = blake3::hash(&content);
            assert!(sums.contains(&format!("{digest}  {}\n", path.display())));
            assert_eq!(policy.matches(&*digest.to_hex()).count(), 1);
        }
        assert_eq!(tree.bytes, bytes);
    }
}
