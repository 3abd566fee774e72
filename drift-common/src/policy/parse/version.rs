//! The spec of a `PolicyVersion`.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use semver::Version;

use super::scalar;
use crate::{
    escape,
    policy::{
        Content, FileSpec, PolicyVersion,
        decode::{Cursor, Decoder, Fields},
        path::{self, Unfit},
        source::Spanned,
        tree::Value,
    },
};

pub(super) struct Spec {
    policy: Spanned<String>,
    version: Spanned<Version>,
    files: Vec<FileSpec>,
}

impl Spec {
    pub(super) fn named(self, name: Spanned<String>) -> PolicyVersion {
        let Self {
            policy,
            version,
            files,
        } = self;
        PolicyVersion {
            name,
            policy,
            version,
            files,
        }
    }
}

pub(super) fn spec(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spec> {
    let mut fields = decoder.fields(cursor, "a mapping with policy, version and files")?;
    let policy = fields.required(decoder, "policy", scalar::name);
    let version = fields.required(decoder, "version", scalar::version);
    let files = fields.optional(decoder, "files", |decoder, files| decoder.list(files, file));
    fields.end(decoder);
    Some(Spec {
        policy: policy?,
        version: version?,
        files: files.unwrap_or_default(),
    })
}

fn file(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<FileSpec> {
    let mut fields = decoder.fields(cursor, "a mapping with path and content")?;
    let path = declared_path(decoder, &mut fields);
    let content = fields.required(decoder, "content", |decoder, cursor| {
        content(decoder, cursor.private())
    });
    let mode = fields.optional(decoder, "mode", scalar::file_mode);
    let owner = fields.optional(decoder, "owner", |decoder, owner| {
        scalar::principal(decoder, owner, "user")
    });
    let group = fields.optional(decoder, "group", |decoder, group| {
        scalar::principal(decoder, group, "group")
    });
    fields.end(decoder);
    Some(FileSpec {
        path: path?,
        content: content?,
        mode,
        owner,
        group,
    })
}

fn declared_path(decoder: &mut Decoder<'_>, fields: &mut Fields<'_>) -> Option<Spanned<PathBuf>> {
    let one = fields.one_of(decoder, &["path", "pathBytes"]);
    let text = fields.optional(decoder, "path", |decoder, cursor| {
        let text = decoder.text(cursor)?;
        let path = PathBuf::from(OsStr::new(&*text));
        fit(decoder, cursor, path::check_declared(&path))?;
        Some(decoder.spanned(cursor, path))
    });
    let bytes = fields.optional(decoder, "pathBytes", |decoder, cursor| {
        let text = decoder.text(cursor)?;
        let Ok(bytes) = STANDARD.decode(&*text) else {
            let message = format!("{} is not base64", escape::name(&text));
            return decoder.wrong(
                cursor,
                message,
                "a path that is UTF-8 is written as `path`; for the base64 of others: base64 -w0",
            );
        };
        let path = PathBuf::from(OsString::from_vec(bytes));
        fit(decoder, cursor, path::check_declared(&path))?;
        Some(decoder.spanned(cursor, path))
    });
    if one { text.or(bytes) } else { None }
}

fn content(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<Content>> {
    let mut fields = decoder.fields(cursor, "a mapping with `inline` or `file`")?;
    let one = fields.one_of(decoder, &["inline", "file"]);
    let inline = fields.optional(decoder, "inline", |decoder, inline| {
        if let Some((_, Value::Null)) = inline.scalar() {
            return decoder.expected(inline, "a text", "an empty file is written `inline: \"\"`");
        }
        decoder
            .text(inline)
            .map(|text| decoder.spanned(inline, Content::Inline(text)))
    });
    let file = fields.optional(decoder, "file", |decoder, file| {
        let text = decoder.text(file)?;
        let path = Path::new(&*text);
        fit(decoder, file, path::check_beneath(path))?;
        Some(decoder.spanned(file, Content::File(path.to_owned())))
    });
    fields.end(decoder);
    if one { inline.or(file) } else { None }
}

/// Says why a path cannot be taken.
fn fit(decoder: &mut Decoder<'_>, cursor: Cursor<'_>, checked: Result<(), Unfit>) -> Option<()> {
    match checked {
        Ok(()) => Some(()),
        Err(Unfit { message, help }) => decoder.wrong(cursor, message, help),
    }
}
