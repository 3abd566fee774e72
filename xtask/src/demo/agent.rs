//! The agent under the demo: started as a user would, heard line by line, and ended whatever happens.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal};

use super::{record::Record, scene::Scene};
use crate::interrupt::Interrupt;
use crate::{shell, step};

/// Loading and attaching takes a fraction of a second; a busy machine gets its time.
const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(10);
/// How often a wait looks at what else could end it.
const TICK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Agent {
    child: Child,
    /// What was typed, as it were.
    typed: String,
    lines: Receiver<Line>,
    reader: Option<JoinHandle<()>>,
    /// Its standard error, so far.
    said: Arc<Mutex<Vec<String>>>,
}

#[derive(Debug)]
enum Line {
    Record(Box<Record>, Instant),
    /// A line that is no record, and why.
    Odd(String),
}

impl Agent {
    pub(super) fn start(
        program: &Path,
        scene: &Scene,
        sensor: &str,
        records: Option<&Path>,
    ) -> Result<Agent> {
        let copy = records
            .map(|path| File::create(path).with_context(|| format!("creating {}", path.display())))
            .transpose()?;
        let mut command = Command::new(program);
        command.arg("run").arg("--policies").arg(scene.policies());
        command.arg("--state").arg(scene.state());
        command
            .args(["-o", "jsonl", "--ready-file"])
            .arg(scene.ready_file());
        if sensor != "auto" {
            command.args(["--sensor", sensor]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C is for the demo, which then ends the agent.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let typed = shell::render(&command);
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {typed}"))?;
        let (to, lines) = mpsc::channel();
        let said = Arc::new(Mutex::new(Vec::new()));
        let reader = child.stdout.take().map(|stdout| {
            std::thread::spawn(move || hear_records(BufReader::new(stdout), &to, copy))
        });
        if let Some(stderr) = child.stderr.take() {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    said.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(line);
                }
            });
        }
        Ok(Agent {
            child,
            typed,
            lines,
            reader,
            said,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has said to people so far.
    pub(super) fn said(&self) -> Vec<String> {
        self.said
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn wait_until_ready(&mut self, ready: &Path, interrupt: &Interrupt) -> Result<()> {
        let deadline = Instant::now() + START;
        while !ready.exists() {
            interrupt.check()?;
            if let Some(status) = self.child.try_wait().context("looking after the agent")? {
                bail!(
                    "the agent ended before it was ready ({})\n{}",
                    step::ended(status),
                    self.report()
                );
            }
            ensure!(
                Instant::now() < deadline,
                "the agent was not ready within {} s\n{}",
                START.as_secs(),
                self.report()
            );
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    /// The command and all that it said, for a person who has to find out why.
    fn report(&self) -> String {
        let said = self.said();
        let said = if said.is_empty() {
            "nothing".to_owned()
        } else {
            said.join("\n  ")
        };
        format!("It was started with:\n  {}\nIt said:\n  {said}", self.typed)
    }

    /// What came before the next drift does not belong to it.
    pub(super) fn forget_earlier_records(&self) {
        while self.lines.try_recv().is_ok() {}
    }

    /// The next record and when it came; `None` when none came for a moment.
    pub(super) fn next_record(&mut self) -> Result<Option<(Record, Instant)>> {
        match self.lines.recv_timeout(TICK) {
            Ok(Line::Record(record, at)) => Ok(Some((*record, at))),
            Ok(Line::Odd(line)) => bail!("the agent wrote a line that is no record: {line}"),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let how = self
                    .wait_for_end(STOP)?
                    .map_or_else(|| "it only closed its output".to_owned(), step::ended);
                bail!("the agent ended by itself ({how})\n{}", self.report())
            }
        }
    }

    /// Asks it to end, as a service manager would, and holds it to status 0.
    pub(super) fn stop(&mut self, interrupt: &Interrupt) -> Result<()> {
        self.signal(Signal::TERM)?;
        let Some(status) = self.wait_for_end(STOP)? else {
            interrupt.check()?;
            bail!(
                "the agent did not end within {} s of SIGTERM\n{}",
                STOP.as_secs(),
                self.report()
            );
        };
        if let Some(reader) = self.reader.take()
            && reader.join().is_err()
        {
            bail!("the thread that reads the agent's records has panicked");
        }
        ensure!(
            status.success(),
            "the agent did not end in order after SIGTERM ({})\n{}",
            step::ended(status),
            self.report()
        );
        Ok(())
    }

    /// How it ended; `None` when it is still running after `patience`.
    fn wait_for_end(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patience;
        loop {
            let ended = self.child.try_wait().context("waiting for the agent")?;
            if ended.is_some() || Instant::now() >= deadline {
                return Ok(ended);
            }
            std::thread::sleep(TICK);
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("the agent has no process id")?;
        rustix::process::kill_process(pid, signal).context("signalling the agent")
    }
}

/// However the demo ends, the agent ends with it: asked first, then forced.
impl Drop for Agent {
    fn drop(&mut self) {
        let is_gone = |ended: Result<Option<ExitStatus>>| !matches!(ended, Ok(None));
        if is_gone(self.wait_for_end(Duration::ZERO))
            || self.signal(Signal::TERM).is_ok() && is_gone(self.wait_for_end(STOP))
        {
            return;
        }
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!(
                "warning: the agent (pid {}) may still be running: {error}",
                self.child.id()
            );
        }
    }
}

fn hear_records(lines: impl std::io::BufRead, to: &Sender<Line>, mut copy: Option<File>) {
    for line in lines.lines().map_while(Result::ok) {
        let at = Instant::now();
        let heard = match Record::parse(&line) {
            Ok(record) => Line::Record(Box::new(record), at),
            Err(error) => Line::Odd(format!("{error:#}: {line}")),
        };
        if let Some(file) = &mut copy
            && let Err(error) = writeln!(file, "{line}")
        {
            eprintln!("warning: the records are not copied any more: {error}");
            copy = None;
        }
        if to.send(heard).is_err() {
            return; // nobody listens any more: the demo is over
        }
    }
}
