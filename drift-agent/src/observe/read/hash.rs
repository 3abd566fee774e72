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

/// What is asked for of a content.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// Bytes; one with more is not read.
    pub(super) most: u64,
    /// Bytes that are given back.
    pub(super) holds: usize,
    /// The digest with `\n` for each `\r\n`; inside, whether the line end at the end counts.
    pub(super) lines: Option<bool>,
}

/// A content that was read.
pub(super) struct Hashed {
    /// BLAKE3 of it.
    pub(super) whole: blake3::Hash,
    /// Without its final line end.
    pub(super) body: blake3::Hash,
    /// With `\n` for each `\r\n`, where that was asked for.
    pub(super) lines: Option<blake3::Hash>,
    /// The bytes themselves, where they are not more than was asked for.
    pub(super) held: Option<Vec<u8>>,
}

/// The digests of all that can be read, and as much of it as is held; `None` when it turns out to be longer than is wanted. `size` is what the file says of
/// itself: where exactly that much comes, and a read that could have given more, there is no read for the end. The caller sees afterwards that the size is
/// still this.
pub(super) fn hash(
    mut file: &File,
    size: u64,
    wanted: Wanted,
    buffer: &mut Buffer,
) -> io::Result<Option<Hashed>> {
    let Wanted { most, holds, lines } = wanted;
    let mut hasher = blake3::Hasher::new();
    let mut unix = lines.map(|_| Lines::default());
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
                if let Some(unix) = &mut unix {
                    unix.update(&buffer[..end - held]);
                }
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
    let last = if lines == Some(true) { rest } else { body };
    Ok(Some(Hashed {
        held: bytes,
        lines: unix.map(|unix| unix.digest(last)),
        whole,
        body: if body == rest { whole } else { end(body) },
    }))
}

/// The digest of a text that comes in pieces, with `\n` for each `\r\n`.
#[derive(Default)]
struct Lines {
    hasher: blake3::Hasher,
    /// The last piece ended in a `\r`, and what follows is not known.
    is_open: bool,
}

impl Lines {
    fn update(&mut self, mut rest: &[u8]) {
        if self.is_open
            && let Some(next) = rest.first()
        {
            self.is_open = false;
            if *next != b'\n' {
                self.hasher.update(b"\r");
            }
        }
        while let Some(at) = rest.iter().position(|byte| *byte == b'\r') {
            let next = rest.get(at + 1);
            let keeps = next.is_some_and(|next| *next != b'\n');
            self.hasher.update(&rest[..at + usize::from(keeps)]);
            self.is_open = next.is_none();
            rest = &rest[at + 1..];
        }
        self.hasher.update(rest);
    }

    fn digest(mut self, last: &[u8]) -> blake3::Hash {
        self.update(last);
        if self.is_open {
            self.hasher.update(b"\r");
        }
        self.hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::with_unix_line_ends;

    #[test]
    fn a_text_in_any_pieces_has_the_digest_of_its_lines() {
        // All texts of up to seven of these bytes, cut in two anywhere.
        for length in 0..=7u32 {
            for number in 0..3usize.pow(length) {
                let digit = |place| b"\r\nx"[number / 3usize.pow(place) % 3];
                let text: Vec<u8> = (0..length).map(digit).collect();
                let expected = blake3::hash(&with_unix_line_ends(&text));
                for cut in 0..=text.len() {
                    let mut lines = Lines::default();
                    lines.update(&text[..cut]);
                    assert_eq!(lines.digest(&text[cut..]), expected, "{text:?} at {cut}");
                }
            }
        }
    }
}
