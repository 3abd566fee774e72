//! What may happen to a tree: done to the model, and done to a real one.

use std::{
    fs,
    io::Write,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

use anyhow::{Result, ensure};
use proptest::prelude::*;
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps,
        UTIME_NOW, Uid, chmodat, chownat, linkat, mkdirat, mknodat, openat, openat2, renameat,
        renameat_with, statat, symlinkat, unlinkat, utimensat,
    },
    io::Errno,
};

use crate::model::{Body, Model, Path};

/// Every name there can be. The last is one that directories may be told to ignore.
pub const NAMES: [&str; 5] = ["a", "b", "c", "d", "x.bak"];
pub const CONTENTS: [&str; 7] = ["", "x", "x\n", "x\r\n", "y\n", "\n", "long enough\n"];
pub const MODES: [u32; 7] = [0o644, 0o755, 0o600, 0o000, 0o4755, 0o2775, 0o1777];
/// Nothing follows them.
pub const TEXTS: [&str; 7] = [
    "a",
    "a/",
    "./a",
    "b/c",
    "nowhere",
    "/dev/null",
    "/dev/null/",
];
pub const IDS: [u32; 3] = [0, 1, 2];

/// Something that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    File(&'static str),
    Directory,
    Link(&'static str),
    Fifo,
    Socket,
}

#[derive(Clone, Debug)]
pub enum Operation {
    Make(Path, Thing),
    /// Over what is there, or anew.
    Write(Path, &'static str),
    Append(Path, &'static str),
    Truncate(Path, u64),
    Unlink(Path),
    Rmdir(Path),
    /// What is there goes, with all in it, and this comes.
    Replace(Path, Thing),
    Rename(Path, Path),
    Exchange(Path, Path),
    HardLink(Path, Path),
    Chmod(Path, u32),
    Chown(Path, u32, u32),
    Touch(Path),
}

pub fn path() -> impl Strategy<Value = Path> {
    // Names near the front come more often, so that operations meet.
    let name = prop_oneof![4 => Just("a"), 3 => Just("b"), 2 => Just("c"), 1 => Just("d"), 1 => Just("x.bak")];
    prop::collection::vec(name, 1..=3)
}

pub fn thing() -> impl Strategy<Value = Thing> {
    use prop::sample::select;
    prop_oneof![
        3 => select(&CONTENTS[..]).prop_map(Thing::File),
        3 => Just(Thing::Directory),
        2 => select(&TEXTS[..]).prop_map(Thing::Link),
        1 => Just(Thing::Fifo),
        1 => Just(Thing::Socket),
    ]
}

pub fn operation() -> impl Strategy<Value = Operation> {
    use prop::sample::select;
    let content = || select(&CONTENTS[..]);
    prop_oneof![
        3 => (path(), thing()).prop_map(|(path, thing)| Operation::Make(path, thing)),
        3 => (path(), content()).prop_map(|(path, content)| Operation::Write(path, content)),
        1 => (path(), content()).prop_map(|(path, content)| Operation::Append(path, content)),
        1 => (path(), 0u64..4).prop_map(|(path, length)| Operation::Truncate(path, length)),
        2 => path().prop_map(Operation::Unlink),
        1 => path().prop_map(Operation::Rmdir),
        3 => (path(), thing()).prop_map(|(path, thing)| Operation::Replace(path, thing)),
        3 => (path(), path()).prop_map(|(from, to)| Operation::Rename(from, to)),
        2 => (path(), path()).prop_map(|(one, other)| Operation::Exchange(one, other)),
        2 => (path(), path()).prop_map(|(from, to)| Operation::HardLink(from, to)),
        2 => (path(), select(&MODES[..])).prop_map(|(path, mode)| Operation::Chmod(path, mode)),
        1 => (path(), select(&IDS[..]), select(&IDS[..]))
            .prop_map(|(path, uid, gid)| Operation::Chown(path, uid, gid)),
        1 => path().prop_map(Operation::Touch),
    ]
}

impl Operation {
    /// What becomes of the model; nothing where the operation is refused.
    pub fn imagine(&self, model: &mut Model) -> Option<()> {
        match self {
            Operation::Make(path, thing) => imagine_thing(model, path, *thing),
            Operation::Write(path, content) => {
                if model.find(path).is_none() {
                    model.make(path, 0o644, Body::File(Vec::new()))?;
                }
                *model.bytes(path)? = content.as_bytes().to_vec();
                Some(())
            }
            Operation::Append(path, content) => {
                model.bytes(path)?.extend(content.as_bytes());
                Some(())
            }
            Operation::Truncate(path, length) => {
                model.bytes(path)?.resize(usize::try_from(*length).ok()?, 0);
                Some(())
            }
            Operation::Unlink(path) => model.unlink(path),
            Operation::Rmdir(path) => model.rmdir(path),
            Operation::Replace(path, thing) => {
                if model.find(path).is_some() {
                    model.remove_tree(path)?;
                }
                imagine_thing(model, path, *thing)
            }
            Operation::Rename(from, to) => model.rename(from, to),
            Operation::Exchange(one, other) => model.exchange(one, other),
            Operation::HardLink(from, to) => model.hard_link(from, to),
            Operation::Chmod(path, mode) => model.chmod(path, *mode),
            Operation::Chown(path, uid, gid) => model.chown(path, *uid, *gid),
            Operation::Touch(path) => model.find(path).map(drop),
        }
    }
}

fn imagine_thing(model: &mut Model, path: &Path, thing: Thing) -> Option<()> {
    let (mode, body) = match thing {
        Thing::File(content) => (0o644, Body::File(content.into())),
        Thing::Directory => (0o755, Body::Directory(Default::default())),
        Thing::Link(text) => (0o777, Body::Link(text.into())),
        Thing::Fifo => (0o644, Body::Fifo),
        Thing::Socket => (0o644, Body::Socket),
    };
    model.make(path, mode, body)
}

/// A real tree. Nothing it does leaves its folder or follows a link.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
    folder: PathBuf,
}

impl Tree {
    pub fn new(folder: PathBuf) -> Result<Tree> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, &folder, flags, Mode::empty())?;
        Ok(Tree { root, folder })
    }

    /// The directory that a path is in, and its name there.
    fn place(&self, path: &Path) -> Result<(OwnedFd, &'static str), Errno> {
        let (name, parent) = path.split_last().ok_or(Errno::NOENT)?;
        let parent = format!("./{}", parent.join("/"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let straight = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok((
            openat2(&self.root, parent, flags, Mode::empty(), straight)?,
            name,
        ))
    }

    /// Does it; the error is the kernel's refusal.
    pub fn perform(&self, operation: &Operation) -> Result<(), Errno> {
        match operation {
            Operation::Make(path, thing) => self.make(path, *thing),
            Operation::Write(path, content) => {
                self.write(path, OFlags::CREATE | OFlags::TRUNC, content)
            }
            Operation::Append(path, content) => self.write(path, OFlags::APPEND, content),
            Operation::Truncate(path, length) => {
                let file = self.open(path, OFlags::empty())?;
                rustix::fs::ftruncate(&file, *length)
            }
            Operation::Unlink(path) => {
                let (parent, name) = self.place(path)?;
                unlinkat(&parent, name, AtFlags::empty())
            }
            Operation::Rmdir(path) => {
                let (parent, name) = self.place(path)?;
                unlinkat(&parent, name, AtFlags::REMOVEDIR)
            }
            Operation::Replace(path, thing) => {
                self.remove(path)?;
                self.make(path, *thing)
            }
            Operation::Rename(from, to) => {
                let (old, old_name) = self.place(from)?;
                let (new, new_name) = self.place(to)?;
                renameat(&old, old_name, &new, new_name)
            }
            Operation::Exchange(one, other) => {
                let (old, old_name) = self.place(one)?;
                let (new, new_name) = self.place(other)?;
                renameat_with(&old, old_name, &new, new_name, RenameFlags::EXCHANGE)
            }
            Operation::HardLink(from, to) => {
                let (old, old_name) = self.place(from)?;
                let (new, new_name) = self.place(to)?;
                linkat(&old, old_name, &new, new_name, AtFlags::empty())
            }
            Operation::Chmod(path, mode) => {
                let (parent, name) = self.place(path)?;
                let there = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(there.st_mode) == FileType::Symlink {
                    return Err(Errno::OPNOTSUPP);
                }
                chmodat(&parent, name, Mode::from_raw_mode(*mode), AtFlags::empty())
            }
            Operation::Chown(path, uid, gid) => {
                let (parent, name) = self.place(path)?;
                let (uid, gid) = (Some(Uid::from_raw(*uid)), Some(Gid::from_raw(*gid)));
                chownat(&parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
            }
            Operation::Touch(path) => {
                let (parent, name) = self.place(path)?;
                let now = Timespec {
                    tv_sec: 0,
                    tv_nsec: UTIME_NOW,
                };
                let times = Timestamps {
                    last_access: now,
                    last_modification: now,
                };
                utimensat(&parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)
            }
        }
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (parent, name) = self.place(path)?;
        let flags = flags | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(&parent, name, flags, Mode::from_raw_mode(0o644))
    }

    fn write(&self, path: &Path, flags: OFlags, content: &str) -> Result<(), Errno> {
        let mut file = fs::File::from(self.open(path, flags)?);
        let written = file.write_all(content.as_bytes());
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    fn make(&self, path: &Path, thing: Thing) -> Result<(), Errno> {
        let (parent, name) = self.place(path)?;
        let parent = parent.as_fd();
        let mode = Mode::from_raw_mode(0o644);
        match thing {
            Thing::File(content) => self.write(path, OFlags::CREATE | OFlags::EXCL, content),
            Thing::Directory => mkdirat(parent, name, Mode::from_raw_mode(0o755)),
            Thing::Link(text) => symlinkat(text, parent, name),
            Thing::Fifo => mknodat(parent, name, FileType::Fifo, mode, 0),
            Thing::Socket => mknodat(parent, name, FileType::Socket, mode, 0),
        }
    }

    /// Whatever stands there, and nothing where nothing does.
    fn remove(&self, path: &Path) -> Result<(), Errno> {
        let (parent, name) = self.place(path)?;
        match unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR) => {
                // The way to it was just walked, and nobody else is here.
                let removed = fs::remove_dir_all(self.folder.join(path.join("/")));
                removed.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
            }
            other => other,
        }
    }

    /// What is in it, as a model of its own.
    pub fn read(&self) -> Result<Model> {
        let mut model = Model::new();
        let mut by_number = std::collections::HashMap::new();
        read_into(&mut model, &mut by_number, &self.folder, 0)?;
        Ok(model)
    }

    /// Every path with the number of its inode: what is replaced by its equal has another.
    pub fn numbers(&self) -> Result<std::collections::BTreeMap<Path, u64>> {
        use std::os::unix::fs::MetadataExt;
        let listing = self.read()?.listing().into_keys();
        let number = |path: Path| {
            let meta = fs::symlink_metadata(self.folder.join(path.join("/")))?;
            Ok((path, meta.ino()))
        };
        listing.map(number).collect()
    }
}

fn read_into(
    model: &mut Model,
    by_number: &mut std::collections::HashMap<u64, usize>,
    folder: &std::path::Path,
    inode: usize,
) -> Result<()> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let meta = fs::symlink_metadata(&path)?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = NAMES.into_iter().find(|known| Some(*known) == name);
        ensure!(name.is_some(), "a name that nobody gave: {path:?}");
        let number = match by_number.get(&meta.ino()) {
            Some(known) => *known,
            None => {
                let kind = meta.file_type();
                let body = if kind.is_dir() {
                    Body::Directory(Default::default())
                } else if kind.is_symlink() {
                    Body::Link(fs::read_link(&path)?.display().to_string())
                } else if kind.is_fifo() {
                    Body::Fifo
                } else if kind.is_socket() {
                    Body::Socket
                } else {
                    Body::File(fs::read(&path)?)
                };
                model.inodes.push(crate::model::Inode {
                    mode: meta.mode() & 0o7777,
                    uid: meta.uid(),
                    gid: meta.gid(),
                    body,
                });
                by_number.insert(meta.ino(), model.inodes.len() - 1);
                model.inodes.len() - 1
            }
        };
        if let (Body::Directory(entries), Some(name)) = (&mut model.inodes[inode].body, name) {
            entries.insert(name, number);
        }
        if meta.is_dir() {
            read_into(model, by_number, &path, number)?;
        }
    }
    Ok(())
}
