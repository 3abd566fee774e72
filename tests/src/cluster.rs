//! A real API server, brought up by `cargo xtask kube test` or `cargo xtask test`.

use std::{
    env,
    ffi::OsString,
    io::Write as _,
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::skip::skip;

/// The cluster's kubectl, as its admin.
#[derive(Debug)]
pub struct Cluster {
    kubectl: OsString,
}

impl Cluster {
    /// The one that is up; `None`: there is none here, and `test` was said to be skipped.
    #[must_use]
    pub fn find(test: &str) -> Option<Self> {
        if let Some(kubectl) = env::var_os("DRIFT_KUBECTL") {
            return Some(Self { kubectl });
        }
        let reason = env::var("DRIFT_KUBECTL_MISSING")
            .unwrap_or_else(|_| "no cluster: `cargo xtask kube test` brings one up".to_owned());
        skip(test, &reason);
        None
    }

    /// Runs kubectl with `input`.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn run(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut child = Command::new(&self.kubectl)
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

    /// A namespace of this name, with nothing in it.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn namespace(&self, name: &str) -> Result<()> {
        self.ask(&["delete", "namespace", name, "--ignore-not-found"], "")?;
        self.ask(&["create", "namespace", name], "").map(drop)
    }
}
