//! Watches an API server, for as long as the agent runs.

use std::{collections::BTreeMap, time::Duration};

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
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, timeout_at},
};

use super::{
    Folder, Source,
    choose::choose,
    client::{client, jittered, own},
    kept::Contents,
    mark::Present,
    seen::{Key, News, Object, Seen, Stamp},
    standing::{Asker, Standing, Unknown},
    view::{FRESH, View},
};
use crate::report::complain;

/// The annotation with which a Policy may be older than what was seen of it.
pub(super) const ACCEPTS_OLDER: &str = "configdrift.io/accept-older";

/// How long news are gathered: one `kubectl apply` is several.
const GATHER: Duration = Duration::from_millis(50);
/// A ConfigMap or Secret that is not there, or not right, is looked for again after so long.
const RETRY: Duration = Duration::from_secs(10);
/// A watch is begun anew after half of this to all of it: those of many nodes that began at one moment do not go on in step. One that has died without a word
/// is noticed five seconds later.
const WATCH: Duration = Duration::from_secs(290);
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
    let mut asker = Asker::new(client.clone());
    // When what is lacking is looked for again.
    let mut again: Option<Instant> = None;
    let mut news = all(&client, &source.node);
    loop {
        let wake = again.map_or(asker.next(), |again| again.min(asker.next()));
        let mut changed = match timeout_at(wake, news.next()).await {
            Ok(Some(first)) => silence.heard(first).is_some_and(|any| take(&mut seen, any)),
            Ok(None) => return, // a watcher does not end
            Err(_) => false,
        };
        let end = Instant::now() + GATHER;
        while let Ok(Some(more)) = timeout_at(end, news.next()).await {
            changed |= silence.heard(more).is_some_and(|any| take(&mut seen, any));
        }
        if silence.since.is_some() {
            asker.hurry();
        }
        asker.heard(seen.policies.revision());
        if Instant::now() >= asker.next() {
            let standing = asker.ask().await;
            if silence.answered(&standing) {
                news = anew(&client, &source.node, &mut seen, &view);
            }
        }
        show(&view, |view| view.silent = silence.since);
        let is_time = again.take_if(|again| *again <= Instant::now()).is_some();
        if !(changed || is_time) || !seen.is_complete() {
            continue;
        }
        let mut present = Present::new(&seen);
        if folder.lacks(&present) {
            let standing = asker.ask().await;
            if silence.answered(&standing) {
                news = anew(&client, &source.node, &mut seen, &view);
            }
            present.revision = standing.ok().map(Standing::revision);
        }
        let is_unknown = folder.lacks(&present) && present.revision.is_none();
        let lacks;
        (folder, lacks) = put(
            folder,
            &seen,
            present,
            &source.node,
            &mut contents,
            &mut told,
            &view,
        )
        .await;
        again = (lacks || is_unknown).then(|| Instant::now() + jittered(RETRY));
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
    present: Present,
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
        let outcome = folder.put(&shares, &present);
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

/// Whether something may be other than it was.
fn take(seen: &mut Seen, any: Any) -> bool {
    match any {
        Any::Policy(news) => seen.policies.take(news),
        Any::Version(news) => seen.versions.take(news),
        Any::Reference(news) => seen.references.take(news),
        Any::NoReferences(_) if seen.references.is_complete() => false,
        // A cluster that was told of an older drift, or an account with its rights: nothing crosses namespaces there, and all else goes on.
        Any::NoReferences(why) => {
            complain(format_args!(
                "PolicyVersionRefs cannot be watched, and no namespace has versions of another ({why}): kubectl apply --server-side -f deploy/crds, and the rights that docs/cluster.md names"
            ));
            seen.references.take(News::Begin);
            seen.references.take(News::End)
        }
        Any::Node(news) => seen.nodes.take(news),
    }
}

/// What the API server says where it has no such kind, or does not let the agent watch it.
fn refused(error: &watcher::Error) -> Option<String> {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return None;
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

/// The same, for an API server that may not be where it was.
fn anew(client: &Client, node: &str, seen: &mut Seen, view: &watch::Sender<View>) -> Stream {
    seen.policies.begins_anew();
    show(view, |view| view.era += 1);
    all(client, node)
}

pub(crate) fn config() -> watcher::Config {
    let seconds = jittered(WATCH).as_secs() as u32; // few
    watcher::Config::default()
        .streaming_lists()
        .timeout(seconds)
}

pub(crate) fn news<K: ResourceExt, T>(event: Event<K>, of: impl Fn(K) -> T) -> News<T> {
    let key = |object: &K| Key {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    };
    let stamp = |object: &K| Stamp {
        uid: object.uid().unwrap_or_default(),
        revision: object
            .resource_version()
            .and_then(|version| version.parse().ok()),
    };
    match event {
        Event::Init => News::Begin,
        Event::InitApply(object) => News::Listed(key(&object), stamp(&object), of(object)),
        Event::InitDone => News::End,
        Event::Apply(object) => News::Changed(key(&object), stamp(&object), of(object)),
        Event::Delete(object) => News::Gone(key(&object), stamp(&object)),
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
    }
}

fn labelled(node: NodeObject) -> Node {
    let labels: BTreeMap<String, String> = node.metadata.labels.unwrap_or_default();
    Node {
        uid: node.metadata.uid.unwrap_or_default(),
        labels,
    }
}

/// Whether the API server has said no, and not nothing.
fn is_refusal(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => matches!(error, kube::Error::Api(_)),
        watcher::Error::WatchError(_) => true,
        watcher::Error::NoResourceVersion => false,
    }
}

/// How long nothing but errors has come.
#[derive(Default)]
struct Silence {
    since: Option<std::time::Instant>,
    is_said: bool,
    /// A connection has ended in the middle: the API server may be another one by now, with another past.
    is_cut: bool,
}

impl Silence {
    fn heard(&mut self, news: Result<Any, watcher::Error>) -> Option<Any> {
        match news {
            Ok(any) => {
                self.ends();
                Some(any)
            }
            Err(error) => {
                self.is_cut |= !is_refusal(&error);
                self.goes_on(&error);
                None
            }
        }
    }

    /// Whether everything is to be listed anew: a watch that was begun before waits for numbers that may be far off, or have meant something else.
    fn answered(&mut self, standing: &Result<Standing, Unknown>) -> bool {
        match standing {
            Ok(Standing::Ahead(_)) => {
                self.ends();
                std::mem::take(&mut self.is_cut)
            }
            Ok(Standing::Back(_)) => {
                self.ends();
                self.is_cut = false;
                complain(format_args!(
                    "The API server shows an earlier state than before, as when etcd was restored from a backup: everything is listed anew, and nothing \
                     goes back that nobody has changed since."
                ));
                true
            }
            Err(error) => {
                self.goes_on(error);
                false
            }
        }
    }

    fn ends(&mut self) {
        if self.is_said {
            complain(format_args!("The API server answers again."));
        }
        (self.since, self.is_said) = (None, false);
    }

    fn goes_on(&mut self, error: &dyn std::fmt::Display) {
        info!("the API server: {error}");
        let since = *self.since.get_or_insert_with(std::time::Instant::now);
        if since.elapsed() >= FRESH && !self.is_said {
            self.is_said = true;
            complain(format_args!(
                "degraded: nothing was heard of the API server for {} s: going on with what it said last.",
                FRESH.as_secs()
            ));
        }
    }
}
