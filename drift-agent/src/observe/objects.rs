//! What is watched: every declared path, every directory on the way to one, and every name of either. Each has a slot that the kernel half rings.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use drift_common::abi::{INSIDE, MOUNT_SLOT, SWEEP_SLOT, WHOLE, name_hash};

use crate::declare::{Declared, Target};

/// What a slot stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Object {
    /// Everything: an attribute was changed through a name that is nobody's.
    Everything,
    /// The tables of mounts.
    Mounts,
    /// A declared path, by its place in the snapshot.
    File(usize),
    /// A directory on the way to declared paths.
    Directory(Directory),
    /// A name, wherever it stands.
    Name(Name),
}

/// A directory on the way to declared paths.
#[derive(Debug, PartialEq, Eq)]
pub struct Directory {
    pub path: PathBuf,
    /// What is watched in it: hash of the name, slot.
    pub entries: Vec<(u64, u32)>,
    /// Declared paths somewhere below, and this one where it is declared itself, by their places in the snapshot.
    pub below: Vec<usize>,
}

/// A name, wherever it stands.
#[derive(Debug, PartialEq, Eq)]
pub struct Name {
    pub hash: u64,
    /// Declared paths that end in it, or have a directory of this name on their way, each with the hash of the component before the name.
    pub paths: Vec<(usize, u64)>,
}

/// The table of slots for one snapshot. Never changed.
#[derive(Debug, Default)]
pub struct Objects {
    slots: Vec<Object>,
    directories: HashMap<PathBuf, u32>,
    /// Slot of each declared path, by its place in the snapshot.
    files: Vec<u32>,
    paths: Vec<PathBuf>,
    /// Slots of directories in which every name is watched.
    inside: HashMap<PathBuf, u32>,
    /// The same, by slot.
    insides: HashSet<u32>,
}

impl Objects {
    /// Gives every object its slot. `files` is sorted and has no path twice.
    #[must_use]
    pub fn new(files: &[Arc<Declared>]) -> Objects {
        let mut objects = Objects {
            slots: vec![Object::Everything, Object::Mounts],
            ..Objects::default()
        };
        debug_assert_eq!((SWEEP_SLOT, MOUNT_SLOT), (0, 1));
        let mut names: BTreeMap<u64, BTreeSet<(usize, u64)>> = BTreeMap::new();
        // Directories that are declared themselves, by their places in the snapshot.
        let mut directories: HashMap<&Path, usize> = HashMap::new();
        for (index, declared) in files.iter().enumerate() {
            let slot = objects.add(Object::File(index));
            objects.files.push(slot);
            objects.paths.push(declared.path.clone());
            if let Target::Directory(exhaustive) = &declared.target {
                directories.insert(&declared.path, index);
                if exhaustive.is_some() {
                    objects.inside.insert(declared.path.clone(), slot);
                    objects.insides.insert(slot);
                    // By a path with slashes, whatever comes after the directory's name is in it.
                    if let Some(name) = declared.path.file_name() {
                        let hash = name_hash(name.as_bytes());
                        names
                            .entry(hash ^ INSIDE)
                            .or_default()
                            .insert((index, hash));
                    }
                }
            }
            // (path, slot, whether it has just got its slot)
            let mut child = (declared.path.as_path(), slot, true);
            // From the file up to the root: each directory knows the watched name that leads on.
            for directory in declared.path.ancestors().skip(1) {
                let Some(name) = child.0.file_name() else {
                    break;
                };
                let hash = name_hash(name.as_bytes());
                let above = directory
                    .file_name()
                    .map_or(0, |name| name_hash(name.as_bytes()));
                names.entry(hash).or_default().insert((index, above));
                let (slot, new) = objects.directory(directory);
                if let Object::Directory(object) = &mut objects.slots[slot as usize] {
                    if child.2 {
                        // A declared directory that something is declared in has two slots: its name rings the one that both hear.
                        object.entries.retain(|(known, _)| *known != hash);
                        object.entries.push((hash, child.1));
                    }
                    object.below.push(index);
                    if new {
                        object.below.extend(directories.get(directory));
                    }
                }
                child = (directory, slot, new);
            }
        }
        for (hash, paths) in names {
            objects.add(Object::Name(Name {
                hash,
                paths: paths.into_iter().collect(),
            }));
        }
        objects
    }

    fn add(&mut self, object: Object) -> u32 {
        self.slots.push(object);
        (self.slots.len() - 1) as u32
    }

    fn directory(&mut self, path: &Path) -> (u32, bool) {
        if let Some(slot) = self.directories.get(path) {
            return (*slot, false);
        }
        let slot = self.add(Object::Directory(Directory {
            path: path.to_owned(),
            entries: Vec::new(),
            below: Vec::new(),
        }));
        self.directories.insert(path.to_owned(), slot);
        (slot, true)
    }

    /// What a slot stands for.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<&Object> {
        self.slots.get(slot as usize)
    }

    /// The slot of a declared path, by its place in the snapshot.
    #[must_use]
    pub fn slot_of(&self, index: usize) -> Option<u32> {
        self.files.get(index).copied()
    }

    /// The directory at this path, with its slot.
    #[must_use]
    pub fn directory_at(&self, path: &Path) -> Option<(u32, &Directory)> {
        let slot = *self.directories.get(path)?;
        match self.get(slot) {
            Some(Object::Directory(directory)) => Some((slot, directory)),
            _ => None,
        }
    }

    /// The slot of a directory at this path in which every name is watched.
    #[must_use]
    pub fn inside(&self, path: &Path) -> Option<u32> {
        self.inside.get(path).copied()
    }

    /// Whether every name in this directory is watched.
    #[must_use]
    pub fn is_inside(&self, slot: u32) -> bool {
        self.insides.contains(&slot)
    }

    /// Every name that the kernel half looks for wherever it stands, and every whole path, with its slot. A declared directory that something is declared in has
    /// two: its path rings the one that both hear.
    pub fn names(&self) -> impl Iterator<Item = (u64, u32)> {
        let whole = |path: &Path| name_hash(path.as_os_str().as_bytes()) ^ WHOLE;
        let files = self.paths.iter().zip(&self.files);
        let files = files
            .filter(|(path, _)| !self.directories.contains_key(*path))
            .map(move |(path, slot)| (whole(path), *slot));
        let directories = self.directories.iter();
        let directories = directories.map(move |(path, slot)| (whole(path), *slot));
        let names = self.slots.iter().zip(0..);
        let names = names.filter_map(|(object, slot)| match object {
            Object::Name(name) => Some((name.hash, slot)),
            Object::Everything | Object::Mounts | Object::File(_) | Object::Directory(_) => None,
        });
        names.chain(files).chain(directories)
    }

    /// How many slots there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::{Exhaustive, sample};

    #[test]
    fn a_declared_directory_hears_its_own_name_and_what_is_in_it() {
        let exhaustive = || Target::Directory(Some(Exhaustive::default()));
        let files: Vec<Arc<Declared>> = [
            sample::declared("/etc/d", exhaustive()),
            sample::declared("/etc/d/a", sample::file(b"a")),
            sample::declared("/etc/e", exhaustive()),
            sample::declared("/etc/f", Target::Directory(None)),
        ]
        .map(Arc::new)
        .into();
        let objects = Objects::new(&files);
        let rings = |directory: &str, name: &str| {
            let (_, directory) = objects.directory_at(Path::new(directory)).unwrap();
            let hash = name_hash(name.as_bytes());
            let mut entries = directory.entries.iter().filter(|(known, _)| *known == hash);
            let slot = entries.next().unwrap().1;
            assert_eq!(entries.next(), None, "one slot for a name");
            match objects.get(slot).unwrap() {
                Object::Directory(directory) => directory.below.clone(),
                Object::File(index) => vec![*index],
                other => panic!("{other:?}"),
            }
        };
        // Who moves the directory away takes what is declared in it along.
        let mut both = rings("/etc", "d");
        both.sort_unstable();
        assert_eq!(both, [0, 1]);
        assert_eq!(rings("/etc/d", "a"), [1]);
        assert_eq!(rings("/etc", "e"), [2]);
        assert_eq!(rings("/etc", "f"), [3]);
        let inside = |path: &str| objects.inside(Path::new(path));
        assert_eq!(inside("/etc/d"), objects.slot_of(0));
        assert_eq!(inside("/etc/e"), objects.slot_of(2));
        assert_eq!((inside("/etc/f"), inside("/etc")), (None, None));
    }
}
