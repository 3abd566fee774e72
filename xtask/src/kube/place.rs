//! Where a daemon of the cluster runs: a control group, so that all of them can be ended at once, and the namespaces of a holder.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    path::PathBuf,
    process::Command,
};

use anyhow::{Context as _, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Become a daemon of the cluster. `up` runs itself with this.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of the control group.
    #[arg(long, value_name = "FOLDER")]
    cgroup: PathBuf,
    /// The process whose namespaces are joined.
    #[arg(long, value_name = "PID")]
    like: Option<u32>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// This process has one thread, as joining a mount namespace needs; it comes back only when something went wrong.
pub(super) fn run(args: &Args) -> Result<()> {
    let members = args.cgroup.join("cgroup.procs");
    fs::write(&members, "0").with_context(|| format!("joining {}", members.display()))?;
    rustix::process::setsid().context("leaving the terminal")?;
    if let Some(pid) = args.like {
        // All are opened first: the last one changes what /proc is.
        let kinds = [
            ("net", LinkNameSpaceType::Network),
            ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
            ("mnt", LinkNameSpaceType::Mount),
        ];
        let mut spaces = Vec::new();
        for (name, kind) in kinds {
            let path = format!("/proc/{pid}/ns/{name}");
            spaces.push((
                File::open(&path).with_context(|| format!("opening {path}"))?,
                kind,
                path,
            ));
        }
        for (space, kind, path) in spaces {
            move_into_link_name_space(space.as_fd(), Some(kind))
                .with_context(|| format!("joining {path}"))?;
        }
    }
    let Some((program, arguments)) = args.command.split_first() else {
        anyhow::bail!("there is no command");
    };
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("starting {}", program.display()))
}
