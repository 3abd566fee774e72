//! What is wrong between documents that are right each by itself.

mod claim;

use std::collections::{BTreeMap, HashMap};

use semver::Version;

use super::{
    Document, Policy, PolicyVersion, Problem, Problems, Spanned, closure, rollout::Rollout,
    source::Place, suggest, unsupported,
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
    claim::between(&lineages, problems);
    // With a policy or a version missing that was said, what needs it would be said again.
    if complete && problems.is_empty() {
        closure::check(&lineages, problems);
        if !problems.is_empty() {
            problems.are_of_closure();
        }
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
        claim::within(version, problems);
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
