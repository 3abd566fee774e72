//! What has to be written for a change of versions.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::SwitchError;
use crate::{
    compare::{self, Drift},
    declare::{Declared, Mode, OnRemove, Snapshot, Target, places},
    heal::{self, Action, HealError, Source, Step},
    observe::{Host, Observed, observe_at_rest},
    report::FileType,
    store::Moved,
};

/// See [`super::steps`]. In the order in which they take place: what is in the way of something goes first, then what is needed comes before what
/// needs it, and what nobody declares any more goes last.
pub(super) fn steps(
    host: &Host,
    old: &Snapshot,
    new: &Snapshot,
    moves: &[Moved],
) -> Result<Vec<Step>, SwitchError> {
    let moved: BTreeSet<&str> = moves.iter().map(|step| step.policy.as_str()).collect();
    let ranks: HashMap<&str, usize> = new
        .policies
        .iter()
        .zip(&new.terms)
        .map(|(policy, terms)| (policy.name.as_str(), terms.rank))
        .collect();
    let heals = |declared: &&Arc<Declared>| {
        moved.contains(declared.policy.name.as_str()) && declared.on_drift == Mode::Heal
    };
    let links = new.files.iter().filter(heals);
    let links: HashMap<&Path, &OsStr> = links.filter_map(|declared| link(declared)).collect();
    let mut puts: Vec<(usize, Step)> = Vec::new();
    let mut removals: Vec<PathBuf> = Vec::new();
    for declared in new.files.iter().filter(heals) {
        let name = declared.policy.name.as_str();
        let rank = ranks.get(name).copied().unwrap_or(0);
        let straight = straight(host, declared, &links);
        for step in of(host, &straight).map_err(|error| error.at(&declared.path))? {
            match step {
                Step::Remove(path) => removals.push(path),
                step => puts.push((rank, step)),
            }
        }
    }
    removals.extend(dropped(old, new, &moved));
    // What is beneath a directory goes before it.
    removals.sort_by(|a, b| b.cmp(a));
    removals.dedup();
    // Who goes through a link finds what it leads to.
    let ways = new.files.iter().flat_map(|declared| declared.links());
    let ways: HashSet<&Path> = ways.map(|link| link.path.as_path()).collect();
    puts.sort_by_key(|(rank, step)| (*rank, ways.contains(step.path()), step.path().to_owned()));
    let makes_way = |path: &Path| {
        let mut puts = puts.iter();
        puts.any(|(_, step)| path != step.path() && path.starts_with(step.path()))
    };
    let (first, last): (Vec<_>, Vec<_>) = removals.into_iter().partition(|path| makes_way(path));
    let first = first.into_iter().map(Step::Remove);
    let last = last.into_iter().map(Step::Remove);
    Ok(first
        .chain(puts.into_iter().map(|(_, step)| step))
        .chain(last)
        .collect())
}

/// A declared link, and what it holds.
fn link(declared: &Declared) -> Option<(&Path, &OsStr)> {
    match &declared.target {
        Target::Symlink(target) => Some((declared.real(), target)),
        Target::File(_) | Target::Absent | Target::Directory(_) => None,
    }
}

/// The path where it really is, if each link on its way holds what it must: now, or when this change, which puts `links`, has happened.
fn straight(
    host: &Host,
    declared: &Arc<Declared>,
    links: &HashMap<&Path, &OsStr>,
) -> Arc<Declared> {
    let mut ways = declared.links().iter();
    let holds = ways.all(|link| {
        links.get(&*link.path) == Some(&&*link.target) || host.link_holds(link, declared).is_ok()
    });
    if holds {
        Declared::straight(declared)
    } else {
        Arc::clone(declared)
    }
}

/// What makes one path as declared; nothing, where it is.
fn of(host: &Host, declared: &Arc<Declared>) -> Result<Vec<Step>, SwitchError> {
    let observed = observe_at_rest(host, declared);
    let drifts = healable(declared, &observed);
    if drifts.is_empty() {
        return Ok(Vec::new());
    }
    let action =
        heal::plan(declared, &drifts, &observed.found).map_err(|why| SwitchError::Impossible {
            path: declared.path.clone(),
            why,
        })?;
    let source = source(declared, &observed, &drifts, &action).map_err(|source| {
        SwitchError::Unwritable {
            path: declared.path.clone(),
            source,
        }
    })?;
    let put = || Step::Put {
        declared: Arc::clone(declared),
        source,
        // Something that is no regular file has no attributes worth keeping.
        like: observed
            .stat
            .filter(|stat| stat.file_type == FileType::File),
    };
    let is_directory = matches!(declared.target, Target::Directory(_));
    Ok(match action {
        // What only flags keep from being changed is healed after it.
        Action::Attributes if is_directory && declared.attributes.flags.is_some() => Vec::new(),
        Action::Attributes if is_directory => vec![Step::Attributes(Arc::clone(declared))],
        // Written anew, so that what it should be is staged too.
        Action::Replace | Action::Edit | Action::Attributes | Action::Remove => vec![put()],
        Action::Clear(names) => {
            let gone = names
                .iter()
                .map(|name| Step::Remove(declared.path.join(name)));
            let flagged = declared.attributes.flags.is_some();
            let attributes = (!flagged).then(|| Step::Attributes(Arc::clone(declared)));
            gone.chain(attributes).collect()
        }
    })
}

/// What the path gets. Where others may write to the file too, or what it says is what counts, what stands there stays as it is as far as it can.
fn source(
    declared: &Declared,
    observed: &Observed,
    drifts: &[Drift],
    action: &Action,
) -> Result<Source, HealError> {
    let Target::File(content) = &declared.target else {
        return Ok(Source::Declared);
    };
    match action {
        Action::Edit => heal::edited(observed, content).map(Source::There),
        Action::Attributes if content.meaning.is_some() => {
            heal::kept(observed, content).map(Source::There)
        }
        Action::Replace if !content.is_whole() && drifts.contains(&Drift::Missing) => {
            Ok(Source::Fresh)
        }
        Action::Replace | Action::Attributes | Action::Remove | Action::Clear(_) => {
            Ok(Source::Declared)
        }
    }
}

/// What is not as declared and can be put right.
pub(super) fn healable(declared: &Declared, observed: &Observed) -> Vec<Drift> {
    let out_of_reach = compare::attribute::out_of_reach(declared, observed);
    let drifts = compare::differences(declared, observed);
    heal::healable(declared, &drifts, out_of_reach)
}

/// Not what nobody has put there, nor what others may have written to.
fn goes_as_a_whole(target: &Target) -> bool {
    match target {
        Target::Absent => false,
        Target::File(content) => content.is_whole(),
        Target::Symlink(_) | Target::Directory(_) => true,
    }
}

/// Paths that nobody declares any more, of policies that say that such ones go.
pub(super) fn dropped(old: &Snapshot, new: &Snapshot, moved: &BTreeSet<&str>) -> Vec<PathBuf> {
    let goes = |declared: &Declared| {
        let name = declared.policy.name.as_str();
        let removes = new
            .policy(name)
            .is_some_and(|(_, terms)| terms.on_remove == OnRemove::Remove);
        removes
            && moved.contains(name)
            && goes_as_a_whole(&declared.target)
            && declared.on_drift == Mode::Heal
    };
    let places = places(&new.files);
    let declares = |path: &Path| match places.binary_search(&path) {
        Ok(_) => true,
        // A directory in which something is declared.
        Err(at) => places.get(at).is_some_and(|next| next.starts_with(path)),
    };
    let mut gone = Vec::new();
    for declared in old.files.iter().filter(|declared| goes(declared)) {
        if !declares(declared.real()) {
            gone.push(declared.real().to_owned());
        }
    }
    gone
}
