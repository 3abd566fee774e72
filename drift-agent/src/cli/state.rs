//! The state folder on the command line: one flag, one default, whatever the command.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

/// Where the agent keeps what outlives it.
#[derive(Debug, Args)]
pub(super) struct StateFolder {
    /// Folder for what must survive a restart [default: /var/lib/drift-agent, for other users than root ~/.local/state/drift-agent].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl StateFolder {
    /// The one that was named, or the default one.
    pub(super) fn path(self) -> Result<PathBuf> {
        if let Some(named) = self.state {
            return Ok(named);
        }
        if rustix::process::geteuid().is_root() {
            return Ok("/var/lib/drift-agent".into());
        }
        let set = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        set("XDG_STATE_HOME")
            .or_else(|| set("HOME").map(|home| home.join(".local/state")))
            .map(|base| base.join("drift-agent"))
            .context("no state folder: HOME is not set, so name one with --state DIR")
    }
}
