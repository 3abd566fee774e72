//! Who has changed a file of a node, as a cluster calls it: container, pod, namespace. Case B033 (short-lived processes).

use std::{collections::BTreeMap, env, fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, program},
    cluster::Cluster,
    scene::Scene,
    skip::skip,
    wait,
};
use serde_json::{Value, json};

const NODE: &str = "node-a";
const SPACES: [&str; 2] = ["who-one", "who-two"];
const IMAGE: &str = "localhost/drift-busybox:1";
/// Where the declared files stand on the node.
const FOLDER: &str = "/srv/drift-who";
/// Pods that are there at once.
const AT_ONCE: usize = 20;

/// The node's root directory; `None`: the cluster has control plane alone, and `test` was said to be skipped.
fn node_root(test: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(env::var_os("DRIFT_KUBE")?);
    let holder = fs::read_to_string(folder.join("pids").join(format!("{NODE}-holder")));
    match holder {
        Ok(pid) => Some(format!("/proc/{}/root", pid.trim()).into()),
        Err(_) => {
            skip(
                test,
                "the cluster has no node: `cargo xtask kube test` brings up one that has",
            );
            None
        }
    }
}

/// How many pods come and go: `DRIFT_PODS`, else 200.
fn count() -> Result<usize> {
    match env::var("DRIFT_PODS") {
        Ok(count) => count.parse().context("DRIFT_PODS is no number"),
        Err(_) => Ok(200),
    }
}

/// A pod that runs `script` on the node, where the declared files are at /host.
fn pod(name: &str, namespace: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "nodeName": NODE, "restartPolicy": "Never", "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0, "hostNetwork": true,
            "containers": [{
                "name": "writer", "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", script],
                "volumeMounts": [{"name": "host", "mountPath": "/host"}],
            }],
            "volumes": [{"name": "host", "hostPath": {"path": FOLDER}}],
        },
    })
}

fn apply(cluster: &Cluster, objects: &[Value]) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    cluster
        .ask(&["apply", "-f", "-"], &list.to_string())
        .map(drop)
}

fn within<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> Result<T> {
    wait::until(Duration::from_secs(90), look).map_err(|last| anyhow::anyhow!("{what}: {last}"))
}

/// The id of a pod's container, as the kubelet tells it.
fn container(pod: &Value) -> Option<String> {
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str()?;
    Some(id.split_once("://")?.1.to_owned())
}

struct Stage {
    cluster: Cluster,
    scene: Scene,
    root: PathBuf,
}

impl Stage {
    /// Both namespaces, with a policy in the first that watches these files.
    fn new(cluster: Cluster, root: PathBuf, files: &[String]) -> Result<Self> {
        cluster.define()?;
        for namespace in SPACES {
            cluster.namespace(namespace)?;
            within("a service account", || {
                let account = ["-n", namespace, "get", "serviceaccount", "default"];
                cluster
                    .ask(&account, "")
                    .map_err(|error| format!("{error:#}"))
            })?;
        }
        let folder = root.join(FOLDER.trim_start_matches('/'));
        fs::create_dir_all(&folder)?;
        let mut declared = Vec::new();
        for name in files {
            fs::write(folder.join(name), "declared\n")?;
            declared.push(
                json!({"path": format!("{FOLDER}/{name}"), "content": {"inline": "declared\n"}}),
            );
        }
        let about = |name: &str| json!({"name": name, "namespace": SPACES[0]});
        let api = "configdrift.io/v1alpha1";
        apply(
            &cluster,
            &[
                json!({"apiVersion": api, "kind": "PolicyVersion", "metadata": about("who-1.0.0"),
                    "spec": {"policy": "who", "version": "1.0.0", "files": declared}}),
                json!({"apiVersion": api, "kind": "Policy", "metadata": about("who"),
                    "spec": {"activeVersion": "1.0.0", "mode": "observe"}}),
            ],
        )?;
        Ok(Self {
            cluster,
            scene: Scene::new()?,
            root,
        })
    }

    fn agent(&self) -> Result<Agent> {
        let mut command = self.cluster.inside(&program())?;
        command
            .args(["run", "--source", "crd", "--node-name", NODE])
            .args(["--sensor", "tracepoint", "--kubeconfig"])
            .arg(self.cluster.kubeconfig())
            .arg("--host-root")
            .arg(&self.root);
        let agent = Agent::start_as(command, &self.scene)?;
        agent.activated(0, "1.0.0")?;
        Ok(agent)
    }

    /// What there is to see of a pod, its node and its file, for whoever wonders why nothing is told of it.
    fn seen(&self, namespace: &str, pod: &str, file: &str) -> String {
        let path = self.root.join(FOLDER.trim_start_matches('/')).join(file);
        let content = fs::read_to_string(&path);
        let pod = self
            .cluster
            .ask(&["-n", namespace, "describe", "pod", pod], "");
        let pods = self.cluster.ask(&["get", "pods", "-A", "-o", "wide"], "");
        let node = self.cluster.ask(&["describe", "node", NODE], "");
        format!("{file} is {content:?}\n{pod:#?}\n{pods:#?}\n{node:#?}")
    }
}

/// What the agent says of who has changed a file.
fn actor(agent: &Agent, name: &str) -> Result<Value> {
    let path = format!("{FOLDER}/{name}");
    within(&format!("{path} drifts"), || {
        let records = agent.since(0);
        let mut records = records.iter();
        let is_it =
            |record: &&Value| record["event"] == "config.drift.detected" && record["path"] == path;
        let detected = records.find(is_it).ok_or("not told yet")?;
        Ok(detected["actor"].clone())
    })
}

#[test]
fn whoever_execs_into_a_pod_or_debugs_a_node_is_named_as_the_cluster_calls_him() -> Result<()> {
    const TEST: &str =
        "whoever_execs_into_a_pod_or_debugs_a_node_is_named_as_the_cluster_calls_him";
    let Some(cluster) = Cluster::find(TEST).filter(|_| has_probes(TEST)) else {
        return Ok(());
    };
    let Some(root) = node_root(TEST) else {
        return Ok(());
    };
    let names = ["exec", "debug", "machine"].map(str::to_owned);
    let stage = Stage::new(cluster, root, &names)?;
    let (cluster, namespace) = (&stage.cluster, SPACES[0]);
    apply(cluster, &[pod("keeper", namespace, "sleep 1000000")])?;
    let keeper = within("the pod runs", || {
        let pod = cluster.json(&["-n", namespace, "get", "pod", "keeper"]);
        let pod = pod.map_err(|error| format!("{error:#}"))?;
        match pod["status"]["phase"].as_str() {
            Some("Running") => Ok(pod),
            other => Err(format!("{other:?}")),
        }
    })?;
    let agent = stage.agent()?;

    let exec = ["-n", namespace, "exec", "keeper", "--", "/bin/sh", "-c"];
    cluster.ask(&[&exec[..], &["echo evil >> /host/exec"]].concat(), "")?;
    let who = actor(&agent, "exec")?;
    ensure!(
        who["container_id"].as_str() == container(&keeper).as_deref()
            && who["pod"] == "keeper"
            && who["namespace"] == namespace
            && who["container_name"] == "writer"
            && who["image"] == IMAGE
            && who["service_account"] == "default"
            && who["pod_uid"] == keeper["metadata"]["uid"],
        "{who}"
    );

    let script = format!("echo evil >> /host{FOLDER}/debug; sleep 20");
    let node = format!("node/{NODE}");
    let debug = ["-n", namespace, "debug", &node, "--image", IMAGE];
    let how = ["--profile=general", "--", "/bin/sh", "-c", &script];
    cluster.ask(&[&debug[..], &how[..]].concat(), "")?;
    let who = actor(&agent, "debug")?;
    ensure!(
        who["pod"]
            .as_str()
            .is_some_and(|pod| pod.starts_with(&format!("node-debugger-{NODE}-")))
            && who["namespace"] == namespace
            && who["container_id"].is_string(),
        "{who}"
    );

    // A process of the machine is in no container, and in no pod.
    let path = stage.root.join(FOLDER.trim_start_matches('/'));
    fs::write(path.join("machine"), "evil\n")?;
    let who = actor(&agent, "machine")?;
    ensure!(
        who["pid"] == std::process::id() && who["pod"].is_null() && who["container_id"].is_null(),
        "{who}"
    );

    let told = within("the NodeDrift says it", || {
        let drift = cluster.json(&["get", "nd", NODE]);
        let drift = drift.map_err(|error| format!("{error:#}"))?;
        let drifts = drift["status"]["drifts"].as_array().into_iter().flatten();
        let mut drifts = drifts.cloned();
        let path = format!("{FOLDER}/exec");
        let found = drifts.find(|drift| drift["path"] == path);
        found.ok_or_else(|| drift.to_string())
    })?;
    let who = &told["actor"];
    ensure!(
        who["comm"] == "sh"
            && who["pod"] == "keeper"
            && who["namespace"] == namespace
            && who["containerName"] == "writer"
            && who["container"].as_str() == container(&keeper).as_deref(),
        "{told}"
    );
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn of_pods_that_come_and_go_none_is_named_for_another() -> Result<()> {
    const TEST: &str = "of_pods_that_come_and_go_none_is_named_for_another";
    let Some(cluster) = Cluster::find(TEST).filter(|_| has_probes(TEST)) else {
        return Ok(());
    };
    let Some(root) = node_root(TEST) else {
        return Ok(());
    };
    let count = count()?;
    // Pods of the same names in both namespaces.
    let all: Vec<(usize, &str)> = (0..count)
        .map(|number| (number / 2, SPACES[number % 2]))
        .collect();
    let file = |(number, namespace): &(usize, &str)| format!("{namespace}-{number}");
    let files: Vec<String> = all.iter().map(file).collect();
    let stage = Stage::new(cluster, root, &files)?;
    let agent = stage.agent()?;
    let (mut right, mut unknown, mut wrong) = (0, 0, Vec::new());
    for batch in all.chunks(AT_ONCE) {
        let pods = batch.iter().map(|(number, namespace)| {
            // Every fourth is gone as soon as it has written.
            let rest = if number % 4 == 0 { "" } else { "; sleep 3" };
            let file = file(&(*number, *namespace));
            let script = format!("echo evil >> /host/{file}{rest}");
            pod(&format!("w-{number}"), namespace, &script)
        });
        apply(&stage.cluster, &pods.collect::<Vec<_>>())?;
        let mut seen = BTreeMap::new();
        for one in batch {
            let who = actor(&agent, &file(one));
            let who = who.with_context(|| {
                let name = format!("w-{}", one.0);
                format!("{}\n{}", stage.seen(one.1, &name, &file(one)), agent.all())
            });
            seen.insert(file(one), who?);
        }
        for (number, namespace) in batch {
            let name = format!("w-{number}");
            let is = within("the kubelet tells of the container", || {
                let pod = stage.cluster.json(&["-n", namespace, "get", "pod", &name]);
                let pod = pod.map_err(|error| format!("{error:#}"))?;
                container(&pod).ok_or_else(|| pod["status"].to_string())
            })?;
            let who = &seen[&file(&(*number, *namespace))];
            let said = |field: &str| who[field].as_str();
            let is_right = |field: &str, is: &str| said(field).is_none_or(|said| said == is);
            if !is_right("container_id", &is)
                || !is_right("pod", &name)
                || !is_right("namespace", namespace)
                || !is_right("container_name", "writer")
            {
                wrong.push(format!("{namespace}/{name} in {is}: {who}"));
            } else if said("container_id").is_some() && said("pod").is_some() {
                right += 1;
            } else {
                // One that stays for a while is known.
                ensure!(
                    number % 4 == 0,
                    "{namespace}/{name} in {is}: {who}\n{}",
                    agent.errors()
                );
                ensure!(
                    who.is_null() || who["container_unknown"].is_string(),
                    "it is not said that it is unknown: {who}"
                );
                unknown += 1;
            }
        }
        for namespace in SPACES {
            let pods = ["-n", namespace, "delete", "pods", "--all", "--wait=false"];
            stage.cluster.ask(&pods, "")?;
        }
    }
    println!(
        "{count} pods: {right} named, {unknown} said to be unknown, {} wrong",
        wrong.len()
    );
    ensure!(wrong.is_empty(), "{wrong:#?}");
    ensure!(agent.stop()?.success());
    Ok(())
}
