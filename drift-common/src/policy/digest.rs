//! What a version is, in one spelling: the same for the same meaning, whoever wrote it, and however.

use std::{collections::BTreeMap, os::unix::ffi::OsStrExt, path::PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::{
    AbsentSpec, Acl, Attributes, Compare, Dependency, DirectorySpec, Environment, Exhaustive,
    FileSpec, FinalNewline, HardLinks, Mode, OnUnexpected, PolicyVersion, Principal, Redact, Rules,
    Severity, Spanned, SymlinkSpec, Through, Wanted,
    compare::{Absence, Equal, Format, Keys, word},
    render,
};

/// Raised when the canonical form of the same version becomes another.
const FORM: u32 = 1;

impl PolicyVersion {
    /// What this version is: BLAKE3 of its canonical form. `contents` are the digests of its files' contents, in the order of `files`.
    #[must_use]
    pub fn digest(&self, contents: &[blake3::Hash]) -> blake3::Hash {
        blake3::hash(canonical(self, contents).as_bytes())
    }
}

/// The canonical form of a version: JSON on one line without white space, keys sorted, what has its default left out, files by their
/// path, contents by their digest. `contents` are those digests, in the order of `files`.
#[must_use]
pub fn canonical(version: &PolicyVersion, contents: &[blake3::Hash]) -> String {
    debug_assert_eq!(version.files.len(), contents.len());
    let mut files: Vec<(&FileSpec, &blake3::Hash)> = version.files.iter().zip(contents).collect();
    files.sort_by(|(a, _), (b, _)| a.path.value.as_os_str().cmp(b.path.value.as_os_str()));
    // Build metadata has no part in what a version is.
    let mut number = version.version.value.clone();
    number.build = semver::BuildMetadata::EMPTY;
    let mut dependencies: Vec<Needed<'_>> = version.dependencies.iter().map(dependency).collect();
    dependencies.sort_by(|a, b| a.policy.cmp(b.policy));
    let mut environment: Vec<Process<'_>> =
        version.environment.iter().map(environment_of).collect();
    environment.sort_by(|a, b| a.process.cmp(&b.process));
    let absent = by_path(&version.absent, |absent| &absent.path).into_iter();
    let directories = by_path(&version.directories, |directory| &directory.path).into_iter();
    let symlinks = by_path(&version.symlinks, |link| &link.path).into_iter();
    let form = Version {
        absent: absent.map(Path::absent).collect(),
        directories: directories.map(Path::directory).collect(),
        symlinks: symlinks.map(Path::symlink).collect(),
        dependencies,
        environment,
        files: files
            .into_iter()
            .map(|(spec, digest)| file(spec, digest))
            .collect(),
        form: FORM,
        policy: &version.policy.value,
        version: number.to_string(),
    };
    // Texts, numbers and lists of them: there is nothing that has no JSON form.
    serde_json::to_string(&form).unwrap_or_default()
}

// The fields of all of these are in the order of their names.

#[derive(Serialize)]
struct Version<'v> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    absent: Vec<Path<'v>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dependencies: Vec<Needed<'v>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    directories: Vec<Path<'v>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    environment: Vec<Process<'v>>,
    files: Vec<File<'v>>,
    form: u32,
    policy: &'v str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    symlinks: Vec<Path<'v>>,
    version: String,
}

/// What can be said of a path that is no file.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Path<'v> {
    #[serde(skip_serializing_if = "Option::is_none")]
    acl: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_acl: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exhaustive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Id<'v>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignore: Vec<&'v str>,
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
    selinux: Option<&'v str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'v str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    through: Vec<Link<'v>>,
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

    fn absent(absent: &'v AbsentSpec) -> Self {
        Self {
            through: through(absent.through.as_ref()),
            ..Self::new(&absent.path, absent.on_drift, absent.severity)
        }
    }

    fn symlink(link: &'v SymlinkSpec) -> Self {
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

    fn directory(directory: &'v DirectorySpec) -> Self {
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
}

/// The base64 of a path that is not UTF-8.
fn bytes(path: &std::path::Path) -> Option<String> {
    let encode = || STANDARD.encode(path.as_os_str().as_bytes());
    path.to_str().is_none().then(encode)
}

/// `specs` by their paths.
fn by_path<T>(specs: &[T], path: impl Fn(&T) -> &Spanned<PathBuf>) -> Vec<&T> {
    let mut specs: Vec<&T> = specs.iter().collect();
    specs.sort_by(|a, b| path(a).value.as_os_str().cmp(path(b).value.as_os_str()));
    specs
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'v> {
    #[serde(skip_serializing_if = "Option::is_none")]
    acl: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after_heal: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compare: Option<Comparison<'v>>,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_newline: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Id<'v>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hard_links: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_drift: Option<&'static str>,
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    through: Vec<Link<'v>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    xattrs: BTreeMap<&'v str, Option<String>>,
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

#[derive(Serialize)]
struct Process<'v> {
    process: String,
    variables: Vec<Variable<'v>>,
}

#[derive(Serialize)]
struct Variable<'v> {
    name: &'v str,
    /// `null`: it must not be set.
    value: Option<&'v str>,
}

#[derive(Serialize)]
struct Needed<'v> {
    policy: &'v str,
    version: String,
}

fn file<'v>(spec: &'v FileSpec, digest: &blake3::Hash) -> File<'v> {
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
        hard_links,
        compare,
        after_heal,
    } = spec;
    File {
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
        content: format!("blake3:{digest}"),
        final_newline: (*final_newline != FinalNewline::default()).then(|| final_newline.name()),
        group: group.as_ref().map(id),
        hard_links: (*hard_links != HardLinks::default()).then(|| hard_links.name()),
        max_size: max_size.as_ref().map(|size| size.value),
        mode: mode.map(|mode| format!("{mode:04o}")),
        on_drift: on_drift.map(Mode::name),
        owner: owner.as_ref().map(id),
        path: path.value.to_str(),
        path_bytes: bytes(&path.value),
        redact: (*redact != Redact::default()).then(|| redact.name()),
        severity: (*severity != Severity::default()).then(|| severity.name()),
        through: through(links.as_ref()),
    }
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

fn environment_of(environment: &Environment) -> Process<'_> {
    let variables = environment.variables.iter().map(|variable| Variable {
        name: &variable.name.value,
        value: variable.value.as_deref(),
    });
    let mut variables: Vec<Variable<'_>> = variables.collect();
    variables.sort_by_key(|variable| variable.name);
    Process {
        process: environment.process.value.to_string_lossy().into_owned(),
        variables,
    }
}

fn dependency(dependency: &Dependency) -> Needed<'_> {
    Needed {
        policy: &dependency.policy.value,
        version: dependency.version.to_string(),
    }
}
