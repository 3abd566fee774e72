//! `cargo xtask kube demo`: from nothing to a drift that a pod makes, healed on its node and shown by kubectl. What users type is what is run here.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{
    Cluster,
    node::BUSYBOX,
    said,
    state::{State, wait},
};
use crate::{
    architecture::Architecture, image, interrupt::Interrupt, step::Step, workspace::Workspace,
};

/// Install the chart in a cluster of its own, and see a pod's drift healed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

const NODE: &str = "node-a";
const FILE: &str = "/etc/app/app.conf";
const DECLARED: &str = "workers = 4\n";

/// What a team would apply.
const POLICY: &str = r#"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: app-1.0.0, namespace: shop}
spec:
  policy: app
  version: 1.0.0
  files:
    - path: /etc/app/app.conf
      content: {inline: "workers = 4\n"}
      mode: "0644"
      owner: root
      group: root
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: app, namespace: shop}
spec:
  activeVersion: 1.0.0
  mode: heal
  guard: {backoff: {first: 0s}}
"#;

/// A pod that has nothing to do with drift, and the node's directory.
fn pod() -> String {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "editor", "namespace": "shop"},
        "spec": {
            "containers": [{
                "name": "shell",
                "image": BUSYBOX,
                "imagePullPolicy": "Never",
                "volumeMounts": [{"name": "app", "mountPath": "/host"}],
            }],
            "volumes": [{"name": "app", "hostPath": {"path": "/etc/app"}}],
            "terminationGracePeriodSeconds": 0,
        },
    })
    .to_string()
}

pub(super) fn run(workspace: &Workspace) -> Result<()> {
    let whole = Instant::now();
    let start = Instant::now();
    let image = image::write(workspace, Architecture::here())?;
    said("image", start.elapsed());
    let cluster = match Cluster::up(workspace, 1, &[image.file])? {
        Ok(cluster) => cluster,
        Err(reason) => bail!("{reason}"),
    };
    let interrupt = Interrupt::listen().context("listening for signals")?;
    let state = State::new(&workspace.tools());
    let demo = Demo {
        workspace,
        state: &state,
        interrupt: &interrupt,
    };
    let shown = demo.show();
    if shown.is_err() {
        demo.tell_what_pods_say();
    }
    shown?;
    let start = Instant::now();
    drop(cluster);
    said("down", start.elapsed());
    said("demo", whole.elapsed());
    Ok(())
}

struct Demo<'a> {
    workspace: &'a Workspace,
    state: &'a State,
    interrupt: &'a Interrupt,
}

impl Demo<'_> {
    fn show(&self) -> Result<()> {
        let start = Instant::now();
        let chart = self.workspace.root.join("deploy/chart");
        self.helm(&[
            "install",
            "drift",
            &chart.to_string_lossy(),
            "-n",
            "drift-system",
            "--create-namespace",
            "--set",
            "profile=heal",
            "--set",
            "image.repository=localhost/drift-agent",
            "--set",
            "image.pullPolicy=Never",
            "--set",
            "host.writablePaths={/etc/app}",
            "--wait",
            "--timeout=120s",
        ])?;
        said("helm install", start.elapsed());

        let start = Instant::now();
        self.ask(&["create", "namespace", "shop"])?;
        self.apply("the policy", POLICY)?;
        self.apply("a pod that will change its file", &pod())?;
        self.ask(&[
            "-n",
            "shop",
            "wait",
            "--for=condition=Ready",
            "--timeout=60s",
            "pod/editor",
        ])?;
        let first = self.node_drift("the policy is in force", |status| {
            status["policies"][0]["activeVersion"] == "1.0.0" && is(status, "Healed")
        })?;
        ensure!(
            self.content()? == DECLARED,
            "{FILE} is not as declared: {first}"
        );
        said("declared", start.elapsed());

        let start = Instant::now();
        self.in_pod(&["sh", "-c", "echo 'workers = 64' > /host/app.conf"])?;
        let healed = self.node_drift("the drift is healed", |status| {
            let told = &status["drifts"][0];
            told["outcome"] == "healed"
                && told["path"] == FILE
                && told["kinds"] == serde_json::json!(["content"])
                && is(status, "Healed")
        })?;
        said("drift healed", start.elapsed());
        ensure!(
            self.content()? == DECLARED,
            "{FILE} is not as declared: {healed}"
        );
        println!("\n$ kubectl get nodedrifts");
        print!("{}", self.ask(&["get", "nodedrifts"])?);
        println!("\n$ kubectl get nodedrift {NODE} -o jsonpath='{{.status.drifts[0]}}'");
        println!("{:#}", healed["drifts"][0]);
        println!("\n$ kubectl -n shop get events.events.k8s.io");
        println!(
            "{}",
            self.ask(&[
                "-n",
                "shop",
                "get",
                "events.events.k8s.io",
                "--field-selector=reportingController=configdrift.io/drift-agent"
            ])?
        );

        let start = Instant::now();
        self.helm(&[
            "uninstall",
            "drift",
            "-n",
            "drift-system",
            "--wait",
            "--timeout=60s",
        ])?;
        said("helm uninstall", start.elapsed());
        Ok(())
    }

    /// The status of the node, as soon as it `is` so.
    fn node_drift(&self, what: &str, is: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut last = Value::Null;
        wait(self.interrupt, what, Duration::from_secs(60), || {
            if let Ok(text) = self.ask(&["get", "nd", NODE, "-o", "json"])
                && let Ok(mut found) = serde_json::from_str::<Value>(&text)
            {
                last = found["status"].take();
            }
            is(&last)
        })
        .with_context(|| format!("the NodeDrift of {NODE} is {last:#}"))?;
        Ok(last)
    }

    fn content(&self) -> Result<String> {
        self.in_pod(&["cat", "/host/app.conf"])
    }

    fn in_pod(&self, command: &[&str]) -> Result<String> {
        self.ask(&[&["-n", "shop", "exec", "editor", "--"], command].concat())
    }

    fn ask(&self, arguments: &[&str]) -> Result<String> {
        self.interrupt.check()?;
        Step::new("ask kubectl", self.state.kubectl())
            .args(arguments)
            .read()
    }

    fn apply(&self, what: &str, text: &str) -> Result<()> {
        let file = self.state.folder.join("demo.yaml");
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        Step::new(format!("apply {what}"), self.state.kubectl())
            .args(["apply", "-f"])
            .arg(&file)
            .read()
            .map(drop)
    }

    fn helm(&self, arguments: &[&str]) -> Result<()> {
        self.interrupt.check()?;
        Step::new(format!("helm {}", arguments[0]), self.state.helm())
            .args(arguments)
            .read()
            .map(drop)
    }

    /// Why it may have failed.
    fn tell_what_pods_say(&self) {
        for question in [
            &["get", "pods", "-A", "-o", "wide"][..],
            &["-n", "drift-system", "describe", "pods"],
            &["-n", "drift-system", "logs", "daemonset/drift", "--tail=40"],
        ] {
            match self.ask(question) {
                Ok(said) => eprintln!("$ kubectl {}\n{said}", question.join(" ")),
                Err(error) => eprintln!("$ kubectl {}\n{error:#}", question.join(" ")),
            }
        }
    }
}

/// Whether a condition holds.
fn is(status: &Value, condition: &str) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == condition && one["status"] == "True")
}
