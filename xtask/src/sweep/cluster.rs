//! `cargo xtask sweep cluster`: faults between a node and its API server.

use anyhow::{Context as _, Result, bail};

use crate::{kube::Cluster, workspace::Workspace};

/// Kill, stop and set back an API server and its etcd, and cut, delay, refuse and mix up what they say: drift is healed meanwhile, no older version comes into
/// force, and afterwards news are heard.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Faults of all kinds together.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    faults: u32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // Its programs and keys: the test has an API server and an etcd of its own.
    let cluster = match Cluster::up(&Workspace::find()?, 0, &[])? {
        Ok(cluster) => cluster,
        Err(reason) => bail!("{reason}"),
    };
    let folder = cluster.folder().context("the cluster has ended")?;
    let variables = [
        ("DRIFT_KUBE", &*folder.to_string_lossy()),
        ("DRIFT_CLUSTER_FAULTS", &args.faults.to_string()),
    ];
    super::long(("cluster", "cluster_faults::"), &variables)
}
