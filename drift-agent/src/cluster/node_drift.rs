//! What a NodeDrift's status says: made of the agent's own status and of what the cluster has said. No I/O.

mod condition;

use std::time::Instant;

use drift_common::policy::node_drift::{
    LONGEST_MESSAGE, LONGEST_PATH, LONGEST_TEXT, MOST_BLIND, MOST_DRIFTS, MOST_POLICIES,
};
use serde_json::{Map, Value, json};

use super::{
    recent::{Healed, Recent},
    view::View,
};
use crate::serve::{ActorStatus, DriftStatus, PolicyStatus, Status};

/// All that a status is made of.
pub(super) struct Seen<'s> {
    pub(super) status: &'s Status,
    pub(super) view: &'s View,
    pub(super) recent: &'s Recent,
    /// Something was lost lately.
    pub(super) has_lost: bool,
    /// Records that did not get to the task that writes to the cluster.
    pub(super) notices_lost: u64,
    pub(super) now: Instant,
}

/// The status, all of it but the times. What is not known is not there.
pub(super) fn status(seen: &Seen<'_>) -> Value {
    let status = seen.status;
    let mut json = json!({
        "counts": counts(seen),
        "conditions": condition::all(seen),
        "policies": policies(seen),
        "drifts": drifts(seen),
    });
    if let Some(version) = &status.agent {
        json["agentVersion"] = json!(clip(version, LONGEST_TEXT));
    }
    if let Some(sensor) = &status.sensor {
        let blind: Vec<String> = sensor
            .cannot_see
            .iter()
            .take(MOST_BLIND)
            .map(|what| clip(what, LONGEST_TEXT))
            .collect();
        json["sensor"] = json!({
            "name": sensor.name,
            "hooksAttached": sensor.hooks_attached,
            "hooks": sensor.hooks,
            "cannotSee": blind,
        });
    }
    json
}

/// `new`, at this time; `None`: it says what `old` says. A condition keeps its time while its status is the same.
pub(super) fn since(old: &Value, mut new: Value, time: &str) -> Option<Value> {
    if let Some(conditions) = new["conditions"].as_array_mut() {
        for condition in conditions {
            let before = old["conditions"].as_array().into_iter().flatten();
            let before = before
                .filter(|old| {
                    old["type"] == condition["type"] && old["status"] == condition["status"]
                })
                .find_map(|old| old["lastTransitionTime"].as_str());
            condition["lastTransitionTime"] = json!(before.unwrap_or(time));
        }
    }
    let mut before = old.clone();
    if let Some(fields) = before.as_object_mut() {
        fields.remove("observedAt");
    }
    (before != new).then(|| {
        new["observedAt"] = json!(time);
        new
    })
}

fn counts(seen: &Seen<'_>) -> Value {
    let status = seen.status;
    let sum = |of: &dyn Fn(&PolicyStatus) -> usize| status.policies.iter().map(of).sum::<usize>();
    let mut counts = Map::new();
    let mut put = |name: &str, count: u64| {
        counts.insert(name.to_owned(), json!(bound(count)));
    };
    put("policies", status.policies.len() as u64);
    put("files", sum(&|policy| policy.files) as u64);
    put("asDeclared", sum(&|policy| policy.as_declared) as u64);
    put("drifting", sum(&|policy| policy.drifting) as u64);
    put("notCompared", sum(&|policy| policy.not_compared) as u64);
    put("held", sum(&|policy| policy.held.count) as u64);
    let healed: Option<Vec<u64>> = status
        .policies
        .iter()
        .map(|policy| policy.healed_24h)
        .collect();
    if let Some(healed) = healed {
        put("healed", healed.iter().sum());
    }
    if let Some(lost) = status.events_lost {
        put("eventsLost", lost);
    }
    if let Some(lost) = status.records_lost {
        let notices = seen.notices_lost;
        put(
            "recordsLost",
            lost.output + lost.export + lost.history + notices,
        );
    }
    Value::Object(counts)
}

fn policies(seen: &Seen<'_>) -> Vec<Value> {
    // Those with something to tell come before those that are as they should be.
    let mut policies: Vec<&PolicyStatus> = seen.status.policies.iter().collect();
    policies.sort_by_key(|policy| policy.drifting == 0 && policy.failed.is_empty());
    policies.truncate(MOST_POLICIES);
    policies
        .into_iter()
        .map(|policy| {
            let (namespace, name) = named(seen.view, &policy.policy);
            let mut json = json!({
                "namespace": namespace,
                "name": name,
                "activeVersion": clip(&policy.version, LONGEST_TEXT),
                "mode": policy.mode,
                "files": bound(policy.files as u64),
                "drifting": bound(policy.drifting as u64),
                "notCompared": bound(policy.not_compared as u64),
                "held": bound(policy.held.count as u64),
            });
            if let Some(healed) = policy.healed_24h {
                json["healed"] = json!(bound(healed));
            }
            if let Some(good) = &policy.last_known_good {
                json["lastGoodVersion"] = json!(clip(good, LONGEST_TEXT));
            }
            if let Some(failed) = policy.failed.last() {
                json["failedVersion"] = json!(clip(&failed.version, LONGEST_TEXT));
            }
            let sentences = policy.sentences();
            if !sentences.is_empty() {
                json["message"] = json!(clip(&sentences.join("; "), LONGEST_MESSAGE));
            }
            json
        })
        .collect()
}

/// The namespace and the name in the cluster; no namespace: the policy is from a file.
fn named(view: &View, policy: &str) -> (String, String) {
    match view.policies.get(policy) {
        Some((key, _)) => (key.namespace.clone(), key.name.clone()),
        None => (String::new(), clip(policy, 253)),
    }
}

/// What drifts, and then what was healed last.
fn drifts(seen: &Seen<'_>) -> Vec<Value> {
    let ongoing = seen.status.drifts.iter();
    let healed = seen.recent.healed().filter(|healed| {
        let mut ongoing = seen.status.drifts.iter();
        ongoing.all(|drift| drift.path != healed.path)
    });
    ongoing
        .map(|drift| ongoing_drift(seen.view, drift))
        .chain(healed.map(|healed| healed_drift(seen.view, healed)))
        .take(MOST_DRIFTS)
        .collect()
}

fn ongoing_drift(view: &View, drift: &DriftStatus) -> Value {
    let mut json = about(view, &drift.path, &drift.policy);
    json["kinds"] = json!(drift.kinds);
    json["severity"] = json!(drift.severity);
    json["since"] = json!(drift.since);
    json["outcome"] = json!(drift.outcome);
    if let Some(reason) = &drift.reason {
        json["reason"] = json!(clip(reason, LONGEST_TEXT));
    }
    who(
        &mut json,
        drift.actor.as_ref(),
        drift.actor_unknown.as_deref(),
    );
    json
}

fn healed_drift(view: &View, healed: &Healed) -> Value {
    let mut json = about(view, &healed.path, &healed.policy);
    json["kinds"] = json!(healed.kinds);
    json["since"] = json!(format!("{:.3}", healed.since));
    json["outcome"] = json!("healed");
    if let Some(severity) = healed.severity {
        json["severity"] = json!(severity);
    }
    if let Some(actor) = &healed.actor {
        who(
            &mut json,
            actor.as_ref().ok(),
            actor.as_ref().err().map(String::as_str),
        );
    }
    json
}

fn about(view: &View, path: &str, policy: &str) -> Value {
    let (namespace, policy) = named(view, policy);
    json!({"path": clip(path, LONGEST_PATH), "namespace": namespace, "policy": policy})
}

fn who(json: &mut Value, actor: Option<&ActorStatus>, unknown: Option<&str>) {
    if let Some(actor) = actor {
        let mut who = json!({
            "comm": clip(&actor.comm, LONGEST_TEXT),
            "pid": actor.pid,
            "uid": actor.uid,
        });
        if let Some(exe) = &actor.exe {
            who["exe"] = json!(clip(exe, LONGEST_PATH));
        }
        if let Some(cgroup) = &actor.cgroup {
            who["cgroup"] = json!(clip(cgroup, LONGEST_PATH));
        }
        let container = [
            ("container", LONGEST_TEXT, &actor.container_id),
            ("containerName", LONGEST_TEXT, &actor.container_name),
            ("image", LONGEST_TEXT, &actor.image),
            ("pod", 253, &actor.pod),
            ("namespace", 63, &actor.namespace),
            ("workload", LONGEST_TEXT, &actor.workload),
            ("serviceAccount", LONGEST_TEXT, &actor.service_account),
            ("containerUnknown", LONGEST_TEXT, &actor.container_unknown),
        ];
        for (field, most, said) in container {
            if let Some(said) = said {
                who[field] = json!(clip(said, most));
            }
        }
        json["actor"] = who;
    }
    if let Some(unknown) = unknown {
        json["actorUnknown"] = json!(clip(unknown, LONGEST_MESSAGE));
    }
}

/// At most so many characters, the last of them a sign that there were more.
fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => {
            let mut text: String = text.chars().take(most.saturating_sub(1)).collect();
            text.push('…');
            text
        }
    }
}

/// As far as the definition goes.
fn bound(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
