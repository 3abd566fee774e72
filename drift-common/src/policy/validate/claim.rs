//! Who declares which path, and who cannot have it.

use std::path::{Path, PathBuf};

use super::{Lineage, twice};
use crate::{
    escape,
    policy::{PolicyVersion, Problem, Problems, Spanned, Through, rollout::exclude, source::Place},
};

/// Says which paths a version declares twice, or where they cannot be.
pub(super) fn within(version: &PolicyVersion, problems: &mut Problems) {
    conflicts(claims(0, version), problems, |claim, first| {
        same_version(version, claim, first)
    });
}

/// The same of the active versions of two policies.
pub(super) fn between(lineages: &[Lineage], problems: &mut Problems) {
    let active = lineages
        .iter()
        .enumerate()
        .flat_map(|(index, lineage)| claims(index, lineage.active()))
        .collect();
    conflicts(active, problems, |claim, first| {
        let of = |claim: &Claim<'_>| &lineages[claim.owner];
        let selector = |claim| &of(claim).policy.node_selector;
        if claim.owner == first.owner || exclude(selector(claim), selector(first)) {
            return None;
        }
        two_policies(claim, of(claim), first, of(first))
    });
}

/// A path that someone declares, or a link that the way to one goes through.
struct Claim<'v> {
    /// Where it really is.
    path: &'v Path,
    /// As it is declared.
    declared: &'v Path,
    at: &'v Place,
    /// The number of the policy.
    owner: usize,
    kind: Kind<'v>,
}

/// What is declared at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind<'v> {
    File,
    /// Holds this.
    Symlink(&'v Path),
    Absent,
    Directory,
    /// A link on the way to another path, which must hold this.
    Way(&'v Path),
}

impl Kind<'_> {
    const fn phrase(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Symlink(_) => "a symbolic link",
            Self::Absent => "absent",
            Self::Directory => "a directory",
            Self::Way(_) => "a link on the way to another path",
        }
    }
}

fn claims(owner: usize, version: &PolicyVersion) -> Vec<Claim<'_>> {
    let mut claims = Vec::new();
    let mut add = |path, through, kind| claims.extend(claimed(owner, path, through, kind));
    for file in &version.files {
        add(&file.path, &file.through, Kind::File);
    }
    for link in &version.symlinks {
        add(&link.path, &link.through, Kind::Symlink(&link.target));
    }
    for absent in &version.absent {
        add(&absent.path, &absent.through, Kind::Absent);
    }
    for directory in &version.directories {
        add(&directory.path, &directory.through, Kind::Directory);
    }
    claims
}

/// A path, with the links on its way.
fn claimed<'v>(
    owner: usize,
    declared: &'v Spanned<PathBuf>,
    through: &'v Option<Through>,
    kind: Kind<'v>,
) -> impl Iterator<Item = Claim<'v>> {
    let claim = move |path, Spanned { value, at }: &'v Spanned<PathBuf>, kind| Claim {
        path,
        declared: value,
        at,
        owner,
        kind,
    };
    let real = through.as_ref().map_or(&*declared.value, Through::real);
    let links = through.iter().flat_map(Through::links);
    let links = links.map(move |link| claim(&link.path.value, &link.path, Kind::Way(&link.target)));
    std::iter::once(claim(real, declared, kind)).chain(links)
}

/// Says what `problem` makes of each path that is declared before, or beneath one that is.
fn conflicts<'v>(
    mut claims: Vec<Claim<'v>>,
    problems: &mut Problems,
    problem: impl Fn(&Claim<'v>, &Claim<'v>) -> Option<Problem>,
) {
    // By components: a path comes right before what is beneath it.
    // What is declared at a link comes before the ways through it.
    let is_way = |claim: &Claim<'_>| matches!(claim.kind, Kind::Way(_));
    claims
        .sort_by(|a, b| (a.path, is_way(a), a.at.order()).cmp(&(b.path, is_way(b), b.at.order())));
    let mut above: Vec<&Claim<'_>> = Vec::new();
    for claim in &claims {
        while above
            .last()
            .is_some_and(|top| !claim.path.starts_with(top.path))
        {
            above.pop();
        }
        if let Some(problem) = above.iter().find_map(|first| problem(claim, first)) {
            problems.push(problem);
        }
        let again = |top: &&Claim<'_>| top.path == claim.path && top.owner == claim.owner;
        if !above.last().is_some_and(again) {
            above.push(claim);
        }
    }
}

fn same_version(version: &PolicyVersion, claim: &Claim<'_>, first: &Claim<'_>) -> Option<Problem> {
    if claim.path != first.path {
        return beneath(claim, first);
    }
    if let Kind::Way(target) = claim.kind {
        return other_link(claim, target, first);
    }
    let of = format!(
        "{} {}",
        escape::name(&version.policy.value),
        version.version.value
    );
    Some(twice(
        format!("{} declared twice by {of}", same_path(claim, first)),
        claim.at,
        first.at,
    ))
}

fn two_policies(
    claim: &Claim<'_>,
    lineage: &Lineage,
    first: &Claim<'_>,
    other: &Lineage,
) -> Option<Problem> {
    if claim.path != first.path {
        return beneath(claim, first);
    }
    if let Kind::Way(target) = claim.kind {
        return other_link(claim, target, first);
    }
    let of = |lineage: &Lineage| {
        let Spanned { value: name, .. } = &lineage.policy.name;
        format!("{} {}", escape::name(name), lineage.active().version.value)
    };
    let message = format!(
        "{} declared by two policies, {} and {}",
        same_path(claim, first),
        of(other),
        of(lineage)
    );
    let help = "only one policy can have a path: remove it from the other";
    Some(twice(message, claim.at, first.at).help(help))
}

/// The one path that both are, as the subject of a sentence.
fn same_path(claim: &Claim<'_>, first: &Claim<'_>) -> String {
    let shown = escape::path_name(claim.declared);
    if claim.declared == first.declared {
        return format!("{shown} is");
    }
    let other = escape::path_name(first.declared);
    format!("{shown} and {other} are one path, which is")
}

/// A link on the way to a path can be declared itself, and holds one thing.
fn other_link(claim: &Claim<'_>, target: &Path, first: &Claim<'_>) -> Option<Problem> {
    let shown = escape::path_name(claim.path);
    let message = match first.kind {
        // As texts: paths are the same with and without a closing slash.
        Kind::Symlink(other) | Kind::Way(other) if other.as_os_str() == target.as_os_str() => {
            return None;
        }
        Kind::Symlink(other) | Kind::Way(other) => {
            let (target, other) = (escape::path_name(target), escape::path_name(other));
            format!("{shown} cannot hold {target}: it is declared to hold {other}")
        }
        Kind::File | Kind::Absent | Kind::Directory => {
            let what = first.kind.phrase();
            format!("{shown} cannot be a link: it is declared as {what}")
        }
    };
    Some(twice(message, claim.at, first.at))
}

/// Only in a directory can something else be.
fn beneath(claim: &Claim<'_>, above: &Claim<'_>) -> Option<Problem> {
    if above.kind == Kind::Directory {
        return None;
    }
    let what = above.kind.phrase();
    let is = match above.kind {
        Kind::Way(_) => "is",
        _ => "is declared as",
    };
    let message = format!(
        "{} cannot be beneath {}, which {is} {what}",
        escape::path_name(claim.declared),
        escape::path_name(above.declared)
    );
    let at = above.at.position();
    let help = match above.kind {
        Kind::Way(_) => {
            format!("name it in `through`, as at {at}, or declare the path that it leads to")
        }
        _ => format!("declared as {what} at {at}"),
    };
    Some(claim.at.problem(message).help(help))
}
