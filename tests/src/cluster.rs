//! A real API server, brought up by `cargo xtask kube test` or `cargo xtask test`.

use std::{
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Pid;

use crate::skip::skip;

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

    /// A namespace of this name, with nothing in it.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn namespace(&self, name: &str) -> Result<()> {
        self.ask(&["delete", "namespace", name, "--ignore-not-found"], "")?;
        self.ask(&["create", "namespace", name], "").map(drop)
    }
}
