//! Policies in, an immutable [`Snapshot`] of what this node must have out.
//!
//! [`load`] goes the whole way: read the folder, parse, validate, pick the active versions, resolve names and contents. It has no state and
//! keeps nothing: a snapshot is whole and right, or it is [`Rejected`] and the caller keeps what it had. [`look`] says too what the
//! outcome rests on (its [`Basis`]), and [`Changes`] when that is no longer so.

mod accounts;
mod attribute;
mod basis;
mod belongings;
mod beside;
mod body;
mod changed;
mod content;
mod folder;
mod node;
mod rejected;
mod resolve;
mod resolved;
mod through;

pub use accounts::Names;
pub use attribute::{Attribute, Attributes, Expect};
pub use basis::{Basis, Sources};
pub use beside::{Beside, beside};
pub use body::{Body, Form};
pub use changed::Changes;
pub use content::MAX_CONTENTS;
pub use drift_common::policy::{
    AfterHeal, Backoff, Compare, Endpoint, Evidence, Fight, Flags, Globs, Guard, HardLinks, Heed,
    Hold, Holds, MassDrift, Method, Mode, OnRemove, Position, Redact, Severity, Signal, Whom,
    Window, Writing, with_unix_line_ends, without_final_newline,
};
pub use folder::{MAX_BYTES, MAX_FILES};
pub use rejected::Rejected;
pub use through::{Link, Through, places};

use self::{folder::Folder, resolve::Resolve, resolved::Kept};

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fmt,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use drift_common::policy::{self, Document, Lineage, MAX_SIZE, Problems, Source};

use crate::compare::structured::Meaning;

/// A policy's part of the snapshot that is the same for all its files.
#[derive(Debug, PartialEq, Eq)]
pub struct ActivePolicy {
    pub name: String,
    pub version: String,
    /// What the version is: see `PolicyVersion::digest`. A version that has another digest than before is another version under its name.
    pub digest: blake3::Hash,
    pub mode: Mode,
    pub guard: Guard,
    pub evidence: Evidence,
}

/// What a Policy says of changing its version.
#[derive(Debug, PartialEq, Eq)]
pub struct Terms {
    /// The version that it says is active: another one than is, while that is held on this node.
    pub said: String,
    /// Policies that its version needs have a lower one: they are put in place first.
    pub rank: usize,
    pub on_remove: OnRemove,
}

/// What the active versions say about one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Absolute, without `.`, `..`, empty components or a trailing slash. Any bytes but NUL.
    pub path: PathBuf,
    /// `None`: no link may be on its way.
    pub through: Option<Box<Through>>,
    pub policy: Arc<ActivePolicy>,
    pub target: Target,
    /// Permission bits with setuid, setgid and sticky (07777). `None`: left alone.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub attributes: Attributes,
    /// What to do when it drifts.
    pub on_drift: Mode,
    pub severity: Severity,
    /// What makes programs take it in, once it was put back.
    pub after_heal: Vec<AfterHeal>,
    pub at: Position,
}

/// What must be at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    File(Content),
    /// A link that holds exactly this. A text: `a`, `a/` and `./a` are equal as paths, and are three links.
    Symlink(OsString),
    /// Nothing.
    Absent,
    /// A directory; `None`: what is in it is left alone.
    Directory(Option<Exhaustive>),
}

impl Target {
    /// Whether it is written into the file that stands there.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        matches!(self, Self::File(content) if content.write == Writing::InPlace)
    }
}

/// Nothing but what is declared may be in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exhaustive {
    /// Names in it that declared paths begin with, and those that these have for a moment while they are healed.
    pub declared: BTreeSet<OsString>,
    /// Names that may be there all the same.
    pub ignore: Globs,
    /// Healing removes what may not be there.
    pub removes: bool,
}

impl Exhaustive {
    /// Whether a name may be in the directory.
    #[must_use]
    pub fn allows(&self, name: &OsStr) -> bool {
        self.declared.contains(name) || self.ignore.matches(name)
    }
}

/// What a file must hold.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// `None` where only their digest was asked for, and nothing else is compared: see [`Keep`].
    pub bytes: Option<Body>,
    /// How many bytes, where that is known.
    pub size: Option<u64>,
    /// BLAKE3 of the bytes.
    pub digest: blake3::Hash,
    /// BLAKE3 of the bytes without their final line end, where that does not count.
    pub body: Option<blake3::Hash>,
    /// BLAKE3 of the bytes with `\n` for each `\r\n`, where that does not count; without their final line end where that does not count either.
    pub lines: Option<Box<blake3::Hash>>,
    /// Bytes; a file with more is not read, and not as declared.
    pub max_size: u64,
    pub hard_links: HardLinks,
    pub write: Writing,
    pub compare: Compare,
    /// What the bytes say, where they are compared by that.
    pub meaning: Option<Box<Meaning>>,
    pub redact: Redact,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bytes may be secrets.
        match self.size {
            Some(size) => write!(f, "Content({size} bytes, {})", self.digest),
            None => write!(f, "Content({})", self.digest),
        }
    }
}

impl Content {
    /// Whether all of the file is declared, and not only some of its keys.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.meaning
            .as_ref()
            .is_none_or(|meaning| meaning.is_whole())
    }

    /// The bytes, where they are in memory.
    #[must_use]
    pub fn held(&self) -> Option<&Arc<[u8]>> {
        self.bytes.as_ref().and_then(Body::held)
    }

    /// These bytes and nothing else.
    #[must_use]
    pub fn exact(bytes: Arc<[u8]>) -> Self {
        Self {
            digest: blake3::hash(&bytes),
            size: Some(bytes.len() as u64),
            bytes: Some(Body::Held(bytes)),
            body: None,
            lines: None,
            max_size: MAX_SIZE,
            hard_links: HardLinks::default(),
            write: Writing::default(),
            compare: Compare::Exact,
            meaning: None,
            redact: Redact::default(),
        }
    }
}

/// Everything this node must have now. Never changed: a new declaration is a new snapshot, swapped whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Sorted by path, no path twice.
    pub files: Vec<Arc<Declared>>,
    /// Sorted by name. A policy without files is here too.
    pub policies: Vec<Arc<ActivePolicy>>,
    /// For each policy, in the same order.
    pub terms: Vec<Terms>,
}

impl Snapshot {
    /// A policy of this name.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<(&ActivePolicy, &Terms)> {
        let mut both = self.policies.iter().zip(&self.terms);
        both.find(|(policy, _)| policy.name == name)
            .map(|(policy, terms)| (&**policy, terms))
    }
}

/// What of declared contents is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All bytes: what is declared can be written.
    Bytes,
    /// Digests, where these are what is compared. A content that is declared by its digest is not looked for.
    Digests,
}

/// How often the folder is read again when it changed in the meantime.
const ATTEMPTS: usize = 5;

/// Threads that parse policy files, at most.
const MOST_PARSERS: usize = 4;

/// What the policies in `folder` declare. Names of users and groups are those of the host whose root is `host_root`; `mode` overrides what
/// the policies say, and `holds` which versions they are at.
///
/// Blocks on the file system.
///
/// # Errors
/// All that is wrong, as far as it was found. See [`Rejected`].
pub fn load(
    folder: &Path,
    host_root: &Path,
    mode: Option<Mode>,
    holds: &Holds,
) -> Result<Snapshot, Rejected> {
    look(folder, host_root, mode, holds).0
}

/// [`load`], and what its outcome rests on, be it good or bad.
pub fn look(
    folder: &Path,
    host_root: &Path,
    mode: Option<Mode>,
    holds: &Holds,
) -> (Result<Snapshot, Rejected>, Basis) {
    look_beside(folder, host_root, mode, holds, &|_| None)
}

/// Contents by their digests, kept somewhere else than in the policy folder.
pub type Blobs<'b> = &'b dyn Fn(&blake3::Hash) -> Option<Body>;

/// [`look`]; a content that is named by its digest and is not in the folder may be among `blobs`.
pub fn look_beside(
    folder: &Path,
    host_root: &Path,
    mode: Option<Mode>,
    holds: &Holds,
    blobs: Blobs<'_>,
) -> (Result<Snapshot, Rejected>, Basis) {
    settled(folder, Keep::Bytes, |basis| {
        let mut problems = Problems::default();
        let folder = folder::read(basis, &mut problems)?;
        let validate = |documents, problems: &mut _| policy::validate(documents, holds, problems);
        attempt(
            folder,
            problems,
            basis,
            Some(host_root),
            validate,
            |folder, lineages, basis, problems| {
                Resolve::new(folder, host_root, Keep::Bytes, basis, problems)
                    .with_blobs(blobs)
                    .snapshot(lineages, mode)
            },
        )
    })
}

/// [`load`] for who compares and writes nothing: see [`Keep::Digests`]. What is declared is kept in the file `kept`, and is not resolved again while the same is read.
/// It is what the folder says, whatever versions this node is held at.
///
/// # Errors
/// As [`load`].
pub fn load_digests(
    folder: &Path,
    host_root: &Path,
    kept: Option<&Path>,
) -> Result<Snapshot, Rejected> {
    let outcome = settled(folder, Keep::Digests, |basis| {
        let mut problems = Problems::default();
        let (mut folder, kept, bytes) = thread::scope(|scope| {
            // Read and hashed beside the policies.
            let bytes = kept.map(|path| {
                let work = thread::Builder::new().spawn_scoped(scope, move || resolved::read(path));
                (path, work)
            });
            let folder = folder::read(basis, &mut problems)?;
            let texts = folder.texts.iter().map(|(name, text)| (&**name, &text[..]));
            // A file that could not be read is said.
            let kept = kept.filter(|_| problems.is_empty());
            let kept = kept.map(|kept| Kept::of(kept, host_root, texts));
            let bytes = bytes.and_then(|(path, work)| match work {
                Ok(work) => work.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // Where no thread may be started, this one reads.
                Err(_) => resolved::read(path),
            });
            Ok((folder, kept, bytes))
        })?;
        let find = |kept: &Kept<'_>| kept.find(bytes?, basis);
        if let Some(found) = kept.as_ref().and_then(find) {
            // As large as what is found, and not needed beside it.
            folder.texts = Vec::new();
            if let Some(snapshot) = found.snapshot() {
                return Ok(snapshot);
            }
            folder = folder::read(basis, &mut problems)?;
        }
        let names: Vec<_> = folder.texts.iter().map(|(name, _)| name.clone()).collect();
        let snapshot = attempt(
            folder,
            problems,
            basis,
            Some(host_root),
            unheld,
            |folder, lineages, basis, problems| {
                Resolve::new(folder, host_root, Keep::Digests, basis, problems)
                    .snapshot(lineages, None)
            },
        )?;
        if let Some(kept) = kept {
            kept.keep(&snapshot, basis, |path| {
                names.iter().any(|name| **name == *path)
            });
        }
        Ok(snapshot)
    });
    outcome.0
}

/// The versions that the policies say.
fn unheld(documents: Vec<Document>, problems: &mut Problems) -> Option<Vec<Lineage>> {
    policy::validate(documents, &Holds::new(), problems)
}

/// All policies in `folder` with all their versions, whether or not the active ones fit together: for choosing others. Contents are not read.
///
/// # Errors
/// As [`load`].
pub fn lineages(folder: &Path, holds: &Holds) -> Result<Vec<Lineage>, Rejected> {
    let lineages = settled(folder, Keep::Bytes, |basis| {
        let mut problems = Problems::default();
        let folder = folder::read(basis, &mut problems)?;
        let validate = |documents, problems: &mut _| policy::lineages(documents, holds, problems);
        let host = Some(Path::new("/"));
        attempt(
            folder,
            problems,
            basis,
            host,
            validate,
            |_, lineages, _, _| lineages,
        )
    });
    lineages.0
}

/// A policy with all its versions, and what each of them is.
#[derive(Debug)]
pub struct Identified {
    pub lineage: Lineage,
    /// For each version of the lineage, in its order.
    pub versions: Vec<Identity>,
}

/// What a version is.
#[derive(Debug)]
pub struct Identity {
    /// Of each of its files' contents, in their order.
    pub contents: Vec<blake3::Hash>,
    /// See `PolicyVersion::digest`.
    pub digest: blake3::Hash,
}

/// All policies in `folder` with all their versions: what can be said of them on any machine. Users and groups are not looked up.
///
/// Blocks on the file system.
///
/// # Errors
/// As [`load`]; here a content of a version that is not active must be there too.
pub fn identify(folder: &Path) -> Result<Vec<Identified>, Rejected> {
    identified(folder).0
}

/// All files that the policies in `folder` are made of, those of versions that are not active too.
///
/// Blocks on the file system.
pub fn sources(folder: &Path) -> (Result<Sources, Rejected>, Basis) {
    let (outcome, mut basis) = identified(folder);
    (outcome.map(|_| basis.take_sources()), basis)
}

fn identified(folder: &Path) -> (Result<Vec<Identified>, Rejected>, Basis) {
    settled(folder, Keep::Bytes, |basis| {
        let mut problems = Problems::default();
        let folder = folder::read(basis, &mut problems)?;
        attempt(
            folder,
            problems,
            basis,
            None,
            unheld,
            |folder, lineages, basis, problems| {
                Resolve::new(folder, Path::new("/"), Keep::Bytes, basis, problems)
                    .identities(lineages)
            },
        )
    })
}

/// What `attempt` gives for files that did not change meanwhile.
fn settled<T>(
    folder: &Path,
    keep: Keep,
    attempt: impl Fn(&mut Basis) -> Result<T, Rejected>,
) -> (Result<T, Rejected>, Basis) {
    let mut attempts = ATTEMPTS;
    loop {
        let mut basis = Basis::new(folder, keep);
        let outcome = attempt(&mut basis);
        // Half of one state and half of another is neither: files are written one after the other, and a mounted ConfigMap is swapped
        // between two of our reads.
        if basis.holds() {
            return (outcome, basis);
        }
        attempts -= 1;
        if attempts == 0 {
            let folder = folder.to_owned();
            return (Err(Rejected::Changing { folder }), basis);
        }
    }
}

/// Makes of the folder's policies that are valid what `resolve` does; of those that are for the host whose root is `host_root`, if it is about a host.
fn attempt<T>(
    mut folder: Folder,
    mut problems: Problems,
    basis: &mut Basis,
    host_root: Option<&Path>,
    validate: impl FnOnce(Vec<Document>, &mut Problems) -> Option<Vec<Lineage>>,
    resolve: impl FnOnce(&Folder, Vec<Lineage>, &mut Basis, &mut Problems) -> T,
) -> Result<T, Rejected> {
    let sources = folder.sources(&mut problems);
    let mut documents = parse(&sources, &mut problems);
    drop(sources);
    if documents.is_empty() && problems.is_empty() {
        return Err(Rejected::NoPolicies {
            folder: basis.folder().to_owned(),
            files: folder.files,
        });
    }
    if let Some(host_root) = host_root
        && documents.iter().any(node::matters)
    {
        documents = policy::assigned(documents, &node::of_host(host_root, basis));
    }
    validate(documents, &mut problems)
        .and_then(|lineages| {
            let made = resolve(&folder, lineages, basis, &mut problems);
            problems.is_empty().then_some(made)
        })
        .ok_or(Rejected::Invalid {
            problems,
            files: folder.files,
        })
}

/// The documents of all files, in their order. Parsing is most of the work where much is declared: it is shared between threads.
fn parse(sources: &[Arc<Source>], problems: &mut Problems) -> Vec<Document> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(MOST_PARSERS).min(sources.len());
    let next = AtomicUsize::new(0);
    let parsed = || {
        let mut parsed = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(index) else {
                return parsed;
            };
            let mut problems = Problems::default();
            let documents = policy::parse(source, &mut problems);
            parsed.push((index, documents, problems));
        }
    };
    let mut all = thread::scope(|scope| {
        // As many as there may be.
        let others =
            (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, parsed).ok());
        let others: Vec<_> = others.collect();
        let mut all = parsed();
        for other in others {
            match other.join() {
                Ok(parsed) => all.extend(parsed),
                Err(panic) => resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(index, ..)| *index);
    let mut documents = Vec::new();
    for (_, some, its) in all {
        documents.extend(some);
        problems.append(its);
    }
    documents
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
