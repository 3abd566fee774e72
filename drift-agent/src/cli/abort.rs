//! `drift-agent abort`: a change of versions that is not to be.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::{
    activate::{answered, first_line, who},
    state::StateFolder,
};
use crate::{
    serve::{Aborting, AskError, Body, Request, ask},
    switch::Answer,
};

/// Stop a change of versions that waits, or is being made and not decided.
///
/// All that moves with the policy stays as it is. What the policy folder asks for is held back on this node until it says another
/// `activeVersion`; what somebody asked for with `activate` or `rollback` is dropped. Once it is decided it comes whole: then go back with `rollback`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Abort {
    policy: String,
    /// Why: kept, and shown with the version that is held.
    #[arg(long, value_name = "TEXT", default_value = "no reason given")]
    reason: String,
    #[command(flatten)]
    state: StateFolder,
}

const EXAMPLES: &str = "\
Status:
  0   it does not come, and nothing has changed
  10  there is nothing to stop: no change of this policy is under way, or it was decided already
  1   something else went wrong

Examples:
  sudo drift-agent abort web --reason 'not before the weekend'
  sudo drift-agent activate web 2.0.0
      let it come after all";

impl Abort {
    /// Runs the command.
    ///
    /// # Errors
    /// It could not be tried.
    pub fn run(self) -> Result<ExitCode> {
        let asked = Aborting {
            policy: self.policy,
            by: who(),
            reason: first_line(&self.reason),
        };
        match ask(&self.state.path()?, Request::Abort(Box::new(asked))) {
            Ok(Body::Done(answer)) => answered(&answer),
            Ok(_) => Err(AskError::Unknown.into()),
            Err(AskError::NoAgent) => answered(&Answer::new(
                10,
                "no agent runs with this state folder: no change is under way. What an interrupted one has left is dropped, or brought to its end if it \
                 was decided, at the next start\n`drift-agent activate POLICY VERSION --policies DIR` says which version that one begins with\n"
                    .to_owned(),
            )),
            Err(error) => Err(error.into()),
        }
    }
}
