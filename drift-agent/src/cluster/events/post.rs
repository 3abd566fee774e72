//! Events in the cluster: what is told again within some minutes is the same Event, with a higher count.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use drift_common::policy::API_VERSION;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{About, Reason, Telling};
use crate::cluster::publish::{MANAGER, Unwritten, answer};

/// Who says so.
pub(crate) const CONTROLLER: &str = "configdrift.io/drift-agent";
/// Where Events about what is in no namespace are.
const NO_NAMESPACE: &str = "default";
/// What is told again after so long is another Event: the API server keeps one for an hour.
const SERIES: Duration = Duration::from_secs(360);
/// Events that are remembered.
const MOST: usize = 256;

#[derive(Debug)]
struct Told {
    name: String,
    /// As the API server has it.
    count: i32,
    last: Instant,
}

/// Where Events go out.
pub(in crate::cluster) struct Post {
    client: Client,
    node: String,
    told: BTreeMap<(About, Reason, String), Told>,
}

impl Post {
    pub(in crate::cluster) fn new(client: Client, node: String) -> Self {
        Self {
            client,
            node,
            told: BTreeMap::new(),
        }
    }

    /// Tells one. `uid`: that of the Node.
    pub(in crate::cluster) async fn tell(
        &mut self,
        telling: &Telling,
        uid: Option<&str>,
        now: Instant,
    ) -> Result<(), Unwritten> {
        self.told
            .retain(|_, told| now.saturating_duration_since(told.last) < SERIES);
        let key = (telling.about.clone(), telling.reason, telling.note.clone());
        let namespace = match &telling.about {
            About::Node => NO_NAMESPACE,
            About::Policy(namespace, ..) => namespace,
        };
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let time = format!("{:.6}", jiff::Timestamp::now());
        let times = i32::try_from(telling.more.saturating_add(1)).unwrap_or(i32::MAX);
        if let Some(told) = self.told.get_mut(&key) {
            let count = told.count.saturating_add(times);
            let series = json!({"series": {"count": count, "lastObservedTime": time}});
            let params = PatchParams::default();
            match answer(events.patch(&told.name, &params, &Patch::Merge(&series))).await {
                Ok(_) => {
                    (told.count, told.last) = (count, now);
                    return Ok(());
                }
                // The API server keeps it no more.
                Err(Unwritten::Undefined) => drop(self.told.remove(&key)),
                Err(error) => return Err(error),
            }
        }
        let name = format!(
            "{}.{}",
            self.subject(&telling.about),
            uuid::Uuid::now_v7().simple()
        );
        let event = self.event(telling, uid, namespace, &name, &time);
        let event: Event = serde_json::from_value(event).map_err(kube::Error::SerdeError)?;
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        match answer(events.create(&params, &event)).await {
            Ok(_) => {}
            // Its namespace is gone: there is nobody to tell.
            Err(Unwritten::Undefined) => return Ok(()),
            Err(error) => return Err(error),
        }
        if self.told.len() < MOST {
            let told = Told {
                name,
                count: times,
                last: now,
            };
            self.told.insert(key, told);
        }
        Ok(())
    }

    /// The beginning of an Event's name, which may not be longer than those of other objects.
    fn subject(&self, about: &About) -> String {
        let name = match about {
            About::Node => &self.node,
            About::Policy(_, name, _) => name,
        };
        let short: String = name.chars().take(200).collect();
        let end = |c: char| !c.is_ascii_alphanumeric();
        short.trim_end_matches(end).to_owned()
    }

    fn event(
        &self,
        telling: &Telling,
        uid: Option<&str>,
        namespace: &str,
        name: &str,
        time: &str,
    ) -> Value {
        let node = json!({"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": uid});
        let note = match telling.more {
            0 => telling.note.clone(),
            more => format!("{} (and {more} more)", telling.note),
        };
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": name},
            "type": telling.reason.kind(),
            "reason": telling.reason.name(),
            "action": telling.reason.action(),
            "note": note,
            "eventTime": time,
            "reportingController": CONTROLLER,
            "reportingInstance": self.node.chars().take(128).collect::<String>(),
        });
        if telling.more > 0 {
            let count = i32::try_from(telling.more.saturating_add(1)).unwrap_or(i32::MAX);
            event["series"] = json!({"count": count, "lastObservedTime": time});
        }
        match &telling.about {
            About::Node => event["regarding"] = node,
            About::Policy(namespace, name, uid) => {
                event["regarding"] = json!({
                    "apiVersion": API_VERSION,
                    "kind": "Policy",
                    "namespace": namespace,
                    "name": name,
                    "uid": uid,
                });
                event["related"] = node;
            }
        }
        event
    }
}
