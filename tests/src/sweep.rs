//! Many points at which something goes wrong: a change of versions under `strace`, which kills it, or lets a system call fail, at the n-th call.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use drift_agent::store::{DEFAULT_QUOTA, Store};
use tempfile::TempDir;

use crate::{agent::program, skip::skip};

/// Says that every point is wanted, not a few of them: `cargo xtask sweep`.
const FULL: &str = "DRIFT_SWEEP";

/// How long it may take to bring things in order on a machine that has much else to do.
const RECOVERY: Duration = Duration::from_secs(10);

/// Policies that need each other, from the first to the last; between them they have [`FILES`] files in each version.
const POLICIES: [&str; 3] = ["app", "lib", "base"];
const FILES: usize = 20;

/// A change of versions.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// All three policies from 1.0.0 to 2.0.0.
    Activate,
    /// And back.
    Rollback,
}

impl Change {
    /// The versions before and after it.
    #[must_use]
    pub const fn versions(self) -> (u32, u32) {
        match self {
            Self::Activate => (1, 2),
            Self::Rollback => (2, 1),
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Activate => &["activate", "app", "2.0.0"],
            Self::Rollback => &["rollback", "app"],
        }
    }
}

/// A folder in which the same change is made again and again.
#[derive(Debug)]
pub struct Ground {
    folder: TempDir,
    change: Change,
}

/// What a process under `strace` has come to.
#[derive(Debug)]
pub struct Ended {
    pub output: Output,
}

impl Ended {
    /// It was killed.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        self.output.status.signal() == Some(9)
    }

    /// What it said.
    #[must_use]
    pub fn said(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!(
            "{}: {}{}",
            self.output.status,
            text(&self.output.stdout),
            text(&self.output.stderr)
        )
    }
}

/// Whether there is a `strace` that can do it; where not, the test is skipped with the reason.
#[must_use]
pub fn has_strace(test: &str) -> bool {
    let traced = Command::new("strace")
        .args([
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "inject=chdir:error=EIO:when=9",
            "true",
        ])
        .stderr(Stdio::null())
        .status();
    let works = traced.is_ok_and(|status| status.success());
    if !works {
        skip(
            test,
            "strace cannot trace here (PTRACE_TRACEME), or is not there",
        );
    }
    works
}

/// One call of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    /// The how many-th of that name it is: `strace` counts each apart.
    pub number: usize,
}

/// The calls to try, of all of them: each, or a `few` all over. `offset`: other ones, where not each is tried.
pub fn points(all: &[Call], few: usize, offset: usize) -> impl Iterator<Item = &Call> {
    let every = if env::var_os(FULL).is_some() {
        1
    } else {
        all.len().div_ceil(few).max(1)
    };
    all.iter().skip(offset % every).step_by(every)
}

impl Ground {
    /// Laid out, and at the version before the change.
    ///
    /// # Errors
    /// The file system's; or the agent cannot do it even when nothing goes wrong.
    pub fn new(change: Change) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("drift-sweep-").tempdir()?;
        let ground = Self { folder, change };
        for name in ["policies", "now", "now/tree", "now/state"] {
            fs::create_dir(ground.at(name))?;
        }
        fs::write(ground.at("policies/all.yaml"), ground.policies())?;
        // The first change is made from nothing, so that the agent knows the version.
        for file in 0..FILES {
            fs::write(ground.file(file), content(file, 2))?;
        }
        for arguments in [
            &["activate", "app", "2.0.0"][..],
            &["activate", "app", "1.0.0"],
        ] {
            let ended = ground.run(None, arguments)?;
            ensure!(ended.output.status.success(), "{}", ended.said());
        }
        if let Change::Rollback = change {
            let ended = ground.run(None, Change::Activate.arguments())?;
            ensure!(ended.output.status.success(), "{}", ended.said());
        }
        ensure!(ground.version()? == Some(change.versions().0));
        copy(&ground.at("now"), &ground.at("before"))?;
        Ok(ground)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Every seventh file is in a directory that only the later version needs.
    fn file(&self, number: usize) -> PathBuf {
        self.at("now/tree").join(format!("file-{number}"))
    }

    fn policies(&self) -> String {
        let mut text = String::new();
        let head = "---\napiVersion: configdrift.io/v1alpha1\n";
        for (index, policy) in POLICIES.iter().enumerate() {
            text += &format!(
                "{head}kind: Policy\nmetadata: {{name: {policy}}}\nspec: {{activeVersion: 1.0.0, mode: heal, onRemove: remove}}\n"
            );
            for version in 1..=2 {
                text += &format!(
                    "{head}kind: PolicyVersion\nmetadata: {{name: {policy}-{version}}}\nspec:\n  policy: {policy}\n  version: {version}.0.0\n"
                );
                if let Some(needs) = POLICIES.get(index + 1) {
                    text +=
                        &format!("  dependencies: [{{policy: {needs}, version: ^{version}}}]\n");
                }
                text += "  files:\n";
                for file in (0..FILES).filter(|file| file % POLICIES.len() == index) {
                    text += &format!(
                        "    - {{path: {}, content: {{inline: '{}'}}, mode: '06{version}0'}}\n",
                        self.file(file).display(),
                        content(file, version)
                    );
                }
                let tree = self.at("now/tree");
                let tree = tree.display();
                text += &format!(
                    "    - {{path: {tree}/of-{version}/{policy}/file, content: {{inline: x}}}}\n  symlinks:\n    - {{path: {tree}/link-{policy}, target: to-{version}}}\n"
                );
            }
        }
        // What is asked for only to bring things in order.
        text += &format!(
            "{head}kind: Policy\nmetadata: {{name: other}}\nspec: {{activeVersion: 1.0.0}}\n{head}kind: PolicyVersion\nmetadata: {{name: other-1}}\nspec: {{policy: other, version: 1.0.0}}\n"
        );
        text
    }

    /// Runs the agent to its end; `inject`: under `strace`, with this.
    fn run(&self, inject: Option<&str>, arguments: &[&str]) -> Result<Ended> {
        let mut command = match inject {
            None => Command::new(program()),
            Some(inject) => {
                let mut command = Command::new("strace");
                let log = self.at("strace.log");
                command.args(["-f", "-qq", "-o"]).arg(log);
                for option in inject.split(' ').filter(|option| !option.is_empty()) {
                    command.args(["-e", option]);
                }
                command.arg(program());
                command
            }
        };
        let output = command
            .args(arguments)
            .arg("--policies")
            .arg(self.at("policies"))
            .arg("--state")
            .arg(self.at("now/state"))
            .stdin(Stdio::null())
            .output()
            .context("the agent, or strace")?;
        Ok(Ended { output })
    }

    /// Makes the change with `inject`, from the version before it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn change(&self, inject: &str) -> Result<Ended> {
        fs::remove_dir_all(self.at("now"))?;
        copy(&self.at("before"), &self.at("now"))?;
        self.run(Some(inject), self.change.arguments())
    }

    /// Which of these calls the change makes, in their order.
    ///
    /// # Errors
    /// It does not come to its end without anything going wrong.
    pub fn calls(&self, calls: &str) -> Result<Vec<Call>> {
        let ended = self.change(&format!("trace={calls}"))?;
        ensure!(ended.output.status.success(), "{}", ended.said());
        ensure!(self.version()? == Some(self.change.versions().1));
        let log = fs::read_to_string(self.at("strace.log"))?;
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let names = log.lines().filter_map(|line| {
            let call = line.split_once(char::is_whitespace)?.1.trim_start();
            let name = call.split_once('(')?.0;
            // The first one is strace's own, the last one is the end.
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            (is_name && !["execve", "exit_group"].contains(&name)).then_some(name)
        });
        let calls = names.map(|name| {
            let number = counts.entry(name).or_default();
            *number += 1;
            Call {
                name: name.to_owned(),
                number: *number,
            }
        });
        Ok(calls.collect())
    }

    /// The version that every file has; `None`: not all the same. A file that has neither is an error.
    ///
    /// # Errors
    /// A file is torn.
    pub fn version(&self) -> Result<Option<u32>> {
        use std::os::unix::fs::PermissionsExt;
        let mut versions = Vec::new();
        for file in 0..FILES {
            let path = self.file(file);
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let mode = fs::metadata(&path)?.permissions().mode() & 0o777;
            let of = |version: &u32| text == content(file, *version);
            let Some(version) = [1, 2].into_iter().find(of) else {
                bail!("{} is torn: {text:?}", path.display());
            };
            // At the very beginning the modes are those of the test.
            if mode & 0o100 == 0 && mode != 0o644 {
                let expected = 0o600 | (version << 3);
                ensure!(mode == expected, "{} has {mode:o}", path.display());
            }
            versions.push(version);
        }
        for policy in POLICIES {
            let link = self.at("now/tree").join(format!("link-{policy}"));
            if let Ok(target) = fs::read_link(&link) {
                versions.push(if target == Path::new("to-2") { 2 } else { 1 });
            }
        }
        versions.dedup();
        Ok((versions.len() == 1).then(|| versions[0]))
    }

    /// Brings things in order as the next start does, and looks at what has come of it: the version that everything has, the agent's word for it
    /// too, with nothing left over. And how long the command took.
    ///
    /// # Errors
    /// Anything else.
    pub fn recovered(&self) -> Result<(u32, Duration)> {
        let start = Instant::now();
        let ended = self.run(None, &["activate", "other", "1.0.0"])?;
        let took = start.elapsed();
        ensure!(ended.output.status.success(), "{}", ended.said());
        ensure!(took < RECOVERY, "it took {took:?}");
        let version = self.version()?.context("versions are mixed")?;
        ensure!(!self.at("now/state/journal").exists(), "a journal is left");
        let other = 3 - version;
        for (path, is_there) in [(version, true), (other, false)] {
            for policy in POLICIES {
                let file = self.at("now/tree").join(format!("of-{path}/{policy}/file"));
                ensure!(
                    file.exists() == is_there,
                    "{}: {}",
                    file.display(),
                    ended.said()
                );
            }
        }
        let left = Command::new("find")
            .arg(self.at("now"))
            .args(["-name", ".drift-*", "-o", "-name", ".new-*"])
            .output()?;
        let left = String::from_utf8_lossy(&left.stdout).into_owned();
        ensure!(left.is_empty(), "left over: {left}");
        let store = Store::open(&self.at("now/state"), DEFAULT_QUOTA)?;
        ensure!(store.notes().is_empty(), "{:?}", store.notes());
        let (snapshot, _) = store.look(&self.at("policies"), Path::new("/"), None);
        let snapshot = snapshot.map_err(|rejected| anyhow::anyhow!("{rejected}"))?;
        for policy in POLICIES {
            let (active, _) = snapshot.policy(policy).context("a policy")?;
            ensure!(
                active.version == format!("{version}.0.0"),
                "{policy} has {} for the agent, and {version} on the disk",
                active.version
            );
        }
        Ok((version, took))
    }
}

fn content(file: usize, version: u32) -> String {
    format!("{file} {version} ").repeat(1 + file * 97)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    ensure!(status.success(), "cp: {status}");
    Ok(())
}
