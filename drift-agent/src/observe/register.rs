//! Keeps the kernel tables equal to what stands on the host: which inodes are declared ones now.

use std::{
    collections::{BTreeSet, HashMap},
    os::fd::AsFd,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use drift_common::abi::{CANARY_SLOT, Key, SWEEP_SLOT};
use log::warn;
use rustix::fs::OFlags;

use super::{
    boot_ns,
    objects::Objects,
    read::{Host, Known},
};
use crate::{
    declare::Declared,
    probe::{Names, Watch},
};

/// The inodes of one snapshot's objects, as last seen, and the kernel tables that hold them.
#[derive(Debug)]
pub struct Register {
    pub watch: Arc<Watch>,
    objects: Arc<Objects>,
    keys: Mutex<Keys>,
    /// One thread at a time walks: a directory counts as known only when its names are in the kernel tables.
    walking: Mutex<()>,
}

#[derive(Debug, Default)]
struct Keys {
    directories: HashMap<u32, Key>,
    files: HashMap<u32, Key>,
    /// Of files in an overlay: the inode beneath.
    reals: HashMap<u32, Key>,
    /// Slots of one inode: more than one when two declared paths are links to one file.
    by_key: HashMap<Key, Vec<u32>>,
    canary: Option<Key>,
}

impl Register {
    /// Starts with the names; inodes come as paths are looked at.
    pub fn new(watch: Arc<Watch>, objects: Arc<Objects>) -> Register {
        let register = Register {
            watch,
            objects,
            keys: Mutex::default(),
            walking: Mutex::default(),
        };
        for (name, slot) in register.objects.names() {
            register.told(register.watch.name_anywhere(name, slot));
        }
        register
    }

    /// Takes everything out of the kernel tables: another snapshot is about to be declared.
    pub fn withdraw(&self) {
        for (name, _) in self.objects.names() {
            self.told(self.watch.forget_name_anywhere(name));
        }
        let keys = std::mem::take(&mut *self.keys());
        if let Some(canary) = &keys.canary {
            self.told(self.watch.forget_file(canary));
        }
        for (key, slots) in &keys.by_key {
            self.told(self.watch.forget_file(key));
            if slots.iter().any(|slot| self.objects.is_inside(*slot)) {
                self.told(self.watch.forget_dir(key));
            }
        }
        for key in keys.reals.values() {
            self.told(self.watch.forget_file(key));
        }
        for (slot, key) in keys.directories {
            self.forget_directory(slot, key);
        }
    }

    /// The other declared paths that are links to the same file.
    pub fn peers(&self, slot: u32) -> Vec<u32> {
        let keys = self.keys();
        let slots = keys.files.get(&slot).and_then(|key| keys.by_key.get(key));
        slots.map_or_else(Vec::new, |slots| {
            slots.iter().copied().filter(|peer| *peer != slot).collect()
        })
    }

    /// Takes in the inodes just seen at a declared path, before it is hashed. True when the way to the path is newly known: what happened on it before that
    /// moment did not ring, so the path must be looked at once more.
    pub fn seen(&self, host: &Host, slot: u32, declared: &Declared, known: &Known) -> bool {
        let way = declared
            .real()
            .parent()
            .and_then(|parent| self.objects.directory_at(parent));
        let way_known = way.is_some_and(|(slot, _)| {
            known.parent.is_some() && self.keys().directories.get(&slot) == known.parent.as_ref()
        });
        // The directories that links on the way are in can be others while the last one is the same.
        let way_known = way_known && declared.links().is_empty();
        let changed = !way_known && self.walk(host, declared);
        self.file(slot, known.file);
        self.real(slot, known.real);
        changed
    }

    /// Learns every directory on the way to a path, and to each link on it. True when one of them is another than before.
    fn walk(&self, host: &Host, declared: &Declared) -> bool {
        let _one_at_a_time = self.walking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        let links = declared.links().iter().map(|link| link.path.as_path());
        let places = links.chain([declared.real()]);
        let ancestors: BTreeSet<&Path> = places.flat_map(|path| path.ancestors().skip(1)).collect();
        for ancestor in ancestors {
            let Some((slot, directory)) = self.objects.directory_at(ancestor) else {
                continue;
            };
            let since = boot_ns();
            let key = host
                .directory(ancestor, OFlags::PATH)
                .ok()
                .and_then(|opened| self.watch.learned_of(opened.as_fd(), since))
                .map(|learned| learned.key);
            let before = self.keys().directories.get(&slot).copied();
            if before == key {
                continue;
            }
            if let Some(before) = before {
                self.keys().directories.remove(&slot);
                self.forget_directory(slot, before);
            }
            if let Some(dir) = key {
                changed = true;
                for (name, slot) in &directory.entries {
                    let name = Names {
                        dir,
                        name: *name,
                        slot: *slot,
                        inside: self.objects.inside(ancestor).unwrap_or(SWEEP_SLOT),
                    };
                    self.told(self.watch.name(&name));
                }
                self.keys().directories.insert(slot, dir);
            }
        }
        changed
    }

    fn forget_directory(&self, slot: u32, key: Key) {
        let Some(super::Object::Directory(directory)) = self.objects.get(slot) else {
            return;
        };
        for (name, slot) in &directory.entries {
            let name = Names {
                dir: key,
                name: *name,
                slot: *slot,
                inside: SWEEP_SLOT,
            };
            self.told(self.watch.forget_name(&name));
        }
        self.told(self.watch.forget_dir(&key));
    }

    fn file(&self, slot: u32, key: Option<Key>) {
        let mut keys = self.keys();
        let before = keys.files.get(&slot).copied();
        if before == key {
            return;
        }
        let is_inside = self.objects.is_inside(slot);
        if let Some(before) = before {
            if is_inside {
                self.told(self.watch.forget_dir(&before));
            }
            keys.files.remove(&slot);
            let left = match keys.by_key.get_mut(&before) {
                Some(slots) => {
                    slots.retain(|other| *other != slot);
                    slots.first().copied()
                }
                None => None,
            };
            match left {
                Some(left) => self.told(self.watch.file(&before, left)),
                None => {
                    keys.by_key.remove(&before);
                    self.told(self.watch.forget_file(&before));
                }
            }
        }
        if let Some(key) = key {
            keys.files.insert(slot, key);
            keys.by_key.entry(key).or_default().push(slot);
            self.told(self.watch.file(&key, slot));
            if is_inside {
                self.told(self.watch.inside(&key, slot));
            }
        }
    }

    /// Takes in the inode of the file by which the agent hears itself.
    pub fn canary(&self, key: Key) {
        let before = self.keys().canary.replace(key);
        if let Some(before) = before.filter(|before| *before != key) {
            self.told(self.watch.forget_file(&before));
        }
        self.told(self.watch.file(&key, CANARY_SLOT));
    }

    /// What is written to where an overlay's file is. Two declared paths never share one that they do not share above.
    fn real(&self, slot: u32, key: Option<Key>) {
        let mut keys = self.keys();
        let before = match key {
            Some(key) => keys.reals.insert(slot, key),
            None => keys.reals.remove(&slot),
        };
        if before == key {
            return;
        }
        if let Some(before) = before {
            self.told(self.watch.forget_file(&before));
        }
        if let Some(key) = key {
            self.told(self.watch.file(&key, slot));
        }
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table that refuses an entry leaves an object unwatched until the next scan: said, not fatal.
    fn told(&self, result: Result<(), aya::maps::MapError>) {
        if let Err(error) = result {
            warn!("a kernel table refused an entry: {error}");
        }
    }
}
