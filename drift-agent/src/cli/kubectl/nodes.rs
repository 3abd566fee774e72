//! `kubectl drift status` and `kubectl drift nodes`.

use std::process::ExitCode;

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Shown,
    ask::Server,
    fleet::Fleet,
    follow::{Follow, follow},
    report::{Health, Report, json, named, printable},
    shown,
};
use crate::cli::columns::{Row, fitted, span, wrapped};

/// Nodes that `status` shows.
const MOST_SHOWN: usize = 20;
/// Below a node's row.
const INDENT: &str = "     ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The sums, and nodes that are not as they should be.
    Status,
    All,
}

pub(super) async fn run(server: &Server, how: Shown, which: Which) -> Result<ExitCode> {
    let fleet = Fleet::ask(server).await?;
    let exit = fleet.worst(server.now()).map_or(0, Health::exit);
    let view = |fleet: &Fleet, now: Timestamp| match which {
        Which::Status => (vec![shown(sums(fleet, now))], status(fleet, now)),
        Which::All => (values(fleet, now), table(fleet, now)),
    };
    let is_one = which == Which::Status;
    follow(server, fleet, how, Follow::Nodes, is_one, view).await?;
    Ok(ExitCode::from(exit))
}

/// A value for each node.
fn values(fleet: &Fleet, now: Timestamp) -> Vec<Value> {
    let all = fleet.all(now).into_iter();
    all.map(|(name, report, _)| shown(json(name, report, now)))
        .collect()
}

/// The fleet as one value.
fn sums(fleet: &Fleet, now: Timestamp) -> Value {
    let sums = fleet.sums(now);
    let by = Health::ALL.map(|health| {
        let count = sums.by.get(&health).copied().unwrap_or(0);
        (health.name().to_owned(), json!(count))
    });
    let policies: Vec<Value> = fleet
        .spread(now)
        .into_iter()
        .map(|(key, spread)| json!({"namespace": key.namespace, "name": key.name, "versions": spread.versions, "notReporting": spread.unknown}))
        .collect();
    let attention: Vec<Value> = fleet
        .all(now)
        .into_iter()
        .filter(|(_, _, health)| *health != Health::AsDeclared)
        .map(|(name, report, _)| json(name, report, now))
        .collect();
    json!({
        "nodes": sums.nodes,
        "health": Value::Object(by.into_iter().collect()),
        "reporting": sums.reporting,
        "nodesListed": fleet.nodes.is_some(),
        "files": sums.files,
        "asDeclared": sums.as_declared,
        "drifting": sums.drifting,
        "held": sums.held,
        "healed": sums.healed,
        "consistencyPercent": sums.consistency().and_then(|percent| percent.parse::<f64>().ok()),
        "policies": policies,
        "attention": attention,
    })
}

/// The answer first: how many are how; then the versions in force, and whom to look at.
fn status(fleet: &Fleet, now: Timestamp) -> String {
    let sums = fleet.sums(now);
    if sums.nodes == 0 {
        return NOBODY.to_owned() + &unlisted(fleet);
    }
    let by = Health::ALL.into_iter().rev().filter_map(|health| {
        let count = sums.by.get(&health)?;
        Some(format!("{count} {}", health.name()))
    });
    let mut text = format!(
        "{}: {}\n",
        nodes(sums.nodes),
        by.collect::<Vec<_>>().join(", ")
    );
    let of = match sums.reporting {
        1 => "the 1 node that reports".to_owned(),
        count => format!("the {count} nodes that report"),
    };
    let said = match sums.consistency() {
        _ if sums.reporting == 0 => "how they are is not known: no agent reports".to_owned(),
        None => format!("nothing is declared on {of}"),
        Some(percent) => format!(
            "{} of {} files as declared ({percent} %) on {of}; {} healed in 24 h",
            sums.as_declared, sums.files, sums.healed
        ),
    };
    text += &wrapped(&said, "");
    text += &unlisted(fleet);
    let all = fleet.all(now);
    let bad = all
        .iter()
        .filter(|(_, _, health)| *health != Health::AsDeclared);
    let bad = bad.count();
    // A small fleet is shown whole.
    let most = if all.len() <= MOST_SHOWN {
        all.len()
    } else {
        bad.min(MOST_SHOWN)
    };
    if most > 0 {
        text.push('\n');
        text += &rows(fleet, &all[..most], now);
    }
    if most < all.len() {
        let more = all.len() - most;
        text += &format!(
            "\n {more} more, of which {} are not as declared: kubectl drift nodes\n",
            bad - most
        );
    }
    text + &versions(fleet, now)
}

const NOBODY: &str =
    "no nodes: no agent has reported to this cluster yet. How it is installed: docs/install.md\n";

fn nodes(count: usize) -> String {
    match count {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    }
}

fn unlisted(fleet: &Fleet) -> String {
    match &fleet.nodes {
        Some(_) => String::new(),
        None => "you may not list nodes: those on which no agent has ever reported are not shown\n"
            .to_owned(),
    }
}

/// Which versions are in force on how many nodes.
fn versions(fleet: &Fleet, now: Timestamp) -> String {
    let text = |text: &str| (printable(text), false);
    let spread = fleet.spread(now);
    let mut rows: Vec<Row> = vec![vec![
        text("policy"),
        text("version"),
        ("nodes".to_owned(), true),
    ]];
    let all = spread.iter().flat_map(|(key, spread)| {
        let name = named(&key.namespace, &key.name);
        let known = spread.versions.iter();
        let known = known.map(|(version, count)| (version.as_str(), *count));
        let unknown = (spread.unknown > 0).then_some(("not known: stale", spread.unknown));
        known
            .chain(unknown)
            .map(move |(version, count)| (name.clone(), version, count))
    });
    rows.extend(
        all.map(|(name, version, count)| {
            vec![text(&name), text(version), (count.to_string(), true)]
        }),
    );
    let count = rows.len() - 1;
    if count == 0 {
        return String::new();
    }
    rows.truncate(MOST_SHOWN + 1);
    let mut shown = format!("\n{}", fitted(rows).concat());
    if count > MOST_SHOWN {
        shown += &format!(" {} more: kubectl drift policies -A\n", count - MOST_SHOWN);
    }
    shown
}

/// Every node.
fn table(fleet: &Fleet, now: Timestamp) -> String {
    let all = fleet.all(now);
    if all.is_empty() {
        return NOBODY.to_owned() + &unlisted(fleet);
    }
    unlisted(fleet) + &rows(fleet, &all, now)
}

/// A row for each, and below it what is to be said of it.
fn rows(fleet: &Fleet, all: &[(&str, Option<&Report>, Health)], now: Timestamp) -> String {
    let is_held = |report: &Option<&Report>| {
        let status = report.and_then(|report| report.status.as_ref().ok());
        status.is_some_and(|status| status.counts.held.is_some_and(|held| held > 0))
    };
    let holds = all.iter().any(|(_, report, _)| is_held(report));
    let left = |text: &str| (printable(text), false);
    let right = |text: &str| (text.to_owned(), true);
    let mut head = vec![
        left("node"),
        left("health"),
        right("as declared"),
        right("drifting"),
    ];
    if holds {
        head.push(right("held"));
    }
    head.extend([right("healed (24 h)"), left("agent"), left("seen")]);
    let mut rows = vec![head];
    for (name, report, health) in all {
        let status = report.and_then(|report| report.status.as_ref().ok());
        let counts = status
            .filter(|_| health.is_known())
            .map(|status| &status.counts);
        let number = |of: &dyn Fn(&super::report::Counts) -> Option<u32>| {
            let number = counts.and_then(of);
            right(&number.map_or("?".to_owned(), |number| number.to_string()))
        };
        let declared = counts.and_then(|counts| Some((counts.as_declared?, counts.files?)));
        let declared = declared.map(|(declared, files)| format!("{declared}/{files}"));
        let mut row = vec![
            left(name),
            left(health.name()),
            right(declared.as_deref().unwrap_or("?")),
            number(&|counts| counts.drifting),
        ];
        if holds {
            row.push(number(&|counts| counts.held));
        }
        row.push(number(&|counts| counts.healed));
        row.push(left(
            status
                .and_then(|status| status.agent_version.as_deref())
                .unwrap_or("-"),
        ));
        let age = report.and_then(|report| report.age(now));
        row.push(left(
            &age.map_or("never".to_owned(), |age| format!("{} ago", span(age))),
        ));
        rows.push(row);
    }
    let mut lines = fitted(rows).into_iter();
    let mut text: String = lines.next().unwrap_or_default();
    for ((name, report, health), line) in all.iter().zip(lines) {
        text += &line;
        if let Some(note) = note(fleet, name, *report, *health) {
            text += &wrapped(&printable(&note), INDENT);
        }
    }
    text
}

/// Why a node is not as it should be, and what to type next.
fn note(fleet: &Fleet, name: &str, report: Option<&Report>, health: Health) -> Option<String> {
    let status = match report.map(|report| &report.status) {
        Some(Ok(status)) => status,
        Some(Err(why)) => {
            return Some(format!(
                "what stands in its NodeDrift cannot be read ({why})"
            ));
        }
        None => return Some("no agent has reported: kubectl get pods -A -o wide".to_owned()),
    };
    let drift = status
        .drifts
        .first()
        .map(|drift| format!("{}: {}", drift.path, drift.sentence()));
    match health {
        Health::AsDeclared => None,
        Health::NotCompared => Some("not everything was compared yet".to_owned()),
        Health::Drifting => drift,
        Health::Degraded => {
            let lacks = status.lacks().next()?;
            Some(format!("{}: {}", lacks.reason, lacks.message))
        }
        Health::Stale if fleet.is_gone(name) => {
            Some("its agent has stopped reporting: there is no such Node any more".to_owned())
        }
        Health::Stale => Some(format!(
            "its agent has stopped reporting: kubectl drift why {name}"
        )),
        Health::NoAgent => Some("its agent has not reported yet".to_owned()),
    }
}

#[cfg(test)]
mod tests;
