//! Policies from a cluster: its API server is watched, and what it says to this node stands as a policy folder in the state folder.
//!
//! Everything after that folder is as it is for files: reading, validating, the last good policies, switching versions, healing. So a node needs the API server
//! for news only, and starts and heals without it from what it was told last.
//!
//! ```text
//! watch -> seen (what is there now) -> choose (what is for this node) -> folder (a file for each namespace)
//! ```

mod choose;
mod folder;
mod seen;
mod watch;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use log::{info, warn};

use self::folder::Folder;

/// How long a node that has never heard its API server waits for it before it begins with no policies.
const FIRST: Duration = Duration::from_secs(10);

/// Where the policies of a cluster come from, and for which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// `None`: what a pod is given.
    pub kubeconfig: Option<PathBuf>,
    /// The name of the Node.
    pub node: String,
}

/// The policy folder in the state folder.
#[must_use]
pub fn policies(state: &Path) -> PathBuf {
    state.join("cluster").join("policies")
}

/// Keeps the policy folder beneath `state` as the API server has it, from now on. Comes back when it is so for the first time, or when there is one of an earlier run,
/// or when there has been no answer for a while.
///
/// # Errors
/// The folder cannot be made.
pub async fn follow(source: Source, state: &Path) -> io::Result<()> {
    let folder = Folder::open(state)?;
    let is_new = folder.is_new();
    let (told, first) = tokio::sync::oneshot::channel();
    tokio::spawn(watch::run(source, folder, told));
    if !is_new {
        return Ok(());
    }
    match tokio::time::timeout(FIRST, first).await {
        Ok(_) => info!("the API server has said what is for this node"),
        Err(_) => warn!(
            "the API server has not answered within {} s: beginning without policies",
            FIRST.as_secs()
        ),
    }
    Ok(())
}
