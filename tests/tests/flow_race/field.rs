//! Where it takes place: what is declared, what must never change, and who attacks.
//!
//! Attackers hold the directories that they mean by descriptors: what is written elsewhere through a swapped name was not they.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Read as _,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result, bail, ensure};
use drift_agent::heal::temporary_name;
use rustix::{
    fs::{
        AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, mkdirat, openat, renameat, renameat_with,
        symlinkat, unlinkat,
    },
    io::Errno,
    mount::{UnmountFlags, mount_bind, unmount},
};
use tempfile::TempDir;

pub const ATTACKERS: usize = 8;

const OWNER: u32 = 7;
const GROUP: u32 = 8;
const MODE: u32 = 0o640;

fn declared() -> String {
    "declared\n".repeat(200)
}

/// What must never change.
#[derive(Debug, PartialEq, Eq)]
struct Victim {
    text: String,
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: (i64, i64),
}

#[derive(Debug)]
pub struct Field {
    folder: TempDir,
    tree: OwnedFd,
    dir: OwnedFd,
    outside: OwnedFd,
    staged: OwnedFd,
    /// The name that a new file has for a moment.
    temporary: PathBuf,
    victims: Vec<(PathBuf, Victim)>,
    fresh: AtomicU64,
}

impl Field {
    pub fn new() -> Result<Field> {
        let folder = tempfile::Builder::new().prefix("drift-race-").tempdir()?;
        let at = |name: &str| folder.path().join(name);
        for name in [
            "policies",
            "tree",
            "tree/dir",
            "tree/calm",
            "tree-2",
            "tree-2/dir",
            "outside",
            "mounted",
            "staged",
        ] {
            fs::create_dir(at(name))?;
        }
        let temporary = PathBuf::from(temporary_name(&at("tree/dir/file")));
        // What a link leads to has the very names that a healer writes.
        for folder in ["outside", "mounted"] {
            for name in [Path::new("file"), Path::new("other"), &temporary] {
                if folder == "outside" || name == Path::new("other") {
                    let victim = at(folder).join(name);
                    fs::write(&victim, format!("{folder} {}\n", name.display()))?;
                    fs::set_permissions(&victim, fs::Permissions::from_mode(0o604))?;
                }
            }
        }
        symlink(at("outside"), at("tree/link"))?;
        symlink(at("outside/file"), at("tree/dir/link"))?;
        fs::write(at("tree/dir/neighbour"), "neighbour\n")?;
        let mut text = "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {activeVersion: 1.0.0, mode: heal}\n\
             ---\napiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {name: p-1}\nspec:\n  policy: p\n  version: 1.0.0\n  files:\n"
            .to_owned();
        for name in ["tree/calm/file", "tree/dir/file"] {
            text += &format!(
                "    - {{path: {}, content: {{inline: {}}}, mode: '{MODE:o}', owner: {OWNER}, group: {GROUP}}}\n",
                at(name).display(),
                serde_json::Value::from(declared())
            );
        }
        fs::write(at("policies/p.yaml"), text)?;
        let open = |name: &str| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat(CWD, at(name), flags, Mode::empty())
        };
        let mut field = Field {
            tree: open("tree")?,
            dir: open("tree/dir")?,
            outside: open("outside")?,
            staged: open("staged")?,
            temporary,
            victims: Vec::new(),
            fresh: AtomicU64::new(0),
            folder,
        };
        let victims = ["outside", "mounted"].map(|name| fs::read_dir(field.at(name)));
        for entry in victims.into_iter().flat_map(Result::into_iter).flatten() {
            let path = entry?.path();
            let victim = victim(&path)?;
            field.victims.push((path, victim));
        }
        ensure!(field.victims.len() == 4);
        Ok(field)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn policies(&self) -> PathBuf {
        self.at("policies")
    }

    pub fn victim(&self) -> PathBuf {
        self.at("outside/file")
    }

    /// One attack. Whether it took place.
    pub fn attack(&self, attacker: usize) -> Result<bool> {
        let number = self.fresh.fetch_add(1, Ordering::Relaxed);
        let fresh = format!("fresh-{attacker}-{number}");
        let swap = |dir: &OwnedFd, one: &str, other: &str| {
            renameat_with(dir, one, dir, other, RenameFlags::EXCHANGE)
        };
        let done = match attacker {
            // The directory becomes a link that leads outside, and comes back.
            0 => swap(&self.tree, "dir", "link").and_then(|()| {
                std::thread::yield_now();
                swap(&self.tree, "dir", "link")
            }),
            // The file becomes one.
            1 => symlinkat(self.at("outside/file"), &self.staged, &*fresh)
                .and_then(|()| renameat(&self.staged, &*fresh, &self.dir, "file")),
            // Something is mounted over the directory: found by its descriptor, not by a name that may be a link.
            2 => {
                let dir = format!("/proc/self/fd/{}", self.dir.as_raw_fd());
                mount_bind(self.at("mounted"), dir).map(|()| {
                    std::thread::yield_now();
                    self.unmount_all();
                })
            }
            // The parents of the directory.
            3 => renameat_with(
                CWD,
                self.at("tree"),
                CWD,
                self.at("tree-2"),
                RenameFlags::EXCHANGE,
            ),
            // The file and one that nobody declares.
            4 => swap(&self.dir, "file", "neighbour"),
            // The temporary name leads outside: a link, another name of a victim, or a directory.
            5 => match number % 3 {
                0 => symlinkat(self.at("outside/file"), &self.dir, &self.temporary),
                1 => linkat(
                    &self.outside,
                    "file",
                    &self.dir,
                    &self.temporary,
                    AtFlags::empty(),
                ),
                _ => mkdirat(&self.dir, &self.temporary, Mode::from_raw_mode(0o777)),
            },
            // The file becomes another name of a victim.
            6 => linkat(
                &self.outside,
                "file",
                &self.staged,
                &*fresh,
                AtFlags::empty(),
            )
            .and_then(|()| renameat(&self.staged, &*fresh, &self.dir, "file")),
            // It becomes something else, with another mode; sometimes it goes.
            7 if number % 5 == 0 => unlinkat(&self.dir, "file", AtFlags::empty()),
            7 => {
                let path = self.at("staged").join(&fresh);
                fs::write(&path, "an attacker's\n")?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
                let calm = number % 2 == 0;
                let calm_dir = calm.then(|| {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                    openat(&self.tree, "calm", flags, Mode::empty())
                });
                let dir = match calm_dir.transpose() {
                    Ok(dir) => dir,
                    Err(_) => return Ok(false),
                };
                renameat(
                    &self.staged,
                    &*fresh,
                    dir.as_ref().unwrap_or(&self.dir),
                    "file",
                )
            }
            _ => bail!("no such attacker"),
        };
        // Left there by a rename that failed, or over another name of the same file.
        let _not_there = unlinkat(&self.staged, &*fresh, AtFlags::empty());
        match done {
            Ok(()) => Ok(true),
            // Another attacker, or a healer, was faster.
            Err(
                Errno::NOENT
                | Errno::EXIST
                | Errno::BUSY
                | Errno::NOTDIR
                | Errno::ISDIR
                | Errno::NOTEMPTY
                | Errno::LOOP
                | Errno::INVAL
                | Errno::STALE
                | Errno::XDEV,
            ) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at what stands at the declared names: what is declared has its owner and mode at any moment. How many were so.
    pub fn look(&self) -> Result<u64> {
        let mut seen = 0;
        for dir in ["tree/dir", "tree/calm"] {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(file) = openat(CWD, self.at(dir).join("file"), flags, Mode::empty()) else {
                continue;
            };
            let mut file = File::from(file);
            let stat = file.metadata()?;
            let mut text = String::new();
            if !stat.is_file() || file.read_to_string(&mut text).is_err() || text != declared() {
                continue;
            }
            let seen_as = (stat.mode() & 0o7777, stat.uid(), stat.gid());
            ensure!(
                seen_as == (MODE, OWNER, GROUP),
                "a healed file was seen with {seen_as:?}"
            );
            seen += 1;
        }
        Ok(seen)
    }

    /// Nothing but what is declared, and what attackers bring, has changed.
    pub fn check(&self) -> Result<()> {
        for (path, before) in &self.victims {
            let now = victim(path).with_context(|| format!("{} was changed", path.display()))?;
            ensure!(
                now == *before,
                "{} was changed: {now:?}, and was {before:?}",
                path.display()
            );
        }
        let temporary = self.temporary.display().to_string();
        let temporary = temporary.as_str();
        let may_be: [(&str, BTreeSet<&str>); 2] = [
            ("outside", ["file", "other", temporary].into()),
            // It is at the declared path while it is mounted there.
            ("mounted", ["file", "other", temporary].into()),
        ];
        for (folder, names) in may_be {
            for entry in fs::read_dir(self.at(folder))? {
                let name = entry?.file_name().display().to_string();
                ensure!(names.contains(&*name), "{folder}/{name} was made");
            }
        }
        Ok(())
    }

    /// What the attackers have swapped is as it was.
    pub fn make_peace(&self) -> Result<()> {
        self.unmount_all();
        let tree = self.at("tree");
        if fs::symlink_metadata(tree.join("link")).is_err() {
            renameat_with(CWD, &tree, CWD, self.at("tree-2"), RenameFlags::EXCHANGE)?;
        }
        if fs::symlink_metadata(tree.join("dir"))?.is_symlink() {
            renameat_with(&self.tree, "dir", &self.tree, "link", RenameFlags::EXCHANGE)?;
        }
        Ok(())
    }

    fn unmount_all(&self) {
        // Wherever the directory is by now.
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        let places = ["tree/dir", "tree-2/dir", "tree/link", "tree-2/link"];
        for _ in 0..100 {
            let is_mounted = |name: &str| unmount(self.at(name), flags).is_ok();
            if !places.into_iter().any(is_mounted) && !self.is_mounted() {
                break;
            }
        }
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        mounts.contains(&self.folder.path().display().to_string())
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        self.unmount_all();
    }
}

fn victim(path: &Path) -> Result<Victim> {
    let stat = fs::symlink_metadata(path)?;
    Ok(Victim {
        text: fs::read_to_string(path)?,
        mode: stat.mode(),
        uid: stat.uid(),
        gid: stat.gid(),
        mtime: (stat.mtime(), stat.mtime_nsec()),
    })
}
