//! The agent that is measured, with a policy of its own.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::content;
use crate::{interrupt::Interrupt, step};

/// Loading and attaching takes a fraction of a second; a busy machine gets its time.
const START: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Agent {
    child: Child,
    said: BufReader<ChildStdout>,
    program: PathBuf,
    folder: PathBuf,
    files: u32,
}

impl Agent {
    /// Policy `bench` with two versions of `files` files, in a folder.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        files: u32,
        interrupt: &Interrupt,
    ) -> Result<Agent> {
        let [tree, policies, state] = ["tree", "policies", "state"].map(|name| folder.join(name));
        for folder in [&tree, &policies, &state] {
            fs::create_dir_all(folder)?;
        }
        for file in 0..files {
            fs::write(place(folder, file), content(file, 1))?;
        }
        fs::write(policies.join("bench.yaml"), declared(folder, files)?)?;
        let ready = folder.join("ready");
        let mut child = Command::new(program)
            .arg("run")
            .arg("--policies")
            .arg(&policies)
            .arg("--state")
            .arg(&state)
            .args(["-o", "jsonl", "--ready-file"])
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("said"))?)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let said = BufReader::new(child.stdout.take().context("it has no output")?);
        let mut agent = Agent {
            child,
            said,
            program: program.to_owned(),
            folder: folder.to_owned(),
            files,
        };
        let end = Instant::now() + START;
        while !ready.exists() {
            interrupt.check()?;
            if let Some(status) = agent.child.try_wait()? {
                bail!(
                    "the agent ended before it was ready ({}):\n{}",
                    step::ended(status),
                    agent.errors()
                );
            }
            ensure!(
                Instant::now() < end,
                "the agent is not ready after {} s:\n{}",
                START.as_secs(),
                agent.errors()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(agent)
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }

    /// Somebody writes these bytes to the first file: until it is told as a drift, and as healed.
    pub(super) fn heal(&mut self, other: &[u8]) -> Result<(Duration, Duration)> {
        fs::write(place(&self.folder, 0), other)?;
        let closed = Instant::now();
        self.hear("\"config.drift.detected\"")?;
        let told = closed.elapsed();
        self.hear("\"config.drift.healed\"")?;
        let healed = closed.elapsed();
        let bytes = fs::read(place(&self.folder, 0))?;
        ensure!(bytes == content(0, 1), "the file is not as declared");
        Ok((told, healed))
    }

    /// The next line with this in it.
    fn hear(&mut self, wanted: &str) -> Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.said.read_line(&mut line)? == 0 {
                bail!("the agent has ended:\n{}", self.errors());
            }
            if line.contains(wanted) {
                return Ok(());
            }
        }
    }

    /// A command that asks the running agent, from its start to its end.
    pub(super) fn command(&self, arguments: &[&str]) -> Result<Duration> {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        command
            .arg("--policies")
            .arg(self.folder.join("policies"))
            .arg("--state")
            .arg(self.folder.join("state"));
        let start = Instant::now();
        let output = command.stdin(Stdio::null()).output()?;
        let took = start.elapsed();
        ensure!(
            output.status.success(),
            "{}: {}{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(took)
    }

    /// Whether every file is that of this version.
    pub(super) fn has(&self, version: u32) -> Result<bool> {
        for file in 0..self.files {
            if fs::read(place(&self.folder, file))? != content(file, version) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn stop(mut self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("no process number")?;
        kill_process(pid, Signal::TERM)?;
        // Until its end is read, a full pipe would keep it.
        std::io::copy(&mut self.said, &mut std::io::sink())?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the agent: {}", step::ended(status));
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // An error comes first; what cannot be ended is gone already.
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}

fn place(folder: &Path, file: u32) -> PathBuf {
    folder.join("tree").join(format!("file-{file:05}.conf"))
}

fn declared(folder: &Path, files: u32) -> Result<String> {
    let head = "---\napiVersion: configdrift.io/v1alpha1\n";
    let mut text = format!(
        "{head}kind: Policy\nmetadata: {{name: bench}}\n\
         spec: {{activeVersion: 1.0.0, mode: heal, guard: {{perMinute: 0, backoff: {{first: 0s}}}}}}\n"
    );
    for version in 1..=2 {
        write!(
            text,
            "{head}kind: PolicyVersion\nmetadata: {{name: bench-{version}}}\nspec:\n  policy: bench\n  version: {version}.0.0\n  files:\n"
        )?;
        for file in 0..files {
            let inline = String::from_utf8(content(file, version))?;
            let inline = serde_json::Value::from(inline);
            let path = place(folder, file);
            writeln!(
                text,
                "    - {{path: {}, content: {{inline: {inline}}}}}",
                path.display()
            )?;
        }
    }
    Ok(text)
}
