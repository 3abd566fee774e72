//! `drift-agent policy validate`.

use std::path::Path;

use clap::Args;

use super::{Folder, Said, refused};
use crate::declare;

/// Check policy files: all problems, each with its place and what to write instead.
///
/// Every content that a version declares must be there. Users and groups are those of the nodes; with --host they are looked up on this
/// machine, as the agent here would.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Validate {
    #[command(flatten)]
    folder: Folder,
    /// Look users and groups up on this machine.
    #[arg(long)]
    host: bool,
}

const EXAMPLES: &str = "\
Examples:
  drift-agent policy validate --policies policies
  drift-agent policy validate --policies policies --host    what `run` would say here";

impl Validate {
    pub(super) fn run(self) -> Said {
        let Validate { folder, host } = self;
        let identified = folder.identify()?;
        if host {
            declare::load(
                &folder.policies,
                Path::new("/"),
                None,
                &declare::Holds::new(),
            )
            .map_err(|why| refused(&why))?;
        }
        let versions: usize = identified.iter().map(|policy| policy.versions.len()).sum();
        let s = |count: usize| if count == 1 { "" } else { "s" };
        let y = |count: usize| if count == 1 { "y" } else { "ies" };
        Ok(format!(
            "{} polic{} with {versions} version{}: no problems\n",
            identified.len(),
            y(identified.len()),
            s(versions)
        ))
    }
}
