//! The agent that is told by a cluster's API server what its node must have.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use drift_tests::{
    agent::{Agent, is_built, program},
    cluster::Cluster,
    scene::Scene,
    wait,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// The agent of the node `name`, in the cluster's network.
fn agent(cluster: &Cluster, scene: &Scene, name: &str) -> Result<Agent> {
    told(cluster.inside(&program())?, cluster, scene, name)
}

fn told(mut command: Command, cluster: &Cluster, scene: &Scene, name: &str) -> Result<Agent> {
    command
        .args([
            "run",
            "--source",
            "crd",
            "--node-name",
            name,
            "--sensor",
            "scan",
        ])
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig());
    Agent::start_as(command, scene)
}

/// A Node of this name, new, with the label `role`. There is no kubelet.
fn node(cluster: &Cluster, name: &str, role: &str) -> Result<()> {
    cluster.ask(&["delete", "node", name, "--ignore-not-found"], "")?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"role": role}}});
    cluster
        .ask(&["create", "-f", "-"], &node.to_string())
        .map(drop)
}

/// A policy that heals, with versions 1.0.0 and 2.0.0 of one file.
fn policy(active: &str, selector: &str, path: &Path) -> String {
    let version = |number: &str| {
        json!({"apiVersion": "configdrift.io/v1alpha1", "kind": "PolicyVersion", "metadata": {"name": format!("app-{number}")},
            "spec": {"policy": "app", "version": number, "files": [{"path": path, "content": {"inline": format!("version {number}\n")}}]}})
    };
    let policy = json!({"apiVersion": "configdrift.io/v1alpha1", "kind": "Policy", "metadata": {"name": "app"},
        "spec": {"activeVersion": active, "mode": "heal", "guard": {"backoff": {"first": "0s"}}, "nodeSelector": {"role": selector}}});
    format!(
        "{}\n---\n{}\n---\n{policy}\n",
        version("1.0.0"),
        version("2.0.0")
    )
}

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
    let Some(cluster) = Cluster::find(TEST).filter(|_| is_built(TEST)) else {
        return Ok(());
    };
    cluster.define()?;
    cluster.namespace("drift-source")?;
    node(&cluster, "source-a", "web")?;
    let scene = Scene::new()?;
    let path = scene.at("app.conf");
    let apply = |text: &str| cluster.ask(&["-n", "drift-source", "apply", "-f", "-"], text);

    // Nothing is for this node yet, and so nothing is declared.
    let agent = agent(&cluster, &scene, "source-a")?;
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
    let alone = told(Command::new(program()), &cluster, &scene, "source-a")?;
    holds(&path, "version 1.0.0\n")?;
    fs::write(&path, "drift while it is away\n")?;
    holds(&path, "version 1.0.0\n")?;
    alone.stop()?;

    // What was said meanwhile is heard at the next start.
    apply(&policy("2.0.0", "web", &path))?;
    let agent = self::agent(&cluster, &scene, "source-a")?;
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
    let Some(cluster) = Cluster::find(TEST).filter(|_| is_built(TEST)) else {
        return Ok(());
    };
    cluster.define()?;
    cluster.namespace("drift-hangs")?;
    node(&cluster, "source-c", "web")?;
    let scene = Scene::new()?;
    let path = scene.at("app.conf");
    cluster.ask(
        &["-n", "drift-hangs", "apply", "-f", "-"],
        &policy("1.0.0", "web", &path),
    )?;
    let agent = agent(&cluster, &scene, "source-c")?;
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
fn what_is_for_a_node_follows_its_labels_and_what_is_wrong_changes_nothing() -> Result<()> {
    const TEST: &str = "what_is_for_a_node_follows_its_labels_and_what_is_wrong_changes_nothing";
    let Some(cluster) = Cluster::find(TEST).filter(|_| is_built(TEST)) else {
        return Ok(());
    };
    cluster.define()?;
    cluster.namespace("drift-labels")?;
    node(&cluster, "source-b", "db")?;
    let scene = Scene::new()?;
    let path = scene.at("app.conf");
    cluster.ask(
        &["-n", "drift-labels", "apply", "-f", "-"],
        &policy("1.0.0", "web", &path),
    )?;
    let agent = agent(&cluster, &scene, "source-b")?;
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
