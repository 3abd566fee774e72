//! What is watched: every declared path, every directory on the way to one, and every name of either. Each has a slot that the kernel half rings.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use drift_common::abi::{SWEEP_SLOT, name_hash};

use crate::declare::Declared;

/// What a slot stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Object {
    /// Everything: an attribute was changed through a name that is nobody's.
    Everything,
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
    /// Declared paths somewhere below, by their places in the snapshot.
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
}

impl Objects {
    /// Gives every object its slot. `files` is sorted and has no path twice.
    #[must_use]
    pub fn new(files: &[Arc<Declared>]) -> Objects {
        let mut objects = Objects {
            slots: vec![Object::Everything],
            ..Objects::default()
        };
        debug_assert_eq!(SWEEP_SLOT, 0);
        let mut names: BTreeMap<u64, BTreeSet<(usize, u64)>> = BTreeMap::new();
        for (index, declared) in files.iter().enumerate() {
            let slot = objects.add(Object::File(index));
            objects.files.push(slot);
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
                if let Object::Directory(directory) = &mut objects.slots[slot as usize] {
                    if child.2 {
                        directory.entries.push((hash, child.1));
                    }
                    directory.below.push(index);
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

    /// Every name that the kernel half looks for, with its slot.
    pub fn names(&self) -> impl Iterator<Item = (u64, u32)> {
        self.slots
            .iter()
            .zip(0..)
            .filter_map(|(object, slot)| match object {
                Object::Name(name) => Some((name.hash, slot)),
                Object::Everything | Object::File(_) | Object::Directory(_) => None,
            })
    }

    /// How many slots there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.len()
    }
}
