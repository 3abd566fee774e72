//! `drift-agent activate` and `drift-agent rollback`: another version on this node, whole or not at all.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::SystemTime,
};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::{
    own_history::{WITHIN, own_history},
    root::HostRoot,
    run::lock,
    state::StateFolder,
};
use crate::{
    declare::Snapshot,
    heal,
    reload::{self, Allowed},
    report::complain,
    restore::{believe, hold},
    serve::{AskError, Body, Request, ask},
    stop::{BREAK_GLASS, Files, Stops},
    store::{DEFAULT_QUOTA, Store},
    switch::{self, Answer, Decision, Demand, Taken, Wish},
};

/// Give a policy another version on this node, with all that has to move along, whole or not at all.
///
/// What its version needs, and what needs it, moves along so that all fits; where nothing fits, nothing happens and the way to what does not is
/// shown. Files are written where the policy heals. It holds until the Policy says another `activeVersion`.
#[derive(Debug, Args)]
#[command(after_help = ACTIVATE_EXAMPLES)]
pub struct Activate {
    policy: String,
    version: String,
    #[command(flatten)]
    common: Common,
}

/// Go back to the version that was good before, with all that has to move along, whole or not at all.
///
/// As `activate`, to the last good version, or else to the one that was active before.
#[derive(Debug, Args)]
#[command(after_help = ROLLBACK_EXAMPLES)]
pub struct Rollback {
    policy: String,
    /// Go back to this version.
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Folder of policy files (*.yaml, *.yml), where no agent runs. One that runs knows its own.
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    #[command(flatten)]
    state: StateFolder,
    #[command(flatten)]
    root: HostRoot,
    /// Why: kept, and shown with the version.
    #[arg(long, value_name = "TEXT", default_value = "no reason given")]
    reason: String,
    /// Only say what would happen.
    #[arg(long)]
    dry_run: bool,
}

macro_rules! after_help {
    ($examples:literal) => {
        concat!(
            "\
Status:
  0   it is so, or would be (--dry-run)
  10  the policies do not allow it: there is no such version, or none that fits
  1   something else went wrong: nothing has changed, or it says what has

Examples:
",
            $examples
        )
    };
}

const ACTIVATE_EXAMPLES: &str = after_help!(
    "  sudo drift-agent activate web 2.0.0 --dry-run
  sudo drift-agent activate web 2.0.0 --reason 'ticket 4711'"
);
const ROLLBACK_EXAMPLES: &str = after_help!(
    "  sudo drift-agent rollback web --reason 'slow answers'
  sudo drift-agent rollback web --to 1.0.0 --policies policies"
);

impl Activate {
    /// Runs the command.
    ///
    /// # Errors
    /// It could not be tried.
    pub fn run(self) -> Result<ExitCode> {
        self.common.run(self.policy, Wish::Activate(self.version))
    }
}

impl Rollback {
    /// Runs the command.
    ///
    /// # Errors
    /// It could not be tried.
    pub fn run(self) -> Result<ExitCode> {
        let wish = self.to.map_or(Wish::Back, Wish::Return);
        self.common.run(self.policy, wish)
    }
}

impl Common {
    fn run(self, policy: String, wish: Wish) -> Result<ExitCode> {
        let Common {
            policies,
            state,
            root,
            reason,
            dry_run,
        } = self;
        let demand = Demand {
            policy,
            wish,
            by: who(),
            reason: first_line(&reason),
        };
        let state = state.path()?;
        let answer = match ask(&state, Request::Version(Box::new(demand.clone()), dry_run)) {
            Ok(Body::Version(answer)) => answer,
            Ok(_) => return Err(AskError::Unknown.into()),
            Err(AskError::NoAgent) => {
                let policies = policies.context(
                    "no agent runs with this state folder: say where the policies are, with --policies DIR, and it is done without one",
                )?;
                alone((&state, &policies, &root), &demand, dry_run)?
            }
            Err(error) => return Err(error.into()),
        };
        answered(&answer)
    }
}

/// Says it.
pub(super) fn answered(answer: &Answer) -> Result<ExitCode> {
    if answer.status == 0 {
        super::policy::print(&answer.text)?;
    } else {
        complain(answer.text.trim_end());
    }
    Ok(ExitCode::from(answer.status))
}

/// Who asks, as far as it is known.
pub(super) fn who() -> String {
    let uid = rustix::process::getuid().as_raw();
    match std::env::var("SUDO_USER") {
        Ok(user) if !user.is_empty() => format!("{} (uid {uid})", first_line(&user)),
        _ => format!("uid {uid}"),
    }
}

pub(super) fn first_line(text: &str) -> String {
    const MOST: usize = 500;
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MOST).collect()
}

/// What was not as declared and went with the versions is in the history.
fn tell(state: &Path, taken: Vec<Taken>, new: &Snapshot) -> Result<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let mut reporter = own_history(Some(state))?;
    for taken in taken {
        reporter.report(&taken.record(new, None))?;
    }
    reporter.flush(WITHIN)?;
    Ok(())
}

/// Without an agent: this process holds the state folder, and does it.
fn alone(
    (state, policies, root): (&Path, &Path, &HostRoot),
    demand: &Demand,
    dry_run: bool,
) -> Result<Answer> {
    let _lock = lock(state)?;
    // The restorer of an agent that was killed may be writing still.
    let _held = hold(state)?;
    let store = Store::open(state, DEFAULT_QUOTA)?.rooted(&root.host_root);
    for note in store.notes() {
        complain(format_args!("{note}."));
    }
    let host = root.host()?;
    if !dry_run {
        // An agent's detector could write one, too.
        believe(&store, state, policies, None).map_err(anyhow::Error::msg)?;
    }
    if !dry_run && let Some(earlier) = heal::recover(&host, &store)? {
        for note in &earlier.notes {
            complain(format_args!("{note}."));
        }
        if let Some((path, error)) = earlier.left.first() {
            bail!(
                "{} is left to do: {error}",
                drift_common::escape::path(path)
            );
        }
    }
    let look = || store.look(policies, store.host_root(), None).0;
    let before = look();
    let decided = switch::choose(&store, policies, None, demand, SystemTime::now());
    let Decision {
        moves,
        holding,
        snapshot,
        mut basis,
    } = match decided {
        Ok(decision) => decision,
        Err(error) => return Ok(Answer::failed(&error)),
    };
    if moves.is_empty() {
        return Ok(Answer::already(demand));
    }
    // The folder could be read for what is to be: what could not be read a moment ago may be readable now. Where what is active does not fit, or is not
    // there, that is what the command may be for.
    let before = before.or_else(|_| look());
    let before: Snapshot = before.unwrap_or_else(|rejected| {
        complain(format_args!(
            "What is active now cannot be told ({}): what is no longer declared stays.",
            rejected.plain()
        ));
        Snapshot::default()
    });
    let stops = Stops {
        files: Files::of(state, Path::new(BREAK_GLASS)).look(),
        pauses: store.pauses(),
    };
    if let Some(stop) = stops
        .of_all(SystemTime::now())
        .filter(|stop| stop.kind.stops_people())
    {
        return Ok(Answer::new(
            10,
            format!("{}\nNothing was changed.\n", stop.message),
        ));
    }
    if dry_run {
        let steps = switch::steps(&host, &before, &snapshot, &moves);
        return Ok(Answer::rehearsed(&moves, steps));
    }
    store.forget_abort()?;
    let taken = switch::keep_evidence(&host, &store, &before, &snapshot, &moves, &|_| false);
    match switch::perform(&host, &store, &before, &snapshot, &moves, holding) {
        Ok(switched) => {
            let in_force = store.in_force(policies, &snapshot, basis.take_sources());
            if let Err(error) = store.keep(&in_force) {
                complain(format_args!(
                    "The policies in force are not kept for a start without them: {error}."
                ));
            }
            if let Err(error) = tell(state, taken, &snapshot) {
                complain(format_args!(
                    "What went with the versions is not in the history: {error:#}."
                ));
            }
            let answer = Answer::done(&switched);
            let came = reload::perform_all(&switched.after, &Allowed::default());
            let lines: String = came
                .iter()
                .map(|came| format!("{}\n", came.sentence()))
                .collect();
            let failed = came.iter().any(|came| came.result.is_err());
            let status = if failed { 1 } else { answer.status };
            Ok(Answer::new(status, answer.text + &lines))
        }
        Err(error) => {
            switch::note_failure(&store, demand, &moves, &error);
            Ok(Answer::failed(&error))
        }
    }
}
