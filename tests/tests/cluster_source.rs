//! The agent that is told by a cluster's API server what its node must have. Case B162 (what is not known is not drift).

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use drift_tests::{
    agent::{Agent, program},
    cluster::{Cluster, app as policy},
    scene::{Scene, file},
    wait,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

fn holds(path: &Path, text: &str) -> Result<()> {
    let found = wait::until(Duration::from_secs(20), || match fs::read_to_string(path) {
        Ok(found) if found == text => Ok(()),
        other => Err(format!("{other:?}")),
    });
    found.map_err(|found| anyhow::anyhow!("{} is {found}, not {text:?}", path.display()))
}

#[test]
fn a_node_has_what_its_cluster_says_and_heals_without_it() -> Result<()> {
    const TEST: &str = "a_node_has_what_its_cluster_says_and_heals_without_it";
    let Some(cluster) = Cluster::for_agent(TEST, "drift-source", ("source-a", "web"))? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let path = scene.at("app.conf");
    let apply = |text: &str| cluster.ask(&["-n", "drift-source", "apply", "-f", "-"], text);

    // Nothing is for this node yet, and so nothing is declared.
    let agent = cluster.agent(&scene, "source-a")?;
    apply(&policy("1.0.0", "db", &path))?;
    apply(&policy("1.0.0", "web", &path))?;
    let activated = agent.activated(0, "1.0.0")?;
    ensure!(activated["policy"] == "drift-source.app", "{activated}");
    holds(&path, "version 1.0.0\n")?;

    // A version is changed by one word, there and back, and each time it is on the node at once.
    let mut took = Vec::new();
    for round in 0..20 {
        let version = ["2.0.0", "1.0.0"][round % 2];
        let (mark, start) = (agent.mark(), Instant::now());
        let patch = json!({"spec": {"activeVersion": version}}).to_string();
        cluster.ask(
            &[
                "-n",
                "drift-source",
                "patch",
                "cpol",
                "app",
                "--type=merge",
                "-p",
                &patch,
            ],
            "",
        )?;
        agent.activated(mark, version)?;
        took.push(start.elapsed());
        ensure!(
            fs::read_to_string(&path)? == format!("version {version}\n"),
            "{version}"
        );
    }
    took.sort_unstable();
    println!(
        "from kubectl's start to the version in force on the node, 20 times: median {} ms, p95 {} ms, most {} ms",
        took[10].as_millis(),
        took[18].as_millis(),
        took[19].as_millis()
    );

    // The API server is away: the agent was stopped and starts where there is no way to it.
    agent.stop()?;
    fs::write(&path, "drift while nobody looked\n")?;
    let alone = cluster.told(Command::new(program()), &scene, "source-a")?;
    holds(&path, "version 1.0.0\n")?;
    fs::write(&path, "drift while it is away\n")?;
    holds(&path, "version 1.0.0\n")?;
    alone.stop()?;

    // What was said meanwhile is heard at the next start.
    apply(&policy("2.0.0", "web", &path))?;
    let agent = cluster.agent(&scene, "source-a")?;
    holds(&path, "version 2.0.0\n")?;
    agent.stop()?;
    Ok(())
}

/// A daemon that does not run until this value goes.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: Pid) -> Result<Self> {
        kill_process(pid, Signal::STOP)?;
        Ok(Self(pid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // One that is gone runs no more: the next question to it fails the test.
        kill_process(self.0, Signal::CONT).ok();
    }
}

#[test]
fn while_the_api_server_or_its_etcd_hangs_drift_is_healed_and_then_news_are_heard() -> Result<()> {
    const TEST: &str =
        "while_the_api_server_or_its_etcd_hangs_drift_is_healed_and_then_news_are_heard";
    let Some(cluster) = Cluster::for_agent(TEST, "drift-hangs", ("source-c", "web"))? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let path = scene.at("app.conf");
    cluster.ask(
        &["-n", "drift-hangs", "apply", "-f", "-"],
        &policy("1.0.0", "web", &path),
    )?;
    let agent = cluster.agent(&scene, "source-c")?;
    holds(&path, "version 1.0.0\n")?;
    for (daemon, version) in [("kube-apiserver", "2.0.0"), ("etcd", "1.0.0")] {
        let before = fs::read_to_string(&path)?;
        let stopped = Stopped::new(cluster.daemon(daemon)?)?;
        for n in 0..5 {
            fs::write(&path, format!("drift {n}\n"))?;
            holds(&path, &before)?;
        }
        drop(stopped);
        let (mark, patch) = (
            agent.mark(),
            json!({"spec": {"activeVersion": version}}).to_string(),
        );
        cluster.ask(
            &[
                "-n",
                "drift-hangs",
                "patch",
                "cpol",
                "app",
                "--type=merge",
                "-p",
                &patch,
            ],
            "",
        )?;
        agent.activated(mark, version)?;
        holds(&path, &format!("version {version}\n"))?;
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn an_agent_that_starts_while_the_api_server_is_dead_heals_from_its_disk() -> Result<()> {
    const TEST: &str = "an_agent_that_starts_while_the_api_server_is_dead_heals_from_its_disk";
    let Some(cluster) = Cluster::for_agent(TEST, "drift-dead", ("source-d", "web"))? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let path = scene.at("app.conf");
    cluster.ask(
        &["-n", "drift-dead", "apply", "-f", "-"],
        &policy("1.0.0", "web", &path),
    )?;
    let agent = cluster.agent(&scene, "source-d")?;
    holds(&path, "version 1.0.0\n")?;
    agent.stop()?;

    cluster.kill("kube-apiserver")?;
    fs::write(&path, "drift while nobody looked\n")?;
    // Whatever it finds, the next test has an API server again.
    let alone = while_it_is_dead(&cluster, &scene, &path);
    cluster.start("kube-apiserver")?;
    let agent = alone?;

    // It hears the API server again by itself.
    let mark = agent.mark();
    let patch = json!({"spec": {"activeVersion": "2.0.0"}}).to_string();
    cluster.ask(
        &[
            "-n",
            "drift-dead",
            "patch",
            "cpol",
            "app",
            "--type=merge",
            "-p",
            &patch,
        ],
        "",
    )?;
    let start = Instant::now();
    agent.activated(mark, "2.0.0")?;
    println!(
        "heard again {} ms after the first word that it could hear",
        start.elapsed().as_millis()
    );
    holds(&path, "version 2.0.0\n")?;
    agent.stop()?;
    Ok(())
}

/// An agent that starts and heals without an API server, twice.
fn while_it_is_dead(cluster: &Cluster, scene: &Scene, path: &Path) -> Result<Agent> {
    let start = Instant::now();
    let agent = cluster.agent(scene, "source-d")?;
    holds(path, "version 1.0.0\n")?;
    println!(
        "without an API server: healed {} ms after the agent's start",
        start.elapsed().as_millis()
    );
    fs::write(path, "drift while it is dead\n")?;
    holds(path, "version 1.0.0\n")?;
    Ok(agent)
}

#[test]
fn a_node_has_its_own_policy_folder_beside_what_its_cluster_says() -> Result<()> {
    const TEST: &str = "a_node_has_its_own_policy_folder_beside_what_its_cluster_says";
    let Some(cluster) = Cluster::for_agent(TEST, "drift-both", ("source-e", "web"))? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let (theirs, own) = (scene.at("app.conf"), scene.at("own.conf"));
    let declare = |version: &str| {
        let spec = "  mode: heal\n  guard: {backoff: {first: 0s}}\n";
        let text = format!("own {version}\n");
        scene.declare(version, spec, &[file("own.conf", &text)])
    };
    declare("1.0.0")?;
    cluster.ask(
        &["-n", "drift-both", "apply", "-f", "-"],
        &policy("1.0.0", "web", &theirs),
    )?;
    let agent = cluster.agent_of_both(&scene, "source-e")?;
    for (path, text) in [(&theirs, "version 1.0.0\n"), (&own, "own 1.0.0\n")] {
        holds(path, text)?;
        fs::write(path, "drift\n")?;
        holds(path, text)?;
    }

    // What is wrong in one of the two changes nothing of either, and the other goes on.
    let policies = scene.policies().join("policy.yaml");
    fs::write(&policies, "kind: [\n")?;
    let said = wait::until(Duration::from_secs(20), || {
        let said = agent.errors();
        if said.contains("what the policy folder says is not taken") {
            Ok(())
        } else {
            Err(said)
        }
    });
    said.map_err(|said| anyhow::anyhow!("it says nothing of that: {said}"))?;
    let mark = agent.mark();
    let patch = json!({"spec": {"activeVersion": "2.0.0"}}).to_string();
    cluster.ask(
        &[
            "-n",
            "drift-both",
            "patch",
            "cpol",
            "app",
            "--type=merge",
            "-p",
            &patch,
        ],
        "",
    )?;
    agent.activated(mark, "2.0.0")?;
    holds(&theirs, "version 2.0.0\n")?;
    fs::write(&own, "drift\n")?;
    holds(&own, "own 1.0.0\n")?;

    // A version of the folder, while there is no way to the API server.
    agent.stop()?;
    let alone = cluster.told_both(Command::new(program()), &scene, "source-e")?;
    let mark = alone.mark();
    declare("1.1.0")?;
    alone.activated(mark, "1.1.0")?;
    holds(&own, "own 1.1.0\n")?;
    fs::write(&theirs, "drift\n")?;
    holds(&theirs, "version 2.0.0\n")?;
    alone.stop()?;
    Ok(())
}

#[test]
fn contents_are_kept_in_config_maps_and_secrets_that_cannot_change() -> Result<()> {
    const TEST: &str = "contents_are_kept_in_config_maps_and_secrets_that_cannot_change";
    let Some(cluster) = Cluster::for_agent(TEST, "drift-kept", ("source-f", "web"))? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let (open, closed) = (scene.at("app.conf"), scene.at("password"));
    let apply = |object: serde_json::Value| {
        cluster.ask(
            &["-n", "drift-kept", "apply", "-f", "-"],
            &object.to_string(),
        )
    };
    let version = json!({"apiVersion": "configdrift.io/v1alpha1", "kind": "PolicyVersion", "metadata": {"name": "app-1"},
        "spec": {"policy": "app", "version": "1.0.0", "files": [
            {"path": open, "content": {"configMap": {"name": "app", "key": "app.conf"}}},
            {"path": closed, "content": {"secret": {"name": "app", "key": "password"}}}]}});
    let policy = json!({"apiVersion": "configdrift.io/v1alpha1", "kind": "Policy", "metadata": {"name": "app"},
        "spec": {"activeVersion": "1.0.0", "mode": "heal", "guard": {"backoff": {"first": "0s"}}, "nodeSelector": {"role": "web"}}});
    apply(version)?;
    apply(policy)?;
    let agent = cluster.agent(&scene, "source-f")?;
    let says = |what: &str| {
        let said = wait::until(Duration::from_secs(20), || {
            let said = agent.errors();
            if said.contains(what) {
                Ok(())
            } else {
                Err(said)
            }
        });
        said.map_err(|said| anyhow::anyhow!("it does not say `{what}`: {said}"))
    };
    says("there is no ConfigMap app")?;
    let map = |immutable: bool| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"app.conf": "listen = 80\n"}, "immutable": immutable});
    apply(map(false))?;
    says("the ConfigMap app can change, and a version never does: give it `immutable: true`")?;
    apply(map(true))?;
    says("there is no Secret app")?;
    let secret = |key: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "app"}, "data": {key: "aHVudGVyMg=="}, "immutable": true});
    apply(secret("pass"))?;
    says("the Secret app has no key password")?;
    cluster.ask(&["-n", "drift-kept", "delete", "secret", "app"], "")?;
    apply(secret("password"))?;
    agent.activated(0, "1.0.0")?;
    for (path, text) in [(&open, "listen = 80\n"), (&closed, "hunter2")] {
        holds(path, text)?;
        fs::write(path, "drift\n")?;
        holds(path, text)?;
    }
    ensure!(
        !agent.errors().contains("hunter2") && !agent.errors().contains("aHVudGVyMg"),
        "it tells a secret"
    );
    agent.stop()?;

    // From the disk, without a way to the API server.
    fs::write(&closed, "drift\n")?;
    let alone = cluster.told(Command::new(program()), &scene, "source-f")?;
    holds(&closed, "hunter2")?;
    alone.stop()?;
    Ok(())
}

#[test]
fn what_is_for_a_node_follows_its_labels_and_what_is_wrong_changes_nothing() -> Result<()> {
    const TEST: &str = "what_is_for_a_node_follows_its_labels_and_what_is_wrong_changes_nothing";
    let Some(cluster) = Cluster::for_agent(TEST, "drift-labels", ("source-b", "db"))? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let path = scene.at("app.conf");
    cluster.ask(
        &["-n", "drift-labels", "apply", "-f", "-"],
        &policy("1.0.0", "web", &path),
    )?;
    let agent = cluster.agent(&scene, "source-b")?;
    ensure!(!path.exists(), "this policy is for others");
    let label = |role: &str| {
        let role = format!("role={role}");
        cluster.ask(&["label", "node", "source-b", "--overwrite", &role], "")
    };
    label("web")?;
    agent.activated(0, "1.0.0")?;
    holds(&path, "version 1.0.0\n")?;

    // A version that is not there: what was in force stays, and is healed.
    let patch = json!({"spec": {"activeVersion": "3.0.0"}}).to_string();
    cluster.ask(
        &[
            "-n",
            "drift-labels",
            "patch",
            "cpol",
            "app",
            "--type=merge",
            "-p",
            &patch,
        ],
        "",
    )?;
    let said = wait::until(Duration::from_secs(20), || {
        let said = agent.errors();
        if said.contains("has no version 3.0.0") {
            Ok(())
        } else {
            Err(said)
        }
    });
    said.map_err(|said| anyhow::anyhow!("it says nothing of that: {said}"))?;
    fs::write(&path, "drift\n")?;
    holds(&path, "version 1.0.0\n")?;

    // The label goes, and with it what is declared.
    label("db")?;
    let policies = scene
        .root()
        .join("state/cluster/policies/drift-labels.yaml");
    wait::until(Duration::from_secs(20), || {
        if policies.exists() {
            Err("it is there still")
        } else {
            Ok(())
        }
    })
    .map_err(anyhow::Error::msg)
    .with_context(|| policies.display().to_string())?;
    agent.stop()?;
    Ok(())
}
