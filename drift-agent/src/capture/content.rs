//! What becomes of a content: a text in the policy, or a blob beside it.

use std::{
    collections::HashSet,
    fmt,
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use drift_common::policy::Content;

use crate::{
    declare::MAX_CONTENTS,
    report::{Redactor, Why},
};

/// A longer text is easier to read, and to compare, as a file of its own.
const LONGEST_TEXT: usize = 16 << 10;

/// Bytes of all texts in policies: from here on contents are blobs, whose bytes a policy folder has more room for.
const ALL_TEXTS: u64 = 16 << 20;

/// Why a content is not for everybody's eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// The file, or a directory on the way to it, is closed to others.
    Closed,
    /// Something in it is hidden wherever contents are shown.
    Seen(Why),
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("others may not read it"),
            Self::Seen(Why::Key) => f.write_str("a key in it is called like a secret's"),
            Self::Seen(Why::Look | Why::Secret | Why::All) => {
                f.write_str("something in it looks like a secret")
            }
        }
    }
}

/// Where contents go.
#[derive(Debug)]
pub struct Contents {
    redactor: Redactor,
    /// The folder of blobs; `None`: there can be none.
    blobs: Option<PathBuf>,
    kept: HashSet<blake3::Hash>,
    /// Bytes of the blobs.
    bytes: u64,
    texts: u64,
}

impl Contents {
    /// `blobs`: a folder that is there, and private.
    #[must_use]
    pub fn new(blobs: Option<PathBuf>) -> Self {
        Self {
            redactor: Redactor::default(),
            blobs,
            kept: HashSet::new(),
            bytes: 0,
            texts: 0,
        }
    }

    /// How many blobs there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.len()
    }

    /// Bytes of all blobs. More than [`MAX_CONTENTS`] are counted, and not written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where these bytes are declared, and why they are a secret, if they are. `closed`: others may not read the file.
    ///
    /// # Errors
    /// The blob cannot be written.
    pub(super) fn put(
        &mut self,
        bytes: &[u8],
        closed: bool,
    ) -> io::Result<(Content, Option<Secret>)> {
        let text = text(bytes);
        let secret = match text {
            // Nothing is no secret.
            _ if bytes.is_empty() => None,
            _ if closed => Some(Secret::Closed),
            Some(text) => self.redactor.secret_in(text).map(Secret::Seen),
            None => None,
        };
        if let Some(text) = text
            && secret.is_none()
            && text.len() <= LONGEST_TEXT
            && self.texts + text.len() as u64 <= ALL_TEXTS
        {
            self.texts += text.len() as u64;
            return Ok((Content::Inline(text.into()), None));
        }
        Ok((Content::Blob(self.blob(bytes)?), secret))
    }

    fn blob(&mut self, bytes: &[u8]) -> io::Result<blake3::Hash> {
        let digest = blake3::hash(bytes);
        if !self.kept.insert(digest) {
            return Ok(digest);
        }
        self.bytes += bytes.len() as u64;
        if let Some(folder) = &self.blobs
            && self.bytes <= MAX_CONTENTS
        {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(folder.join(&*digest.to_hex()))?
                .write_all(bytes)?;
        }
        Ok(digest)
    }
}

/// The text that these bytes are; what has other control characters than texts have is none.
fn text(bytes: &[u8]) -> Option<&str> {
    let odd = |byte: &u8| {
        byte.is_ascii_control()
            && !matches!(byte, b'\n' | b'\t' | b'\r' | b'\x0c' | b'\x1b' | b'\x08')
    };
    let text = std::str::from_utf8(bytes).ok()?;
    (!bytes.iter().any(odd)).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_text_stays_a_text_and_all_else_is_a_blob() {
        let folder = tempfile::tempdir().unwrap();
        let mut contents = Contents::new(Some(folder.path().to_owned()));
        let mut check = |bytes: &[u8], closed: bool, inline: bool, why: Option<Secret>| {
            let (content, secret) = contents.put(bytes, closed).unwrap();
            assert_eq!(secret, why, "{bytes:?}");
            match content {
                Content::Inline(text) => assert!(inline && text.as_bytes() == bytes, "{text}"),
                Content::Blob(digest) => {
                    let path = folder.path().join(&*digest.to_hex());
                    assert!(!inline && fs::read(&path).unwrap() == bytes, "{bytes:?}");
                    let mode = fs::metadata(&path).unwrap().permissions().mode();
                    assert_eq!(mode & 0o7777, 0o600);
                }
                other => panic!("{other:?}"),
            }
        };
        check(b"", false, true, None);
        check(b"", true, true, None);
        check("listen = 80\r\n# é\t\x0c".as_bytes(), false, true, None);
        check(b"listen = 80\n", true, false, Some(Secret::Closed));
        check(
            b"password = hunter2\n",
            false,
            false,
            Some(Secret::Seen(Why::Key)),
        );
        check(b"\xff", false, false, None);
        check(b"a\0b", false, false, None);
        check(&b"word ".repeat(4000), false, false, None);
        // The same bytes are one blob.
        check(&b"word ".repeat(4000), false, false, None);
        assert_eq!(
            (contents.count(), contents.bytes()),
            (5, 12 + 19 + 1 + 3 + 20_000)
        );
    }
}
