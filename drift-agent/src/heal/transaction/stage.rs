//! Before the commit: everything is put beside its place, and can be dropped again.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs::File,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, Mode, OFlags, StatxAttributes, StatxFlags, fsync, openat, statx, unlinkat},
    io::Errno,
};

use crate::{
    declare::{Content, Declared, Target},
    heal::{
        attribute,
        execute::{HealError, directory_for_writing, split, unreachable_parent},
        in_place, other,
        replace::{self, New, temporary_name},
    },
    observe::Host,
    store::{Change, Entry, Journal, Over, Store},
    sync::sync_directory,
};

use super::{Source, Step, TransactionError, may_go_on};

/// What the journal says of a step.
pub(super) fn entry(step: &Step) -> Entry {
    let (path, change) = match step {
        Step::Put {
            declared, source, ..
        } => (&declared.path, change(step.is_in_place(), declared, source)),
        Step::Attributes(declared) => (
            &declared.path,
            Change::Attributes {
                mode: declared.mode,
                uid: declared.uid,
                gid: declared.gid,
            },
        ),
        Step::Remove(path) => (path, Change::Remove),
    };
    Entry {
        path: path.clone(),
        change,
    }
}

fn change(is_in_place: bool, declared: &Declared, source: &Source) -> Change {
    match &declared.target {
        Target::File(content) => {
            let (digest, over) = match source {
                Source::Declared => (content.digest, Over::Anything),
                Source::Fresh => (content.digest, Over::Nothing),
                Source::There(text) => {
                    let new = text.as_new();
                    let over = new.instead_of.map_or(Over::Anything, |digest| Over::Text {
                        digest: digest.to_string(),
                    });
                    (new.digest, over)
                }
            };
            let digest = digest.to_string();
            let alone = in_place::is_alone(content);
            match over {
                Over::Anything if is_in_place => Change::Into {
                    digest,
                    seen: None,
                    alone,
                },
                Over::Text { digest: seen } if is_in_place => Change::Into {
                    digest,
                    seen: Some(seen),
                    alone,
                },
                over => Change::File { digest, over },
            }
        }
        Target::Symlink(_) => Change::Link,
        Target::Directory(_) => Change::Directory,
        Target::Absent => Change::Remove,
    }
}

fn new<'a>(content: &'a Content, source: &'a Source) -> Result<New<'a>, HealError> {
    match source {
        Source::Declared | Source::Fresh => New::of(content),
        Source::There(text) => Ok(text.as_new()),
    }
}

/// Directories that must be made, each after the one it is in.
pub(super) fn missing(host: &Host, steps: &[Step]) -> Vec<PathBuf> {
    let mut missing = BTreeSet::new();
    for step in steps {
        let Step::Put { declared, .. } = step else {
            continue;
        };
        let own = matches!(declared.target, Target::Directory(_));
        let place = if own {
            Some(declared.path.as_path())
        } else {
            declared.path.parent()
        };
        for path in place.into_iter().flat_map(Path::ancestors) {
            let is_there = || !matches!(host.directory(path, OFlags::PATH), Err(Errno::NOENT));
            if missing.contains(path) || is_there() {
                break;
            }
            missing.insert(path.to_owned());
        }
    }
    missing.into_iter().collect()
}

/// What stood there, of which flags were taken away that would keep it from being replaced.
pub(super) type Lifted = Vec<attribute::Lifted>;

/// Files whose syncs are waited for together, at most: each is an open descriptor until then.
const TOGETHER: usize = 64;

/// Syncs that are waited for at the same time: file systems make one commit of their journal of them.
const AT_ONCE: usize = 8;

/// A file that is staged and not synced yet.
type Unsynced<'s> = Vec<(&'s Path, File)>;

/// Syncs all of them. One that fails is not tried again: its pages may be gone.
fn sync(files: &mut Unsynced<'_>) -> Result<(), TransactionError> {
    let files = std::mem::take(files);
    let part = |part: &[(&Path, File)]| {
        part.iter().try_for_each(|(path, file)| {
            fsync(file).map_err(|error| TransactionError::Stage {
                path: (*path).to_owned(),
                source: HealError::at("sync the file")(error),
            })
        })
    };
    let mut parts = files.chunks(files.len().div_ceil(AT_ONCE).max(1));
    let own = parts.next().unwrap_or_default();
    thread::scope(|scope| {
        let mut rest: Vec<&[(&Path, File)]> = Vec::new();
        let mut others = Vec::new();
        for part_of in parts {
            match thread::Builder::new().spawn_scoped(scope, || part(part_of)) {
                Ok(other) => others.push(other),
                // No thread to be had: one after the other.
                Err(_) => rest.push(part_of),
            }
        }
        let mut result = part(own);
        for part_of in rest {
            result = result.and_then(|()| part(part_of));
        }
        for other in others {
            match other.join() {
                Ok(synced) => result = result.and(synced),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    })
}

/// Stages all of it. When it returns, all of it lasts. `stops`: where somebody may say that it is to end.
pub(super) fn all(
    host: &Host,
    stops: Option<&Store>,
    steps: &[Step],
    notes: &mut Vec<String>,
    lifted: &mut Lifted,
) -> Result<(), TransactionError> {
    let removed: BTreeSet<&Path> = steps.iter().filter_map(removes).collect();
    // Directories before what is in them.
    let mut sorted: Vec<&Step> = steps.iter().collect();
    sorted.sort_by_key(|step| step.path());
    let mut places: BTreeMap<&Path, OwnedFd> = BTreeMap::new();
    let mut unsynced = Unsynced::new();
    for step in sorted {
        may_go_on(stops)?;
        let path = step.path();
        let failed = |source| TransactionError::Stage {
            path: path.to_owned(),
            source,
        };
        let (parent, name) = split(path).map_err(failed)?;
        if removes(step).is_some() {
            if let Ok(dir) = host.directory(parent, OFlags::RDONLY) {
                changeable(&dir, &name, None, false).map_err(failed)?;
                if let Step::Put { .. } = step {
                    // Nothing may be there: where something stays, the version has not come.
                    gives_way(&dir, &name, path, &removed).map_err(failed)?;
                }
            }
            continue;
        }
        let dir = match places.remove(parent) {
            Some(dir) => dir,
            None => directory_for_writing(host, parent, notes).map_err(failed)?,
        };
        let staged = one(host, step, &dir, &name, &removed, lifted).map_err(failed)?;
        places.insert(parent, dir);
        unsynced.extend(staged.map(|file| (path, file)));
        if unsynced.len() == TOGETHER {
            sync(&mut unsynced)?;
        }
    }
    sync(&mut unsynced)?;
    for (path, dir) in places {
        sync_directory(&dir).map_err(|error| TransactionError::Stage {
            path: path.to_owned(),
            source: HealError::at("sync the directory")(error),
        })?;
    }
    Ok(())
}

fn removes(step: &Step) -> Option<&Path> {
    match step {
        Step::Put { declared, .. } if declared.target == Target::Absent => Some(&declared.path),
        Step::Remove(path) => Some(path),
        Step::Put { .. } | Step::Attributes(_) => None,
    }
}

/// Returns the file, where it is one.
fn one(
    host: &Host,
    step: &Step,
    dir: &OwnedFd,
    name: &OsString,
    removed: &BTreeSet<&Path>,
    lifted: &mut Lifted,
) -> Result<Option<File>, HealError> {
    let (declared, like, source) = match step {
        Step::Put {
            declared,
            like,
            source,
        } => (declared, like.as_ref(), source),
        Step::Attributes(_) | Step::Remove(_) => {
            return changeable(dir, name, None, false).map(|()| None);
        }
    };
    changeable(dir, name, Some(declared), step.is_in_place())?;
    let staged = match &declared.target {
        Target::Directory(_) => match openat(dir, name, LOOK, Mode::empty()) {
            // Made as it should be; where the version does not come, it goes again.
            Err(Errno::NOENT) => other::directory(host, declared).map(|_| None),
            _ => other::stage_directory(dir, declared).map(|_| None),
        },
        Target::File(content) => {
            gives_way(dir, name, &declared.path, removed)?;
            replace::stage(dir, name, declared, &new(content, source)?, like).map(Some)
        }
        Target::Symlink(target) => {
            gives_way(dir, name, &declared.path, removed)?;
            other::stage_link(dir, declared, target).map(|()| None)
        }
        Target::Absent => Ok(None),
    }?;
    lifted.extend(attribute::lift_named(dir, name, declared)?);
    if let (Some(staged), Target::File(content), true) =
        (&staged, &declared.target, step.is_in_place())
    {
        let stat = staged
            .metadata()
            .map_err(replace::io("look at what was staged"))?;
        in_place::can_take_in(dir, name, content, stat.len())?;
    }
    Ok(staged)
}

const LOOK: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What would only be found after the commit: a mount point, or something that the kernel lets nobody change; but for flags that are declared,
/// and so are ours to take away.
fn changeable(
    dir: &OwnedFd,
    name: &OsStr,
    declared: Option<&Declared>,
    is_in_place: bool,
) -> Result<(), HealError> {
    let ours = declared.is_some_and(|declared| declared.attributes.flags.is_some());
    let held = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
    let look = |name: &OsStr, flags| statx(dir, name, flags, StatxFlags::TYPE);
    match look(name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) && !is_in_place => {
            return Err(HealError::Busy);
        }
        Ok(stat) if !ours && stat.stx_attributes.intersects(held) => {
            return Err(HealError::NotPermitted(Errno::PERM.into()));
        }
        Ok(_) | Err(Errno::NOENT) => {}
        Err(error) => return Err(HealError::at("look at the file")(error)),
    }
    let stat = look(OsStr::new(""), AtFlags::EMPTY_PATH)
        .map_err(HealError::at("look at the directory"))?;
    if stat.stx_attributes.intersects(held) {
        return Err(HealError::NotPermitted(Errno::PERM.into()));
    }
    Ok(())
}

/// A directory gives way when nothing is in it, or nothing that stays.
fn gives_way(
    dir: &OwnedFd,
    name: &OsStr,
    path: &Path,
    removed: &BTreeSet<&Path>,
) -> Result<(), HealError> {
    let Ok(directory) = openat(dir, name, LOOK, Mode::empty()) else {
        return Ok(());
    };
    let step = "look into the directory that stands there";
    for entry in Dir::read_from(&directory).map_err(HealError::at(step))? {
        let entry = entry.map_err(HealError::at(step))?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && !removed.contains(path.join(name).as_path()) {
            return Err(HealError::DirectoryInTheWay);
        }
    }
    Ok(())
}

/// Nothing has been committed: what is staged goes, and the directories that were made for it, where nothing else came into them.
pub(super) fn drop_all(host: &Host, journal: &Journal) -> Result<(), HealError> {
    let mut places = BTreeMap::new();
    for Entry { path, change } in &journal.entries {
        match change {
            Change::File { .. } | Change::Into { .. } | Change::Link | Change::Directory => {}
            Change::Attributes { .. } | Change::Remove => continue,
        }
        let (parent, _) = split(path)?;
        let dir = match host.directory(parent, OFlags::RDONLY) {
            Ok(dir) => dir,
            // It never came to that, or nothing is left of it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(error) => return Err(unreachable_parent(parent, error)),
        };
        if replace::remove(&dir, &temporary_name(path))
            .map_err(HealError::at("remove what was staged"))?
        {
            places.insert(parent, dir);
        }
    }
    for directory in journal.directories.iter().rev() {
        let (parent, name) = split(&directory.path)?;
        let Ok(dir) = host.directory(parent, OFlags::RDONLY) else {
            continue;
        };
        // What a kill has left of a directory under way.
        let temporary = temporary_name(&directory.path);
        replace::remove(&dir, &temporary).map_err(HealError::at("remove what was staged"))?;
        match unlinkat(&dir, &name, AtFlags::REMOVEDIR) {
            Ok(()) => drop(places.insert(parent, dir)),
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            Err(error) => return Err(HealError::at("remove a directory that was made")(error)),
        }
    }
    for dir in places.into_values() {
        match sync_directory(&dir) {
            // The directory itself has gone meanwhile.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(HealError::at("sync the directory")(error)),
        }
    }
    Ok(())
}
