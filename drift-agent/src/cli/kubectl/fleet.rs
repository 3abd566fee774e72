//! All nodes of a cluster with what their agents have written, and its policies. No I/O, but for the lists at the start.

use std::collections::{BTreeMap, BTreeSet};

use drift_common::policy::NODE_DRIFT;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams},
    core::PartialObjectMeta,
};

use super::{
    ask::{PAGE, Server, Unanswered},
    report::{Health, Report},
};
use crate::cluster::{Key, Kind, News, Stamp, own};

/// What is known of a cluster.
#[derive(Default)]
pub(super) struct Fleet {
    pub(super) reports: Kind<Report>,
    /// `None`: whoever asks may not list them, so that a node without an agent is not known.
    pub(super) nodes: Option<Kind<()>>,
    pub(super) policies: Kind<Declared>,
    /// Versions that are there: namespace, policy, version.
    pub(super) versions: BTreeSet<(String, String, String)>,
    /// Policies that take versions from another namespace: namespace, policy.
    pub(super) taking: BTreeSet<(String, String)>,
}

/// What a Policy says of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) active: String,
    pub(super) mode: String,
    /// `canary 2.0.0 10 %`.
    pub(super) rollout: Option<String>,
    /// Those that a node may have.
    pub(super) versions: BTreeSet<String>,
}

impl Declared {
    pub(super) fn new(object: &DynamicObject) -> Self {
        let spec = &object.data["spec"];
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let mut declared = Self {
            active: text(&spec["activeVersion"]),
            mode: match &spec["mode"] {
                serde_json::Value::Null => "observe".to_owned(),
                mode => text(mode),
            },
            ..Self::default()
        };
        declared.versions.insert(declared.active.clone());
        let canary = &spec["rollout"]["canary"];
        let arms = spec["rollout"]["arms"].as_array();
        if canary.is_object() {
            let version = text(&canary["version"]);
            declared.rollout = Some(format!("canary {version} {} %", canary["weight"]));
            declared.versions.insert(version);
        } else if let Some(arms) = arms {
            let arm = |arm: &serde_json::Value| {
                let version = text(&arm["version"]);
                (
                    format!("{} {version} {} %", text(&arm["name"]), arm["weight"]),
                    version,
                )
            };
            let (said, versions): (Vec<String>, Vec<String>) = arms.iter().map(arm).unzip();
            declared.rollout = Some(format!("arms {}", said.join(", ")));
            declared.versions.extend(versions);
        }
        declared
    }
}

/// Of all nodes, or all that report.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) nodes: usize,
    /// How many nodes are so.
    pub(super) by: BTreeMap<Health, usize>,
    /// The nodes whose numbers are known; the following are of these.
    pub(super) reporting: usize,
    pub(super) files: u64,
    pub(super) as_declared: u64,
    pub(super) drifting: u64,
    pub(super) held: u64,
    pub(super) healed: u64,
}

impl Sums {
    /// How many in a hundred files are as declared, in hundredths, rounded down: all is only said where it is all.
    pub(super) fn consistency(&self) -> Option<String> {
        let parts = self
            .as_declared
            .saturating_mul(10_000)
            .checked_div(self.files)?;
        Some(format!("{}.{:02}", parts / 100, parts % 100))
    }
}

/// How the nodes of a policy are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Spread {
    /// How many nodes have which version in force.
    pub(super) versions: BTreeMap<String, usize>,
    /// Nodes that had it when they reported last, and do not now.
    pub(super) unknown: usize,
    pub(super) files: u64,
    pub(super) drifting: u64,
    pub(super) held: u64,
    pub(super) healed: u64,
    /// A node that has another version than the Policy says, and which.
    pub(super) behind: Option<(String, String)>,
    pub(super) behind_count: usize,
    /// A node on which it drifts.
    pub(super) drifts_on: Option<String>,
}

impl Fleet {
    /// What their agents have written of all nodes.
    pub(super) async fn ask(server: &Server) -> Result<Self, Unanswered> {
        let mut fleet = Self::default();
        let drifts: Api<DynamicObject> = Api::all_with(server.client.clone(), &own(NODE_DRIFT));
        let params = ListParams::default().limit(PAGE);
        let listed = Server::all(
            &drifts,
            "nodedrifts.configdrift.io",
            params,
            |object: DynamicObject| (key(&object), Report::brief(object)),
        );
        fill(&mut fleet.reports, listed.await?);
        fleet.nodes = nodes(server).await?;
        Ok(fleet)
    }

    /// All nodes by name: the worst first.
    pub(super) fn all(&self, now: Timestamp) -> Vec<(&str, Option<&Report>, Health)> {
        let mut all: BTreeMap<&str, Option<&Report>> = self
            .nodes
            .iter()
            .flat_map(Kind::iter)
            .map(|(key, _, ())| (&*key.name, None))
            .collect();
        all.extend(
            self.reports
                .iter()
                .map(|(key, _, report)| (&*key.name, Some(report))),
        );
        let mut all: Vec<_> = all
            .into_iter()
            .map(|(name, report)| {
                let health = report.map_or(Health::NoAgent, |report| report.health(now));
                (name, report, health)
            })
            .collect();
        all.sort_by_key(|(_, _, health)| std::cmp::Reverse(*health));
        all
    }

    /// Whether there is no such Node, where that is known.
    pub(super) fn is_gone(&self, node: &str) -> bool {
        let key = Key {
            namespace: String::new(),
            name: node.to_owned(),
        };
        self.nodes
            .as_ref()
            .is_some_and(|nodes| nodes.get(&key).is_none())
    }

    pub(super) fn sums(&self, now: Timestamp) -> Sums {
        let mut sums = Sums::default();
        for (_, report, health) in self.all(now) {
            sums.nodes += 1;
            *sums.by.entry(health).or_default() += 1;
            let status = report.and_then(|report| report.status.as_ref().ok());
            let Some(status) = status.filter(|_| health.is_known()) else {
                continue;
            };
            let counts = &status.counts;
            let add = |sum: &mut u64, count: Option<u32>| {
                *sum = sum.saturating_add(count.unwrap_or(0).into());
            };
            sums.reporting += 1;
            add(&mut sums.files, counts.files);
            add(&mut sums.as_declared, counts.as_declared);
            add(&mut sums.drifting, counts.drifting);
            add(&mut sums.held, counts.held);
            add(&mut sums.healed, counts.healed);
        }
        sums
    }

    /// How each policy is on the nodes: by namespace (empty: from files of nodes) and name.
    pub(super) fn spread(&self, now: Timestamp) -> BTreeMap<Key, Spread> {
        let mut spread: BTreeMap<Key, Spread> = BTreeMap::new();
        for (node, report, health) in self.all(now) {
            let status = report.and_then(|report| report.status.as_ref().ok());
            for policy in status.iter().flat_map(|status| &status.policies) {
                let key = Key {
                    namespace: policy.namespace.clone(),
                    name: policy.name.clone(),
                };
                let declared = self.policies.get(&key);
                let of = spread.entry(key).or_default();
                if !health.is_known() {
                    of.unknown += 1;
                    continue;
                }
                let version = policy.active_version.clone().unwrap_or_default();
                if declared.is_some_and(|declared| !declared.versions.contains(&version)) {
                    of.behind_count += 1;
                    of.behind.get_or_insert((node.to_owned(), version.clone()));
                }
                *of.versions.entry(version).or_default() += 1;
                of.files = of.files.saturating_add(policy.files.into());
                of.drifting = of.drifting.saturating_add(policy.drifting.into());
                of.held = of.held.saturating_add(policy.held.into());
                of.healed = of.healed.saturating_add(policy.healed.unwrap_or(0).into());
                if policy.drifting > 0 {
                    of.drifts_on.get_or_insert(node.to_owned());
                }
            }
        }
        spread
    }

    /// The worst of all nodes.
    pub(super) fn worst(&self, now: Timestamp) -> Option<Health> {
        self.all(now).first().map(|(_, _, health)| *health)
    }
}

pub(super) fn key(object: &DynamicObject) -> Key {
    Key {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}

/// All at once.
pub(super) fn fill<T>(kind: &mut Kind<T>, listed: Vec<(Key, T)>) {
    kind.take(News::Begin);
    for (key, object) in listed {
        kind.take(News::Listed(key, Stamp::default(), object));
    }
    kind.take(News::End);
}

/// The names of all nodes, without anything else of them. `None`: they may not be listed.
async fn nodes(server: &Server) -> Result<Option<Kind<()>>, Unanswered> {
    let api: Api<PartialObjectMeta<Node>> = Api::all(server.client.clone());
    let params = ListParams::default().limit(PAGE);
    let listed = Server::all(&api, "nodes", params, |node| {
        let key = Key {
            namespace: String::new(),
            name: node.name_any(),
        };
        (key, ())
    });
    let listed = match listed.await {
        Err(Unanswered::Forbidden(..)) => return Ok(None),
        listed => listed?,
    };
    let mut nodes = Kind::default();
    fill(&mut nodes, listed);
    Ok(Some(nodes))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::{super::report::tests::drift, *};

    pub(in crate::cli::kubectl) const NOW: &str = "2026-11-30T10:00:02Z";

    pub(in crate::cli::kubectl) fn now() -> Timestamp {
        NOW.parse().expect("a time")
    }

    /// Nodes with when their agents have written, and what.
    pub(in crate::cli::kubectl) fn fleet(reports: &[(&str, &str, Value)], nodes: &[&str]) -> Fleet {
        let mut fleet = Fleet::default();
        let reports = reports.iter().map(|(node, written, status)| {
            let object = drift(node, written, status);
            (key(&object), Report::brief(object))
        });
        fill(&mut fleet.reports, reports.collect());
        let names = nodes.iter().map(|name| {
            let key = Key {
                namespace: String::new(),
                name: (*name).to_owned(),
            };
            (key, ())
        });
        let mut kind = Kind::default();
        fill(&mut kind, names.collect());
        fleet.nodes = Some(kind);
        fleet
    }

    #[test]
    fn the_worst_come_first_and_sums_are_of_those_that_report() {
        let fresh = "2026-11-30T10:00:00Z";
        let drifting = json!({"counts": {"files": 10, "asDeclared": 9, "drifting": 1, "notCompared": 0, "held": 1, "healed": 2}});
        let fleet = fleet(
            &[
                ("a", fresh, json!({})),
                ("b", fresh, drifting),
                ("c", "2026-11-30T09:00:00Z", json!({})),
            ],
            &["a", "b", "c", "d"],
        );
        let order: Vec<_> = fleet
            .all(now())
            .into_iter()
            .map(|(name, _, _)| name)
            .collect();
        assert_eq!(order, ["d", "c", "b", "a"]);
        let sums = fleet.sums(now());
        assert_eq!((sums.nodes, sums.reporting, sums.files), (4, 2, 224));
        assert_eq!((sums.as_declared, sums.drifting, sums.healed), (223, 1, 16));
        assert_eq!(sums.consistency().as_deref(), Some("99.55"));
        assert_eq!(Sums::default().consistency(), None);
        assert!(fleet.is_gone("e") && !fleet.is_gone("d"));
        assert_eq!(fleet.worst(now()), Some(Health::NoAgent));
    }

    #[test]
    fn which_versions_are_in_force_where() {
        let other = json!({"policies": [{"namespace": "web", "name": "app", "activeVersion": "1.0.0", "files": 2, "drifting": 1}]});
        let fresh = "2026-11-30T10:00:00Z";
        let mut fleet = fleet(
            &[
                ("a", fresh, json!({})),
                ("b", fresh, other),
                ("c", "2026-11-30T09:00:00Z", json!({})),
            ],
            &[],
        );
        let policy: DynamicObject = serde_json::from_value(json!({
            "metadata": {"namespace": "web", "name": "app"},
            "spec": {"activeVersion": "1.2.0", "rollout": {"canary": {"version": "1.3.0", "weight": 10}}},
        }))
        .expect("an object");
        fill(
            &mut fleet.policies,
            vec![(key(&policy), Declared::new(&policy))],
        );
        let spread = fleet.spread(now());
        let app = &spread[&Key {
            namespace: "web".to_owned(),
            name: "app".to_owned(),
        }];
        assert_eq!(
            app.versions,
            [("1.0.0".to_owned(), 1), ("1.2.0".to_owned(), 1)].into()
        );
        assert_eq!(app.behind, Some(("b".to_owned(), "1.0.0".to_owned())));
        assert_eq!((app.unknown, app.drifting, app.behind_count), (1, 1, 1));
        let declared = fleet.policies.iter().next().expect("one").2;
        assert_eq!(declared.rollout.as_deref(), Some("canary 1.3.0 10 %"));
        assert_eq!(declared.mode, "observe");
    }
}
