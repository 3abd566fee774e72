use std::time::Duration;

use drift_common::policy::{NODE_DRIFT, definitions};

use super::*;
use crate::{
    cluster::{seen::Key, view::FRESH},
    report::{Event, Record},
    serve::{Health, Reason, RecordsLost, SensorStatus},
};

fn policy(name: &str) -> PolicyStatus {
    PolicyStatus {
        policy: name.to_owned(),
        version: "1.0.0".to_owned(),
        mode: "heal".to_owned(),
        files: 3,
        as_declared: 3,
        healed_24h: Some(2),
        ..PolicyStatus::default()
    }
}

fn agent(policies: Vec<PolicyStatus>) -> Status {
    Status {
        node: "node-a".to_owned(),
        health: Health::Healthy,
        reasons: Vec::new(),
        agent: Some("0.1.0".to_owned()),
        pid: None,
        started: None,
        uptime_s: None,
        sensor: Some(SensorStatus {
            name: "btf".to_owned(),
            hooks_attached: 9,
            hooks: 9,
            cannot_see: vec!["x".repeat(5000); 100],
            tables: None,
            counted: [].into(),
        }),
        events_lost: Some(0),
        records_lost: Some(RecordsLost::default()),
        last_full_scan: None,
        full_scan_running_s: None,
        stops: Vec::new(),
        policies,
        drifts: Vec::new(),
        store: None,
        privilege: None,
    }
}

fn view() -> View {
    let key = Key {
        namespace: "shop".to_owned(),
        name: "app".to_owned(),
    };
    View {
        node: Some("uid".to_owned()),
        policies: [("shop.app".to_owned(), (key, "p".to_owned()))].into(),
        complete: true,
        ..View::default()
    }
}

fn made(status: &Status, view: &View, recent: &Recent) -> Value {
    super::status(&Seen {
        status,
        view,
        recent,
        has_lost: false,
        notices_lost: 0,
        now: Instant::now(),
    })
}

/// The status of a condition, and why.
fn condition(status: &Value, about: &str) -> String {
    let all = status["conditions"].as_array().expect("conditions");
    let of = all.iter().find(|condition| condition["type"] == about);
    let of = of.expect("the condition");
    let word = |field: &str| of[field].as_str().expect("a word").to_owned();
    format!("{} {}", word("status"), word("reason"))
}

/// A schema of the API server's kind as one of everybody's.
fn schema() -> jsonschema::Validator {
    let (_, definition) = definitions()
        .into_iter()
        .find(|(_, definition)| definition["spec"]["names"]["kind"] == NODE_DRIFT)
        .expect("a definition");
    let mut schema =
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
            .clone();
    close(&mut schema);
    jsonschema::validator_for(&schema).expect("a schema")
}

/// What is not described is refused, as server-side apply does.
fn close(schema: &mut Value) {
    if schema["properties"].is_object() {
        schema["additionalProperties"] = json!(false);
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(close),
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn whatever_there_is_to_tell_the_definition_takes_it() {
    let mut policies: Vec<_> = (0..5000).map(|n| policy(&format!("p{n}"))).collect();
    policies.push(PolicyStatus {
        drifting: 1,
        ..policy("shop.app")
    });
    let mut status = agent(policies);
    let actor = ActorStatus {
        comm: "vi".to_owned(),
        pid: 7,
        uid: 0,
        exe: Some("/e".repeat(5000)),
        cgroup: Some("/c".repeat(5000)),
        container_id: Some("x".repeat(5000)),
        container_name: Some("x".repeat(5000)),
        image: Some("x".repeat(5000)),
        pod: Some("x".repeat(5000)),
        namespace: Some("x".repeat(5000)),
        workload: Some("x".repeat(5000)),
        service_account: Some("x".repeat(5000)),
        container_unknown: Some("x".repeat(5000)),
    };
    status.drifts = vec![
        DriftStatus {
            path: "/ä".repeat(4000),
            policy: "shop.app".to_owned(),
            kinds: vec!["content".to_owned(), "mode".to_owned()],
            severity: "critical".to_owned(),
            since: "2026-01-02T03:04:05.678Z".to_owned(),
            outcome: "suppressed".to_owned(),
            reason: Some("backoff".to_owned()),
            actor: Some(actor),
            actor_unknown: None,
        };
        30
    ];
    let recent = Recent::default();
    let made = made(&status, &view(), &recent);
    let time = "2026-01-02T03:04:05.678Z";
    let written = since(&json!({}), made, time).expect("something new");
    let schema = schema();
    let wrong: Vec<String> = schema
        .iter_errors(&written)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        written.to_string().len() < 256 << 10,
        "far below what an object may have"
    );
    assert_eq!(
        written["policies"].as_array().map(Vec::len),
        Some(MOST_POLICIES)
    );
    assert_eq!(written["policies"][0]["namespace"], "shop");
    assert_eq!(written["policies"][0]["name"], "app");
    assert_eq!(written["policies"][1]["namespace"], "");
    assert_eq!(written["counts"]["policies"], 5001);
    assert_eq!(written["counts"]["healed"], 10_002);
    assert_eq!(
        written["drifts"].as_array().map(Vec::len),
        Some(MOST_DRIFTS)
    );
    assert_eq!(written["drifts"][0]["actor"]["comm"], "vi");
}

#[test]
fn what_says_the_same_is_not_written_again_and_a_condition_keeps_its_time() {
    let (recent, view) = (Recent::default(), view());
    let mut status = agent(vec![policy("shop.app")]);
    let first = since(&json!({}), made(&status, &view, &recent), "t1").expect("new");
    assert_eq!(first["observedAt"], "t1");
    assert_eq!(since(&first, made(&status, &view, &recent), "t2"), None);
    status.policies[0].drifting = 1;
    let second = since(&first, made(&status, &view, &recent), "t3").expect("new");
    let time = |status: &Value, about: &str| {
        let all = status["conditions"].as_array().expect("conditions");
        let of = all.iter().find(|condition| condition["type"] == about);
        of.expect("the condition")["lastTransitionTime"].clone()
    };
    assert_eq!(time(&second, "Healed"), "t3");
    assert_eq!(time(&second, "Synced"), "t1");
}

#[test]
fn each_condition_says_how_it_is() {
    let recent = Recent::default();
    let well = agent(vec![policy("shop.app")]);
    let good = made(&well, &view(), &recent);
    for (about, why) in [
        ("Synced", "InForce"),
        ("Healed", "AsDeclared"),
        ("Lossless", "NothingLost"),
        ("HooksAttached", "AllAttached"),
        ("SnapshotFresh", "Watching"),
    ] {
        assert_eq!(condition(&good, about), format!("True {why}"), "{about}");
    }
    let with = |change: &dyn Fn(&mut Status, &mut View)| {
        let (mut status, mut view) = (agent(vec![policy("shop.app")]), view());
        change(&mut status, &mut view);
        made(&status, &view, &recent)
    };
    let lacks = |status: &mut Status, lack: crate::serve::Lack| {
        status.reasons.push(Reason::new(lack.name(), "because"));
    };
    let rejected = with(&|status, _| lacks(status, crate::serve::Lack::PoliciesRejected));
    assert_eq!(condition(&rejected, "Synced"), "False PoliciesRejected");
    let refused = with(&|_, view| {
        view.refused.insert("shop".to_owned(), "no".to_owned());
    });
    assert_eq!(condition(&refused, "Synced"), "False NotTaken");
    let drifting = with(&|status, _| status.policies[0].drifting = 1);
    assert_eq!(condition(&drifting, "Healed"), "False Drifting");
    let held = with(&|status, _| {
        status.policies[0].drifting = 1;
        status.policies[0].held.count = 1;
    });
    assert_eq!(condition(&held, "Healed"), "False HealHeld");
    let unknown = with(&|status, _| status.policies[0].not_compared = 1);
    assert_eq!(condition(&unknown, "Healed"), "Unknown NotCompared");
    let scan = with(&|status, _| {
        if let Some(sensor) = &mut status.sensor {
            sensor.hooks_attached = 0;
        }
    });
    assert_eq!(condition(&scan, "HooksAttached"), "False ScanAlone");
    let fault = with(&|status, _| lacks(status, crate::serve::Lack::SensorFault));
    assert_eq!(condition(&fault, "HooksAttached"), "False SensorFault");
    let silent =
        with(&|_, view| view.silent = Instant::now().checked_sub(FRESH + Duration::from_secs(1)));
    assert_eq!(condition(&silent, "SnapshotFresh"), "False NotHeard");
    let early = with(&|_, view| view.complete = false);
    assert_eq!(condition(&early, "SnapshotFresh"), "False NotHeardYet");
    let nobody = with(&|_, view| view.node = None);
    assert_eq!(condition(&nobody, "SnapshotFresh"), "False NoNode");
}

#[test]
fn what_was_healed_is_told_with_who_it_was_until_it_drifts_again() {
    let mut recent = Recent::default();
    let mut record = Record::new(Event::DriftDetected);
    record.path = Some("/etc/app.conf".into());
    record.policy = Some("shop.app".to_owned());
    record.actor = Some(Err("nobody looked".to_owned()));
    recent.take(&(&record).into());
    record.event = Event::DriftHealed;
    record.actor = None;
    recent.take(&(&record).into());
    let mut status = agent(vec![policy("shop.app")]);
    let healed = made(&status, &view(), &recent);
    assert_eq!(healed["drifts"].as_array().map(Vec::len), Some(1));
    let drift = &healed["drifts"][0];
    assert_eq!(drift["outcome"], "healed");
    assert_eq!(drift["namespace"], "shop");
    assert_eq!(drift["actorUnknown"], "nobody looked");
    status.drifts.push(DriftStatus {
        path: "/etc/app.conf".to_owned(),
        policy: "shop.app".to_owned(),
        kinds: vec!["content".to_owned()],
        severity: "warning".to_owned(),
        since: "2026-01-02T03:04:05.678Z".to_owned(),
        outcome: "pending".to_owned(),
        reason: None,
        actor: None,
        actor_unknown: None,
    });
    let again = made(&status, &view(), &recent);
    assert_eq!(again["drifts"].as_array().map(Vec::len), Some(1));
    assert_eq!(again["drifts"][0]["outcome"], "pending");
}
