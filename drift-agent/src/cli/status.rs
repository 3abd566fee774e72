//! `drift-agent status`: how this node is, at a glance.

mod table;

use std::{path::Path, process::ExitCode};

use anyhow::Result;
use clap::{Args, ValueEnum};
use drift_common::escape;

use super::{format::Format, policy::print, state::StateFolder};
use crate::{
    serve::{AskError, Body, Health, Lack, PolicyStatus, Reason, Request, Status, ask},
    store::{Known, Store},
};

/// Show how this node is: the agent, its policies, what drifts, what was healed and what is held.
///
/// Asks the running agent. Without one it says what the agent that ran last has left.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusCommand {
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Say nothing but whether the agent is so far, and why not: for the probes of whoever runs it.
    #[arg(long, value_enum, conflicts_with = "output")]
    is: Option<Stage>,
    #[command(flatten)]
    state: StateFolder,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stage {
    /// It answers, so its one task that decides goes on.
    Alive,
    /// It would hear of a change, and everything was looked at once.
    Ready,
}

const EXAMPLES: &str = "\
Status:
  0   healthy: everything was compared and is as declared
  4   drifting: something is not as declared
  5   degraded: the agent cannot do all it should, or has not compared everything yet
  3   no agent is running
  1   something went wrong
  With --is: 0, 5 (not so far) or 3. What drifts is no matter there.

Examples:
  sudo drift-agent status
  sudo drift-agent status --is ready
  sudo drift-agent status -o json | jq '.policies[] | select(.drifting > 0)'";

impl StatusCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// The agent does not answer, or standard output cannot be written to.
    pub fn run(self) -> Result<ExitCode> {
        let StatusCommand { output, is, state } = self;
        let state = state.path()?;
        let status = match ask(&state, Request::Status) {
            Ok(Body::Status(status)) => *status,
            Ok(_) => return Err(AskError::Unknown.into()),
            Err(AskError::NoAgent) => without_agent(&state),
            Err(error) => return Err(error.into()),
        };
        if let Some(stage) = is {
            return is_so_far(stage, &status);
        }
        let table = || table::table(&status, &jiff::tz::TimeZone::system());
        print(&output.print_one(serde_json::to_value(&status)?, table))?;
        Ok(ExitCode::from(exit(status.health)))
    }
}

fn is_so_far(stage: Stage, status: &Status) -> Result<ExitCode> {
    if status.health == Health::NoAgent {
        let reasons = status.reasons.iter().map(|reason| reason.message.as_str());
        print(&format!("{}\n", reasons.collect::<Vec<_>>().join("; ")))?;
        return Ok(ExitCode::from(exit(Health::NoAgent)));
    }
    let missing = match stage {
        Stage::Alive => None,
        Stage::Ready => status.not_ready(),
    };
    let Some(missing) = missing else {
        return Ok(ExitCode::SUCCESS);
    };
    print(&format!("not ready: {missing}\n"))?;
    Ok(ExitCode::from(exit(Health::Degraded)))
}

/// The command's own status.
const fn exit(health: Health) -> u8 {
    match health {
        Health::Healthy => 0,
        Health::NoAgent => 3,
        Health::Drifting => 4,
        Health::Degraded => 5,
    }
}

/// What is known without anybody to ask.
fn without_agent(state: &Path) -> Status {
    let folder = escape::path(state);
    let mut reasons = vec![Reason::new(
        Lack::NoAgent.name(),
        &format!("no agent is running with the state folder {folder} (another one: --state DIR)"),
    )];
    let known = Store::peek(state).unwrap_or_else(|error| {
        let message = format!("what the last agent knew cannot be told: {error}");
        reasons.push(Reason::new(error.reason(), &message));
        Known::default()
    });
    let stops = super::pause::stops(state).unwrap_or_else(|error| {
        let message = format!("what holds healing cannot be told: {error}");
        reasons.push(Reason::new(error.reason(), &message));
        Vec::new()
    });
    let mut last_good = known.last_good;
    let policies = known
        .active
        .into_iter()
        .map(|(policy, version)| PolicyStatus {
            last_known_good: last_good.remove(&policy),
            policy,
            version,
            ..PolicyStatus::default()
        });
    Status {
        node: super::node(),
        health: Health::NoAgent,
        reasons,
        agent: None,
        pid: None,
        started: None,
        uptime_s: None,
        sensor: None,
        events_lost: None,
        records_lost: None,
        last_full_scan: None,
        full_scan_running_s: None,
        stops,
        policies: policies.collect(),
        drifts: Vec::new(),
        store: None,
        privilege: None,
    }
}
