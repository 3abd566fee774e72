//! Programs: without a shell, with an environment of their own, in a cgroup of their own where that is possible and in a process group everywhere. What is left of
//! them when they end, or when their time is up, is killed: a program that starts a daemon belongs into a unit.

use std::{
    ffi::OsStr,
    fs, io,
    io::{PipeReader, Read},
    os::{
        fd::OwnedFd,
        unix::{fs::MetadataExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use drift_common::escape;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_setfl},
    process::{
        Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
    },
};

use super::{MOST_OUTPUT, ReloadError};

/// What programs find in their environment.
const ENVIRONMENT: [(&str, &str); 2] = [
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("LC_ALL", "C.UTF-8"),
];

/// With a value of its own in the environment of each command, and so of all that it starts.
const MARK: &str = "DRIFT_COMMAND";

/// For the last of the output, and for what was killed to be gone.
const AFTERWARDS: Duration = Duration::from_millis(200);

/// How a program has ended.
pub(super) enum Ended {
    Status(ExitStatus),
    TimedOut,
}

/// Why nobody waits for a program any longer.
enum Over {
    Ended,
    TimedOut,
}

/// One that the agent may run.
pub(super) fn allowed(
    program: &Path,
    arguments: &[String],
    timeout: Duration,
    output: &mut Vec<u8>,
) -> Result<String, ReloadError> {
    trusted(program)?;
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    match run(program, &arguments, timeout, output)? {
        Ended::Status(status) if status.success() => Ok(String::new()),
        Ended::Status(status) => Err(ReloadError::Status(status.to_string())),
        Ended::TimedOut => Err(ReloadError::TimedOut(timeout)),
    }
}

/// Whoever could have written it could do all that the agent can.
fn trusted(program: &Path) -> Result<(), ReloadError> {
    let untrusted = |why: String| ReloadError::Untrusted {
        path: escape::path(program).to_string(),
        why,
    };
    let meta = fs::metadata(program).map_err(|error| untrusted(error.to_string()))?;
    let owner = rustix::process::geteuid().as_raw();
    if meta.uid() != 0 && meta.uid() != owner {
        return Err(untrusted(format!("it belongs to uid {}", meta.uid())));
    }
    if !meta.is_file() || meta.mode() & 0o022 != 0 {
        return Err(untrusted(
            "it is no file, or others may write to it".to_owned(),
        ));
    }
    Ok(())
}

pub(super) fn run(
    program: &Path,
    arguments: &[&OsStr],
    timeout: Duration,
    output: &mut Vec<u8>,
) -> Result<Ended, ReloadError> {
    let until = Instant::now() + timeout;
    let (reader, writer) = io::pipe().map_err(ReloadError::io("make a pipe"))?;
    fcntl_setfl(&reader, OFlags::NONBLOCK)
        .map_err(|error| ReloadError::io("prepare a pipe")(error.into()))?;
    let both = writer.try_clone().map_err(ReloadError::io("make a pipe"))?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let mark = format!("{}-{number}", std::process::id());
    let cgroup = Cgroup::new(&mark);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(ENVIRONMENT)
        .env(MARK, &mark)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(both)
        .process_group(0);
    let child = command.spawn().map_err(ReloadError::io("start it"))?;
    // The ends for writing are the child's alone.
    drop(command);
    if let Some(cgroup) = &cgroup {
        cgroup.add(child.id());
    }
    let mut running = Running {
        child,
        cgroup,
        mark,
        reader,
    };
    let over = running.wait(until, output);
    // Only then is it reaped: until it is, no other process can have its number, or that of its group.
    running.kill();
    let status = running.child.wait();
    running.drain(output);
    match over? {
        Over::Ended => Ok(Ended::Status(
            status.map_err(ReloadError::io("wait for it"))?,
        )),
        Over::TimedOut => Ok(Ended::TimedOut),
    }
}

struct Running {
    child: Child,
    cgroup: Option<Cgroup>,
    mark: String,
    reader: PipeReader,
}

impl Running {
    /// Until it has ended, or its time is up. It is not reaped.
    fn wait(&mut self, until: Instant, output: &mut Vec<u8>) -> Result<Over, ReloadError> {
        let pidfd = self
            .pid()
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|error| ReloadError::io("watch it")(error.into()))?;
        let mut is_open = true;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Over::TimedOut);
            }
            let (said, over) = wait(&pidfd, is_open.then_some(&self.reader), left)
                .map_err(|error| ReloadError::io("wait for it")(error.into()))?;
            if over {
                return Ok(Over::Ended);
            }
            if said {
                is_open = self.read(output);
            }
        }
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    /// Reads what there is. False when there will be no more.
    fn read(&mut self, output: &mut Vec<u8>) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.reader.read(&mut buffer) {
                Ok(0) => return false,
                Ok(length) => {
                    let room = MOST_OUTPUT.saturating_sub(output.len());
                    output.extend_from_slice(&buffer[..length.min(room)]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Whatever is left of it.
    fn kill(&mut self) {
        if let Some(pid) = self.pid() {
            // Nobody may be left in it.
            let _gone = kill_process_group(pid, Signal::KILL);
        }
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        kill_marked(&self.mark);
    }

    /// The rest of its output: who wrote it is gone.
    fn drain(&mut self, output: &mut Vec<u8>) {
        let until = Instant::now() + AFTERWARDS;
        while self.read(output) {
            let left = until.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.reader, PollFlags::IN)];
            if left.is_zero() || poll(&mut fds, timespec(left).as_ref()).is_err() {
                return;
            }
        }
    }
}

/// What has left the process group, before it was in the cgroup or where there is none, is known by its environment. Whoever changes that stays.
fn kill_marked(mark: &str) {
    const PASSES: usize = 3;
    let wanted = format!("{MARK}={mark}");
    for _ in 0..PASSES {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut is_over = true;
        for pid in pids.filter_map(Pid::from_raw) {
            // Taken hold of before it is looked at: its number may be another's by then.
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
                continue;
            };
            let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
            let environment = environment.unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            if variables.any(|variable| variable == wanted.as_bytes()) {
                is_over = false;
                // It may be gone.
                let _gone = pidfd_send_signal(&process, Signal::KILL);
            }
        }
        if is_over {
            return;
        }
    }
}

fn timespec(time: Duration) -> Option<Timespec> {
    Timespec::try_from(time).ok()
}

/// Whether there is something to read, and whether it has ended.
fn wait(
    pidfd: &OwnedFd,
    reader: Option<&PipeReader>,
    left: Duration,
) -> rustix::io::Result<(bool, bool)> {
    let mut fds = vec![PollFd::new(pidfd, PollFlags::IN)];
    fds.extend(reader.map(|reader| PollFd::new(reader, PollFlags::IN)));
    match poll(&mut fds, timespec(left).as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error),
    }
    let rings = |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| !fd.revents().is_empty());
    Ok((rings(fds.get(1)), rings(fds.first())))
}

/// A cgroup of version 2 below the agent's own. Gone with its value.
struct Cgroup {
    path: PathBuf,
}

static COUNT: AtomicU64 = AtomicU64::new(0);

impl Cgroup {
    /// `None`: there is none to be had here.
    fn new(mark: &str) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let name = format!("drift-command-{mark}");
        ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .into_iter()
            .map(|root| Path::new(root).join(own))
            .filter(|own| own.join("cgroup.procs").is_file())
            .map(|own| own.join(&name))
            .find(|path| fs::create_dir(path).is_ok())
            .map(|path| Self { path })
    }

    /// What it has started before this, which is a moment, is known by its mark.
    fn add(&self, pid: u32) {
        if let Err(error) = fs::write(self.path.join("cgroup.procs"), pid.to_string()) {
            log::debug!("a command is in no cgroup of its own: {error}");
        }
    }

    fn kill(&self) {
        // Kernels before 5.14 do not have this one.
        if fs::write(self.path.join("cgroup.kill"), "1").is_ok() {
            return;
        }
        let procs = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in procs.lines().filter_map(|line| line.parse().ok()) {
            if let Some(pid) = Pid::from_raw(pid) {
                // It may be gone.
                let _gone = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let until = Instant::now() + AFTERWARDS;
        // What was killed is in it until it is gone.
        while let Err(error) = fs::remove_dir(&self.path) {
            if error.kind() == io::ErrorKind::NotFound || Instant::now() >= until {
                log::debug!("{} stays: {error}", self.path.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, timeout: Duration) -> (Result<String, ReloadError>, String) {
        let mut output = Vec::new();
        let arguments = ["-c".to_owned(), script.to_owned()];
        let came = allowed(Path::new("/bin/sh"), &arguments, timeout, &mut output);
        (came, String::from_utf8_lossy(&output).into_owned())
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_command_has_a_clean_environment_and_its_output_is_kept() {
        let (came, output) = sh("echo out; echo err >&2; pwd; env | sort", LONG);
        assert!(came.is_ok(), "{came:?}");
        let expected = "out\nerr\n/\nDRIFT_COMMAND=";
        assert!(output.starts_with(expected), "{output}");
        assert!(
            !output.contains("CARGO") && !output.contains("HOME="),
            "{output}"
        );
        let (came, _) = sh("exit 3", LONG);
        assert!(matches!(came, Err(ReloadError::Status(status)) if status.contains('3')));
    }

    #[test]
    fn more_output_than_is_kept_does_not_hold_it_up() {
        let (came, output) = sh("head -c 1000000 /dev/zero | tr '\\0' x", LONG);
        assert!(came.is_ok(), "{came:?}");
        assert_eq!(output.len(), MOST_OUTPUT);
    }

    /// Whether any process has this in its command line.
    fn runs(mark: &str) -> bool {
        let pids = fs::read_dir("/proc").unwrap().flatten();
        pids.map(|entry| entry.path().join("cmdline")).any(|path| {
            fs::read(path).is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
        })
    }

    #[test]
    fn what_hangs_is_killed_with_all_it_has_started() {
        let mark = format!("9{:06}", std::process::id());
        let start = Instant::now();
        let script = format!("echo begun; sleep {mark}.1 & setsid sleep {mark}.2 & sleep {mark}.3");
        let (came, output) = sh(&script, Duration::from_millis(300));
        assert!(matches!(came, Err(ReloadError::TimedOut(_))), "{came:?}");
        assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
        assert_eq!(output, "begun\n");
        let until = Instant::now() + LONG;
        while runs(&mark) {
            assert!(Instant::now() < until, "it is left running");
            std::thread::yield_now();
        }
        // What stays behind when it ends is no daemon.
        let (came, _) = sh(&format!("sleep {mark}.4 & exit 0"), LONG);
        assert!(came.is_ok(), "{came:?}");
        let until = Instant::now() + LONG;
        while runs(&format!("{mark}.4")) {
            assert!(Instant::now() < until, "it is left running");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_others_can_write_is_not_run() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o777)).unwrap();
        let came = allowed(&program, &[], LONG, &mut Vec::new());
        assert!(
            matches!(came, Err(ReloadError::Untrusted { .. })),
            "{came:?}"
        );
        let came = allowed(&dir.path().join("gone"), &[], LONG, &mut Vec::new());
        assert!(
            matches!(came, Err(ReloadError::Untrusted { .. })),
            "{came:?}"
        );
    }
}
