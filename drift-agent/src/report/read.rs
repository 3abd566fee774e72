//! A line of JSON back to a [`Record`]: what the table for people needs of it.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use drift_common::escape;
use serde::Deserialize;

use super::container::{Container, Pod};
use super::record::{Actor, Cause, Event, FileType, Record, SUPERSEDED, State};
use crate::compare::Drift;

#[derive(Deserialize)]
struct Line {
    id: String,
    time: String,
    event: String,
    policy: Option<String>,
    version: Option<String>,
    path: Option<String>,
    path_bytes: Option<String>,
    #[serde(default)]
    drift: Vec<String>,
    declared: Option<StateLine>,
    observed: Option<StateLine>,
    actor: Option<ActorLine>,
    actor_unknown: Option<String>,
    cause: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    heal_ns: Option<u64>,
}

#[derive(Deserialize)]
struct StateLine {
    #[serde(rename = "type")]
    file_type: Option<String>,
    mode: Option<String>,
    uid: Option<u32>,
    gid: Option<u32>,
}

#[derive(Deserialize)]
struct ActorLine {
    pid: u32,
    start_ns: u64,
    comm: String,
    uid: u32,
    gid: u32,
    container_id: Option<String>,
    pod: Option<String>,
    namespace: Option<String>,
}

/// The record, as far as the table shows it: its line there is the one it had. A reason is where the sentence would be. `None`: it is no record,
/// or one of an event that is not known here.
pub(super) fn record(line: &str) -> Option<Record> {
    let line: Line = serde_json::from_str(line).ok()?;
    let event = Event::ALL
        .into_iter()
        .find(|event| event.name() == line.event)?;
    let path = match (line.path_bytes, line.path) {
        (Some(bytes), _) => Some(STANDARD.decode(bytes).ok()?),
        (None, path) => path.map(|path| escape::original(&path)),
    };
    let actor = match (line.actor, line.actor_unknown) {
        (Some(actor), _) => Some(Ok(Actor {
            pid: actor.pid,
            start_ns: actor.start_ns,
            comm: OsString::from_vec(escape::original(&actor.comm)),
            exe: None,
            uid: actor.uid,
            gid: actor.gid,
            cgroup: None,
            container: actor.container_id.map(|id| {
                Ok(Container {
                    id,
                    pod: actor.pod.zip(actor.namespace).map(|(name, namespace)| Pod {
                        name,
                        namespace,
                        workload: None,
                        service_account: None,
                    }),
                    pod_uid: None,
                    name: None,
                    image: None,
                })
            }),
        })),
        (None, Some(why)) => Some(Err(why)),
        (None, None) => None,
    };
    Some(Record {
        id: line.id.parse().ok()?,
        time: line.time.parse().ok()?,
        event,
        policy: line.policy,
        version: line.version,
        path: path.map(|path| PathBuf::from(OsString::from_vec(path))),
        drift: line.drift.iter().filter_map(|name| drift(name)).collect(),
        declared: line.declared.map(state),
        observed: line.observed.map(state),
        actor,
        cause: line
            .cause
            .and_then(|name| Cause::ALL.into_iter().find(|cause| cause.name() == name)),
        severity: None,
        seen_ns: None,
        outcome: None,
        reason: (line.reason.as_deref() == Some(SUPERSEDED)).then_some(SUPERSEDED),
        message: line
            .message
            .or(line.reason.filter(|_| event.needs_a_reason())),
        heal_ns: line.heal_ns,
        after_heal: Vec::new(),
        holders: None,
        evidence: Vec::new(),
    })
}

fn drift(name: &str) -> Option<Drift> {
    Drift::ALL.into_iter().find(|drift| drift.name() == name)
}

fn state(line: StateLine) -> State {
    State {
        file_type: line
            .file_type
            .and_then(|name| FileType::ALL.into_iter().find(|kind| kind.name() == name)),
        digest: None,
        size: None,
        mode: line
            .mode
            .and_then(|mode| u32::from_str_radix(&mode, 8).ok()),
        uid: line.uid,
        gid: line.gid,
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::super::{Look, record::Event, sample::any_record};

    proptest! {
        #[test]
        fn a_record_that_was_read_back_has_the_line_it_had(record in any_record()) {
            let look = Look { columns: Some(400), colour: false, zone: TimeZone::UTC };
            let json = record.line("node-a").expect("a line");
            let read = super::record(&json).expect("a record");
            prop_assert_eq!(look.line(&read), look.line(&record));
            prop_assert_eq!(read.path, record.path);
            prop_assert_eq!(read.id, record.id);
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            super::record(&text);
        }
    }

    #[test]
    fn an_event_of_a_later_agent_is_none() {
        let record = super::super::sample::every_event().remove(0);
        let json = record.line("node-a").expect("a line");
        assert_eq!(record.event, Event::DriftDetected);
        assert!(super::record(&json.replace("drift.detected", "drift.invented")).is_none());
    }
}
