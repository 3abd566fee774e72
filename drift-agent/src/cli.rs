//! The command line: one file per subcommand.

mod abort;
mod accept;
mod activate;
mod check;
mod columns;
mod completions;
mod diff;
mod difference;
mod duration;
mod explain;
mod format;
mod heal;
mod history;
mod kubectl;
mod own_history;
mod pause;
mod policy;
mod probe;
mod root;
mod run;
mod size;
mod snapshot;
mod state;
mod status;
mod whole;

pub(crate) use duration::duration;

use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};
use drift_common::policy::semantic_version;

use crate::report::complain;

/// drift keeps the configuration of Linux machines equal to what was declared.
#[derive(Debug, Parser)]
#[command(name = "drift-agent", version, about, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  drift-agent snapshot /etc/ssh -o policies/ssh.yaml
      write a policy that declares what is there now
  sudo drift-agent run --policies policies
      watch what the policies declare, and say what drifts, live
  sudo drift-agent run --policies policies --mode heal -o jsonl
      put the declared state back too, and say so in JSON, one record a line
  drift-agent check --policies policies
      look once, say what is not as declared, and end
  drift-agent diff --policies policies
      show what differs, secrets hidden
  drift-agent explain --policies policies /etc/ssh/sshd_config
      say what is declared of one path, what is there, and what healing would do
  drift-agent status; drift-agent history --since 1h
      how this node is, and what has happened on it
  drift-agent policy validate --policies policies
      say all that is wrong with policies, on any machine
  kubectl drift status
      how a fleet of nodes is, where this program is called kubectl-drift (or: drift-agent kubectl status)
  sudo drift-agent probe
      which sensor would run on this machine, and what it would not see";

#[derive(Debug, Subcommand)]
enum Command {
    Snapshot(snapshot::Snapshot),
    Run(run::Run),
    Check(check::Check),
    Diff(diff::Diff),
    Explain(explain::Explain),
    Activate(activate::Activate),
    Rollback(activate::Rollback),
    Abort(abort::Abort),
    Heal(heal::Heal),
    Accept(accept::Accept),
    Pause(pause::Pause),
    Resume(pause::Resume),
    History(history::History),
    Status(status::StatusCommand),
    Policy(policy::Policy),
    Kubectl(kubectl::Kubectl),
    Completions(completions::Completions),
    Man(completions::Man),
    Probe(probe::ProbeCommand),
}

/// The status of a command that came to no answer, where the others are a mask of what was found: nothing in that mask has this bit.
const NO_ANSWER: u8 = 64;

/// The status of a command that came to no answer; `other` where it has no mask.
fn no_answer(other: u8) -> ExitCode {
    let asked = std::env::args_os().nth(1).unwrap_or_default();
    let is_masked = ["check", "diff", "explain"]
        .iter()
        .any(|name| asked == *name);
    ExitCode::from(if is_masked { NO_ANSWER } else { other })
}

/// What was asked for. `Err`: it is said already, and the status it comes to.
fn parse<P: Parser>() -> Result<P, ExitCode> {
    P::try_parse().map_err(|error| {
        let is_asked_for = !error.use_stderr();
        match error.print() {
            Ok(()) if is_asked_for => ExitCode::SUCCESS,
            Ok(()) => no_answer(2),
            Err(error) if is_asked_for && error.kind() != io::ErrorKind::BrokenPipe => {
                complain(format_args!("cannot write to standard output: {error}"));
                ExitCode::FAILURE
            }
            Err(_) if is_asked_for => ExitCode::SUCCESS,
            Err(_) => no_answer(2),
        }
    })
}

/// Parses the arguments and runs the command. Errors are one sentence on standard error and a non-zero status.
#[must_use]
pub fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn"))
        .format_timestamp_millis()
        .init();
    if let Some(status) = crate::restore::main() {
        return status;
    }
    let command = match kubectl::called_as() {
        Some(kubectl::Name::Plugin) => parse::<kubectl::Plugin>().map(Command::from),
        Some(kubectl::Name::Completion) => {
            return kubectl::complete(std::env::args_os().skip(1).collect());
        }
        None => parse::<Cli>().map(|cli| cli.command),
    };
    let command = match command {
        Ok(command) => command,
        Err(status) => return status,
    };
    let result = match command {
        Command::Snapshot(snapshot) => snapshot.run(),
        Command::Run(run) => run.run().map(|()| ExitCode::SUCCESS),
        Command::Check(check) => check.run(),
        Command::Diff(diff) => diff.run(),
        Command::Explain(explain) => explain.run(),
        Command::Activate(activate) => activate.run(),
        Command::Rollback(rollback) => rollback.run(),
        Command::Abort(abort) => abort.run(),
        Command::Heal(heal) => heal.run(),
        Command::Accept(accept) => accept.run(),
        Command::Pause(pause) => pause.run(),
        Command::Resume(resume) => resume.run(),
        Command::History(history) => history.run(),
        Command::Status(status) => status.run(),
        Command::Policy(policy) => policy.run(),
        Command::Kubectl(kubectl) => kubectl.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
        Command::Probe(probe) => probe.run(),
    };
    match result {
        Ok(status) => status,
        Err(error) => {
            // The last cause says what is wrong, the first what was being done.
            complain(format_args!("{error:#}"));
            no_answer(1)
        }
    }
}

/// The number of a version on the command line.
fn version(text: &str) -> Result<semver::Version, String> {
    semantic_version(text).map_err(|help| format!("not a semantic version: {help}"))
}

/// What this machine is called.
fn node() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
