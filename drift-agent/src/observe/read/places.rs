//! Where declared paths are: on which file system, and which directory of it.
//!
//! The place of a path is taken when the path is looked at for the first time after it was declared, and kept. What is mounted over the path, or over a directory on
//! the way to it, after that makes the path lead elsewhere: that is drift (`relocated`), and nothing is written there. See docs/adr/0012.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::BorrowedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use drift_common::escape;
use log::warn;
use rustix::fs::{AtFlags, StatxFlags, statx};
use serde::{Deserialize, Serialize};

use super::mounts::{Mount, Mounts};
use crate::{
    kept::{self, Unusable},
    store::path_form,
};

/// What the file of places begins with.
const HEAD: &kept::Head = b"drift places 1\0\0";

/// A directory, or a file that is mounted by itself, of a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    fs_type: String,
    #[serde(with = "path_form")]
    source: PathBuf,
    /// Counts until the machine starts anew: many file systems have another number then.
    dev: Option<(u32, u32)>,
    #[serde(with = "path_form")]
    within: PathBuf,
}

/// The place of one declared path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPlace {
    /// Which declaration it was taken for.
    tag: String,
    /// Of the directory that the path is in.
    way: Place,
    /// Of what is mounted on the path itself.
    own: Option<Place>,
}

/// What is kept of a [`PathPlace`] beside its tag: what is the same for all that is in one directory is there once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    way: Arc<Place>,
    own: Option<Box<Place>>,
}

/// A declared path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Of its declaration.
    tag: Arc<str>,
    kept: Option<Kept>,
}

#[derive(Debug, Default)]
struct State {
    declared: BTreeMap<Box<Path>, Entry>,
    /// The places of the directories that declared paths with a place are in.
    ways: HashMap<Box<Path>, Arc<Place>>,
    /// What an earlier run, or another process, has kept: until something is declared.
    resumed: HashMap<Box<Path>, PathPlace>,
    /// Not written yet.
    changed: bool,
}

impl State {
    fn kept(&self, path: &Path) -> Option<&Kept> {
        self.declared.get(path)?.kept.as_ref()
    }

    /// Where a directory must be: one that something declared is in, or a declared path, should it be one.
    fn way(&self, path: &Path) -> Option<Place> {
        if let Some(way) = self.ways.get(path) {
            return Some(Place::clone(way));
        }
        let Kept { way, own } = self.kept(path)?;
        match own {
            Some(own) => Some(Place::clone(own)),
            None => Some(way.in_it(path.file_name()?)),
        }
    }

    /// Gives a declared path its place.
    fn take(&mut self, path: &Path, way: Arc<Place>, own: Option<Box<Place>>) {
        let (Some(entry), Some(above)) = (self.declared.get_mut(path), path.parent()) else {
            return;
        };
        let way = match self.ways.get(above) {
            Some(known) if *known == way => Arc::clone(known),
            _ => {
                self.ways.insert(above.into(), Arc::clone(&way));
                way
            }
        };
        entry.kept = Some(Kept { way, own });
    }
}

/// The places of declared paths beneath one root.
#[derive(Debug)]
pub struct Places {
    mounts: Mutex<Mounts>,
    /// The same table, for who wants to know what has changed.
    watched: Mutex<Mounts>,
    state: Mutex<State>,
    /// The file of places is being written.
    keeping: Mutex<()>,
}

impl Places {
    /// # Errors
    /// The table of mounts cannot be read.
    pub fn of(root: &Path) -> io::Result<Places> {
        Ok(Places {
            mounts: Mutex::new(Mounts::of(root)?),
            watched: Mutex::new(Mounts::of(root)?),
            state: Mutex::default(),
            keeping: Mutex::default(),
        })
    }

    /// The table of mounts, to be waited for.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn table(&self) -> io::Result<fs::File> {
        lock(&self.watched).again()
    }

    /// Where something was mounted, or unmounted, since this was asked last.
    pub fn changes(&self) -> Vec<PathBuf> {
        match lock(&self.watched).changes() {
            Ok(changes) => changes,
            Err(error) => {
                warn!("the table of mounts cannot be read ({error}): all of it is looked at");
                vec![PathBuf::from("/")]
            }
        }
    }

    /// From now on these paths are declared, each with a tag that is another when it is declared anew: then it gets another place.
    pub fn declare<'p>(&self, paths: impl Iterator<Item = (&'p Path, Arc<str>)>) {
        let mut state = lock(&self.state);
        let mut before = std::mem::take(&mut state.declared);
        let mut resumed = std::mem::take(&mut state.resumed);
        state.ways.clear();
        for (path, tag) in paths {
            let twice = state.declared.get(path);
            if twice.is_some_and(|entry| entry.tag == tag) {
                continue;
            }
            let known = before.remove(path).filter(|entry| entry.tag == tag);
            let resumed = resumed.remove(path).filter(|place| *place.tag == *tag);
            let entry = Entry { tag, kept: None };
            state.declared.insert(path.into(), entry);
            if let Some(Kept { way, own }) = known.and_then(|entry| entry.kept) {
                state.take(path, way, own);
            } else if let Some(PathPlace { way, own, .. }) = resumed {
                state.take(path, way.into(), own.map(Box::new));
            }
        }
    }

    /// The place of a declared path, if it has one.
    pub fn of_path(&self, path: &Path) -> Option<PathPlace> {
        let state = lock(&self.state);
        let Entry { tag, kept } = state.declared.get(path)?;
        let Kept { way, own } = kept.as_ref()?;
        Some(PathPlace {
            tag: tag.as_ref().to_owned(),
            way: Place::clone(way),
            own: own.as_deref().cloned(),
        })
    }

    /// This is the place that another process has found for a declared path. False: here it has another one.
    pub fn expect(&self, path: &Path, place: PathPlace) -> bool {
        let mut state = lock(&self.state);
        if let Some(known) = state.kept(path) {
            let own = match (known.own.as_deref(), &place.own) {
                (Some(known), Some(place)) => known.is_same(place),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            return own && known.way.is_same(&place.way);
        }
        let declared = state.declared.get(path);
        if declared.is_some_and(|entry| *entry.tag == *place.tag) {
            state.take(path, place.way.into(), place.own.map(Box::new));
        }
        true
    }

    /// Whether a directory, just opened, is where it was when what is in it was declared. Directories of which nothing is declared are where they are.
    pub(super) fn is_in_place(&self, path: &Path, opened: BorrowedFd<'_>) -> bool {
        let Some(way) = lock(&self.state).way(path) else {
            return true;
        };
        // What cannot be told is no reason to leave a path alone: it is on this kernel for ever.
        self.now(path, opened, None)
            .is_none_or(|(now, _)| now.is_same(&way))
    }

    /// Whether a directory that is not there would be where it was, if it were made in the nearest directory above it, which is open.
    pub(super) fn would_be_in_place(&self, path: &Path, above: BorrowedFd<'_>) -> bool {
        let Some(way) = lock(&self.state).way(path) else {
            return true;
        };
        self.now(path, above, None)
            .is_none_or(|(now, _)| now.is_same(&way))
    }

    /// Whether it is known where this directory must be.
    pub(super) fn has_way(&self, path: &Path) -> bool {
        let state = lock(&self.state);
        state.ways.contains_key(path) || state.kept(path).is_some()
    }

    /// Whether what stands at a declared path, in a directory that is in its place, is not mounted there by itself, or was already. Taken is its place, if it
    /// has none.
    pub(super) fn is_own(&self, path: &Path, parent: BorrowedFd<'_>, name: &OsStr) -> bool {
        let Some(above) = path.parent() else {
            return true;
        };
        let Some((way, way_id)) = self.now(above, parent, None) else {
            return true;
        };
        let own = mount_id(parent, Some(name))
            .filter(|id| *id != way_id)
            .and_then(|id| self.place(path, id));
        let mut state = lock(&self.state);
        if let Some(kept) = state.kept(path) {
            return match (&own, kept.own.as_deref()) {
                (Some(now), Some(then)) => now.is_same(then),
                (None, None) => true,
                // The file itself, bound over it, is still that file.
                (Some(now), None) => now.is_in(&way, name),
                (None, Some(_)) => false,
            };
        }
        if state.declared.contains_key(path) {
            state.take(path, way.into(), own.map(Box::new));
            state.changed = true;
        }
        true
    }

    /// What hides the declared place of a path, for people.
    pub fn told(&self, path: &Path) -> Option<String> {
        let above = path.parent()?;
        let kept = lock(&self.state).kept(path).cloned()?;
        let mut mounts = lock(&self.mounts);
        // The innermost mount on the way is the one that is seen.
        mounts.get(0).ok()?;
        let on_top = mounts.innermost(path)?;
        let shown = escape::path(&on_top.point);
        let what = describe(on_top);
        let place = kept.own.as_deref().unwrap_or(&kept.way);
        let name = path.strip_prefix(above).ok()?;
        let within = match &kept.own {
            Some(own) => own.within.clone(),
            None => kept.way.within.join(name),
        };
        Some(format!(
            "it leads into {what}, mounted on {shown}; what was declared is {} of {} ({})",
            escape::path(&within),
            place.fs_type,
            escape::path(&place.source)
        ))
    }

    /// Where a directory that is open is now.
    fn now(&self, path: &Path, dir: BorrowedFd<'_>, name: Option<&OsStr>) -> Option<(Place, u64)> {
        let id = mount_id(dir, name)?;
        Some((self.place(path, id)?, id))
    }

    fn place(&self, path: &Path, id: u64) -> Option<Place> {
        let mut mounts = lock(&self.mounts);
        match mounts.get(id) {
            Ok(Some(mount)) => Some(Place {
                fs_type: mount.fs_type.clone(),
                source: mount.source.clone().into(),
                dev: Some(mount.dev),
                within: mount.within(path),
            }),
            Ok(None) => None,
            Err(error) => {
                warn!("the table of mounts cannot be read: {error}");
                None
            }
        }
    }
}

impl Place {
    fn is_same(&self, other: &Place) -> bool {
        let devices = match (self.dev, other.dev) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        devices
            && (&self.fs_type, &self.source, &self.within)
                == (&other.fs_type, &other.source, &other.within)
    }

    /// Whether it is what has that name in a directory.
    fn is_in(&self, way: &Place, name: &OsStr) -> bool {
        self.is_same(&way.in_it(name))
    }

    fn in_it(&self, name: &OsStr) -> Place {
        Place {
            within: self.within.join(name),
            ..self.clone()
        }
    }
}

fn describe(mount: &Mount) -> String {
    let source = escape::bytes(mount.source.as_bytes());
    if mount.root == Path::new("/") {
        format!("{} ({source})", mount.fs_type)
    } else {
        let root = escape::path(&mount.root);
        format!("{root} of {} ({source})", mount.fs_type)
    }
}

/// The number of the mount in which something is; `None` where the kernel does not say.
fn mount_id(dir: BorrowedFd<'_>, name: Option<&OsStr>) -> Option<u64> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    let name = name.unwrap_or(OsStr::new(""));
    let statx = statx(dir, name, flags, StatxFlags::MNT_ID).ok()?;
    let said = statx.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    said.then_some(statx.stx_mnt_id)
}

/// A panic while one is held leaves what it holds as good as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which start of the machine this is.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// What ends each field of the file.
const END: u8 = 0;
/// Fields of one place, and of one path.
const PLACE: usize = 4;
const ROW: usize = 2 + 2 * PLACE;

impl Places {
    /// Takes up the places that an earlier run, or another process, has kept, of paths that have none here. Those of paths that are declared anew are
    /// forgotten by [`Places::declare`].
    ///
    /// # Errors
    /// There are none, or they are not to be believed.
    pub fn resume(&self, path: &Path) -> Result<(), Unusable> {
        let bytes = kept::read(path, HEAD)?;
        let mut fields = bytes[HEAD.len()..].split(|byte| *byte == END);
        let same_boot = fields.next() == Some(boot().as_bytes());
        let fields: Vec<&[u8]> = fields.collect();
        let rows = fields.chunks_exact(ROW);
        let mut state = lock(&self.state);
        for row in rows {
            let place = |from: usize| {
                let fields: &[&[u8]; PLACE] = row.get(from..)?.first_chunk()?;
                let [fs_type, source, dev, within] = fields;
                let dev = std::str::from_utf8(dev).ok()?.split_once(':')?;
                Some(Place {
                    fs_type: String::from_utf8(fs_type.to_vec()).ok()?,
                    source: OsString::from_vec(source.to_vec()).into(),
                    dev: (dev.0.parse().ok().zip(dev.1.parse().ok())).filter(|_| same_boot),
                    within: PathBuf::from(OsString::from_vec(within.to_vec())),
                })
            };
            let (Some(way), Ok(tag)) = (place(2), String::from_utf8(row[1].to_vec())) else {
                return Err(Unusable::Damaged);
            };
            let own = place(2 + PLACE).filter(|own| !own.fs_type.is_empty());
            let path = PathBuf::from(OsString::from_vec(row[0].to_vec()));
            let place = PathPlace { tag, way, own };
            state.resumed.insert(path.into(), place);
        }
        Ok(())
    }

    /// Keeps them for the next run, if there are others than before.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn keep(&self, path: &Path) -> io::Result<()> {
        let _keeping = lock(&self.keeping);
        let rows = {
            let mut state = lock(&self.state);
            if !std::mem::take(&mut state.changed) {
                return Ok(());
            }
            state.declared.clone()
        };
        let none = Place {
            fs_type: String::new(),
            source: PathBuf::new(),
            dev: None,
            within: PathBuf::new(),
        };
        kept::replace(path, HEAD, |out| {
            let mut field = |bytes: &[u8]| {
                out.write_all(bytes)?;
                out.write_all(&[END])
            };
            field(boot().as_bytes())?;
            for (path, Entry { tag, kept }) in &rows {
                let Some(Kept { way, own }) = kept else {
                    continue;
                };
                field(path.as_os_str().as_bytes())?;
                field(tag.as_bytes())?;
                for place in [&**way, own.as_deref().unwrap_or(&none)] {
                    let (major, minor) = place.dev.unwrap_or_default();
                    field(place.fs_type.as_bytes())?;
                    field(place.source.as_os_str().as_bytes())?;
                    field(format!("{major}:{minor}").as_bytes())?;
                    field(place.within.as_os_str().as_bytes())?;
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dev: Option<(u32, u32)>, within: &str) -> Place {
        Place {
            fs_type: "ext4".into(),
            source: "/dev/vda".into(),
            dev,
            within: within.into(),
        }
    }

    #[test]
    fn a_place_is_a_directory_of_a_file_system_and_its_device_counts_within_one_start() {
        let here = place(Some((8, 1)), "/etc");
        assert!(here.is_same(&place(Some((8, 1)), "/etc")));
        assert!(here.is_same(&place(None, "/etc")));
        assert!(!here.is_same(&place(Some((8, 2)), "/etc")));
        assert!(!here.is_same(&place(None, "/")));
        assert!(place(None, "/etc/f").is_in(&here, OsStr::new("f")));
        assert!(!place(None, "/srv/f").is_in(&here, OsStr::new("f")));
    }

    #[test]
    fn places_are_taken_kept_and_forgotten_with_their_declaration() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, file) = (folder.path().join("d"), folder.path().join("places"));
        fs::create_dir(&dir).unwrap();
        let path = dir.join("f");
        let declared = |tag: &str| std::iter::once((&*path, tag.into()));
        let opened = fs::File::open(&dir).unwrap();
        let fd = std::os::fd::AsFd::as_fd(&opened);
        let places = Places::of(Path::new("/")).unwrap();
        places.declare(declared("1"));
        assert!(places.is_own(&path, fd, OsStr::new("f")));
        assert!(places.is_in_place(&dir, fd));
        places.keep(&file).unwrap();

        let other = Places::of(Path::new("/")).unwrap();
        other.declare(declared("1"));
        let place = places.of_path(&path).unwrap();
        assert!(other.expect(&path, place.clone()));
        assert!(other.is_in_place(&dir, fd));
        let mut elsewhere = place;
        elsewhere.way.within = "/elsewhere".into();
        assert!(!other.expect(&path, elsewhere));

        let again = Places::of(Path::new("/")).unwrap();
        again.resume(&file).unwrap();
        again.declare(declared("1"));
        assert_eq!(lock(&again.state).declared, lock(&places.state).declared);
        assert!(again.is_in_place(&dir, fd));
        // What was declared there is elsewhere now.
        for entry in lock(&again.state).declared.values_mut() {
            let kept = entry.kept.as_mut().unwrap();
            Arc::make_mut(&mut kept.way).within = "/elsewhere".into();
        }
        again.declare(declared("1"));
        assert!(!again.is_in_place(&dir, fd));
        again.declare(declared("2"));
        assert!(again.is_in_place(&dir, fd), "declared anew");
        assert_eq!(again.of_path(&path), None);
        again.resume(&file).unwrap();
        again.declare(declared("2"));
        assert_eq!(
            again.of_path(&path),
            None,
            "that was of another declaration"
        );
    }

    #[test]
    fn a_declared_directory_has_its_own_place_and_what_is_in_one_directory_shares_that() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, top) = (folder.path().join("d"), folder.path());
        fs::create_dir(&dir).unwrap();
        let paths = [dir.clone(), top.join("f"), top.join("g")];
        let opened = fs::File::open(top).unwrap();
        let fd = std::os::fd::AsFd::as_fd(&opened);
        let places = Places::of(Path::new("/")).unwrap();
        places.declare(paths.iter().map(|path| (&**path, "1".into())));
        assert!(!places.has_way(&dir), "it was not looked at");
        for path in &paths {
            assert!(places.is_own(path, fd, path.file_name().unwrap()));
        }
        assert!(places.has_way(&dir) && places.has_way(top));
        let within = fs::File::open(&dir).unwrap();
        assert!(places.is_in_place(&dir, std::os::fd::AsFd::as_fd(&within)));
        let state = lock(&places.state);
        let way = &state.ways[top];
        assert_eq!(state.ways.len(), 1);
        let ways = state.declared.values().map(|entry| entry.kept.as_ref());
        for kept in ways {
            assert!(Arc::ptr_eq(&kept.unwrap().way, way));
        }
    }
}
