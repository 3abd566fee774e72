//! What counts as the same content.

use crate::{
    escape,
    policy::{
        compare::{Absence, Compare, Equal, Format, Keys, Rules},
        decode::{Cursor, Decoder},
        shape,
        source::Spanned,
        tree::Value,
    },
};

pub(super) fn compare(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<Compare>> {
    if let Some((_, Value::Text)) = cursor.scalar() {
        let word = decoder.word(cursor, "comparison", &[("exact", ())]);
        return word.map(|()| decoder.spanned(cursor, Compare::Exact));
    }
    let mut fields = decoder.shaped(cursor, &shape::COMPARE)?;
    let format = fields.required(decoder, "format", |decoder, format| {
        decoder.word(format, "format", &Format::ALL)
    });
    let sets = fields.optional(decoder, "sets", pointers);
    let ignore = fields.optional(decoder, "ignore", pointers);
    let equal = fields.optional(decoder, "equal", |decoder, list| decoder.list(list, equal));
    let given = fields.has("manage");
    let manage = fields.optional(decoder, "manage", pointers);
    let absent = fields.optional(decoder, "absent", |decoder, absent| {
        decoder.word(absent, "rule", &Absence::ALL)
    });
    let keys = fields.optional(decoder, "keys", |decoder, keys| {
        decoder.word(keys, "rule", &Keys::ALL)
    });
    fields.end(decoder);
    if given && manage.as_ref().is_some_and(Vec::is_empty) {
        return decoder.wrong(
            cursor,
            "an empty `manage` declares nothing of the file",
            "remove it to declare all of the file, or name what is declared",
        );
    }
    let rules = Rules {
        format: format?,
        sets: sets.unwrap_or_default(),
        ignore: ignore.unwrap_or_default(),
        equal: equal.unwrap_or_default(),
        manage,
        absent: absent.unwrap_or_default(),
        keys: keys.unwrap_or_default(),
    };
    Some(decoder.spanned(cursor, Compare::Structured(Box::new(rules))))
}

fn equal(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<(String, Equal)> {
    let mut fields = decoder.shaped(cursor, &shape::EQUAL)?;
    let at = fields.required(decoder, "at", pointer);
    let equal = fields.required(decoder, "as", |decoder, equal| {
        decoder.word(equal, "rule", &Equal::ALL)
    });
    fields.end(decoder);
    Some((at?, equal?))
}

fn pointers(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Vec<String>> {
    decoder.list(cursor, pointer)
}

/// A JSON pointer (RFC 6901), perhaps with the number of a document before it.
fn pointer(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<String> {
    let text = decoder.text(cursor)?;
    let rest = match text.strip_prefix('#') {
        Some(rest) => rest.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => &text,
    };
    let mut after_tildes = rest.split('~').skip(1);
    let is_pointer = (rest.is_empty() || rest.starts_with('/'))
        && after_tildes.all(|after| after.starts_with(['0', '1']));
    if is_pointer {
        return Some(text.to_string());
    }
    let help = if rest.starts_with('/') {
        "in a key, `~` is written `~0` and `/` is written `~1`"
    } else {
        "write the keys on the way, each after a `/`, as in `/spec/ports/0`"
    };
    let message = format!("{} is not a JSON pointer", escape::name(&text));
    decoder.wrong(cursor, message, help)
}
