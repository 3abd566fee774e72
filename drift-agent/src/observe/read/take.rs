//! All of what stands at a path, for who makes a declaration of it: read as a declared path is, and kept.

use std::{
    collections::BTreeSet,
    ffi::{CString, OsStr, OsString},
    fs::File,
    io::{self, Read, Seek},
    os::fd::{AsFd, BorrowedFd},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use drift_common::policy::{ACCESS_ACL, CAPABILITY, DEFAULT_ACL, SELINUX};
use rustix::{
    fs::{Dir, OFlags, flistxattr, fstatfs, llistxattr},
    io::Errno,
};

use super::{Found, Host, Stat, TRIES, failed, in_the_way, link, open, stat_at, stat_of};
use crate::{
    declare::{Attribute, Expect},
    observe::attribute::{Place, Reading, read as read_attribute},
    report::FileType,
};

/// What stands at a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Whole {
    File(Vec<u8>),
    /// The names in it, sorted.
    Directory(Vec<OsString>),
    Link(OsString),
    /// What is neither: it was not opened.
    Special(FileType),
    /// A directory in which the kernel shows itself.
    Virtual,
    /// A file with more bytes, or a directory with more names, than was asked for.
    TooLarge,
    /// Nothing, or not what was there a moment ago; why, as [`super::observe`] has it.
    Not(Found),
}

/// What stands at a path, and the attributes of that.
#[derive(Debug)]
pub struct Taken {
    pub whole: Whole,
    pub stat: Option<Stat>,
    /// The extended attributes that a policy can declare for what they mean, and those of users.
    pub attributes: Vec<(CString, Reading)>,
}

/// Attributes of one path that are read, at most, and bytes of their names.
const MOST_ATTRIBUTES: usize = 64;
const MOST_NAME_BYTES: usize = 64 << 10;

/// Names of one directory, at most.
const MOST_NAMES: usize = 1 << 20;

/// File systems that hold no configuration, but what the kernel makes up when it is asked (proc, sysfs, cgroup 1 and 2, devpts, debugfs, tracefs,
/// securityfs, bpf, pstore, efivarfs, binfmt_misc, configfs, mqueue, hugetlbfs, selinuxfs, nsfs, autofs).
const VIRTUAL: [u32; 18] = [
    0x9fa0,
    0x6265_6572,
    0x27_e0eb,
    0x6367_7270,
    0x1cd1,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xcafe_4a11,
    0x6165_676c,
    0xde5e_81e4,
    0x4249_4e4d,
    0x6265_6570,
    0x1980_0202,
    0x9584_58f6,
    0xf97c_ff8c,
    0x6e73_6673,
    0x0187,
];

/// Reads what stands at `path`, a file with at most `most` bytes. Links are read, not followed.
#[must_use]
pub fn take(host: &Host, path: &Path, most: u64) -> Taken {
    let mut taken = once(host, path, most);
    for _ in 1..TRIES {
        if taken.whole != Whole::Not(Found::Unstable) {
            break;
        }
        taken = once(host, path, most);
    }
    taken
}

fn once(host: &Host, path: &Path, most: u64) -> Taken {
    let mut stat = None;
    let mut attributes = Vec::new();
    let whole = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => match host.directory(parent, OFlags::PATH) {
            Ok(parent) => read(parent.as_fd(), name, most, &mut stat, &mut attributes),
            Err(error) => Ok(Whole::Not(in_the_way(error))),
        },
        // The root directory.
        _ => match host.directory(path, OFlags::PATH) {
            Ok(root) => read(
                root.as_fd(),
                OsStr::new("."),
                most,
                &mut stat,
                &mut attributes,
            ),
            Err(error) => Ok(Whole::Not(in_the_way(error))),
        },
    };
    let whole = whole.unwrap_or_else(|error| Whole::Not(failed(&error)));
    Taken {
        whole,
        stat,
        attributes,
    }
}

fn read(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    most: u64,
    stat: &mut Option<Stat>,
    attributes: &mut Vec<(CString, Reading)>,
) -> io::Result<Whole> {
    let before = stat_at(parent, name)?;
    *stat = Some(before);
    let flags = match before.file_type {
        FileType::File => OFlags::NONBLOCK | OFlags::NOCTTY,
        FileType::Directory => OFlags::DIRECTORY,
        FileType::Symlink => {
            let found = link(parent, name)?;
            *attributes = readings(Place::Named(parent, name));
            return Ok(match found {
                _ if stat_at(parent, name).ok() != Some(before) => Whole::Not(Found::Unstable),
                Found::Link(target) => Whole::Link(target),
                other => Whole::Not(other),
            });
        }
        other => return Ok(Whole::Special(other)),
    };
    let Some(file) = open(parent, name, flags)? else {
        return Ok(Whole::Not(Found::Unstable));
    };
    let opened = stat_of(file.as_fd())?;
    *stat = Some(opened);
    let whole = if opened.file_type != before.file_type {
        return Ok(Whole::Not(Found::Unstable));
    } else if opened.file_type == FileType::Directory {
        // Its magic number is 32 bits wide whatever the type is that carries it.
        if VIRTUAL.contains(&(fstatfs(&file)?.f_type as u32)) {
            return Ok(Whole::Virtual);
        }
        names(&file)?.map_or(Whole::TooLarge, Whole::Directory)
    } else if opened.size > most {
        return Ok(Whole::TooLarge);
    } else {
        bytes(&file, opened.size, most)?.map_or(Whole::TooLarge, Whole::File)
    };
    *attributes = readings(Place::Open(file.as_fd()));
    let after = stat_of(file.as_fd())?;
    // The name must still lead to what was read.
    let is_same = |named: Stat| (named.ino, named.dev) == (after.ino, after.dev);
    if opened != after || !stat_at(parent, name).is_ok_and(is_same) {
        return Ok(Whole::Not(Found::Unstable));
    }
    Ok(whole)
}

/// The attributes that are there. Where there are none of a kind, or their names cannot be had, there are none.
fn readings(place: Place<'_>) -> Vec<(CString, Reading)> {
    let mut names = vec![0; MOST_NAME_BYTES];
    let length = match place {
        Place::Open(file) => flistxattr(file, &mut names),
        Place::Named(directory, name) => llistxattr(Place::path(directory, name), &mut names),
    };
    let is_known = |name: &[u8]| {
        name.starts_with(b"user.")
            || [ACCESS_ACL, DEFAULT_ACL, SELINUX, CAPABILITY]
                .iter()
                .any(|known| known.as_bytes() == name)
    };
    // The kernel has no order for them.
    let names: BTreeSet<&[u8]> = names[..length.unwrap_or(0)]
        .split(|byte| *byte == 0)
        .filter(|name| is_known(name))
        .collect();
    names
        .into_iter()
        .take(MOST_ATTRIBUTES)
        .filter_map(|name| {
            let name = CString::new(name).ok()?;
            let attribute = Attribute {
                name,
                expect: Expect::Absent, // it is only read
            };
            let reading = read_attribute(place, &attribute);
            Some((attribute.name, reading))
        })
        .collect()
}

/// A regular file that is about to go, held: what it holds can be read when its name is another's already.
#[derive(Debug)]
pub struct Leaving {
    file: File,
    stat: Stat,
}

impl Leaving {
    /// `None`: something else stands there, or it cannot be opened. [`take`] says what.
    #[must_use]
    pub fn at(host: &Host, path: &Path) -> Option<Self> {
        let parent = host.directory(path.parent()?, OFlags::PATH).ok()?;
        let (parent, name) = (parent.as_fd(), path.file_name()?);
        // Devices are not opened to find out.
        let is_file = |stat: &Stat| stat.file_type == FileType::File;
        stat_at(parent, name).ok().filter(is_file)?;
        let file = open(parent, name, OFlags::NONBLOCK | OFlags::NOCTTY).ok()??;
        let stat = stat_of(file.as_fd()).ok().filter(is_file)?;
        Some(Self { file, stat })
    }

    /// Its content, at most `most` bytes, without attributes. That it loses its name meanwhile changes nothing.
    #[must_use]
    pub fn take(mut self, most: u64) -> Taken {
        let mut whole = self.read(most);
        for _ in 1..TRIES {
            if !matches!(whole, Ok(Whole::Not(Found::Unstable))) {
                break;
            }
            whole = self.read(most);
        }
        Taken {
            whole: whole.unwrap_or_else(|error| Whole::Not(failed(&error))),
            stat: Some(self.stat),
            attributes: Vec::new(),
        }
    }

    fn read(&mut self, most: u64) -> io::Result<Whole> {
        if self.stat.size > most {
            return Ok(Whole::TooLarge);
        }
        self.file.rewind()?;
        let Some(bytes) = bytes(&self.file, self.stat.size, most)? else {
            return Ok(Whole::TooLarge);
        };
        let before = std::mem::replace(&mut self.stat, stat_of(self.file.as_fd())?);
        let content = |stat: &Stat| (stat.size, stat.times.mtime);
        let is_same = content(&before) == content(&self.stat);
        Ok(if is_same {
            Whole::File(bytes)
        } else {
            Whole::Not(Found::Unstable)
        })
    }
}

/// `None`: there are more than `most`.
fn bytes(file: &File, size: u64, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(most)).unwrap_or(0) + 1);
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// `None`: there are too many.
fn names(directory: &File) -> io::Result<Option<Vec<OsString>>> {
    let mut names = BTreeSet::new();
    for entry in Dir::read_from(directory).map_err(io::Error::from)? {
        let entry = entry.map_err(|error: Errno| io::Error::from(error))?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        names.insert(name.to_owned());
        if names.len() > MOST_NAMES {
            return Ok(None);
        }
    }
    Ok(Some(names.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::{fs::symlink, net::UnixListener},
    };

    use super::*;

    #[test]
    fn what_leaves_is_read_when_its_name_is_gone_and_nothing_else_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(Path::new("/")).unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "1234").unwrap();
        let hold = || Leaving::at(&host, &path);
        let (leaving, small) = (hold().unwrap(), hold().unwrap());
        fs::write(dir.path().join("new"), "other").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        let taken = leaving.take(4);
        assert_eq!(taken.whole, Whole::File(b"1234".into()));
        assert_eq!(taken.stat.map(|stat| (stat.size, stat.links)), Some((4, 0)));
        assert_eq!(small.take(3).whole, Whole::TooLarge);
        fs::remove_file(&path).unwrap();
        assert!(hold().is_none());
        symlink("new", &path).unwrap();
        assert!(hold().is_none());
    }

    #[test]
    fn whatever_stands_there_is_taken_or_named() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(Path::new("/")).unwrap();
        let at = |name: &str| dir.path().join(name);
        let look = |path: &Path| take(&host, path, 4).whole;
        fs::write(at("four"), "1234").unwrap();
        fs::write(at("five"), "12345").unwrap();
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("sub/b"), "").unwrap();
        fs::write(at("sub/a"), "").unwrap();
        symlink("nowhere\n", at("link")).unwrap();
        symlink("sub", at("way")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        assert_eq!(look(&at("four")), Whole::File(b"1234".into()));
        assert_eq!(look(&at("five")), Whole::TooLarge);
        assert_eq!(
            look(&at("sub")),
            Whole::Directory(vec!["a".into(), "b".into()])
        );
        assert_eq!(look(&at("link")), Whole::Link("nowhere\n".into()));
        assert_eq!(look(&at("socket")), Whole::Special(FileType::Socket));
        assert_eq!(look(&at("none")), Whole::Not(Found::Absent));
        assert_eq!(look(&at("way/a")), Whole::Not(Found::Relocated));
        assert_eq!(look(Path::new("/proc")), Whole::Virtual);
        assert!(
            matches!(look(Path::new("/")), Whole::Directory(names) if names.contains(&"proc".into()))
        );
        // A file whose size is not told.
        let status = format!("/proc/{}/status", std::process::id());
        assert_eq!(look(Path::new(&status)), Whole::TooLarge);
    }
}
