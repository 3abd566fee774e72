//! Random changes of a tree, of the kinds that happen to configuration.

use std::{
    fs::{self, FileTimes, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, lchown, symlink},
    },
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};

/// A small generator: the same numbers for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Makes one change beneath `root` at one of `paths`, if one is possible there. What is said of it is for a failing test.
///
/// Nothing outside of `root` is ever touched: a path that a link leads out of, or elsewhere, is passed by.
///
/// # Errors
/// The file system's.
pub fn mutate(random: &mut Random, root: &Path, paths: &[PathBuf]) -> Result<Option<String>> {
    let path = &paths[random.below(paths.len())];
    ensure!(path.starts_with(root) && path != root, "out of the tree");
    let Some(parent) = path.parent() else {
        return Ok(None);
    };
    if fs::canonicalize(parent).ok().as_deref() != Some(parent) {
        return Ok(None);
    }
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(None);
    };
    let kind = metadata.file_type();
    let done = if kind.is_symlink() {
        of_link(random, path)
    } else if kind.is_dir() {
        of_directory(random, path, metadata.mode())
    } else if kind.is_file() {
        of_file(random, path, &metadata)
    } else {
        return Ok(None);
    };
    Ok(done?.map(|done| format!("{done} {}", path.display())))
}

type Done = io::Result<Option<&'static str>>;

fn of_file(random: &mut Random, path: &Path, before: &fs::Metadata) -> Done {
    Ok(Some(match random.below(13) {
        0 => {
            OpenOptions::new()
                .append(true)
                .open(path)?
                .write_all(b"\n# more\n")?;
            "appended to"
        }
        1 => {
            OpenOptions::new().write(true).truncate(true).open(path)?;
            "truncated"
        }
        2 => {
            // One byte is another one, and the times are as before.
            let mut bytes = fs::read(path)?;
            let Some(last) = bytes.last_mut() else {
                return Ok(None);
            };
            *last ^= 1;
            fs::write(path, bytes)?;
            let times = FileTimes::new().set_modified(before.modified()?);
            OpenOptions::new()
                .write(true)
                .open(path)?
                .set_times(times)?;
            "flipped a bit of"
        }
        3 => {
            let bit = [0o200, 0o004, 0o020, 0o100, 0o4000, 0o2000, 0o1000][random.below(7)];
            let mode = before.mode() & 0o7777 ^ bit;
            fs::set_permissions(path, Permissions::from_mode(mode))?;
            "changed the mode of"
        }
        4 => {
            lchown(path, Some(before.uid() ^ 1), None)?;
            "changed the owner of"
        }
        5 => {
            lchown(path, None, Some(before.gid() ^ 7))?;
            "changed the group of"
        }
        6 => {
            fs::remove_file(path)?;
            "removed"
        }
        7 => {
            fs::remove_file(path)?;
            symlink("nowhere", path)?;
            "put a link in the place of"
        }
        8 => {
            fs::remove_file(path)?;
            fs::create_dir(path)?;
            "put a directory in the place of"
        }
        9 => {
            // An editor's way: a new file over the old one, in its clothes.
            let aside = path.with_file_name(".mutation");
            fs::write(&aside, b"edited\n")?;
            lchown(&aside, Some(before.uid()), Some(before.gid()))?;
            fs::set_permissions(&aside, before.permissions())?;
            fs::rename(aside, path)?;
            "edited"
        }
        10 => {
            // No drift: the same bytes, the same clothes, another inode.
            let aside = path.with_file_name(".mutation");
            fs::write(&aside, fs::read(path)?)?;
            lchown(&aside, Some(before.uid()), Some(before.gid()))?;
            fs::set_permissions(&aside, before.permissions())?;
            fs::rename(aside, path)?;
            "(no drift) rewrote"
        }
        11 => {
            // No drift either.
            let times = FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
            OpenOptions::new()
                .append(true)
                .open(path)?
                .set_times(times)?;
            "(no drift) touched"
        }
        _ => {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(".moved");
            fs::rename(path, path.with_file_name(name))?;
            "moved"
        }
    }))
}

fn of_link(random: &mut Random, path: &Path) -> Done {
    let target = fs::read_link(path)?;
    Ok(Some(match random.below(5) {
        0 => {
            fs::remove_file(path)?;
            "removed the link"
        }
        1 => {
            fs::remove_file(path)?;
            let mut other = target.into_os_string();
            other.push("x");
            symlink(other, path)?;
            "turned the link"
        }
        2 => {
            fs::remove_file(path)?;
            fs::write(path, b"a file\n")?;
            "put a file in the place of the link"
        }
        3 => {
            lchown(path, Some(12_345), None)?;
            "changed the owner of the link"
        }
        _ => {
            // The same text again: no drift, if its owner was root.
            fs::remove_file(path)?;
            symlink(target, path)?;
            "made anew the link"
        }
    }))
}

fn of_directory(random: &mut Random, path: &Path, mode: u32) -> Done {
    Ok(Some(match random.below(6) {
        0 => {
            let name = std::ffi::OsStr::from_bytes(b"new \xff\n file");
            fs::write(path.join(name), b"new\n")?;
            "put a file into"
        }
        1 => {
            fs::create_dir_all(path.join("new.d"))?;
            "made a directory in"
        }
        2 => {
            fs::set_permissions(path, Permissions::from_mode(mode & 0o7777 ^ 0o1000))?;
            "changed the mode of the directory"
        }
        3 => {
            lchown(path, None, Some(4242))?;
            "changed the group of the directory"
        }
        // Not often: what is in it can have no other drift any more.
        4 if random.below(4) == 0 && fs::read_dir(path)?.count() < 20 => {
            fs::remove_dir_all(path)?;
            "removed all of"
        }
        5 if random.below(4) == 0 && fs::read_dir(path)?.count() < 20 => {
            fs::remove_dir_all(path)?;
            symlink(".", path)?;
            "put a link in the place of the directory"
        }
        _ => return Ok(None),
    }))
}
