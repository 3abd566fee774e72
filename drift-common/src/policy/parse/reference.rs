//! The spec of a `PolicyVersionRef`.

use semver::Version;

use super::scalar;
use crate::{
    escape,
    policy::{
        End, PolicyVersionRef,
        decode::{Cursor, Decoder},
        shape::{self, MOST_NAMED, MOST_NAMESPACES},
        source::Spanned,
    },
};

pub(super) struct Spec {
    policy: Spanned<String>,
    versions: Vec<Spanned<Version>>,
    end: End,
}

impl Spec {
    pub(super) fn named(self, name: Spanned<String>) -> PolicyVersionRef {
        let Self {
            policy,
            versions,
            end,
        } = self;
        PolicyVersionRef {
            name,
            policy,
            versions,
            end,
        }
    }
}

pub(super) fn spec(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spec> {
    let mut fields = decoder.shaped(cursor, &shape::REFERENCE)?;
    let policy = fields.required(decoder, "policy", scalar::name);
    let versions = fields.optional(decoder, "versions", |decoder, versions| {
        let named = decoder.list(versions, scalar::version)?;
        some(decoder, versions, named, MOST_NAMED)
    });
    let one = fields.one_of(decoder, &["from", "to"]);
    let from = fields.optional(decoder, "from", from);
    let to = fields.optional(decoder, "to", to);
    fields.end(decoder);
    Some(Spec {
        policy: policy?,
        versions: versions.unwrap_or_default(),
        end: from.or(to).filter(|_| one)?,
    })
}

fn from(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<End> {
    let mut fields = decoder.shaped(cursor, &shape::REFERENCE_FROM)?;
    let namespace = fields.required(decoder, "namespace", namespace);
    let policy = fields.optional(decoder, "policy", scalar::name);
    fields.end(decoder);
    Some(End::From {
        namespace: namespace?,
        policy,
    })
}

fn to(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<End> {
    let mut fields = decoder.shaped(cursor, &shape::REFERENCE_TO)?;
    let namespaces = fields.required(decoder, "namespaces", |decoder, namespaces| {
        let named = decoder.list(namespaces, namespace)?;
        some(decoder, namespaces, named, MOST_NAMESPACES)
    });
    fields.end(decoder);
    Some(End::To {
        namespaces: namespaces?,
    })
}

/// At least one, and at most so many.
fn some<T>(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
    items: Vec<T>,
    most: u32,
) -> Option<Vec<T>> {
    if items.is_empty() || items.len() > most as usize {
        return decoder.wrong(
            cursor,
            format!("{} of them", items.len()),
            format!("there can be 1 to {most}"),
        );
    }
    Some(items)
}

/// The name of a namespace: one without dots.
fn namespace(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<String>> {
    let text = decoder.text(cursor)?;
    if !scalar::is_name(&text) || text.contains('.') || text.len() > 63 {
        return decoder.wrong(
            cursor,
            format!("{} cannot be a namespace", escape::name(&text)),
            "a namespace has lower-case letters, digits and `-`, a letter or digit at both ends, and at most 63 of them",
        );
    }
    Some(decoder.spanned(cursor, text.to_string()))
}
