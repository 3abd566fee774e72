//! What a check leaves for the next one, in the user's cache folder. Without it everything is read, and nothing else is different.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use log::info;
use rustix::process::geteuid;

use super::{Fate, Told};
use crate::{
    declare::Declared,
    kept::Unusable,
    observe::{Row, Seen},
};

/// Policy folders of which something is kept: what was written longest ago goes.
const MOST_FOLDERS: usize = 32;

const SEEN: &str = "seen";
const DECLARED: &str = "declared";

/// Of one policy folder.
#[derive(Debug)]
pub(super) struct Cache {
    /// Its files, but for their extension. `None` where nothing can be kept.
    stem: Option<PathBuf>,
}

impl Cache {
    /// In `folder`, or where the user keeps such things.
    pub(super) fn of(policies: &Path, folder: Option<PathBuf>) -> Cache {
        let folder = folder.or_else(default_folder);
        let usable = folder.and_then(|folder| match usable(&folder) {
            Ok(()) => Some(folder),
            Err(error) => {
                info!(
                    "nothing is kept for the next check in {}: {error}",
                    folder.display()
                );
                None
            }
        });
        let policies = fs::canonicalize(policies).unwrap_or_else(|_| policies.to_owned());
        let name = blake3::hash(policies.as_os_str().as_bytes()).to_hex();
        let stem = usable.map(|folder| folder.join(&name[..32]));
        Cache { stem }
    }

    fn file(&self, extension: &str) -> Option<PathBuf> {
        self.stem
            .as_ref()
            .map(|stem| stem.with_extension(extension))
    }

    /// Where what is declared is kept.
    pub(super) fn declared(&self) -> Option<PathBuf> {
        self.file(DECLARED)
    }

    /// What the last check saw; nothing where that is not known.
    pub(super) fn seen(&self) -> Seen {
        let Some(path) = self.file(SEEN) else {
            return Seen::default();
        };
        Seen::read(&path).unwrap_or_else(|why| {
            if !matches!(why, Unusable::Absent) {
                info!("everything is read, {} is of no use: {why}", path.display());
            }
            Seen::default()
        })
    }

    /// Keeps what was seen now. `told` are those of `files` of which there is something to tell, by their number.
    pub(super) fn keep(&self, files: &[Arc<Declared>], seen: &Seen, told: &[(usize, Told)]) {
        let Some(path) = self.file(SEEN) else {
            return;
        };
        // Each that was not read again has a row.
        let is_fresh = |(_, told): &(usize, Told)| !matches!(told.fate, Fate::AsSeen);
        if seen.len() == files.len() && !told.iter().any(is_fresh) {
            return;
        }
        if rows(files, seen, told).eq(seen.rows()) {
            return;
        }
        if let Err(error) = Seen::write(&path, rows(files, seen, told)) {
            info!("{} cannot be written: {error}", path.display());
        }
        if let Some(folder) = path.parent() {
            remove_oldest(folder);
        }
    }
}

/// What is known of each path now.
fn rows<'f>(
    files: &'f [Arc<Declared>],
    seen: &'f Seen,
    told: &'f [(usize, Told)],
) -> impl Iterator<Item = (&'f Path, Row)> {
    let mut told = told.iter().peekable();
    let mut next = 0;
    files
        .iter()
        .enumerate()
        .filter_map(move |(index, declared)| {
            let told = told.next_if(|(at, _)| *at == index);
            let path = declared.path.as_path();
            let row = match told.map(|(_, told)| &told.fate) {
                None | Some(Fate::AsSeen) => seen.row(path, &mut next),
                Some(Fate::Known(row)) => Some(*row),
                Some(Fate::Unknown) => None,
            };
            row.map(|row| (path, row))
        })
}

fn default_folder() -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = match set("XDG_CACHE_HOME") {
        Some(base) => base,
        None if geteuid().is_root() => "/var/cache".into(),
        None => set("HOME")?.join(".cache"),
    };
    Some(base.join("drift-agent"))
}

/// Makes it where it is not there. It must be this user's alone: others could put something there that was never seen.
fn usable(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let metadata = fs::metadata(folder)?;
    if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("others than this user can write there"));
    }
    Ok(())
}

fn remove_oldest(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut kept: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| {
            let path = entry.path();
            [SEEN, DECLARED]
                .iter()
                .any(|is| path.extension() == Some(OsStr::new(is)))
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    kept.sort_unstable();
    for (_, path) in kept.iter().rev().skip(2 * MOST_FOLDERS) {
        if let Err(error) = fs::remove_file(path) {
            info!("{} cannot be removed: {error}", path.display());
        }
    }
}
