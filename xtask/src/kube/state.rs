//! What of a cluster is on the machine: a folder, control groups, and processes in these. Everything else (mounts, links, addresses) is in
//! namespaces that end with their last process.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{interrupt::Interrupt, machine};

/// The control group of all, in each hierarchy.
pub(super) const GROUP: &str = "drift-kube";
const CGROUPS: &str = "/sys/fs/cgroup";

#[derive(Debug)]
pub(super) struct State {
    pub(super) folder: PathBuf,
}

impl State {
    /// One cluster at a time: its control groups have one name.
    pub(super) fn new(tools: &Path) -> Self {
        Self {
            folder: tools.with_file_name("kube"),
        }
    }

    pub(super) fn pki(&self) -> PathBuf {
        self.folder.join("pki")
    }

    pub(super) fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.pki().join("admin.kubeconfig")
    }

    /// `kubectl` as the admin, from anywhere on the machine.
    pub(super) fn kubectl(&self) -> PathBuf {
        self.folder.join("kubectl")
    }

    /// `helm` as the admin, from anywhere on the machine.
    pub(super) fn helm(&self) -> PathBuf {
        self.folder.join("helm")
    }

    /// Archives of the images that every node has.
    pub(super) fn images(&self) -> PathBuf {
        self.folder.join("images")
    }

    pub(super) fn log(&self, daemon: &str) -> PathBuf {
        self.folder.join("log").join(format!("{daemon}.log"))
    }

    /// Where the process id of the control plane's holder is.
    pub(super) fn holder(&self) -> PathBuf {
        self.folder.join("holder")
    }
}

/// The folder of the unified hierarchy, which has `cgroup.kill`.
pub(super) fn unified() -> Result<PathBuf> {
    for folder in [format!("{CGROUPS}/unified"), CGROUPS.to_owned()] {
        if Path::new(&folder).join("cgroup.controllers").exists() {
            return Ok(folder.into());
        }
    }
    bail!("no unified control group hierarchy is mounted at {CGROUPS} or {CGROUPS}/unified")
}

/// Every hierarchy there is.
pub(super) fn hierarchies() -> Vec<PathBuf> {
    let own = Path::new(CGROUPS);
    if own.join("cgroup.controllers").exists() {
        return vec![own.to_owned()];
    }
    let Ok(entries) = fs::read_dir(own) else {
        return vec![];
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Why no cluster can be brought up here, if so.
pub(super) fn refused() -> Option<String> {
    if !machine::is_root() {
        return Some("a cluster needs root, for namespaces and control groups".to_owned());
    }
    unified().err().map(|error| format!("{error:#}"))
}

/// A daemon to be started.
pub(super) struct Daemon<'a> {
    pub(super) name: String,
    /// Beneath [`GROUP`].
    pub(super) group: String,
    /// The process whose namespaces it joins.
    pub(super) like: Option<u32>,
    pub(super) program: &'a Path,
    pub(super) arguments: Vec<String>,
    /// Folders before the usual ones in its PATH.
    pub(super) path: Option<&'a Path>,
}

impl Daemon<'_> {
    /// Starts it, its output in a file of its own; gives its process id.
    pub(super) fn start(self, state: &State) -> Result<u32> {
        const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let group = unified()?.join(GROUP).join(&self.group);
        fs::create_dir_all(&group).with_context(|| format!("making {}", group.display()))?;
        let log = state.log(&self.name);
        let output = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("opening {}", log.display()))?;
        let errors = output.try_clone().context("a second descriptor")?;
        let mut command =
            Command::new(std::env::current_exe().context("asking for this program's own path")?);
        command.args(["kube", "place", "--cgroup"]).arg(&group);
        if let Some(pid) = self.like {
            command.args(["--like", &pid.to_string()]);
        }
        let path = self.path.map_or_else(
            || PATH.to_owned(),
            |first| format!("{}:{PATH}", first.display()),
        );
        command
            .arg("--")
            .arg(self.program)
            .args(&self.arguments)
            .env_clear()
            .env("PATH", path)
            .env("HOME", "/root");
        again(&state.folder.join("again").join(&self.name), &command, &log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("starting {}", self.name))?;
        // For tests that stop or kill one of them.
        let pid = state.folder.join("pids").join(&self.name);
        fs::write(&pid, child.id().to_string())
            .with_context(|| format!("writing {}", pid.display()))?;
        Ok(child.id())
    }
}

/// Writes a program that starts a daemon as `command` does: for tests that have killed it.
fn again(place: &Path, command: &Command, log: &Path) -> Result<()> {
    let quoted = |text: &OsStr| format!("'{}'", text.to_string_lossy().replace('\'', r"'\''"));
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), quoted(value?))));
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let words: Vec<String> = set.chain(words.map(quoted)).collect();
    let script = format!(
        "#!/bin/sh\nexec env -i {} </dev/null >>{} 2>&1\n",
        words.join(" "),
        quoted(log.as_os_str())
    );
    fs::write(place, script)
        .and_then(|()| fs::set_permissions(place, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("writing {}", place.display()))
}

/// Runs `script` in the namespaces of `like`.
pub(super) fn run_in(like: u32, name: &str, script: &str) -> Result<()> {
    crate::step::Step::new(name, "nsenter")
        .args([
            "-t",
            &like.to_string(),
            "-n",
            "-m",
            "-u",
            "--",
            "sh",
            "-ec",
            script,
        ])
        .read()
        .map(drop)
}

/// Asks again and again until `done` says so, the time is over or somebody has interrupted.
pub(super) fn wait(
    interrupt: &Interrupt,
    what: &str,
    at_most: Duration,
    mut done: impl FnMut() -> bool,
) -> Result<()> {
    const PAUSE: Duration = Duration::from_millis(25);
    let start = Instant::now();
    loop {
        if done() {
            return Ok(());
        }
        interrupt.check()?;
        if start.elapsed() > at_most {
            bail!("{what}: not so within {} s", at_most.as_secs());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ends and removes everything; `false` where there was nothing.
pub(super) fn down(state: &State) -> Result<bool> {
    let group = unified()?.join(GROUP);
    let mut found = false;
    if group.exists() {
        found = true;
        fs::write(group.join("cgroup.kill"), "1")
            .with_context(|| format!("ending all in {}", group.display()))?;
    }
    for hierarchy in hierarchies() {
        let group = hierarchy.join(GROUP);
        found |= group.exists();
        remove_group(&group)?;
    }
    match fs::remove_dir_all(&state.folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(found),
        Err(error) => Err(error).with_context(|| format!("removing {}", state.folder.display())),
    }
}

/// A group goes only when the last process in it has: the killed ones need a moment.
fn remove_group(group: &Path) -> Result<()> {
    const AT_MOST: Duration = Duration::from_secs(20);
    let start = Instant::now();
    loop {
        let error = match remove_groups(group) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if start.elapsed() > AT_MOST {
            return Err(error).with_context(|| {
                format!("removing {}: is a process still in it?", group.display())
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Depth first. The files in a group go with it.
fn remove_groups(group: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(group) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_groups(&entry.path())?;
        }
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_go_with_those_beneath_them_and_what_is_gone_is_no_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let group = folder.path().join(GROUP);
        fs::create_dir_all(group.join("node-a/kubepods/pod1")).unwrap();
        fs::create_dir_all(group.join("control")).unwrap();
        remove_group(&group).unwrap();
        assert!(!group.exists());
        remove_group(&group).unwrap();
    }

    #[test]
    fn what_starts_a_daemon_again_says_every_word_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (place, log) = (folder.path().join("again"), folder.path().join("a log"));
        let mut command = Command::new("printf");
        command
            .args(["%s|", "it's", "a  b", "$HOME"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        again(&place, &command, &log).unwrap();
        assert!(Command::new(&place).status().unwrap().success());
        assert_eq!(fs::read_to_string(log).unwrap(), "it's|a  b|$HOME|");
    }

    #[test]
    fn the_state_of_a_cluster_lies_beside_the_tools() {
        let state = State::new(Path::new("/c/drift/tools"));
        assert_eq!(state.folder, Path::new("/c/drift/kube"));
    }
}
