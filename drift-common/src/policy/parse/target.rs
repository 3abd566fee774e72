//! What can be at a path beside a file: a link, a directory, nothing.

use std::{ffi::OsStr, path::PathBuf};

use super::{
    attribute::{Owner, attributes},
    scalar,
    through::through,
    version::{declared_path, group, on_drift, owner, severity},
};
use crate::{
    escape,
    policy::{
        AbsentSpec, Attributes, DirectorySpec, Exhaustive, Globs, OnUnexpected, SymlinkSpec,
        decode::{Cursor, Decoder},
        path::MAX_PATH,
        shape,
    },
};

/// Patterns of one directory, at most.
const MAX_GLOBS: usize = 256;

pub(super) fn symlink(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<SymlinkSpec> {
    let mut fields = decoder.shaped(cursor, &shape::SYMLINK)?;
    let path = declared_path(decoder, &mut fields);
    let through = through(decoder, &mut fields, path.as_ref());
    let target = fields.required(decoder, "target", link_target);
    let owner = owner(decoder, &mut fields);
    let group = group(decoder, &mut fields);
    let attributes = attributes(decoder, &mut fields, Owner::Symlink, None);
    let on_drift = on_drift(decoder, &mut fields);
    let severity = severity(decoder, &mut fields);
    fields.end(decoder);
    Some(SymlinkSpec {
        path: path?,
        through,
        target: target?,
        owner,
        group,
        attributes,
        on_drift,
        severity,
    })
}

pub(super) fn link_target(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<PathBuf> {
    let text = decoder.text(cursor)?;
    if text.is_empty() || text.len() > MAX_PATH || text.contains('\0') {
        let message = format!("{} cannot be what a link holds", escape::name(&text));
        return decoder.wrong(cursor, message, "write it as `readlink` prints it");
    }
    Some(PathBuf::from(OsStr::new(&*text)))
}

pub(super) fn mask(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<SymlinkSpec> {
    let AbsentSpec {
        path,
        through,
        on_drift,
        severity,
    } = absent(decoder, cursor)?;
    Some(SymlinkSpec {
        path,
        through,
        target: "/dev/null".into(),
        owner: None,
        group: None,
        attributes: Attributes::default(),
        on_drift,
        severity,
    })
}

pub(super) fn absent(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<AbsentSpec> {
    let mut fields = decoder.shaped(cursor, &shape::NOTHING)?;
    let path = declared_path(decoder, &mut fields);
    let through = through(decoder, &mut fields, path.as_ref());
    let on_drift = on_drift(decoder, &mut fields);
    let severity = severity(decoder, &mut fields);
    fields.end(decoder);
    Some(AbsentSpec {
        path: path?,
        through,
        on_drift,
        severity,
    })
}

pub(super) fn directory(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<DirectorySpec> {
    let mut fields = decoder.shaped(cursor, &shape::DIRECTORY)?;
    let path = declared_path(decoder, &mut fields);
    let through = through(decoder, &mut fields, path.as_ref());
    let mode = fields.optional(decoder, "mode", scalar::file_mode);
    let owner = owner(decoder, &mut fields);
    let group = group(decoder, &mut fields);
    let attributes = attributes(decoder, &mut fields, Owner::Directory, mode);
    let exhaustive = fields.optional(decoder, "exhaustive", flag);
    let ignore = fields.optional(decoder, "ignore", globs);
    let on_unexpected = fields.optional(decoder, "onUnexpected", |decoder, cursor| {
        decoder.word(cursor, "rule", &OnUnexpected::ALL)
    });
    let on_drift = on_drift(decoder, &mut fields);
    let severity = severity(decoder, &mut fields);
    let idle = ["ignore", "onUnexpected"].map(|field| (field, fields.has(field)));
    fields.end(decoder);
    let exhaustive = if exhaustive == Some(true) {
        Some(Exhaustive {
            ignore: ignore.unwrap_or_default(),
            on_unexpected: on_unexpected.unwrap_or_default(),
        })
    } else {
        for (field, _) in idle.into_iter().filter(|(_, given)| *given) {
            let message = format!("`{field}` says something only of an exhaustive directory");
            let help = "add `exhaustive: true`, or remove it";
            let _said: Option<()> = decoder.wrong(cursor, message, help);
        }
        None
    };
    Some(DirectorySpec {
        path: path?,
        through,
        mode,
        owner,
        group,
        attributes,
        exhaustive,
        on_drift,
        severity,
    })
}

fn flag(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<bool> {
    decoder.flag(cursor)
}

fn globs(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Globs> {
    let patterns = decoder.list(cursor, |decoder, pattern| {
        let text = decoder.text(pattern)?;
        match Globs::new(vec![text.to_string()]) {
            Ok(_) => Some(text.to_string()),
            Err(why) => decoder.wrong(
                pattern,
                format!("{} is not a pattern: {why}", escape::name(&text)),
                "write the names in the directory as shells do, as in `*.bak`",
            ),
        }
    })?;
    if patterns.len() > MAX_GLOBS {
        let message = format!("more than {MAX_GLOBS} patterns");
        return decoder.wrong(cursor, message, "`*` and `{a,b}` match many names");
    }
    match Globs::new(patterns) {
        Ok(globs) => Some(globs),
        Err(why) => decoder.wrong(cursor, why, "write fewer or simpler patterns"),
    }
}
