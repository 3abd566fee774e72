//! The same asked of a running agent, one of whose processes is under `strace`: the one that looks, the one that writes, or the one that starts it.

use std::{
    env,
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    Call, Ended, Ground, MOST_TIME, Operation, State, call_with, calls_of, copy, ended,
    operation::run_all,
};
use crate::{
    agent::{SOON, program},
    wait,
};

/// One of the agent's processes (docs/security.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Detector,
    Keeper,
    Restorer,
}

/// Names the only one that is wanted: `cargo xtask sweep --process`.
const PROCESS: &str = "DRIFT_SWEEP_PROCESS";

impl Who {
    /// All of them, or the one that is wanted.
    pub fn wanted() -> impl Iterator<Item = Who> {
        let only = env::var(PROCESS).ok();
        [Who::Detector, Who::Keeper, Who::Restorer]
            .into_iter()
            .filter(move |who| only.as_ref().is_none_or(|only| *only == who.name()))
    }

    const fn name(self) -> &'static str {
        match self {
            Who::Detector => "detector",
            Who::Keeper => "keeper",
            Who::Restorer => "restorer",
        }
    }
}

/// An operation that a running agent is asked for, and whose process is under `strace` meanwhile.
#[derive(Debug)]
pub struct Split {
    ground: Ground,
    who: Who,
}

/// What has come of it.
#[derive(Debug)]
pub struct Asked {
    /// The command that has asked.
    pub command: Ended,
    /// The agent's own word, all processes'.
    pub agent: String,
    /// It went on until it was told to end.
    pub is_alive: bool,
    /// What was to go wrong went wrong.
    pub is_hit: bool,
    log: String,
}

impl Asked {
    /// It was said to be done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.command.output.status.success()
    }

    /// What everybody said.
    #[must_use]
    pub fn said(&self) -> String {
        format!("{}\nagent: {}", self.command.said(), self.agent)
    }
}

impl Split {
    /// Laid out, and as it is before the operation.
    ///
    /// # Errors
    /// As [`Ground::new`].
    pub fn new(operation: Operation, who: Who) -> Result<Self> {
        let ground = Ground::new(operation)?;
        if operation.is_heal() {
            // What differs is left alone until somebody asks.
            let pause = ["pause", "--for", "7d", "--reason", "it is asked for"];
            run_all(vec![ground.told(&pause)])?;
            for folder in ground.folders() {
                fs::remove_dir_all(folder.join("before"))?;
                copy(&folder.join("now"), &folder.join("before"))?;
            }
        }
        Ok(Self { ground, who })
    }

    /// Does the operation with `inject` in the one process, from how it was before. Afterwards nothing of the agent is left.
    ///
    /// # Errors
    /// The agent does not start, or does not end.
    pub fn with(&self, inject: &str) -> Result<Asked> {
        let log = self.ground.log();
        let mut asked = self.asked(|process| Tracer::attach(process, &log, inject))?;
        asked.log = fs::read_to_string(log)?;
        asked.is_hit = asked.log.contains("(INJECTED)") || asked.log.contains("killed by SIGKILL");
        Ok(asked)
    }

    /// The same with the process killed before the agent is asked.
    ///
    /// # Errors
    /// As [`Split::with`].
    pub fn without(&self) -> Result<Asked> {
        let mut asked = self.asked(|process| {
            signal(process, Signal::KILL)?;
            Ok(())
        })?;
        asked.is_hit = true;
        Ok(asked)
    }

    /// `goes_wrong` as long as what it returns is there.
    fn asked<G>(&self, goes_wrong: impl FnOnce(u32) -> Result<G>) -> Result<Asked> {
        self.ground.reset()?;
        let mut agent = Running::start(&self.ground)?;
        let process = agent.process(self.who)?;
        let goes_wrong = goes_wrong(process)?;
        let mut command = Command::new("timeout");
        let asks = self.ground.asks();
        command
            .args(["-s", "KILL", MOST_TIME])
            .arg(asks.get_program())
            .args(asks.get_args());
        let command = ended(command)?;
        drop(goes_wrong);
        let is_alive = agent.child.try_wait()?.is_none();
        agent.end()?;
        Ok(Asked {
            command,
            agent: agent.said(),
            is_alive,
            is_hit: false,
            log: String::new(),
        })
    }

    /// Which of these calls the process makes meanwhile: in their order, each thread's.
    ///
    /// # Errors
    /// It does not come to its end without anything going wrong.
    pub fn calls(&self, calls: &str) -> Result<Vec<Call>> {
        let asked = self.with(&format!("trace={calls}"))?;
        ensure!(asked.is_done() && asked.is_alive, "{}", asked.said());
        ensure!(self.state()? == State::New, "{}", asked.said());
        let calls = calls_of(&asked.log);
        // The keeper waits all the time.
        let is_right = !calls.is_empty() || self.who == Who::Keeper;
        ensure!(is_right, "strace has seen nothing: {}", asked.log);
        Ok(calls)
    }

    /// The first call of this name that the process makes meanwhile, of which `strace` says this.
    ///
    /// # Errors
    /// It makes none.
    pub fn call(&self, name: &str, text: &str) -> Result<Call> {
        let asked = self.with(&format!("trace={name}"))?;
        ensure!(asked.is_done() && asked.is_alive, "{}", asked.said());
        call_with(&asked.log, name, text).with_context(|| format!("no {name} of {text}"))
    }

    /// As [`Ground::state`].
    ///
    /// # Errors
    /// As there.
    pub fn state(&self) -> Result<State> {
        self.ground.state()
    }

    /// As [`Ground::recovered`], by the next start of the agent: it is in order when it is ready.
    ///
    /// # Errors
    /// As there.
    pub fn recovered(&self) -> Result<(State, Duration)> {
        self.ground.recovered_by(|| {
            if self.ground.operation.is_heal() {
                run_all(vec![self.ground.told(&["resume"])])?;
            }
            let start = Instant::now();
            let mut agent = Running::start(&self.ground)?;
            let took = start.elapsed();
            if self.ground.operation.is_heal() {
                let healed = wait::until(SOON, || match self.ground.state() {
                    Ok(State::New) => Ok(()),
                    other => Err(format!("{other:?}")),
                });
                if let Err(seen) = healed {
                    bail!("it is not healed: {seen}: {}", agent.said());
                }
            }
            agent.end()?;
            Ok(took)
        })
    }
}

impl Ground {
    /// A command about this state folder.
    fn told(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .arg("--state")
            .arg(self.state_folder());
        command
    }

    /// What asks a running agent for the operation.
    fn asks(&self) -> Command {
        match self.operation {
            Operation::Heal | Operation::InPlace | Operation::Compact => {
                let mut command = self.told(&["heal", "--force"]);
                command.arg(self.healed_file());
                command
            }
            Operation::Activate => self.told(&["activate", "app", "2.0.0"]),
            Operation::Rollback => self.told(&["rollback", "app"]),
        }
    }
}

/// An agent that is ready.
struct Running<'g> {
    ground: &'g Ground,
    child: Child,
}

impl<'g> Running<'g> {
    fn start(ground: &'g Ground) -> Result<Self> {
        let ready = ground.other.join("ready");
        if ready.exists() {
            fs::remove_file(&ready)?;
        }
        let said = File::create(ground.other.join("agent.log"))?;
        let mut command = ground.told(&["run", "--sensor", "scan", "--scan-interval", "1h"]);
        command
            .args(["-o", "jsonl", "--policies"])
            .arg(ground.policies())
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said);
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        let mut running = Self { ground, child };
        let started = wait::until(SOON, || match running.child.try_wait() {
            // It is made, and then written.
            Ok(None) if fs::metadata(&ready).is_ok_and(|file| file.len() > 0) => Ok(Ok(())),
            Ok(None) => Err("it is not ready".to_owned()),
            other => Ok(Err(format!("it has ended: {other:?}"))),
        });
        match started {
            Ok(Ok(())) => Ok(running),
            Ok(Err(why)) | Err(why) => bail!("{why}: {}", running.said()),
        }
    }

    fn said(&self) -> String {
        let log = fs::read(self.ground.other.join("agent.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn process(&self, who: Who) -> Result<u32> {
        let detector = self.child.id();
        let below = |parent| child_of(parent).context("it has no child");
        let found = wait::until(SOON, || match who {
            Who::Detector => Ok(detector),
            Who::Keeper => below(detector),
            Who::Restorer => below(below(detector)?),
        });
        found.with_context(|| format!("no {who:?}: {}", self.said()))
    }

    /// As a service manager ends it, where it has not ended by itself; and all that it has started has gone.
    fn end(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            signal(self.child.id(), Signal::TERM)?;
        }
        let ended = wait::until(SOON, || match self.child.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        if let Err(seen) = ended {
            bail!("it does not end: {seen}: {}", self.said());
        }
        let state = self.ground.state_folder();
        let gone = wait::until(SOON, || match naming(&state) {
            Ok(left) if left.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        });
        gone.map_err(|seen| anyhow::anyhow!("still there: {seen}: {}", self.said()))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}

/// For `strace` to let go.
const FAREWELL: Duration = Duration::from_secs(1);

/// A `strace` of a process that runs already.
struct Tracer {
    strace: Child,
    process: u32,
}

impl Tracer {
    fn attach(process: u32, log: &Path, inject: &str) -> Result<Self> {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(log);
        for option in inject.split(' ').filter(|option| !option.is_empty()) {
            command.args(["-e", option]);
        }
        command.arg("-p").arg(process.to_string());
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut tracer = Self {
            strace: child,
            process,
        };
        let attached = wait::until(SOON, || {
            let threads = is_traced(process);
            match (threads, tracer.strace.try_wait()) {
                (Ok(true), _) => Ok(()),
                // What goes wrong at once has gone wrong, and the process has gone.
                (_, Ok(Some(_))) if is_gone(process) => Ok(()),
                (seen, ended) => Err(format!("{seen:?} {ended:?}")),
            }
        });
        attached.map_err(|seen| anyhow::anyhow!("strace does not attach: {seen}"))?;
        Ok(tracer)
    }
}

impl Drop for Tracer {
    /// Lets go of what it has hold of.
    fn drop(&mut self) {
        // It may wait for threads that were killed, for ever.
        if !is_gone(self.process) {
            // One that has ended by itself takes no signal.
            let _gone = signal(self.strace.id(), Signal::TERM);
            let gone = wait::until(FAREWELL, || match self.strace.try_wait() {
                Ok(Some(_)) => Ok(()),
                other => Err(other),
            });
            if gone.is_ok() {
                return;
            }
        }
        // The kernel lets go of what it has hold of all the same.
        let _gone = self.strace.kill();
        let _gone = self.strace.wait();
    }
}

/// All threads of the process.
fn is_traced(process: u32) -> Result<bool> {
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        if status.contains("TracerPid:\t0\n") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// It has ended, be it that nobody has asked yet how.
fn is_gone(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status"));
    status.map_or(true, |status| status.contains("State:\tZ"))
}

/// The only child of the process.
fn child_of(process: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let mut children = threads.filter_map(|thread| {
        let children = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    });
    children.next()
}

/// Processes that name a folder in their command line.
fn naming(folder: &Path) -> Result<Vec<u32>> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let mut all = Vec::new();
    for process in fs::read_dir("/proc")? {
        let process = process?;
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // One that has ended meanwhile names nothing.
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).any(|word| word == folder) {
            all.push(pid);
        }
    }
    Ok(all)
}

fn signal(process: u32, signal: Signal) -> Result<()> {
    let process = Pid::from_raw(i32::try_from(process)?).context("a process without a number")?;
    Ok(kill_process(process, signal)?)
}
