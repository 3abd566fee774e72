//! Contents that are files of their own, beside the policies, and ones that are packed.

use std::{
    collections::HashMap,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use drift_common::{
    escape,
    policy::{LARGEST_CONTENT, MAX_CONTENT, Packed},
};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};

use super::{Basis, Blobs, Body, Form};

/// Bytes of all contents that are no texts of the policies themselves, and stay in memory, at most.
pub const MAX_CONTENTS: u64 = 256 << 20;

/// Contents that stay in their files, at most: each is an open descriptor.
const MOST_LARGE: usize = 64;

/// The bytes of a file, and their BLAKE3 digest.
pub(super) type Bytes = (Body, blake3::Hash);

/// Reads files beneath the policy folder, each once.
pub(super) struct Contents<'f> {
    dir: &'f OwnedFd,
    /// What is there beside the folder.
    blobs: Option<Blobs<'f>>,
    read: HashMap<PathBuf, Result<Bytes, String>>,
    all: u64,
    large: usize,
}

impl<'f> Contents<'f> {
    pub(super) fn new(dir: &'f OwnedFd) -> Self {
        Self {
            dir,
            blobs: None,
            read: HashMap::new(),
            all: 0,
            large: 0,
        }
    }

    /// A content that is named by its digest may come from there too.
    pub(super) fn with_blobs(self, blobs: Blobs<'f>) -> Self {
        Self {
            blobs: Some(blobs),
            ..self
        }
    }

    /// The content of `path`, which is relative to the folder.
    ///
    /// # Errors
    /// A sentence for people: it is not there, not readable, too large, no regular file, or a link leads out of the folder.
    pub(super) fn get(&mut self, path: &Path, basis: &mut Basis) -> Result<Bytes, String> {
        if let Some(known) = self.read.get(path) {
            return known.clone();
        }
        let bytes = self
            .open(path, basis)
            .and_then(|file| self.bytes(file, path));
        if let Ok((bytes, _)) = &bytes {
            basis.read(path.to_owned(), || bytes.clone());
        }
        self.read.insert(path.to_owned(), bytes.clone());
        bytes
    }

    /// The content that has this digest: the file of that name in the folder `blobs` beside the policies, or what the agent has kept of it.
    /// That counts as if it had been read from there: whoever keeps the folder's files keeps it too.
    ///
    /// # Errors
    /// As [`Contents::get`], and where the file holds something else.
    pub(super) fn blob(
        &mut self,
        digest: &blake3::Hash,
        basis: &mut Basis,
    ) -> Result<Bytes, String> {
        let path = Path::new("blobs").join(&*digest.to_hex());
        let bytes = match self.get(&path, basis) {
            Ok(bytes) => bytes,
            Err(why) => {
                let kept = self.blobs.and_then(|blobs| blobs(digest));
                let kept = (kept.ok_or(why)?, *digest);
                let bytes = self.counted(kept, &escape::path_name(&path).to_string())?;
                basis.read(path.clone(), || bytes.0.clone());
                self.read.insert(path.clone(), Ok(bytes.clone()));
                bytes
            }
        };
        if bytes.1 != *digest {
            let shown = escape::path_name(&path);
            return Err(format!("{shown} does not hold what its name says"));
        }
        Ok(bytes)
    }

    /// What a text in a policy stands for.
    ///
    /// # Errors
    /// All contents are too large. (That it can be unpacked was seen when it was parsed.)
    pub(super) fn unpacked(&mut self, packed: &Packed) -> Result<Bytes, String> {
        let bytes = packed.unpack(MAX_CONTENT).map_err(|why| why.to_string())?;
        let digest = blake3::hash(&bytes);
        self.counted((bytes.into(), digest), "this")
    }

    fn open(&self, path: &Path, basis: &mut Basis) -> Result<File, String> {
        let whole = basis.folder().join(path);
        let shown = escape::path_name(path);
        let opened = open_beneath(self.dir, path, ResolveFlags::BENEATH)
            .map_err(|errno| match errno {
                Errno::NOENT => format!("there is no file {shown} in the policy folder"),
                Errno::XDEV => format!("a link makes {shown} lead out of the policy folder"),
                errno => format!("{shown} cannot be read: {}", io::Error::from(errno)),
            })
            .and_then(|file| {
                let metadata = file.metadata();
                let metadata =
                    metadata.map_err(|error| format!("{shown} cannot be read: {error}"))?;
                Ok((file, metadata))
            });
        let (file, metadata) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                basis.saw(whole.clone(), std::fs::metadata(&whole).ok().as_ref());
                return Err(why);
            }
        };
        basis.saw(whole, Some(&metadata));
        if !metadata.is_file() {
            return Err(format!("{shown} is not a regular file"));
        }
        Ok(file)
    }

    fn bytes(&mut self, file: File, path: &Path) -> Result<Bytes, String> {
        let shown = escape::path_name(path);
        let is_small = file.metadata().is_ok_and(|it| it.len() <= LARGEST_CONTENT);
        let read = if is_small {
            Body::read(file, Form::Plain, MAX_CONTENT)
        } else {
            Err(io::ErrorKind::FileTooLarge.into())
        };
        let bytes = read.map_err(|error| {
            if error.kind() == io::ErrorKind::FileTooLarge {
                let most = LARGEST_CONTENT >> 20;
                format!("{shown} is larger than the {most} MiB a content may have")
            } else {
                format!("{shown} cannot be read: {error}")
            }
        })?;
        self.counted(bytes, &shown.to_string())
    }

    fn counted(&mut self, bytes: Bytes, what: &str) -> Result<Bytes, String> {
        match &bytes.0 {
            Body::Held(held) => self.all += held.len() as u64,
            Body::Large(_) => self.large += 1,
        }
        if self.large > MOST_LARGE {
            let most = MAX_CONTENT >> 20;
            return Err(format!(
                "with {what}, more than {MOST_LARGE} contents are larger than {most} MiB"
            ));
        }
        if self.all > MAX_CONTENTS {
            let most = MAX_CONTENTS >> 20;
            return Err(format!(
                "with {what}, all contents are larger than {most} MiB"
            ));
        }
        Ok(bytes)
    }
}

/// Opens `path` beneath `dir` for reading, without waiting for anybody. `resolve` says how it may leave: `BENEATH` not at all, `IN_ROOT` as if
/// `dir` were the root.
pub(super) fn open_beneath(
    dir: impl AsFd,
    path: &Path,
    resolve: ResolveFlags,
) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    let mut attempts = 10;
    loop {
        match openat2(&dir, path, flags, Mode::empty(), resolve) {
            Ok(file) => return Ok(file.into()),
            // Something was renamed on the way, and the kernel cannot tell whether it led out.
            Err(Errno::AGAIN) if attempts > 0 => attempts -= 1,
            Err(errno) => return Err(errno),
        }
    }
}
