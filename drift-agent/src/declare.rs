//! Policies in, an immutable [`Snapshot`] of what this node must have out.
//!
//! [`load`] goes the whole way: read the folder, parse, validate, pick the active versions, resolve names and contents. It has no state and
//! keeps nothing: a snapshot is whole and right, or it is [`Rejected`] and the caller keeps what it had. [`look`] says too what the
//! outcome rests on (its [`Basis`]), and [`Changes`] when that is no longer so.

mod accounts;
mod attribute;
mod basis;
mod beside;
mod changed;
mod content;
mod folder;
mod rejected;
mod resolve;
mod through;

pub use accounts::Names;
pub use attribute::{Attribute, Attributes, Expect};
pub use basis::{Basis, Sources};
pub use beside::{Beside, beside};
pub use changed::Changes;
pub use content::MAX_CONTENTS;
pub use drift_common::policy::{
    Backoff, Compare, Fight, FinalNewline, Flags, Globs, Guard, HardLinks, MassDrift, Mode,
    Position, Redact, Severity, without_final_newline,
};
pub use folder::{MAX_BYTES, MAX_FILES};
pub use rejected::Rejected;
pub use through::{Link, Through};

use self::{folder::Folder, resolve::Resolve};

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use drift_common::policy::{self, Lineage, MAX_SIZE, Problems};

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
}

/// What the active versions say about one path.
#[derive(Debug, PartialEq, Eq)]
pub struct Declared {
    /// Absolute, without `.`, `..`, empty components or a trailing slash. Any bytes but NUL.
    pub path: PathBuf,
    /// `None`: no link may be on its way.
    pub through: Option<Through>,
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
    pub at: Position,
}

/// What must be at a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    File(Content),
    /// A link that holds exactly this. A text: `a`, `a/` and `./a` are equal as paths, and are three links.
    Symlink(OsString),
    /// Nothing.
    Absent,
    /// A directory; `None`: what is in it is left alone.
    Directory(Option<Exhaustive>),
}

/// Nothing but what is declared may be in a directory.
#[derive(Debug, Default, PartialEq, Eq)]
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
#[derive(PartialEq, Eq)]
pub struct Content {
    pub bytes: Arc<[u8]>,
    /// BLAKE3 of `bytes`.
    pub digest: blake3::Hash,
    /// BLAKE3 of `bytes` without their final line end, where that does not count.
    pub body: Option<blake3::Hash>,
    /// Bytes; a file with more is not read, and not as declared.
    pub max_size: u64,
    pub hard_links: HardLinks,
    pub compare: Compare,
    /// What the bytes say, where they are compared by that.
    pub meaning: Option<Meaning>,
    pub redact: Redact,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bytes may be secrets.
        write!(f, "Content({} bytes, {})", self.bytes.len(), self.digest)
    }
}

impl Content {
    /// Whether all of the file is declared, and not only some of its keys.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.meaning.as_ref().is_none_or(Meaning::is_whole)
    }

    /// These bytes and nothing else.
    #[must_use]
    pub fn exact(bytes: Arc<[u8]>) -> Self {
        Self {
            digest: blake3::hash(&bytes),
            bytes,
            body: None,
            max_size: MAX_SIZE,
            hard_links: HardLinks::default(),
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
}

/// How often the folder is read again when it changed in the meantime.
const ATTEMPTS: usize = 5;

/// What the policies in `folder` declare. Names of users and groups are those of the host whose root is `host_root`; `mode` overrides what
/// the policies say.
///
/// Blocks on the file system.
///
/// # Errors
/// All that is wrong, as far as it was found. See [`Rejected`].
pub fn load(folder: &Path, host_root: &Path, mode: Option<Mode>) -> Result<Snapshot, Rejected> {
    look(folder, host_root, mode).0
}

/// [`load`], and what its outcome rests on, be it good or bad.
pub fn look(
    folder: &Path,
    host_root: &Path,
    mode: Option<Mode>,
) -> (Result<Snapshot, Rejected>, Basis) {
    look_beside(folder, host_root, mode, &|_| None)
}

/// Contents by their digests, kept somewhere else than in the policy folder.
pub type Blobs<'b> = &'b dyn Fn(&blake3::Hash) -> Option<Vec<u8>>;

/// [`look`]; a content that is named by its digest and is not in the folder may be among `blobs`.
pub fn look_beside(
    folder: &Path,
    host_root: &Path,
    mode: Option<Mode>,
    blobs: Blobs<'_>,
) -> (Result<Snapshot, Rejected>, Basis) {
    settled(folder, |basis| {
        attempt(basis, |folder, lineages, basis, problems| {
            Resolve::new(folder, host_root, basis, problems)
                .with_blobs(blobs)
                .snapshot(&lineages, mode)
        })
    })
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
    let identified = settled(folder, |basis| {
        attempt(basis, |folder, lineages, basis, problems| {
            Resolve::new(folder, Path::new("/"), basis, problems).identities(lineages)
        })
    });
    identified.0
}

/// What `attempt` gives for files that did not change meanwhile.
fn settled<T>(
    folder: &Path,
    attempt: impl Fn(&mut Basis) -> Result<T, Rejected>,
) -> (Result<T, Rejected>, Basis) {
    let mut attempts = ATTEMPTS;
    loop {
        let mut basis = Basis::new(folder);
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

/// Reads the folder's policies, and makes of them what `resolve` does.
fn attempt<T>(
    basis: &mut Basis,
    resolve: impl FnOnce(&Folder, Vec<Lineage>, &mut Basis, &mut Problems) -> T,
) -> Result<T, Rejected> {
    let mut problems = Problems::default();
    let folder = folder::read(basis, &mut problems)?;
    let mut documents = Vec::new();
    for source in &folder.sources {
        documents.extend(policy::parse(source, &mut problems));
    }
    if documents.is_empty() && problems.is_empty() {
        return Err(Rejected::NoPolicies {
            folder: basis.folder().to_owned(),
            files: folder.files,
        });
    }
    policy::validate(documents, &mut problems)
        .and_then(|lineages| {
            let made = resolve(&folder, lineages, basis, &mut problems);
            problems.is_empty().then_some(made)
        })
        .ok_or(Rejected::Invalid {
            problems,
            files: folder.files,
        })
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
