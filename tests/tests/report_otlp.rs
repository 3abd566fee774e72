//! Records sent by the agent's reporter to a real OpenTelemetry Collector, by both protocols.

use std::{
    collections::HashSet,
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use drift_agent::{
    compare::Drift,
    report::{
        Actor, Cause, Container, Event, FileType, Left, Outcome, Pod, Record, Reporter, State,
    },
};
use drift_tests::{
    collector::{self, Collector, Received, SOON},
    report::{report, reporter, touches},
    skip::skip,
};
use serde_json::json;

const PROTOCOLS: [&str; 2] = ["grpc", "http/protobuf"];

fn container() -> Container {
    Container {
        id: "ab".repeat(32),
        pod_uid: Some("0f3b0c1e".into()),
        pod: Some(Pod {
            name: "web-1".into(),
            namespace: "shop".into(),
            workload: Some("Deployment/web".into()),
            service_account: Some("web".into()),
        }),
        name: Some("app".into()),
        image: Some("web:1".into()),
    }
}

/// The collector's program; without it the test is counted as skipped.
fn program(test: &str) -> Option<PathBuf> {
    let program = collector::program();
    if program.is_none() {
        skip(
            test,
            "DRIFT_OTELCOL names no OpenTelemetry Collector (cargo xtask test builds one where Go is installed)",
        );
    }
    program
}

fn endpoint(collector: &Collector, protocol: &str, scheme: &str) -> String {
    let port = if protocol == "grpc" {
        collector.grpc
    } else {
        collector.http
    };
    format!("{scheme}://127.0.0.1:{port}")
}

fn started(collector: &Collector, protocol: &str, more: &[(&str, &str)]) -> Reporter {
    let endpoint = endpoint(collector, protocol, "http");
    reporter(protocol, &endpoint, more).expect("a reporter")
}

fn send(reporter: &mut Reporter, records: &[Record]) {
    report(reporter, records).expect("the output is open");
}

#[track_caller]
fn flush(reporter: &mut Reporter) {
    let left = reporter.flush(SOON).expect("the output is open");
    let counts = reporter.otlp_counts().expect("there is a collector");
    assert_eq!((left, counts.refused), (Left::default(), 0), "{counts:?}");
}

/// One record of each event, with all it may carry.
fn every_event() -> Vec<Record> {
    Event::ALL
        .into_iter()
        .map(|event| {
            let mut record = Record::new(event);
            record.policy = Some("web".into());
            record.version = Some("1.2.0".into());
            record.path = Some("/etc/app/app.conf".into());
            record.drift = vec![Drift::Content, Drift::Mode];
            record.declared = Some(State {
                file_type: Some(FileType::File),
                digest: Some(blake3::hash(b"declared")),
                size: Some(8),
                mode: Some(0o644),
                uid: Some(0),
                gid: Some(0),
            });
            record.observed = Some(State {
                digest: Some(blake3::hash(b"observed")),
                mode: Some(0o4755),
                ..State::default()
            });
            record.actor = Some(Ok(Actor {
                pid: 812,
                start_ns: 77,
                comm: "vim".into(),
                exe: Some("/usr/bin/vim.basic".into()),
                uid: 1000,
                gid: 1001,
                cgroup: Some("/user.slice".into()),
                container: Some(Ok(container())),
            }));
            record.cause = Some(Cause::Kernel);
            record.seen_ns = Some(1_900_000);
            record.outcome = Some(Outcome::Suppressed);
            record.reason = Some("back-off");
            record.heal_ns = Some(1_100_000);
            record
        })
        .collect()
}

/// The records' ids: each once.
fn ids(received: &[Received]) -> HashSet<&str> {
    let ids: HashSet<&str> = received
        .iter()
        .map(|one| one.text("drift.record.id"))
        .collect();
    assert_eq!(ids.len(), received.len(), "a record arrived twice");
    ids
}

#[test]
fn every_event_arrives_with_its_name_times_severity_and_attributes() {
    let Some(program) = program("every_event_arrives_with_its_name_times_severity_and_attributes")
    else {
        return;
    };
    for (protocol, compression) in [
        ("grpc", "none"),
        ("grpc", "gzip"),
        ("http/protobuf", "none"),
        ("http/protobuf", "gzip"),
    ] {
        let mut collector = Collector::new(&program).expect("a folder");
        collector.start().expect("a collector");
        let more = [
            ("OTEL_EXPORTER_OTLP_COMPRESSION", compression),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "deployment.environment.name=test",
            ),
        ];
        let mut reporter = started(&collector, protocol, &more);
        let records = every_event();
        send(&mut reporter, &records);
        flush(&mut reporter);
        let received = collector
            .wait_for(|received| received.len() >= records.len())
            .expect("all records");
        assert_eq!(received.len(), records.len());
        for (record, received) in records.iter().zip(&received) {
            check(record, received);
        }
        assert_eq!(
            reporter.otlp_counts().map(|counts| counts.taken),
            Some(records.len() as u64)
        );
    }
}

fn check(record: &Record, received: &Received) {
    let event = record.event.name();
    assert_eq!(received.event(), event);
    let sent = &received.record;
    let time = record.time.as_nanosecond().to_string();
    assert_eq!(sent["timeUnixNano"], time);
    let observed: i128 = sent["observedTimeUnixNano"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a number");
    assert!(observed >= record.time.as_nanosecond());
    let (number, text) = match record.event {
        Event::DriftDetected
        | Event::HealUnverifiable
        | Event::HealSuppressed
        | Event::EventsLost => (13, "WARN"),
        Event::HealFailed | Event::PolicyRejected => (17, "ERROR"),
        Event::DriftHealed | Event::DriftResolved | Event::Touched | Event::PolicyActivated => {
            (9, "INFO")
        }
    };
    assert_eq!(sent["severityNumber"], number, "{event}");
    assert_eq!(sent["severityText"], text, "{event}");
    let body = sent["body"]["stringValue"].as_str().expect("a sentence");
    assert!(body.len() > 10, "{event}: {body}");
    let attributes = json!({
        "drift.record.id": record.id.hyphenated().to_string(),
        "drift.policy": "web",
        "drift.version": "1.2.0",
        "file.path": "/etc/app/app.conf",
        "drift.kinds": ["content", "mode"],
        "drift.declared.type": "file",
        "drift.declared.digest": format!("blake3:{}", blake3::hash(b"declared").to_hex()),
        "drift.declared.size": 8,
        "drift.declared.mode": "0644",
        "drift.declared.uid": 0,
        "drift.declared.gid": 0,
        "drift.observed.digest": format!("blake3:{}", blake3::hash(b"observed").to_hex()),
        "drift.observed.mode": "4755",
        "process.pid": 812,
        "process.executable.path": "/usr/bin/vim.basic",
        "process.executable.name": "vim.basic",
        "process.real_user.id": 1000,
        "process.linux.cgroup": "/user.slice",
        "container.id": "ab".repeat(32),
        "container.image.name": "web:1",
        "k8s.container.name": "app",
        "k8s.pod.name": "web-1",
        "k8s.pod.uid": "0f3b0c1e",
        "k8s.namespace.name": "shop",
        "drift.actor.workload": "Deployment/web",
        "drift.actor.service_account": "web",
        "drift.actor.comm": "vim",
        "drift.actor.gid": 1001,
        "drift.actor.start_ns": 77,
        "drift.cause": "kernel",
        "drift.seen_ns": 1_900_000,
        "drift.outcome": "suppressed",
        "drift.reason": "back-off",
        "drift.heal_ns": 1_100_000,
    });
    assert_eq!(json!(received.attributes), attributes, "{event}");
    let resource = json!({
        "service.name": "drift-agent",
        "service.version": env!("CARGO_PKG_VERSION"),
        "host.name": "node-a",
        "deployment.environment.name": "test",
    });
    assert_eq!(json!(received.resource), resource, "{event}");
}

#[test]
fn an_unknown_actor_and_a_hostile_path_arrive_as_what_they_are() {
    let Some(program) = program("an_unknown_actor_and_a_hostile_path_arrive_as_what_they_are")
    else {
        return;
    };
    for protocol in PROTOCOLS {
        let mut collector = Collector::new(&program).expect("a folder");
        collector.start().expect("a collector");
        let mut reporter = started(&collector, protocol, &[]);
        let path = b"/etc/caf\xe9\x1b[2J.conf".to_vec();
        let mut record = touches(1).remove(0);
        record.path = Some(PathBuf::from(OsString::from_vec(path.clone())));
        record.actor = Some(Err("found by the scan".into()));
        send(&mut reporter, &[record]);
        flush(&mut reporter);
        let received = collector
            .wait_for(|received| !received.is_empty())
            .expect("it");
        let one = &received[0];
        assert_eq!(one.text("file.path"), "/etc/caf\\xe9\\x1b[2J.conf");
        assert_eq!(one.attributes["drift.path_bytes"], json!(path));
        assert_eq!(one.text("drift.actor.unknown"), "found by the scan");
        assert!(!one.attributes.contains_key("process.pid"));
    }
}

/// B156: records of what happened while no collector took them are dropped, or have another time (what does not fit is counted: below).
#[test]
fn a_collector_that_starts_late_gets_what_waited() {
    let Some(program) = program("a_collector_that_starts_late_gets_what_waited") else {
        return;
    };
    for protocol in PROTOCOLS {
        let mut collector = Collector::new(&program).expect("a folder");
        let mut reporter = started(&collector, protocol, &[]);
        let records = touches(300);
        send(&mut reporter, &records);
        let left = reporter
            .flush(Duration::from_millis(300))
            .expect("the output is open");
        assert_eq!(left.records, 300);
        collector.start().expect("a collector");
        flush(&mut reporter);
        let received = collector
            .wait_for(|received| received.len() >= 300)
            .expect("all records");
        assert_eq!(ids(&received).len(), 300);
        // What waited still has the time at which it happened.
        let time = records[0].time.as_nanosecond().to_string();
        assert_eq!(received[0].record["timeUnixNano"], time);
    }
}

#[test]
fn a_collector_that_stops_in_the_middle_loses_nothing() {
    let Some(program) = program("a_collector_that_stops_in_the_middle_loses_nothing") else {
        return;
    };
    for protocol in PROTOCOLS {
        let mut collector = Collector::new(&program).expect("a folder");
        collector.start().expect("a collector");
        let mut reporter = started(&collector, protocol, &[]);
        let records = touches(900);
        send(&mut reporter, &records[..300]);
        flush(&mut reporter);
        collector.stop().expect("it ends");
        send(&mut reporter, &records[300..600]);
        let left = reporter
            .flush(Duration::from_millis(300))
            .expect("the output is open");
        assert_eq!(left.records, 300);
        collector.start().expect("a collector");
        send(&mut reporter, &records[600..]);
        flush(&mut reporter);
        let received = collector
            .wait_for(|received| received.len() >= 900)
            .expect("all records");
        assert_eq!(ids(&received).len(), 900);
        let counts = reporter.otlp_counts().expect("there is a collector");
        assert_eq!((counts.taken, counts.lost, counts.refused), (900, 0, 0));
    }
}

#[test]
fn what_does_not_fit_is_counted_and_the_collector_is_told() {
    let Some(program) = program("what_does_not_fit_is_counted_and_the_collector_is_told") else {
        return;
    };
    for protocol in PROTOCOLS {
        let mut collector = Collector::new(&program).expect("a folder");
        let more = [
            ("OTEL_BLRP_MAX_QUEUE_SIZE", "500"),
            ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "100"),
        ];
        let mut reporter = started(&collector, protocol, &more);
        send(&mut reporter, &touches(1200));
        let counts = reporter.otlp_counts().expect("there is a collector");
        assert_eq!((counts.waiting, counts.lost), (500, 700));
        collector.start().expect("a collector");
        flush(&mut reporter);
        let received = collector
            .wait_for(|received| received.len() >= 501)
            .expect("what fitted, and one that tells of the rest");
        let (lost, came): (Vec<_>, Vec<_>) = received
            .iter()
            .partition(|one| one.event() == "config.events.lost");
        assert_eq!((came.len(), lost.len()), (500, 1));
        assert_eq!(lost[0].text("drift.reason"), "export-queue-full");
        let body = lost[0].record["body"]["stringValue"].as_str();
        assert!(
            body.is_some_and(|body| body.contains("700 records not sent")),
            "{body:?}"
        );
    }
}

#[test]
fn tls_with_a_private_authority_and_a_client_certificate() {
    let Some(program) = program("tls_with_a_private_authority_and_a_client_certificate") else {
        return;
    };
    for protocol in PROTOCOLS {
        let mut collector = Collector::new(&program).expect("a folder");
        let files = collector.with_tls().expect("certificates");
        collector.start().expect("a collector");
        let endpoint = endpoint(&collector, protocol, "https");
        let path = |path: &PathBuf| path.to_str().expect("a path of this test").to_owned();
        let (authority, client, key) = (
            path(&files.authority),
            path(&files.client),
            path(&files.client_key),
        );
        let stranger = path(&files.stranger);
        let all = [
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", authority.as_str()),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", client.as_str()),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", key.as_str()),
        ];
        let mut right = reporter(protocol, &endpoint, &all).expect("a reporter");
        send(&mut right, &touches(3));
        flush(&mut right);
        collector
            .wait_for(|received| received.len() == 3)
            .expect("all records");

        let mut other = all;
        other[0].1 = &stranger;
        for wrong in [&other[..], &all[..1]] {
            let mut reporter = reporter(protocol, &endpoint, wrong).expect("a reporter");
            send(&mut reporter, &touches(3));
            let left = reporter
                .flush(Duration::from_secs(1))
                .expect("the output is open");
            assert_eq!(left.records, 3, "{protocol} {wrong:?}");
        }
        let received = collector.received().expect("records");
        assert_eq!(received.len(), 3, "{protocol}");
    }
}

#[test]
fn a_flush_takes_no_longer_than_it_is_told() {
    // Connections are taken by the kernel, and nobody ever answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    for protocol in PROTOCOLS {
        let mut reporter =
            reporter(protocol, &format!("http://{address}"), &[]).expect("a reporter");
        send(&mut reporter, &touches(10));
        let begun = Instant::now();
        let left = reporter
            .flush(Duration::from_millis(200))
            .expect("the output is open");
        assert_eq!(left.records, 10);
        drop(reporter);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
}

/// B161: a checksum or a path is part of what a series is known by, and each drift begins another one. What drift sends is records; what they are grouped and
/// counted by (resource, scope, the event's name, severity, kinds and reasons, each of a closed set) is the same for ten and for a thousand.
#[test]
fn a_thousand_drifts_begin_no_more_series_than_ten() {
    let Some(program) = program("a_thousand_drifts_begin_no_more_series_than_ten") else {
        return;
    };
    let digest = |number: usize| blake3::hash(&number.to_le_bytes());
    let drift = |number: usize| {
        let mut record = Record::new(Event::DriftDetected);
        record.policy = Some("web".into());
        record.version = Some("1.2.0".into());
        record.path = Some(format!("/etc/app/{number}.conf").into());
        record.drift = vec![Drift::Content];
        let state = |digest| State {
            digest: Some(digest),
            ..State::default()
        };
        record.declared = Some(state(digest(number)));
        record.observed = Some(state(digest(number + 1_000_000)));
        record.actor = Some(Err("nobody has rung".into()));
        record
    };
    for protocol in PROTOCOLS {
        let series = |count: usize| {
            let mut collector = Collector::new(&program).unwrap();
            collector.start().unwrap();
            let mut reporter = started(&collector, protocol, &[]);
            let records: Vec<Record> = (0..count).map(drift).collect();
            send(&mut reporter, &records);
            flush(&mut reporter);
            let received = collector
                .wait_for(|received| received.len() >= count)
                .unwrap();
            assert_eq!(ids(&received).len(), count);
            let paths: HashSet<&str> = received.iter().map(|one| one.text("file.path")).collect();
            assert_eq!(paths.len(), count, "what differs is in the records");
            let known_by = received.iter().map(|one| {
                let group = json!([
                    one.resource,
                    one.scope,
                    one.event(),
                    one.record["severityText"]
                ]);
                group.to_string()
            });
            known_by.collect::<HashSet<String>>()
        };
        let (ten, thousand) = (series(10), series(1_000));
        assert_eq!((ten.len(), &ten), (1, &thousand), "{protocol}");
        for each in &ten {
            assert!(
                !each.contains("/etc/app") && !each.contains("blake3"),
                "{each}"
            );
        }
    }
}
