//! A [`Record`] as one line of JSON, the form `docs/record.schema.json` describes.

use std::{borrow::Cow, os::unix::ffi::OsStrExt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use drift_common::escape::{self, printable};
use serde::Serialize;

use super::record::{
    Actor, AfterDone, Cause, Evidence, FileType, Holder, Holders, Outcome, Record, State,
};
use crate::{compare::Drift, declare::Severity};

/// Names the form; a reader that does not know it must not guess.
pub const SCHEMA: &str = "configdrift.io/record/v1";

impl Record {
    /// The record as JSON, without the line's end. It holds no control character, so it is one line whatever a file or process is called.
    ///
    /// `node`: which machine says so.
    ///
    /// # Errors
    /// None are known: everything in a record has a JSON form.
    pub fn line(&self, node: &str) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Line::of(self, node))
    }
}

#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    id: String,
    time: String,
    event: &'static str,
    node: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    #[serde(skip_serializing_if = "<[Drift]>::is_empty")]
    drift: &'a [Drift],
    #[serde(skip_serializing_if = "Option::is_none")]
    declared: Option<StateLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<StateLine>,
    /// Outer `None`: not a matter of this event. Inner `None`: unknown, written as `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<Option<ActorLine<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor_unknown: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heal_ns: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after_heal: Vec<AfterLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holders: Option<HoldersLine<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evidence: Vec<EvidenceLine<'a>>,
}

#[derive(Serialize)]
struct AfterLine<'a> {
    action: Cow<'a, str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    took_ns: u64,
}

#[derive(Serialize)]
struct HoldersLine<'a> {
    count: usize,
    processes: Vec<HolderLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct HolderLine<'a> {
    pid: u32,
    comm: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exe: Option<Cow<'a, str>>,
    how: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct EvidenceLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(rename = "type")]
    file_type: &'static str,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_kept: Option<&'static str>,
    redact: &'static str,
}

#[derive(Serialize)]
struct StateLine {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    file_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<u32>,
}

#[derive(Serialize)]
struct ActorLine<'a> {
    pid: u32,
    start_ns: u64,
    comm: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exe: Option<Cow<'a, str>>,
    uid: u32,
    gid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<Cow<'a, str>>,
    #[serde(flatten)]
    container: ContainerLine<'a>,
}

/// Flat, beside the process that is in it.
#[derive(Default, Serialize)]
struct ContainerLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    container_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_uid: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_unknown: Option<Cow<'a, str>>,
}

impl<'a> Line<'a> {
    fn of(record: &'a Record, node: &'a str) -> Line<'a> {
        let (actor, actor_unknown) = match &record.actor {
            None => (None, None),
            Some(Ok(actor)) => (Some(Some(ActorLine::of(actor))), None),
            Some(Err(why)) => (Some(None), Some(printable(why))),
        };
        Line {
            schema: SCHEMA,
            id: record.id.hyphenated().to_string(),
            time: time(record.time),
            event: record.event.name(),
            node: printable(node),
            policy: record.policy.as_deref().map(printable),
            version: record.version.as_deref().map(printable),
            path: record.path.as_deref().map(shown),
            path_bytes: record.path.as_deref().and_then(path_bytes),
            drift: &record.drift,
            declared: record.declared.as_ref().map(StateLine::of),
            observed: record.observed.as_ref().map(StateLine::of),
            actor,
            actor_unknown,
            cause: record.cause.map(Cause::name),
            severity: record.severity.map(Severity::name),
            seen_ns: record.seen_ns,
            outcome: record.outcome.map(Outcome::name),
            reason: record.reason,
            message: record.message.as_deref().map(printable),
            heal_ns: record.heal_ns,
            after_heal: record.after_heal.iter().map(AfterLine::of).collect(),
            holders: record.holders.as_ref().map(HoldersLine::of),
            evidence: record.evidence.iter().map(EvidenceLine::of).collect(),
        }
    }
}

impl State {
    /// As records have it.
    ///
    /// # Errors
    /// None that can happen: its fields are numbers and texts.
    pub fn value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::to_value(StateLine::of(self))
    }
}

impl<'a> AfterLine<'a> {
    fn of(done: &'a AfterDone) -> Self {
        Self {
            action: printable(&done.action),
            outcome: done.outcome,
            reason: done.reason,
            message: done.message.as_deref().map(printable),
            output: done.output.map(digest),
            took_ns: done.took_ns,
        }
    }
}

impl<'a> HoldersLine<'a> {
    fn of(holders: &'a Holders) -> Self {
        let holder = |holder: &'a Holder| HolderLine {
            pid: holder.pid,
            comm: escape::bytes(holder.comm.as_bytes()),
            exe: holder.exe.as_deref().map(shown),
            how: holder.how,
            at: holder.at.as_deref().map(shown),
        };
        Self {
            count: holders.count,
            processes: holders.processes.iter().map(holder).collect(),
            incomplete: holders.incomplete.as_deref().map(printable),
        }
    }
}

impl<'a> EvidenceLine<'a> {
    fn of(evidence: &'a Evidence) -> Self {
        Self {
            name: evidence
                .name
                .as_ref()
                .map(|name| escape::bytes(name.as_bytes())),
            file_type: evidence.file_type.name(),
            size: evidence.size,
            digest: evidence.kept.ok().map(digest),
            not_kept: evidence.kept.err(),
            redact: evidence.redact.name(),
        }
    }
}

impl StateLine {
    fn of(state: &State) -> StateLine {
        StateLine {
            file_type: state.file_type.map(FileType::name),
            digest: state.digest.map(digest),
            size: state.size,
            mode: state.mode.map(mode),
            uid: state.uid,
            gid: state.gid,
        }
    }
}

impl<'a> ActorLine<'a> {
    fn of(actor: &'a Actor) -> ActorLine<'a> {
        ActorLine {
            pid: actor.pid,
            start_ns: actor.start_ns,
            comm: escape::bytes(actor.comm.as_bytes()),
            exe: actor.exe.as_deref().map(shown),
            uid: actor.uid,
            gid: actor.gid,
            cgroup: actor
                .cgroup
                .as_deref()
                .map(|cgroup| escape::bytes(cgroup.as_bytes())),
            container: ContainerLine::of(actor),
        }
    }
}

impl<'a> ContainerLine<'a> {
    fn of(actor: &'a Actor) -> ContainerLine<'a> {
        let container = match &actor.container {
            None => return ContainerLine::default(),
            Some(Err(why)) => {
                return ContainerLine {
                    container_unknown: Some(printable(why)),
                    ..ContainerLine::default()
                };
            }
            Some(Ok(container)) => container,
        };
        let text = |text: &'a Option<String>| text.as_deref().map(printable);
        let pod = container.pod.as_ref();
        ContainerLine {
            container_id: Some(printable(&container.id)),
            container_name: text(&container.name),
            image: text(&container.image),
            pod: pod.map(|pod| printable(&pod.name)),
            namespace: pod.map(|pod| printable(&pod.namespace)),
            pod_uid: text(&container.pod_uid),
            workload: pod.and_then(|pod| text(&pod.workload)),
            service_account: pod.and_then(|pod| text(&pod.service_account)),
            container_unknown: None,
        }
    }
}

/// RFC 3339, UTC, always nine fractional digits: lines sort as text.
pub(super) fn time(time: jiff::Timestamp) -> String {
    format!("{time:.9}")
}

/// Permission bits as four octal digits.
pub(super) fn mode(mode: u32) -> String {
    format!("{:04o}", mode & 0o7777)
}

/// `blake3:<64 hexadecimal digits>`.
pub(super) fn digest(digest: blake3::Hash) -> String {
    format!("blake3:{}", digest.to_hex())
}

/// A path made safe to show.
pub(crate) fn shown(path: &Path) -> Cow<'_, str> {
    escape::bytes(path.as_os_str().as_bytes())
}

/// Where the path is not UTF-8, its bytes, so that a reader need not undo the escapes.
pub(crate) fn path_bytes(path: &Path) -> Option<String> {
    match path.to_str() {
        Some(_) => None,
        None => Some(STANDARD.encode(path.as_os_str().as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::{
        record::{Actor, Cause, Event, FileType, Outcome, Record, State},
        sample::{any_record, every_event},
    };
    use crate::compare::Drift;

    const SCHEMA: &str = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/record.schema.json"
    ));

    fn schema() -> Value {
        serde_json::from_str(SCHEMA).expect("docs/record.schema.json is JSON")
    }

    #[track_caller]
    fn check(validator: &jsonschema::Validator, record: &Record) -> Value {
        let line = record.line("node-a").expect("a record has a line");
        assert!(
            !line.chars().any(char::is_control),
            "a control character in {line:?}"
        );
        let value: Value = serde_json::from_str(&line).expect("a line is JSON");
        let problems: Vec<_> = validator
            .iter_errors(&value)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(problems.is_empty(), "{line}\n{}", problems.join("\n"));
        assert_eq!(
            value["path_bytes"].is_string(),
            record.path.as_ref().is_some_and(|p| p.to_str().is_none())
        );
        value
    }

    #[test]
    fn the_schema_accepts_every_event() {
        let validator = jsonschema::validator_for(&schema()).expect("the schema is a schema");
        for record in every_event() {
            assert_eq!(record.lacks(), None, "{:?}", record.event);
            check(&validator, &record);
        }
    }

    #[test]
    fn the_schema_accepts_any_record() {
        let validator = jsonschema::validator_for(&schema()).expect("the schema is a schema");
        proptest!(|(record in any_record())| {
            prop_assert_eq!(record.lacks(), None);
            check(&validator, &record);
        });
    }

    #[test]
    fn what_lacks_says_is_missing_the_schema_misses_too() {
        let validator = jsonschema::validator_for(&schema()).expect("the schema is a schema");
        for event in Event::ALL {
            let bare = Record::new(event);
            let line = bare.line("node-a").expect("a record has a line");
            let value: Value = serde_json::from_str(&line).expect("a line is JSON");
            // The schema leaves `reason` open, `lacks` does not.
            let lacks = bare.lacks().filter(|field| *field != "reason");
            assert_eq!(
                lacks.is_some(),
                !validator.is_valid(&value),
                "{event:?}: {lacks:?}"
            );
        }
    }

    #[test]
    fn names_in_code_are_the_names_in_the_schema() {
        #[track_caller]
        fn same(list: &Value, names: &[&str]) {
            assert_eq!(*list, json!(names));
        }
        let schema = schema();
        let of = &schema["properties"];
        same(&of["event"]["enum"], &Event::ALL.map(Event::name));
        same(&of["cause"]["enum"], &Cause::ALL.map(Cause::name));
        same(&of["outcome"]["enum"], &Outcome::ALL.map(Outcome::name));
        same(
            &schema["$defs"]["state"]["properties"]["type"]["enum"],
            &FileType::ALL.map(FileType::name),
        );
        let kinds = of["drift"]["items"]["enum"].as_array().expect("a list");
        for kind in Drift::ALL {
            assert!(kinds.contains(&json!(kind.name())), "{kind:?}");
            assert_eq!(json!(kind), json!(kind.name()));
        }
    }

    #[test]
    fn a_line_is_what_the_contract_shows() {
        let mut record = Record::new(Event::DriftDetected);
        record.id = uuid::Uuid::from_u128(0x0191_2d4c_0000_7000_8000_0000_0000_0001);
        record.time = "2026-01-02T03:04:05.06Z".parse().expect("a time");
        record.policy = Some("web".into());
        record.version = Some("1.2.0".into());
        record.path = Some(PathBuf::from(OsString::from_vec(
            b"/etc/caf\xe9\n.conf".to_vec(),
        )));
        record.drift = vec![Drift::Content, Drift::Mode];
        record.declared = Some(State {
            file_type: Some(FileType::File),
            digest: Some(blake3::hash(b"listen = 80\n")),
            size: Some(12),
            mode: Some(0o644),
            ..State::default()
        });
        record.observed = Some(State {
            file_type: Some(FileType::File),
            mode: Some(0o4755),
            uid: Some(0),
            gid: Some(0),
            ..State::default()
        });
        record.actor = Some(Ok(Actor {
            pid: 812,
            start_ns: 5,
            comm: "\u{1b}[2Jvim".into(),
            exe: Some("/usr/bin/vim".into()),
            uid: 1000,
            gid: 1000,
            cgroup: None,
            container: None,
        }));
        record.cause = Some(Cause::Kernel);
        record.seen_ns = Some(1_900_000);
        let line: Value =
            serde_json::from_str(&record.line("node-a").expect("a line")).expect("JSON");
        let digest = format!("blake3:{}", blake3::hash(b"listen = 80\n").to_hex());
        assert_eq!(
            line,
            json!({
                "schema": "configdrift.io/record/v1",
                "id": "01912d4c-0000-7000-8000-000000000001",
                "time": "2026-01-02T03:04:05.060000000Z",
                "event": "config.drift.detected",
                "node": "node-a",
                "policy": "web",
                "version": "1.2.0",
                "path": "/etc/caf\\xe9\\x0a.conf",
                "path_bytes": "L2V0Yy9jYWbpCi5jb25m",
                "drift": ["content", "mode"],
                "declared": {"type": "file", "digest": digest, "size": 12, "mode": "0644"},
                "observed": {"type": "file", "mode": "4755", "uid": 0, "gid": 0},
                "actor": {"pid": 812, "start_ns": 5, "comm": "\\x1b[2Jvim", "exe": "/usr/bin/vim", "uid": 1000, "gid": 1000},
                "cause": "kernel",
                "seen_ns": 1_900_000,
            })
        );
    }

    #[test]
    fn an_unknown_actor_is_null_with_the_reason() {
        let mut record = Record::new(Event::DriftDetected);
        record.actor = Some(Err("found by the scan".into()));
        let line: Value =
            serde_json::from_str(&record.line("node-a").expect("a line")).expect("JSON");
        assert_eq!(line["actor"], Value::Null);
        assert!(line.as_object().expect("an object").contains_key("actor"));
        assert_eq!(line["actor_unknown"], "found by the scan");
    }
}
