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
use serde_json::{Value, json};

use self::kept::Kept;
use super::{format::Format, root::HostRoot, state::StateFolder};
use crate::declare::{self, Declared, Mode, Names};

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
    /// Adds what people hold healing back with, where this path would be healed.
    fn held(&mut self, state: &Path, declared: &Declared) {
        if declared.on_drift != Mode::Heal {
            return;
        }
        // That the state folder cannot be read is said among what it is asked for.
        let Ok(stops) = super::pause::known(state) else {
            return;
        };
        if let Some(stop) = stops.of(&declared.policy, SystemTime::now()) {
            self.text += &format!(
                "healing is held: {} ({})\n",
                stop.message,
                stop.kind.reason()
            );
            self.value["stop"] = json!({"reason": stop.kind.reason(), "message": stop.message});
        }
    }
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
