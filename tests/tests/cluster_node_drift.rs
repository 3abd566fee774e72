//! What an agent tells its cluster of its node. Cases B157 (what it writes wakes nobody who writes) and B158 (many of a kind are one).

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use drift_tests::{
    cluster::{Cluster, app},
    scene::Scene,
    wait,
};
use serde_json::{Value, json};

/// The NodeDrift of `node`, as soon as it is as `is` wants it.
fn drift(cluster: &Cluster, node: &str, is: impl Fn(&Value) -> bool) -> Result<Value> {
    let found = wait::until(Duration::from_secs(20), || {
        match cluster.json(&["get", "nd", node]) {
            Ok(found) if is(&found["status"]) => Ok(found),
            Ok(other) => Err(other.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    });
    found.map_err(|found| anyhow::anyhow!("the NodeDrift of {node} is {found}"))
}

/// The status of a condition.
fn condition<'v>(status: &'v Value, about: &str) -> &'v str {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|condition| condition["type"] == about)
        .find_map(|condition| condition["status"].as_str())
        .unwrap_or("absent")
}

#[test]
fn a_node_is_shown_in_its_cluster_and_what_happens_to_it_within_seconds() -> Result<()> {
    const TEST: &str = "a_node_is_shown_in_its_cluster_and_what_happens_to_it_within_seconds";
    const NODE: &str = "status-a";
    let Some(cluster) = Cluster::for_agent(TEST, "drift-status", (NODE, "web"))? else {
        return Ok(());
    };
    cluster.ask(&["delete", "nd", NODE, "--ignore-not-found"], "")?;
    let scene = Scene::new()?;
    let path = scene.at("app.conf");
    cluster.ask(
        &["-n", "drift-status", "apply", "-f", "-"],
        &app("1.0.0", "web", &path),
    )?;
    let agent = cluster.agent(&scene, NODE)?;
    let first = drift(&cluster, NODE, |status| {
        condition(status, "Synced") == "True" && condition(status, "Healed") == "True"
    })?;
    let status = &first["status"];
    for (about, expected) in [
        ("Lossless", "True"),
        ("SnapshotFresh", "True"),
        ("HooksAttached", "False"), // the test's agent scans
    ] {
        ensure!(condition(status, about) == expected, "{about}: {status}");
    }
    let node = cluster.json(&["get", "node", NODE])?;
    ensure!(
        first["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"],
        "it goes with its Node: {first}"
    );
    let policy = &status["policies"][0];
    ensure!(
        policy["namespace"] == "drift-status"
            && policy["name"] == "app"
            && policy["activeVersion"] == "1.0.0"
            && policy["mode"] == "heal"
            && policy["drifting"] == 0
            && policy["files"] == 1,
        "{policy}"
    );

    // A drift, and its heal.
    let (mark, start) = (agent.mark(), Instant::now());
    fs::write(&path, "drift\n")?;
    let healed = drift(&cluster, NODE, |status| {
        let told = &status["drifts"][0];
        told["outcome"] == "healed"
            && told["kinds"] == json!(["content"])
            && condition(status, "Healed") == "True"
            // Its file was missing at the start.
            && status["policies"][0]["healed"] == 2
    })?;
    let took = start.elapsed();
    println!(
        "from the change to the NodeDrift with its heal: {} ms",
        took.as_millis()
    );
    let told = &healed["status"]["drifts"][0];
    ensure!(
        told["path"] == path.display().to_string()
            && told["namespace"] == "drift-status"
            && told["policy"] == "app"
            && told["actorUnknown"].is_string(), // the test's agent scans
        "{told}"
    );
    ensure!(agent.mark() > mark, "there are records of it");

    // Nothing happens, and nothing is written: longer than a write may be put off.
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let quiet = drift(&cluster, NODE, |_| true)?;
    let changed = wait::until(Duration::from_secs(4), || {
        match cluster.json(&["get", "nd", NODE]) {
            Ok(now) if version(&now) == version(&quiet) => Err("the same"),
            _ => Ok(()),
        }
    });
    ensure!(
        changed.is_err(),
        "it was written though nothing has changed"
    );

    // What is wrong in the cluster is shown too.
    let activate = |version: &str| {
        let patch = json!({"spec": {"activeVersion": version}}).to_string();
        let of_app = ["-n", "drift-status", "patch", "cpol", "app"];
        let how = ["--type=merge", "-p", &patch];
        cluster.ask(&[&of_app[..], &how].concat(), "")
    };
    activate("3.0.0")?;
    let refused = drift(&cluster, NODE, |status| {
        condition(status, "Synced") == "False"
    })?;
    ensure!(
        refused["status"]["conditions"]
            .to_string()
            .contains("has no version 3.0.0"),
        "{refused}"
    );
    ensure!(
        refused["status"]["policies"][0]["activeVersion"] == "1.0.0",
        "{refused}"
    );

    // Somebody deletes it: it comes again with the next change.
    cluster.ask(&["delete", "nd", NODE], "")?;
    activate("2.0.0")?;
    drift(&cluster, NODE, |status| {
        status["policies"][0]["activeVersion"] == "2.0.0"
    })?;

    let table = cluster.ask(&["get", "nd", NODE], "")?;
    println!("{table}");
    let titles: Vec<&str> = table
        .lines()
        .next()
        .context("a table")?
        .split_whitespace()
        .collect();
    ensure!(
        titles
            == [
                "NAME", "SYNCED", "HEALED", "POLICIES", "FILES", "DRIFTING", "HEALS", "SENSOR",
                "AGE"
            ],
        "{table}"
    );
    agent.stop()?;
    Ok(())
}

/// The Events of the namespace `namespace`, once `is` likes them: reason, type, what they are about, note and how often.
fn events(cluster: &Cluster, namespace: &str, is: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>> {
    let found = wait::until(Duration::from_secs(20), || {
        let listed = cluster.json(&["-n", namespace, "get", "events.events.k8s.io"]);
        match listed.map(|mut list| list["items"].take()) {
            Ok(Value::Array(items)) if is(&items) => Ok(items),
            Ok(other) => Err(other.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    });
    found.map_err(|found| anyhow::anyhow!("the Events of {namespace} are {found}"))
}

/// Those with this reason.
fn of<'e>(events: &'e [Value], reason: &str) -> Vec<&'e Value> {
    events
        .iter()
        .filter(|event| event["reason"] == reason)
        .collect()
}

#[test]
fn what_happens_to_a_policy_is_an_event_at_it_and_again_the_same_one() -> Result<()> {
    const TEST: &str = "what_happens_to_a_policy_is_an_event_at_it_and_again_the_same_one";
    const NODE: &str = "status-b";
    let Some(cluster) = Cluster::for_agent(TEST, "drift-events", (NODE, "web"))? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let path = scene.at("app.conf");
    let apply = |text: &str| cluster.ask(&["-n", "drift-events", "apply", "-f", "-"], text);
    apply(&app("1.0.0", "web", &path))?;
    let agent = cluster.agent(&scene, NODE)?;
    agent.activated(0, "1.0.0")?;
    // What was not there at the start is the first drift.
    let healed = |mark: usize| {
        agent.wait(mark, "a heal", |records| {
            let mut records = records.iter();
            records
                .find(|record| record["event"] == "config.drift.healed")
                .cloned()
        })
    };
    healed(0)?;
    events(&cluster, "drift-events", |events| {
        of(events, "DriftHealed").len() == 1
    })?;
    let start = Instant::now();
    for _ in 0..5 {
        let mark = agent.mark();
        fs::write(&path, "drift\n")?;
        healed(mark)?;
    }
    let content = |event: &Value| {
        event["note"]
            .as_str()
            .is_some_and(|note| note.contains(": content"))
    };
    let told = events(&cluster, "drift-events", |events| {
        let detected = of(events, "DriftDetected");
        let healed = of(events, "DriftHealed");
        detected.into_iter().any(content) && healed.into_iter().any(content)
    })?;
    println!(
        "from the first of five changes to their Events: {} ms",
        start.elapsed().as_millis()
    );
    let uid =
        cluster.json(&["-n", "drift-events", "get", "cpol", "app"])?["metadata"]["uid"].clone();
    for (reason, kind) in [("DriftDetected", "Warning"), ("DriftHealed", "Normal")] {
        let of = of(&told, reason);
        let of: Vec<_> = of.into_iter().filter(|event| content(event)).collect();
        ensure!(of.len() == 1, "one Event for all: {of:?}");
        let event = of[0];
        ensure!(
            event["type"] == kind
                && event["regarding"]["kind"] == "Policy"
                && event["regarding"]["uid"] == uid
                && event["related"]["name"] == NODE
                && event["reportingController"] == "configdrift.io/drift-agent",
            "{event}"
        );
        let note = event["note"].as_str().context("a note")?;
        ensure!(note.starts_with(&path.display().to_string()), "{note}");
    }
    // All five are counted, in the end.
    events(&cluster, "drift-events", |events| {
        let counted = of(events, "DriftDetected")
            .into_iter()
            .filter(|event| content(event));
        counted
            .map(|event| event["series"]["count"].as_u64().unwrap_or(1))
            .sum::<u64>()
            == 5
    })?;

    // Back to a lower version, and a version that is not there.
    for version in ["2.0.0", "1.0.0", "3.0.0"] {
        let mark = agent.mark();
        apply(&app(version, "web", &path))?;
        if version != "3.0.0" {
            agent.activated(mark, version)?;
        }
    }
    events(&cluster, "drift-events", |events| {
        of(events, "RolledBack").len() == 1 && of(events, "PolicyRejected").len() == 1
    })?;
    agent.stop()?;
    Ok(())
}
