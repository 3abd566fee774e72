//! What is watched: the agent's side of the kernel tables.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{Mutex, atomic},
    thread,
};

use aya::maps::{Array, HashMap, MapData, MapError};
use drift_common::abi::{Key, Learned, Level, NameKey, Slot};
use rustix::fs::{Mode, OFlags, open};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, IntoBytes};

use super::{
    batch,
    mirror::{Bits, Mirror, Single, Tampered},
};
use crate::observe::boot_ns;

pub(super) struct Maps {
    pub levels: Array<MapData, u32>,
    pub slots: Array<MapData, [u8; size_of::<Slot>()]>,
    /// [`Maps::levels`], for calls that aya does not have.
    pub levels_fd: OwnedFd,
    pub maybe: Bits,
    pub inodes: Mirror<{ size_of::<Key>() }>,
    pub dirs: Mirror<{ size_of::<Key>() }>,
    pub names: Mirror<{ size_of::<NameKey>() }>,
    pub names_anywhere: Mirror<8>,
    pub learned: HashMap<MapData, u32, [u8; size_of::<Learned>()]>,
    pub readers: HashMap<MapData, u32, u32>,
    pub read_armed: Array<MapData, u32>,
    pub restorer: Single<2>,
}

/// A process, as the kernel half knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its thread group's number in the initial pid namespace.
    pub tgid: u32,
    /// When it started, in ticks since boot.
    pub start: u64,
}

/// Names in one directory, and the slot each rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    pub dir: Key,
    pub name: u64,
    pub slot: u32,
    /// The slot that everything else in the directory rings, [`drift_common::abi::SWEEP_SLOT`] where nothing does.
    pub inside: u32,
}

/// The kernel tables. Shared between the threads that look at files; each operation is one system call.
pub struct Watch {
    maps: Mutex<Maps>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

fn key_bytes(key: &Key) -> [u8; size_of::<Key>()] {
    let mut bytes = [0; size_of::<Key>()];
    bytes.copy_from_slice(key.as_bytes());
    bytes
}

/// Removing what is not there is no error: another thread, or an earlier declaration, has done it.
pub(super) fn gone(result: Result<(), MapError>) -> Result<(), MapError> {
    match result {
        Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(error))
            if error.io_error.raw_os_error() == Some(libc::ENOENT) =>
        {
            Ok(())
        }
        other => other,
    }
}

impl Watch {
    pub(super) fn new(maps: Maps) -> Self {
        Watch {
            maps: Mutex::new(maps),
        }
    }

    fn maps(&self) -> std::sync::MutexGuard<'_, Maps> {
        // A panic while holding the lock leaves the tables as valid as before: each operation is one system call.
        self.maps
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What the kernel half knows of what this thread has opened after `since` ([`boot_ns`]), and last. `None`: it did not see it, for kernels that put tasks off in the
    /// midst of a program begin none of the same on that processor until that task has gone on.
    pub fn learned(&self, since: u64) -> Option<Learned> {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let bytes = self.maps().learned.get(&thread, 0).ok()?;
        let learned = Learned::read_from_bytes(&bytes).ok()?;
        (learned.time_ns >= since).then_some(learned)
    }

    /// The same of this file, which was opened last. Where the kernel half did not see it, it is opened again; then it is not known who holds it.
    pub fn learned_of(&self, file: BorrowedFd<'_>, since: u64) -> Option<Learned> {
        self.learned(since).or_else(|| {
            let learned = self.asked_of(file)?;
            Some(Learned {
                holders: 0,
                ..learned
            })
        })
    }

    /// The same of this file, by opening it once more, which counts among those who hold it.
    pub fn asked_of(&self, file: BorrowedFd<'_>) -> Option<Learned> {
        const TRIES: usize = 8;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        (0..TRIES).find_map(|tried| {
            if tried > 0 {
                // For the task that keeps the program from being begun.
                thread::yield_now();
            }
            let since = boot_ns();
            let _again = open(&*path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
            self.learned(since)
        })
    }

    /// From now on what this process changes does not ring.
    pub fn restorer(&self, process: Process) -> Result<(), MapError> {
        let Process { tgid, start } = process;
        self.maps().restorer.set([tgid.into(), start])
    }

    /// From now on a change of this inode rings `slot`.
    pub fn file(&self, key: &Key, slot: u32) -> Result<(), MapError> {
        let mut maps = self.maps();
        maps.maybe.set(key.ino)?;
        maps.inodes.insert(key_bytes(key), slot)
    }

    pub fn forget_file(&self, key: &Key) -> Result<(), MapError> {
        self.maps().inodes.remove(&key_bytes(key))
    }

    /// From now on what happens to this name in this directory rings.
    pub fn name(&self, name: &Names) -> Result<(), MapError> {
        let mut maps = self.maps();
        maps.names.insert(name_bytes(name), name.slot)?;
        maps.dirs.insert(key_bytes(&name.dir), name.inside)
    }

    /// From now on whatever happens to a name in this directory rings `slot`.
    pub fn inside(&self, dir: &Key, slot: u32) -> Result<(), MapError> {
        self.maps().dirs.insert(key_bytes(dir), slot)
    }

    pub fn forget_name(&self, name: &Names) -> Result<(), MapError> {
        self.maps().names.remove(&name_bytes(name))
    }

    pub fn forget_dir(&self, key: &Key) -> Result<(), MapError> {
        self.maps().dirs.remove(&key_bytes(key))
    }

    /// From now on what happens to this name anywhere, by a path with slashes, rings `slot`.
    pub fn name_anywhere(&self, name: u64, slot: u32) -> Result<(), MapError> {
        self.maps().names_anywhere.insert(name.to_ne_bytes(), slot)
    }

    pub fn forget_name_anywhere(&self, name: u64) -> Result<(), MapError> {
        self.maps().names_anywhere.remove(&name.to_ne_bytes())
    }

    /// What was seen of an object.
    pub fn slot(&self, slot: u32) -> Result<Slot, MapError> {
        let bytes = self.maps().slots.get(&slot, 0)?;
        Ok(decode(&bytes))
    }

    /// The object's dirty mark: a [`Level`].
    pub fn level(&self, slot: u32) -> Result<u32, MapError> {
        self.maps().levels.get(&slot, 0)
    }

    /// Says "I am about to look": sets the mark back. What changes from here on rings again.
    pub fn clear(&self, slot: u32) -> Result<(), MapError> {
        let cleared = self.maps().levels.set(slot, Level::Clean as u32, 0);
        // The read that follows must not be older than this store (docs/ordering.md): the system call alone does not promise that.
        atomic::fence(atomic::Ordering::SeqCst);
        cleared
    }

    /// The slots below `count` whose mark is set: the answer to a loss.
    pub fn dirty(&self, count: u32) -> Result<Vec<u32>, MapError> {
        let marks = batch::entries::<4, 4>(self.maps().levels_fd.as_fd())?;
        let marks = marks
            .into_iter()
            .map(|(slot, level)| (u32::from_ne_bytes(slot), u32::from_ne_bytes(level)));
        Ok(marks
            .filter(|(slot, level)| *slot < count && *level != Level::Clean as u32)
            .map(|(slot, _)| slot)
            .collect())
    }

    /// The tables that hold something else than was put into them.
    pub fn tampered(&self) -> Result<Vec<Tampered>, MapError> {
        let maps = self.maps();
        let tables = [
            maps.maybe.tampered()?,
            maps.inodes.tampered()?,
            maps.dirs.tampered()?,
            maps.names.tampered()?,
            maps.names_anywhere.tampered()?,
            maps.restorer.tampered()?,
        ];
        Ok(tables.into_iter().flatten().collect())
    }

    /// Switches the read hook off while nobody holds a watched file that it has not read; see `drift-ebpf/src/hook/read.rs` for why the order matters.
    /// Readers that ended unseen are taken out first.
    pub fn rest_readers(&self, is_alive: impl Fn(u32) -> bool) -> Result<(), MapError> {
        let mut maps = self.maps();
        if maps.read_armed.get(&0, 0)? == 0 {
            return Ok(());
        }
        maps.read_armed.set(0, 0, 0)?;
        let readers: Vec<u32> = maps.readers.keys().collect::<Result<_, _>>()?;
        let mut left = 0;
        for reader in readers {
            if is_alive(reader) {
                left += 1;
            } else {
                gone(maps.readers.remove(&reader))?;
            }
        }
        if left > 0 {
            maps.read_armed.set(0, 1, 0)?;
        }
        Ok(())
    }
}

fn name_bytes(name: &Names) -> [u8; size_of::<NameKey>()] {
    let key = NameKey {
        dir: name.dir,
        name: name.name,
    };
    let mut bytes = [0; size_of::<NameKey>()];
    bytes.copy_from_slice(key.as_bytes());
    bytes
}

fn decode(bytes: &[u8; size_of::<Slot>()]) -> Slot {
    // All bit patterns are valid and the length is the type's: this cannot fail.
    zerocopy::transmute!(*bytes)
}
