//! A path that no policy declares: which rule holds for it all the same.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use drift_common::{escape, policy::closest};
use serde_json::{Value, json};

use super::Explanation;
use crate::{
    declare::{Declared, Exhaustive, Snapshot, Target},
    report::{path_bytes, shown},
};

/// Declared paths nearby that are named.
const NEAREST: usize = 3;

/// What an exhaustive directory says of a name in it.
enum Rule<'s> {
    /// This pattern of its `ignore` matches.
    Ignored(&'s str),
    /// On the way to a declared path, or the name that a file has for a moment while it is healed.
    Belongs,
    /// It may not be there.
    Unexpected { removes: bool },
    /// The directory is declared, and what is in it is left alone.
    LeftAlone,
    /// Its parent is not what it would have to be.
    Beneath,
}

/// Explains it.
pub(super) fn explain(snapshot: &Snapshot, path: &Path) -> Explanation {
    let above = above(snapshot, path);
    let rule = above.map(|above| (above, rule(above, path)));
    let nearest = nearest(snapshot, path);
    let asked = shown(path);
    let meant = meant(snapshot, path);

    let mut value = json!({
        "path": asked,
        "is_declared": false,
        "nearest": nearest.iter().map(|file| shown(&file.path)).collect::<Vec<_>>(),
    });
    if let Some(bytes) = path_bytes(path) {
        value["path_bytes"] = bytes.into();
    }
    if let Some((above, rule)) = &rule {
        value["covered_by"] = covered(above, rule);
    }
    let mut text = format!("no policy declares {asked}\n\n");
    match &rule {
        Some((above, rule)) => text.push_str(&words(above, rule, path)),
        None => text.push_str("  nothing above it is declared either: it is never looked at\n"),
    }
    if let Some(meant) = &meant {
        value["did_you_mean"] = meant.as_str().into();
        text.push_str(&format!("  did you mean {meant}?\n"));
    } else if rule.is_none() && !nearest.is_empty() {
        text.push_str("  nearest:\n");
        for file in nearest {
            text.push_str(&format!("    {}   ({})\n", shown(&file.path), place(file)));
        }
    }
    Explanation {
        value,
        text,
        status: 0,
    }
}

/// The declared path in the same directory that somebody who mistyped its name may have meant.
fn meant(snapshot: &Snapshot, path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let beside = snapshot
        .files
        .iter()
        .filter(|file| file.path.parent() == path.parent());
    let names = beside.filter_map(|file| file.path.file_name()?.to_str());
    let meant = closest(name, names)?;
    Some(shown(&path.with_file_name(meant)).into_owned())
}

/// The innermost declared path above it.
fn above<'s>(snapshot: &'s Snapshot, path: &Path) -> Option<&'s Declared> {
    path.ancestors().skip(1).find_map(|above| {
        let found = snapshot
            .files
            .binary_search_by(|file| file.path.as_path().cmp(above));
        found.ok().map(|index| &*snapshot.files[index])
    })
}

fn rule<'s>(above: &'s Declared, path: &Path) -> Rule<'s> {
    // What of it is in the directory itself.
    let name = path.strip_prefix(&above.path).ok();
    let name = name.and_then(|beneath| beneath.iter().next());
    match (&above.target, name) {
        (Target::Directory(Some(exhaustive)), Some(name)) => in_exhaustive(exhaustive, name),
        (Target::Directory(_), _) => Rule::LeftAlone,
        (Target::File(_) | Target::Symlink(_) | Target::Absent, _) => Rule::Beneath,
    }
}

fn in_exhaustive<'s>(exhaustive: &'s Exhaustive, name: &OsStr) -> Rule<'s> {
    if exhaustive.declared.contains(name) {
        return Rule::Belongs;
    }
    match exhaustive.ignore.matching(name) {
        Some(pattern) => Rule::Ignored(pattern),
        None => Rule::Unexpected {
            removes: exhaustive.removes,
        },
    }
}

fn place(declared: &Declared) -> String {
    let policy = &declared.policy;
    format!(
        "{} {}, {}",
        escape::printable(&policy.name),
        escape::printable(&policy.version),
        declared.at
    )
}

fn covered(above: &Declared, rule: &Rule<'_>) -> Value {
    let mut value = json!({
        "path": shown(&above.path),
        "policy": above.policy.name,
        "version": above.policy.version,
        "declared_at": above.at.to_string(),
        "rule": match rule {
            Rule::Ignored(_) => "ignored",
            Rule::Belongs => "belongs",
            Rule::Unexpected { .. } => "unexpected",
            Rule::LeftAlone => "left-alone",
            Rule::Beneath => "beneath",
        },
    });
    match rule {
        Rule::Ignored(pattern) => value["pattern"] = (*pattern).into(),
        Rule::Unexpected { removes } => value["removes"] = (*removes).into(),
        Rule::Belongs | Rule::LeftAlone | Rule::Beneath => {}
    }
    value
}

fn words(above: &Declared, rule: &Rule<'_>, path: &Path) -> String {
    let directory = shown(&above.path);
    let place = place(above);
    let beneath = path.strip_prefix(&above.path).unwrap_or(path);
    let name = beneath.iter().next().unwrap_or_default();
    let name = escape::bytes(name.as_bytes());
    let deeper = if beneath.iter().count() > 1 {
        "; of what is in that nothing is said"
    } else {
        ""
    };
    match rule {
        Rule::Ignored(pattern) => format!(
            "  {directory} is exhaustive ({place})\n  {name} may be in it: the pattern {} of its `ignore` matches{deeper}\n",
            escape::name(pattern)
        ),
        Rule::Belongs => format!(
            "  {directory} is exhaustive ({place})\n  {name} may be in it: it is on the way to a declared path{deeper}\n"
        ),
        Rule::Unexpected { removes } => format!(
            "  {directory} is exhaustive ({place})\n  {name} may not be in it: if it is there it is reported as unexpected, and {}\n",
            if *removes {
                "removed by healing (`onUnexpected: remove`); a directory only when it is empty"
            } else {
                "stays (`onUnexpected: report`)"
            }
        ),
        Rule::LeftAlone => {
            format!("  {directory} is declared ({place}), and what is in it is left alone\n")
        }
        Rule::Beneath => format!(
            "  {directory} is declared as something that is no directory ({place}): nothing can be beneath it\n"
        ),
    }
}

/// Declared paths that share the most of their way with it.
fn nearest<'s>(snapshot: &'s Snapshot, path: &Path) -> Vec<&'s Declared> {
    let shared = |file: &Declared| {
        let both = file.path.iter().zip(path.iter());
        both.take_while(|(one, other)| one == other).count()
    };
    let mut files: Vec<(usize, &Declared)> = snapshot
        .files
        .iter()
        .map(|file| (shared(file), &**file))
        // The root alone is no neighbourhood.
        .filter(|(shared, _)| *shared > 1)
        .collect();
    files.sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.path.cmp(&b.path)));
    files.truncate(NEAREST);
    files.into_iter().map(|(_, file)| file).collect()
}
