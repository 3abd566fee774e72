//! The bytes of a content: in memory, or, of a large one, in the file that holds them, whose digest is known.

use std::{
    fmt,
    fs::File,
    io::{self, BufReader, Read},
    os::unix::fs::FileExt,
    sync::Arc,
};

use drift_common::policy::LARGEST_CONTENT;

/// Read at once.
const CHUNK: usize = 128 << 10;

/// Memory for decompression, as a power of two of bytes: what the store's level makes needs 2 MiB.
const MOST_WINDOW_LOG: u32 = 23;

/// The bytes of a content.
#[derive(Clone)]
pub enum Body {
    Held(Arc<[u8]>),
    /// More than `MAX_CONTENT`.
    Large(Arc<Large>),
}

/// A file that held a content when it was read. Whoever reads it again compares the digest again: nobody keeps the file from being written to.
#[derive(Debug)]
pub struct Large {
    file: File,
    form: Form,
    size: u64,
    digest: blake3::Hash,
}

/// How a file holds a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// By zstd.
    Compressed,
}

impl Body {
    /// What the file holds, and its digest: in memory where these are `most` bytes or fewer. Memory is bounded by that.
    ///
    /// # Errors
    /// `FileTooLarge`: more than any content may have. `InvalidData`: it is no compressed file. Else the file system's.
    pub fn read(file: File, form: Form, most: u64) -> io::Result<(Self, blake3::Hash)> {
        let mut held = Some(Vec::new());
        let mut hasher = blake3::Hasher::new();
        let mut size = 0;
        let mut each = |part: &[u8]| {
            hasher.update(part);
            size += part.len() as u64;
            match &mut held {
                Some(bytes) if size <= most => bytes.extend_from_slice(part),
                _ => held = None,
            }
            if size > LARGEST_CONTENT {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(())
        };
        parts(&mut *reader(&file, form)?, &mut each)?;
        let digest = hasher.finalize();
        let body = match held {
            Some(bytes) => Self::Held(bytes.into()),
            None => Self::Large(Arc::new(Large {
                file,
                form,
                size,
                digest,
            })),
        };
        Ok((body, digest))
    }

    /// The bytes, where they are in memory.
    #[must_use]
    pub fn held(&self) -> Option<&Arc<[u8]>> {
        match self {
            Self::Held(bytes) => Some(bytes),
            Self::Large(_) => None,
        }
    }

    /// How many bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Held(bytes) => bytes.len() as u64,
            Self::Large(large) => large.size,
        }
    }

    /// BLAKE3.
    #[must_use]
    pub fn digest(&self) -> blake3::Hash {
        match self {
            Self::Held(bytes) => blake3::hash(bytes),
            Self::Large(large) => large.digest,
        }
    }

    /// Gives all of them to `each`, a part after the other.
    ///
    /// # Errors
    /// Those of `each`, or the file system's. `InvalidData`: the file holds something else than it did; what it gave is not to be used.
    pub fn each(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let large = match self {
            Self::Held(bytes) => return each(bytes),
            Self::Large(large) => large,
        };
        let mut hasher = blake3::Hasher::new();
        let reader = reader(&large.file, large.form)?;
        // One that has grown is not read on for ever.
        parts(&mut reader.take(large.size + 1), &mut |part| {
            hasher.update(part);
            each(part)
        })?;
        if hasher.finalize() == large.digest {
            Ok(())
        } else {
            Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the file that holds it has changed since it was read",
            ))
        }
    }
}

fn parts(from: &mut dyn Read, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let mut length = 0;
        // Whole parts, but for the last one: who looks for holes sees blocks as they are in the file.
        while length < CHUNK {
            match from.read(&mut buffer[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if length == 0 {
            return Ok(());
        }
        each(&buffer[..length])?;
    }
}

fn reader(file: &File, form: Form) -> io::Result<Box<dyn Read + '_>> {
    let plain = FromStart { file, offset: 0 };
    Ok(match form {
        Form::Plain => Box::new(plain),
        Form::Compressed => {
            let plain = BufReader::with_capacity(CHUNK, plain);
            let mut decoder = zstd::stream::read::Decoder::with_buffer(plain)?;
            decoder.window_log_max(MOST_WINDOW_LOG)?;
            Box::new(decoder)
        }
    })
}

/// Several may read one descriptor, each from its beginning.
struct FromStart<'f> {
    file: &'f File,
    offset: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(buffer, self.offset)?;
        self.offset += length as u64;
        Ok(length)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bytes may be secrets.
        write!(f, "Body({} bytes, {})", self.size(), self.digest())
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Held(one), Self::Held(other)) => one == other,
            _ => (self.size(), self.digest()) == (other.size(), other.digest()),
        }
    }
}

impl Eq for Body {}

impl From<Arc<[u8]>> for Body {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self::Held(bytes)
    }
}

impl From<&[u8]> for Body {
    fn from(bytes: &[u8]) -> Self {
        Self::Held(bytes.into())
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Held(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn all(body: &Body) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        body.each(&mut |part| {
            all.extend_from_slice(part);
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn what_is_too_large_for_memory_is_read_from_its_file_and_believed_only_whole() {
        let bytes: Vec<u8> = (0..CHUNK + 7).map(|n| n as u8).collect();
        let most = bytes.len() as u64;
        let packed = zstd::bulk::compress(&bytes, 3).unwrap();
        for (there, form) in [(&bytes, Form::Plain), (&packed, Form::Compressed)] {
            let (held, digest) = Body::read(file(there), form, most).unwrap();
            assert_eq!(held.held().unwrap()[..], bytes);
            assert_eq!(digest, blake3::hash(&bytes));
            let changes = file(there);
            let read = changes.try_clone().unwrap();
            let (large, digest) = Body::read(read, form, most - 1).unwrap();
            assert!(large.held().is_none() && large == held);
            assert_eq!((digest, large.size()), (held.digest(), most));
            assert_eq!(all(&large).unwrap(), bytes);
            changes.write_all_at(b"!", there.len() as u64 / 2).unwrap();
            assert!(all(&large).is_err(), "it has changed");
        }
    }
}
