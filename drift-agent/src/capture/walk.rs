//! Everything beneath some paths, in their order.

mod against;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use drift_common::policy::{
    AbsentSpec, Attributes, Compare, Content, DirectorySpec, Exhaustive, FileSpec, Globs,
    HardLinks, Heed, MAX_CONTENT, OnUnexpected, Redact, Severity, Source, Spanned, SymlinkSpec,
    Through, Writing,
};

use super::{Alone, Base, Compared, Contents, Left, Secret, attribute, base::Print};
use crate::{
    declare::Names,
    observe::{Host, Stat, Taken, Whole, take},
    report::FileType,
};

/// Bytes of a path, at most (`PATH_MAX` without its closing NUL).
const LONGEST_PATH: usize = 4095;

/// Patterns of one exhaustive directory, at most, as the language has it.
const MOST_PATTERNS: usize = 256;

/// What is asked for.
#[derive(Debug)]
pub struct Wanted {
    /// None beneath another.
    pub paths: Vec<Asked>,
    /// Names that are passed by, in whatever directory.
    pub ignored_names: Globs,
    /// Paths that are passed by.
    pub ignored_paths: Globs,
    /// Directories may have nothing in them but what is declared.
    pub exhaustive: bool,
    /// Stay on the file systems that the paths are on.
    pub one_file_system: bool,
    /// The policy folder: a policy that declares itself would never be right.
    pub policies: Option<PathBuf>,
    /// What differs from this tree is declared, and nothing else. Then there is one path.
    pub against: Option<Base>,
}

/// A path that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// As it is declared.
    pub path: PathBuf,
    /// Where it is, as the kernel spells it.
    pub real: PathBuf,
    /// The links on its way. `None`: there are none, and it is where it is declared.
    pub through: Option<Through>,
}

/// The declaration of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    File(FileSpec),
    Link(SymlinkSpec),
    Directory(DirectorySpec),
    Absent(AbsentSpec),
}

/// What was found.
#[derive(Debug, Default)]
pub struct Captured {
    /// By their paths.
    pub entries: Vec<Entry>,
    /// Bytes of all files.
    pub bytes: u64,
    /// What is not in `entries`, and why.
    pub left: Vec<(PathBuf, Left)>,
    /// What was passed by as asked for.
    pub ignored: usize,
    /// Others may not read this: a directory above one of the paths is closed to them, or there are secrets.
    pub private: bool,
    /// Contents that are not for everybody's eyes.
    pub secrets: Vec<(PathBuf, Secret)>,
    /// Attributes that are there and not declared.
    pub alone: Vec<(PathBuf, Alone)>,
    /// Files of which a blob was made.
    pub blobs: Vec<PathBuf>,
    /// Directories and files at which another file system begins.
    pub mounts: Vec<PathBuf>,
    /// Files with several names.
    pub hard_links: Vec<PathBuf>,
    /// Directories that were to be exhaustive and are not, since not everything in them can be named.
    pub open: Vec<PathBuf>,
    /// What the comparison with another tree has come to.
    pub compared: Compared,
    /// Bytes beneath each path that was asked for and each that is in one.
    pub weights: BTreeMap<PathBuf, u64>,
}

/// A place on the way.
struct Step {
    /// Where it is.
    path: PathBuf,
    /// Of the directory it is in; `None`: it was asked for.
    dev: Option<(u32, u32)>,
    /// A directory that was asked for, or is in one, and that this is in, is closed to others.
    closed: bool,
    /// The path that was asked for, or the one beneath it that this is in.
    top: PathBuf,
}

struct Walk<'a> {
    host: &'a Host,
    wanted: &'a Wanted,
    names: &'a Names,
    contents: &'a mut Contents,
    at: Arc<Source>,
    found: Captured,
    /// Names in exhaustive directories that are not declared.
    undeclared: BTreeMap<PathBuf, Vec<OsString>>,
    /// Where there is a tree to compare with: what was met, and whether it is a directory that was looked into.
    met: BTreeMap<PathBuf, bool>,
}

/// Looks at everything. `progress` is called with the number of paths that are done and their bytes.
///
/// Memory: what is found, and the largest file.
///
/// # Errors
/// A blob cannot be written.
pub fn walk(
    host: &Host,
    wanted: &Wanted,
    names: &Names,
    contents: &mut Contents,
    at: &Arc<Source>,
    mut progress: impl FnMut(usize, u64),
) -> io::Result<Captured> {
    let mut walk = Walk {
        host,
        wanted,
        names,
        contents,
        at: at.clone(),
        found: Captured::default(),
        undeclared: BTreeMap::new(),
        met: BTreeMap::new(),
    };
    let steps = wanted.paths.iter().rev();
    let mut steps: Vec<Step> = steps.map(|asked| first(&asked.real)).collect();
    let mut done = 0;
    while let Some(step) = steps.pop() {
        let names = walk.step(&step)?;
        // The first of them is to be the next.
        let beneath = names.into_iter().flat_map(|(dev, closed, names)| {
            let is_top = step.path == step.top;
            let step = &step;
            names.into_iter().rev().map(move |name| {
                let path = step.path.join(name);
                let top = if is_top { &path } else { &step.top };
                Step {
                    top: top.clone(),
                    dev: Some(dev),
                    closed,
                    path,
                }
            })
        });
        steps.extend(beneath);
        done += 1;
        progress(done, walk.found.bytes);
    }
    walk.close();
    walk.deleted();
    walk.found.private = !walk.found.secrets.is_empty()
        || wanted
            .paths
            .iter()
            .any(|asked| is_closed_above(&asked.real));
    Ok(walk.found)
}

/// A path that was asked for.
fn first(path: &Path) -> Step {
    Step {
        path: path.to_owned(),
        dev: None,
        closed: false,
        top: path.to_owned(),
    }
}

/// Whether a directory above `path` is closed to others. That alone makes no secret of what is there: whole homes are closed.
fn is_closed_above(path: &Path) -> bool {
    let is_closed = |dir: &Path| {
        let mode = fs::metadata(dir).map_or(0, |metadata| metadata.permissions().mode());
        mode & 0o001 == 0
    };
    path.ancestors().skip(1).any(is_closed)
}

/// The device of a directory, whether it is closed to others, and the names in it.
type Beneath = ((u32, u32), bool, Vec<OsString>);

impl Walk<'_> {
    /// Looks at one path; where it is a directory, what is to be looked at in it.
    fn step(&mut self, step: &Step) -> io::Result<Option<Beneath>> {
        let Step {
            path,
            dev,
            closed,
            top,
        } = step;
        self.meet(path, false);
        if self.is_ignored(path, dev.is_none()) {
            self.found.ignored += 1;
            self.not_declared(path);
            return Ok(None);
        }
        if self.wanted.policies.as_deref() == Some(path) {
            return Ok(self.leave(path, Left::Policies));
        }
        if path.as_os_str().len() > LONGEST_PATH {
            return Ok(self.leave(path, Left::PathTooLong));
        }
        let Taken {
            whole,
            stat,
            attributes,
        } = take(self.host, path, MAX_CONTENT);
        let Some(stat) = stat else {
            return Ok(self.leave(path, Left::of(&whole, false)));
        };
        if dev.is_some_and(|dev| dev != stat.dev) {
            if self.wanted.one_file_system {
                return Ok(self.leave(path, Left::OtherFileSystem));
            }
            self.found.mounts.push(path.clone());
        }
        let closed = *closed || stat.mode & 0o004 == 0 && stat.file_type != FileType::Symlink;
        let against = self.wanted.against.as_ref();
        let print = against.and_then(|_| Print::of(&whole, &stat, &attributes));
        let is_same = self.is_same(path, print);
        let (attributes, alone) =
            attribute::attributes(&stat, attributes, closed, self.names, |who| {
                self.spanned(who)
            });
        let is_declared = matches!(whole, Whole::File(_) | Whole::Directory(_) | Whole::Link(_));
        if is_declared && is_same {
            self.found.compared.same += 1;
            return Ok(match whole {
                Whole::Directory(names) => {
                    self.meet(path, true);
                    let closed = step.closed || stat.mode & 0o001 == 0;
                    Some((stat.dev, closed, names))
                }
                _ => None,
            });
        }
        if is_declared {
            let alone = alone.into_iter().map(|alone| (path.to_owned(), alone));
            self.found.alone.extend(alone);
        }
        match whole {
            Whole::File(bytes) => {
                self.file(path, &stat, &bytes, closed, attributes)?;
                *self.found.weights.entry(top.clone()).or_default() += bytes.len() as u64;
            }
            Whole::Link(target) => match target.to_str() {
                Some(_) => self.link(path, &stat, target.into(), attributes),
                None => return Ok(self.leave(path, Left::Target)),
            },
            Whole::Directory(names) => {
                self.meet(path, true);
                self.directory(path, &stat, attributes);
                let closed = step.closed || stat.mode & 0o001 == 0;
                return Ok(Some((stat.dev, closed, names)));
            }
            other => {
                let is_directory = stat.file_type == FileType::Directory;
                return Ok(self.leave(path, Left::of(&other, is_directory)));
            }
        }
        Ok(None)
    }

    /// As a path is declared, and the links on its way.
    fn declared(&self, path: &Path) -> (Spanned<PathBuf>, Option<Through>) {
        let way = self.wanted.paths.iter().find_map(|asked| {
            let rest = path.strip_prefix(&asked.real).ok()?;
            let through = asked.through.as_ref()?;
            // Joined with nothing, a path gets a closing slash.
            Some(if rest.as_os_str().is_empty() {
                (asked.path.clone(), through.clone())
            } else {
                (asked.path.join(rest), through.beneath(rest))
            })
        });
        match way {
            Some((path, through)) => (self.spanned(path), Some(through)),
            None => (self.spanned(path.to_owned()), None),
        }
    }

    /// What was named on the command line is meant, whatever patterns there are.
    fn is_ignored(&self, path: &Path, is_asked_for: bool) -> bool {
        let name = path.file_name().unwrap_or(OsStr::new("/"));
        let said = self.declared(path).0.value;
        !is_asked_for
            && (self.wanted.ignored_names.matches(name)
                || self.wanted.ignored_paths.matches(path.as_os_str())
                || self.wanted.ignored_paths.matches(said.as_os_str()))
    }

    fn leave<T>(&mut self, path: &Path, why: Left) -> Option<T> {
        self.found.left.push((path.to_owned(), why));
        self.not_declared(path);
        None
    }

    fn not_declared(&mut self, path: &Path) {
        if self.wanted.exhaustive
            && let (Some(parent), Some(name)) = (path.parent(), path.file_name())
            && !self.wanted.ignored_names.matches(name)
        {
            let names = self.undeclared.entry(parent.to_owned()).or_default();
            names.push(name.to_owned());
        }
    }

    fn spanned<T>(&self, value: T) -> Spanned<T> {
        let at = self.at.start();
        Spanned { value, at }
    }

    fn file(
        &mut self,
        path: &Path,
        stat: &Stat,
        bytes: &[u8],
        closed: bool,
        attributes: Attributes,
    ) -> io::Result<()> {
        let (content, secret) = self.contents.put(bytes, closed)?;
        self.found.bytes += bytes.len() as u64;
        if stat.links > 1 {
            self.found.hard_links.push(path.to_owned());
        }
        if matches!(content, Content::Blob(_)) {
            self.found.blobs.push(path.to_owned());
        }
        self.found
            .secrets
            .extend(secret.map(|secret| (path.to_owned(), secret)));
        let (path, through) = self.declared(path);
        self.found.entries.push(Entry::File(FileSpec {
            path,
            through,
            content: self.spanned(content),
            mode: Some(stat.mode),
            owner: Some(self.spanned(self.names.user(stat.uid))),
            group: Some(self.spanned(self.names.group(stat.gid))),
            attributes,
            on_drift: None,
            severity: Severity::default(),
            redact: Redact::default(),
            max_size: None,
            final_newline: Heed::default(),
            line_endings: Heed::default(),
            // Its other names are as it is.
            hard_links: if stat.links > 1 {
                HardLinks::Allow
            } else {
                HardLinks::default()
            },
            write: Writing::default(),
            compare: self.spanned(Compare::Exact),
            after_heal: Vec::new(),
        }));
        Ok(())
    }

    fn link(&mut self, path: &Path, stat: &Stat, target: PathBuf, attributes: Attributes) {
        let (path, through) = self.declared(path);
        self.found.entries.push(Entry::Link(SymlinkSpec {
            path,
            through,
            target,
            owner: Some(self.spanned(self.names.user(stat.uid))),
            group: Some(self.spanned(self.names.group(stat.gid))),
            attributes,
            on_drift: None,
            severity: Severity::default(),
        }));
    }

    fn directory(&mut self, path: &Path, stat: &Stat, attributes: Attributes) {
        if path == Path::new("/") {
            return; // it cannot be declared, and cannot be missing
        }
        let exhaustive = self.wanted.exhaustive.then(Exhaustive::default);
        let (path, through) = self.declared(path);
        self.found.entries.push(Entry::Directory(DirectorySpec {
            path,
            through,
            mode: Some(stat.mode),
            owner: Some(self.spanned(self.names.user(stat.uid))),
            group: Some(self.spanned(self.names.group(stat.gid))),
            attributes,
            exhaustive,
            on_drift: None,
            severity: Severity::default(),
        }));
    }

    /// Exhaustive directories may hold what could not be declared.
    fn close(&mut self) {
        for entry in &mut self.found.entries {
            let Entry::Directory(directory) = entry else {
                continue;
            };
            if directory.exhaustive.is_none() {
                continue;
            }
            let declared = &directory.path.value;
            let path = directory
                .through
                .as_ref()
                .map_or(&**declared, Through::real);
            let names = self.undeclared.remove(path).unwrap_or_default();
            directory.exhaustive = exhaustive(&self.wanted.ignored_names, &names);
            if directory.exhaustive.is_none() {
                self.found.open.push(path.to_owned());
            }
        }
    }
}

/// `None`: there are no patterns for all of `names`.
fn exhaustive(ignored: &Globs, names: &[OsString]) -> Option<Exhaustive> {
    let mut patterns = ignored.patterns().to_vec();
    for name in names {
        patterns.push(Globs::literal(name)?);
    }
    if patterns.len() > MOST_PATTERNS {
        return None;
    }
    Some(Exhaustive {
        ignore: Globs::new(patterns).ok()?,
        on_unexpected: OnUnexpected::Report,
    })
}

impl Entry {
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::File(file) => &file.path.value,
            Self::Link(link) => &link.path.value,
            Self::Directory(directory) => &directory.path.value,
            Self::Absent(absent) => &absent.path.value,
        }
    }
}
