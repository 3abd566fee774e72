//! Paths on the command line.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result};
use drift_common::escape;

/// The whole path that `path` stands for here, spelt as a declared one is. Links before a `..` are followed, as the kernel would; others are not.
///
/// # Errors
/// Nobody can say what it is relative to.
pub(super) fn whole(path: &Path) -> Result<PathBuf> {
    let whole = std::path::absolute(path)
        .with_context(|| format!("{} cannot be made a whole path", escape::path_name(path)))?;
    let parts: Vec<Component<'_>> = whole.components().collect();
    let Some(last) = parts.iter().rposition(|part| *part == Component::ParentDir) else {
        return Ok(parts.iter().collect());
    };
    let (before, behind) = parts.split_at(last + 1);
    let before: PathBuf = before.iter().collect();
    let before = fs::canonicalize(&before).unwrap_or_else(|_| bare(&before));
    Ok(before.join(behind.iter().collect::<PathBuf>()))
}

/// Of a path that leads nowhere: without the names that a `..` takes back.
fn bare(path: &Path) -> PathBuf {
    let mut bare = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                bare.pop();
            }
            part => bare.push(part),
        }
    }
    bare
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_spelt_as_it_would_be_declared() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(root.join("c")).unwrap();
        symlink("../c", root.join("a/link")).unwrap();
        let check = |said: &str, expected: &str| {
            let found = whole(&root.join(said)).unwrap();
            assert_eq!(found.as_os_str(), root.join(expected).as_os_str(), "{said}");
        };
        check("a/f", "a/f");
        check("a//./f/", "a/f");
        check("a/b/../f", "a/f");
        check("a/b/../../c/f", "c/f");
        // A link stays what is declared, but where the way goes on from what it leads to.
        check("a/link", "a/link");
        check("a/link/../f", "f");
        check("gone/../a/f", "a/f");
        let here = std::env::current_dir().unwrap();
        assert_eq!(whole(Path::new("f")).unwrap(), here.join("f"));
        assert_eq!(whole(Path::new("/../etc/f")).unwrap(), Path::new("/etc/f"));
        assert!(whole(Path::new("")).is_err());
    }
}
