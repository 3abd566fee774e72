//! Three nodes and an API server: how soon they have what it says, and how soon it knows what has happened to them. `cargo xtask bench cluster`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use drift_tests::{
    agent::{Agent, program},
    cluster::Cluster,
    middle::Middle,
    plane::Plane,
    scene::Scene,
};
use serde_json::{Value, json};

const NAMESPACE: &str = "bench";
const NODES: [&str; 3] = ["bench-a", "bench-b", "bench-c"];
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two drifts of a node. An agent writes once a second at most.
const APART: Duration = Duration::from_millis(1500);

fn main() -> Result<()> {
    let numbers: Vec<usize> = env::args()
        .skip(1)
        .map_while(|word| word.parse().ok())
        .collect();
    let [applies, drifts] = numbers[..] else {
        bail!("needs how many applies, and how many drifts of each node");
    };
    let bench = Bench::new()?;
    bench.apply(1)?;
    // What is told of that is told by then, and is of no drift.
    thread::sleep(APART * 2);
    let [mut healed, mut shown, mut told] = [const { Vec::new() }; 3];
    for _ in 0..drifts {
        for node in &bench.nodes {
            let took = bench.drift(node)?;
            healed.push(took.healed);
            shown.push(took.shown);
            told.push(took.told);
            thread::sleep(APART / 3);
        }
    }
    let mut applied = Vec::new();
    for number in 2..applies + 2 {
        applied.extend(bench.apply(number)?);
    }
    println!(
        " {:<62} {:>6} {:>8} {:>8} {:>8}",
        "milliseconds", "times", "p50", "p95", "most"
    );
    for (what, times) in [
        (
            "from the policy's change to its file, on each of 3 nodes",
            &mut applied,
        ),
        ("from a drift to its heal", &mut healed),
        ("from a drift to the NodeDrift with its heal", &mut shown),
        (
            "from a drift to the Events of it and of its heal",
            &mut told,
        ),
    ] {
        times.sort_unstable();
        let at = |share: usize| times[(times.len() - 1) * share / 100].as_millis();
        println!(
            " {what:<62} {:>6} {:>8} {:>8} {:>8}",
            times.len(),
            at(50),
            at(95),
            at(100)
        );
    }
    let load = fs::read_to_string("/proc/loadavg")?;
    println!("\nload {}", load.split(' ').next().unwrap_or("?"));
    Ok(())
}

struct Node {
    name: &'static str,
    /// Its file, as it is outside of its mounts.
    file: PathBuf,
    agent: Agent,
    _scene: Scene,
}

struct Bench {
    nodes: Vec<Node>,
    _middle: Middle,
    plane: Plane,
    /// Where each node has a folder of its own.
    common: tempfile::TempDir,
}

#[derive(Debug)]
struct Known {
    /// Since the agent's start.
    healed: u64,
    is_as_declared: bool,
    /// Of a drift, and of its heal.
    events: [u64; 2],
}

struct Took {
    healed: Duration,
    shown: Duration,
    told: Duration,
}

impl Bench {
    fn new() -> Result<Self> {
        let cluster = Cluster::find("bench").context("no cluster: cargo xtask bench cluster")?;
        let plane = Plane::start(&cluster)?;
        plane.namespace(NAMESPACE)?;
        let middle = Middle::start(plane.target().clone())?;
        let common = tempfile::Builder::new().prefix("drift-bench-").tempdir()?;
        let mut nodes = Vec::new();
        for name in NODES {
            plane.node(name, "web")?;
            let scene = Scene::new()?;
            let config = scene.root().join("kubeconfig");
            middle.kubeconfig(&config)?;
            let mut command = Command::new("unshare");
            // Where all of them declare a file each has a folder of its own.
            command
                .args(["--mount", "--propagation", "private", "--", "sh", "-ec"])
                .arg(r#"mount --bind "$1" "$2"; shift 2; exec "$@""#)
                .arg("sh")
                .args([&scene.tree(), common.path()])
                .arg(program())
                .args(["run", "--source", "crd", "--node-name", name])
                .arg("--kubeconfig")
                .arg(config);
            nodes.push(Node {
                name,
                file: scene.at("app.conf"),
                agent: Agent::start_as(command, &scene)?,
                _scene: scene,
            });
        }
        Ok(Self {
            nodes,
            _middle: middle,
            plane,
            common,
        })
    }

    /// Makes a version the active one, and gives how long that takes to be on each node, from just before the API server is told.
    fn apply(&self, number: usize) -> Result<Vec<Duration>> {
        let (version, api) = (format!("1.{number}.0"), "configdrift.io/v1alpha1");
        let path = self.common.path().join("app.conf");
        let object = json!({"apiVersion": api, "kind": "PolicyVersion", "metadata": {"name": format!("app-{version}")},
            "spec": {"policy": "app", "version": version, "files": [{"path": path, "content": {"inline": text(number)}}]}});
        let policy = json!({"apiVersion": api, "kind": "Policy", "metadata": {"name": "app"},
            "spec": {"activeVersion": version, "mode": "heal", "guard": {"backoff": {"first": "0s"}}, "nodeSelector": {"role": "web"}}});
        let start = Instant::now();
        self.plane.apply("policyversions", NAMESPACE, &object)?;
        self.plane.apply("policies", NAMESPACE, &policy)?;
        let mut took = vec![None; self.nodes.len()];
        while took.contains(&None) {
            for (node, took) in self.nodes.iter().zip(&mut took) {
                if took.is_none() && holds(&node.file, number) {
                    *took = Some(start.elapsed());
                }
            }
            self.patience(start, "a version on each node")?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(took.into_iter().flatten().collect())
    }

    /// Changes a node's file.
    fn drift(&self, node: &Node) -> Result<Took> {
        let before = self.known(node)?;
        let start = Instant::now();
        fs::write(&node.file, "drift\n")?;
        while !holds(&node.file, 1) {
            self.patience(start, "a heal")?;
            thread::sleep(Duration::from_millis(1));
        }
        let healed = start.elapsed();
        let [mut shown, mut told] = [None; 2];
        while shown.is_none() || told.is_none() {
            let now = self.known(node)?;
            let time = start.elapsed();
            if shown.is_none() && now.is_as_declared && now.healed > before.healed {
                shown = Some(time);
            }
            let is_more = |of: usize| now.events[of] > before.events[of];
            if told.is_none() && is_more(0) && is_more(1) {
                told = Some(time);
            }
            self.patience(
                start,
                &format!("a NodeDrift and Events, from {before:?} on: {now:?}"),
            )?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Took {
            healed,
            shown: shown.unwrap_or_default(),
            told: told.unwrap_or_default(),
        })
    }

    /// What the cluster knows of a node.
    fn known(&self, node: &Node) -> Result<Known> {
        let target = self.plane.target();
        let path = format!("/apis/configdrift.io/v1alpha1/nodedrifts/{}", node.name);
        // It may not be made yet.
        let drift = target.ask("GET", &path, None).unwrap_or_default();
        let status = &drift["status"];
        let path = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
        let list = target.ask("GET", &path, None)?;
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        let count = |reason: &str| -> u64 {
            let of =
                |event: &&Value| event["reason"] == reason && event["related"]["name"] == node.name;
            let events = items.iter().filter(of);
            events
                .map(|event| event["series"]["count"].as_u64().unwrap_or(1))
                .sum()
        };
        Ok(Known {
            healed: status["policies"][0]["healed"].as_u64().unwrap_or(0),
            is_as_declared: status["counts"]["drifting"] == 0
                && status["drifts"][0]["outcome"] == "healed",
            events: ["DriftDetected", "DriftHealed"].map(count),
        })
    }

    fn patience(&self, start: Instant, what: &str) -> Result<()> {
        if start.elapsed() < PATIENCE {
            return Ok(());
        }
        let said: Vec<String> = self.nodes.iter().map(|node| node.agent.errors()).collect();
        bail!("no sign of {what}: {}", said.join("\n"));
    }
}

fn text(number: usize) -> String {
    format!("version 1.{number}.0\n")
}

fn holds(file: &Path, number: usize) -> bool {
    fs::read_to_string(file).is_ok_and(|found| found == text(number))
}
