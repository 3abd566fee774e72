//! Where the bytes of a file come from.

use std::path::Path;

use super::{scalar, version::fit};
use crate::policy::{
    content::{Content, Encoding, Keeper, Kept, MAX_CONTENT, Packed},
    decode::{Cursor, Decoder},
    path,
    shape::{self, MOST_KEY},
    source::Spanned,
    tree::Value,
};

const FIELDS: [&str; 8] = [
    "inline",
    "base64",
    "gzip",
    "dataUrl",
    "file",
    "digest",
    "configMap",
    "secret",
];

pub(super) fn content(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<Content>> {
    let mut fields = decoder.shaped(cursor, &shape::CONTENT)?;
    let one = fields.one_of(decoder, &FIELDS);
    let mut content = fields.optional(decoder, "inline", |decoder, inline| {
        if let Some((_, Value::Null)) = inline.scalar() {
            return decoder.expected(inline, "a text", "an empty file is written `inline: \"\"`");
        }
        decoder
            .text(inline)
            .map(|text| decoder.spanned(inline, Content::Inline(text)))
    });
    for encoding in Encoding::ALL {
        let packed = fields.optional(decoder, encoding.field(), |decoder, cursor| {
            packed(decoder, cursor, encoding)
        });
        content = content.or(packed);
    }
    let file = fields.optional(decoder, "file", |decoder, file| {
        let text = decoder.text(file)?;
        let path = Path::new(&*text);
        fit(decoder, file, path::check_beneath(path))?;
        Some(decoder.spanned(file, Content::File(path.to_owned())))
    });
    let blob = fields.optional(decoder, "digest", blob);
    for by in Keeper::ALL {
        let kept = fields.optional(decoder, by.field(), |decoder, cursor| {
            kept(decoder, cursor, by)
        });
        content = content.or(kept);
    }
    fields.end(decoder);
    if one { content.or(file).or(blob) } else { None }
}

fn packed(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
    encoding: Encoding,
) -> Option<Spanned<Content>> {
    // Of digits alone it would be a number to YAML, and is base64 all the same.
    let text = match cursor.scalar() {
        Some((text, Value::Text | Value::Integer | Value::Float | Value::Bool(_))) => text.clone(),
        _ => return decoder.expected(cursor, "a text", ""),
    };
    let packed = Packed { encoding, text };
    let most = MAX_CONTENT.min(decoder.room());
    match packed.unpack(most) {
        Ok(bytes) => {
            decoder.take_room(bytes.len() as u64);
            Some(decoder.spanned(cursor, Content::Packed(packed)))
        }
        Err(why) => decoder.wrong(cursor, why.to_string(), why.help()),
    }
}

fn kept(decoder: &mut Decoder<'_>, cursor: Cursor<'_>, by: Keeper) -> Option<Spanned<Content>> {
    let mut fields = decoder.shaped(cursor, &shape::KEPT)?;
    let name = fields.required(decoder, "name", scalar::name);
    let key = fields.required(decoder, "key", |decoder, key| {
        let text = decoder.text(key)?;
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !text.is_empty() && text.len() <= MOST_KEY && text.chars().all(is_key) {
            Some(text)
        } else {
            decoder.wrong(
                key,
                format!("this is no key of a {}", by.kind()),
                "write a name beneath its `data`: letters, digits, `-`, `_` and `.`",
            )
        }
    });
    fields.end(decoder);
    let (name, key) = (name?.value.into(), key?);
    Some(decoder.spanned(cursor, Content::Kept(Kept { by, name, key })))
}

/// `blake3:` and 64 hexadecimal digits.
fn blob(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<Content>> {
    let text = decoder.text(cursor)?;
    let digest = text
        .strip_prefix("blake3:")
        .and_then(|digits| blake3::Hash::from_hex(digits.to_ascii_lowercase()).ok());
    match digest {
        Some(digest) => Some(decoder.spanned(cursor, Content::Blob(digest))),
        None => decoder.wrong(
            cursor,
            "this is not a digest",
            "write `blake3:` and the 64 hexadecimal digits that `b3sum` prints",
        ),
    }
}
