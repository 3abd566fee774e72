//! Where a snapshot is kept until it is known to be right: a hidden folder beside its place, on the same file system, so that its files take their
//! names whole or not at all.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock, syncfs};
use tempfile::TempDir;

use crate::sync::sync_directory;

/// What the folder's name begins with.
const PREFIX: &str = ".snapshot-";

/// The folder beside the policies that holds contents by their digests.
const BLOBS: &str = "blobs";

/// The folder. Gone with its value; what a killed snapshot leaves is removed by the next one.
#[derive(Debug)]
pub struct Stage {
    folder: TempDir,
    /// Held locked: nobody takes this for left over.
    _lock: File,
}

impl Stage {
    /// A new one in `place`, which is there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(place: &Path) -> io::Result<Stage> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        let lock = File::open(folder.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        remove_leftovers(place);
        let stage = Stage {
            folder,
            _lock: lock,
        };
        make_private(&stage.blobs())?;
        Ok(stage)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where blobs go.
    #[must_use]
    pub fn blobs(&self) -> PathBuf {
        self.folder.path().join(BLOBS)
    }

    /// Puts a policy file there. `private`: it says something of secrets, so others may not read it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &OsStr, text: &str, private: bool) -> io::Result<()> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(if private { 0o600 } else { 0o644 })
            .open(self.path().join(name))?
            .write_all(text.as_bytes())
    }

    /// Gives all files their names in `place`: the blobs first, then the policy files from the last to the first, so that no policy is there
    /// without its contents. `replace`: whatever has the name of a policy file goes.
    ///
    /// # Errors
    /// A name is taken, or the file system's. Policy files that have their names by then keep them.
    pub fn install(self, place: &Path, names: &[OsString], replace: bool) -> io::Result<()> {
        // Everything is on the disk before anything has its name.
        syncfs(&self._lock)?;
        let mut blobs = names_in(&self.blobs())?;
        if !blobs.is_empty() {
            let folder = place.join(BLOBS);
            if !folder.is_dir() {
                make_private(&folder)?;
            }
            blobs.sort_unstable();
            for name in &blobs {
                let (from, to) = (self.blobs().join(name), folder.join(name));
                if !holds(&to, name) {
                    fs::rename(from, to)?;
                }
            }
            sync_directory(File::open(&folder)?)?;
        }
        for name in names.iter().rev() {
            let (from, to) = (self.path().join(name), place.join(name));
            if replace {
                fs::rename(from, to)?;
            } else {
                // Fails where the name is taken, which a rename would not.
                fs::hard_link(&from, to)?;
            }
        }
        Ok(sync_directory(File::open(place)?)?)
    }
}

/// A folder that nobody else can look into.
fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name()))
        .collect()
}

/// Whether a blob is there already, and is what its name says.
fn holds(path: &Path, name: &OsStr) -> bool {
    let mut hasher = blake3::Hasher::new();
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
        && File::open(path).is_ok_and(|file| hasher.update_reader(file).is_ok())
        && hasher.finalize().to_hex().as_bytes() == name.as_bytes()
}

/// Removes what snapshots that were killed have left. One that is under way holds its folder locked.
fn remove_leftovers(place: &Path) {
    let names = match names_in(place) {
        Ok(names) => names,
        Err(error) => {
            let place = drift_common::escape::path(place);
            log::warn!(
                "whether an earlier snapshot has left something in {place} cannot be told: {error}"
            );
            return;
        }
    };
    for name in names {
        let path = place.join(&name);
        if !name.as_bytes().starts_with(PREFIX.as_bytes())
            || !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir())
        {
            continue;
        }
        let is_left = File::open(&path)
            .is_ok_and(|folder| flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok());
        if is_left && let Err(error) = fs::remove_dir_all(&path) {
            log::warn!(
                "{} is left over and cannot be removed: {error}",
                path.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names = names_in(folder).unwrap();
        names.sort_unstable();
        names
    }

    #[test]
    fn files_take_their_names_and_nothing_else_is_left() {
        let place = tempfile::tempdir().unwrap();
        let digest = blake3::hash(b"x").to_hex();
        for again in [false, true] {
            let stage = Stage::new(place.path()).unwrap();
            fs::write(stage.blobs().join(&*digest), "x").unwrap();
            stage.write(OsStr::new("a.yaml"), "a", true).unwrap();
            let name: OsString = "a.yaml".into();
            let installed = stage.install(place.path(), std::slice::from_ref(&name), false);
            assert_eq!(installed.is_ok(), !again);
            assert_eq!(names(place.path()), ["a.yaml", "blobs"]);
        }
        let mode = |name: &str| {
            let metadata = fs::metadata(place.path().join(name)).unwrap();
            metadata.permissions().mode() & 0o7777
        };
        assert_eq!((mode("a.yaml"), mode("blobs")), (0o600, 0o700));
        let blob = place.path().join("blobs").join(&*digest);
        assert_eq!(fs::read(&blob).unwrap(), b"x");
        // A blob that does not hold what its name says is replaced.
        fs::write(&blob, "y").unwrap();
        let stage = Stage::new(place.path()).unwrap();
        fs::write(stage.blobs().join(&*digest), "x").unwrap();
        stage.write(OsStr::new("a.yaml"), "b", false).unwrap();
        stage
            .install(place.path(), &["a.yaml".into()], true)
            .unwrap();
        assert_eq!(fs::read(&blob).unwrap(), b"x");
        assert_eq!(fs::read(place.path().join("a.yaml")).unwrap(), b"b");
    }

    #[test]
    fn what_was_left_over_is_removed_and_what_is_under_way_is_not() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join(".snapshot-dead/blobs")).unwrap();
        fs::write(place.path().join(".snapshot-file"), "").unwrap();
        let one = Stage::new(place.path()).unwrap();
        let two = Stage::new(place.path()).unwrap();
        assert!(one.path().is_dir() && two.path().is_dir());
        assert_eq!(names(place.path()).len(), 3);
        drop((one, two));
        assert_eq!(names(place.path()), [".snapshot-file"]);
    }
}
