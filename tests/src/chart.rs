//! The chart in a cluster with nodes, brought up by `cargo xtask kube test`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{cluster::Cluster, skip::skip};

/// Where the chart is.
pub const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart");
/// A node that `cargo xtask kube test` brings up.
pub const NODE: &str = "node-a";
/// An image with a shell, which every node has.
pub const BUSYBOX: &str = "localhost/drift-busybox:1";

/// Helm, and the nodes that it deploys to.
#[derive(Debug)]
pub struct Chart {
    pub cluster: Cluster,
}

impl Chart {
    /// `None`: there are no nodes, and `test` was said to be skipped.
    #[must_use]
    pub fn find(test: &str) -> Option<Self> {
        let chart = Self {
            cluster: Cluster::find(test)?,
        };
        if !chart.cluster.folder().join("helm").exists() {
            skip(
                test,
                "a cluster without nodes and Helm: `cargo xtask kube test` brings up one that has them",
            );
            return None;
        }
        Some(chart)
    }

    /// What Helm says; that it succeeds.
    ///
    /// # Errors
    /// It does not.
    pub fn helm(&self, arguments: &[&str]) -> Result<String> {
        let program = self.cluster.folder().join("helm");
        let output = Command::new(&program)
            .args(arguments)
            .output()
            .with_context(|| format!("starting {}", program.display()))?;
        ensure!(
            output.status.success(),
            "helm {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The objects that the chart renders with these values, hooks and definitions left out.
    ///
    /// # Errors
    /// It renders none.
    pub fn rendered(&self, values: &[&str]) -> Result<Vec<Value>> {
        let mut arguments = vec!["template", "drift", CHART, "-n", "drift-system"];
        arguments.extend(["--no-hooks", "--set", "crds.install=false"]);
        arguments.extend(values.iter().flat_map(|value| ["--set", value]));
        self.objects(&self.helm(&arguments)?)
    }

    /// The objects that `kubectl kustomize` renders.
    ///
    /// # Errors
    /// It renders none.
    pub fn kustomized(&self, overlay: &str) -> Result<Vec<Value>> {
        let folder = Path::new(CHART)
            .with_file_name("kustomize/overlays")
            .join(overlay);
        let text = self
            .cluster
            .ask(&["kustomize", &folder.to_string_lossy()], "")?;
        self.objects(&text)
    }

    /// YAML documents as JSON.
    fn objects(&self, text: &str) -> Result<Vec<Value>> {
        let asked = ["create", "--dry-run=client", "-o", "json", "-f", "-"];
        let json = self.cluster.ask(&asked, text)?;
        let objects: Vec<Value> = serde_json::Deserializer::from_str(&json)
            .into_iter()
            .collect::<Result<_, _>>()?;
        ensure!(!objects.is_empty(), "nothing is rendered");
        Ok(objects)
    }

    /// Runs a command among the files of the node.
    ///
    /// # Errors
    /// It fails.
    pub fn on_node(&self, script: &str) -> Result<String> {
        let pid = self.cluster.folder().join(format!("pids/{NODE}-holder"));
        let pid = fs::read_to_string(&pid).with_context(|| pid.display().to_string())?;
        let output = Command::new("nsenter")
            .args(["-t", pid.trim(), "-m", "--", "sh", "-c", script])
            .output()
            .context("starting nsenter")?;
        ensure!(
            output.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A kubeconfig for whoever has this token.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn kubeconfig(&self, folder: &Path, token: &str) -> Result<PathBuf> {
        let admin: Value = serde_json::from_slice(&fs::read(self.cluster.kubeconfig())?)?;
        let mut config = admin;
        config["users"][0]["user"] = serde_json::json!({"token": token});
        let path = folder.join("token.kubeconfig");
        fs::write(&path, config.to_string())?;
        Ok(path)
    }
}
