//! The host's root on the command line: one flag, one default, whatever the command.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::observe::Host;

/// Where declared paths begin.
#[derive(Debug, Args)]
pub(super) struct HostRoot {
    /// Root of the host's file tree, from which declared paths are followed and users and groups are named: in a pod /proc/1/root, with hostPID, or the folder
    /// beneath which the host's directories are mounted.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(super) host_root: PathBuf,
}

impl HostRoot {
    /// Pins it.
    pub(super) fn host(&self) -> Result<Host> {
        Host::new(&self.host_root).with_context(|| {
            format!(
                "cannot take {} for the host's root directory; name another with --host-root DIR",
                self.host_root.display()
            )
        })
    }
}
