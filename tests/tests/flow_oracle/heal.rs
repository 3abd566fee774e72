//! What healing must and must not do, whatever was done to the tree.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result, ensure};
use drift_agent::{
    compare,
    declare::Declared,
    heal,
    observe::{Host, observe},
};

use crate::{
    declaration::{Declaration, Exhaustive, Said, Target, unexpected, verdict},
    model::{Body, Inode, Model, Path, Way},
    operation::Tree,
};

/// Passes after which nothing may be left to do: what one heal uncovers, the next puts back.
const PASSES: usize = 4;

/// Heals every path once, in the order of their paths: how many heals changed something.
fn pass(host: &Host, files: &[Arc<Declared>]) -> usize {
    let mut done = 0;
    for declared in files {
        let observed = observe(host, declared, None, &mut |_| {});
        let drifts = heal::healable(declared, &compare::differences(declared, &observed), false);
        if drifts.is_empty() {
            continue;
        }
        let Ok(action) = heal::plan(declared, &drifts, &observed.found) else {
            continue;
        };
        done += usize::from(heal::execute(host, declared, &action, observed.stat.as_ref()).is_ok());
    }
    done
}

/// Heals a tree, and holds what came of it against what was declared. Gives how many paths could not be healed, rightly.
pub fn check(
    tree: &Tree,
    host: &Host,
    files: &[Arc<Declared>],
    declaration: &Declaration,
) -> Result<usize> {
    let before = (tree.read()?, tree.numbers()?);
    let mut passes = 0;
    while pass(host, files) > 0 {
        passes += 1;
        ensure!(passes < PASSES, "healing does not come to an end");
    }
    let after = (tree.read()?, tree.numbers()?);
    untouched(&before, &after, declaration)?;

    let mut left = 0;
    for path in declaration.keys() {
        let kinds = verdict(&after.0, declaration, path);
        if !kinds.is_empty() {
            let excused = is_excused(&after.0, declaration, path, &kinds);
            ensure!(excused, "{} is left with {kinds:?}", path.join("/"));
            left += 1;
        }
    }
    // A fixed point: nothing is written where nothing can be put back.
    pass(host, files);
    let again = (tree.read()?, tree.numbers()?);
    ensure!(
        again.0.listing() == after.0.listing() && again.1 == after.1,
        "a second heal changed something"
    );
    Ok(left)
}

/// Whether there is a good reason why a path is not as declared after healing.
fn is_excused(
    model: &Model,
    declaration: &Declaration,
    path: &Path,
    kinds: &[&'static str],
) -> bool {
    let is_full = |path: &Path| match model.find(path).map(|inode| &model.inodes[inode].body) {
        Some(Body::Directory(entries)) => !entries.is_empty(),
        _ => false,
    };
    match (kinds, declaration.get(path).map(|said| &said.target)) {
        // Something that nobody declared stands in the way: what would be written would land elsewhere.
        (["relocated"], _) => {
            let blocking = (1..path.len())
                .map(|length| &path[..length])
                .find(|above| matches!(model.way(above), Way::There(inode) if !model.inodes[inode].is_directory()));
            blocking.is_some_and(|above| !declaration.contains_key(above))
        }
        // Another name is told, and stays.
        (["hardlinked"], Some(Target::File { .. })) => true,
        // A directory with something in it is never removed.
        (["type"], _) | (["unexpected"], Some(Target::Absent)) => is_full(path),
        (
            ["unexpected"],
            Some(Target::Directory {
                exhaustive: Some(Exhaustive { removes, .. }),
            }),
        ) => !removes || unexpected(model, declaration, path).iter().all(is_full),
        _ => false,
    }
}

/// What nobody declared, and nobody said to remove, is what it was; nothing is new but what is declared and the way there.
fn untouched(
    before: &(Model, BTreeMap<Path, u64>),
    after: &(Model, BTreeMap<Path, u64>),
    declaration: &Declaration,
) -> Result<()> {
    let (was, is) = (before.0.listing(), after.0.listing());
    let removed = |path: &Path| {
        declaration.iter().any(|(directory, said)| {
            let removes = matches!(
                said,
                Said {
                    target: Target::Directory {
                        exhaustive: Some(Exhaustive { removes: true, .. })
                    },
                    ..
                }
            );
            // Where one is made anew in place of something else, what is in it was not there before.
            removes && path.len() == directory.len() + 1 && path.starts_with(directory)
        })
    };
    for (path, inode) in &was {
        if declaration.contains_key(path) || removed(path) {
            continue;
        }
        let same = is.get(path) == Some(inode) && after.1.get(path) == before.1.get(path);
        let shown = path.join("/");
        ensure!(
            same,
            "{shown} is nobody's: {inode:?} became {:?}",
            is.get(path)
        );
    }
    for path in is.keys().filter(|path| !was.contains_key(*path)) {
        let wanted = declaration.keys().any(|wanted| wanted.starts_with(path));
        ensure!(wanted, "{} was made for nothing", path.join("/"));
    }
    // Missing directories on the way are root's, 0755.
    for (path, inode) in &is {
        let is_new = !was.contains_key(path) && !declaration.contains_key(path);
        let Inode { mode, uid, .. } = inode;
        ensure!(
            !is_new || (mode & 0o5777, *uid) == (0o755, 0),
            "{path:?}: {inode:?}"
        );
    }
    Ok(())
}

/// The snapshot's path of a declared one.
pub fn of<'a>(files: &'a [Arc<Declared>], path: &std::path::Path) -> Result<&'a Declared> {
    let found = files.iter().find(|declared| declared.path == path);
    found
        .map(AsRef::as_ref)
        .with_context(|| format!("{} is not in the snapshot", path.display()))
}
