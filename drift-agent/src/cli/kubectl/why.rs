//! `kubectl drift why`: why a node, or one path on it, is as it is.

mod declares;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use clap::Args;
use drift_common::{
    escape,
    policy::{NODE_DRIFT, closest},
};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use self::declares::Declares;
use super::{
    ask::{ANSWER, PAGE, Server, Unanswered, unanswered},
    report::{Drift, HEALED, Health, Report, Status, json as brief, named, printable},
    shown,
};
use crate::{
    cli::{
        columns::{Row, fitted, span, wrapped},
        format::Format,
        policy::print,
    },
    cluster::own,
};

/// Show why a node is as it is, or one declared path on it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Why {
    node: String,
    /// A path on the node.
    #[arg(value_parser = absolute)]
    path: Option<PathBuf>,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "\
Status: 0 as declared, 4 drifting, 5 not known, 1 something went wrong

Examples:
  kubectl drift why node-7
  kubectl drift why node-7 /etc/app/app.conf";

fn absolute(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix('/') {
        Some(_) => Ok(text.into()),
        None => Err("a path on a node begins with `/`".to_owned()),
    }
}

impl Why {
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode> {
        let Why { node, path, output } = self;
        let api: Api<DynamicObject> = Api::all_with(server.client.clone(), &own(NODE_DRIFT));
        let found = timeout(ANSWER, api.get_opt(&node)).await;
        let found = found.map_err(|_| Unanswered::Late)?;
        let found = found.map_err(|error| unanswered("nodedrifts.configdrift.io", error))?;
        let Some(object) = found else {
            bail!(nobody(server, &node).await?);
        };
        let report = Report::whole(object);
        let now = server.now();
        let health = report.health(now);
        let Some(path) = path else {
            let value = whole(&node, &report, now);
            print(&output.print_one(shown(value), || of_node(&node, &report, now)))?;
            return Ok(ExitCode::from(health.exit()));
        };
        let status = match &report.status {
            Ok(status) => status,
            Err(why) => bail!(
                "what stands in the NodeDrift of {node} cannot be read: {}",
                printable(why)
            ),
        };
        let path = escape::path(&path).to_string();
        let seen = Seen {
            node: &node,
            path: &path,
            drift: status.drifts.iter().find(|drift| drift.path == path),
            declares: declares::ask(server, status, &path).await?,
            status,
            health,
            age: report.age(now),
        };
        let Some(verdict) = seen.verdict() else {
            bail!(
                "no version in force on {node} declares {path}. What is in force there: kubectl drift why {node}"
            );
        };
        print(&output.print_one(shown(seen.json(verdict)), || seen.text(verdict)))?;
        Ok(ExitCode::from(verdict.exit()))
    }
}

/// There is no NodeDrift of this name: which there are.
async fn nobody(server: &Server, node: &str) -> Result<String, Unanswered> {
    let api: Api<DynamicObject> = Api::all_with(server.client.clone(), &own(NODE_DRIFT));
    let params = ListParams::default().limit(PAGE);
    let names = Server::all(
        &api,
        "nodedrifts.configdrift.io",
        params,
        |object: DynamicObject| object.name_any(),
    );
    let names = names.await?;
    let shown = escape::name(node);
    let meant = closest(node, names.iter().map(String::as_str));
    let meant = meant.map_or(String::new(), |meant| {
        format!(", did you mean {}?", escape::name(meant))
    });
    Ok(format!(
        "no agent has reported for a node {shown}{meant} Those that report: kubectl drift nodes",
        meant = if meant.is_empty() {
            ".".to_owned()
        } else {
            meant
        }
    ))
}

/// What is said of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    AsDeclared,
    /// It was put back lately, and nothing has happened to it since.
    Healed,
    Drifting,
    /// It is declared, and more is not known.
    NotKnown,
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::AsDeclared => "as declared",
            Self::Healed => "as declared: it was healed",
            Self::Drifting => "NOT as declared",
            Self::NotKnown => "declared, and how it is is not known",
        }
    }

    const fn exit(self) -> u8 {
        match self {
            Self::AsDeclared | Self::Healed => 0,
            Self::Drifting => 4,
            Self::NotKnown => 5,
        }
    }
}

/// All that is known of one path on a node.
struct Seen<'s> {
    node: &'s str,
    /// As an agent shows it.
    path: &'s str,
    drift: Option<&'s Drift>,
    declares: Option<Declares>,
    status: &'s Status,
    health: Health,
    age: Option<u64>,
}

impl Seen<'_> {
    /// `None`: nobody declares it there.
    fn verdict(&self) -> Option<Verdict> {
        if self.drift.is_none() && self.declares.is_none() {
            return None;
        }
        let counts = &self.status.counts;
        let ongoing = self
            .status
            .drifts
            .iter()
            .filter(|drift| drift.outcome != HEALED);
        let is_all = counts
            .drifting
            .is_some_and(|drifting| ongoing.count() >= drifting as usize);
        Some(match self.drift {
            _ if !self.health.is_known() => Verdict::NotKnown,
            Some(drift) if drift.outcome == HEALED => Verdict::Healed,
            Some(_) => Verdict::Drifting,
            // The NodeDrift lists some of what drifts, and this may be one of the others.
            None if !is_all || counts.not_compared != Some(0) => Verdict::NotKnown,
            None => Verdict::AsDeclared,
        })
    }

    fn json(&self, verdict: Verdict) -> Value {
        json!({
            "node": self.node,
            "path": self.path,
            "verdict": verdict.name(),
            "nodeHealth": self.health.name(),
            "seenSecondsAgo": self.age,
            "declaredBy": self.declares.as_ref().map(|declares| json!({
                "namespace": declares.namespace, "policy": declares.policy, "version": declares.version, "as": declares.list,
            })),
            "drift": self.drift,
        })
    }

    fn text(&self, verdict: Verdict) -> String {
        let kinds = match (verdict, self.drift) {
            (Verdict::Drifting, Some(drift)) => format!(": {}", drift.kinds.join(", ")),
            _ => String::new(),
        };
        let head = format!(
            "{} on {} is {}{kinds}",
            self.path,
            self.node,
            verdict.name()
        );
        let mut text = wrapped(&printable(&head), "");
        let mut line = |about: &str, said: &str| {
            let said = wrapped(&printable(said), "             ");
            text += &format!("  {about:<9}  {}", said.trim_start());
        };
        match (&self.declares, self.drift) {
            (Some(declares), _) => line(
                "declared",
                &format!(
                    "{} {}, in its {}",
                    named(&declares.namespace, &declares.policy),
                    declares.version,
                    declares.list
                ),
            ),
            (None, Some(drift)) => line("declared", &named(&drift.namespace, &drift.policy)),
            (None, None) => {}
        }
        if let Some(drift) = self.drift {
            let since = drift
                .since
                .as_deref()
                .unwrap_or("at a time that is not known");
            line("changed", &format!("{since}: {}", drift.sentence()));
            let why = drift.reason.as_ref();
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            line("healing", &format!("{}{why}", drift.outcome));
        }
        line(
            "known",
            &match self.age {
                Some(age) => format!(
                    "the agent has written {} ago ({})",
                    span(age),
                    self.health.name()
                ),
                None => "no agent has written".to_owned(),
            },
        );
        if verdict == Verdict::NotKnown && self.health.is_known() {
            line(
                "note",
                "the NodeDrift lists some of the paths that drift, and not all were compared, or listed",
            );
        }
        text += "\n";
        text += &wrapped(
            &printable(&format!(
                "On {}: drift-agent explain {}",
                self.node, self.path
            )),
            "",
        );
        text
    }
}

/// For programs: all that is known of a node.
fn whole(node: &str, report: &Report, now: Timestamp) -> Value {
    let mut value = brief(node, Some(report), now);
    if let Ok(status) = &report.status {
        value["conditions"] = json!(status.conditions);
        value["drifts"] = json!(status.drifts);
    }
    value
}

fn of_node(node: &str, report: &Report, now: Timestamp) -> String {
    let health = report.health(now);
    let status = match &report.status {
        Ok(status) => status,
        Err(why) => {
            let said = format!("{node}: what stands in its NodeDrift cannot be read: {why}");
            return wrapped(&printable(&said), "");
        }
    };
    let mut text = wrapped(&printable(&headline(node, report, status, health, now)), "");
    let left = |text: &str| (printable(text), false);
    let right = |number: u32| (number.to_string(), true);
    let lacks = status
        .conditions
        .iter()
        .filter(|condition| condition.status != "True");
    for (at, condition) in lacks.enumerate() {
        text += if at == 0 { "\n" } else { "" };
        let said = format!(
            "{} is {}: {}: {}",
            condition.about, condition.status, condition.reason, condition.message
        );
        text += &wrapped(&printable(&said), "  ");
    }
    if !status.policies.is_empty() {
        let heading = |text: &str| (text.to_owned(), true);
        let mut head = vec![left("policy"), left("version"), left("mode")];
        head.extend(["files", "drifting", "held", "healed (24 h)"].map(heading));
        let mut rows: Vec<Row> = vec![head];
        rows.extend(status.policies.iter().map(|policy| {
            vec![
                left(&named(&policy.namespace, &policy.name)),
                left(policy.active_version.as_deref().unwrap_or("-")),
                left(policy.mode.as_deref().unwrap_or("-")),
                right(policy.files),
                right(policy.drifting),
                right(policy.held),
                policy.healed.map_or(heading("?"), right),
            ]
        }));
        text += "\n";
        let mut lines = fitted(rows).into_iter();
        text += &lines.next().unwrap_or_default();
        for (policy, line) in status.policies.iter().zip(lines) {
            text += &line;
            if let Some(message) = &policy.message {
                text += &wrapped(&printable(message), "     ");
            }
        }
    }
    for (at, drift) in status.drifts.iter().enumerate() {
        text += if at == 0 { "\n" } else { "" };
        let said = format!("{}: {}: {}", drift.path, drift.outcome, drift.sentence());
        text += &wrapped(&printable(&said), "  ");
    }
    text += "\n";
    text + &wrapped(&printable(&next(node, status, health)), "")
}

fn headline(
    node: &str,
    report: &Report,
    status: &Status,
    health: Health,
    now: Timestamp,
) -> String {
    let seen = match report.age(now) {
        Some(age) => format!("seen {} ago", span(age)),
        None => "never seen".to_owned(),
    };
    let agent = status
        .agent_version
        .as_deref()
        .unwrap_or("of an unknown version");
    let sensor = match status.sensor.name.as_deref() {
        Some("scan") => "scans alone".to_owned(),
        Some(name) => format!(
            "{name} {}/{}",
            status.sensor.hooks_attached, status.sensor.hooks
        ),
        None => "sensor unknown".to_owned(),
    };
    let then = match health {
        Health::Stale => "; what follows is as it was then",
        _ => "",
    };
    format!(
        "{node} is {}: agent {agent}, {sensor}, {seen}{then}",
        health.name()
    )
}

/// What to type next.
fn next(node: &str, status: &Status, health: Health) -> String {
    match health {
        Health::Stale | Health::NoAgent => {
            format!(
                "Is it there, and its pod? kubectl get node {node}; kubectl get pods -A -o wide --field-selector spec.nodeName={node}"
            )
        }
        Health::Degraded => {
            format!(
                "More on {node}: drift-agent status, and the log of its pod: kubectl get pods -A -o wide --field-selector spec.nodeName={node}"
            )
        }
        Health::Drifting | Health::NotCompared | Health::AsDeclared => {
            match status.drifts.first() {
                Some(drift) => format!("One path: kubectl drift why {node} {}", drift.path),
                None => "What was told lately: kubectl drift events -A".to_owned(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
