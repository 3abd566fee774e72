//! A path that a policy declares.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use drift_common::escape;
use drift_common::policy::WindowKind;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::{Explanation, kept::OfPath};
use crate::{
    cli::{
        check::status,
        difference::{Difference, mode, side},
    },
    compare::{Drift, attribute::out_of_reach, structured::EditError},
    declare::{Compare, Declared, Guard, MassDrift, Mode, Names, Snapshot, Target},
    heal::{Action, healable, plan},
    lint,
    observe::Host,
    pipeline::{declared_side, observed_side},
    report::{FileType, State, shown},
};

/// What healing would do.
enum Plan {
    /// It is as declared.
    Nothing,
    /// What differs is not healed, and why.
    Leave(&'static str),
    Do(Action),
    /// It cannot: a short name, and a sentence.
    Cannot(&'static str, String),
}

/// Explains it. `policies` is the folder as the user named it.
pub(super) fn explain(
    snapshot: &Snapshot,
    declared: &Declared,
    host: &Host,
    names: &Names,
    policies: &Path,
    kept: &OfPath<'_>,
) -> Explanation {
    let now = SystemTime::now();
    let difference = Difference::look(host, declared);
    let plan = planned(&difference);
    let (number, of) = number(snapshot, declared);
    let weak = weak(host, declared, names);
    let mut value = difference.value(names);
    value["is_declared"] = true.into();
    value["number"] = number.into();
    value["of"] = of.into();
    value["on_drift"] = declared.on_drift.name().into();
    value["severity"] = declared.severity.name().into();
    value["plan"] = plan.value(declared);
    value["guard"] = guard_value(&declared.policy.guard);
    value["kept"] = kept.value(now);
    value["warnings"] = weak.clone().into();
    Explanation {
        text: text(
            &difference,
            &plan,
            (number, of),
            names,
            policies,
            &[
                kept.lines(now),
                weak.iter().map(|weak| ("warning", weak.clone())).collect(),
            ]
            .concat(),
        ),
        status: status(difference.compared.drifts.iter()),
        value,
    }
}

/// Who may write the file and is not root; which processes of root have it open is looked for where there is somebody.
fn weak(host: &Host, declared: &Declared, names: &Names) -> Vec<String> {
    let weaknesses = lint::weaknesses(host, declared);
    if weaknesses.is_empty() {
        return Vec::new();
    }
    let readers = lint::readers_of_root(host, declared);
    let each = weaknesses.iter();
    each.map(|weak| weak.sentence(names, &readers)).collect()
}

/// The how many-th path of its policy it is, in the order in which they are declared.
fn number(snapshot: &Snapshot, declared: &Declared) -> (usize, usize) {
    fn place(file: &Declared) -> (&Path, u32, u32) {
        (&file.at.file, file.at.line, file.at.column)
    }
    let of_policy = snapshot
        .files
        .iter()
        .filter(|file| file.policy.name == declared.policy.name);
    let before = of_policy
        .clone()
        .filter(|file| place(file) < place(declared));
    (before.count() + 1, of_policy.count())
}

fn planned(difference: &Difference<'_>) -> Plan {
    let Difference {
        declared,
        observed,
        compared,
    } = difference;
    if difference.is_none() {
        return Plan::Nothing;
    }
    let drifts = healable(declared, &compared.drifts, out_of_reach(declared, observed));
    if drifts.is_empty() {
        return Plan::Leave(if compared.drifts.contains(&Drift::Unexpected) {
            "what nobody declared stays where it is: `onUnexpected: remove` would say otherwise"
        } else if compared.drifts.contains(&Drift::Hardlinked) {
            "which of its names is the one too many, nobody has said"
        } else if compared.drifts.contains(&Drift::Xattr) {
            "its file system does not have what is declared"
        } else {
            "it says what is declared, and is left as it is written"
        });
    }
    let action = match plan(declared, &drifts, &observed.found) {
        Ok(action) => action,
        Err(why) => return Plan::Cannot(why.reason(), why.sentence().to_owned()),
    };
    if let (Action::Edit, Target::File(content)) = (&action, &declared.target)
        && let (Some(meaning), Some(held)) = (&content.meaning, &observed.held)
        && let Err(error) = meaning.edit(held.bytes())
    {
        let sentence = match &error {
            EditError::Observed(_) => {
                "what is there does not parse, and only its other writers can put it right"
                    .to_owned()
            }
            other => other.to_string(),
        };
        return Plan::Cannot(error.reason(), sentence);
    }
    Plan::Do(action)
}

impl Plan {
    fn value(&self, declared: &Declared) -> Value {
        match self {
            Plan::Nothing => Value::Null,
            Plan::Leave(why) => json!({"action": "none", "words": why}),
            Plan::Do(action) => {
                let mut value = json!({"action": action.name(), "words": action.words(declared)});
                if let Action::Clear(names) = action {
                    let names = names.iter();
                    let names = names.map(|name| shown(Path::new(name)).into_owned());
                    value["names"] = names.collect();
                }
                value
            }
            Plan::Cannot(reason, words) => {
                json!({"action": "none", "reason": reason, "words": words})
            }
        }
    }

    fn words(&self, declared: &Declared) -> Option<(&'static str, String)> {
        match self {
            Plan::Nothing => None,
            Plan::Leave(why) => Some(("would do", format!("nothing: {why}"))),
            Plan::Do(action) => Some(("would do", action.words(declared))),
            Plan::Cannot(reason, words) => Some(("cannot", format!("{words} ({reason})"))),
        }
    }
}

fn text(
    difference: &Difference<'_>,
    plan: &Plan,
    (number, of): (usize, usize),
    names: &Names,
    policies: &Path,
    kept: &[(&str, String)],
) -> String {
    let Difference {
        declared, observed, ..
    } = difference;
    let path = shown(&declared.path);
    let policy = &declared.policy;
    let mut text = match difference.compared.drifts.as_slice() {
        [] => format!("{path} is as declared\n"),
        [Drift::ContentEquivalent] => {
            format!("{path} says what is declared, written in another way\n")
        }
        _ => format!("{path} is NOT as declared: {}\n", difference.kinds()),
    };
    text.push('\n');
    let mut say = |what: &str, words: &str| text.push_str(&entry(what, words));
    say(
        "declared",
        &format!(
            "by {} {}, path {number} of {of} ({})",
            escape::printable(&policy.name),
            escape::printable(&policy.version),
            declared.at
        ),
    );
    say("", &told(&declared_side(declared), names));
    say("on disk", &told(&observed_side(observed), names));
    for (index, link) in declared.links().iter().enumerate() {
        let what = if index == 0 { "through" } else { "" };
        let [path, target] = [&*link.path, Path::new(&link.target)].map(shown);
        say(what, &format!("{path}, which must hold {target}"));
    }
    for (what, words) in rules(declared) {
        say(what, &words);
    }
    let whose = if declared.on_drift == policy.mode {
        "as its policy says"
    } else {
        "as its own `onDrift` says"
    };
    say(
        "on drift",
        &format!("{}, {whose}", declared.on_drift.name()),
    );
    if declared.on_drift == Mode::Heal {
        for line in guard(&policy.guard) {
            say("", &line);
        }
    }
    for (what, words) in kept {
        say(what, words);
    }
    if let Some((what, words)) = plan.words(declared) {
        say(what, &words);
        if declared.on_drift == Mode::Observe && matches!(plan, Plan::Do(_)) {
            say(
                "",
                "but watches only: `onDrift: heal`, or `mode: heal` in its policy, would have it done",
            );
        }
    }
    let lines = difference.lines(names);
    if !lines.is_empty() {
        text.push('\n');
    }
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    let folder = escape::path(policies);
    let next = match (plan, declared.on_drift) {
        (Plan::Do(_), Mode::Heal) => {
            Some(format!("Heal: sudo drift-agent run --policies {folder}"))
        }
        (Plan::Do(_), Mode::Observe) => Some(format!(
            "Heal all the same: sudo drift-agent run --policies {folder} --mode heal"
        )),
        (Plan::Nothing | Plan::Leave(_) | Plan::Cannot(..), _) => None,
    };
    if let Some(next) = next {
        text.push_str(&format!("\n{next}\n"));
    }
    text
}

/// What holds healing back, each in a sentence.
fn guard(guard: &Guard) -> Vec<String> {
    let Guard {
        backoff,
        per_minute,
        mass_drift,
        fight,
        windows,
    } = guard;
    let mut lines = Vec::new();
    if !backoff.first.is_zero() {
        lines.push(format!(
            "after a heal it is left alone for {:?}, after each in a row {} times longer, at most {:?} (guard.backoff)",
            backoff.first, backoff.factor, backoff.cap
        ));
    }
    lines.extend(fight.as_ref().map(|fight| {
        format!(
            "after {} heals within {:?} against one program it is left alone for {:?} (guard.fight)",
            fight.heals, fight.within, fight.hold
        )
    }));
    lines.extend(
        per_minute.map(|most| {
            format!("at most {most} heals of its policy in any minute (guard.perMinute)")
        }),
    );
    lines.push(match mass_drift {
        MassDrift::Hold => {
            "not where the first look finds most of its policy drifted (guard.massDrift)".to_owned()
        }
        MassDrift::Heal => {
            "however much of its policy the first look finds drifted (guard.massDrift)".to_owned()
        }
    });
    lines.extend(windows.iter().map(|window| {
        let only = match window.kind {
            WindowKind::Allow => "only",
            WindowKind::Deny => "not",
        };
        let days: Vec<&str> = window.days.names().collect();
        format!(
            "{only} from {} to {} {}, beginning on {} (guard.windows)",
            window.from,
            window.to,
            window.zone.value,
            days.join(", ")
        )
    }));
    lines
}

/// The same for programs, as policies write it; durations in milliseconds.
fn guard_value(guard: &Guard) -> Value {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let Guard {
        backoff,
        per_minute,
        mass_drift,
        fight,
        windows,
    } = guard;
    json!({
        "backoff": {"first_ms": millis(backoff.first), "factor": backoff.factor, "cap_ms": millis(backoff.cap)},
        "fight": fight.as_ref().map(|fight| {
            json!({"heals": fight.heals, "within_ms": millis(fight.within), "hold_ms": millis(fight.hold)})
        }),
        "per_minute": per_minute,
        "mass_drift": mass_drift.name(),
        "windows": windows.iter().map(|window| json!({
            "kind": window.kind.name(),
            "days": window.days.names().collect::<Vec<_>>(),
            "from": window.from.to_string(),
            "to": window.to.to_string(),
            "time_zone": window.zone.value,
        })).collect::<Vec<_>>(),
    })
}

/// `file  blake3:9af1c0d5…  14 bytes  0644 root:root`.
fn told(state: &State, names: &Names) -> String {
    let mut parts = Vec::new();
    parts.extend(state.file_type.map(|known| known.name().to_owned()));
    // Of what is no file the size says how its file system keeps it.
    if state.file_type == Some(FileType::File) {
        parts.push(side(state));
    }
    let owner = match (state.uid, state.gid) {
        (None, None) => String::new(),
        (uid, gid) => format!(
            "{}:{}",
            uid.map(|uid| names.shown_user(uid)).unwrap_or_default(),
            gid.map(|gid| names.shown_group(gid)).unwrap_or_default()
        ),
    };
    parts.push(state.mode.map(mode).unwrap_or_default());
    parts.push(owner);
    parts.retain(|part| !part.is_empty() && part != "-");
    if parts.is_empty() {
        return "-".to_owned();
    }
    parts.join("  ")
}

/// `what`, and words behind it, which go on under their beginning where a terminal ends.
fn entry(what: &str, words: &str) -> String {
    /// What a terminal is taken to have.
    const COLUMNS: usize = 100;
    const INDENT: usize = 13;
    let mut text = format!("  {what:10} ");
    let mut column = INDENT;
    for word in words.split(' ') {
        let width = word.width();
        if column > INDENT && column + 1 + width > COLUMNS {
            text.push_str(&format!("\n{:INDENT$}", ""));
            column = INDENT;
        } else if column > INDENT {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.push('\n');
    text
}

/// What counts as the same, where that is not the bytes; what may be in a directory.
fn rules(declared: &Declared) -> Vec<(&'static str, String)> {
    let content = match &declared.target {
        Target::File(content) => content,
        Target::Directory(Some(exhaustive)) => {
            let patterns = exhaustive.ignore.patterns().iter();
            let patterns: Vec<_> = patterns
                .map(|pattern| escape::name(pattern).to_string())
                .collect();
            let ignored = if patterns.is_empty() {
                String::new()
            } else {
                format!(", and names that {} matches", patterns.join(" or "))
            };
            return vec![("in it", format!("only what is declared{ignored}"))];
        }
        Target::Directory(None) | Target::Symlink(_) | Target::Absent => return Vec::new(),
    };
    let Compare::Structured(rules) = &content.compare else {
        return Vec::new();
    };
    let list = |what: &str, pointers: &[String]| {
        let shown: Vec<String> = pointers
            .iter()
            .map(|pointer| escape::name(pointer).to_string())
            .collect();
        (!shown.is_empty()).then(|| ("", format!("{what} {}", shown.join(", "))))
    };
    let mut said = vec![(
        "compared",
        format!("as {}, by what it says", rules.format.name()),
    )];
    said.extend(list(
        "only these, the rest belongs to others:",
        rules.manage.as_deref().unwrap_or_default(),
    ));
    said.extend(list("without", &rules.ignore));
    said.extend(list("in any order:", &rules.sets));
    said
}
