//! How the API server is called.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::Duration,
};

use kube::{
    Client, Config,
    api::ApiResource,
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
};

use drift_common::policy::API_VERSION;

use super::Source;
use crate::report::complain;

const CONNECT: Duration = Duration::from_secs(5);
const WRITE: Duration = Duration::from_secs(10);
/// Between two tries to find out how the API server is reached.
const RETRY: Duration = Duration::from_secs(10);

/// Why the API server cannot be called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Reach {
    #[error("the kubeconfig is of no use: {}", first_line(.0))]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    #[error(
        "this is no pod that may call an API server ({0}): name a kubeconfig with --kubeconfig"
    )]
    NoPod(#[from] kube::config::InClusterError),
    #[error("there can be no client: {0}")]
    Client(#[from] kube::Error),
}

/// The lines after it quote the file, and there are tokens in it.
fn first_line(error: &kube::config::KubeconfigError) -> String {
    let said = error.to_string();
    said.lines().next().unwrap_or_default().to_owned()
}

/// A client, as soon as there can be one.
pub(super) async fn client(source: &Source) -> Client {
    loop {
        match reach(source).await {
            Ok(client) => return client,
            Err(error) => {
                // Files of a pod may come later than it.
                complain(format_args!(
                    "degraded: nothing from the cluster, and nothing to it: {error}"
                ));
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn reach(source: &Source) -> Result<Client, Reach> {
    let kubeconfig = source.kubeconfig.as_deref().map(Kubeconfig::read_from);
    let mut config = config(kubeconfig.transpose()?, None).await?;
    // It would ask again after 5 ms where the answer is 503, eight times within the first second. All that ask here have pauses of their own.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// A client for a person, as `kubeconfig` says, in its current context or another; `None`: as a pod is told.
pub(crate) async fn connect(
    kubeconfig: Option<Kubeconfig>,
    context: Option<&str>,
) -> Result<Client, Reach> {
    Ok(Client::try_from(config(kubeconfig, context).await?)?)
}

async fn config(kubeconfig: Option<Kubeconfig>, context: Option<&str>) -> Result<Config, Reach> {
    let mut config = match kubeconfig {
        Some(kubeconfig) => {
            let options = KubeConfigOptions {
                context: context.map(str::to_owned),
                ..KubeConfigOptions::default()
            };
            Config::from_custom_kubeconfig(kubeconfig, &options).await?
        }
        None => Config::incluster()?,
    };
    config.connect_timeout = Some(CONNECT);
    config.write_timeout = Some(WRITE);
    Ok(config)
}

/// One of the project's own kinds.
pub(crate) fn own(kind: &str) -> ApiResource {
    let (group, version) = API_VERSION.split_once('/').unwrap_or((API_VERSION, ""));
    // kube's own plurals of them are right.
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// From half of `span` to all of it, at random: many nodes do not come at one moment.
pub(super) fn jittered(span: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let share = (random % 1000) as u32;
    span / 2 + span / 2 * share / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_that_cannot_be_read_is_not_quoted() {
        let text = "apiVersion: v1\nusers:\n- name: a\n  user: {\"token: hunter2\n";
        let error = Kubeconfig::from_yaml(text).expect_err("an unclosed quote");
        assert!(error.to_string().contains("hunter2"), "{error}");
        let said = Reach::from(error).to_string();
        assert!(said.starts_with("the kubeconfig is of no use: "), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}
