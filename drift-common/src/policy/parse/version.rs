//! The spec of a `PolicyVersion`.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt,
    path::PathBuf,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use semver::Version;

use super::{attribute, compare, content, reload, requirement, scalar, target, through::through};
use crate::{
    escape,
    policy::{
        AbsentSpec, Compare, Dependency, DirectorySpec, Environment, FileSpec, HardLinks, Heed,
        Mode, PolicyVersion, Principal, Redact, Severity, SymlinkSpec, Writing,
        content::LARGEST_CONTENT,
        decode::{Cursor, Decoder, Fields},
        path::{self, Unfit},
        shape,
        source::Spanned,
    },
};

pub(super) struct Spec {
    policy: Spanned<String>,
    version: Spanned<Version>,
    files: Vec<FileSpec>,
    symlinks: Vec<SymlinkSpec>,
    absent: Vec<AbsentSpec>,
    directories: Vec<DirectorySpec>,
    environment: Vec<Environment>,
    dependencies: Vec<Dependency>,
}

impl Spec {
    pub(super) fn named(self, name: Spanned<String>) -> PolicyVersion {
        let Self {
            policy,
            version,
            files,
            symlinks,
            absent,
            directories,
            environment,
            dependencies,
        } = self;
        PolicyVersion {
            name,
            policy,
            version,
            files,
            symlinks,
            absent,
            directories,
            environment,
            dependencies,
        }
    }
}

pub(super) fn spec(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spec> {
    let mut fields = decoder.shaped(cursor, &shape::VERSION_SPEC)?;
    let policy = fields.required(decoder, "policy", scalar::name);
    let version = fields.required(decoder, "version", scalar::version);
    let files = fields.optional(decoder, "files", |decoder, files| decoder.list(files, file));
    let mut symlinks = fields
        .optional(decoder, "symlinks", |decoder, symlinks| {
            decoder.list(symlinks, target::symlink)
        })
        .unwrap_or_default();
    let masks = fields.optional(decoder, "masks", |decoder, masks| {
        decoder.list(masks, target::mask)
    });
    symlinks.extend(masks.unwrap_or_default());
    let absent = fields.optional(decoder, "absent", |decoder, absent| {
        decoder.list(absent, target::absent)
    });
    let directories = fields.optional(decoder, "directories", |decoder, directories| {
        decoder.list(directories, target::directory)
    });
    let environment = fields.optional(decoder, "environment", |decoder, environment| {
        decoder.list(environment, requirement::environment)
    });
    let dependencies = fields.optional(decoder, "dependencies", |decoder, dependencies| {
        decoder.list(dependencies, requirement::dependency)
    });
    fields.end(decoder);
    Some(Spec {
        policy: policy?,
        version: version?,
        files: files.unwrap_or_default(),
        symlinks,
        absent: absent.unwrap_or_default(),
        directories: directories.unwrap_or_default(),
        environment: environment.unwrap_or_default(),
        dependencies: dependencies.unwrap_or_default(),
    })
}

fn file(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<FileSpec> {
    let mut fields = decoder.shaped(cursor, &shape::FILE)?;
    let path = declared_path(decoder, &mut fields);
    let through = through(decoder, &mut fields, path.as_ref());
    let content = fields.required(decoder, "content", |decoder, cursor| {
        content::content(decoder, cursor.private())
    });
    let mode = fields.optional(decoder, "mode", scalar::file_mode);
    let owner = owner(decoder, &mut fields);
    let group = group(decoder, &mut fields);
    let attributes = attribute::attributes(decoder, &mut fields, attribute::Owner::File, mode);
    let on_drift = on_drift(decoder, &mut fields);
    let severity = severity(decoder, &mut fields);
    let redact = fields.optional(decoder, "redact", |decoder, redact| {
        decoder.word(redact, "redaction", &Redact::ALL)
    });
    let max_size = fields.optional(decoder, "maxSize", |decoder, size| {
        scalar::size(decoder, size, LARGEST_CONTENT).map(|bytes| decoder.spanned(size, bytes))
    });
    let final_newline = fields.optional(decoder, "finalNewline", |decoder, rule| {
        decoder.word(rule, "rule", &Heed::ALL)
    });
    let line_endings = fields.optional(decoder, "lineEndings", |decoder, rule| {
        decoder.word(rule, "rule", &Heed::ALL)
    });
    let hard_links = fields.optional(decoder, "hardLinks", |decoder, rule| {
        decoder.word(rule, "rule", &HardLinks::ALL)
    });
    let write = fields.optional(decoder, "write", |decoder, way| {
        decoder.word(way, "way", &Writing::ALL)
    });
    let compare = fields.optional(decoder, "compare", compare::compare);
    let after_heal = fields.optional(decoder, "afterHeal", reload::after_heal);
    fields.end(decoder);
    Some(FileSpec {
        on_drift,
        severity,
        redact: redact.unwrap_or_default(),
        max_size,
        final_newline: final_newline.unwrap_or_default(),
        line_endings: line_endings.unwrap_or_default(),
        hard_links: hard_links.unwrap_or_default(),
        write: write.unwrap_or_default(),
        compare: compare.unwrap_or_else(|| decoder.spanned(cursor, Compare::Exact)),
        after_heal: after_heal.unwrap_or_default(),
        path: path?,
        through,
        content: content?,
        mode,
        owner,
        group,
        attributes,
    })
}

pub(super) fn owner(
    decoder: &mut Decoder<'_>,
    fields: &mut Fields<'_>,
) -> Option<Spanned<Principal>> {
    fields.optional(decoder, "owner", |decoder, owner| {
        scalar::principal(decoder, owner, "user")
    })
}

pub(super) fn group(
    decoder: &mut Decoder<'_>,
    fields: &mut Fields<'_>,
) -> Option<Spanned<Principal>> {
    fields.optional(decoder, "group", |decoder, group| {
        scalar::principal(decoder, group, "group")
    })
}

pub(super) fn on_drift(decoder: &mut Decoder<'_>, fields: &mut Fields<'_>) -> Option<Mode> {
    fields.optional(decoder, "onDrift", |decoder, mode| {
        decoder.word(mode, "mode", &Mode::ALL)
    })
}

pub(super) fn severity(decoder: &mut Decoder<'_>, fields: &mut Fields<'_>) -> Severity {
    let severity = fields.optional(decoder, "severity", |decoder, severity| {
        decoder.word(severity, "severity", &Severity::ALL)
    });
    severity.unwrap_or_default()
}

pub(super) fn declared_path(
    decoder: &mut Decoder<'_>,
    fields: &mut Fields<'_>,
) -> Option<Spanned<PathBuf>> {
    let one = fields.one_of(decoder, &["path", "pathBytes"]);
    let text = fields.optional(decoder, "path", absolute);
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

/// The absolute path of something that is not declared here.
pub(super) fn absolute(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<PathBuf>> {
    let text = decoder.text(cursor)?;
    let path = PathBuf::from(OsStr::new(&*text));
    fit(decoder, cursor, path::check_declared(&path))?;
    Some(decoder.spanned(cursor, path))
}

/// Says why a path cannot be taken.
pub(super) fn fit(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
    checked: Result<(), Unfit>,
) -> Option<()> {
    match checked {
        Ok(()) => Some(()),
        Err(Unfit { message, help }) => decoder.wrong(cursor, message, help),
    }
}
