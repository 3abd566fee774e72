//! A tree of files as it is: copied, remembered, and held against what it is later. An opinion of its own on what drift is, for whatever drift
//! itself says.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, Metadata, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

/// What stands at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub what: What,
    pub mode: u32,
    pub owner: (u32, u32),
    pub ino: u64,
    pub changed: (i64, i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    File(Vec<u8>),
    Link(PathBuf),
    Directory(BTreeSet<PathBuf>),
    Other,
}

/// All of a tree, its root included, by path.
pub type Tree = BTreeMap<PathBuf, Node>;

/// Reads a tree.
///
/// # Errors
/// The file system's.
pub fn read(root: &Path) -> Result<Tree> {
    let mut tree = Tree::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path)?;
        let kind = metadata.file_type();
        let what = if kind.is_file() {
            What::File(fs::read(&path)?)
        } else if kind.is_symlink() {
            What::Link(fs::read_link(&path)?)
        } else if kind.is_dir() {
            let names = fs::read_dir(&path)?
                .map(|entry| Ok(entry?.path()))
                .collect::<io::Result<BTreeSet<_>>>()?;
            left.extend(names.iter().cloned());
            What::Directory(names)
        } else {
            What::Other
        };
        let node = Node {
            what,
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
            ino: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        tree.insert(path, node);
    }
    Ok(tree)
}

/// Copies a folder with its names, links, modes and owners to `to`, which is not there, and gives what could not be copied. The original is
/// only read.
///
/// # Errors
/// The copy cannot be written.
pub fn copy(from: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    ensure!(!to.starts_with(from), "a copy in itself");
    let mut skipped = Vec::new();
    let mut left = vec![(from.to_owned(), to.to_owned())];
    let mut directories = Vec::new();
    while let Some((from, to)) = left.pop() {
        let metadata = fs::symlink_metadata(&from)?;
        let kind = metadata.file_type();
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
            lchown(&to, Some(metadata.uid()), Some(metadata.gid()))?;
        } else if kind.is_file() {
            // Not `fs::copy`: it would make something of what cannot be read.
            let Ok(bytes) = fs::read(&from) else {
                skipped.push(from);
                continue;
            };
            fs::write(&to, bytes).with_context(|| to.display().to_string())?;
            dress(&to, &metadata)?;
        } else if kind.is_dir() {
            fs::create_dir(&to)?;
            let Ok(names) = fs::read_dir(&from) else {
                skipped.push(from);
                continue;
            };
            for entry in names {
                let name = entry?.file_name();
                left.push((from.join(&name), to.join(name)));
            }
            directories.push((to, metadata));
        } else {
            skipped.push(from);
        }
    }
    for (to, metadata) in directories {
        dress(&to, &metadata)?;
    }
    Ok(skipped)
}

fn dress(to: &Path, like: &Metadata) -> io::Result<()> {
    chown(to, Some(like.uid()), Some(like.gid()))?;
    // After the owner, which takes setuid away.
    fs::set_permissions(to, Permissions::from_mode(like.mode() & 0o7777))
}

/// What drift there is at each path of `before`, if exactly that was declared, and nothing else may be in its directories.
#[must_use]
pub fn drifts(
    before: &Tree,
    after: &Tree,
    root: &Path,
) -> BTreeMap<PathBuf, BTreeSet<&'static str>> {
    before
        .iter()
        .map(|(path, node)| (path.clone(), drift(path, node, after, root)))
        .filter(|(_, kinds)| !kinds.is_empty())
        .collect()
}

fn drift(path: &Path, declared: &Node, after: &Tree, root: &Path) -> BTreeSet<&'static str> {
    let mut above: Vec<&Path> = path
        .ancestors()
        .skip(1)
        .take_while(|above| above.starts_with(root))
        .collect();
    above.reverse();
    for above in above {
        match after.get(above).map(|node| &node.what) {
            Some(What::Directory(_)) => {}
            None => return BTreeSet::from(["missing"]),
            Some(What::File(_) | What::Link(_) | What::Other) => {
                return BTreeSet::from(["relocated"]);
            }
        }
    }
    let Some(found) = after.get(path) else {
        return BTreeSet::from(["missing"]);
    };
    let mut kinds = BTreeSet::new();
    match (&declared.what, &found.what) {
        (What::File(declared), What::File(found)) => {
            if declared != found {
                kinds.insert("content");
            }
        }
        (What::Link(declared), What::Link(found)) => {
            if declared != found {
                kinds.insert("link-target");
            }
        }
        (What::Directory(declared), What::Directory(found)) => {
            if found.difference(declared).next().is_some() {
                kinds.insert("unexpected");
            }
        }
        _ => return BTreeSet::from(["type"]),
    }
    // A link has no mode that counts.
    if declared.mode != found.mode && !matches!(declared.what, What::Link(_)) {
        kinds.insert("mode");
    }
    if declared.owner != found.owner {
        kinds.insert("owner");
    }
    kinds
}
