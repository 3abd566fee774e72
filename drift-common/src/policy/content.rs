//! Where the bytes of a declared file come from.

use std::{
    fmt,
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use flate2::read::MultiGzDecoder;

/// Bytes of one content that is held in memory, at most, after all packing was undone.
pub const MAX_CONTENT: u64 = 16 << 20;

/// Bytes of one content that is a file of its own, at most.
pub const LARGEST_CONTENT: u64 = 1 << 30;

/// Where the bytes of a file come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Inline(Arc<str>),
    /// What this text stands for.
    Packed(Packed),
    /// Those of this file, relative to the folder of the policy file and beneath it.
    File(PathBuf),
    /// Whatever has this digest.
    Blob(blake3::Hash),
    /// What a cluster keeps there.
    Kept(Kept),
}

/// A key of a ConfigMap or Secret, in the namespace of the PolicyVersion.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    pub by: Keeper,
    pub name: Arc<str>,
    pub key: Arc<str>,
}

/// Which kind of object keeps contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keeper {
    ConfigMap,
    Secret,
}

impl Keeper {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::ConfigMap, Self::Secret];

    /// The field of `content` that names it.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::ConfigMap => "configMap",
            Self::Secret => "secret",
        }
    }

    /// The kind of the object.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// Bytes written as a text. Checked when it was parsed: [`Packed::unpack`] gives the bytes, at most [`MAX_CONTENT`] of them. They are not kept,
/// because a text of a few kilobytes can stand for megabytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Packed {
    pub encoding: Encoding,
    /// As it was written.
    pub text: Arc<str>,
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may hold secrets.
        let field = self.encoding.field();
        write!(f, "Packed({field}, {} bytes of text)", self.text.len())
    }
}

/// How bytes are written as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Base64, lines and padding as one likes.
    Base64,
    /// Base64 of what gzip makes.
    Gzip,
    /// RFC 2397: `data:,a%20b` or `data:text/plain;base64,YQ==`. The media type says nothing here.
    DataUrl,
}

impl Encoding {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Base64, Self::Gzip, Self::DataUrl];

    /// The field of `content` that holds it.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Base64 => "base64",
            Self::Gzip => "gzip",
            Self::DataUrl => "dataUrl",
        }
    }
}

/// Why a text does not stand for bytes. The messages do not repeat it: it may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum Unpack {
    #[error("this is not base64")]
    Base64,
    #[error("this is the base64 of something that is not gzip ({0})")]
    Gzip(io::Error),
    #[error("this is not a data URL: {0}")]
    DataUrl(&'static str),
    #[error("unpacked, this is larger than the {} MiB that are left for it", .0 >> 20)]
    TooLarge(u64),
}

impl Unpack {
    /// What to write instead.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        match self {
            Self::Base64 => "write what `base64 FILE` prints",
            Self::Gzip(_) => "write what `gzip -c FILE | base64` prints",
            Self::DataUrl(_) => "write it as in `data:,a%20text` or `data:;base64,YQ==`",
            Self::TooLarge(_) => "keep big contents in files of their own: `content: {file: …}`",
        }
    }
}

const ANY_PADDING: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl Packed {
    /// The bytes, at most `most` of them.
    ///
    /// # Errors
    /// It stands for none, or for too many.
    pub fn unpack(&self, most: u64) -> Result<Vec<u8>, Unpack> {
        let bytes = match self.encoding {
            Encoding::Base64 => base64(&self.text)?,
            Encoding::DataUrl => data_url(&self.text)?,
            Encoding::Gzip => {
                let packed = base64(&self.text)?;
                let mut bytes = Vec::new();
                // One byte more tells whether there is more: what a bomb would come to is never made.
                MultiGzDecoder::new(&packed[..])
                    .take(most + 1)
                    .read_to_end(&mut bytes)
                    .map_err(Unpack::Gzip)?;
                bytes
            }
        };
        if bytes.len() as u64 > most {
            return Err(Unpack::TooLarge(most));
        }
        Ok(bytes)
    }
}

fn base64(text: &str) -> Result<Vec<u8>, Unpack> {
    let text: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    ANY_PADDING.decode(text).map_err(|_| Unpack::Base64)
}

fn data_url(text: &str) -> Result<Vec<u8>, Unpack> {
    let scheme = text.get(..5);
    if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) {
        return Err(Unpack::DataUrl("it does not begin with `data:`"));
    }
    let Some((kind, data)) = text[5..].split_once(',') else {
        return Err(Unpack::DataUrl("it has no comma before the data"));
    };
    let bytes = percent(data)?;
    let is_base64 = kind
        .rsplit_once(';')
        .is_some_and(|(_, last)| last.trim().eq_ignore_ascii_case("base64"));
    if !is_base64 {
        return Ok(bytes);
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| Unpack::Base64)?;
    base64(text)
}

/// Undoes `%20`. What the standard would have written so and is not stands for itself, as in browsers.
fn percent(text: &str) -> Result<Vec<u8>, Unpack> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let mut rest = text.bytes();
    let mut bytes = Vec::with_capacity(text.len());
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
            return Err(Unpack::DataUrl(
                "a `%` in it is not followed by two hexadecimal digits",
            ));
        };
        bytes.extend(u8::try_from(high * 16 + low));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use base64::engine::general_purpose::STANDARD;
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn unpacked(encoding: Encoding, text: &str) -> Result<Vec<u8>, String> {
        let text = text.into();
        let packed = Packed { encoding, text };
        packed.unpack(64).map_err(|why| why.to_string())
    }

    #[test]
    fn texts_that_stand_for_bytes() {
        #[track_caller]
        fn check(encoding: Encoding, text: &str, expected: &[u8]) {
            assert_eq!(unpacked(encoding, text).as_deref(), Ok(expected), "{text}");
        }
        check(Encoding::Base64, "", b"");
        check(Encoding::Base64, "YQ==", b"a");
        check(Encoding::Base64, "YQ", b"a");
        check(Encoding::Base64, " /w\n A\n=\n", b"\xff\0");
        check(Encoding::DataUrl, "data:,", b"");
        check(Encoding::DataUrl, "data:,a%20b%0A", b"a b\n");
        check(
            Encoding::DataUrl,
            "data:text/plain;charset=utf-8,é",
            "é".as_bytes(),
        );
        check(Encoding::DataUrl, "DATA:text/plain;base64,YQ%3D%3D", b"a");
        check(Encoding::DataUrl, "data:;base64,YQ", b"a");
        check(Encoding::DataUrl, "data:,a,b", b"a,b");
    }

    #[test]
    fn texts_that_do_not() {
        #[track_caller]
        fn check(encoding: Encoding, text: &str, expected: &str) {
            let why = unpacked(encoding, text).expect_err(text);
            assert!(why.starts_with(expected), "{why}");
        }
        check(Encoding::Base64, "a-_b", "this is not base64");
        check(Encoding::Base64, "Y", "this is not base64");
        check(
            Encoding::DataUrl,
            "http:,a",
            "this is not a data URL: it does not begin",
        );
        check(
            Encoding::DataUrl,
            "data:a",
            "this is not a data URL: it has no comma",
        );
        check(
            Encoding::DataUrl,
            "data:,%4",
            "this is not a data URL: a `%`",
        );
        check(Encoding::DataUrl, "data:;base64,%ff", "this is not base64");
        check(
            Encoding::Gzip,
            "YQ==",
            "this is the base64 of something that is not gzip",
        );
        check(
            Encoding::Gzip,
            "",
            "this is the base64 of something that is not gzip",
        );
    }

    fn gzip(bytes: &[u8], level: u32) -> String {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(bytes).unwrap();
        STANDARD.encode(encoder.finish().unwrap())
    }

    #[test]
    fn however_it_was_packed_it_is_the_same() {
        let text = b"the same text, the same text, the same text";
        for level in [0, 1, 9] {
            let packed = gzip(text, level);
            assert_eq!(unpacked(Encoding::Gzip, &packed).as_deref(), Ok(&text[..]));
        }
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let bomb = gzip(&vec![0; 1 << 20], 9);
        assert!(bomb.len() < 2000);
        let why = unpacked(Encoding::Gzip, &bomb).unwrap_err();
        assert!(why.starts_with("unpacked, this is larger"), "{why}");
        assert!(unpacked(Encoding::Gzip, &gzip(&[0; 64], 9)).is_ok());
        assert!(unpacked(Encoding::Gzip, &gzip(&[0; 65], 9)).is_err());
    }
}
