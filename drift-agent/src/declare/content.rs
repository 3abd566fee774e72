//! Contents that are files of their own, beside the policies, and ones that are packed.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use drift_common::{
    escape,
    policy::{MAX_CONTENT, Packed},
};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};

use super::{Basis, Blobs};

/// Bytes of all contents that are no texts of the policies themselves, at most: they stay in memory.
pub const MAX_CONTENTS: u64 = 256 << 20;

/// The bytes of a file, and their BLAKE3 digest.
pub(super) type Bytes = (Arc<[u8]>, blake3::Hash);

/// Reads files beneath the policy folder, each once.
pub(super) struct Contents<'f> {
    dir: &'f OwnedFd,
    /// What is there beside the folder.
    blobs: Option<Blobs<'f>>,
    read: HashMap<PathBuf, Result<Bytes, String>>,
    all: u64,
}

impl<'f> Contents<'f> {
    pub(super) fn new(dir: &'f OwnedFd) -> Self {
        Self {
            dir,
            blobs: None,
            read: HashMap::new(),
            all: 0,
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
            basis.read(path.to_owned(), bytes.clone());
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
                let kept = kept.filter(|bytes| bytes.len() as u64 <= MAX_CONTENT);
                let kept = kept.ok_or(why)?;
                let bytes = self.counted(kept, &escape::path_name(&path).to_string())?;
                basis.read(path.clone(), bytes.0.clone());
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
        self.counted(bytes, "this")
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
        let mut bytes = Vec::new();
        file.take(MAX_CONTENT + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let size = bytes.len() as u64;
        if size > MAX_CONTENT {
            let most = MAX_CONTENT >> 20;
            return Err(format!(
                "{shown} is larger than the {most} MiB a content may have"
            ));
        }
        self.counted(bytes, &shown.to_string())
    }

    fn counted(&mut self, bytes: Vec<u8>, what: &str) -> Result<Bytes, String> {
        self.all += bytes.len() as u64;
        if self.all > MAX_CONTENTS {
            let most = MAX_CONTENTS >> 20;
            return Err(format!(
                "with {what}, all contents are larger than {most} MiB"
            ));
        }
        let digest = blake3::hash(&bytes);
        Ok((bytes.into(), digest))
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
