//! Values on one line: `[a, b]` and `{a: b}`.

use std::os::unix::ffi::OsStrExt;

use super::{duration, scalar};
use crate::policy::{
    AfterHeal, Compare, Dependency, Environment, Rules, Signal, Variable, Whom,
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

fn path(path: &std::path::Path) -> String {
    // A path that is written as a text is UTF-8.
    scalar(&String::from_utf8_lossy(path.as_os_str().as_bytes()))
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
    }
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
