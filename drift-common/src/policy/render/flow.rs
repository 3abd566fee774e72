//! Values on one line: `[a, b]` and `{a: b}`.

use std::{os::unix::ffi::OsStrExt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{duration, scalar};
use crate::policy::{
    AbsentSpec, Acl, AfterHeal, Attributes, Compare, Dependency, DirectorySpec, Environment,
    Exhaustive, Mode, NodeSelector, OnUnexpected, Principal, Rollout, Rules, Severity, Share,
    Signal, Spanned, SymlinkSpec, Through, Variable, Wanted, Whom, Window,
    compare::{Absence, Equal, Format, Keys, word},
};

pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(", "))
}

fn map<'f>(fields: impl IntoIterator<Item = (&'f str, String)>) -> String {
    let fields: Vec<String> = fields
        .into_iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    format!("{{{}}}", fields.join(", "))
}

pub(super) fn selector(selector: &NodeSelector) -> String {
    let labels = selector.iter();
    let labels: Vec<(String, String)> = labels
        .map(|(label, value)| (scalar(label), scalar(value)))
        .collect();
    map(labels
        .iter()
        .map(|(label, value)| (label.as_str(), value.clone())))
}

pub(super) fn rollout(rollout: &Rollout) -> String {
    let share = |Share { version, weight }: &Share| {
        [
            ("version", scalar(&version.value.to_string())),
            ("weight", weight.to_string()),
        ]
    };
    match rollout {
        Rollout::Canary(canary) => map([("canary", map(share(canary)))]),
        Rollout::Arms(arms) => {
            let arms = arms
                .iter()
                .map(|(name, of)| map([("name", scalar(name))].into_iter().chain(share(of))));
            map([("arms", list(arms))])
        }
    }
}

fn path(path: &Path) -> String {
    // A path that is written as a text is UTF-8.
    scalar(&String::from_utf8_lossy(path.as_os_str().as_bytes()))
}

/// The field that gives a declared path.
fn declared(path: &Path) -> (&'static str, String) {
    match path.to_str() {
        Some(text) => ("path", scalar(text)),
        None => (
            "pathBytes",
            scalar(&STANDARD.encode(path.as_os_str().as_bytes())),
        ),
    }
}

/// The links that the way to a path may go through.
pub(super) fn through(through: &Through) -> String {
    let links = through.links().iter();
    list(links.map(|link| map([declared(&link.path.value), ("target", path(&link.target))])))
}

fn way(links: &Through) -> (&'static str, String) {
    ("through", through(links))
}

type Fields = Vec<(&'static str, String)>;

fn owners(
    fields: &mut Fields,
    owner: Option<&Spanned<Principal>>,
    group: Option<&Spanned<Principal>>,
) {
    for (what, principal) in [("owner", owner), ("group", group)] {
        fields.extend(principal.map(|principal| match &principal.value {
            Principal::Id(id) => (what, id.to_string()),
            Principal::Name(name) => (what, scalar(name)),
        }));
    }
}

/// What stands for somebody in an access list.
pub(in crate::policy) fn principal(principal: &Principal) -> String {
    match principal {
        Principal::Id(id) => id.to_string(),
        Principal::Name(name) => name.clone(),
    }
}

/// The fields of the attributes that are declared.
pub(super) fn attributes(attributes: &Attributes) -> Fields {
    let Attributes {
        xattrs,
        acl,
        default_acl,
        selinux,
        capabilities,
        flags,
    } = attributes;
    let mut fields = Vec::new();
    if !xattrs.is_empty() {
        let xattrs = xattrs.iter().map(|(name, value)| {
            let name = scalar(name);
            let value = match value {
                None => map([("absent", "true".to_owned())]),
                Some(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => scalar(text),
                    Err(_) => map([("base64", scalar(&STANDARD.encode(bytes)))]),
                },
            };
            format!("{name}: {value}")
        });
        let xattrs: Vec<String> = xattrs.collect();
        fields.push(("xattrs", format!("{{{}}}", xattrs.join(", "))));
    }
    fields.extend(access_list("acl", acl));
    fields.extend(access_list("defaultAcl", default_acl));
    fields.extend(selinux.as_ref().map(|label| ("selinux", scalar(label))));
    match capabilities {
        Wanted::LeftAlone => {}
        Wanted::Absent => fields.push(("capabilities", "none".to_owned())),
        Wanted::Present(capabilities) => {
            fields.push(("capabilities", scalar(&capabilities.to_string())));
        }
    }
    fields.extend(flags.map(|flags| ("flags", list(flags.names().map(str::to_owned)))));
    fields
}

fn access_list(
    field: &'static str,
    acl: &Wanted<Acl<Spanned<Principal>>>,
) -> Option<(&'static str, String)> {
    let entries = match acl {
        Wanted::LeftAlone => return None,
        Wanted::Absent => Vec::new(),
        Wanted::Present(acl) => acl.entries(|who| principal(&who.value)),
    };
    let entries = entries.iter().map(|entry| scalar(entry));
    Some((field, list(entries)))
}

fn said(fields: &mut Fields, on_drift: Option<Mode>, severity: Severity) {
    fields.extend(on_drift.map(|mode| ("onDrift", mode.to_string())));
    if severity != Severity::default() {
        fields.push(("severity", severity.name().to_owned()));
    }
}

pub(super) fn symlink(link: &SymlinkSpec) -> String {
    let SymlinkSpec {
        path: at,
        through,
        target,
        owner,
        group,
        attributes: other,
        on_drift,
        severity,
    } = link;
    let mut fields = vec![declared(&at.value)];
    fields.extend(through.as_ref().map(way));
    fields.push(("target", path(target)));
    owners(&mut fields, owner.as_ref(), group.as_ref());
    fields.extend(attributes(other));
    said(&mut fields, *on_drift, *severity);
    map(fields)
}

pub(super) fn absent(absent: &AbsentSpec) -> String {
    let AbsentSpec {
        path,
        through,
        on_drift,
        severity,
    } = absent;
    let mut fields = vec![declared(&path.value)];
    fields.extend(through.as_ref().map(way));
    said(&mut fields, *on_drift, *severity);
    map(fields)
}

pub(super) fn directory(directory: &DirectorySpec) -> String {
    let DirectorySpec {
        path,
        through,
        mode,
        owner,
        group,
        attributes: other,
        exhaustive,
        on_drift,
        severity,
    } = directory;
    let mut fields = vec![declared(&path.value)];
    fields.extend(through.as_ref().map(way));
    fields.extend(mode.map(|mode| ("mode", format!("\"{mode:04o}\""))));
    owners(&mut fields, owner.as_ref(), group.as_ref());
    fields.extend(attributes(other));
    if let Some(Exhaustive {
        ignore,
        on_unexpected,
    }) = exhaustive
    {
        let ignore = ignore.patterns().iter().map(|pattern| scalar(pattern));
        fields.push(("exhaustive", "true".to_owned()));
        fields.push(("ignore", list(ignore)));
        let word = word(&OnUnexpected::ALL, on_unexpected);
        fields.push(("onUnexpected", word.to_owned()));
    }
    said(&mut fields, *on_drift, *severity);
    map(fields)
}

pub(super) fn compare(compare: &Compare) -> String {
    let Compare::Structured(rules) = compare else {
        return "exact".to_owned();
    };
    let Rules {
        format,
        sets,
        ignore,
        equal,
        manage,
        absent,
        keys,
    } = &**rules;
    let pointers = |pointers: &[String]| list(pointers.iter().map(|pointer| scalar(pointer)));
    let equal = equal.iter().map(|(at, equal)| {
        let equal = word(&Equal::ALL, equal).to_owned();
        map([("at", scalar(at)), ("as", equal)])
    });
    let mut fields = vec![
        ("format", word(&Format::ALL, format).to_owned()),
        ("sets", pointers(sets)),
        ("ignore", pointers(ignore)),
        ("equal", list(equal)),
    ];
    fields.extend(manage.as_ref().map(|manage| ("manage", pointers(manage))));
    // `null` without quotes is no text.
    fields.push(("absent", scalar(word(&Absence::ALL, absent))));
    fields.push(("keys", word(&Keys::ALL, keys).to_owned()));
    map(fields)
}

pub(in crate::policy) fn after_heal(action: &AfterHeal) -> String {
    match action {
        AfterHeal::Signal { signal, to } => map([
            ("signal", word(&Signal::ALL, signal).to_owned()),
            match to {
                Whom::Unit(unit) => ("unit", scalar(unit)),
                Whom::PidFile(file) => ("pidFile", path(file)),
                Whom::Process(process) => ("process", path(process)),
            },
        ]),
        AfterHeal::Reload(unit) => map([("reload", scalar(unit))]),
        AfterHeal::Restart(unit) => map([("restart", scalar(unit))]),
        AfterHeal::Command {
            program,
            arguments,
            timeout,
        } => {
            let words = arguments.iter().map(|word| scalar(word));
            let command = list([path(program)].into_iter().chain(words));
            map([("command", command), ("timeout", duration(*timeout))])
        }
        AfterHeal::Http {
            method,
            endpoint,
            status,
            timeout,
        } => {
            let mut fields = vec![
                ("http", scalar(&endpoint.to_string())),
                ("method", method.name().to_owned()),
            ];
            fields.extend(status.map(|status| ("status", status.to_string())));
            fields.push(("timeout", duration(*timeout)));
            map(fields)
        }
    }
}

pub(super) fn window(window: &Window) -> String {
    let Window {
        kind,
        days,
        from,
        to,
        zone,
    } = window;
    map([
        ("kind", kind.name().to_owned()),
        ("days", list(days.names().map(str::to_owned))),
        ("from", scalar(&from.to_string())),
        ("to", scalar(&to.to_string())),
        ("timeZone", scalar(&zone.value)),
    ])
}

pub(super) fn environment(environment: &Environment) -> String {
    let Environment { process, variables } = environment;
    let variables = variables.iter().map(|Variable { name, value }| {
        let value = match value {
            Some(value) => ("value", scalar(value)),
            None => ("absent", "true".to_owned()),
        };
        map([("name", scalar(&name.value)), value])
    });
    map([
        ("process", path(&process.value)),
        ("variables", list(variables)),
    ])
}

pub(super) fn dependency(dependency: &Dependency) -> String {
    let Dependency { policy, version } = dependency;
    map([
        ("policy", scalar(&policy.value)),
        ("version", scalar(&version.to_string())),
    ])
}
