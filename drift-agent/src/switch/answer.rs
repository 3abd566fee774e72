//! What is answered to who asks for a version: by a running agent, and by the command that does it without one.

use drift_common::escape;
use serde::{Deserialize, Serialize};

use super::{Demand, SwitchError, Switched, Wish, shown};
use crate::{heal::Step, store::Moved};

/// What has come of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The status of the command: 0, 10 where the policies do not allow it, 1 where something else went wrong.
    pub status: u8,
    /// For people; lines, the last one ended too.
    pub text: String,
}

impl Answer {
    /// What a command says, and its status.
    #[must_use]
    pub fn new(status: u8, text: String) -> Self {
        Self { status, text }
    }

    fn well(text: String) -> Self {
        Self { status: 0, text }
    }

    #[must_use]
    pub fn done(switched: &Switched) -> Self {
        let is_well = switched.amiss.is_empty() && !switched.is_unfinished;
        Self {
            status: u8::from(!is_well),
            text: format!(
                "{}\n{}\n",
                shown(&switched.moves).replace(", ", "\n"),
                switched.sentence()
            ),
        }
    }

    #[must_use]
    pub fn already(demand: &Demand) -> Self {
        let policy = escape::name(&demand.policy);
        Self::well(match &demand.wish {
            Wish::Activate(version) | Wish::Return(version) => {
                format!("{policy} has the version {version} already\n")
            }
            Wish::Back => format!("{policy} is where it would go back to\n"),
        })
    }

    /// What would happen.
    #[must_use]
    pub fn rehearsed(moves: &[Moved], steps: Result<Vec<Step>, SwitchError>) -> Self {
        let steps = match steps {
            Ok(steps) => steps,
            Err(error) => return Self::failed(&error),
        };
        let mut text = format!("{}\n", shown(moves).replace(", ", "\n"));
        for step in &steps {
            let what = match step {
                Step::Put { .. } => "would write",
                Step::Attributes(_) => "would set the attributes of",
                Step::Remove(_) => "would remove",
            };
            text += &format!("  {what} {}\n", escape::path(step.path()));
        }
        let s = if steps.len() == 1 { "" } else { "s" };
        text += &format!("{} path{s}; nothing was changed\n", steps.len());
        Self::well(text)
    }

    #[must_use]
    pub fn failed(error: &SwitchError) -> Self {
        let status = match error {
            SwitchError::Rejected(_) | SwitchError::Refused(_) | SwitchError::NoEarlier(_) => 10,
            SwitchError::Impossible { .. }
            | SwitchError::Unwritable { .. }
            | SwitchError::Transaction(_)
            | SwitchError::Store(_)
            | SwitchError::Restorer { .. } => 1,
        };
        Self {
            status,
            text: format!("{error}\nNothing was changed.\n"),
        }
    }

    #[must_use]
    pub fn busy() -> Self {
        Self {
            status: 1,
            text: "another change of what is declared is under way: ask again\n".to_owned(),
        }
    }
}
