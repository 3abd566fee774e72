//! `kubectl drift policies`.

use std::process::ExitCode;

use anyhow::Result;
use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use super::{
    Shown,
    ask::{PAGE, Server, Unanswered},
    fleet::{Declared, Fleet, Spread, fill, key},
    follow::{Follow, follow},
    report::{named, printable},
    shown,
};
use crate::{
    cli::columns::{Row, fitted, wrapped},
    cluster::Key,
};

/// Below a policy's row.
const INDENT: &str = "     ";

pub(super) async fn run(server: &Server, how: Shown) -> Result<ExitCode> {
    let mut fleet = Fleet::ask(server).await?;
    let params = ListParams::default().limit(PAGE);
    let policies = server.api("Policy");
    let listed = Server::all(
        &policies,
        "policies.configdrift.io",
        params,
        |object: DynamicObject| (key(&object), Declared::new(&object)),
    );
    fill(&mut fleet.policies, listed.await?);
    let versions = server.rows("policyversions").await?.into_iter();
    fleet.versions = versions
        .filter_map(|line| {
            let (policy, version) = (line.text("Policy")?, line.text("Version")?);
            let (policy, version) = (policy.to_owned(), version.to_owned());
            Some((line.namespace, policy, version))
        })
        .collect();
    // A cluster that was told of an older drift has none.
    let references = match server.rows("policyversionrefs").await {
        Err(Unanswered::Undefined(_)) => Vec::new(),
        rows => rows?,
    };
    fleet.taking = references
        .into_iter()
        .filter(|line| line.text("From").is_some_and(|from| !from.is_empty()))
        .filter_map(|line| {
            let policy = line.text("Policy")?.to_owned();
            Some((line.namespace, policy))
        })
        .collect();
    let namespace = server.namespace.clone();
    let view = move |fleet: &Fleet, now: Timestamp| {
        (values(fleet, now), table(fleet, namespace.as_deref(), now))
    };
    follow(server, fleet, how, Follow::Policies, false, view).await?;
    Ok(ExitCode::SUCCESS)
}

/// Each policy with how it is on the nodes.
fn all(fleet: &Fleet, now: Timestamp) -> Vec<(&Key, &Declared, Spread)> {
    let mut spread = fleet.spread(now);
    fleet
        .policies
        .iter()
        .map(|(key, _, declared)| (key, declared, spread.remove(key).unwrap_or_default()))
        .collect()
}

/// How many nodes have a version that the Policy says.
fn in_force(declared: &Declared, spread: &Spread) -> usize {
    let versions = spread.versions.iter();
    versions
        .filter(|(version, _)| declared.versions.contains(*version))
        .map(|(_, count)| count)
        .sum()
}

fn reporting(spread: &Spread) -> usize {
    spread.versions.values().sum()
}

fn values(fleet: &Fleet, now: Timestamp) -> Vec<Value> {
    all(fleet, now)
        .into_iter()
        .map(|(key, declared, spread)| {
            shown(json!({
                "namespace": key.namespace,
                "name": key.name,
                "activeVersion": declared.active,
                "mode": declared.mode,
                "rollout": declared.rollout,
                "versions": fleet.versions.iter()
                    .filter(|(namespace, policy, _)| *namespace == key.namespace && *policy == key.name)
                    .map(|(.., version)| version)
                    .collect::<Vec<_>>(),
                "nodes": reporting(&spread),
                "nodesInForce": in_force(declared, &spread),
                "nodesNotReporting": spread.unknown,
                "nodesBy": spread.versions,
                "files": spread.files,
                "drifting": spread.drifting,
                "held": spread.held,
                "healed": spread.healed,
            }))
        })
        .collect()
}

fn table(fleet: &Fleet, namespace: Option<&str>, now: Timestamp) -> String {
    let all = all(fleet, now);
    if all.is_empty() {
        return match namespace {
            Some(namespace) => format!(
                "no policies in the namespace {}. All of the cluster: kubectl drift policies -A\n",
                printable(namespace)
            ),
            None => "no policies in this cluster: nothing is declared. kubectl apply -f FILE\n"
                .to_owned(),
        };
    }
    let left = |text: &str| (printable(text), false);
    let right = |text: String| (text, true);
    let heading = |text: &str| (text.to_owned(), true);
    let mut head = vec![left("policy"), left("active"), left("mode")];
    head.extend(["in force", "files", "drifting", "held", "healed (24 h)"].map(heading));
    let mut rows: Vec<Row> = vec![head];
    for (key, declared, spread) in &all {
        let name = match namespace {
            Some(_) => key.name.clone(),
            None => named(&key.namespace, &key.name),
        };
        let nodes = reporting(spread);
        // Of nodes that do not report nothing is known, and that is not 0.
        let known = |count: u64| match (nodes, spread.unknown) {
            (0, unknown) if unknown > 0 => "?".to_owned(),
            _ => count.to_string(),
        };
        rows.push(vec![
            left(&name),
            left(&declared.active),
            left(&declared.mode),
            right(format!(
                "{}/{}",
                in_force(declared, spread),
                nodes + spread.unknown
            )),
            right(known(spread.files)),
            right(known(spread.drifting)),
            right(known(spread.held)),
            right(known(spread.healed)),
        ]);
    }
    let mut lines = fitted(rows).into_iter();
    let mut text = lines.next().unwrap_or_default();
    for ((key, declared, spread), line) in all.iter().zip(lines) {
        text += &line;
        for note in notes(fleet, key, declared, spread) {
            text += &wrapped(&printable(&note), INDENT);
        }
    }
    text
}

fn notes(fleet: &Fleet, key: &Key, declared: &Declared, spread: &Spread) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(declared.rollout.clone());
    let own = (key.namespace.clone(), key.name.clone());
    let there = (own.0.clone(), own.1.clone(), declared.active.clone());
    if !fleet.versions.contains(&there) && !fleet.taking.contains(&own) {
        notes.push(format!(
            "its namespace has no PolicyVersion {} of it: kubectl get cpv,cpvref -n {}",
            declared.active, key.namespace
        ));
    }
    if let Some((node, version)) = &spread.behind {
        let count = match spread.behind_count {
            1 => "1 node has".to_owned(),
            count => format!("{count} nodes have"),
        };
        notes.push(format!(
            "{count} another version: {node} has {version}: kubectl drift why {node}"
        ));
    }
    if let Some(node) = &spread.drifts_on {
        notes.push(format!("it drifts on {node}: kubectl drift why {node}"));
    }
    if spread.unknown > 0 {
        notes.push(format!(
            "{} of its nodes do not report: kubectl drift nodes",
            spread.unknown
        ));
    }
    if reporting(spread) + spread.unknown == 0 {
        notes.push("no node has it: nodeSelector, and kubectl drift events".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::{
        super::fleet::tests::{fleet, now},
        *,
    };

    fn policy(name: &str, spec: &Value) -> (Key, Declared) {
        let object = json!({"metadata": {"namespace": "web", "name": name}, "spec": spec});
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        (key(&object), Declared::new(&object))
    }

    #[test]
    fn policies_with_where_they_are_in_force() {
        let other = json!({"policies": [{"namespace": "web", "name": "app", "activeVersion": "1.0.0", "files": 2, "drifting": 1}]});
        let mut fleet = fleet(
            &[
                ("node-a", "2026-11-30T10:00:00Z", json!({})),
                ("node-b", "2026-11-30T10:00:00Z", other),
                ("node-c", "2026-11-30T09:00:00Z", json!({})),
            ],
            &[],
        );
        let rollout = json!({"canary": {"version": "1.3.0", "weight": 10}});
        fill(
            &mut fleet.policies,
            vec![
                policy(
                    "app",
                    &json!({"activeVersion": "1.2.0", "mode": "heal", "rollout": rollout}),
                ),
                policy("db", &json!({"activeVersion": "2.0.0"})),
            ],
        );
        fleet
            .versions
            .insert(("web".to_owned(), "app".to_owned(), "1.2.0".to_owned()));
        assert_eq!(
            table(&fleet, Some("web"), now()),
            " policy   active   mode      in force   files   drifting   held   healed (24 h)
 app      1.2.0    heal           1/3     202          1      0              14
     canary 1.3.0 10 %
     1 node has another version: node-b has 1.0.0: kubectl drift why node-b
     it drifts on node-b: kubectl drift why node-b
     1 of its nodes do not report: kubectl drift nodes
 db       2.0.0    observe        0/0       0          0      0               0
     its namespace has no PolicyVersion 2.0.0 of it: kubectl get cpv,cpvref -n web
     no node has it: nodeSelector, and kubectl drift events
"
        );
        let values = values(&fleet, now());
        assert_eq!(values[0]["nodesInForce"], 1);
        assert_eq!(values[0]["nodesBy"], json!({"1.0.0": 1, "1.2.0": 1}));
        assert_eq!(values[0]["versions"], json!(["1.2.0"]));
    }

    #[test]
    fn no_policies() {
        assert!(table(&Fleet::default(), Some("a"), now()).contains("kubectl drift policies -A"));
        assert!(table(&Fleet::default(), None, now()).contains("nothing is declared"));
    }
}
