//! A real API server, brought up by `cargo xtask kube test` or `cargo xtask test`.

use std::{
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    agent::{Agent, is_built, program},
    scene::Scene,
    skip::skip,
    wait,
};

/// The cluster, as its admin.
#[derive(Debug)]
pub struct Cluster {
    /// What `cargo xtask kube up` has made: `kubectl`, `pki`, and in `holder` a process that is in the cluster's network.
    folder: PathBuf,
}

impl Cluster {
    /// The one that is up; `None`: there is none here, and `test` was said to be skipped.
    #[must_use]
    pub fn find(test: &str) -> Option<Self> {
        if let Some(folder) = env::var_os("DRIFT_KUBE") {
            return Some(Self {
                folder: folder.into(),
            });
        }
        let reason = env::var("DRIFT_KUBE_MISSING")
            .unwrap_or_else(|_| "no cluster: `cargo xtask kube test` brings one up".to_owned());
        skip(test, &reason);
        None
    }

    /// As [`Cluster::find`], for a built agent: with drift's resources, a namespace, and a node (its name and its `role`). `None`: `test` was said to be skipped.
    ///
    /// # Errors
    /// The cluster's.
    pub fn for_agent(test: &str, namespace: &str, node: (&str, &str)) -> Result<Option<Self>> {
        let Some(cluster) = Self::find(test).filter(|_| is_built(test)) else {
            return Ok(None);
        };
        cluster.define()?;
        cluster.namespace(namespace)?;
        cluster.node(node.0, node.1)?;
        Ok(Some(cluster))
    }

    /// Where its programs, keys and logs are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `program`, in the cluster's network.
    ///
    /// # Errors
    /// The cluster is gone.
    pub fn inside(&self, program: &Path) -> Result<Command> {
        let holder =
            fs::read_to_string(self.folder.join("holder")).context("reading the holder's pid")?;
        let mut command = Command::new("nsenter");
        command.args(["-t", holder.trim(), "-n", "--"]).arg(program);
        Ok(command)
    }

    /// The process of a daemon: `kube-apiserver`, `etcd`.
    ///
    /// # Errors
    /// There is none.
    pub fn daemon(&self, name: &str) -> Result<Pid> {
        let path = self.folder.join("pids").join(name);
        let pid = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Pid::from_raw(pid.trim().parse()?).context("a process without a number")
    }

    /// Kills a daemon.
    ///
    /// # Errors
    /// There is none.
    pub fn kill(&self, name: &str) -> Result<()> {
        let pid = self.daemon(name)?;
        kill_process(pid, Signal::KILL).with_context(|| format!("killing {name}"))?;
        // Who has started it may not have waited for it: what is left of it then has no memory.
        let running = PathBuf::from(format!("/proc/{}/exe", pid.as_raw_nonzero()));
        wait::until(Duration::from_secs(20), || {
            if fs::read_link(&running).is_ok() {
                Err(format!("{name} is still there"))
            } else {
                Ok(())
            }
        })
        .map_err(anyhow::Error::msg)
    }

    /// Starts a daemon that was killed, and waits until the API server is ready.
    ///
    /// # Errors
    /// It does not come up.
    pub fn start(&self, name: &str) -> Result<()> {
        let child = Command::new(self.folder.join("again").join(name))
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let pid = self.folder.join("pids").join(name);
        fs::write(&pid, child.id().to_string()).with_context(|| pid.display().to_string())?;
        wait::until(Duration::from_secs(60), || {
            let ready = self.ask(&["get", "--raw", "/readyz", "--request-timeout=5s"], "");
            ready.map(drop).map_err(|error| format!("{error:#}"))
        })
        .map_err(anyhow::Error::msg)
    }

    /// The admin's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("pki/admin.kubeconfig")
    }

    /// Runs kubectl with `input`.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn run(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut child = Command::new(self.folder.join("kubectl"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting kubectl")?;
        let mut stdin = child.stdin.take().context("kubectl has no input")?;
        let input = input.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().context("waiting for kubectl")?;
        // It may end before it has read all: what it says of that is in its output.
        drop(writer.join());
        Ok(output)
    }

    /// What kubectl says; that it succeeds.
    ///
    /// # Errors
    /// It does not.
    pub fn ask(&self, arguments: &[&str], input: &str) -> Result<String> {
        let output = self.run(arguments, input)?;
        ensure!(
            output.status.success(),
            "kubectl {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Puts the project's resource definitions in place.
    ///
    /// # Errors
    /// The API server refuses one.
    pub fn define(&self) -> Result<()> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds");
        self.ask(&["apply", "--server-side", "-f", folder], "")?;
        self.ask(
            &[
                "wait",
                "--for=condition=Established",
                "--timeout=20s",
                "-f",
                folder,
            ],
            "",
        )
        .map(drop)
    }

    /// A namespace of this name, with nothing in it; and no Policies of other tests, which select the same nodes.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn namespace(&self, name: &str) -> Result<()> {
        self.ask(&["delete", "cpol", "--all", "--all-namespaces"], "")?;
        self.ask(&["delete", "namespace", name, "--ignore-not-found"], "")?;
        self.ask(&["create", "namespace", name], "").map(drop)
    }

    /// What kubectl says, as JSON.
    ///
    /// # Errors
    /// It does not succeed, or that is none.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.ask(&[arguments, &["-o", "json"]].concat(), "")?;
        serde_json::from_str(&text).with_context(|| format!("kubectl {}", arguments.join(" ")))
    }

    /// A Node of this name, new, with the label `role`. There is no kubelet.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn node(&self, name: &str, role: &str) -> Result<()> {
        self.ask(&["delete", "node", name, "--ignore-not-found"], "")?;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"role": role}}});
        self.ask(&["create", "-f", "-"], &node.to_string())
            .map(drop)
    }

    /// The agent of the node `name`, in the cluster's network.
    ///
    /// # Errors
    /// As of [`Agent::start_as`].
    pub fn agent(&self, scene: &Scene, name: &str) -> Result<Agent> {
        self.told(self.inside(&program())?, scene, name)
    }

    /// `command`, an agent, as the agent of the node `name`.
    ///
    /// # Errors
    /// As of [`Agent::start_as`].
    pub fn told(&self, mut command: Command, scene: &Scene, name: &str) -> Result<Agent> {
        command.args(["run", "--source", "crd"]);
        self.start_told(command, scene, name)
    }

    /// The agent of the node `name`, which has a policy folder of its own too.
    ///
    /// # Errors
    /// As of [`Agent::start_as`].
    pub fn agent_of_both(&self, scene: &Scene, name: &str) -> Result<Agent> {
        self.told_both(self.inside(&program())?, scene, name)
    }

    /// `command`, an agent, as that of the node `name`, which has a policy folder of its own too.
    ///
    /// # Errors
    /// As of [`Agent::start_as`].
    pub fn told_both(&self, mut command: Command, scene: &Scene, name: &str) -> Result<Agent> {
        command
            .args(["run", "--source", "both", "--policies"])
            .arg(scene.policies());
        self.start_told(command, scene, name)
    }

    fn start_told(&self, mut command: Command, scene: &Scene, name: &str) -> Result<Agent> {
        command
            .args(["--node-name", name, "--sensor", "scan", "--kubeconfig"])
            .arg(self.kubeconfig());
        Agent::start_as(command, scene)
    }
}

/// A policy `app` that heals, with versions 1.0.0 and 2.0.0 of one file.
#[must_use]
pub fn app(active: &str, selector: &str, path: &Path) -> String {
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
