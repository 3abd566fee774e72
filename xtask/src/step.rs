//! Running another program: a step that fails names itself and the exact command.

use std::{
    ffi::OsStr,
    fmt,
    path::Path,
    process::{Command, ExitStatus, Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Result, anyhow};

use crate::shell;

static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Show each command before it is run.
pub(crate) fn be_verbose(verbose: bool) {
    VERBOSE.store(verbose, Ordering::Relaxed);
}

/// One child process with a name.
#[derive(Debug)]
pub(crate) struct Step {
    name: String,
    command: Command,
    hint: Option<String>,
}

impl Step {
    pub(crate) fn new(name: impl Into<String>, program: impl AsRef<OsStr>) -> Step {
        Step {
            name: name.into(),
            command: Command::new(program),
            hint: None,
        }
    }

    /// The toolchain that runs this xtask, without what `cargo run` has put into the environment.
    pub(crate) fn cargo(name: impl Into<String>) -> Step {
        let mut step = Step::new(name, "cargo");
        step.without_what_cargo_run_set();
        step
    }

    pub(crate) fn without_what_cargo_run_set(&mut self) {
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(shell::is_set_by_cargo_run) {
                self.command.env_remove(name);
            }
        }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Step {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Step {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Step {
        self.command.env(name, value);
        self
    }

    pub(crate) fn env_remove(mut self, name: &str) -> Step {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn current_dir(mut self, folder: &Path) -> Step {
        self.command.current_dir(folder);
        self
    }

    /// What to say besides when the step fails.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Step {
        self.hint = Some(hint.into());
        self
    }

    /// The command as one would type it.
    pub(crate) fn rendered(&self) -> String {
        shell::render(&self.command)
    }

    /// Runs it with this program's own input and output.
    pub(crate) fn run(mut self) -> Result<()> {
        eprintln!("==> {}", self.name);
        self.show();
        match self.command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.failure(&ended(status))),
            Err(error) => Err(self.failure(&format!("cannot be run: {error}"))),
        }
    }

    /// Runs it silently and gives what it wrote to its standard output; its errors are shown when it fails.
    pub(crate) fn read(mut self) -> Result<String> {
        self.show();
        match self.command.stdin(Stdio::null()).output() {
            Ok(Output { status, stdout, .. }) if status.success() => {
                Ok(String::from_utf8_lossy(&stdout).into_owned())
            }
            Ok(Output { status, stderr, .. }) => {
                let said = String::from_utf8_lossy(&stderr);
                Err(self.failure(&format!("{}: {}", ended(status), said.trim())))
            }
            Err(error) => Err(self.failure(&format!("cannot be run: {error}"))),
        }
    }

    /// The command itself, for a caller that needs its pipes, and the step for its words when it fails.
    pub(crate) fn announce(self) -> (Command, Failure) {
        eprintln!("==> {}", self.name);
        self.show();
        let failure = Failure {
            rendered: shell::render(&self.command),
            name: self.name,
        };
        (self.command, failure)
    }

    fn show(&self) {
        if VERBOSE.load(Ordering::Relaxed) {
            eprintln!("    {}", shell::render(&self.command));
        }
    }

    fn failure(&self, how: &str) -> anyhow::Error {
        let mut said = format!(
            "step `{}` failed ({how}). The command was:\n  {}",
            self.name,
            shell::render(&self.command)
        );
        if let Some(hint) = &self.hint {
            said.push('\n');
            said.push_str(hint);
        }
        anyhow!(said)
    }
}

/// What to say when an announced command fails.
#[derive(Debug)]
pub(crate) struct Failure {
    name: String,
    rendered: String,
}

impl Failure {
    pub(crate) fn because(&self, how: impl fmt::Display) -> anyhow::Error {
        anyhow!(
            "step `{}` failed ({how}). The command was:\n  {}",
            self.name,
            self.rendered
        )
    }
}

/// How a process ended, in words.
pub(crate) fn ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_names_itself_and_the_command() {
        let error = Step::new("try it", "sh")
            .args(["-c", "echo out; echo oh no >&2; exit 3"])
            .hint("Do that instead.")
            .read()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "step `try it` failed (exit status 3: oh no). The command was:\n  \
             sh -c 'echo out; echo oh no >&2; exit 3'\nDo that instead."
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failing_step_too() {
        let error = Step::new("try it", "/nowhere/at-all").read().unwrap_err();
        assert!(error.to_string().contains("/nowhere/at-all"), "{error}");
        assert!(error.to_string().contains("cannot be run"), "{error}");
    }
}
