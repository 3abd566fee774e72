//! `kubectl drift events`: what the agents have told people.

use std::process::ExitCode;

use anyhow::Result;
use futures_util::StreamExt as _;
use jiff::{Timestamp, tz::TimeZone};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
    runtime::{
        WatchStreamExt as _,
        watcher::{Event, watcher},
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Shown,
    ask::{PAGE, Server},
    follow::{heard, still_read},
    report::{named, printable},
    shown,
};
use crate::{
    cli::{
        columns::wrapped,
        format::{Format, yaml},
        policy::print,
    },
    cluster::{CONTROLLER, config},
};

/// Below the first line of an Event.
const INDENT: &str = "          ";

/// One, as far as it is shown.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
struct Told {
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    note: String,
    event_time: Option<String>,
    series: Option<Series>,
    regarding: Object,
    related: Option<Object>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
struct Series {
    count: u32,
    last_observed_time: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
struct Object {
    kind: String,
    namespace: String,
    name: String,
}

impl Told {
    /// `None`: it is no Event.
    fn new(object: DynamicObject) -> Option<Self> {
        serde_json::from_value(object.data).ok()
    }

    /// When it happened last.
    fn time(&self) -> Option<Timestamp> {
        let series = self.series.as_ref();
        let last = series.and_then(|series| series.last_observed_time.as_ref());
        last.or(self.event_time.as_ref())?.parse().ok()
    }

    fn count(&self) -> u32 {
        self.series.as_ref().map_or(1, |series| series.count.max(1))
    }

    fn node(&self) -> Option<&str> {
        let related = self
            .related
            .as_ref()
            .filter(|related| related.kind == "Node");
        let about = (self.regarding.kind == "Node").then_some(&self.regarding);
        related.or(about).map(|node| node.name.as_str())
    }

    fn policy(&self) -> Option<String> {
        let about = &self.regarding;
        (about.kind == "Policy").then(|| named(&about.namespace, &about.name))
    }

    fn json(&self) -> Value {
        shown(json!({
            "time": self.time().map(|time| time.to_string()),
            "type": self.kind,
            "reason": self.reason,
            "policy": self.policy(),
            "node": self.node(),
            "count": self.count(),
            "note": self.note,
        }))
    }

    fn lines(&self, zone: &TimeZone) -> String {
        let time = self.time().map(|time| {
            let time = time.to_zoned(zone.clone());
            time.strftime("%H:%M:%S").to_string()
        });
        let about = match (self.policy(), self.node()) {
            (Some(policy), Some(node)) => format!("{policy} on {node}"),
            (Some(policy), None) => policy,
            (None, node) => node.unwrap_or("?").to_owned(),
        };
        let times = match self.count() {
            1 => String::new(),
            count => format!(" ({count} times)"),
        };
        let head = format!(
            "{:<8}  {:<16}  {about}{times}",
            time.as_deref().unwrap_or("?"),
            self.reason
        );
        let note = wrapped(&printable(&self.note), INDENT);
        wrapped(&printable(&head), "") + &note
    }
}

pub(super) async fn run(server: &Server, how: Shown) -> Result<ExitCode> {
    let fields = format!("reportingController={CONTROLLER}");
    let api = api(server.client.clone(), server.namespace.as_deref());
    let params = ListParams::default().limit(PAGE).fields(&fields);
    let listed = Server::all(&api, "events.events.k8s.io", params, Told::new).await?;
    let mut told: Vec<Told> = listed.into_iter().flatten().collect();
    told.sort_by_key(Told::time);
    let zone = TimeZone::system();
    let values = told.iter().map(Told::json).collect();
    let table = || table(&told, server.namespace.as_deref(), &zone);
    let first = how.output.print(values, table);
    if !how.watch {
        print(&first)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !still_read(&first)? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut changes = watcher(api, config().fields(&fields))
        .default_backoff()
        .boxed();
    let mut said = false;
    while let Some(event) = changes.next().await {
        // What is listed anew after a disconnection may have been shown: that is seen below.
        let Some(Event::Apply(object) | Event::InitApply(object)) = heard(&mut said, event) else {
            continue;
        };
        let Some(new) = Told::new(object) else {
            continue;
        };
        if told.contains(&new) {
            continue;
        }
        let text = match how.output {
            Format::Table => new.lines(&zone),
            Format::Jsonl => format!("{}\n", new.json()),
            Format::Json => format!("{:#}\n", new.json()),
            Format::Yaml => format!("---\n{}", yaml(&new.json())),
        };
        // The API server keeps them for an hour, and so need nobody for longer.
        let last = new.time();
        told.retain(|old| !is_old(old.time(), last));
        told.push(new);
        if !still_read(&text)? {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_old(time: Option<Timestamp>, last: Option<Timestamp>) -> bool {
    let age = time.zip(last).map(|(time, last)| last.duration_since(time));
    age.is_some_and(|age| age.as_hours() >= 2)
}

fn api(client: Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("events.k8s.io", "v1", "Event");
    let resource = ApiResource::from_gvk(&kind);
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    }
}

fn table(told: &[Told], namespace: Option<&str>, zone: &TimeZone) -> String {
    if told.is_empty() {
        return match namespace {
            Some(namespace) => format!(
                "nothing was told in the namespace {} in the last hour. Of all: kubectl drift events -A\n",
                printable(namespace)
            ),
            None => "nothing was told in the last hour. What was before: drift-agent history, on a node\n".to_owned(),
        };
    }
    told.iter().map(|told| told.lines(zone)).collect()
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    fn told(more: &Value) -> Told {
        let mut object = json!({
            "metadata": {"name": "app.1", "namespace": "web"},
            "type": "Warning", "reason": "DriftDetected", "note": "/etc/app/app.conf: content, by /usr/bin/sed",
            "eventTime": "2026-11-30T10:00:00.000000Z",
            "regarding": {"kind": "Policy", "namespace": "web", "name": "app"},
            "related": {"kind": "Node", "name": "node-a"},
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        Told::new(object).expect("an Event")
    }

    #[test]
    fn events_as_people_and_programs_read_them() {
        let series =
            json!({"series": {"count": 5, "lastObservedTime": "2026-11-30T10:01:00.000000Z"}});
        let node = json!({"regarding": {"kind": "Node", "name": "node-b"}, "related": null, "reason": "EventsLost", "note": "7 lost"});
        let all = [told(&json!({})), told(&series), told(&node)];
        assert_eq!(
            table(&all, None, &TimeZone::UTC),
            "\
10:00:00  DriftDetected     web/app on node-a
          /etc/app/app.conf: content, by /usr/bin/sed
10:01:00  DriftDetected     web/app on node-a (5 times)
          /etc/app/app.conf: content, by /usr/bin/sed
10:00:00  EventsLost        node-b
          7 lost
"
        );
        assert_eq!(all[1].json()["count"], 5);
        assert_eq!(all[1].json()["time"], "2026-11-30T10:01:00Z");
        assert_eq!(all[2].json()["policy"], Value::Null);
        assert!(is_old(all[0].time(), "2026-11-30T12:00:00Z".parse().ok()));
        assert!(!is_old(all[0].time(), all[1].time()));
    }

    #[test]
    fn what_strangers_write_stays_in_its_lines() {
        let evil = "\u{1b}[2J\n\u{202e}";
        let long = format!("{evil} {}", "x".repeat(900));
        let object = told(
            &json!({"reason": evil, "note": long, "regarding": {"kind": "Policy", "namespace": evil, "name": long}}),
        );
        for line in object.lines(&TimeZone::UTC).lines() {
            assert!(line.width() <= 100, "{line}");
            assert!(
                !line.chars().any(drift_common::escape::is_deceptive),
                "{line:?}"
            );
        }
        assert!(!object.json().to_string().contains("\\u001b"));
    }

    #[test]
    fn nothing_told_says_where_else_to_look() {
        assert!(table(&[], Some("web"), &TimeZone::UTC).contains("kubectl drift events -A"));
        assert!(table(&[], None, &TimeZone::UTC).contains("drift-agent history"));
    }
}
