//! Policies from a cluster: its API server is watched, and what it says to this node stands as a policy folder in the state folder.
//!
//! Everything after that folder is as it is for files: reading, validating, the last good policies, switching versions, healing. So a node needs the API server
//! for news only, and starts and heals without it from what it was told last.
//!
//! ```text
//! files (the node's own policy folder, if it has one) -> folder
//! watch -> seen (what is there now) -> choose (what is for this node) -> kept (contents of ConfigMaps and Secrets) -> folder (a file for each namespace,
//!                                                                                             with mark: nothing goes back in time)
//! standing (whether the API server is where it was) -> watch
//! watch -> pods (whose a container of this node is) -> records
//! records -> notice -> recent -> node_drift (with the agent's own status) -> publish
//!                   -> events -> publish
//! ```

mod choose;
mod client;
mod events;
mod files;
mod folder;
mod kept;
mod mark;
mod node_drift;
mod notice;
mod pods;
mod publish;
mod recent;
mod seen;
mod standing;
mod view;
mod watch;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use log::{info, warn};
use tokio::{sync::oneshot, time::timeout};

use self::{folder::Folder, notice::Heard, view::View};
use crate::{declare::Sources, serve::Desk};

pub use notice::Notices;
pub use pods::Pods;

/// How long a node that has never heard its API server waits for it before it begins with no policies.
const FIRST: Duration = Duration::from_secs(10);

/// Where the policies of a cluster come from, and for which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// `None`: what a pod is given.
    pub kubeconfig: Option<PathBuf>,
    /// The name of the Node.
    pub node: String,
    /// A policy folder of the node's own, beside what the cluster says.
    pub files: Option<PathBuf>,
}

/// The policy folder in the state folder.
#[must_use]
pub fn policies(state: &Path) -> PathBuf {
    state.join("cluster").join("policies")
}

/// A cluster that is listened to.
#[derive(Debug)]
pub struct Link {
    source: Source,
    view: tokio::sync::watch::Receiver<View>,
    pods: Pods,
    notices: Notices,
    heard: Heard,
}

impl Link {
    /// Where records for the cluster go in.
    #[must_use]
    pub fn notices(&self) -> Notices {
        self.notices.clone()
    }

    /// Whose the containers of this node are.
    #[must_use]
    pub fn pods(&self) -> Pods {
        self.pods.clone()
    }

    /// From now on the cluster is told how this node is, as `desk` says.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn publish(self, desk: Arc<Desk>) {
        tokio::spawn(publish::run(self.source, self.view, desk, self.heard));
    }
}

/// Waits for what the API server says first, where no earlier run has left what it said then. No thread is left of it: this process may give its rights up
/// before it follows. Blocking.
///
/// # Errors
/// The folder cannot be made.
pub fn hear_first(source: Source, state: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (is_new, _link, first) = begin(source, state).await?;
        if !is_new {
            return Ok(());
        }
        match timeout(FIRST, first).await {
            Ok(_) => info!("the API server has said what is for this node"),
            Err(_) => warn!(
                "the API server has not answered within {} s: beginning without policies",
                FIRST.as_secs()
            ),
        }
        Ok(())
    })
}

/// Keeps the policy folder beneath `state` as the API server has it, from now on.
///
/// # Errors
/// The folder cannot be made.
pub async fn follow(source: Source, state: &Path) -> io::Result<Link> {
    let (_, link, _) = begin(source.clone(), state).await?;
    tokio::spawn(pods::run(source, link.pods(), link.view.clone()));
    Ok(link)
}

/// Whether there is no folder of an earlier run, what is heard from now on, and when it is for the first time as the API server has it.
async fn begin(source: Source, state: &Path) -> io::Result<(bool, Link, oneshot::Receiver<()>)> {
    let folder = Folder::open(state)?;
    let is_new = folder.is_new();
    let (told, first) = oneshot::channel();
    let (show, view) = tokio::sync::watch::channel(View::default());
    let (notices, heard) = notice::notices();
    let link = Link {
        source: source.clone(),
        view,
        pods: Pods::default(),
        notices,
        heard,
    };
    match source.files.clone() {
        Some(own) => files::follow(own, policies(state), show.clone()).await?,
        // An earlier run may have had one.
        None => files::put(&policies(state), &Sources::new())?,
    }
    tokio::spawn(watch::run(source, folder, told, show));
    Ok((is_new, link, first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_follows_has_waited_before_and_does_not_wait_again() {
        let state = tempfile::tempdir().unwrap();
        let source = Source {
            kubeconfig: Some(state.path().join("none")),
            node: "node".to_owned(),
            files: None,
        };
        let followed = timeout(FIRST / 2, follow(source, state.path())).await;
        let link = followed.expect("it waits").unwrap();
        assert!(!link.view.borrow().complete);
        assert!(policies(state.path()).is_dir());
    }
}
