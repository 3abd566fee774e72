//! The smallest file system in user space: one directory, in which plain files are made, written, read, renamed and removed. It is here because a file is made and
//! opened in one step there, as on NFS, and because a mode that is set there is taken and does not last. The protocol is the kernel's (`include/uapi/linux/fuse.h`), written by hand: what is not used is refused as unknown.

use std::{
    collections::HashMap,
    ffi::CString,
    fs::File,
    io::{Read, Write},
    os::fd::AsRawFd,
    path::Path,
    thread::JoinHandle,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use rustix::{
    io::Errno,
    mount::{MountFlags, mount},
};

/// What keeps it from being mounted here.
#[must_use]
pub fn lacks() -> Option<String> {
    match File::open("/dev/fuse") {
        Ok(_) => None,
        Err(error) => Some(format!(
            "this kernel has no file systems in user space (/dev/fuse: {error})"
        )),
    }
}

/// Mounts an empty one. Its thread ends when it is unmounted.
///
/// # Errors
/// It cannot be mounted.
pub fn serve(place: &Path) -> Result<JoinHandle<()>> {
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .context("opening /dev/fuse")?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
        device.as_raw_fd()
    );
    let options = CString::new(options)?;
    mount("fuse", place, "fuse", MountFlags::empty(), Some(&*options))
        .with_context(|| format!("mounting at {}", place.display()))?;
    Ok(std::thread::spawn(move || answer(device)))
}

/// Answers until the file system is unmounted.
fn answer(mut device: File) {
    let mut folder = Folder::default();
    let mut buffer = vec![0; LONGEST_WRITE as usize + 4096];
    loop {
        match device.read(&mut buffer) {
            Ok(length) => {
                let request = Request(&buffer[..length]);
                let Some(reply) = folder.reply(&request) else {
                    continue;
                };
                let (error, body) = match reply {
                    Ok(body) => (0, body),
                    Err(errno) => (-errno.raw_os_error(), Vec::new()),
                };
                let mut bytes = Vec::with_capacity(16 + body.len());
                put(&mut bytes, &[16 + body.len() as u32, error.cast_unsigned()]);
                bytes.extend(request.u64(8).to_le_bytes());
                bytes.extend(body);
                // A caller that has given up is not there to be answered.
                let _given_up = device.write(&bytes);
            }
            // Interrupted before it was read.
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {}
            // Unmounted.
            Err(_) => return,
        }
    }
}

const LONGEST_WRITE: u32 = 128 << 10;
/// Bytes before the part that is each operation's own.
const HEADER: usize = 40;
const ROOT: u64 = 1;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const UNLINK: u32 = 10;
const RENAME: u32 = 12;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const CREATE: u32 = 35;
const FORGET_MANY: u32 = 42;
const RENAME_WITH: u32 = 45;

const SET_SIZE: u32 = 1 << 3;

struct Request<'a>(&'a [u8]);

impl Request<'_> {
    fn u32(&self, at: usize) -> u32 {
        let four = self.0[at..].first_chunk().copied();
        u32::from_le_bytes(four.unwrap_or_default())
    }

    fn u64(&self, at: usize) -> u64 {
        let eight = self.0[at..].first_chunk().copied();
        u64::from_le_bytes(eight.unwrap_or_default())
    }

    /// A name at the end.
    fn name(&self, at: usize) -> Vec<u8> {
        let bytes = self.0[at..].iter().copied();
        bytes.take_while(|byte| *byte != 0).collect()
    }
}

/// A file: what is in it, and when it was changed.
struct Node {
    content: Vec<u8>,
    changed: SystemTime,
}

#[derive(Default)]
struct Folder {
    names: HashMap<Vec<u8>, u64>,
    nodes: HashMap<u64, Node>,
}

type Reply = std::result::Result<Vec<u8>, Errno>;

impl Folder {
    /// `None`: one that is not to be answered.
    fn reply(&mut self, request: &Request<'_>) -> Option<Reply> {
        let node = request.u64(16);
        Some(match request.u32(4) {
            FORGET | FORGET_MANY => return None,
            INIT => {
                let mut out = Vec::new();
                // Version 7.31, no read-ahead, no flags.
                put(&mut out, &[7, 31, 0, 0, 0, LONGEST_WRITE, 1]);
                out.resize(64, 0);
                Ok(out)
            }
            LOOKUP => match self.names.get(&request.name(HEADER)) {
                Some(found) => self.entry(*found),
                None => Err(Errno::NOENT),
            },
            GETATTR => self.attributes(node),
            SETATTR => {
                if request.u32(HEADER) & SET_SIZE != 0 {
                    let size = request.u64(HEADER + 16) as usize;
                    self.change(node, |content| content.resize(size, 0));
                }
                self.attributes(node)
            }
            CREATE => {
                // A number is never used again.
                let node = 2 + self.nodes.len() as u64;
                self.names.insert(request.name(HEADER + 16), node);
                let changed = SystemTime::now();
                let content = Vec::new();
                self.nodes.insert(node, Node { content, changed });
                self.entry(node).map(|mut out| {
                    out.resize(out.len() + 16, 0);
                    out
                })
            }
            UNLINK => match self.names.remove(&request.name(HEADER)) {
                Some(_) => Ok(Vec::new()),
                None => Err(Errno::NOENT),
            },
            RENAME => self.rename(request, HEADER + 8),
            RENAME_WITH if request.u32(HEADER + 8) == 0 => self.rename(request, HEADER + 16),
            RENAME_WITH => Err(Errno::INVAL),
            OPEN | OPENDIR => Ok(vec![0; 16]),
            READ => {
                let content = self.nodes.get(&node).map_or(&[][..], |node| &node.content);
                let start = (request.u64(HEADER + 8) as usize).min(content.len());
                let end = (start + request.u32(HEADER + 16) as usize).min(content.len());
                Ok(content[start..end].to_vec())
            }
            WRITE => {
                let (at, size) = (request.u64(HEADER + 8) as usize, request.u32(HEADER + 16));
                let bytes = &request.0[HEADER + 40..][..size as usize];
                self.change(node, |content| {
                    content.resize(content.len().max(at + bytes.len()), 0);
                    content[at..at + bytes.len()].copy_from_slice(bytes);
                });
                let mut out = Vec::new();
                put(&mut out, &[size, 0]);
                Ok(out)
            }
            // Nobody lists it.
            READDIR | FLUSH | RELEASE | RELEASEDIR => Ok(Vec::new()),
            _ => Err(Errno::NOSYS),
        })
    }

    /// The two names begin there.
    fn rename(&mut self, request: &Request<'_>, at: usize) -> Reply {
        let from = request.name(at);
        let to = request.name(at + from.len() + 1);
        let node = self.names.remove(&from).ok_or(Errno::NOENT)?;
        self.names.insert(to, node);
        Ok(Vec::new())
    }

    fn change(&mut self, node: u64, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(node) = self.nodes.get_mut(&node) {
            change(&mut node.content);
            node.changed = SystemTime::now();
        }
    }

    fn entry(&self, node: u64) -> Reply {
        let mut out = Vec::new();
        // Number, generation, and no time for which any of it holds.
        for field in [node, 0, 0, 0, 0] {
            out.extend(u64::to_le_bytes(field));
        }
        self.put_attributes(&mut out, node)?;
        Ok(out)
    }

    fn attributes(&self, node: u64) -> Reply {
        let mut out = vec![0; 16];
        self.put_attributes(&mut out, node)?;
        Ok(out)
    }

    fn put_attributes(&self, out: &mut Vec<u8>, node: u64) -> std::result::Result<(), Errno> {
        let (size, mode, changed) = match self.nodes.get(&node) {
            Some(node) => (node.content.len() as u64, 0o100_644, node.changed),
            None if node == ROOT => (0, 0o040_755, UNIX_EPOCH),
            None => return Err(Errno::NOENT),
        };
        let time = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, rest) = (time.as_secs(), time.subsec_nanos());
        for field in [node, size, size.div_ceil(512), seconds, seconds, seconds] {
            out.extend(u64::to_le_bytes(field));
        }
        // Links, user, group, device, block size, flags.
        put(out, &[rest, rest, rest, mode, 1, 0, 0, 0, 4096, 0]);
        Ok(())
    }
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend(word.to_le_bytes());
    }
}
