//! Signals. Who gets one is held by a pidfd first and looked at then: the number of a process that has ended may be another's by now.

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use drift_common::escape;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal as Number, pidfd_open, pidfd_send_signal},
};

use super::{ReloadError, unit::Systemd};
use crate::{
    declare::{Signal, Whom},
    observe::{boot_ns, start_ticks},
};

/// Ticks per second in /proc.
const TICKS: u64 = 100;
/// Bytes of a file with the number of a process.
const MOST_PID_FILE: u64 = 64;
/// Clocks and ticks are this far apart at most.
const CLOCKS: Duration = Duration::from_secs(1);
/// Processes of one program that get a signal.
const MOST_PROCESSES: usize = 1024;

pub(super) fn send(signal: Signal, to: &Whom) -> Result<String, ReloadError> {
    match to {
        Whom::Unit(unit) => {
            let pid = Systemd::default().main_process(unit)?;
            to_one(pid, signal, || is_of_unit(pid, unit))
        }
        Whom::PidFile(path) => {
            let (pid, written) = pid_file(path)?;
            to_one(pid, signal, || started_before(pid, written))
        }
        Whom::Process(program) => to_all(program, signal),
    }
}

fn number(signal: Signal) -> Number {
    match signal {
        Signal::Hup => Number::HUP,
        Signal::Usr1 => Number::USR1,
        Signal::Usr2 => Number::USR2,
        Signal::Term => Number::TERM,
        Signal::Int => Number::INT,
    }
}

fn hold(pid: u32) -> Result<OwnedFd, ReloadError> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let held = pid
        .ok_or(Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
    held.map_err(|error| match error {
        Errno::SRCH | Errno::INVAL => ReloadError::NoProcess,
        other => ReloadError::io("hold the process")(other.into()),
    })
}

/// `is_meant` is asked while it is held.
fn to_one(
    pid: u32,
    signal: Signal,
    is_meant: impl FnOnce() -> bool,
) -> Result<String, ReloadError> {
    let held = hold(pid)?;
    if !is_meant() {
        return Err(ReloadError::NoProcess);
    }
    match pidfd_send_signal(&held, number(signal)) {
        Ok(()) => Ok(format!("pid {pid}")),
        Err(Errno::SRCH) => Err(ReloadError::NoProcess),
        Err(error) => Err(ReloadError::io("send the signal")(error.into())),
    }
}

fn is_of_unit(pid: u32, unit: &str) -> bool {
    let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    cgroup
        .lines()
        .any(|line| line.split('/').any(|part| part == unit))
}

/// The number in the file, and when it was written.
fn pid_file(path: &Path) -> Result<(u32, SystemTime), ReloadError> {
    let untrusted = |why: &str| ReloadError::Untrusted {
        path: escape::path(path).to_string(),
        why: why.to_owned(),
    };
    use std::{io::Read, os::unix::fs::OpenOptionsExt};
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)
        .map_err(|error| untrusted(&error.to_string()))?;
    let meta = file
        .metadata()
        .map_err(ReloadError::io("look at the pid file"))?;
    if !meta.is_file() || meta.mode() & 0o002 != 0 {
        return Err(untrusted("it is no file, or everybody may write to it"));
    }
    let mut text = String::new();
    file.take(MOST_PID_FILE)
        .read_to_string(&mut text)
        .map_err(|error| untrusted(&error.to_string()))?;
    let first = text.lines().next().unwrap_or_default().trim();
    let pid: u32 = first
        .parse()
        .map_err(|_| untrusted("there is no number in it"))?;
    if pid <= 1 {
        return Err(untrusted("the number in it is no daemon's"));
    }
    let written = meta
        .modified()
        .map_err(ReloadError::io("look at the pid file"))?;
    Ok((pid, written))
}

/// Who has written its number down was there by then: a younger process has the number of one that has ended.
fn started_before(pid: u32, written: SystemTime) -> bool {
    let Some(ticks) = fs::read(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| start_ticks(&stat))
    else {
        return false;
    };
    let up = Duration::from_nanos(boot_ns());
    let started = Duration::from_millis(ticks.saturating_mul(1000 / TICKS));
    let age = up.saturating_sub(started);
    let written = SystemTime::now()
        .duration_since(written)
        .unwrap_or_default();
    written <= age + CLOCKS
}

/// Every process of a program. One in a container has the same path of another file.
fn to_all(program: &Path, signal: Signal) -> Result<String, ReloadError> {
    let root = fs::metadata("/").map_err(ReloadError::io("look at the root"))?;
    let own = ourselves();
    let pids = fs::read_dir("/proc").map_err(ReloadError::io("list the processes"))?;
    let pids = pids
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut sent = Vec::new();
    let mut failed = None;
    for pid in pids.filter(|pid| !own.contains(pid)) {
        if !is_of_program(pid, program, &root) {
            continue;
        }
        if sent.len() >= MOST_PROCESSES {
            break;
        }
        match to_one(pid, signal, || is_of_program(pid, program, &root)) {
            Ok(_) => sent.push(pid),
            Err(ReloadError::NoProcess) => {}
            Err(error) => failed = Some(error),
        }
    }
    match (failed, sent.as_slice()) {
        (Some(error), _) => Err(error),
        (None, []) => Err(ReloadError::NoProcess),
        (None, [one]) => Ok(format!("pid {one}")),
        (None, many) => Ok(format!(
            "{} processes, the first pid {}",
            many.len(),
            many[0]
        )),
    }
}

/// This process, and those above it that are of the same program: the agent takes in nothing.
fn ourselves() -> Vec<u32> {
    let exe = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = std::process::id();
    let program = exe(own);
    let mut found = vec![own];
    let mut above = rustix::process::getppid();
    while let Some(pid) = above.and_then(|pid| u32::try_from(pid.as_raw_pid()).ok())
        && exe(pid) == program
    {
        found.push(pid);
        above = parent(pid);
    }
    found
}

/// The field after the state, which is the first after the name in brackets.
fn parent(pid: u32) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Pid::from_raw(rest.split_whitespace().nth(1)?.parse().ok()?)
}

fn is_of_program(pid: u32, program: &Path, root: &fs::Metadata) -> bool {
    let Ok(exe) = fs::read_link(format!("/proc/{pid}/exe")) else {
        return false;
    };
    // Replaced by an update since it was started.
    let gone = || {
        let mut name = program.as_os_str().to_owned();
        name.push(" (deleted)");
        PathBuf::from(name)
    };
    let same = |own: &fs::Metadata| (own.dev(), own.ino()) == (root.dev(), root.ino());
    (exe == program || exe == gone())
        && fs::metadata(format!("/proc/{pid}/root")).is_ok_and(|own| same(&own))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        process::{Child, ChildStdout, Command, Stdio},
    };

    use super::*;

    /// A process that says which signals it gets.
    struct Receiver {
        child: Child,
        out: BufReader<ChildStdout>,
        program: PathBuf,
        dir: tempfile::TempDir,
    }

    impl Receiver {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            // A program of its own name: nobody else's shell gets a signal.
            let program = dir.path().join("receiver");
            fs::copy(fs::canonicalize("/bin/sh").unwrap(), &program).unwrap();
            let script = "trap 'echo HUP' HUP; trap 'echo USR1' USR1; echo ready; while :; do read -t 1 x <> /dev/zero 2>/dev/null; sleep 0.02; done";
            let mut child = Command::new(&program)
                .args(["-c", script])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            let mut receiver = Self {
                child,
                out,
                program,
                dir,
            };
            assert_eq!(receiver.line(), "ready\n");
            receiver
        }

        fn line(&mut self) -> String {
            let mut line = String::new();
            self.out.read_line(&mut line).unwrap();
            line
        }
    }

    impl Drop for Receiver {
        fn drop(&mut self) {
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }

    #[test]
    fn every_process_of_a_program_gets_it() {
        let mut receiver = Receiver::new();
        let to = Whom::Process(receiver.program.clone());
        let came = send(Signal::Hup, &to).unwrap();
        // One that the shell has just forked, and that is not `sleep` yet, is a process of this program as well.
        let first = format!("pid {}", receiver.child.id());
        assert!(came.ends_with(&first), "{came}");
        assert_eq!(receiver.line(), "HUP\n");
        let none = Whom::Process(receiver.dir.path().join("none"));
        assert!(matches!(
            send(Signal::Hup, &none),
            Err(ReloadError::NoProcess)
        ));
    }

    #[test]
    fn a_pid_file_names_a_process_that_was_there_when_it_was_written() {
        let mut receiver = Receiver::new();
        let path = receiver.dir.path().join("pid");
        fs::write(&path, format!("{}\n", receiver.child.id())).unwrap();
        let to = Whom::PidFile(path.clone());
        send(Signal::Usr1, &to).unwrap();
        assert_eq!(receiver.line(), "USR1\n");
        // Left by one that has ended: its number is another's.
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(1))
            .unwrap();
        assert!(matches!(
            send(Signal::Usr1, &to),
            Err(ReloadError::NoProcess)
        ));
        for text in ["", "x", "1", "0", "-5", "99999999999"] {
            fs::write(&path, text).unwrap();
            let came = send(Signal::Hup, &to);
            assert!(
                matches!(came, Err(ReloadError::Untrusted { .. })),
                "{text}: {came:?}"
            );
        }
        fs::write(&path, "4194305").unwrap();
        assert!(matches!(
            send(Signal::Hup, &to),
            Err(ReloadError::NoProcess)
        ));
    }
}
