//! A new file in which blocks of zeros are left out: it is no larger on the disk than what it is a copy of.

use std::{
    fs::File,
    io::{self, Write},
};

use rustix::fs::{SeekFrom, seek};

/// What file systems keep or leave out.
const BLOCK: usize = 4096;

static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Writes a file from its beginning, a part after the other. What is written last is a block, or the length.
pub(super) struct Sparse<'f> {
    file: &'f mut File,
    /// Bytes since the last ones that were written.
    left_out: u64,
}

impl<'f> Sparse<'f> {
    pub(super) fn new(file: &'f mut File) -> Self {
        Self { file, left_out: 0 }
    }

    /// The next bytes: whole blocks, but for the last part.
    pub(super) fn part(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let zeros = blocks(bytes, true);
            self.left_out += zeros as u64;
            bytes = &bytes[zeros..];
            let (data, rest) = bytes.split_at(blocks(bytes, false));
            if !data.is_empty() {
                self.skip()?;
                self.file.write_all(data)?;
            }
            bytes = rest;
        }
        Ok(())
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        if self.left_out == 0 {
            return Ok(());
        }
        let length = self.skip()?;
        self.file.set_len(length)
    }

    fn skip(&mut self) -> io::Result<u64> {
        if self.left_out == 0 {
            return Ok(0);
        }
        let far = i64::try_from(self.left_out).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.left_out = 0;
        Ok(seek(&*self.file, SeekFrom::Current(far))?)
    }
}

/// Bytes of the blocks at the beginning that can be left out, or of those that cannot.
fn blocks(bytes: &[u8], are_zeros: bool) -> usize {
    let is_zeros = |block: &[u8]| *block == ZEROS;
    let mut blocks = bytes.chunks(BLOCK);
    let other = blocks.position(|block| is_zeros(block) != are_zeros);
    other.map_or(bytes.len(), |index| index * BLOCK)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Seek},
        os::unix::fs::MetadataExt,
    };

    use super::*;

    #[test]
    fn zeros_are_left_out_and_read_back() {
        let zeros = vec![0u8; 64 << 10];
        let data = vec![7u8; 5000];
        let tail = [&data[..], &[0; 100]].concat();
        for parts in [
            vec![],
            vec![&zeros[..]],
            vec![&zeros, &data],
            vec![&zeros, &zeros, &tail],
            vec![&data[..4096], &zeros, &data],
            vec![&data[..4096], &zeros],
        ] {
            let mut file = tempfile::tempfile().unwrap();
            let mut sparse = Sparse::new(&mut file);
            for part in &parts {
                sparse.part(part).unwrap();
            }
            sparse.end().unwrap();
            let mut read = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut read).unwrap();
            assert_eq!(read, parts.concat());
            let most = parts.iter().filter(|part| part[0] != 0).count() as u64 * 8192;
            assert!(file.metadata().unwrap().blocks() * 512 <= most);
        }
    }
}
