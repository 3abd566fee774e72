//! What is wrong between documents that are right each by itself.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use semver::Version;

use super::{
    Document, Policy, PolicyVersion, Problem, Problems, Spanned, Through, closure,
    rollout::{Rollout, exclude},
    source::Place,
    suggest, unsupported,
};
use crate::escape;

/// A policy and its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    pub policy: Policy,
    /// From the oldest to the newest.
    pub versions: Vec<PolicyVersion>,
    /// The number of the version that is active.
    pub(super) active: usize,
}

impl Lineage {
    /// The version that is active here: what the policy says, or what is held instead.
    pub fn active(&self) -> &PolicyVersion {
        &self.versions[self.active]
    }

    /// The number of a version, if it is there. Build metadata does not count.
    pub fn position(&self, version: &Version) -> Option<usize> {
        let same = |other: &PolicyVersion| other.version.value.cmp_precedence(version).is_eq();
        self.versions.iter().position(same)
    }
}

/// A version that a policy has on this node instead of the one its Policy says, for as long as that says the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub version: Version,
    /// The `activeVersion` that it takes the place of. Another one releases the hold.
    pub instead_of: Version,
}

/// By the names of the policies.
pub type Holds = BTreeMap<String, Hold>;

/// All policies of `documents`, by name, each with its versions. `None` where there are `problems`, those found before and those found here:
///
/// * a policy, a document or a version that is declared twice (versions that differ in nothing but build metadata are the same);
/// * a version of no policy, an active version that is not there;
/// * a path declared twice by a version, or by the active versions of two policies;
/// * a path declared beneath another one, which is no directory, and two ways through one link that holds different things (paths are compared by
///   where they really are);
/// * active versions that do not fit together: see `dependencies`;
/// * what the agent does not act on yet.
///
/// Where documents were refused before, one that is missing here proves nothing, and is not said.
pub fn validate(
    documents: Vec<Document>,
    holds: &Holds,
    problems: &mut Problems,
) -> Option<Vec<Lineage>> {
    let complete = problems.is_empty();
    let lineages = gathered(documents, holds, problems);
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
    // With a policy or a version missing that was said, what needs it would be said again.
    if complete && problems.is_empty() {
        closure::check(&lineages, problems);
    }
    problems.is_empty().then_some(lineages)
}

/// [`validate`] without the question whether the active versions fit together: for choosing others.
pub fn lineages(
    documents: Vec<Document>,
    holds: &Holds,
    problems: &mut Problems,
) -> Option<Vec<Lineage>> {
    let lineages = gathered(documents, holds, problems);
    problems.is_empty().then_some(lineages)
}

fn gathered(documents: Vec<Document>, holds: &Holds, problems: &mut Problems) -> Vec<Lineage> {
    let complete = problems.is_empty();
    let mut policies: BTreeMap<String, Policy> = BTreeMap::new();
    let mut versions: Vec<PolicyVersion> = Vec::new();
    for document in documents {
        match document {
            Document::Version(version) => versions.push(version),
            Document::Policy(policy) => match policies.get(&policy.name.value) {
                Some(first) => problems.push(twice(
                    format!(
                        "the policy {} is declared twice",
                        escape::name(&policy.name.value)
                    ),
                    &policy.name.at,
                    &first.name.at,
                )),
                None => drop(policies.insert(policy.name.value.clone(), policy)),
            },
        }
    }
    let versions = unique(versions, problems);
    for version in &versions {
        unsupported::refuse(version, problems);
    }
    for version in &versions {
        conflicts(claims(0, version), problems, |claim, first| {
            same_version(version, claim, first)
        });
    }
    if complete {
        orphans(&policies, &versions, problems);
    }
    gather(policies, versions, holds, complete, problems)
}

fn twice(message: String, at: &Place, first: &Place) -> Problem {
    at.problem(message)
        .help(format!("first declared at {}", first.position()))
}

/// The versions, without those that are there already.
fn unique(versions: Vec<PolicyVersion>, problems: &mut Problems) -> Vec<PolicyVersion> {
    let mut kept: Vec<PolicyVersion> = Vec::with_capacity(versions.len());
    let mut by_version: HashMap<(String, Version), usize> = HashMap::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for version in versions {
        let policy = &version.policy.value;
        // Build metadata has no part in the order of versions.
        let mut number = version.version.value.clone();
        number.build = semver::BuildMetadata::EMPTY;
        let key = (policy.clone(), number);
        if let Some(first) = by_version.get(&key) {
            let message = format!(
                "version {} of {} is declared twice",
                key.1,
                escape::name(policy)
            );
            problems.push(twice(
                message,
                &version.version.at,
                &kept[*first].version.at,
            ));
        } else if let Some(first) = by_name.get(&version.name.value) {
            let message = format!(
                "the PolicyVersion {} is declared twice",
                escape::name(&version.name.value)
            );
            problems.push(
                twice(message, &version.name.at, &kept[*first].name.at).help(format!(
                    "each needs a name of its own, as in {}",
                    escape::name(&format!("{policy}-{}", key.1))
                )),
            );
        } else {
            by_version.insert(key, kept.len());
            by_name.insert(version.name.value.clone(), kept.len());
            kept.push(version);
        }
    }
    kept
}

fn orphans(
    policies: &BTreeMap<String, Policy>,
    versions: &[PolicyVersion],
    problems: &mut Problems,
) {
    let names = || policies.keys().map(String::as_str);
    for version in versions {
        let Spanned { value: policy, at } = &version.policy;
        if policies.contains_key(policy) {
            continue;
        }
        let meant = suggest::did_you_mean(policy, names());
        let problem = at.problem(format!(
            "there is no Policy named {}{meant}",
            escape::name(policy)
        ));
        problems.push(if policies.is_empty() {
            problem.help(format!(
                "add a document with `kind: Policy`, this name and `activeVersion: {}`",
                version.version.value
            ))
        } else {
            problem.help(format!("policies here: {}", suggest::list(names())))
        });
    }
}

/// Each policy with its versions; the ones without the active one are left out, which is a problem where the documents are complete.
fn gather(
    policies: BTreeMap<String, Policy>,
    versions: Vec<PolicyVersion>,
    holds: &Holds,
    complete: bool,
    problems: &mut Problems,
) -> Vec<Lineage> {
    let mut of: HashMap<String, Vec<PolicyVersion>> = HashMap::new();
    for version in versions {
        of.entry(version.policy.value.clone())
            .or_default()
            .push(version);
    }
    let mut lineages = Vec::with_capacity(policies.len());
    for (name, policy) in policies {
        let mut versions = of.remove(&name).unwrap_or_default();
        versions.sort_by(|a, b| a.version.value.cmp(&b.version.value));
        if complete {
            shares(&policy, &versions, problems);
        }
        let wanted = &policy.active_version;
        let held = holds
            .get(&name)
            .filter(|hold| hold.instead_of == wanted.value);
        let number = held.map_or(&wanted.value, |hold| &hold.version);
        let active = versions
            .iter()
            .position(|version| version.version.value == *number);
        if let Some(active) = active {
            lineages.push(Lineage {
                policy,
                versions,
                active,
            });
        } else if complete {
            let shown = escape::name(&name);
            let problem = wanted
                .at
                .problem(format!("{shown} has no version {number}"));
            problems.push(if held.is_some() {
                problem.help(format!(
                    "this node holds {shown} there instead of {}: put its PolicyVersion back, or say another activeVersion",
                    wanted.value
                ))
            } else if versions.is_empty() {
                problem.help(format!("there is no PolicyVersion with `policy: {name}`"))
            } else {
                let there = versions.iter().map(|version| &version.version.value);
                problem.help(format!("versions of {shown}: {}", suggest::list(there)))
            });
        }
    }
    lineages
}

/// Versions of a rollout must be there on every node: which of them has which is nothing that a mistake should wait for.
fn shares(policy: &Policy, versions: &[PolicyVersion], problems: &mut Problems) {
    let there = |number: &Version| {
        versions
            .iter()
            .any(|version| version.version.value == *number)
    };
    for share in policy.rollout.iter().flat_map(Rollout::shares) {
        let Spanned { value: number, at } = &share.version;
        // What this node has is looked for by the one who asks for it.
        if there(number) || *number == policy.active_version.value {
            continue;
        }
        let shown = escape::name(&policy.name.value);
        let problem = at.problem(format!("{shown} has no version {number}"));
        problems.push(problem.help("add its PolicyVersion, or remove it from `rollout`"));
    }
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
