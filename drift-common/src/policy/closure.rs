//! Versions that need versions of other policies: what is active together must fit together, and moves together. Pure.

mod moves;

pub use moves::{Move, Preference, Refused, moves};

use std::collections::{BTreeMap, HashMap, VecDeque, btree_map::Entry};

use super::{Dependency, Lineage, PolicyVersion, Problems, suggest};
use crate::escape;
use petgraph::{
    algo::{tarjan_scc, toposort},
    graph::{DiGraph, NodeIndex},
};

/// Policies by name.
type Names<'l> = HashMap<&'l str, usize>;

fn names(lineages: &[Lineage]) -> Names<'_> {
    let each = lineages.iter().enumerate();
    each.map(|(index, lineage)| (lineage.policy.name.value.as_str(), index))
        .collect()
}

fn shown(version: &PolicyVersion) -> String {
    let number = &version.version.value;
    format!("{} {number}", escape::name(&version.policy.value))
}

/// `web` 1.0.0 needs `lib` ^2.0.0 (p.yaml:12:9)
fn needs(version: &PolicyVersion, dependency: &Dependency) -> String {
    format!(
        "{} needs {} {} ({})",
        shown(version),
        escape::name(&dependency.policy.value),
        dependency.version,
        dependency.policy.at.position()
    )
}

/// Says what does not fit of the versions that are active, and of dependencies that can never be met.
pub(super) fn check(lineages: &[Lineage], problems: &mut Problems) {
    let names = names(lineages);
    for version in lineages.iter().flat_map(|lineage| &lineage.versions) {
        for dependency in &version.dependencies {
            let policy = &dependency.policy;
            if policy.value == version.policy.value {
                let problem = policy
                    .at
                    .problem(format!("{} needs itself", shown(version)));
                problems.push(problem.help("remove it"));
            } else if !names.contains_key(policy.value.as_str()) {
                let all = || names.keys().copied();
                let meant = suggest::did_you_mean(&policy.value, all());
                let message = format!(
                    "{} needs {}, and there is no such policy{meant}",
                    shown(version),
                    escape::name(&policy.value)
                );
                let mut all: Vec<_> = all().collect();
                all.sort_unstable();
                let problem = policy.at.problem(message);
                problems.push(problem.help(format!("policies here: {}", suggest::list(all))));
            }
        }
    }
    if !problems.is_empty() {
        return;
    }
    let selected: Vec<usize> = lineages.iter().map(|lineage| lineage.active).collect();
    for lineage in lineages {
        let version = lineage.active();
        for dependency in &version.dependencies {
            let other = &lineages[names[dependency.policy.value.as_str()]];
            let active = &other.active().version.value;
            if dependency.version.matches(active) {
                continue;
            }
            let message = format!(
                "{} needs {} {}, and {active} is active",
                shown(version),
                escape::name(&dependency.policy.value),
                dependency.version
            );
            let at = other.policy.active_version.at.position();
            let mut problem = dependency
                .policy
                .at
                .problem(message)
                .help(format!("its version is said at {at}"));
            let fit = other
                .versions
                .iter()
                .map(|version| &version.version.value)
                .filter(|number| dependency.version.matches(number));
            let fit = suggest::list(fit);
            problem = problem.help(if fit.is_empty() {
                "no version that is here would do".to_owned()
            } else {
                format!("versions that would do: {fit}")
            });
            for (needing, also) in needing(lineages, &selected, &dependency.policy.value) {
                if !std::ptr::eq(also, dependency) {
                    problem = problem.help(needs(needing, also));
                }
            }
            problems.push(problem);
        }
    }
    if let Some(cycle) = cycle(lineages, &selected, &names) {
        let at = &cycle[0].1.policy.at;
        let mut problem = at.problem(circle(&cycle));
        for (version, dependency) in &cycle {
            problem = problem.help(needs(version, dependency));
        }
        problems.push(problem.help("remove one of these dependencies"));
    }
}

/// The selected versions that need `policy`, each with what it says.
fn needing<'l>(
    lineages: &'l [Lineage],
    selected: &[usize],
    policy: &str,
) -> Vec<(&'l PolicyVersion, &'l Dependency)> {
    let versions = lineages.iter().zip(selected);
    versions
        .map(|(lineage, number)| &lineage.versions[*number])
        .flat_map(|version| version.dependencies.iter().map(move |said| (version, said)))
        .filter(|(_, said)| said.policy.value == policy)
        .collect()
}

/// From who needs to who is needed.
fn graph<'l>(
    lineages: &'l [Lineage],
    selected: &[usize],
    names: &Names<'_>,
) -> DiGraph<usize, &'l Dependency> {
    let mut graph = DiGraph::new();
    let nodes: Vec<NodeIndex> = (0..lineages.len())
        .map(|index| graph.add_node(index))
        .collect();
    for (index, lineage) in lineages.iter().enumerate() {
        for dependency in &lineage.versions[selected[index]].dependencies {
            if let Some(other) = names.get(dependency.policy.value.as_str()) {
                graph.add_edge(nodes[index], nodes[*other], dependency);
            }
        }
    }
    graph
}

/// Versions that need each other in a circle, each with what it says of the next one. The first by the order of the policies.
fn cycle<'l>(
    lineages: &'l [Lineage],
    selected: &[usize],
    names: &Names<'_>,
) -> Option<Vec<(&'l PolicyVersion, &'l Dependency)>> {
    let graph = graph(lineages, selected, names);
    let circles = tarjan_scc(&graph).into_iter().filter(|nodes| {
        nodes.len() > 1 || nodes.iter().any(|node| graph.contains_edge(*node, *node))
    });
    let nodes = circles.min_by_key(|nodes| nodes.iter().min().copied())?;
    let start = nodes.iter().min().copied()?;
    // The shortest way back to where it begins.
    let mut came: BTreeMap<NodeIndex, NodeIndex> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(node) = next.pop_front() {
        for other in graph.neighbors(node).filter(|other| nodes.contains(other)) {
            if let Entry::Vacant(way) = came.entry(other) {
                way.insert(node);
                next.push_back(other);
            }
        }
    }
    let mut way = Vec::new();
    let mut node = start;
    loop {
        let before = *came.get(&node)?;
        let edge = graph.find_edge(before, node)?;
        let index = graph[before];
        way.push((&lineages[index].versions[selected[index]], graph[edge]));
        node = before;
        if node == start {
            way.reverse();
            return Some(way);
        }
    }
}

fn circle(cycle: &[(&PolicyVersion, &Dependency)]) -> String {
    let mut way: Vec<String> = cycle.iter().map(|(version, _)| shown(version)).collect();
    way.push(way[0].clone());
    format!("versions need each other in a circle: {}", way.join(" -> "))
}

/// The lineages' numbers in the order in which their active versions are put in place: what is needed comes before what needs it.
#[must_use]
pub fn order(lineages: &[Lineage]) -> Vec<usize> {
    let selected: Vec<usize> = lineages.iter().map(|lineage| lineage.active).collect();
    ordered(lineages, &selected, &names(lineages))
}

fn ordered(lineages: &[Lineage], selected: &[usize], names: &Names<'_>) -> Vec<usize> {
    let graph = graph(lineages, selected, names);
    // Where there is a circle no order is right; `check` refuses it.
    let Ok(sorted) = toposort(&graph, None) else {
        return (0..lineages.len()).collect();
    };
    sorted.into_iter().rev().map(|node| graph[node]).collect()
}
