//! What makes programs take in what was put back: `afterHeal` of a policy. Done once for all that changed together, after all of it was read back.
//!
//! Each action happens once. That one fails is told, with its reason, and is no reason to try again: what is on the disk is right.

mod command;
mod http;
mod signal;
mod unit;

use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use drift_common::escape;
use thiserror::Error;

use crate::declare::AfterHeal;

/// What a signal or a unit may take.
const USUAL: Duration = Duration::from_secs(30);

/// Bytes of a command's output that are kept.
pub const MOST_OUTPUT: usize = 16 << 10;

/// What may be done on this node.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Programs, by their absolute paths.
    pub commands: Vec<PathBuf>,
}

/// What has come of one action.
#[derive(Debug)]
pub struct Came {
    pub action: AfterHeal,
    pub result: Result<String, ReloadError>,
    /// Of a command: what it has printed, at most [`MOST_OUTPUT`]. It may be a secret.
    pub output: Vec<u8>,
    pub took: Duration,
}

impl Came {
    /// For people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.result {
            Ok(done) if done.is_empty() => self.action.to_string(),
            Ok(done) => format!("{}: {done}", self.action),
            Err(error) => format!("{} failed ({}): {error}", self.action, error.reason()),
        }
    }
}

/// Why an action did not come to its good end.
#[derive(Debug, Error)]
pub enum ReloadError {
    #[error(
        "systemd does not run here, or the agent cannot reach it (no /run/systemd/system): use a signal by `process` or `pidFile`"
    )]
    NoSystemd,
    #[error(
        "{0} is not among the programs that this agent may run: `drift-agent run --allow-command {0}`"
    )]
    NotAllowed(String),
    #[error("{path}: {why}")]
    Untrusted { path: String, why: String },
    #[error("there is no such process")]
    NoProcess,
    #[error("it ended with {0}")]
    Status(String),
    #[error("it was not over after {} s, and was killed with all it had started", .0.as_secs_f64())]
    TimedOut(Duration),
    #[error("there was no answer within {} s", .0.as_secs_f64())]
    NoAnswer(Duration),
    #[error("the answer is {0}")]
    Answer(String),
    #[error("{step}: {source}")]
    Io {
        step: &'static str,
        source: io::Error,
    },
    /// What the restorer says of it, or why there is none to say so.
    #[error("{message}")]
    Restorer {
        reason: &'static str,
        message: String,
    },
}

impl ReloadError {
    /// One of a closed set.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoSystemd => "no-systemd",
            Self::NotAllowed(_) => "not-allowed",
            Self::Untrusted { .. } => "untrusted",
            Self::NoProcess => "no-process",
            Self::Status(_) => "status",
            Self::TimedOut(_) => "timed-out",
            Self::NoAnswer(_) => "no-answer",
            Self::Answer(_) => "answer",
            Self::Io { .. } => "io",
            Self::Restorer { reason, .. } => reason,
        }
    }

    fn io(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { step, source }
    }
}

/// Does it. Blocks, for no longer than the action may take.
#[must_use]
pub fn perform(action: &AfterHeal, allowed: &Allowed) -> Came {
    let start = Instant::now();
    let mut output = Vec::new();
    let result = match action {
        AfterHeal::Signal { signal, to } => signal::send(*signal, to),
        AfterHeal::Reload(unit) => unit::Systemd::default().tell("reload", unit, &mut output),
        AfterHeal::Restart(unit) => unit::Systemd::default().tell("restart", unit, &mut output),
        AfterHeal::Command {
            program,
            arguments,
            timeout,
        } => {
            if allowed.commands.contains(program) {
                command::allowed(program, arguments, *timeout, &mut output)
            } else {
                Err(ReloadError::NotAllowed(escape::path(program).to_string()))
            }
        }
        AfterHeal::Http {
            method,
            endpoint,
            status,
            timeout,
        } => http::ask(*method, endpoint, *status, *timeout),
    };
    Came {
        action: action.clone(),
        result,
        output,
        took: start.elapsed(),
    }
}

/// All of them, one after the other.
#[must_use]
pub fn perform_all(actions: &[AfterHeal], allowed: &Allowed) -> Vec<Came> {
    actions
        .iter()
        .map(|action| perform(action, allowed))
        .collect()
}

/// Those that are not among them yet are added, in their order.
pub fn add(actions: &mut Vec<AfterHeal>, more: &[AfterHeal]) {
    for action in more {
        if !actions.contains(action) {
            actions.push(action.clone());
        }
    }
}
