//! What is watched: every declared path, every directory on the way to one, and every name of either. Each has a slot that the kernel half rings.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use drift_common::abi::{CANARY_SLOT, INSIDE, MOUNT_SLOT, SWEEP_SLOT, WHOLE, name_hash};

use crate::declare::{Declared, Target};

/// What a slot stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Object {
    /// Everything: an attribute was changed through a name that is nobody's.
    Everything,
    /// The tables of mounts.
    Mounts,
    /// The file by which the agent hears itself.
    Canary,
    /// A declared path, by its place in the snapshot.
    File(usize),
    /// A directory on the way to declared paths, or a link.
    Directory(Directory),
    /// A name, wherever it stands.
    Name(Name),
}

/// A directory on the way to declared paths, or a link that the way to one is declared to go through.
#[derive(Debug, PartialEq, Eq)]
pub struct Directory {
    pub path: PathBuf,
    /// What is watched in it: hash of the name, slot.
    pub entries: Vec<(u64, u32)>,
    /// Declared paths somewhere below, or through it, and this one where it is declared itself, by their places in the snapshot.
    pub below: Vec<usize>,
}

/// A name, wherever it stands.
#[derive(Debug, PartialEq, Eq)]
pub struct Name {
    pub hash: u64,
    /// Declared paths that end in it, or have a directory or a link of this name on their way, each with the hash of the component before the name.
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
            slots: vec![Object::Everything, Object::Mounts, Object::Canary],
            ..Objects::default()
        };
        debug_assert_eq!((SWEEP_SLOT, MOUNT_SLOT, CANARY_SLOT), (0, 1, 2));
        // What can have something beneath it or be gone through, and is declared itself.
        let own: HashMap<&Path, usize> = files
            .iter()
            .enumerate()
            .filter(|(_, file)| matches!(file.target, Target::Directory(_) | Target::Symlink(_)))
            .map(|(index, file)| (file.real(), index))
            .collect();
        let mut names = Ends::default();
        for (index, declared) in files.iter().enumerate() {
            let slot = objects.add(Object::File(index));
            objects.files.push(slot);
            objects.paths.push(declared.path.clone());
            let real = declared.real();
            if let Target::Directory(Some(_)) = &declared.target {
                objects.inside.insert(real.to_owned(), slot);
                objects.insides.insert(slot);
                // By a path with slashes, whatever comes after the directory's name is in it.
                if let Some(name) = real.file_name() {
                    let hash = name_hash(name.as_bytes());
                    names
                        .entry(hash ^ INSIDE)
                        .or_default()
                        .insert((index, hash));
                }
            }
            // A declared directory that something is declared in has two slots: its name rings the one that both hear.
            let child = match objects.directories.get(real) {
                Some(slot) => (*slot, false),
                None => (slot, true),
            };
            objects.lead_to(real, child, index, &own);
            ends(real, index, &mut names);
            for link in declared.links() {
                // As a directory that something is declared in: what happens to its name happens to that.
                let child = objects.heard_at(&link.path, index, &own);
                objects.lead_to(&link.path, child, index, &own);
                ends(&link.path, index, &mut names);
            }
            // By the declared path it has other names on its way.
            if declared.through.is_some() {
                ends(&declared.path, index, &mut names);
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

    /// From a path up to the root: each directory knows the watched name that leads on, and hears for `index`. `child`: the slot that the path's own name
    /// rings, and whether that is new.
    fn lead_to(
        &mut self,
        path: &Path,
        mut child: (u32, bool),
        index: usize,
        own: &HashMap<&Path, usize>,
    ) {
        for (path, directory) in path.ancestors().zip(path.ancestors().skip(1)) {
            let Some(name) = path.file_name() else {
                break;
            };
            let hash = name_hash(name.as_bytes());
            let next = self.heard_at(directory, index, own);
            if let Object::Directory(object) = &mut self.slots[next.0 as usize]
                && child.1
            {
                object.entries.retain(|(known, _)| *known != hash);
                object.entries.push((hash, child.0));
            }
            child = next;
        }
    }

    /// The slot of the directory at `path`, which `index` hears, and whether that is new.
    fn heard_at(&mut self, path: &Path, index: usize, own: &HashMap<&Path, usize>) -> (u32, bool) {
        let (slot, new) = self.directory(path);
        if let Object::Directory(object) = &mut self.slots[slot as usize] {
            if new {
                object.below.extend(own.get(path));
            }
            // The ways to its links and to itself have directories in common.
            if object.below.last() != Some(&index) {
                object.below.push(index);
            }
        }
        (slot, new)
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
            Object::Everything
            | Object::Mounts
            | Object::Canary
            | Object::File(_)
            | Object::Directory(_) => None,
        });
        names.chain(files).chain(directories)
    }

    /// How many slots there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.len()
    }
}

/// For each name, the paths that end in it or have it on their way, each with the hash of the component before it.
type Ends = BTreeMap<u64, BTreeSet<(usize, u64)>>;

/// Puts down every name on the way to `path`.
fn ends(path: &Path, index: usize, names: &mut Ends) {
    let mut above = 0;
    for name in path.iter().skip(1) {
        let hash = name_hash(name.as_bytes());
        names.entry(hash).or_default().insert((index, above));
        above = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::{Exhaustive, sample};

    /// What the name rings in the directory.
    fn rings(objects: &Objects, directory: &str, name: &str) -> Vec<usize> {
        let (_, directory) = objects.directory_at(Path::new(directory)).unwrap();
        let hash = name_hash(name.as_bytes());
        let mut entries = directory.entries.iter().filter(|(known, _)| *known == hash);
        let slot = entries.next().unwrap().1;
        assert_eq!(entries.next(), None, "one slot for a name");
        let mut rung = match objects.get(slot).unwrap() {
            Object::Directory(directory) => directory.below.clone(),
            Object::File(index) => vec![*index],
            other => panic!("{other:?}"),
        };
        rung.sort_unstable();
        rung
    }

    #[test]
    fn a_path_through_links_hears_them_where_it_really_is_and_by_its_declared_names() {
        let links = [
            (Path::new("/etc/l"), "/srv/x"),
            (Path::new("/srv/x/m"), "../y"),
        ];
        let through = |path: &str, real: &str| {
            let declared = sample::declared(path, sample::file(b"a"));
            sample::through(declared, &links, Path::new(real))
        };
        let files: Vec<Arc<Declared>> = [
            sample::declared("/etc/l", Target::Symlink("/srv/x".into())),
            through("/etc/l/m/f", "/srv/y/f"),
            through("/etc/l/m/g", "/srv/y/g"),
            sample::declared("/srv/y", Target::Directory(None)),
            sample::declared("/srv/y/h", sample::file(b"a")),
        ]
        .map(Arc::new)
        .into();
        let objects = Objects::new(&files);
        for (directory, name, expected) in [
            ("/", "etc", &[0, 1, 2][..]),
            ("/", "srv", &[1, 2, 3, 4]),
            ("/etc", "l", &[0, 1, 2]),
            ("/srv", "x", &[1, 2]),
            ("/srv/x", "m", &[1, 2]),
            ("/srv", "y", &[1, 2, 3, 4]),
            ("/srv/y", "f", &[1]),
            ("/srv/y", "h", &[4]),
        ] {
            assert_eq!(
                rings(&objects, directory, name),
                expected,
                "{directory}/{name}"
            );
        }
        let hash = |name: &str| name_hash(name.as_bytes());
        let named = |name: &str| {
            let found = objects.slots.iter().find_map(|object| match object {
                Object::Name(found) if found.hash == hash(name) => Some(found.paths.clone()),
                _ => None,
            });
            found.unwrap()
        };
        let mut f = vec![(1, hash("y")), (1, hash("m"))];
        f.sort_unstable();
        assert_eq!(named("f"), f);
        let mut m = [1, 2]
            .map(|index| [(index, hash("x")), (index, hash("l"))])
            .concat();
        m.sort_unstable();
        assert_eq!(named("m"), m);
    }

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
        let rings = |directory: &str, name: &str| rings(&objects, directory, name);
        // Who moves the directory away takes what is declared in it along.
        assert_eq!(rings("/etc", "d"), [0, 1]);
        assert_eq!(rings("/etc/d", "a"), [1]);
        assert_eq!(rings("/etc", "e"), [2]);
        assert_eq!(rings("/etc", "f"), [3]);
        let inside = |path: &str| objects.inside(Path::new(path));
        assert_eq!(inside("/etc/d"), objects.slot_of(0));
        assert_eq!(inside("/etc/e"), objects.slot_of(2));
        assert_eq!((inside("/etc/f"), inside("/etc")), (None, None));
    }
}
