//! Choosing versions that fit together.

use semver::Version;

use super::{Names, circle, cycle, names, needs, ordered, shown};
use crate::{
    escape,
    policy::{Dependency, Lineage, PolicyVersion, suggest},
};

/// Selections tried, at most: more than any set of policies that people can still understand.
const MOST_TRIES: usize = 10_000;

/// One policy goes from one of its versions to another. The numbers are those of the lineage, and of its versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub policy: usize,
    pub from: usize,
    pub to: usize,
}

/// How much a version is wanted, where several would fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preference {
    /// Only where no other fits: it has failed.
    Last,
    Usual,
    /// Before all others: it was healthy.
    First,
}

/// Why versions cannot be moved. Nothing of a policy file is in it but names, numbers and positions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{0}")]
    NoPolicy(String),
    #[error("{0}")]
    NoVersion(String),
    /// The steps that lead to it, and what does not fit, a sentence each.
    #[error("{}", .0.join("\n  "))]
    Conflict(Vec<String>),
    #[error("{0}")]
    Cycle(String),
    #[error("no versions that fit together were found among {MOST_TRIES} selections")]
    TooMany,
}

impl Refused {
    /// One of a closed set.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoPolicy(_) => "no-policy",
            Self::NoVersion(_) => "no-version",
            Self::Conflict(_) => "conflict",
            Self::Cycle(_) => "cycle",
            Self::TooMany => "too-many",
        }
    }
}

/// What has to move so that `policy` gets `version` and everything fits: itself, what it needs, and what needs it. Versions that fit stay. Of
/// several that would do, the most preferred, then the newest is taken. In the order in which they are put in place.
///
/// # Errors
/// There is no such version, or nothing that fits: with the way to what does not.
pub fn moves(
    lineages: &[Lineage],
    policy: &str,
    version: &Version,
    prefer: &dyn Fn(&str, &Version) -> Preference,
) -> Result<Vec<Move>, Refused> {
    let names = names(lineages);
    let Some(&asked) = names.get(policy) else {
        let all = lineages
            .iter()
            .map(|lineage| lineage.policy.name.value.as_str());
        let meant = suggest::did_you_mean(policy, all.clone());
        return Err(Refused::NoPolicy(format!(
            "there is no policy named {}{meant}; policies here: {}",
            escape::name(policy),
            suggest::list(all)
        )));
    };
    let lineage = &lineages[asked];
    let Some(to) = lineage.position(version) else {
        let there = lineage
            .versions
            .iter()
            .map(|version| &version.version.value);
        return Err(Refused::NoVersion(format!(
            "{} has no version {version} in the policy folder; versions there: {}",
            escape::name(policy),
            suggest::list(there)
        )));
    };
    let before: Vec<usize> = lineages.iter().map(|lineage| lineage.active).collect();
    let mut selected = before.clone();
    selected[asked] = to;
    let mut fixed = vec![false; lineages.len()];
    fixed[asked] = true;
    let mut search = Search {
        lineages,
        names,
        prefer,
        tries: 0,
    };
    let trail = vec![format!("{} is asked for", shown(&lineage.versions[to]))];
    let selected = search.settle(selected, &fixed, &trail)?;
    let order = ordered(lineages, &selected, &search.names);
    let moved = order
        .into_iter()
        .filter(|index| before[*index] != selected[*index]);
    Ok(moved
        .map(|policy| Move {
            policy,
            from: before[policy],
            to: selected[policy],
        })
        .collect())
}

struct Search<'l> {
    lineages: &'l [Lineage],
    names: Names<'l>,
    prefer: &'l dyn Fn(&str, &Version) -> Preference,
    tries: usize,
}

impl<'l> Search<'l> {
    fn version(&self, selected: &[usize], index: usize) -> &'l PolicyVersion {
        &self.lineages[index].versions[selected[index]]
    }

    /// A selection that fits, beginning with `selected`, of which those that are `fixed` stay. `trail`: how it came to these.
    fn settle(
        &mut self,
        selected: Vec<usize>,
        fixed: &[bool],
        trail: &[String],
    ) -> Result<Vec<usize>, Refused> {
        self.tries += 1;
        if self.tries > MOST_TRIES {
            return Err(Refused::TooMany);
        }
        let Some((of, dependency)) = self.misfit(&selected, fixed) else {
            return match cycle(self.lineages, &selected, &self.names) {
                None => Ok(selected),
                Some(cycle) => Err(Refused::Cycle(circle(&cycle))),
            };
        };
        let sentence = needs(self.version(&selected, of), dependency);
        let conflict = |last: String| {
            let mut way = trail.to_vec();
            way.push(sentence.clone());
            way.push(last);
            Refused::Conflict(way)
        };
        let policy = dependency.policy.value.as_str();
        let Some(&needed) = self.names.get(policy) else {
            return Err(conflict(format!(
                "there is no policy {}",
                escape::name(policy)
            )));
        };
        // Any selection that fits gives the one that is not fixed one of its versions: all of these are tried.
        let moving = match (fixed[of], fixed[needed]) {
            (false, _) => of,
            (true, false) => needed,
            (true, true) => {
                return Err(conflict(format!(
                    "{} is needed otherwise",
                    shown(self.version(&selected, needed))
                )));
            }
        };
        let mut first = None;
        for candidate in self.candidates(moving, &selected, fixed) {
            let (mut selected, mut fixed, mut trail) =
                (selected.clone(), fixed.to_vec(), trail.to_vec());
            selected[moving] = candidate;
            fixed[moving] = true;
            trail.push(sentence.clone());
            match self.settle(selected, &fixed, &trail) {
                Err(Refused::TooMany) => return Err(Refused::TooMany),
                Err(refused) => first = first.or(Some(refused)),
                settled => return settled,
            }
        }
        let lineage = &self.lineages[moving];
        let there = lineage
            .versions
            .iter()
            .map(|version| &version.version.value);
        Err(first.unwrap_or_else(|| {
            conflict(format!(
                "no version of {} fits: {}",
                escape::name(&lineage.policy.name.value),
                suggest::list(there)
            ))
        }))
    }

    /// A dependency that the selection does not meet: those first that have to do with what is fixed.
    fn misfit(&self, selected: &[usize], fixed: &[bool]) -> Option<(usize, &'l Dependency)> {
        let mut other = None;
        for of in 0..self.lineages.len() {
            for dependency in &self.version(selected, of).dependencies {
                let needed = self.names.get(dependency.policy.value.as_str()).copied();
                let met = needed.is_some_and(|needed| {
                    let version = &self.version(selected, needed).version.value;
                    dependency.version.matches(version)
                });
                if met {
                    continue;
                }
                if fixed[of] || needed.is_some_and(|needed| fixed[needed]) {
                    return Some((of, dependency));
                }
                other = other.or(Some((of, dependency)));
            }
        }
        other
    }

    /// Versions of a policy that fit what is fixed: the one it has, then the best first.
    fn candidates(&self, moving: usize, selected: &[usize], fixed: &[bool]) -> Vec<usize> {
        let lineage = &self.lineages[moving];
        let name = lineage.policy.name.value.as_str();
        let said: Vec<&Dependency> = (0..self.lineages.len())
            .filter(|of| fixed[*of])
            .flat_map(|of| &self.version(selected, of).dependencies)
            .filter(|dependency| dependency.policy.value == name)
            .collect();
        let fits = |version: &PolicyVersion| {
            let wanted = said
                .iter()
                .all(|dependency| dependency.version.matches(&version.version.value));
            wanted
                && version.dependencies.iter().all(|dependency| {
                    match self.names.get(dependency.policy.value.as_str()) {
                        Some(&needed) if fixed[needed] => {
                            let version = &self.version(selected, needed).version.value;
                            dependency.version.matches(version)
                        }
                        other => other.is_some(),
                    }
                })
        };
        let stays = |number: usize| number == selected[moving];
        let rank = |number: usize| (self.prefer)(name, &lineage.versions[number].version.value);
        let mut all: Vec<usize> = (0..lineage.versions.len())
            .filter(|number| fits(&lineage.versions[*number]))
            .collect();
        all.sort_by_key(|number| std::cmp::Reverse((stays(*number), rank(*number), *number)));
        all
    }
}
