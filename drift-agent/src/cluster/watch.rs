//! Watches an API server, for as long as the agent runs.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use drift_common::policy::Node;
use futures_util::{StreamExt as _, stream::BoxStream};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use log::{info, warn};
use tokio::sync::{oneshot, watch};

use super::{
    Folder, Source,
    choose::choose,
    client::{client, jittered, own},
    kept::Contents,
    seen::{Key, News, Object, Seen},
    view::{FRESH, View},
};
use crate::report::complain;

/// The annotation with which a Policy may be older than what was seen of it.
pub(super) const ACCEPTS_OLDER: &str = "configdrift.io/accept-older";

/// How long news are gathered: one `kubectl apply` is several.
const GATHER: Duration = Duration::from_millis(50);
/// A ConfigMap or Secret that is not there, or not right, is looked for again after so long.
const RETRY: Duration = Duration::from_secs(10);
/// A watch is begun anew after so many seconds. One that has died without a word is noticed five later.
const WATCH: u32 = 240;
/// News of any kind.
enum Any {
    Policy(News<Object>),
    Version(News<Object>),
    Reference(News<Object>),
    /// Why they cannot be watched, though the API server answers.
    NoReferences(String),
    Node(News<Node>),
}

/// Never ends. `told` hears when the folder is for the first time as the API server has it, and `view` what else is known.
pub(super) async fn run(
    source: Source,
    mut folder: Folder,
    told: oneshot::Sender<()>,
    view: watch::Sender<View>,
) {
    let client = client(&source).await;
    let mut told = Some(told);
    let mut seen = Seen::default();
    let mut silence = Silence::default();
    let mut contents = Contents::new(client.clone());
    let mut lacks = false;
    let mut news = all(&client, &source.node);
    loop {
        let next = if lacks {
            tokio::time::timeout(jittered(RETRY), news.next()).await
        } else {
            Ok(news.next().await)
        };
        let mut changed = match next {
            Ok(Some(first)) => silence.heard(first).map(|any| take(&mut seen, any)),
            Ok(None) => return, // a watcher does not end
            // What was lacking is looked for again.
            Err(_) => Some(()),
        };
        let end = tokio::time::Instant::now() + GATHER;
        while let Ok(Some(more)) = tokio::time::timeout_at(end, news.next()).await {
            changed = silence
                .heard(more)
                .map(|any| take(&mut seen, any))
                .or(changed);
        }
        show(&view, |view| view.silent = silence.since);
        if changed.is_none() || !seen.is_complete() {
            continue;
        }
        (folder, lacks) = put(folder, &seen, &source.node, &mut contents, &mut told, &view).await;
    }
}

/// Who looks at the view is woken where it has changed.
fn show(view: &watch::Sender<View>, change: impl FnOnce(&mut View)) {
    view.send_if_modified(|view| {
        let old = view.clone();
        change(view);
        *view != old
    });
}

/// Writes what is for this node, on a thread that may block. `true`: something that it names is not there.
async fn put(
    mut folder: Folder,
    seen: &Seen,
    name: &str,
    contents: &mut Contents,
    told: &mut Option<oneshot::Sender<()>>,
    view: &watch::Sender<View>,
) -> (Folder, bool) {
    let Some(node) = seen.node() else {
        warn!("there is no Node {name} in the cluster: what was known stays in force");
        show(view, |view| {
            view.complete = true;
            view.node = None;
        });
        return (folder, false);
    };
    let mut shares = choose(&seen.policies, &seen.versions, &seen.references, node);
    let lacks = contents.fill(&mut shares).await;
    let policies: BTreeMap<_, _> = shares
        .values()
        .flat_map(|share| share.policies.clone())
        .collect();
    let written = tokio::task::spawn_blocking(move || {
        let outcome = folder.put(&shares);
        (folder, outcome)
    });
    let (folder, outcome) = match written.await {
        Ok(written) => written,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    };
    match outcome {
        Ok(sentences) => {
            for sentence in sentences {
                complain(format_args!("degraded: {sentence}."));
            }
            if let Some(told) = told.take() {
                // Who no longer waits needs no answer.
                let _unheard = told.send(());
            }
        }
        Err(error) => complain(format_args!(
            "degraded: what the cluster says cannot be written down: {error}"
        )),
    }
    show(view, |view| {
        view.complete = true;
        view.node = Some(node.uid.clone());
        view.policies = policies;
        view.refused = folder.refused().clone();
    });
    (folder, lacks)
}

fn take(seen: &mut Seen, any: Any) {
    match any {
        Any::Policy(news) => seen.policies.take(news),
        Any::Version(news) => seen.versions.take(news),
        Any::Reference(news) => seen.references.take(news),
        Any::NoReferences(_) if seen.references.is_complete() => {}
        // A cluster that was told of an older drift, or an account with its rights: nothing crosses namespaces there, and all else goes on.
        Any::NoReferences(why) => {
            complain(format_args!(
                "PolicyVersionRefs cannot be watched, and no namespace has versions of another ({why}): kubectl apply --server-side -f deploy/crds, and the rights that docs/cluster.md names"
            ));
            seen.references.take(News::Begin);
            seen.references.take(News::End);
        }
        Any::Node(news) => seen.nodes.take(news),
    }
}

/// What the API server says where it has no such kind, or does not let the agent watch it.
fn refused(error: &watcher::Error) -> Option<String> {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status,
        _ => return None,
    };
    let said = || drift_common::escape::printable(&status.message).into_owned();
    matches!(status.code, 403 | 404).then(said)
}

type Stream = BoxStream<'static, Result<Any, watcher::Error>>;

/// All kinds, each with its own back-off.
fn all(client: &Client, node: &str) -> Stream {
    let resources = |kind: &str| {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &own(kind));
        watcher(api, config()).default_backoff()
    };
    let policies = resources("Policy").map(|event| Ok(Any::Policy(news(event?, object))));
    let versions = resources("PolicyVersion").map(|event| Ok(Any::Version(news(event?, object))));
    let references = resources("PolicyVersionRef").map(|event| match event {
        Ok(event) => Ok(Any::Reference(news(event, object))),
        Err(error) => match refused(&error) {
            Some(why) => Ok(Any::NoReferences(why)),
            None => Err(error),
        },
    });
    let this = config().fields(&format!("metadata.name={node}"));
    let nodes: Api<NodeObject> = Api::all(client.clone());
    let nodes = watcher(nodes, this)
        .default_backoff()
        .map(|event| Ok(Any::Node(news(event?, labelled))));
    let streams: Vec<Stream> = vec![
        policies.boxed(),
        versions.boxed(),
        references.boxed(),
        nodes.boxed(),
    ];
    futures_util::stream::select_all(streams).boxed()
}

pub(crate) fn config() -> watcher::Config {
    watcher::Config::default().streaming_lists().timeout(WATCH)
}

pub(crate) fn news<K: ResourceExt, T>(event: Event<K>, of: impl Fn(K) -> T) -> News<T> {
    let key = |object: &K| Key {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    };
    match event {
        Event::Init => News::Begin,
        Event::InitApply(object) => News::Listed(key(&object), of(object)),
        Event::InitDone => News::End,
        Event::Apply(object) => News::Changed(key(&object), of(object)),
        Event::Delete(object) => News::Gone(key(&object)),
    }
}

fn object(mut object: DynamicObject) -> Object {
    Object {
        accepts_older: object
            .annotations()
            .get(ACCEPTS_OLDER)
            .is_some_and(|value| value == "true"),
        generation: object.metadata.generation.unwrap_or_default(),
        spec: object.data["spec"].take(),
        uid: object.metadata.uid.unwrap_or_default(),
    }
}

fn labelled(node: NodeObject) -> Node {
    let labels: BTreeMap<String, String> = node.metadata.labels.unwrap_or_default();
    Node {
        uid: node.metadata.uid.unwrap_or_default(),
        labels,
    }
}

/// How long nothing but errors has come.
#[derive(Default)]
struct Silence {
    since: Option<Instant>,
    is_said: bool,
}

impl Silence {
    fn heard(&mut self, news: Result<Any, watcher::Error>) -> Option<Any> {
        match news {
            Ok(any) => {
                if self.is_said {
                    complain(format_args!("The API server answers again."));
                }
                *self = Self::default();
                Some(any)
            }
            Err(error) => {
                info!("the API server: {error}");
                let since = *self.since.get_or_insert_with(Instant::now);
                if since.elapsed() >= FRESH && !self.is_said {
                    self.is_said = true;
                    complain(format_args!(
                        "degraded: nothing was heard of the API server for {} s: going on with what it said last.",
                        FRESH.as_secs()
                    ));
                }
                None
            }
        }
    }
}
