//! The only writer to a cluster: of this node's NodeDrift and of Events. When something has changed, once for many changes, and less often the longer it goes on.

mod pace;

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use drift_common::policy::{API_VERSION, NODE_DRIFT};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use log::info;
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use self::pace::Pace;
use super::{
    Source,
    client::{client, jittered, own},
    events::{Post, Waiting},
    node_drift::{self, Seen},
    notice::Heard,
    recent::Recent,
    view::View,
};
use crate::{
    report::complain,
    serve::{Desk, rfc3339},
};

/// As which part of the cluster the agent writes.
pub(crate) const MANAGER: &str = "drift-agent";
/// What has changed without a record is found so soon.
const LOOK: Duration = Duration::from_secs(30);
/// For the cluster's policies to be listed for the first time.
const LISTED: Duration = Duration::from_secs(10);
/// Written again after so long even where nothing has changed, so that others see that the agent is there, and what somebody else has made of it goes.
const RENEW: Duration = Duration::from_secs(300);
/// An agent that has not written for so long could not: it looks whether to renew every half minute, and tries again after a minute at most.
pub(crate) const STALE: Duration = Duration::from_secs(RENEW.as_secs() + 120);
/// For an answer of the API server. One whose etcd hangs holds a request for a minute.
const ANSWER: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Never ends.
pub(super) async fn run(
    source: Source,
    mut view: watch::Receiver<View>,
    desk: Arc<Desk>,
    mut heard: Heard,
) {
    let client = client(&source).await;
    // Until the cluster was listed nobody knows which policy is whose. What is heard meanwhile waits in its queue.
    let known = async { view.wait_for(|view| view.complete).await.map(drop) };
    if timeout(LISTED, known).await.is_err() {
        info!("the cluster's policies are not known yet: what happens to them is told at the node");
    }
    let mut object = Object::new(client.clone(), source.node.clone());
    let mut post = Post::new(client, source.node);
    let mut memory = Memory::default();
    let mut pace = Pace::default();
    let mut retry = FIRST_RETRY;
    let mut said = None;
    let mut wait = Duration::ZERO;
    loop {
        // After an error it is tried again when its time has come, whatever happens meanwhile.
        let pace_now = said.is_none().then_some(&pace);
        gather(&mut heard, &mut view, &mut memory, wait, pace_now).await;
        let Some(status) = desk.status().await else {
            wait = FIRST_RETRY; // it is ending, or has too much to do
            continue;
        };
        let now = Instant::now();
        let lost = status.events_lost.unwrap_or(0) + heard.lost();
        let seen = view.borrow_and_update().clone();
        let new = node_drift::status(&Seen {
            status: &status,
            view: &seen,
            has_lost: memory.recent.has_lost(lost, now),
            recent: &memory.recent,
            notices_lost: heard.lost(),
            now,
        });
        memory.waiting.look(&seen);
        let written = object.write(new, seen.node.as_deref(), now).await;
        let told = tell(&mut memory.waiting, &mut post, seen.node.as_deref(), now).await;
        match written.and_then(|written| told.map(|told| written || told)) {
            Ok(written) => {
                if written {
                    pace.wrote(now);
                }
                if said.take().is_some() {
                    complain(format_args!(
                        "The cluster can be told how this node is again."
                    ));
                }
                (wait, retry) = (LOOK, FIRST_RETRY);
            }
            Err(error) => {
                info!("telling the cluster: {error}");
                let sentence = error.to_string();
                if said.as_ref() != Some(&sentence) {
                    complain(format_args!(
                        "degraded: the cluster cannot be told all of how this node is: {sentence}"
                    ));
                    said = Some(sentence);
                }
                wait = jittered(retry);
                retry = (retry * 2).min(LAST_RETRY);
            }
        }
    }
}

/// What was heard and is of use still.
#[derive(Default)]
struct Memory {
    recent: Recent,
    waiting: Waiting,
}

/// Tells what waits; whether that was something. What could not be told waits again.
async fn tell(
    waiting: &mut Waiting,
    post: &mut Post,
    node: Option<&str>,
    now: Instant,
) -> Result<bool, Unwritten> {
    if waiting.is_empty() {
        return Ok(false);
    }
    let mut tellings = waiting.tellings().into_iter();
    while let Some(telling) = tellings.next() {
        if let Err(error) = post.tell(&telling, node, now).await {
            waiting.put_back([telling].into_iter().chain(tellings));
            return Err(error);
        }
    }
    Ok(true)
}

/// Comes back when there may be something to write: some time after something was heard, or when `wait` is over.
async fn gather(
    heard: &mut Heard,
    view: &mut watch::Receiver<View>,
    memory: &mut Memory,
    wait: Duration,
    pace: Option<&Pace>,
) {
    let mut until = tokio::time::Instant::now() + wait;
    let mut is_heard = false;
    loop {
        tokio::select! {
            Some(notice) = heard.queue.recv() => {
                memory.recent.take(&notice);
                memory.waiting.take(&notice, &view.borrow());
            }
            Ok(()) = view.changed() => {}
            () = tokio::time::sleep_until(until) => return,
        }
        if !is_heard && let Some(pace) = pace {
            is_heard = true;
            until = until.min(pace.next(Instant::now()).into());
        }
    }
}

/// Why it was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwritten {
    #[error("the cluster has no NodeDrifts: `kubectl apply -f deploy/crds`")]
    Undefined,
    #[error("the agent may not ({0}): give its account the rights that docs/cluster.md names")]
    Forbidden(String),
    #[error("the API server has not answered within {} s", ANSWER.as_secs())]
    Late,
    #[error("{0}")]
    Refused(#[from] kube::Error),
}

/// The object in the cluster.
struct Object {
    api: Api<DynamicObject>,
    name: String,
    /// What its status says, as far as known.
    status: Option<Value>,
    /// Whose it is: the UID of the Node.
    owner: Option<String>,
    written: Option<Instant>,
}

impl Object {
    fn new(client: Client, name: String) -> Self {
        Self {
            api: Api::all_with(client, &own(NODE_DRIFT)),
            name,
            status: None,
            owner: None,
            written: None,
        }
    }

    /// Whether there was something to write.
    async fn write(
        &mut self,
        new: Value,
        owner: Option<&str>,
        now: Instant,
    ) -> Result<bool, Unwritten> {
        let old = match self.status.take() {
            Some(old) => old,
            None => match answer(self.api.get_opt(&self.name)).await? {
                Some(mut there) => there.data["status"].take(),
                None => Value::Null,
            },
        };
        let is_old = self
            .written
            .is_none_or(|written| now.saturating_duration_since(written) >= RENEW);
        let time = rfc3339(SystemTime::now());
        let new = match node_drift::since(&old, new, &time) {
            Some(new) => new,
            None if is_old => {
                let mut same = old.clone();
                same["observedAt"] = json!(time);
                same
            }
            None => {
                self.status = Some(old);
                return Ok(false);
            }
        };
        // Until it is written what stands there is not known: an answer may be lost.
        if old.is_null() || self.owner.as_deref() != owner {
            self.apply(owner).await?;
        }
        let (status, params) = (self.object(json!({"status": new})), params());
        let patch = Patch::Apply(&status);
        match answer(self.api.patch_status(&self.name, &params, &patch)).await {
            Ok(_) => {}
            // Somebody has deleted it.
            Err(Unwritten::Undefined) => {
                self.apply(owner).await?;
                answer(self.api.patch_status(&self.name, &params, &patch)).await?;
            }
            Err(error) => return Err(error),
        }
        self.status = Some(new);
        self.written = Some(now);
        Ok(true)
    }

    /// Makes it, and it goes with its Node.
    async fn apply(&mut self, owner: Option<&str>) -> Result<(), Unwritten> {
        let owners: Vec<Value> = owner
            .iter()
            .map(|uid| json!({"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": uid}))
            .collect();
        let object =
            self.object(json!({"metadata": {"name": self.name, "ownerReferences": owners}}));
        answer(
            self.api
                .patch(&self.name, &params(), &Patch::Apply(&object)),
        )
        .await?;
        self.owner = owner.map(str::to_owned);
        Ok(())
    }

    fn object(&self, part: Value) -> Value {
        let mut object = json!({
            "apiVersion": API_VERSION,
            "kind": NODE_DRIFT,
            "metadata": {"name": self.name},
        });
        if let (Some(object), Value::Object(part)) = (object.as_object_mut(), part) {
            object.extend(part);
        }
        object
    }
}

fn params() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

/// What the API server says, if it says something.
pub(super) async fn answer<T>(
    asked: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Unwritten> {
    match timeout(ANSWER, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Unwritten::Undefined),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Err(Unwritten::Forbidden(status.message.clone()))
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Unwritten::Late),
    }
}
