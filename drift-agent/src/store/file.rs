//! Files that healing has put others in the place of, as they were: with owner, times and attributes, and for who has them open. They are moved here, so they have to be
//! on the file system of the state folder. So many, and so much, is kept; the oldest go.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::AsFd,
    path::PathBuf,
    time::SystemTime,
};

use rustix::{
    fs::{AtFlags, FileType, RenameFlags, Stat, renameat_with, statat},
    io::Errno,
};

use super::{Store, folder::Folder};

/// In the state folder. They stay their owners': what is there is not given to the detector.
pub const FILES: &str = "files";

/// Files, and bytes of them on the disk, at most.
const MOST_FILES: usize = 64;
const MOST_BYTES: u64 = 256 << 20;

/// Names that are tried, where several files are moved in the same moment.
const TRIES: u128 = 100;

impl Store {
    /// Moves a regular file here: its name in `dir` is free then. Where it is now; `None`: something else stands there, and stays.
    ///
    /// # Errors
    /// It is where it was. `XDEV`: on another file system. `FBIG`: larger than all that is kept.
    pub fn keep_file(
        &self,
        dir: impl AsFd,
        name: &OsStr,
        now: SystemTime,
    ) -> io::Result<Option<PathBuf>> {
        let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let size = on_disk(&stat);
        if size > MOST_BYTES {
            return Err(Errno::FBIG.into());
        }
        let folder = self.folder.folder(FILES)?;
        let newest = make_room(&folder, size)?;
        let age = now.duration_since(SystemTime::UNIX_EPOCH);
        let now = age.unwrap_or_default().as_nanos();
        // In the order of their names they came, whatever the clock says.
        let first = newest.map_or(now, |newest| now.max(newest + 1));
        for number in first..first + TRIES {
            let kept = format!("{number:020}");
            match renameat_with(&dir, name, &folder, &*kept, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(Some(self.path.join(FILES).join(kept))),
                // Another one came at the same time.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }
}

fn on_disk(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0) * 512
}

/// The oldest go, until one more of this size may come. The number of the newest.
fn make_room(folder: &Folder, size: u64) -> io::Result<Option<u128>> {
    let mut names = folder.names()?;
    names.sort_unstable();
    let newest = names
        .iter()
        .rev()
        .find_map(|name| name.to_str()?.parse().ok());
    let sizes: Vec<(OsString, u64)> = names
        .into_iter()
        .map(|name| {
            let stat = folder.stat(&name)?;
            Ok((name, stat.as_ref().map_or(0, on_disk)))
        })
        .collect::<io::Result<_>>()?;
    let mut bytes: u64 = sizes.iter().map(|(_, size)| size).sum();
    let mut count = sizes.len();
    for (name, freed) in sizes {
        if count < MOST_FILES && bytes + size <= MOST_BYTES {
            break;
        }
        folder.remove_name(&name)?;
        bytes -= freed;
        count -= 1;
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::{MetadataExt, symlink},
    };

    use super::*;
    use crate::store::DEFAULT_QUOTA;

    #[test]
    fn files_are_moved_as_they_are_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, state) = (dir.path().join("tree"), dir.path().join("state"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&state).unwrap();
        let store = Store::open(&state, DEFAULT_QUOTA).unwrap();
        let at = File::open(&tree).unwrap();
        let path = tree.join("file");
        let mut kept = Vec::new();
        for n in 0..MOST_FILES + 2 {
            fs::write(&path, format!("{n}")).unwrap();
            let inode = fs::metadata(&path).unwrap().ino();
            // All in the same moment.
            let place = store
                .keep_file(&at, OsStr::new("file"), SystemTime::UNIX_EPOCH)
                .unwrap()
                .unwrap();
            assert!(!path.exists());
            assert_eq!(fs::metadata(&place).unwrap().ino(), inode);
            assert_eq!(fs::read_to_string(&place).unwrap(), format!("{n}"));
            kept.push(place);
        }
        let there: Vec<bool> = kept.iter().map(|place| place.exists()).collect();
        assert_eq!(there.iter().filter(|there| **there).count(), MOST_FILES);
        assert!(!there[0] && !there[1], "the oldest");
        symlink("nowhere", &path).unwrap();
        let link = store.keep_file(&at, OsStr::new("file"), SystemTime::now());
        assert_eq!(link.unwrap(), None);
        assert!(fs::symlink_metadata(&path).is_ok());
    }
}
