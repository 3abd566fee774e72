//! A [`Record`] as an OTLP log record: names from OpenTelemetry's semantic conventions where they have one, `drift.*` for the rest.
//! Never any content of a file: digests, sizes, owners and modes only.

use std::{os::unix::ffi::OsStrExt, path::Path};

use drift_common::escape::{self, printable};
use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, ArrayValue, KeyValue, any_value::Value},
    logs::v1::{LogRecord, SeverityNumber},
    resource::v1::Resource,
};

use super::super::{
    container::Container,
    line::{digest, mode, shown},
    record::{Actor, Cause, Event, FileType, Outcome, Record, State},
    sentence::sentence,
};
use crate::declare::Severity;

/// Longer sentences are cut: the queue is bounded by what its records may weigh.
const BODY: usize = 4096;

/// The record as it is sent. `observed`: when it was handed over.
pub(super) fn log_record(record: &Record, observed: jiff::Timestamp) -> LogRecord {
    let severity = severity(record);
    LogRecord {
        time_unix_nano: nanoseconds(record.time),
        observed_time_unix_nano: nanoseconds(observed),
        severity_number: severity as i32,
        severity_text: severity_text(severity).to_owned(),
        event_name: record.event.name().to_owned(),
        body: Some(text(cut(sentence(record)))),
        attributes: attributes(record),
        ..LogRecord::default()
    }
}

/// What made all records: this agent on this node; `asked` (the environment's attributes) wins.
pub(super) fn resource(node: &str, asked: &[(String, String)]) -> Resource {
    let own = [
        ("service.name", "drift-agent"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("host.name", node),
    ];
    let attributes = own
        .iter()
        .filter(|(key, _)| !asked.iter().any(|(asked, _)| asked == key))
        .map(|(key, value)| attribute(key, text(*value)))
        .chain(
            asked
                .iter()
                .map(|(key, value)| attribute(key, text(value.as_str()))),
        )
        .collect();
    Resource {
        attributes,
        ..Resource::default()
    }
}

/// How much it matters: of a drift, what its policy says; a warning where the node is not, or may not be, as declared; an error where the agent could not do its work.
fn severity(record: &Record) -> SeverityNumber {
    match record.event {
        Event::DriftDetected => match record.severity.unwrap_or_default() {
            Severity::Info => SeverityNumber::Info,
            Severity::Warning => SeverityNumber::Warn,
            Severity::Error => SeverityNumber::Error,
            Severity::Critical => SeverityNumber::Fatal,
        },
        Event::DriftHealed | Event::DriftResolved | Event::Touched | Event::PolicyActivated => {
            SeverityNumber::Info
        }
        Event::HealUnverifiable | Event::HealSuppressed | Event::EventsLost => SeverityNumber::Warn,
        Event::HealFailed | Event::PolicyRejected => SeverityNumber::Error,
    }
}

const fn severity_text(severity: SeverityNumber) -> &'static str {
    match severity {
        SeverityNumber::Fatal => "FATAL",
        SeverityNumber::Error => "ERROR",
        SeverityNumber::Warn => "WARN",
        _ => "INFO",
    }
}

fn attributes(record: &Record) -> Vec<KeyValue> {
    let mut list = List(Vec::with_capacity(32));
    list.add("drift.record.id", Some(record.id.hyphenated().to_string()));
    list.add("drift.policy", record.policy.as_deref());
    list.add("drift.version", record.version.as_deref());
    list.add("file.path", record.path.as_deref().map(shown));
    if let Some(path) = record
        .path
        .as_deref()
        .filter(|path| path.to_str().is_none())
    {
        let bytes = path.as_os_str().as_bytes().to_vec();
        list.value("drift.path_bytes", Value::BytesValue(bytes));
    }
    if !record.drift.is_empty() {
        let values = record.drift.iter().map(|kind| text(kind.name())).collect();
        list.value("drift.kinds", Value::ArrayValue(ArrayValue { values }));
    }
    if let Some(declared) = &record.declared {
        state(&mut list, &DECLARED, declared);
    }
    if let Some(observed) = &record.observed {
        state(&mut list, &OBSERVED, observed);
    }
    match &record.actor {
        Some(Ok(actor)) => process(&mut list, actor),
        Some(Err(why)) => list.add("drift.actor.unknown", Some(why.as_str())),
        None => {}
    }
    list.add("drift.cause", record.cause.map(Cause::name));
    list.number("drift.seen_ns", record.seen_ns);
    list.add("drift.outcome", record.outcome.map(Outcome::name));
    list.add("drift.reason", record.reason);
    list.number("drift.heal_ns", record.heal_ns);
    list.0
}

/// The names of a side's attributes: type, digest, size, mode, uid, gid.
type Names = [&'static str; 6];

macro_rules! names {
    ($side:literal) => {
        [
            concat!($side, ".type"),
            concat!($side, ".digest"),
            concat!($side, ".size"),
            concat!($side, ".mode"),
            concat!($side, ".uid"),
            concat!($side, ".gid"),
        ]
    };
}
const DECLARED: Names = names!("drift.declared");
const OBSERVED: Names = names!("drift.observed");

fn state(list: &mut List, names: &Names, state: &State) {
    list.add(names[0], state.file_type.map(FileType::name));
    list.add(names[1], state.digest.map(digest));
    list.number(names[2], state.size);
    list.add(names[3], state.mode.map(mode));
    list.number(names[4], state.uid.map(u64::from));
    list.number(names[5], state.gid.map(u64::from));
}

fn process(list: &mut List, actor: &Actor) {
    list.number("process.pid", Some(actor.pid.into()));
    list.number("drift.actor.start_ns", Some(actor.start_ns));
    // A process may call itself anything, so this is not `process.executable.name`.
    list.add(
        "drift.actor.comm",
        Some(escape::bytes(actor.comm.as_bytes())),
    );
    list.add("process.executable.path", actor.exe.as_deref().map(shown));
    let name = actor.exe.as_deref().and_then(Path::file_name);
    list.add(
        "process.executable.name",
        name.map(|name| escape::bytes(name.as_bytes())),
    );
    list.number("process.real_user.id", Some(actor.uid.into()));
    list.number("drift.actor.gid", Some(actor.gid.into()));
    list.add(
        "process.linux.cgroup",
        actor
            .cgroup
            .as_deref()
            .map(|cgroup| escape::bytes(cgroup.as_bytes())),
    );
    match &actor.container {
        None => {}
        Some(Err(why)) => list.add("drift.actor.container_unknown", Some(printable(why))),
        Some(Ok(found)) => container(list, found),
    }
}

fn container(list: &mut List, container: &Container) {
    let text = |text: &Option<String>| text.as_deref().map(|text| printable(text).into_owned());
    list.add("container.id", Some(printable(&container.id)));
    list.add("k8s.container.name", text(&container.name));
    list.add("container.image.name", text(&container.image));
    list.add("k8s.pod.uid", text(&container.pod_uid));
    if let Some(pod) = &container.pod {
        list.add("k8s.pod.name", Some(printable(&pod.name)));
        list.add("k8s.namespace.name", Some(printable(&pod.namespace)));
        list.add("drift.actor.workload", text(&pod.workload));
        list.add("drift.actor.service_account", text(&pod.service_account));
    }
}

struct List(Vec<KeyValue>);

impl List {
    fn add(&mut self, key: &'static str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.value(key, Value::StringValue(value.into()));
        }
    }

    fn number(&mut self, key: &'static str, value: Option<u64>) {
        if let Some(value) = value {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            self.value(key, Value::IntValue(value));
        }
    }

    fn value(&mut self, key: &'static str, value: Value) {
        let value = AnyValue { value: Some(value) };
        self.0.push(attribute(key, value));
    }
}

fn attribute(key: &str, value: AnyValue) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(value),
        ..KeyValue::default()
    }
}

fn text(text: impl Into<String>) -> AnyValue {
    AnyValue {
        value: Some(Value::StringValue(text.into())),
    }
}

fn cut(mut text: String) -> String {
    if text.len() > BODY {
        text.truncate(text.floor_char_boundary(BODY));
        text.push('…');
    }
    text
}

fn nanoseconds(time: jiff::Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or(0)
}

/// Every attribute there is: a complete record of a path that is not UTF-8, and one of an unknown actor.
#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    use std::{collections::BTreeSet, ffi::OsStr};

    let state = State {
        file_type: Some(FileType::File),
        digest: Some(blake3::hash(b"")),
        size: Some(0),
        mode: Some(0),
        uid: Some(0),
        gid: Some(0),
    };
    let mut known = super::super::sample::every_event().remove(1);
    known.path = Some(OsStr::from_bytes(b"/\xff").into());
    known.seen_ns = Some(0);
    (known.declared, known.observed) = (Some(state.clone()), Some(state));
    let mut unknown = known.clone();
    unknown.actor = Some(Err("not known".into()));
    let sent = [known, unknown].map(|record| attributes(&record));
    let resource = resource("node-a", &[]).attributes;
    let all = sent.into_iter().flatten().chain(resource);
    let names: BTreeSet<String> = all.map(|one| one.key).collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use prost::Message;

    use super::{
        super::super::sample::{any_record, every_event},
        log_record, resource,
    };

    #[test]
    fn every_event_has_its_severity() {
        let told: Vec<(String, String)> = every_event()
            .iter()
            .map(|record| log_record(record, record.time))
            .map(|sent| (sent.event_name, sent.severity_text))
            .collect();
        let told: Vec<(&str, &str)> = told.iter().map(|(n, s)| (n.as_str(), s.as_str())).collect();
        let expected = [
            ("config.drift.detected", "WARN"),
            ("config.drift.healed", "INFO"),
            ("config.drift.heal_failed", "ERROR"),
            ("config.drift.heal_unverifiable", "WARN"),
            ("config.drift.heal_suppressed", "WARN"),
            ("config.drift.resolved", "INFO"),
            ("config.touched", "INFO"),
            ("config.policy.activated", "INFO"),
            ("config.policy.rejected", "ERROR"),
            ("config.events.lost", "WARN"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_the_environment_asks_for_wins_in_the_resource() {
        let asked = [("host.name".to_owned(), "b".to_owned())];
        let sent = resource("a", &asked);
        let keys: Vec<&str> = sent.attributes.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["service.name", "service.version", "host.name"]);
        assert_eq!(sent.attributes[2].value, Some(super::text("b")));
    }

    proptest! {
        #[test]
        fn no_attribute_twice_and_no_record_weighs_much(record in any_record()) {
            let sent = log_record(&record, record.time);
            let keys: HashSet<&str> = sent.attributes.iter().map(|one| one.key.as_str()).collect();
            prop_assert_eq!(keys.len(), sent.attributes.len());
            prop_assert!(sent.encoded_len() < 16 * 1024, "{}", sent.encoded_len());
            // 2554 is as far as the protocol counts; after that a time is not known.
            let known = u64::try_from(record.time.as_nanosecond()).unwrap_or(0);
            prop_assert_eq!(sent.time_unix_nano, known);
        }
    }
}
