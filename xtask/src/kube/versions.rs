//! `cargo xtask kube versions`: what the project gives an API server, tried on the oldest and the newest that it is for.

use std::time::Instant;

use anyhow::{Result, bail};

use super::{
    Cluster,
    programs::{self, OTHERS, Version},
    said,
};
use crate::{step::Step, workspace::Workspace};

/// The tests that need nothing but an API server that takes and refuses.
const TESTS: [&str; 5] = [
    "kustomize_renders_what_the_chart_does_and_the_api_server_takes_it",
    "two_hundred_resources_have_the_same_verdict_here_and_there",
    "a_policy_file_is_applied_and_what_the_cluster_gives_is_a_policy_file",
    "a_version_never_changes_and_a_policy_does",
    "what_is_too_large_for_a_cluster_is_refused_with_the_way_out",
];

/// Try all that is rendered, and 200 resources that are to be taken or refused, on the oldest and the newest API server.
///
/// The usual one is in `cargo xtask kube test`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(workspace: &Workspace) -> Result<()> {
    // What takes minutes, and may not be possible here, comes before all else.
    for version in OTHERS {
        if let Err(reason) = programs::with_api_server(version, &workspace.tools())? {
            bail!("{reason}");
        }
    }
    for version in OTHERS {
        let Version(number) = version;
        let cluster = match Cluster::api_server(workspace, version)? {
            Ok(cluster) => cluster,
            Err(reason) => bail!("{reason}"),
        };
        let start = Instant::now();
        let name = format!("test with the API server of Kubernetes 1.{number}");
        let mut step = Step::cargo(name)
            .args(["test", "--package", "drift-tests", "--test", "cluster"])
            .args(["--test", "cluster_resources", "--", "--nocapture"])
            .args(TESTS);
        if let Some(folder) = cluster.folder() {
            step = step.env("DRIFT_KUBE", folder);
        }
        step.env("RUST_TEST_THREADS", "1")
            .current_dir(&workspace.root)
            .run()?;
        said(&format!("1.{number}"), start.elapsed());
    }
    Ok(())
}
