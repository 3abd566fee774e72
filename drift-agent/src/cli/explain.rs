//! `drift-agent explain`: all there is to say of one path.
//!
//! What is said comes from the policies, from a look at the path, and from what the agent keeps in its state folder.

mod declared;
mod kept;
mod undeclared;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::SystemTime,
};

use anyhow::{Context, Result};
use clap::Args;
use drift_common::escape;
use serde_json::{Value, json};

use self::kept::Kept;
use super::{format::Format, root::HostRoot, state::StateFolder};
use crate::{
    declare::{self, Declared, Mode, Names},
    report::shown,
    serve::{Body, HandOutcome, Healing, Request, ask},
    store::PathForm,
};

/// Say what is declared of a path and where, what is there, what differs, and what healing would do.
///
/// Where an agent has run: what holds healing back just now, and who changed the path last.
/// Of a path that no policy declares it says which directory's rules hold for it. Needs no running agent and no root, and changes nothing;
/// of contents it shows what `redact` of the path allows.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Explain {
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Folder of policy files (*.yaml, *.yml).
    #[arg(long, value_name = "DIR")]
    policies: PathBuf,
    #[command(flatten)]
    root: HostRoot,
    #[command(flatten)]
    state: StateFolder,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "\
Status: as that of check for this one path; 0 where no policy declares it.

Examples:
  drift-agent explain --policies policies /etc/ssh/sshd_config
  drift-agent explain --policies policies /etc/ssh/sshd_config -o json | jq .plan";

/// What was found out: for programs and for people.
struct Explanation {
    value: Value,
    text: String,
    status: u8,
}

impl Explanation {
    /// Adds what holds healing back, where this path would be healed: people, or a brake of the agent that runs.
    fn held(&mut self, state: &Path, declared: &Declared) {
        if declared.on_drift != Mode::Heal {
            return;
        }
        // That the state folder cannot be read is said among what it is asked for.
        let stops = super::pause::known(state).ok();
        let stop = stops.and_then(|stops| stops.of(&declared.policy, SystemTime::now()));
        let stop = stop
            .map(|stop| (stop.kind.reason().to_owned(), stop.message))
            .or_else(|| braked(state, declared));
        if let Some((reason, message)) = stop {
            self.text += &format!("healing is held: {message} ({reason})\n");
            self.value["stop"] = json!({"reason": reason, "message": message});
        }
    }
}

/// What the agent that runs answers when it is asked to heal the path, and not to do it. One that has another version in force says nothing of this one.
fn braked(state: &Path, declared: &Declared) -> Option<(String, String)> {
    let healing = Healing {
        paths: vec![PathForm::from(&*declared.path)],
        dry_run: true,
        ..Healing::default()
    };
    let Ok(Body::Healed(rows)) = ask(state, Request::Heal(Box::new(healing))) else {
        return None; // there is none, or it is busy with a change that a second look will find over
    };
    let row = rows.rows.into_iter().find(|row| {
        row.path == shown(&declared.path)
            && row.policy == declared.policy.name
            && row.version == declared.policy.version
            && row.outcome == HandOutcome::Held
    })?;
    Some((
        escape::printable(&row.reason?).into_owned(),
        escape::printable(&row.message?).into_owned(),
    ))
}

impl Explain {
    /// Runs the command.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub(super) fn run(self) -> Result<ExitCode> {
        let Explain {
            path,
            policies,
            root,
            state,
            output,
        } = self;
        let state = state.path()?;
        let kept = Kept::of(&state);
        let path = std::path::absolute(path).context("a path without a name")?;
        let snapshot = match declare::load(&policies, &root.host_root, None, &kept.holds()) {
            Ok(snapshot) => snapshot,
            Err(why) => return Ok(super::policy::refused(&why)),
        };
        let found = snapshot
            .files
            .binary_search_by(|file| file.path.as_path().cmp(&path));
        let explanation = match found {
            Ok(index) => {
                let host = root.host()?;
                let names = Names::of(&root.host_root);
                let declared = &snapshot.files[index];
                let of_path = kept.of_path(&state, declared);
                let mut explanation = declared::explain(
                    &snapshot,
                    declared,
                    &host.holding(),
                    &names,
                    &policies,
                    &of_path,
                );
                explanation.held(&state, declared);
                explanation
            }
            Err(_) => undeclared::explain(&snapshot, &path),
        };
        let Explanation {
            value,
            text,
            status,
        } = explanation;
        super::policy::print(&output.print_one(value, || text))?;
        Ok(ExitCode::from(status))
    }
}
