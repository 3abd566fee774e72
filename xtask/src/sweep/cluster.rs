//! `cargo xtask sweep cluster`: faults between a node and its API server.

use anyhow::{Result, bail};

use crate::{kube::Kit, workspace::Workspace};

/// Kill, stop and set back an API server and its etcd, and cut, delay, refuse and mix up what they say: drift is healed meanwhile, no older version comes into
/// force, and afterwards news are heard.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Faults of all kinds together.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    faults: u32,
    /// Nodes that are tried side by side, each with an API server of its own: each takes about a third of a processor and 600 MB.
    #[arg(long, value_name = "COUNT", default_value_t = 6)]
    nodes: u8,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let kit = match Kit::new(&Workspace::find()?)? {
        Ok(kit) => kit,
        Err(reason) => bail!("{reason}"),
    };
    let variables = [
        ("DRIFT_KUBE", &*kit.folder().to_string_lossy()),
        ("DRIFT_CLUSTER_FAULTS", &args.faults.to_string()),
        ("DRIFT_CLUSTER_NODES", &args.nodes.to_string()),
    ];
    super::long(("cluster", "cluster_faults::"), &variables)
}
