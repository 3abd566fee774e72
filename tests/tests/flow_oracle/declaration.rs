//! What is declared of a tree, as a policy, and what drift that means: judged from the model alone.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    model::{Body, Inode, Model, Path, Way},
    operation::{CONTENTS, IDS, MODES, Operation, TEXTS, Thing, path},
};

#[derive(Clone, Debug)]
pub enum Target {
    File {
        content: &'static str,
        final_newline_counts: bool,
        max_size: Option<u64>,
    },
    Directory {
        exhaustive: Option<Exhaustive>,
    },
    Link(&'static str),
    Mask,
    Absent,
}

#[derive(Clone, Copy, Debug)]
pub struct Exhaustive {
    /// `*.bak` may be there.
    pub ignores: bool,
    pub removes: bool,
}

/// What is declared of one path.
#[derive(Clone, Debug)]
pub struct Said {
    pub target: Target,
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

pub type Declaration = BTreeMap<Path, Said>;

fn target() -> impl Strategy<Value = Target> {
    use prop::sample::select;
    let file = (
        select(&CONTENTS[..]),
        any::<bool>(),
        prop::option::of(0u64..3),
    )
        .prop_map(|(content, final_newline_counts, more)| Target::File {
            content,
            final_newline_counts,
            max_size: more.map(|more| (content.len() as u64 + more).max(1)),
        });
    let exhaustive = (any::<bool>(), any::<bool>())
        .prop_map(|(ignores, removes)| Exhaustive { ignores, removes });
    prop_oneof![
        4 => file,
        4 => prop::option::of(exhaustive).prop_map(|exhaustive| Target::Directory { exhaustive }),
        2 => select(&TEXTS[..]).prop_map(Target::Link),
        1 => Just(Target::Mask),
        2 => Just(Target::Absent),
    ]
}

pub fn declaration() -> impl Strategy<Value = Declaration> {
    use prop::sample::select;
    let id = || prop::option::of(select(&IDS[..]));
    let said = (target(), prop::option::of(select(&MODES[..])), id(), id()).prop_map(
        |(target, mode, uid, gid)| {
            let has_mode = matches!(target, Target::File { .. } | Target::Directory { .. });
            let has_owner = has_mode || matches!(target, Target::Link(_));
            Said {
                mode: mode.filter(|_| has_mode),
                uid: uid.filter(|_| has_owner),
                gid: gid.filter(|_| has_owner),
                target,
            }
        },
    );
    prop::collection::btree_map(path(), said, 1..10).prop_map(|all| {
        let mut kept = Declaration::new();
        // What is beneath a path comes after it.
        for (path, said) in all {
            let mut above = (1..path.len()).filter_map(|length| kept.get(&path[..length]));
            let fits = |said: &Said| matches!(said.target, Target::Directory { .. });
            if above.all(fits) {
                kept.insert(path, said);
            }
        }
        kept
    })
}

/// The policy, in whose words `root` is where the tree is.
pub fn policy(declaration: &Declaration, root: &str) -> String {
    let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (path, said) in declaration {
        let mut spec = json!({"path": format!("{root}/{}", path.join("/"))});
        let list = match &said.target {
            Target::File {
                content,
                final_newline_counts,
                max_size,
            } => {
                spec["content"] = json!({"inline": content});
                if !final_newline_counts {
                    spec["finalNewline"] = "ignore".into();
                }
                if let Some(bytes) = max_size {
                    spec["maxSize"] = bytes.to_string().into();
                }
                "files"
            }
            Target::Directory { exhaustive } => {
                if let Some(Exhaustive { ignores, removes }) = exhaustive {
                    spec["exhaustive"] = true.into();
                    if *ignores {
                        spec["ignore"] = json!(["*.bak"]);
                    }
                    if *removes {
                        spec["onUnexpected"] = "remove".into();
                    }
                }
                "directories"
            }
            Target::Link(text) => {
                spec["target"] = (*text).into();
                "symlinks"
            }
            Target::Mask => "masks",
            Target::Absent => "absent",
        };
        if let Some(mode) = said.mode {
            spec["mode"] = format!("{mode:04o}").into();
        }
        for (field, id) in [("owner", said.uid), ("group", said.gid)] {
            if let Some(id) = id {
                spec[field] = id.to_string().into();
            }
        }
        lists.entry(list).or_default().push(spec);
    }
    let mut spec = json!({"policy": "p", "version": "1.0.0"});
    for (list, specs) in lists {
        spec[list] = specs.into();
    }
    let api = "configdrift.io/v1alpha1";
    let policy = json!({"apiVersion": api, "kind": "Policy", "metadata": {"name": "p"}, "spec": {"activeVersion": "1.0.0", "mode": "heal"}});
    let version = json!({"apiVersion": api, "kind": "PolicyVersion", "metadata": {"name": "p-1.0.0"}, "spec": spec});
    format!("{policy}\n---\n{version}\n")
}

/// What makes an empty tree as declared.
pub fn laying_out(declaration: &Declaration) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (path, said) in declaration {
        for length in 1..path.len() {
            operations.push(Operation::Make(path[..length].to_vec(), Thing::Directory));
        }
        let thing = match said.target {
            Target::File { content, .. } => Thing::File(content),
            Target::Directory { .. } => Thing::Directory,
            Target::Link(text) => Thing::Link(text),
            Target::Mask => Thing::Link("/dev/null"),
            Target::Absent => continue,
        };
        operations.push(Operation::Make(path.clone(), thing));
        if said.uid.is_some() || said.gid.is_some() {
            let (uid, gid) = (said.uid.unwrap_or(0), said.gid.unwrap_or(0));
            operations.push(Operation::Chown(path.clone(), uid, gid));
        }
        if let Some(mode) = said.mode {
            operations.push(Operation::Chmod(path.clone(), mode));
        }
    }
    // In a directory that hands down its group, owners are not what was made: set once more.
    let again: Vec<Operation> = operations
        .iter()
        .filter(|operation| matches!(operation, Operation::Chown(..) | Operation::Chmod(..)))
        .cloned()
        .collect();
    operations.extend(again);
    operations
}

/// Kinds of drift, in the order in which they are told.
const ORDER: [&str; 9] = [
    "content",
    "missing",
    "unexpected",
    "type",
    "mode",
    "owner",
    "link-target",
    "relocated",
    "hardlinked",
];

/// The kinds of drift that a declared path has.
pub fn verdict(model: &Model, declaration: &Declaration, path: &Path) -> Vec<&'static str> {
    let Some(said) = declaration.get(path) else {
        return Vec::new();
    };
    let there = match model.way(path) {
        Way::Blocked => return vec!["relocated"],
        Way::Nothing if matches!(said.target, Target::Absent) => return Vec::new(),
        Way::Nothing => return vec!["missing"],
        Way::There(_) if matches!(said.target, Target::Absent) => return vec!["unexpected"],
        Way::There(inode) => inode,
    };
    let is_linked = model.names(there) > 1;
    let there = &model.inodes[there];
    let Some(mut kinds) = of_what_it_is(model, declaration, path, &said.target, there) else {
        return vec!["type"];
    };
    if said.mode.is_some_and(|mode| mode != there.mode) {
        kinds.push("mode");
    }
    if said.uid.is_some_and(|uid| uid != there.uid) || said.gid.is_some_and(|gid| gid != there.gid)
    {
        kinds.push("owner");
    }
    if is_linked && matches!(said.target, Target::File { .. }) {
        kinds.push("hardlinked");
    }
    kinds.sort_by_key(|kind| ORDER.iter().position(|known| known == kind));
    kinds
}

/// `None`: it is something else altogether.
fn of_what_it_is(
    model: &Model,
    declaration: &Declaration,
    path: &Path,
    target: &Target,
    there: &Inode,
) -> Option<Vec<&'static str>> {
    let kind = |differs: bool, kind| if differs { vec![kind] } else { vec![] };
    match (target, &there.body) {
        (
            Target::File {
                content,
                final_newline_counts,
                max_size,
            },
            Body::File(bytes),
        ) => {
            let too_large = max_size.is_some_and(|most| bytes.len() as u64 > most);
            let same = if *final_newline_counts {
                content.as_bytes() == bytes
            } else {
                without_line_end(content.as_bytes()) == without_line_end(bytes)
            };
            Some(kind(too_large || !same, "content"))
        }
        (Target::Directory { exhaustive: None }, Body::Directory(_)) => Some(Vec::new()),
        (
            Target::Directory {
                exhaustive: Some(_),
            },
            Body::Directory(_),
        ) => {
            let unexpected = unexpected(model, declaration, path);
            Some(kind(!unexpected.is_empty(), "unexpected"))
        }
        (Target::Link(text), Body::Link(found)) => Some(kind(text != found, "link-target")),
        (Target::Mask, Body::Link(found)) => Some(kind(found != "/dev/null", "link-target")),
        _ => None,
    }
}

fn without_line_end(bytes: &[u8]) -> &[u8] {
    let without = bytes.strip_suffix(b"\r\n");
    without.or(bytes.strip_suffix(b"\n")).unwrap_or(bytes)
}

/// Paths in an exhaustive directory that may not be there.
pub fn unexpected(model: &Model, declaration: &Declaration, path: &Path) -> Vec<Path> {
    let Some(Said {
        target: Target::Directory {
            exhaustive: Some(exhaustive),
        },
        ..
    }) = declaration.get(path)
    else {
        return Vec::new();
    };
    let Some(Inode {
        body: Body::Directory(entries),
        ..
    }) = model.find(path).map(|inode| &model.inodes[inode])
    else {
        return Vec::new();
    };
    let within = |name: &&'static str| {
        let mut within = path.clone();
        within.push(name);
        within
    };
    let paths = entries.keys().map(within);
    let wanted = |within: &Path| declaration.keys().any(|path| path.starts_with(within));
    let ignored = |within: &Path| exhaustive.ignores && within.last() == Some(&"x.bak");
    paths
        .filter(|within| !wanted(within) && !ignored(within))
        .collect()
}
