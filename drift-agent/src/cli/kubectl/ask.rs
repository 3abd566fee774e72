//! What is asked of the API server, page by page, and what is said where it does not answer.

use std::{env, fmt::Debug, io, time::Duration};

use drift_common::{escape, policy::API_VERSION};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    client::Body,
    config::{Kubeconfig, KubeconfigError},
    core::{Request, params::GetParams},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::timeout;

use super::To;
use crate::cluster::{Reach, connect};

/// For one answer: a page of large objects, from far away.
pub(super) const ANSWER: Duration = Duration::from_secs(30);
/// Objects of a page. What is not needed of them is dropped before the next is asked for.
pub(super) const PAGE: u32 = 250;
/// No list is longer, whatever an API server says.
const MOST: usize = 100_000;
/// A list that has changed too much to go on with is begun anew so often.
const TRIES: usize = 3;

/// Why there is nothing to show: what is wrong, and what to type next.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error(
        "no cluster is named: there is no kubeconfig. Name one with --kubeconfig FILE or KUBECONFIG; what kubectl takes: kubectl config view"
    )]
    NoKubeconfig,
    #[error("the kubeconfig has no context {0} of use. Those it has: kubectl config get-contexts")]
    NoContext(String),
    #[error("{0}. What kubectl takes: kubectl config view")]
    Reach(Reach),
    #[error(
        "the API server cannot be reached: {0}. Whether kubectl reaches it: kubectl cluster-info"
    )]
    Unreachable(String),
    #[error(
        "the API server has not answered within {} s. Whether it is ready: kubectl get --raw /readyz?verbose",
        ANSWER.as_secs()
    )]
    Late,
    #[error("the API server does not know who you are. Whom it takes you for: kubectl auth whoami")]
    Unknown,
    #[error(
        "you may not list {0} ({1}). What you may: kubectl auth can-i --list. The role `view`, bound for the whole cluster, allows it where the chart is installed"
    )]
    Forbidden(&'static str, String),
    #[error(
        "this cluster has no {0}: drift is not installed there, or is older than this program. helm install drift deploy/chart -n drift-system --create-namespace, or kubectl apply --server-side -f deploy/crds"
    )]
    Undefined(&'static str),
    #[error("there are more than {MOST} {0}: that cannot be shown")]
    TooMany(&'static str),
    #[error("the API server has refused to list {0}: {1}")]
    Refused(&'static str, String),
}

/// An API server that has answered.
pub(super) struct Server {
    pub(super) client: Client,
    /// `None`: all.
    pub(super) namespace: Option<String>,
    /// How far this machine's clock is ahead of its.
    ahead: SignedDuration,
}

impl Server {
    pub(super) async fn reach(to: &To) -> Result<Self, Unanswered> {
        let client = client(to).await?;
        // Whether it is there, whether it knows drift, and what time it is: agents are late by its clock, and not by that of whoever asks.
        let (group, version) = API_VERSION.split_once('/').unwrap_or((API_VERSION, ""));
        let request = Request::new(format!("/apis/{group}")).get(version, &GetParams::default());
        let request = request.map_err(kube::Error::BuildRequest);
        let request = request.map_err(|error| unanswered("drift", error))?;
        let answer = timeout(ANSWER, client.send(request.map(Body::from)));
        let answer = answer.await.map_err(|_| Unanswered::Late)?;
        let answer = answer.map_err(|error| unanswered("drift", error))?;
        match answer.status().as_u16() {
            401 => return Err(Unanswered::Unknown),
            404 => return Err(Unanswered::Undefined("NodeDrifts")),
            // Who may not ask what there is may be allowed to list it.
            _ => {}
        }
        let date = answer.headers().get("date");
        let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok());
        let now = Timestamp::now();
        let ahead = date.map_or(SignedDuration::ZERO, |date| {
            now.duration_since(date.timestamp())
        });
        let namespace = match &to.namespace {
            _ if to.all_namespaces => None,
            Some(namespace) => Some(namespace.clone()),
            None => Some(client.default_namespace().to_owned()),
        };
        Ok(Self {
            client,
            namespace,
            ahead,
        })
    }

    /// By the API server's clock.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::now()
            .checked_sub(self.ahead)
            .unwrap_or_else(|_| Timestamp::now())
    }

    /// Of the namespace that was asked for, or of all.
    pub(super) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = crate::cluster::own(kind);
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// `of` each object of a list, `page` of them at a time.
    pub(super) async fn all<K: Clone + Debug + DeserializeOwned, T>(
        api: &Api<K>,
        what: &'static str,
        params: ListParams,
        of: impl Fn(K) -> T,
    ) -> Result<Vec<T>, Unanswered> {
        let mut tries = 0;
        'anew: loop {
            tries += 1;
            let mut all = Vec::new();
            let mut params = params.clone();
            loop {
                let page = timeout(ANSWER, api.list(&params));
                let page = match page.await.map_err(|_| Unanswered::Late)? {
                    Ok(page) => page,
                    // It took too long: the API server no longer knows what was there when it began.
                    Err(kube::Error::Api(status)) if status.code == 410 && tries < TRIES => {
                        continue 'anew;
                    }
                    Err(error) => return Err(unanswered(what, error)),
                };
                all.extend(page.items.into_iter().map(&of));
                if all.len() > MOST {
                    return Err(Unanswered::TooMany(what));
                }
                match page.metadata.continue_.filter(|next| !next.is_empty()) {
                    Some(next) => params.continue_token = Some(next),
                    None => return Ok(all),
                }
            }
        }
    }

    /// As [`Server::all`], of what the columns of a kind's table say: objects of any size are some words here.
    pub(super) async fn rows(&self, plural: &'static str) -> Result<Vec<Line>, Unanswered> {
        let within = match &self.namespace {
            Some(namespace) => format!("/namespaces/{namespace}"),
            None => String::new(),
        };
        let request = Request::new(format!("/apis/{API_VERSION}{within}/{plural}"));
        let mut lines = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let asked = request.list(&params).map_err(kube::Error::BuildRequest);
            let mut asked = asked.map_err(|error| unanswered(plural, error))?;
            if let Ok(table) = "application/json;as=Table;g=meta.k8s.io;v=v1".parse() {
                asked.headers_mut().insert("accept", table);
            }
            let page = timeout(ANSWER, self.client.request::<Table>(asked));
            let page = page.await.map_err(|_| Unanswered::Late)?;
            let page = page.map_err(|error| unanswered(plural, error))?;
            let titles: Vec<String> = page
                .column_definitions
                .into_iter()
                .map(|column| column.name)
                .collect();
            lines.extend(page.rows.into_iter().map(|row| Line {
                namespace: row.object.metadata.namespace,
                cells: titles.iter().cloned().zip(row.cells).collect(),
            }));
            if lines.len() > MOST {
                return Err(Unanswered::TooMany(plural));
            }
            match page.metadata.next.filter(|next| !next.is_empty()) {
                Some(next) => params.continue_token = Some(next),
                None => return Ok(lines),
            }
        }
    }
}

/// An object as a table has it.
pub(super) struct Line {
    pub(super) namespace: String,
    cells: Vec<(String, Value)>,
}

impl Line {
    /// What stands in the column of this title.
    pub(super) fn text(&self, title: &str) -> Option<&str> {
        let cell = self.cells.iter().find(|(of, _)| of == title);
        cell.and_then(|(_, value)| value.as_str())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    #[serde(default)]
    metadata: Next,
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Default, Deserialize)]
struct Next {
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
    object: Partial,
}

#[derive(Deserialize)]
struct Partial {
    metadata: Place,
}

#[derive(Deserialize)]
struct Place {
    #[serde(default)]
    namespace: String,
}

async fn client(to: &To) -> Result<Client, Unanswered> {
    let kubeconfig = match &to.kubeconfig {
        Some(path) => Some(Kubeconfig::read_from(path)),
        None => match Kubeconfig::read() {
            Err(KubeconfigError::FindPath) => None,
            Err(KubeconfigError::ReadConfig(error, _))
                if error.kind() == io::ErrorKind::NotFound
                    && env::var_os("KUBECONFIG").is_none() =>
            {
                None
            }
            read => Some(read),
        },
    };
    let kubeconfig = kubeconfig.transpose();
    let kubeconfig = kubeconfig.map_err(|error| Unanswered::Reach(error.into()))?;
    if kubeconfig.is_none() && env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        return Err(Unanswered::NoKubeconfig);
    }
    match connect(kubeconfig, to.context.as_deref()).await {
        Err(Reach::Kubeconfig(
            KubeconfigError::LoadContext(name) | KubeconfigError::LoadClusterOfContext(name),
        )) => Err(Unanswered::NoContext(escape::name(&name).to_string())),
        other => other.map_err(Unanswered::Reach),
    }
}

/// `what` was asked for.
pub(super) fn unanswered(what: &'static str, error: kube::Error) -> Unanswered {
    match error {
        kube::Error::Api(status) => {
            let said = escape::printable(&status.message).into_owned();
            match status.code {
                401 => Unanswered::Unknown,
                403 => Unanswered::Forbidden(what, said),
                404 => Unanswered::Undefined(what),
                _ => Unanswered::Refused(what, said),
            }
        }
        other => {
            let causes = anyhow::Error::from(other);
            let said = format!("{causes:#}");
            Unanswered::Unreachable(escape::printable(&said).into_owned())
        }
    }
}
