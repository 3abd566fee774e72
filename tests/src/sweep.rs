//! Many points at which something goes wrong: an operation under `strace`, which kills it, or lets a system call fail, at the n-th call; or on a file system whose
//! power is cut.

mod operation;
pub mod power;
mod split;

pub use operation::{Operation, State};
pub use split::{Asked, Split, Who};

use std::{
    collections::{HashMap, HashSet},
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::skip::skip;

/// Says that every point is wanted, or every so manieth, not a few of them: `cargo xtask sweep`.
const EVERY: &str = "DRIFT_SWEEP";

/// How long it may take from the start of a program to things in order.
const RECOVERY: Duration = Duration::from_secs(1);

/// Tries of that: a machine that has much else to do is not the agent's fault.
const TRIES: usize = 5;

/// What takes longer under `strace` goes on for ever, for us.
const MOST_TIME: &str = "30";

/// A folder in which the same operation is done again and again.
#[derive(Debug)]
pub struct Ground {
    operation: Operation,
    /// Holds `now/tree` and its twin `before/tree`, as they were before the operation.
    folder: PathBuf,
    /// Holds `now/state` and `before/state`: the same folder, or one on another file system.
    other: PathBuf,
    _kept: Option<TempDir>,
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

/// Whether a long sweep is wanted.
#[must_use]
pub fn is_long() -> bool {
    env::var_os(EVERY).is_some()
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    pub name: String,
    /// The how many-th of that name it is in its thread: `strace` counts each name and each thread apart.
    pub number: usize,
}

/// The calls to try, of all of them: as many as are wanted, or a `few` all over. Of `kinds` of trying each begins elsewhere: with as many calls between two
/// points as there are kinds, each call is tried once.
pub fn points(all: &[Call], few: usize, kind: usize, kinds: usize) -> impl Iterator<Item = &Call> {
    let wanted = env::var(EVERY).ok().and_then(|every| every.parse().ok());
    let every = wanted.unwrap_or_else(|| all.len().div_ceil(few)).max(1);
    all.iter().skip(every * kind / kinds).step_by(every)
}

impl Ground {
    /// Laid out, and as it is before the operation.
    ///
    /// # Errors
    /// The file system's; or it cannot be done even when nothing goes wrong.
    pub fn new(operation: Operation) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("drift-sweep-").tempdir()?;
        let path = folder.path().to_owned();
        Self::begun(operation, &path, &path, Some(folder))
    }

    /// In folders that are there: the tree in one, the state in the other.
    ///
    /// # Errors
    /// As [`Ground::new`].
    pub fn at(operation: Operation, folder: &Path, other: &Path) -> Result<Self> {
        Self::begun(operation, folder, other, None)
    }

    fn begun(
        operation: Operation,
        folder: &Path,
        other: &Path,
        kept: Option<TempDir>,
    ) -> Result<Self> {
        let ground = Self {
            operation,
            folder: folder.to_owned(),
            other: other.to_owned(),
            _kept: kept,
        };
        for place in [ground.policies(), ground.tree(), ground.state_folder()] {
            fs::create_dir_all(place)?;
        }
        ground.lay_out()?;
        ensure!(ground.state()? == State::Old);
        for folder in ground.folders() {
            copy(&folder.join("now"), &folder.join("before"))?;
        }
        Ok(ground)
    }

    fn policies(&self) -> PathBuf {
        self.folder.join("policies")
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("now/tree")
    }

    fn state_folder(&self) -> PathBuf {
        self.other.join("now/state")
    }

    fn log(&self) -> PathBuf {
        self.other.join("strace.log")
    }

    /// As it was before the operation.
    ///
    /// # Errors
    /// The file system's.
    pub fn reset(&self) -> Result<()> {
        for folder in self.folders() {
            let now = folder.join("now");
            fs::remove_dir_all(&now)?;
            copy(&folder.join("before"), &now)?;
        }
        Ok(())
    }

    /// One, or two.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        let other = (self.other != self.folder).then_some(self.other.as_path());
        std::iter::once(self.folder.as_path()).chain(other)
    }

    /// Does the operation with `inject`, from how it was before.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn with(&self, inject: &str) -> Result<Ended> {
        self.reset()?;
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", MOST_TIME, "strace", "-f", "-qq", "-o"]);
        command.arg(self.log());
        for option in inject.split(' ').filter(|option| !option.is_empty()) {
            command.args(["-e", option]);
        }
        let operation = self.command();
        command
            .arg(operation.get_program())
            .args(operation.get_args());
        ended(command)
    }

    /// Which of these calls it makes: in their order, each thread's.
    ///
    /// # Errors
    /// It does not come to its end without anything going wrong.
    pub fn calls(&self, calls: &str) -> Result<Vec<Call>> {
        let ended = self.with(&format!("trace={calls}"))?;
        ensure!(ended.output.status.success(), "{}", ended.said());
        ensure!(self.state()? == State::New);
        Ok(calls_of(&fs::read_to_string(self.log())?))
    }

    /// Brings things in order as the next start does, and looks at what has come of it: all old or all new, the agent's word for it too, with nothing left over.
    /// And how long that took from the start of the program.
    ///
    /// # Errors
    /// Anything else.
    pub fn recovered(&self) -> Result<(State, Duration)> {
        self.recovered_by(|| {
            let start = Instant::now();
            let ended = ended(self.recovery())?;
            ensure!(ended.output.status.success(), "{}", ended.said());
            Ok(start.elapsed())
        })
    }

    /// The same, by what `recover` does; it says how long that took.
    fn recovered_by(&self, recover: impl Fn() -> Result<Duration>) -> Result<(State, Duration)> {
        let mut took = Duration::MAX;
        // What is to be brought in order is there once only: it is kept for another try.
        for folder in self.folders() {
            copy(&folder.join("now"), &folder.join("crashed"))?;
        }
        for attempt in 0..TRIES {
            if attempt > 0 {
                for folder in self.folders() {
                    fs::remove_dir_all(folder.join("now"))?;
                    copy(&folder.join("crashed"), &folder.join("now"))?;
                }
            }
            took = took.min(recover()?);
            if took < RECOVERY {
                break;
            }
        }
        for folder in self.folders() {
            fs::remove_dir_all(folder.join("crashed"))?;
        }
        ensure!(took < RECOVERY, "it took {took:?}");
        let state = self.state()?;
        ensure!(state != State::Mixed, "some is old and some is new");
        let left = Command::new("find")
            .args([self.folder.join("now"), self.other.join("now")])
            .args(["-name", ".drift-*", "-o", "-name", ".new-*"])
            .output()?;
        let left = String::from_utf8_lossy(&left.stdout).into_owned();
        ensure!(left.is_empty(), "left over: {left}");
        self.agrees(state)?;
        Ok((state, took))
    }
}

/// The calls in a log of `strace`.
fn calls_of(log: &str) -> Vec<Call> {
    let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
    let mut seen = HashSet::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((thread, call)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let Some((name, _)) = call.trim_start().split_once('(') else {
            continue;
        };
        // The first one is strace's own, the last one is the end.
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name || ["execve", "exit_group"].contains(&name) {
            continue;
        }
        let number = counts.entry((thread, name)).or_default();
        *number += 1;
        let call = Call {
            name: name.to_owned(),
            number: *number,
        };
        // The same of another thread is the same point.
        if seen.insert(call.clone()) {
            calls.push(call);
        }
    }
    calls
}

/// The first of these calls, of whose line in a log of `strace` this is a part.
fn call_with(log: &str, name: &str, text: &str) -> Option<Call> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    log.lines().find_map(|line| {
        let (thread, call) = line.split_once(char::is_whitespace)?;
        if !call.trim_start().starts_with(&format!("{name}(")) {
            return None;
        }
        let number = counts.entry(thread).or_default();
        *number += 1;
        line.contains(text).then(|| Call {
            name: name.to_owned(),
            number: *number,
        })
    })
}

fn ended(mut command: Command) -> Result<Ended> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?}"))?;
    Ok(Ended { output })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    if !status.success() {
        bail!("cp -a {} {}: {status}", from.display(), to.display());
    }
    Ok(())
}
