//! A declaration that was resolved before: where the same is read again, it need not be parsed and resolved again.
//!
//! It is known by what it was made of: the bytes of all policy files, which are read and hashed each time, and of the other files that were looked at (users,
//! groups, contents). Kept is what is compared, no content. A declaration that cannot be written down whole is not kept.

mod read;
mod write;

use std::{fs::File, io::Read, os::unix::ffi::OsStrExt, path::Path};

use log::info;

use self::{read::Rest, write::Out};
use super::{
    Basis, Compare, Declared, Evidence, HardLinks, MassDrift, Mode, OnRemove, Redact, Severity,
    Snapshot, Target,
};
use crate::kept::{self, Unusable};

/// The form is another one when rows are.
const HEAD: &kept::Head = b"drift declared 4";
/// Declarations that are read by one thread at least.
const SECTION: usize = 4096;
/// Threads that read them, at most.
const MOST_THREADS: usize = 4;
/// Other files than policies that are read each time, and bytes of one.
const MOST_OTHERS: usize = 64;
const MOST_BYTES: u64 = 1 << 20;

/// What is kept at `path`, of whatever it was made. `None`: nothing of use.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    match kept::read(path, HEAD) {
        Ok(bytes) => Some(bytes),
        Err(Unusable::Absent) => None,
        Err(why) => {
            info!("{} is of no use: {why}", path.display());
            None
        }
    }
}

/// What a declaration was made of, and where it is kept.
pub(super) struct Kept<'p> {
    path: &'p Path,
    key: blake3::Hash,
}

impl<'p> Kept<'p> {
    /// Of policy files with these bytes.
    pub(super) fn of<'t>(
        path: &'p Path,
        host_root: &Path,
        texts: impl Iterator<Item = (&'t Path, &'t [u8])>,
    ) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        // Another version of this program may understand the same in another way.
        field(env!("CARGO_PKG_VERSION").as_bytes());
        field(host_root.as_os_str().as_bytes());
        field(rustix::system::uname().nodename().to_bytes()); // policies may be for nodes of one name
        for (name, text) in texts {
            field(name.as_os_str().as_bytes());
            field(text);
        }
        let key = hasher.finalize();
        Self { path, key }
    }

    /// The declaration in `bytes`, where it was made of the same. What it rests on is added to `basis`.
    pub(super) fn find(&self, bytes: Vec<u8>, basis: &mut Basis) -> Option<Found> {
        let mut rest = Rest(bytes.get(HEAD.len()..)?);
        if rest.hash()? != self.key {
            return None;
        }
        for _ in 0..rest.number()? {
            let path = rest.path()?;
            let digest = rest.option(Rest::hash)?;
            if look(&path, basis) != Some(digest) {
                return None;
            }
        }
        let start = bytes.len() - rest.0.len();
        Some(Found { bytes, start })
    }

    /// Keeps it for the next time.
    pub(super) fn keep(
        &self,
        snapshot: &Snapshot,
        basis: &Basis,
        is_policy: impl Fn(&Path) -> bool,
    ) {
        // What has just changed may change again without another time.
        if basis.rests_in().is_some() || !snapshot.files.iter().all(|file| is_plain(file)) {
            return;
        }
        let others: Vec<&Path> = basis.files().filter(|path| !is_policy(path)).collect();
        let mut probe = Basis::new(basis.folder(), super::Keep::Digests);
        let digests: Option<Vec<_>> = others.iter().map(|path| look(path, &mut probe)).collect();
        let Some(digests) = digests.filter(|digests| digests.len() <= MOST_OTHERS) else {
            return;
        };
        // Those digests are of what was resolved.
        if !basis.holds() {
            return;
        }
        let written = kept::replace(self.path, HEAD, |out| {
            let mut out = Out(out);
            out.bytes(self.key.as_bytes())?;
            out.number(others.len())?;
            for (path, digest) in others.iter().zip(&digests) {
                out.path(path)?;
                out.option(digest.as_ref(), |out, digest| out.bytes(digest.as_bytes()))?;
            }
            out.snapshot(snapshot)
        });
        if let Err(error) = written {
            info!("{} cannot be written: {error}", self.path.display());
        }
    }
}

/// A declaration that holds, as it was written down.
pub(super) struct Found {
    bytes: Vec<u8>,
    /// Where it begins.
    start: usize,
}

impl Found {
    /// `None`: that is not what stands there.
    pub(super) fn snapshot(self) -> Option<Snapshot> {
        let mut rest = Rest(self.bytes.get(self.start..)?);
        let snapshot = rest.snapshot()?;
        rest.0.is_empty().then_some(snapshot)
    }
}

/// The digest of what a file holds; inside, `None` where there is no file. `None`: it cannot be told.
fn look(path: &Path, basis: &mut Basis) -> Option<Option<blake3::Hash>> {
    let metadata = std::fs::metadata(path).ok();
    basis.saw(path.to_owned(), metadata.as_ref());
    let Some(metadata) = metadata else {
        return Some(None);
    };
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MOST_BYTES).then(|| Some(blake3::hash(&bytes)))
}

/// Whether all of it can be written down.
fn is_plain(declared: &Declared) -> bool {
    match &declared.target {
        // What a content says is read from its bytes.
        Target::File(content) => {
            content.bytes.is_none()
                && content.compare == Compare::Exact
                && content.meaning.is_none()
        }
        Target::Symlink(_) | Target::Absent | Target::Directory(_) => true,
    }
}

// In the order in which they are written.
const MODES: [Mode; 2] = [Mode::Observe, Mode::Heal];
const SEVERITIES: [Severity; 4] = [
    Severity::Info,
    Severity::Warning,
    Severity::Error,
    Severity::Critical,
];
const REDACTS: [Redact; 3] = [Redact::None, Redact::Keys, Redact::All];
const EVIDENCES: [Evidence; 3] = [Evidence::None, Evidence::Content, Evidence::Inode];
const MASS_DRIFTS: [MassDrift; 2] = [MassDrift::Hold, MassDrift::Heal];
const ON_REMOVES: [OnRemove; 2] = [OnRemove::Leave, OnRemove::Remove];
const HARD_LINKS: [HardLinks; 2] = [HardLinks::Report, HardLinks::Allow];

#[cfg(test)]
mod tests;
