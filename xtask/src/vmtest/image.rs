//! The archive that a kernel unpacks as its first root file system: cpio's "newc" format, as in the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`. Written here because device nodes go into it, which only root could make as files.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    path::Path,
};

/// Writes entries; folders on the way are made as they are needed.
pub(super) struct Image<W> {
    to: W,
    number: u32,
    folders: BTreeSet<String>,
}

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;
const CHARACTER: u32 = 0o020_600;

impl<W: Write> Image<W> {
    pub(super) fn new(to: W) -> Self {
        Image {
            to,
            number: 0,
            folders: BTreeSet::new(),
        }
    }

    /// Paths are relative to the root, without a slash at the start.
    pub(super) fn folder(&mut self, path: &str) -> io::Result<()> {
        if path.is_empty() || !self.folders.insert(path.to_owned()) {
            return Ok(());
        }
        self.above(path)?;
        self.entry(path, FOLDER, (0, 0), &[])
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.above(path)?;
        self.entry(path, FILE | mode, (0, 0), content)
    }

    /// A file of this machine.
    pub(super) fn copy(&mut self, from: &Path, path: &str, mode: u32) -> io::Result<()> {
        self.file(path, mode, &fs::read(from)?)
    }

    pub(super) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.above(path)?;
        self.entry(path, LINK, (0, 0), target.as_bytes())
    }

    pub(super) fn character(&mut self, path: &str, device: (u32, u32)) -> io::Result<()> {
        self.above(path)?;
        self.entry(path, CHARACTER, device, &[])
    }

    fn above(&mut self, path: &str) -> io::Result<()> {
        match path.rsplit_once('/') {
            Some((folder, _)) => self.folder(folder),
            None => Ok(()),
        }
    }

    fn entry(
        &mut self,
        path: &str,
        mode: u32,
        (major, minor): (u32, u32),
        content: &[u8],
    ) -> io::Result<()> {
        let size = u32::try_from(content.len())
            .map_err(|_| io::Error::other(format!("{path} is larger than 4 GiB")))?;
        self.number += 1;
        let fields = [
            self.number,
            mode,
            0, // user
            0, // group
            1, // links
            0, // time
            size,
            0,
            0, // the archive's own device
            major,
            minor,
            path.len() as u32 + 1,
            0, // no checksum in this format
        ];
        write!(self.to, "070701")?;
        for field in fields {
            write!(self.to, "{field:08X}")?;
        }
        self.to.write_all(path.as_bytes())?;
        self.to.write_all(&[0])?;
        self.pad(110 + path.len() + 1)?;
        self.to.write_all(content)?;
        self.pad(content.len())
    }

    fn pad(&mut self, length: usize) -> io::Result<()> {
        self.to
            .write_all(&[0; 3][..length.next_multiple_of(4) - length])
    }

    /// The closing entry. Another archive may follow.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        Ok(self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_header_of_numbers_a_name_and_a_content_each_padded_to_four() {
        let mut image = Image::new(Vec::new());
        image.file("a/b", 0o755, b"hello").unwrap();
        image.file("a/c", 0o644, b"").unwrap();
        let bytes = image.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        // The folder comes before what is in it, and once.
        assert!(text.starts_with("07070100000001000041ED"), "{text}");
        assert_eq!(text.matches("070701").count(), 4);
        let file = text.find("07070100000002").unwrap();
        assert_eq!(&text[file + 14..file + 22], "000081ED");
        assert_eq!(&text[file + 54..file + 62], "00000005", "its length");
        assert_eq!(&text[file + 110..file + 114], "a/b\0");
        assert_eq!(&text[file + 116..file + 121], "hello");
    }
}
