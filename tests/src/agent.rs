//! The built agent, run as a user would, and its records.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{scene::Scene, skip::skip, wait};

/// For what happens within milliseconds on an idle machine.
pub const SOON: Duration = Duration::from_secs(20);

/// The built agent: `cargo xtask test` says where it is.
#[must_use]
pub fn program() -> PathBuf {
    env::var_os("DRIFT_AGENT").map_or_else(|| PathBuf::from("drift-agent"), PathBuf::from)
}

/// Whether there is an agent to run; where not, the test is skipped with the reason.
#[must_use]
pub fn is_built(test: &str) -> bool {
    let built = env::var_os("DRIFT_AGENT").is_some();
    if !built {
        skip(
            test,
            "DRIFT_AGENT is not set: run the tests with `cargo xtask test`",
        );
    }
    built
}

/// Whether kernel probes can run here; where not, the test is skipped with the reason.
#[must_use]
pub fn has_probes(test: &str) -> bool {
    if !is_built(test) {
        return false;
    }
    let reason = if !rustix::process::geteuid().is_root() {
        "loading kernel programs needs root"
    } else if !PathBuf::from("/sys/kernel/btf/vmlinux").exists() {
        "this kernel has no BTF (/sys/kernel/btf/vmlinux)"
    } else {
        return true;
    };
    skip(test, reason);
    false
}

/// The contract that every record keeps.
fn schema() -> Result<jsonschema::Validator> {
    // Not read when the test runs: in a guest (`cargo xtask vmtest`) there is no checkout.
    let text = include_str!("../../docs/record.schema.json");
    jsonschema::validator_for(&serde_json::from_str(text)?)
        .context("docs/record.schema.json is no schema")
}

/// What an agent has said so far.
#[derive(Debug, Default)]
struct Said {
    records: Vec<Value>,
    /// What the schema refuses, and why.
    refused: Vec<String>,
    ended: bool,
}

#[derive(Debug, Default)]
struct Ear {
    said: Mutex<Said>,
    more: Condvar,
}

impl Ear {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running agent. Ended, and waited for, when dropped.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    ear: Arc<Ear>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Agent {
    /// Starts it and waits until it is ready. With the sensor that `DRIFT_TEST_SENSOR` names (`cargo xtask vmtest`), where the test names none.
    ///
    /// # Errors
    /// It ends, or is not ready in time: with all it said.
    pub fn start(scene: &Scene, arguments: &[&str]) -> Result<Agent> {
        let mut command = Command::new(program());
        command.arg("run").arg("--policies").arg(scene.policies());
        if let Some(sensor) = env::var_os("DRIFT_TEST_SENSOR")
            && !arguments.contains(&"--sensor")
        {
            command.arg("--sensor").arg(sensor);
        }
        command.args(arguments);
        Agent::start_as(command, scene)
    }

    /// Starts `command`, an agent without its folders, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn start_as(mut command: Command, scene: &Scene) -> Result<Agent> {
        let ready = scene.root().join("ready");
        if let Err(error) = fs::remove_file(&ready)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error.into());
        }
        command
            .arg("--state")
            .arg(scene.root().join("state"))
            .args(["-o", "jsonl", "--ready-file"])
            .arg(&ready);
        let mut agent = Agent::spawn(command)?;
        let started = wait::until(SOON, || {
            if ready.exists() {
                return Ok(Ok(()));
            }
            match agent.child.try_wait() {
                Ok(Some(status)) => Ok(Err(format!("it ended with {status}"))),
                Ok(None) => Err("it is not ready".to_owned()),
                Err(error) => Ok(Err(error.to_string())),
            }
        });
        match started {
            Ok(Ok(())) => Ok(agent),
            Ok(Err(why)) | Err(why) => bail!("{why}\n{}", agent.all()),
        }
    }

    /// Starts any command that speaks as the agent does.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(mut command: Command) -> Result<Agent> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        let schema = schema()?;
        let ear = Arc::new(Ear::default());
        let stderr = Arc::new(Mutex::new(String::new()));
        let out = child.stdout.take().context("no standard output")?;
        let mut err = child.stderr.take().context("no standard error")?;
        let (records, text) = (Arc::clone(&ear), Arc::clone(&stderr));
        // Read by a thread that does nothing else: an agent leaves out what its reader is too slow for.
        let (to, lines) = mpsc::channel();
        let readers = vec![
            std::thread::spawn(move || {
                let lines = BufReader::new(out).lines().map_while(Result::ok);
                for line in lines {
                    if to.send(line).is_err() {
                        break;
                    }
                }
            }),
            std::thread::spawn(move || {
                for line in lines {
                    let record = serde_json::from_str(&line).unwrap_or(Value::String(line));
                    let verdict = schema
                        .validate(&record)
                        .map_err(|error| format!("{error}: {record}"));
                    let mut said = records.said();
                    said.refused.extend(verdict.err());
                    said.records.push(record);
                    drop(said);
                    records.more.notify_all();
                }
                records.said().ended = true;
                records.more.notify_all();
            }),
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = err.read(&mut buffer) {
                    text.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push_str(&String::from_utf8_lossy(&buffer[..length]));
                }
            }),
        ];
        Ok(Agent {
            child,
            ear,
            stderr,
            readers,
        })
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How many records there are: a mark for [`Agent::since`].
    #[must_use]
    pub fn mark(&self) -> usize {
        self.ear.said().records.len()
    }

    /// All records after a mark.
    #[must_use]
    pub fn since(&self, mark: usize) -> Vec<Value> {
        self.ear.said().records[mark..].to_vec()
    }

    /// Standard error so far.
    #[must_use]
    pub fn errors(&self) -> String {
        self.stderr
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until the records after a mark hold what is looked for.
    ///
    /// # Errors
    /// They do not in time: with all records.
    pub fn wait<T>(
        &self,
        mark: usize,
        what: &str,
        mut look: impl FnMut(&[Value]) -> Option<T>,
    ) -> Result<T> {
        let end = Instant::now() + SOON;
        let mut said = self.ear.said();
        loop {
            if let Some(refused) = said.refused.first() {
                bail!("a record that docs/record.schema.json refuses: {refused}");
            }
            if let Some(found) = look(&said.records[mark..]) {
                return Ok(found);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || said.ended {
                drop(said);
                bail!("no sign of {what}\n{}", self.all());
            }
            said = self
                .ear
                .more
                .wait_timeout(said, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Waits for the first record after a mark with this event, about this path.
    ///
    /// # Errors
    /// As [`Agent::wait`].
    pub fn event(&self, mark: usize, event: &str, path: &std::path::Path) -> Result<Value> {
        let path = path.display().to_string();
        // Each record is looked at once, however many there are.
        let mut seen = 0;
        self.wait(mark, &format!("{event} for {path}"), |records| {
            let mut new = records.iter().skip(seen);
            seen = records.len();
            new.find(|record| record["event"] == event && record["path"] == path)
                .cloned()
        })
    }

    /// Waits for the first record after a mark that says that this version is in force.
    ///
    /// # Errors
    /// As [`Agent::wait`].
    pub fn activated(&self, mark: usize, version: &str) -> Result<Value> {
        self.wait(mark, &format!("version {version}"), |records| {
            let mut records = records.iter();
            records
                .find(|record| {
                    record["event"] == "config.policy.activated" && record["version"] == version
                })
                .cloned()
        })
    }

    /// Everything it said, for a failing test.
    #[must_use]
    pub fn all(&self) -> String {
        let records: Vec<String> = self
            .ear
            .said()
            .records
            .iter()
            .map(Value::to_string)
            .collect();
        format!(
            "records:\n{}\nstandard error:\n{}",
            records.join("\n"),
            self.errors()
        )
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid =
            Pid::from_raw(i32::try_from(self.child.id())?).context("a process without a number")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Ends it as a service manager would, and waits.
    ///
    /// # Errors
    /// It does not end.
    pub fn stop(mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        Ok(self.child.wait()?)
    }

    /// Kills it, and waits.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn kill(mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.child.wait()?;
        Ok(())
    }

    /// Bytes of resident memory but for the program's own pages, and open descriptors. Those it gives back, and they come again when they are used.
    ///
    /// # Errors
    /// It is gone.
    pub fn footprint(&self) -> Result<(u64, usize)> {
        let program = fs::read_link(format!("/proc/{}/exe", self.pid()))?;
        let mut is_program = false;
        let mut resident = 0;
        // proc_pid_smaps(5): a line for each mapping, with its path at the end, and lines of what it holds.
        for line in fs::read_to_string(format!("/proc/{}/smaps", self.pid()))?.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["Rss:", kilobytes, "kB"] if !is_program => resident += kilobytes.parse::<u64>()?,
                [range, permissions, ..] if range.contains('-') && permissions.len() == 4 => {
                    is_program = line.ends_with(&*program.to_string_lossy());
                }
                _ => {}
            }
        }
        ensure!(resident > 0, "no memory at all");
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.pid()))?.count();
        Ok((resident * 1024, descriptors))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // A failing test must not leave an agent behind; what cannot be ended is gone already.
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
        for reader in self.readers.drain(..) {
            // A reader that panicked has failed its test already.
            let _panicked = reader.join();
        }
    }
}

/// Runs an ordinary tool to its end, and gives its number: who a record must name.
///
/// # Errors
/// It cannot be started, or fails.
pub fn tool<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<u32> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let pid = child.id();
    let status = child.wait()?;
    if !status.success() {
        bail!("{program} ended with {status}");
    }
    Ok(pid)
}
