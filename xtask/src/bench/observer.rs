//! Whoever watches while something is measured: started, waited for until it sees, and ended.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::interrupt::Interrupt;

const PATIENCE: Duration = Duration::from_secs(60);

/// A running program that is ended when dropped.
#[derive(Debug)]
pub(super) struct Observer {
    child: Child,
    /// What it writes on standard output, line by line.
    pub(super) lines: mpsc::Receiver<String>,
}

/// How a program says that it sees.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ready<'a> {
    /// A line of its output holds this.
    Line(&'a str),
    /// It makes this file.
    File(&'a Path),
}

impl Observer {
    pub(super) fn start(
        mut command: Command,
        ready: Ready<'_>,
        interrupt: &Interrupt,
    ) -> Result<Observer> {
        let rendered = crate::shell::render(&command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| rendered.clone())?;
        let out = child.stdout.take().context("no standard output")?;
        let (to, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // Whoever measures may have ended.
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    return;
                }
            }
        });
        let mut observer = Observer { child, lines };
        let end = Instant::now() + PATIENCE;
        loop {
            interrupt.check()?;
            if let Some(status) = observer.child.try_wait()? {
                bail!("{}: {rendered}", crate::step::ended(status));
            }
            if Instant::now() > end {
                bail!("not ready within a minute: {rendered}");
            }
            let pause = Duration::from_millis(20);
            let is_ready = match ready {
                Ready::Line(text) => observer
                    .lines
                    .recv_timeout(pause)
                    .is_ok_and(|line| line.contains(text)),
                Ready::File(path) => {
                    std::thread::park_timeout(pause);
                    path.exists()
                }
            };
            if is_ready {
                return Ok(observer);
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Time that all its threads have had, and bytes of resident memory.
    pub(super) fn used(&self) -> Result<(Duration, u64)> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
        let after = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = after.split_whitespace().collect();
        let field = |number: usize| -> Result<u64> {
            Ok(fields
                .get(number - 3)
                .context("a short /proc/PID/stat")?
                .parse()?)
        };
        // Fields 14, 15 and 24 of proc_pid_stat(5); the first two in hundredths of a second, the last in pages.
        let ticks = field(14)? + field(15)?;
        let resident = field(24)? * rustix::param::page_size() as u64;
        Ok((Duration::from_millis(ticks * 10), resident))
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
            && let Ok(None) = self.child.try_wait()
        {
            // What has ended by itself is gone already.
            let _gone = kill_process(pid, Signal::TERM);
            drop(self.child.stdin.take());
            let end = Instant::now() + Duration::from_secs(10);
            while Instant::now() < end {
                if let Ok(Some(_)) = self.child.try_wait() {
                    return;
                }
                std::thread::park_timeout(Duration::from_millis(10));
            }
            let _gone = self.child.kill();
        }
        let _gone = self.child.wait();
    }
}

/// The agent on declared files in a scratch folder.
#[derive(Debug)]
pub(super) struct Declared {
    root: PathBuf,
}

impl Declared {
    /// Declares `files`, which must be there and hold `content`.
    pub(super) fn new(root: &Path, files: &[PathBuf], content: &str) -> Result<Declared> {
        let mut text = "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {name: bench}\nspec: {activeVersion: 1.0.0, mode: observe}\n---\n\
                        apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {name: bench-1}\nspec:\n  policy: bench\n  version: 1.0.0\n  files:\n"
            .to_owned();
        for file in files {
            text += &format!(
                "    - {{path: '{}', content: {{inline: '{content}'}}}}\n",
                file.display()
            );
        }
        fs::create_dir_all(root.join("policies"))?;
        fs::write(root.join("policies/bench.yaml"), text)?;
        Ok(Declared {
            root: root.to_owned(),
        })
    }

    pub(super) fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Starts the agent, and waits until it has looked at everything.
    pub(super) fn agent(
        &self,
        program: &Path,
        more: &[&str],
        interrupt: &Interrupt,
    ) -> Result<Observer> {
        let ready = self.root.join("ready");
        let mut command = Command::new(program);
        command
            .arg("run")
            .arg("--policies")
            .arg(self.root.join("policies"));
        command.arg("--state").arg(self.state());
        command.args(["--sensor", "tracepoint", "-o", "jsonl", "--ready-file"]);
        command.arg(&ready).args(more);
        Observer::start(command, Ready::File(&ready), interrupt)
    }
}

/// What else this machine has to do: the load of the last minute.
pub(super) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}
