//! The pods of this node: whose a container is.
//!
//! They are watched for as long as the agent runs, and those that are gone are remembered for a while: what they did is told after they did it. A container's id is
//! never used again, so nothing that is remembered can become wrong.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, PoisonError, RwLock},
};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod as PodObject};
use kube::{
    Api, ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher, watcher::Event},
};
use log::info;
use tokio::sync::watch;

use super::{Source, client::client, view::View, watch::config};
use crate::report::{Actor, Container, Pod, complain};

/// Pods that are gone and still known.
const MOST_GONE: usize = 2048;
/// Containers of one pod that are known: one that starts anew is another.
const MOST_CONTAINERS: usize = 256;
/// Bytes of a text of a pod.
const MOST_TEXT: usize = 512;
/// A pod that a file on the node declares has another UID in the cluster than in its control group, and says so.
const OF_FILE: &str = "kubernetes.io/config.hash";
/// What a Deployment calls its ReplicaSets after.
const TEMPLATE: &str = "pod-template-hash";

/// Whose the containers of this node are. Cheap to clone: all see the same.
#[derive(Clone, Debug, Default)]
pub struct Pods(Arc<RwLock<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// By UID.
    pods: HashMap<String, Known>,
    /// By id: the UID of the pod, and what it calls the container.
    containers: HashMap<String, (String, Named)>,
    /// The UIDs of pods as their control groups have them, where that is another.
    others: HashMap<String, String>,
    /// The UIDs of those that are gone, the oldest first.
    gone: VecDeque<String>,
    /// Those of the list that is being read.
    listed: Option<Vec<String>>,
}

#[derive(Debug)]
struct Known {
    pod: Pod,
    containers: Vec<String>,
    other: Option<String>,
    is_gone: bool,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    name: String,
    image: String,
}

impl Pods {
    /// Says whose the container is in which the process runs, as far as that is known.
    pub fn tell(&self, actor: &mut Actor) {
        if let Some(Ok(container)) = &mut actor.container {
            self.read(|table| table.tell(container));
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Table) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self, event: Event<PodObject>) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        table.take(event);
    }
}

impl Table {
    fn tell(&self, container: &mut Container) {
        let by_id = self.containers.get(&container.id);
        let by_group = container.pod_uid.as_ref().and_then(|uid| {
            let uid = self.others.get(uid).unwrap_or(uid);
            self.pods.contains_key(uid).then_some(uid)
        });
        let uid = match (by_id, by_group) {
            // One of them is not right.
            (Some((one, _)), Some(other)) if one != other => return,
            (Some((uid, _)), _) | (None, Some(uid)) => uid,
            (None, None) => return,
        };
        container.pod = self.pods.get(uid).map(|known| known.pod.clone());
        if let Some((_, named)) = by_id {
            container.name = Some(named.name.clone());
            container.image = Some(named.image.clone());
        }
    }

    fn take(&mut self, event: Event<PodObject>) {
        match event {
            Event::Init => self.listed = Some(Vec::new()),
            Event::InitApply(object) => {
                let uid = self.put(&object);
                if let Some(listed) = &mut self.listed {
                    listed.extend(uid);
                }
            }
            Event::InitDone => {
                // The end of no list says of no pod that it is gone.
                let Some(listed) = self.listed.take() else {
                    return;
                };
                let here = self.pods.iter().filter(|(_, known)| !known.is_gone);
                let gone = here.filter(|(uid, _)| !listed.contains(uid));
                for uid in gone.map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
                    self.went(uid);
                }
            }
            Event::Apply(object) => drop(self.put(&object)),
            Event::Delete(object) => {
                // What it says last may be new.
                if let Some(uid) = self.put(&object) {
                    self.went(uid);
                }
            }
        }
    }

    /// Its UID.
    fn put(&mut self, object: &PodObject) -> Option<String> {
        let uid = object.uid()?;
        let other = object.annotations().get(OF_FILE).cloned();
        if let Some(other) = &other {
            self.others.insert(other.clone(), uid.clone());
        }
        let known = self.pods.entry(uid.clone()).or_insert_with(|| Known {
            pod: pod(object),
            containers: Vec::new(),
            other,
            is_gone: false,
        });
        for (id, named) in containers(object) {
            if known.containers.len() >= MOST_CONTAINERS && !known.containers.contains(&id) {
                self.containers.remove(&known.containers.remove(0));
            }
            let new = self.containers.insert(id.clone(), (uid.clone(), named));
            if new.is_none() {
                known.containers.push(id);
            }
        }
        Some(uid)
    }

    fn went(&mut self, uid: String) {
        let Some(known) = self.pods.get_mut(&uid) else {
            return;
        };
        if !std::mem::replace(&mut known.is_gone, true) {
            self.gone.push_back(uid);
        }
        while self.gone.len() > MOST_GONE {
            let Some(known) = self.gone.pop_front().and_then(|uid| self.pods.remove(&uid)) else {
                continue;
            };
            for id in known.containers {
                self.containers.remove(&id);
            }
            if let Some(other) = known.other {
                self.others.remove(&other);
            }
        }
    }
}

fn pod(object: &PodObject) -> Pod {
    let spec = object.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account_name.as_deref());
    Pod {
        name: text(&object.name_any()),
        namespace: text(&object.namespace().unwrap_or_default()),
        workload: workload(object),
        service_account: account.map(text),
    }
}

/// What controls it. A ReplicaSet that is called as its Deployment, with the hash of the template that its pods have as a label, is the Deployment's.
fn workload(object: &PodObject) -> Option<String> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let hash = object.labels().get(TEMPLATE);
    let deployment = hash
        .filter(|_| owner.kind == "ReplicaSet")
        .and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
    Some(text(&match deployment {
        Some(deployment) => format!("Deployment/{deployment}"),
        None => format!("{}/{}", owner.kind, owner.name),
    }))
}

/// All that the kubelet has told of, those that have ended too.
fn containers(object: &PodObject) -> Vec<(String, Named)> {
    let Some(status) = &object.status else {
        return Vec::new();
    };
    let lists = [
        &status.init_container_statuses,
        &status.container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let statuses = lists.into_iter().flatten().flatten();
    statuses
        .flat_map(|status| {
            let named = Named {
                name: text(&status.name),
                image: text(&status.image),
            };
            ids(status).map(move |id| (id, named.clone()))
        })
        .collect()
}

fn ids(status: &ContainerStatus) -> impl Iterator<Item = String> {
    let states = [&status.state, &status.last_state].into_iter().flatten();
    let ended = states
        .filter_map(|state| state.terminated.as_ref())
        .filter_map(|ended| ended.container_id.as_deref());
    let all = status.container_id.as_deref().into_iter().chain(ended);
    // `containerd://<id>`
    let ids: Vec<String> = all
        .filter_map(|id| id.split_once("://"))
        .map(|(_, id)| text(id))
        .collect();
    ids.into_iter()
}

fn text(text: &str) -> String {
    text.chars().take(MOST_TEXT).collect()
}

/// Never ends.
pub(super) async fn run(source: Source, pods: Pods, mut view: watch::Receiver<View>) {
    let client = client(&source).await;
    let api: Api<PodObject> = Api::all(client);
    let here = config().fields(&format!("spec.nodeName={}", source.node));
    let listen = || watcher(api.clone(), here.clone()).default_backoff().boxed();
    let mut news = listen();
    let mut era = 0;
    let mut is_said = false;
    loop {
        let next = tokio::select! {
            next = news.next() => match next {
                Some(next) => next,
                None => return, // a watcher does not end
            },
            Ok(now) = async { view.wait_for(|view| view.era != era).await.map(|view| view.era) } => {
                era = now;
                news = listen();
                continue;
            }
        };
        match next {
            Ok(event) => {
                if matches!(event, Event::InitDone) && std::mem::take(&mut is_said) {
                    complain(format_args!("The pods of this node are known again."));
                }
                pods.take(event);
            }
            Err(error) if is_forbidden(&error) => {
                if !std::mem::replace(&mut is_said, true) {
                    complain(format_args!(
                        "degraded: the agent may not watch the pods of this node, and names containers by their ids alone: give its account the rights that docs/cluster.md names."
                    ));
                }
            }
            // That the API server is away is told of with the policies.
            Err(error) => info!("the pods of this node: {error}"),
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    let refused =
        |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 403);
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => refused(error),
        watcher::Error::WatchError(status) => status.code == 403,
        watcher::Error::NoResourceVersion => false,
    }
}

#[cfg(test)]
mod tests;
