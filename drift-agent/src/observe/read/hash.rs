//! The digests of a file's content, and the content where it is asked for: of one read.

use std::{
    fs::File,
    io::{self, Read},
};

use crate::declare::without_final_newline;

/// Room for what is read at once. It grows with the files that are read, up to [`MOST`], and is used for one after the other.
#[derive(Debug, Default)]
pub(super) struct Buffer(Vec<u8>);

/// The last two bytes of a content may be a line end: they are held back.
const HELD: usize = 2;
/// What most configuration files are smaller than.
const LEAST: usize = 16 << 10;
/// More than this at once is not faster.
const MOST: usize = 256 << 10;

impl Buffer {
    /// Room for what is held back and for one read: of a file of this size, and of one byte more, which shows its end. Whole pages: some files that the kernel makes
    /// up give nothing else.
    fn room(&mut self, size: u64) -> (&mut [u8], usize) {
        let wanted = usize::try_from(size).unwrap_or(MOST).saturating_add(1);
        let at_once = wanted.clamp(LEAST, MOST).next_multiple_of(4096);
        if self.0.len() < HELD + at_once {
            self.0.resize(HELD + at_once, 0);
        }
        (&mut self.0, at_once)
    }
}

/// A content that was read.
pub(super) struct Hashed {
    /// BLAKE3 of it.
    pub(super) whole: blake3::Hash,
    /// Without its final line end.
    pub(super) body: blake3::Hash,
    /// The bytes themselves, where they are not more than was asked for.
    pub(super) held: Option<Vec<u8>>,
}

/// The digests of all that can be read, and at most `holds` bytes of it; `None` when it turns out to be longer than `most`. `size` is what the file says of
/// itself: where exactly that much comes, and a read that could have given more, there is no read for the end. The caller sees afterwards that the size is
/// still this.
pub(super) fn hash(
    mut file: &File,
    size: u64,
    most: u64,
    holds: usize,
    buffer: &mut Buffer,
) -> io::Result<Option<Hashed>> {
    let mut hasher = blake3::Hasher::new();
    let (buffer, at_once) = buffer.room(size);
    let mut held = 0;
    let mut read = 0u64;
    let mut bytes = match usize::try_from(size) {
        Ok(size) if holds > 0 && size <= holds => Some(Vec::with_capacity(size)),
        _ => None,
    };
    loop {
        match file.read(&mut buffer[held..held + at_once]) {
            Ok(0) => break,
            Ok(length) => {
                read += length as u64;
                if read > most {
                    return Ok(None);
                }
                let end = held + length;
                if let Some(kept) = &mut bytes {
                    kept.extend_from_slice(&buffer[held..end]);
                }
                bytes.take_if(|kept| kept.len() > holds);
                held = end.min(HELD);
                hasher.update(&buffer[..end - held]);
                buffer.copy_within(end - held..end, 0);
                if read == size && length < at_once {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let rest = &buffer[..held];
    let end = |rest: &[u8]| hasher.clone().update(rest).finalize();
    let (whole, body) = (end(rest), without_final_newline(rest));
    Ok(Some(Hashed {
        held: bytes,
        whole,
        body: if body == rest { whole } else { end(body) },
    }))
}
