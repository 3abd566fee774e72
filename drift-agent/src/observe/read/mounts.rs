//! The table of mounts, as the kernel tells it (`proc_pid_mountinfo(5)`).

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::File,
    io::{self, Read, Seek},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Of the file system: (major, minor).
    pub dev: (u32, u32),
    /// Which directory, or file, of the file system is seen there.
    pub root: PathBuf,
    /// Where, from the pinned root.
    pub point: PathBuf,
    pub fs_type: String,
    pub source: OsString,
}

/// The table of one mount namespace, as seen from one root. It is read anew when the kernel says that it is another.
#[derive(Debug)]
pub struct Mounts {
    path: PathBuf,
    file: File,
    /// What the pinned root is called in the table: nothing, where it is the table's own.
    prefix: PathBuf,
    by_id: HashMap<u64, Mount>,
}

impl Mounts {
    /// The table in which what is mounted beneath `root` stands: of another process, where the root is a process's (`/proc/1/root`).
    pub fn of(root: &Path) -> io::Result<Mounts> {
        let (path, prefix) = place(root)?;
        let mut mounts = Mounts {
            file: File::open(&path)?,
            path,
            prefix,
            by_id: HashMap::new(),
        };
        // From here on a change is told.
        mounts.is_stale();
        mounts.read()?;
        Ok(mounts)
    }

    /// The same table, opened once more.
    pub fn again(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// What has this number (`stx_mnt_id`) now.
    pub fn get(&mut self, id: u64) -> io::Result<Option<&Mount>> {
        if self.is_stale() || !self.by_id.contains_key(&id) {
            self.read()?;
        }
        Ok(self.by_id.get(&id))
    }

    /// The innermost mount that a path leads into.
    pub fn innermost(&self, path: &Path) -> Option<&Mount> {
        let on_the_way = self
            .by_id
            .iter()
            .filter(|(_, mount)| path.starts_with(&mount.point));
        // Of two at one place, the later one is on top: numbers are given in order, as long as none is used again.
        on_the_way
            .max_by_key(|(id, mount)| (mount.point.as_os_str().len(), **id))
            .map(|(_, mount)| mount)
    }

    /// Reads it again, if it is another, and gives the places at which something was mounted or is no more.
    pub fn changes(&mut self) -> io::Result<Vec<PathBuf>> {
        if !self.is_stale() {
            return Ok(Vec::new());
        }
        let before = std::mem::take(&mut self.by_id);
        self.read()?;
        let mut changed: Vec<PathBuf> = Vec::new();
        let mut differs = |one: &HashMap<u64, Mount>, other: &HashMap<u64, Mount>| {
            let gone = one
                .iter()
                .filter(|(id, mount)| other.get(id) != Some(mount));
            changed.extend(gone.map(|(_, mount)| mount.point.clone()));
        };
        differs(&before, &self.by_id);
        differs(&self.by_id, &before);
        changed.sort();
        changed.dedup();
        Ok(changed)
    }

    /// The kernel raises this once for each descriptor when something is mounted or unmounted.
    fn is_stale(&self) -> bool {
        let mut fds = [PollFd::new(&self.file, PollFlags::PRI)];
        let now = Timespec::default();
        matches!(poll(&mut fds, Some(&now)), Ok(1..))
    }

    fn read(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut bytes)?;
        self.by_id = bytes
            .split(|byte| *byte == b'\n')
            .filter_map(|line| parse(line, &self.prefix))
            .collect();
        Ok(())
    }
}

/// The file that has the table, and what the root is called in it.
fn place(root: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let process = root.strip_prefix("/proc").ok().and_then(|rest| {
        let mut parts = rest.components();
        let pid = parts.next()?.as_os_str().to_str()?;
        let is_root = parts.next()?.as_os_str() == "root" && parts.next().is_none();
        (is_root && pid.bytes().all(|byte| byte.is_ascii_digit())).then(|| pid.to_owned())
    });
    Ok(match process {
        Some(pid) => (
            PathBuf::from(format!("/proc/{pid}/mountinfo")),
            PathBuf::new(),
        ),
        None => {
            let root = root.canonicalize()?;
            let prefix = if root == Path::new("/") {
                PathBuf::new()
            } else {
                root
            };
            (PathBuf::from("/proc/self/mountinfo"), prefix)
        }
    })
}

/// One line, if what it tells of is beneath the root, or holds it.
fn parse(line: &[u8], prefix: &Path) -> Option<(u64, Mount)> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let text = |at: usize| std::str::from_utf8(fields.get(at)?).ok();
    let end = fields.iter().position(|field| *field == b"-")?;
    let (major, minor) = text(2)?.split_once(':')?;
    let point = plain(fields.get(4)?);
    let point = match Path::new(&point).strip_prefix(prefix) {
        Ok(rest) => Path::new("/").join(rest),
        // The mount that the root itself is in: what is above the root is not seen from it.
        Err(_) if prefix.starts_with(&point) => {
            let within = prefix.strip_prefix(&point).ok()?;
            let root = Path::new(&plain(fields.get(3)?)).join(within);
            return Some((
                text(0)?.parse().ok()?,
                Mount {
                    root,
                    point: PathBuf::from("/"),
                    dev: (major.parse().ok()?, minor.parse().ok()?),
                    fs_type: text(end + 1)?.to_owned(),
                    source: plain(fields.get(end + 2)?),
                },
            ));
        }
        Err(_) => return None,
    };
    Some((
        text(0)?.parse().ok()?,
        Mount {
            dev: (major.parse().ok()?, minor.parse().ok()?),
            root: PathBuf::from(plain(fields.get(3)?)),
            point,
            fs_type: text(end + 1)?.to_owned(),
            source: plain(fields.get(end + 2)?),
        },
    ))
}

/// White space and backslashes stand as octal numbers.
fn plain(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, more)) = rest.split_first() {
        let digits = more.get(..3).filter(|_| *first == b'\\');
        let number = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = number {
            bytes.push(byte);
            rest = &more[3..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    OsString::from_vec(bytes)
}

impl Mount {
    /// What a path that leads into this mount is called on its file system.
    pub fn within(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.point) {
            Ok(rest) if rest.as_os_str().as_bytes().is_empty() => self.root.clone(),
            Ok(rest) => self.root.join(rest),
            Err(_) => self.root.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        30 21 0:33 /sub /srv/with\\040space rw - btrfs /dev/vdb rw\n\
        31 21 0:34 / /run rw shared:2 master:3 - tmpfs none rw\n\
        broken line\n";

    fn table(prefix: &str) -> HashMap<u64, Mount> {
        TABLE
            .split(|byte| *byte == b'\n')
            .filter_map(|line| parse(line, Path::new(prefix)))
            .collect()
    }

    #[test]
    fn each_line_is_a_mount_and_names_are_plain() {
        let table = table("");
        assert_eq!(table.len(), 3);
        let sub = &table[&30];
        assert_eq!(sub.point, Path::new("/srv/with space"));
        assert_eq!((sub.dev, sub.fs_type.as_str()), ((0, 33), "btrfs"));
        assert_eq!(
            sub.within(Path::new("/srv/with space/etc")),
            Path::new("/sub/etc")
        );
        assert_eq!(table[&31].source, "none");
        assert_eq!(table[&21].within(Path::new("/etc")), Path::new("/etc"));
    }

    #[test]
    fn what_is_beneath_a_root_is_called_as_seen_from_it() {
        let table = table("/run/host");
        assert_eq!(table.len(), 2, "{table:?}");
        assert_eq!(table[&31].point, Path::new("/"));
        assert_eq!(table[&31].within(Path::new("/etc")), Path::new("/host/etc"));
    }

    #[test]
    fn this_process_has_a_table_with_its_root() {
        let mut mounts = Mounts::of(Path::new("/")).unwrap();
        assert_eq!(mounts.changes().unwrap(), Vec::<PathBuf>::new());
        assert!(
            mounts
                .by_id
                .values()
                .any(|mount| mount.point == Path::new("/"))
        );
    }

    #[test]
    fn a_root_of_a_process_has_that_processs_table() {
        let own = format!("/proc/{}/root", std::process::id());
        let (file, prefix) = place(Path::new(&own)).unwrap();
        assert_eq!(
            file,
            Path::new(&format!("/proc/{}/mountinfo", std::process::id()))
        );
        assert_eq!(prefix, Path::new(""));
    }
}
