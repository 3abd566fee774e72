//! A real systemd, with a root directory, devices and control groups of its own, as in a container. The machine's own manager, if it has one, hears nothing of it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::{agent::program, skip::skip, wait};

const UNIT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../deploy/systemd/drift-agent.service"
);
/// For a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// It ends with this value, and all that it has started.
#[derive(Debug)]
pub struct Systemd {
    _folder: TempDir,
    group: PathBuf,
    starter: Child,
    /// systemd's own number.
    pid: u32,
}

/// Where it is.
fn manager() -> Option<&'static str> {
    let places = ["/lib/systemd/systemd", "/usr/lib/systemd/systemd"];
    places.into_iter().find(|place| Path::new(place).exists())
}

/// The control groups that it can have for itself: those of version 2.
fn unified() -> Option<PathBuf> {
    let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let mut places = places.into_iter().map(PathBuf::from);
    places.find(|place| place.join("cgroup.controllers").exists())
}

impl Systemd {
    /// One that has started, with the project's unit in its place and the built agent as its program. `None`: not here, and `test` was said to be skipped.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(test: &str) -> Result<Option<Self>> {
        let (Some(manager), Some(unified)) = (manager(), unified()) else {
            skip(test, "no systemd here, or no control groups of version 2");
            return Ok(None);
        };
        if !rustix::process::geteuid().is_root() {
            skip(test, "a systemd of its own needs root");
            return Ok(None);
        }
        let folder = tempfile::Builder::new()
            .prefix("drift-systemd-")
            .tempdir()?;
        let group = unified.join(format!("drift-systemd-{}", std::process::id()));
        fs::create_dir(&group).with_context(|| group.display().to_string())?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/systemd/root.sh");
        let starter = Command::new("sh")
            .args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""])
            .arg(&group)
            .args(["unshare", "--mount", "--pid", "--uts", "--ipc", "--net"])
            .args(["--cgroup", "--fork", "--propagation", "private", "sh"])
            .arg(script)
            .arg(folder.path())
            .arg(program())
            .arg(UNIT)
            .arg(manager)
            .stdin(Stdio::null())
            .spawn()
            .context("starting unshare")?;
        let mut systemd = Self {
            _folder: folder,
            group,
            starter,
            pid: 0,
        };
        systemd.pid = systemd.first()?;
        systemd.is_up()?;
        Ok(Some(systemd))
    }

    /// The first process of its namespace, once it is systemd.
    fn first(&mut self) -> Result<u32> {
        let starter = self.starter.id();
        let found = wait::until(PATIENCE, || {
            if let Ok(Some(status)) = self.starter.try_wait() {
                return Ok(Err(status));
            }
            let children = fs::read_to_string(format!("/proc/{starter}/task/{starter}/children"));
            let children = children.map_err(|error| error.to_string())?;
            let pid = children.trim().parse::<u32>().map_err(|_| children)?;
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if comm.trim() == "systemd" {
                Ok(Ok(pid))
            } else {
                Err(comm)
            }
        });
        match found {
            Ok(Ok(pid)) => Ok(pid),
            Ok(Err(status)) => anyhow::bail!("its root directory cannot be made: {status}"),
            Err(seen) => anyhow::bail!("there is no systemd, but {seen}"),
        }
    }

    fn is_up(&self) -> Result<()> {
        let up = wait::until(PATIENCE, || {
            let state = self.run(&["systemctl", "is-system-running"]);
            match state {
                // Which of the machine's other units cannot run in it is not asked.
                Ok(state) if matches!(&*state, "running" | "degraded") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        up.map_err(|seen| anyhow::anyhow!("systemd is not running: {seen}"))
    }

    /// A file among its own.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid))
    }

    /// What a command says there, whatever comes of it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&self, command: &[&str]) -> Result<String> {
        let output = Command::new("nsenter")
            .args(["-t", &self.pid.to_string(), "-a", "--"])
            .args(command)
            .stdin(Stdio::null())
            .output()
            .context("starting nsenter")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// A command that succeeds.
    ///
    /// # Errors
    /// It does not: with what systemd has noted of the agent.
    pub fn succeeds(&self, command: &[&str]) -> Result<()> {
        let status = Command::new("nsenter")
            .args(["-t", &self.pid.to_string(), "-a", "--"])
            .args(command)
            .stdin(Stdio::null())
            .status()
            .context("starting nsenter")?;
        ensure!(status.success(), "{command:?}: {status}\n{}", self.noted());
        Ok(())
    }

    /// A property of the unit.
    ///
    /// # Errors
    /// systemd cannot be asked.
    pub fn shows(&self, property: &str) -> Result<String> {
        self.run(&[
            "systemctl",
            "show",
            "drift-agent",
            "--value",
            "-p",
            property,
        ])
    }

    /// What systemd has noted of the agent, and the agent has said.
    #[must_use]
    pub fn noted(&self) -> String {
        self.run(&["journalctl", "--no-pager", "-u", "drift-agent"])
            .unwrap_or_default()
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // All of it at once; what is gone already need not be ended.
        let _gone = fs::write(self.group.join("cgroup.kill"), "1");
        let _gone = self.starter.kill();
        let _gone = self.starter.wait();
        let removed = wait::until(PATIENCE, || remove(&self.group));
        if let Err(error) = removed {
            eprintln!("{} is there still: {error}", self.group.display());
        }
    }
}

/// Control groups, the inner ones first.
fn remove(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}
