//! A declaration that was resolved before: where the same is read again, it need not be parsed and resolved again.
//!
//! It is known by what it was made of: the bytes of all policy files, which are read and hashed each time, and of the other files that were looked at (users,
//! groups, contents). Kept is what is compared, no content. A declaration that cannot be written down whole is not kept.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use drift_common::policy::{Backoff, Compare, Globs, Mode, Position, Redact, Severity};
use log::info;

use super::{
    ActivePolicy, Basis, Content, Declared, Exhaustive, Snapshot, Target, resolve::belongings,
};
use crate::kept::{self, Unusable};

/// The form is another one when rows are.
const HEAD: &kept::Head = b"drift declared 1";
/// Other files than policies that are read each time, and bytes of one.
const MOST_OTHERS: usize = 64;
const MOST_BYTES: u64 = 1 << 20;

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
        for (name, text) in texts {
            field(name.as_os_str().as_bytes());
            field(text);
        }
        let key = hasher.finalize();
        Self { path, key }
    }

    /// The declaration, where it was made of the same. What it rests on is added to `basis`.
    pub(super) fn snapshot(&self, basis: &mut Basis) -> Option<Snapshot> {
        let bytes = match kept::read(self.path, HEAD) {
            Ok(bytes) => bytes,
            Err(Unusable::Absent) => return None,
            Err(why) => {
                info!("{} is of no use: {why}", self.path.display());
                return None;
            }
        };
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
        let snapshot = rest.snapshot()?;
        rest.0.is_empty().then_some(snapshot)
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
        Target::File(content) => content.bytes.is_none() && content.compare == Compare::Exact,
        Target::Symlink(_) | Target::Absent | Target::Directory(_) => true,
    }
}

/// Writes values one after the other.
struct Out<'w>(&'w mut dyn Write);

impl Out<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.bytes(&[byte])
    }

    fn u32(&mut self, number: u32) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    fn u64(&mut self, number: u64) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    fn number(&mut self, number: usize) -> io::Result<()> {
        self.u64(number as u64)
    }

    fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.number(text.len())?;
        self.bytes(text)
    }

    fn path(&mut self, path: &Path) -> io::Result<()> {
        self.text(path.as_os_str().as_bytes())
    }

    fn option<T>(
        &mut self,
        value: Option<T>,
        put: impl FnOnce(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.byte(value.is_some().into())?;
        value.map_or(Ok(()), |value| put(self, value))
    }

    /// The place of a value in a list.
    fn place<T: PartialEq>(&mut self, list: &[T], value: &T) -> io::Result<()> {
        let place = list.iter().position(|one| one == value);
        self.number(place.unwrap_or(usize::MAX))
    }

    fn duration(&mut self, duration: Duration) -> io::Result<()> {
        self.u64(duration.as_secs())?;
        self.u32(duration.subsec_nanos())
    }

    // All fields by name: one that is new must be written too.

    fn snapshot(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let Snapshot { files, policies } = snapshot;
        self.number(policies.len())?;
        for policy in policies {
            let ActivePolicy {
                name,
                version,
                digest,
                mode,
                backoff,
            } = &**policy;
            self.text(name.as_bytes())?;
            self.text(version.as_bytes())?;
            self.bytes(digest.as_bytes())?;
            self.place(&MODES, mode)?;
            let Backoff { first, factor, cap } = backoff;
            self.duration(*first)?;
            self.u32(*factor)?;
            self.duration(*cap)?;
        }
        let mut sources: Vec<Arc<Path>> = files.iter().map(|file| file.at.file.clone()).collect();
        sources.sort();
        sources.dedup();
        self.number(sources.len())?;
        for source in &sources {
            self.path(source)?;
        }
        self.number(files.len())?;
        for file in files {
            self.declared(file, policies, &sources)?;
        }
        Ok(())
    }

    fn declared(
        &mut self,
        declared: &Declared,
        policies: &[Arc<ActivePolicy>],
        sources: &[Arc<Path>],
    ) -> io::Result<()> {
        let Declared {
            path,
            policy,
            target,
            mode,
            uid,
            gid,
            on_drift,
            severity,
            at,
        } = declared;
        self.path(path)?;
        let policy = policies.iter().position(|one| Arc::ptr_eq(one, policy));
        self.number(policy.unwrap_or(usize::MAX))?;
        for id in [mode, uid, gid] {
            self.option(*id, Self::u32)?;
        }
        self.place(&MODES, on_drift)?;
        self.place(&SEVERITIES, severity)?;
        let Position { file, line, column } = at;
        self.place(sources, file)?;
        self.u32(*line)?;
        self.u32(*column)?;
        self.target(target)
    }

    fn target(&mut self, target: &Target) -> io::Result<()> {
        match target {
            Target::File(content) => {
                let Content {
                    bytes: _,
                    size,
                    digest,
                    body,
                    max_size,
                    compare: _,
                    redact,
                } = content;
                self.byte(0)?;
                self.option(*size, Self::u64)?;
                self.bytes(digest.as_bytes())?;
                self.option(body.as_ref(), |out, body| out.bytes(body.as_bytes()))?;
                self.u64(*max_size)?;
                self.place(&REDACTS, redact)
            }
            Target::Symlink(target) => {
                self.byte(1)?;
                self.path(target)
            }
            Target::Absent => self.byte(2),
            Target::Directory(None) => self.byte(3),
            Target::Directory(Some(exhaustive)) => {
                let Exhaustive {
                    declared: _, // from the paths
                    ignore,
                    removes,
                } = exhaustive;
                self.byte(4)?;
                self.byte((*removes).into())?;
                self.number(ignore.patterns().len())?;
                let mut patterns = ignore.patterns().iter();
                patterns.try_for_each(|pattern| self.text(pattern.as_bytes()))
            }
        }
    }
}

const MODES: [Mode; 2] = [Mode::Observe, Mode::Heal];
const SEVERITIES: [Severity; 4] = [
    Severity::Info,
    Severity::Warning,
    Severity::Error,
    Severity::Critical,
];
const REDACTS: [Redact; 3] = [Redact::None, Redact::Keys, Redact::All];

/// Reads what [`Out`] wrote. `None`: that is not what stands there.
struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn hash(&mut self) -> Option<blake3::Hash> {
        self.take().map(blake3::Hash::from_bytes)
    }

    fn number(&mut self) -> Option<usize> {
        usize::try_from(self.u64()?).ok()
    }

    /// Of things that take a byte at least: no more than there are bytes.
    fn count(&mut self) -> Option<usize> {
        self.number().filter(|count| *count <= self.0.len())
    }

    fn text(&mut self) -> Option<&'b [u8]> {
        let length = self.count()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    fn path(&mut self) -> Option<PathBuf> {
        self.text().map(|path| OsStr::from_bytes(path).into())
    }

    fn string(&mut self) -> Option<String> {
        String::from_utf8(self.text()?.to_vec()).ok()
    }

    fn option<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            _ => take(self).map(Some),
        }
    }

    fn place<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.number()?).cloned()
    }

    fn duration(&mut self) -> Option<Duration> {
        let (seconds, nanos) = (self.u64()?, self.u32()?);
        (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
    }

    fn list<T>(&mut self, mut take: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| take(self)).collect()
    }

    fn snapshot(&mut self) -> Option<Snapshot> {
        let policies = self.list(|rest| {
            Some(Arc::new(ActivePolicy {
                name: rest.string()?,
                version: rest.string()?,
                digest: rest.hash()?,
                mode: rest.place(&MODES)?,
                backoff: Backoff {
                    first: rest.duration()?,
                    factor: rest.u32()?,
                    cap: rest.duration()?,
                },
            }))
        })?;
        let sources = self.list(|rest| Some(Arc::<Path>::from(rest.path()?)))?;
        let mut files = self.list(|rest| {
            let path = rest.path()?;
            let policy = rest.place(&policies)?;
            let (mode, uid, gid) = (
                rest.option(Self::u32)?,
                rest.option(Self::u32)?,
                rest.option(Self::u32)?,
            );
            Some(Arc::new(Declared {
                path,
                policy,
                mode,
                uid,
                gid,
                on_drift: rest.place(&MODES)?,
                severity: rest.place(&SEVERITIES)?,
                at: Position {
                    file: rest.place(&sources)?,
                    line: rest.u32()?,
                    column: rest.u32()?,
                },
                target: rest.target()?,
            }))
        })?;
        belongings(&mut files);
        Some(Snapshot { files, policies })
    }

    fn target(&mut self) -> Option<Target> {
        Some(match self.byte()? {
            0 => Target::File(Content {
                bytes: None,
                size: self.option(Self::u64)?,
                digest: self.hash()?,
                body: self.option(Self::hash)?,
                max_size: self.u64()?,
                compare: Compare::Exact,
                redact: self.place(&REDACTS)?,
            }),
            1 => Target::Symlink(self.path()?),
            2 => Target::Absent,
            3 => Target::Directory(None),
            4 => Target::Directory(Some(Exhaustive {
                removes: self.byte()? != 0,
                ignore: Globs::new(self.list(Self::string)?).ok()?,
                ..Exhaustive::default()
            })),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
