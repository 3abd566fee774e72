//! The keeper and the restorer as processes: how they begin.

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    process::{Pid, Signal, getppid, set_parent_process_death_signal},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use super::{keeper, serve};
use crate::{declare::Mode, report::complain};

/// The first argument of either; then which, the number of its parent, and its [`Settings`]. Not for people: it is no subcommand.
const FIRST: &str = "restore-process";

/// How long a restorer of a killed agent may take to be gone.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

/// What a restorer is told by who starts the agent, and nobody can tell it later.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) policies: PathBuf,
    pub(super) state: PathBuf,
    /// Where declared paths begin.
    pub(super) host_root: PathBuf,
    pub(super) mode: Option<Mode>,
    pub(super) ready_file: Option<PathBuf>,
    /// Programs that `afterHeal` may run.
    pub(super) commands: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Keeper,
    Restorer,
}

/// Runs as one of the two, where the arguments say so.
#[must_use]
pub fn main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != FIRST {
        return None;
    }
    Some(match begin(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("degraded: nothing can be put back: {error:#}"));
            ExitCode::FAILURE
        }
    })
}

fn begin(mut arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let mut next = || arguments.next().context("an argument is missing");
    let role = match next()?.to_str() {
        Some("keeper") => Role::Keeper,
        Some("restorer") => Role::Restorer,
        _ => bail!("this is for the agent itself to run"),
    };
    let parent = next()?.to_str().and_then(|text| text.parse().ok());
    let mode = match next()?.to_str() {
        Some("heal") => Some(Mode::Heal),
        Some("observe") => Some(Mode::Observe),
        _ => None,
    };
    let settings = Settings {
        mode,
        policies: next()?.into(),
        state: next()?.into(),
        host_root: next()?.into(),
        // An empty one is none.
        ready_file: Some(PathBuf::from(next()?)).filter(|path| !path.as_os_str().is_empty()),
        commands: arguments.map(PathBuf::from).collect(),
    };
    set_parent_process_death_signal(Some(Signal::KILL))?;
    ensure!(
        getppid() == parent.and_then(Pid::from_raw),
        "who has started it is gone"
    );
    // As `ps` has it: the file that is executed has no name of its own.
    rustix::thread::set_name(match role {
        Role::Keeper => c"drift-keeper",
        Role::Restorer => c"drift-restorer",
    })?;
    // The end is that of the detector: a service manager, or Ctrl-C, signals all processes at once, and what is under way comes to its end.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    // A descriptor of its own, which nothing that is started inherits.
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    match role {
        Role::Keeper => {
            let stdout = io::stdout().as_fd().try_clone_to_owned()?;
            keeper::keep(stdin, stdout, &settings)
        }
        Role::Restorer => serve::serve(&stdin, settings),
    }
}

/// This very program, whatever stands at its path meanwhile, as one of the two. It hears its parent on standard input; the keeper is asked for the ready
/// file on standard output.
pub(super) fn command(role: Role, settings: &Settings, hears: OwnedFd) -> io::Result<Command> {
    use std::os::unix::process::CommandExt;
    let Settings {
        policies,
        state,
        host_root,
        mode,
        ready_file,
        commands,
    } = settings;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("drift-agent")
        .arg(FIRST)
        .arg(match role {
            Role::Keeper => "keeper",
            Role::Restorer => "restorer",
        })
        .arg(std::process::id().to_string())
        .arg(mode.map_or("as-the-policies-say", Mode::name))
        .arg(std::path::absolute(policies)?)
        .arg(std::path::absolute(state)?)
        .arg(std::path::absolute(host_root)?)
        .stdin(hears)
        .stdout(Stdio::null());
    match ready_file {
        Some(ready_file) => command.arg(std::path::absolute(ready_file)?),
        None => command.arg(""),
    };
    command.args(commands);
    // Where reports go, and with which secrets, is nothing to them.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"OTEL_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// Waits until no restorer is at work in this state folder, and keeps others out.
///
/// # Errors
/// One still is.
pub fn hold(state: &Path) -> Result<File> {
    let what = || format!("cannot lock the restorer's file in {}", state.display());
    let file = super::lock(state).with_context(what)?;
    let end = Instant::now() + PATIENCE;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if Instant::now() < end => thread::sleep(PAUSE),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => bail!(
                "the restorer of an agent that has ended is still writing (its disk may hang): {}",
                state.display()
            ),
            Err(error) => return Err(error).with_context(what),
        }
    }
}
