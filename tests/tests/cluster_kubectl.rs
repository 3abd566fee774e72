//! `kubectl drift` against a real API server: what an agent has written, and what is said where it has stopped.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use drift_tests::{
    agent::{is_built, program},
    chart::{CHART, Chart},
    cluster::{Cluster, app},
    scene::Scene,
    wait,
};
use serde_json::{Value, json};

/// The program under the name by which kubectl finds it.
struct Plugin<'c> {
    cluster: &'c Cluster,
    link: PathBuf,
}

impl<'c> Plugin<'c> {
    fn new(cluster: &'c Cluster, folder: &Path) -> Result<Self> {
        let link = folder.join("kubectl-drift");
        symlink(program(), &link).context("linking the plugin")?;
        symlink(program(), folder.join("kubectl_complete-drift"))?;
        Ok(Self { cluster, link })
    }

    fn command(&self, kubeconfig: &Path) -> Result<Command> {
        let mut command = self.cluster.inside(&self.link)?;
        command.env("KUBECONFIG", kubeconfig).env("TZ", "UTC");
        Ok(command)
    }

    fn run_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<Output> {
        let mut command = self.command(kubeconfig)?;
        command
            .args(arguments)
            .output()
            .context("running kubectl-drift")
    }

    fn run(&self, arguments: &[&str]) -> Result<(String, String, i32)> {
        let output = self.run_as(&self.cluster.kubeconfig(), arguments)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((
            text(&output.stdout),
            text(&output.stderr),
            output.status.code().context("ended by a signal")?,
        ))
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        let (out, err, _) = self.run(&[arguments, &["-o", "json"]].concat())?;
        serde_json::from_str(&out).with_context(|| format!("{arguments:?}: {out}{err}"))
    }
}

/// What `kubectl drift nodes` says of one node, once `is` likes it.
fn node(plugin: &Plugin<'_>, name: &str, is: impl Fn(&Value) -> bool) -> Result<Value> {
    let found = wait::until(Duration::from_secs(20), || {
        let nodes = plugin
            .json(&["nodes"])
            .map_err(|error| format!("{error:#}"))?;
        let mut nodes = nodes.as_array().into_iter().flatten();
        match nodes.find(|node| node["node"] == name) {
            Some(node) if is(node) => Ok(node.clone()),
            other => Err(format!("{other:?}")),
        }
    });
    found.map_err(|found| anyhow::anyhow!("{name} is {found}"))
}

#[test]
fn people_see_in_kubectl_what_agents_have_written() -> Result<()> {
    const TEST: &str = "people_see_in_kubectl_what_agents_have_written";
    const NODE: &str = "kubectl-a";
    let Some(cluster) = Cluster::for_agent(TEST, "drift-kubectl", (NODE, "web"))? else {
        return Ok(());
    };
    nobody(&cluster)?;
    let scene = Scene::new()?;
    let plugin = Plugin::new(&cluster, scene.root())?;
    let path = scene.at("app.conf");
    let shown = path.display().to_string();
    // A Node without an agent is not healthy.
    let (out, err, code) = plugin.run(&["status"])?;
    ensure!(code == 5 && out.contains("no agent"), "{code}: {out}{err}");

    cluster.ask(
        &["-n", "drift-kubectl", "apply", "-f", "-"],
        &app("1.0.0", "web", &path),
    )?;
    let agent = cluster.agent(&scene, NODE)?;
    agent.activated(0, "1.0.0")?;
    // The test's agent scans, which is something that it lacks.
    let found = node(&plugin, NODE, |node| node["counts"]["asDeclared"] == 1)?;
    ensure!(
        found["health"] == "degraded" && found["lacks"][0]["type"] == "HooksAttached",
        "{found}"
    );
    fs::write(&path, "drift\n")?;
    node(&plugin, NODE, |node| {
        node["counts"]["healed"] == 2 && node["counts"]["drifting"] == 0
    })?;
    let (out, err, code) = plugin.run(&["why", NODE, &shown])?;
    ensure!(
        code == 0
            && out.contains("as declared: it was healed")
            && out.contains("drift-kubectl/app 1.0.0, in its files"),
        "{code}: {out}{err}"
    );
    println!("{out}");
    let (out, err, code) = plugin.run(&["why", NODE])?;
    ensure!(
        code == 5 && out.contains("ScanAlone") && out.contains("drift-kubectl/app"),
        "{code}: {out}{err}"
    );
    let (out, ..) = plugin.run(&["policies", "-n", "drift-kubectl"])?;
    ensure!(out.contains(" app ") && out.contains("1/1"), "{out}");
    println!("{out}");
    let events = wait::until(Duration::from_secs(20), || {
        let events = plugin
            .json(&["events", "-n", "drift-kubectl"])
            .map_err(|error| format!("{error:#}"))?;
        let is_told = events.to_string().contains("DriftHealed");
        if is_told {
            Ok(events)
        } else {
            Err(events.to_string())
        }
    });
    let events = events.map_err(anyhow::Error::msg)?;
    ensure!(
        events[0]["node"] == NODE && events[0]["policy"] == "drift-kubectl/app",
        "{events}"
    );

    shown_again(&plugin, &path)?;

    // What is not there, and what may not be asked: each says what to type.
    let not_a_node = plugin.run(&["why", "kubectl-b"])?;
    ensure!(
        not_a_node.2 == 1
            && not_a_node.1.contains("did you mean `kubectl-a`")
            && not_a_node.1.contains("kubectl drift nodes"),
        "{not_a_node:?}"
    );
    let not_declared = plugin.run(&["why", NODE, "/etc/nobodys"])?;
    ensure!(
        not_declared.2 == 1
            && not_declared
                .1
                .contains("no version in force on kubectl-a declares /etc/nobodys"),
        "{not_declared:?}"
    );
    let no_context = plugin.run(&["status", "--context", "none"])?;
    ensure!(
        no_context.2 == 1 && no_context.1.contains("kubectl config get-contexts"),
        "{no_context:?}"
    );
    let nowhere = plugin.run_as(&scene.at("no-kubeconfig"), &["status"])?;
    let said = String::from_utf8_lossy(&nowhere.stderr);
    ensure!(
        nowhere.status.code() == Some(1) && said.contains("kubectl config view"),
        "{said}"
    );

    // Whom the chart's role is bound to sees all of it, and whom nothing is bound to is told what he lacks.
    let person = as_person(&cluster, &scene)?;
    let refused = plugin.run_as(&person, &["status"])?;
    let said = String::from_utf8_lossy(&refused.stderr);
    ensure!(
        refused.status.code() == Some(1)
            && said.contains("you may not list nodedrifts.configdrift.io")
            && said.contains("kubectl auth can-i"),
        "{said}"
    );

    // kubectl completes it.
    let complete = scene.root().join("kubectl_complete-drift");
    let output = cluster
        .inside(&complete)?
        .env("KUBECONFIG", cluster.kubeconfig())
        .args(["why", "kubectl"])
        .output()?;
    ensure!(
        String::from_utf8_lossy(&output.stdout) == format!("{NODE}\n:4\n"),
        "{output:?}"
    );
    agent.stop()?;
    cluster.ask(&["delete", "node", NODE], "")?;
    Ok(())
}

/// Who watches is shown what has changed, and nothing else.
fn shown_again(plugin: &Plugin<'_>, path: &Path) -> Result<()> {
    let mut child = plugin
        .command(&plugin.cluster.kubeconfig())?
        .args(["nodes", "-w", "-o", "jsonl"])
        .stdout(Stdio::piped())
        .spawn()
        .context("starting kubectl-drift")?;
    let out = child.stdout.take().context("no standard output")?;
    let (send, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.map_while(|line| send.send(line).ok()).count()
    });
    let seen = (|| -> Result<()> {
        let next = |healed: u64| -> Result<Value> {
            loop {
                let line = lines.recv_timeout(Duration::from_secs(30))?;
                let node: Value = serde_json::from_str(&line)?;
                if node["node"] == "kubectl-a" && node["counts"]["healed"] == healed {
                    return Ok(node);
                }
            }
        };
        next(2).context("what is there when it begins")?;
        fs::write(path, "drift again\n")?;
        let after = next(3).context("what has changed")?;
        ensure!(after["counts"]["drifting"] == 0, "{after}");
        Ok(())
    })();
    child.kill()?;
    child.wait()?;
    drop(lines);
    reader
        .join()
        .map_err(|_| anyhow::anyhow!("a thread panicked"))?;
    seen
}

#[test]
fn whoever_has_the_role_view_for_the_cluster_sees_it_and_changes_nothing() -> Result<()> {
    const TEST: &str = "whoever_has_the_role_view_for_the_cluster_sees_it_and_changes_nothing";
    let Some(chart) = Chart::find(TEST).filter(|_| is_built(TEST)) else {
        return Ok(());
    };
    let cluster = &chart.cluster;
    cluster.define()?;
    cluster.namespace("drift-kubectl")?;
    let role = ["template", "viewed", CHART, "-n", "drift-kubectl"];
    let role = chart.helm(&[&role[..], &["-s", "templates/rbac.yaml"]].concat())?;
    cluster.ask(&["apply", "-f", "-"], &role)?;
    let scene = Scene::new()?;
    let plugin = Plugin::new(cluster, scene.root())?;
    let person = as_person(cluster, &scene)?;
    let bound = [
        "create",
        "clusterrolebinding",
        "drift-person",
        "--clusterrole=view",
        "--serviceaccount=drift-kubectl:person",
    ];
    cluster.ask(&bound, "")?;
    // A controller adds to `view` what the chart brings.
    let shown = wait::until(Duration::from_secs(30), || {
        let output = plugin
            .run_as(&person, &["nodes"])
            .map_err(|error| format!("{error:#}"))?;
        match output.status.code() {
            Some(1) | None => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Some(_) => Ok(output),
        }
    });
    let shown = shown.map_err(anyhow::Error::msg)?;
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    for command in [
        &["policies", "-A"][..],
        &["events", "-A"],
        &["status"],
        &["nodes"],
    ] {
        let output = plugin.run_as(&person, command)?;
        ensure!(output.status.code() != Some(1), "{command:?}: {output:?}");
    }
    // Nodes are no part of `view`, and who has never reported is not seen without them.
    ensure!(said.contains("you may not list nodes"), "{said}");
    let config = person.display().to_string();
    for (verb, what) in [
        ("create", "policies"),
        ("patch", "policies"),
        ("delete", "policyversions"),
        ("create", "policyversionrefs"),
        ("patch", "nodedrifts"),
        ("patch", "nodedrifts/status"),
    ] {
        let what = match what.split_once('/') {
            Some((kind, part)) => format!("{kind}.configdrift.io/{part}"),
            None => format!("{what}.configdrift.io"),
        };
        let asked = ["--kubeconfig", &config, "auth", "can-i", verb, &what, "-A"];
        let answer = cluster.run(&asked, "")?;
        ensure!(
            String::from_utf8_lossy(&answer.stdout).trim() == "no",
            "{verb} {what}: {answer:?}"
        );
    }
    cluster.ask(&["delete", "-f", "-"], &role)?;
    cluster
        .ask(&["delete", "clusterrolebinding", "drift-person"], "")
        .map(drop)
}

/// No NodeDrifts, all at once: kubectl would delete a thousand one by one.
fn nobody(cluster: &Cluster) -> Result<()> {
    let all = "/apis/configdrift.io/v1alpha1/nodedrifts";
    cluster.ask(&["delete", "--raw", all], "").map(drop)
}

/// The kubeconfig of an account without any role.
fn as_person(cluster: &Cluster, scene: &Scene) -> Result<PathBuf> {
    let of = ["-n", "drift-kubectl"];
    cluster.ask(
        &[&of[..], &["create", "serviceaccount", "person"]].concat(),
        "",
    )?;
    let token = cluster.ask(&[&of[..], &["create", "token", "person"]].concat(), "")?;
    let mut config: Value = serde_json::from_slice(&fs::read(cluster.kubeconfig())?)?;
    // In the place of the admin's certificate.
    config["users"][0]["user"] = json!({"token": token.trim()});
    let path = scene.root().join("person.kubeconfig");
    fs::write(&path, config.to_string())?;
    Ok(path)
}

/// NodeDrifts of `count` nodes, written as an agent writes its own, all but one lately.
fn written(cluster: &Cluster, count: usize) -> Result<()> {
    let object = |n: usize, part: Value| {
        let mut object = json!({"apiVersion": "configdrift.io/v1alpha1", "kind": "NodeDrift", "metadata": {"name": format!("fleet-{n:04}")}});
        if let (Some(object), Value::Object(part)) = (object.as_object_mut(), part) {
            object.extend(part);
        }
        object
    };
    let policies: Vec<Value> = (0..20)
        .map(|n| json!({"namespace": "fleet", "name": format!("policy-{n}"), "activeVersion": "1.0.0", "mode": "heal", "files": 10, "drifting": 0, "notCompared": 0, "held": 0, "healed": 1}))
        .collect();
    let status = json!({"status": {
        "agentVersion": "0.3.0", "observedAt": "2026-01-01T00:00:00Z",
        "sensor": {"name": "btf", "hooksAttached": 24, "hooks": 24},
        "counts": {"policies": 20, "files": 200, "asDeclared": 200, "drifting": 0, "notCompared": 0, "held": 0, "healed": 20},
        "conditions": [{"type": "Synced", "status": "True", "reason": "InForce", "message": "ok", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "policies": policies,
    }});
    let documents = |part: Value| {
        let all: Vec<String> = (0..count)
            .map(|n| object(n, part.clone()).to_string())
            .collect();
        all.join("\n---\n")
    };
    cluster.ask(
        &["apply", "--server-side", "-f", "-"],
        &documents(json!({})),
    )?;
    let as_agent = [
        "apply",
        "--server-side",
        "--subresource=status",
        "--field-manager=drift-agent",
        "-f",
        "-",
    ];
    cluster.ask(&as_agent, &documents(status.clone()))?;
    // This one says itself when it was written, and that is long ago.
    let old = object(count, status);
    cluster.ask(
        &["apply", "--server-side", "-f", "-"],
        &object(count, json!({})).to_string(),
    )?;
    let by_hand = [
        "apply",
        "--server-side",
        "--subresource=status",
        "--field-manager=hand",
        "-f",
        "-",
    ];
    cluster.ask(&by_hand, &old.to_string()).map(drop)
}

#[test]
fn a_large_fleet_is_shown_in_seconds_and_who_has_stopped_is_never_healthy() -> Result<()> {
    const TEST: &str = "a_large_fleet_is_shown_in_seconds_and_who_has_stopped_is_never_healthy";
    const COUNT: usize = 1000;
    let Some(cluster) = Cluster::for_agent(TEST, "drift-fleet", ("fleet-node", "none"))? else {
        return Ok(());
    };
    cluster.ask(&["delete", "node", "fleet-node"], "")?;
    nobody(&cluster)?;
    let scene = Scene::new()?;
    let plugin = Plugin::new(&cluster, scene.root())?;
    written(&cluster, COUNT)?;
    let start = Instant::now();
    let (out, err, code) = plugin.run(&["status"])?;
    let took = start.elapsed();
    ensure!(code == 5, "{code}: {out}{err}");
    // Other tests leave Nodes without an agent, and these are told too.
    let head: Vec<&str> = out.lines().take(2).collect();
    ensure!(
        head[0].ends_with("1 stale, 1000 as declared")
            && head[1]
                == "200000 of 200000 files as declared (100.00 %) on the 1000 nodes that report; 20000 healed in 24 h",
        "{out}"
    );
    // As much memory as it has ever had, by the program that reads it for us.
    let measured = plugin.cluster.inside(Path::new("/bin/sh"))?
        .args(["-c", "\"$0\" nodes -o json > /dev/null & pid=$!; peak=0; while kill -0 $pid 2>/dev/null; do now=$(awk '/VmHWM/{print $2}' /proc/$pid/status 2>/dev/null); [ -n \"$now\" ] && peak=$now; done; echo $peak"])
        .arg(&plugin.link)
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()?;
    println!(
        "{COUNT} nodes: status in {} ms; nodes -o json with {} KiB of memory at most",
        took.as_millis(),
        String::from_utf8_lossy(&measured.stdout).trim()
    );
    let stale = node(&plugin, &format!("fleet-{COUNT:04}"), |_| true)?;
    ensure!(
        stale["health"] == "stale" && stale.get("counts").is_none(),
        "{stale}"
    );
    ensure!(took < Duration::from_secs(20), "{took:?}");
    nobody(&cluster)
}
