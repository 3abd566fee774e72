//! `drift-agent pause` and `drift-agent resume`: healing held for a time.

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::Result;
use clap::Args;

use super::{
    activate::{first_line, who},
    duration::duration,
    run::lock,
    state::StateFolder,
};
use crate::{
    serve::{AskError, Body, Pausing, Request, Resuming, StopStatus, ask},
    stop::{BREAK_GLASS, Files, Stops},
    store::{DEFAULT_QUOTA, LONGEST_PAUSE, Pause as Kept, Store, StoreError},
    switch::{self, Answer},
};

/// Hold healing for a time. What drifts is seen and told all the same.
///
/// It ends by itself, or with `resume`; a restart does not end it. Versions that the policy folder changes meanwhile wait for its end; `activate` and
/// `rollback` do not.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub struct Pause {
    /// Only of this policy.
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// For how long: 10m, 2h, at most 7d.
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = how_long)]
    time: Duration,
    /// Why: kept, and told with everything that is held.
    #[arg(long, value_name = "TEXT", value_parser = said)]
    reason: String,
    #[command(flatten)]
    state: StateFolder,
}

/// Let healing go on that was paused.
#[derive(Debug, Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub struct Resume {
    /// Only of this policy. Without it whatever is paused goes on.
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    #[command(flatten)]
    state: StateFolder,
}

const PAUSE_EXAMPLES: &str = "\
Status:
  0   it is so
  10  there is no such policy
  1   something else went wrong: nothing has changed

Examples:
  sudo drift-agent pause --for 30m --reason 'debugging nginx by hand'
  sudo drift-agent pause --policy web --reason 'ticket 4711'
  sudo drift-agent resume";
const RESUME_EXAMPLES: &str = "\
Status:
  0   healing goes on
  4   it was paused no longer, or is not now, and something else holds it: that is said
  10  there is no such policy
  1   something else went wrong

Examples:
  sudo drift-agent resume
  sudo drift-agent resume --policy web";

fn how_long(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() || time > LONGEST_PAUSE {
        return Err(
            "more than nothing, and at most 7d. To switch healing off for good, make the file kill-switch in the state folder, or say `mode: observe` in the policy"
                .to_owned(),
        );
    }
    Ok(time)
}

/// A reason that says something.
fn said(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("whoever sees that healing is held will want to know why".to_owned()),
        text => Ok(text.to_owned()),
    }
}

impl Pause {
    /// Runs the command.
    ///
    /// # Errors
    /// It could not be tried.
    pub fn run(self) -> Result<ExitCode> {
        let Self {
            policy,
            time,
            reason,
            state,
        } = self;
        let state = state.path()?;
        let pausing = Pausing {
            policy,
            // Never shorter than asked for.
            seconds: time
                .as_millis()
                .div_ceil(1000)
                .try_into()
                .unwrap_or(u64::MAX),
            by: who(),
            reason: first_line(&reason),
        };
        match ask(&state, Request::Pause(Box::new(pausing.clone()))) {
            Ok(Body::Done(answer)) => super::activate::answered(&answer),
            Ok(_) => Err(AskError::Unknown.into()),
            Err(AskError::NoAgent) => super::activate::answered(&pause_alone(&state, &pausing)?),
            Err(error) => Err(error.into()),
        }
    }
}

impl Resume {
    /// Runs the command.
    ///
    /// # Errors
    /// It could not be tried.
    pub fn run(self) -> Result<ExitCode> {
        let Self { policy, state } = self;
        let state = state.path()?;
        let resuming = Resuming { policy, by: who() };
        match ask(&state, Request::Resume(Box::new(resuming.clone()))) {
            Ok(Body::Done(answer)) => super::activate::answered(&answer),
            Ok(_) => Err(AskError::Unknown.into()),
            Err(AskError::NoAgent) => super::activate::answered(&resume_alone(&state, &resuming)?),
            Err(error) => Err(error.into()),
        }
    }
}

/// Without an agent: the next one finds it so. Which policies there are is not known here.
fn pause_alone(state: &Path, asked: &Pausing) -> Result<Answer> {
    let _lock = lock(state)?;
    let store = Store::open(state, DEFAULT_QUOTA)?;
    let now = SystemTime::now();
    let pause = Kept {
        since: now,
        until: Some(now + Duration::from_secs(asked.seconds).min(LONGEST_PAUSE)),
        by: asked.by.clone(),
        reason: asked.reason.clone(),
    };
    let text = switch::paused(&pause, asked.policy.as_deref());
    let mut pauses = store.pauses();
    if let Err(why) = pauses.add(asked.policy.as_deref(), pause) {
        return Ok(Answer::new(1, format!("{why}\n")));
    }
    store.set_pauses(&pauses)?;
    Ok(Answer::new(
        0,
        format!("no agent is running: the next one will hold it\n{text}"),
    ))
}

fn resume_alone(state: &Path, asked: &Resuming) -> Result<Answer> {
    let _lock = lock(state)?;
    let store = Store::open(state, DEFAULT_QUOTA)?;
    let mut pauses = store.pauses();
    let ended = pauses.end(asked.policy.as_deref());
    store.set_pauses(&pauses)?;
    let stops = Stops {
        files: Files::of(state, Path::new(BREAK_GLASS)).look(),
        pauses,
    };
    let still = stops.of_all(SystemTime::now());
    Ok(switch::resumed(
        &ended,
        asked.policy.as_deref(),
        still.as_ref(),
    ))
}

/// What is in a state folder.
///
/// # Errors
/// It cannot be read: then nothing is known of it, the files in it included.
pub(super) fn known(state: &Path) -> Result<Stops, StoreError> {
    let pauses = Store::peek_pauses(state)?;
    Ok(Stops {
        files: Files::of(state, Path::new(BREAK_GLASS)).look(),
        pauses,
    })
}

/// What would hold the next agent, as far as it can be told without one.
///
/// # Errors
/// As of [`known`].
pub(super) fn stops(state: &Path) -> Result<Vec<StopStatus>, StoreError> {
    let now = SystemTime::now();
    let stops = known(state)?;
    if let Some(stop) = stops.of_all(now) {
        return Ok(vec![StopStatus::new(None, &stop)]);
    }
    let policies = stops.pauses.policies.keys();
    Ok(policies
        .filter_map(|policy| {
            Some(StopStatus::new(
                Some(policy),
                &stops.of_policy(policy, now)?,
            ))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_says_something() {
        assert!(said("").is_err() && said(" \n").is_err());
        assert_eq!(said(" ticket 4711 ").as_deref(), Ok("ticket 4711"));
    }

    #[test]
    fn of_a_folder_that_cannot_be_read_nothing_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let nothing = known(&dir.path().join("none")).unwrap();
        assert!(nothing.of_all(SystemTime::now()).is_none());
        let no_folder = dir.path().join("file");
        std::fs::write(&no_folder, "").unwrap();
        assert!(known(&no_folder).is_err() && stops(&no_folder).is_err());
    }
}
