//! One path of a version, in the canonical form.

use std::{collections::BTreeMap, os::unix::ffi::OsStrExt, path::PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::super::{
    AbsentSpec, Acl, Attributes, Compare, DirectorySpec, Exhaustive, FileSpec, HardLinks, Heed,
    Mode, OnUnexpected, Principal, Redact, Rules, Severity, Spanned, SymlinkSpec, Through, Wanted,
    Writing,
    compare::{Absence, Equal, Format, Keys, word},
    render,
};

// The fields of all of these are in the order of their names.

/// What can be said of a path.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Path<'v> {
    #[serde(skip_serializing_if = "Option::is_none")]
    acl: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after_heal: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compare: Option<Comparison<'v>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_acl: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exhaustive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_newline: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Id<'v>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hard_links: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignore: Vec<&'v str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_endings: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_drift: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_unexpected: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<Id<'v>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'v str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redact: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selinux: Option<&'v str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'v str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    through: Vec<Link<'v>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    xattrs: BTreeMap<&'v str, Option<String>>,
}

impl<'v> Path<'v> {
    fn new(path: &'v Spanned<PathBuf>, on_drift: Option<Mode>, severity: Severity) -> Self {
        Self {
            on_drift: on_drift.map(Mode::name),
            path: path.value.to_str(),
            path_bytes: bytes(&path.value),
            severity: (severity != Severity::default()).then(|| severity.name()),
            ..Self::default()
        }
    }

    pub(super) fn absent(absent: &'v AbsentSpec) -> Self {
        Self {
            through: through(absent.through.as_ref()),
            ..Self::new(&absent.path, absent.on_drift, absent.severity)
        }
    }

    pub(super) fn symlink(link: &'v SymlinkSpec) -> Self {
        Self {
            group: link.group.as_ref().map(id),
            owner: link.owner.as_ref().map(id),
            // Written as a text in the policy.
            target: link.target.to_str(),
            through: through(link.through.as_ref()),
            selinux: link.attributes.selinux.as_deref(),
            xattrs: xattrs(&link.attributes),
            ..Self::new(&link.path, link.on_drift, link.severity)
        }
    }

    pub(super) fn directory(directory: &'v DirectorySpec) -> Self {
        let exhaustive = directory.exhaustive.as_ref();
        let removes = |exhaustive: &Exhaustive| exhaustive.on_unexpected == OnUnexpected::Remove;
        Self {
            acl: access_list(&directory.attributes.acl),
            default_acl: access_list(&directory.attributes.default_acl),
            flags: directory
                .attributes
                .flags
                .map(|flags| flags.names().collect()),
            selinux: directory.attributes.selinux.as_deref(),
            xattrs: xattrs(&directory.attributes),
            through: through(directory.through.as_ref()),
            exhaustive: exhaustive.map(|_| true),
            group: directory.group.as_ref().map(id),
            ignore: exhaustive.map_or_else(Vec::new, |said| sorted(said.ignore.patterns())),
            mode: directory.mode.map(|mode| format!("{mode:04o}")),
            on_unexpected: exhaustive
                .filter(|said| removes(said))
                .map(|said| word(&OnUnexpected::ALL, &said.on_unexpected)),
            owner: directory.owner.as_ref().map(id),
            ..Self::new(&directory.path, directory.on_drift, directory.severity)
        }
    }

    pub(super) fn file(spec: &'v FileSpec, digest: &blake3::Hash) -> Self {
        let FileSpec {
            path,
            through: links,
            content: _,
            mode,
            owner,
            group,
            attributes,
            on_drift,
            severity,
            redact,
            max_size,
            final_newline,
            line_endings,
            hard_links,
            write,
            compare,
            after_heal,
        } = spec;
        Self {
            acl: access_list(&attributes.acl),
            capabilities: match &attributes.capabilities {
                Wanted::LeftAlone => None,
                Wanted::Absent => Some("none".to_owned()),
                Wanted::Present(capabilities) => Some(capabilities.to_string()),
            },
            flags: attributes.flags.map(|flags| flags.names().collect()),
            selinux: attributes.selinux.as_deref(),
            xattrs: xattrs(attributes),
            after_heal: after_heal
                .iter()
                .map(|action| render::after_heal(&action.value))
                .collect(),
            compare: match &compare.value {
                Compare::Exact => None,
                Compare::Structured(rules) => Some(comparison(rules)),
            },
            content: Some(format!("blake3:{digest}")),
            final_newline: (*final_newline != Heed::default()).then(|| final_newline.name()),
            group: group.as_ref().map(id),
            hard_links: (*hard_links != HardLinks::default()).then(|| hard_links.name()),
            line_endings: (*line_endings != Heed::default()).then(|| line_endings.name()),
            max_size: max_size.as_ref().map(|size| size.value),
            mode: mode.map(|mode| format!("{mode:04o}")),
            owner: owner.as_ref().map(id),
            redact: (*redact != Redact::default()).then(|| redact.name()),
            through: through(links.as_ref()),
            write: (*write != Writing::default()).then(|| write.name()),
            ..Self::new(path, *on_drift, *severity)
        }
    }
}

/// The base64 of a path that is not UTF-8.
fn bytes(path: &std::path::Path) -> Option<String> {
    let encode = || STANDARD.encode(path.as_os_str().as_bytes());
    path.to_str().is_none().then(encode)
}

/// A link on the way.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Link<'v> {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'v str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    target: Option<&'v str>,
}

/// A name stays a name: what its id is, is a matter of the node.
#[derive(Serialize)]
#[serde(untagged)]
enum Id<'v> {
    Number(u32),
    Name(&'v str),
}

#[derive(Serialize)]
struct Comparison<'v> {
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    equal: Vec<Same<'v>>,
    format: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignore: Vec<&'v str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manage: Option<Vec<&'v str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sets: Vec<&'v str>,
}

#[derive(Serialize)]
struct Same<'v> {
    r#as: &'static str,
    at: &'v str,
}

/// The links by their paths: where they stand on the way follows from that.
fn through(through: Option<&Through>) -> Vec<Link<'_>> {
    let mut links: Vec<_> = through.map_or(&[][..], Through::links).iter().collect();
    links.sort_by(|a, b| a.path.value.as_os_str().cmp(b.path.value.as_os_str()));
    let links = links.into_iter().map(|link| Link {
        path: link.path.value.to_str(),
        path_bytes: bytes(&link.path.value),
        // Written as a text in the policy.
        target: link.target.to_str(),
    });
    links.collect()
}

/// The entries with names as they are and ids as numbers; empty where nobody may be named beside those of the mode.
fn access_list(acl: &Wanted<Acl<Spanned<Principal>>>) -> Option<Vec<String>> {
    match acl {
        Wanted::LeftAlone => None,
        Wanted::Absent => Some(Vec::new()),
        Wanted::Present(acl) => Some(acl.entries(|who| render::principal(&who.value))),
    }
}

/// Values as base64; `null`: it must not be there.
fn xattrs(attributes: &Attributes) -> BTreeMap<&str, Option<String>> {
    let xattrs = attributes.xattrs.iter();
    xattrs
        .map(|(name, value)| {
            (
                name.as_str(),
                value.as_ref().map(|value| STANDARD.encode(value)),
            )
        })
        .collect()
}

fn id(principal: &Spanned<Principal>) -> Id<'_> {
    match &principal.value {
        Principal::Id(id) => Id::Number(*id),
        Principal::Name(name) => Id::Name(name),
    }
}

fn comparison(rules: &Rules) -> Comparison<'_> {
    let Rules {
        format,
        sets,
        ignore,
        equal,
        manage,
        absent,
        keys,
    } = rules;
    let equal = equal.iter().map(|(at, equal)| Same {
        r#as: word(&Equal::ALL, equal),
        at,
    });
    Comparison {
        absent: (*absent != Absence::default()).then(|| word(&Absence::ALL, absent)),
        // Where several fit, the first counts.
        equal: equal.collect(),
        format: word(&Format::ALL, format),
        ignore: sorted(ignore),
        keys: (*keys != Keys::default()).then(|| word(&Keys::ALL, keys)),
        manage: manage.as_deref().map(sorted),
        sets: sorted(sets),
    }
}

/// Pointers whose order says nothing.
fn sorted(pointers: &[String]) -> Vec<&str> {
    let mut sorted: Vec<&str> = pointers.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}
