//! What one agent has written of its node, and what that says of it. No I/O.

use drift_common::escape;
use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, api::DynamicObject};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cluster::{MANAGER, STALE};

/// The status of a NodeDrift, as far as it is shown. What is not known is not there.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    pub(super) agent_version: Option<String>,
    observed_at: Option<String>,
    pub(super) sensor: Sensor,
    pub(super) counts: Counts,
    pub(super) conditions: Vec<Condition>,
    pub(super) policies: Vec<InForce>,
    pub(super) drifts: Vec<Drift>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Sensor {
    pub(super) name: Option<String>,
    pub(super) hooks_attached: u32,
    pub(super) hooks: u32,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Counts {
    pub(super) policies: Option<u32>,
    pub(super) files: Option<u32>,
    pub(super) as_declared: Option<u32>,
    pub(super) drifting: Option<u32>,
    pub(super) not_compared: Option<u32>,
    pub(super) held: Option<u32>,
    pub(super) healed: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) about: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) last_transition_time: Option<String>,
}

/// A policy of the node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct InForce {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) active_version: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) files: u32,
    pub(super) drifting: u32,
    pub(super) not_compared: u32,
    pub(super) held: u32,
    pub(super) healed: Option<u32>,
    pub(super) message: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Drift {
    pub(super) path: String,
    pub(super) namespace: String,
    pub(super) policy: String,
    pub(super) kinds: Vec<String>,
    pub(super) severity: Option<String>,
    pub(super) since: Option<String>,
    pub(super) outcome: String,
    pub(super) reason: Option<String>,
    pub(super) actor: Option<Actor>,
    pub(super) actor_unknown: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Actor {
    pub(super) comm: String,
    pub(super) pid: u32,
    pub(super) uid: u32,
    pub(super) exe: Option<String>,
    pub(super) container_name: Option<String>,
    pub(super) image: Option<String>,
    pub(super) pod: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) workload: Option<String>,
}

/// A NodeDrift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// When the agent has written last: by the API server's clock where that has kept it, else by the agent's.
    pub(super) written: Option<Timestamp>,
    /// `Err`: what stands there is not what an agent writes.
    pub(super) status: Result<Status, String>,
}

/// How a node is, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Health {
    AsDeclared,
    NotCompared,
    Drifting,
    /// Its agent cannot do all it should.
    Degraded,
    /// Its agent has not written for too long: how it is now is not known.
    Stale,
    /// No agent has ever written.
    NoAgent,
}

impl Health {
    pub(super) const ALL: [Self; 6] = [
        Self::AsDeclared,
        Self::NotCompared,
        Self::Drifting,
        Self::Degraded,
        Self::Stale,
        Self::NoAgent,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AsDeclared => "as declared",
            Self::NotCompared => "not compared",
            Self::Drifting => "drifting",
            Self::Degraded => "degraded",
            Self::Stale => "stale",
            Self::NoAgent => "no agent",
        }
    }

    /// The command's own status.
    pub(super) const fn exit(self) -> u8 {
        match self {
            Self::AsDeclared => 0,
            Self::Drifting => 4,
            Self::NotCompared | Self::Degraded | Self::Stale | Self::NoAgent => 5,
        }
    }

    /// Whether what the agent has written says how the node is now.
    pub(super) const fn is_known(self) -> bool {
        match self {
            Self::AsDeclared | Self::NotCompared | Self::Drifting | Self::Degraded => true,
            Self::Stale | Self::NoAgent => false,
        }
    }
}

impl Report {
    /// All of it.
    pub(super) fn whole(mut object: DynamicObject) -> Self {
        let fields = object.managed_fields().iter();
        let kept = fields
            .filter(|entry| entry.manager.as_deref() == Some(MANAGER))
            .filter(|entry| entry.subresource.as_deref() == Some("status"))
            .filter_map(|entry| entry.time.as_ref().map(|time| time.0))
            .max();
        let status = match object.data["status"].take() {
            Value::Null => Ok(Status::default()),
            status => serde_json::from_value::<Status>(status),
        };
        let status = status.map_err(|error| error.to_string());
        let told = status
            .as_ref()
            .ok()
            .and_then(|status| status.observed_at.as_deref());
        Self {
            written: kept.or_else(|| told.and_then(|time| time.parse().ok())),
            status,
        }
    }

    /// What of it is of use where many are shown: the gravest drift, and what is not as it should be.
    pub(super) fn brief(object: DynamicObject) -> Self {
        let mut report = Self::whole(object);
        if let Ok(status) = &mut report.status {
            status.drifts.retain(|drift| drift.outcome != HEALED);
            status.drifts.truncate(1);
            status
                .conditions
                .retain(|condition| condition.status != "True");
            for policy in &mut status.policies {
                policy.message = None;
            }
        }
        report
    }

    pub(super) fn age(&self, now: Timestamp) -> Option<u64> {
        let age = now.duration_since(self.written?);
        Some(age.as_secs().try_into().unwrap_or(0))
    }

    pub(super) fn health(&self, now: Timestamp) -> Health {
        let limit = SignedDuration::from_secs(STALE.as_secs().try_into().unwrap_or(i64::MAX));
        let is_fresh = |written: Timestamp| now.duration_since(written) <= limit;
        let Ok(status) = &self.status else {
            return Health::Degraded;
        };
        match self.written {
            None => Health::NoAgent,
            Some(written) if !is_fresh(written) => Health::Stale,
            Some(_) if status.lacks().next().is_some() => Health::Degraded,
            Some(_) => match (status.counts.drifting, status.counts.not_compared) {
                (Some(0), Some(0)) => Health::AsDeclared,
                (Some(0) | None, _) => Health::NotCompared,
                (Some(_), _) => Health::Drifting,
            },
        }
    }
}

/// The outcome of a drift that is none any more.
pub(super) const HEALED: &str = "healed";

impl Status {
    /// What the agent cannot do. What drifts is none of it.
    pub(super) fn lacks(&self) -> impl Iterator<Item = &Condition> {
        self.conditions
            .iter()
            .filter(|condition| condition.status != "True" && condition.about != "Healed")
    }
}

impl Drift {
    /// `content, by sed (pid 7, uid 0) in pod shop/cart-7d9`.
    pub(super) fn sentence(&self) -> String {
        let by = match (&self.actor, &self.actor_unknown) {
            (Some(actor), _) => format!(", by {}", actor.sentence()),
            (None, Some(why)) => format!(", by an unknown process ({why})"),
            (None, None) => String::new(),
        };
        format!("{}{by}", self.kinds.join(", "))
    }
}

impl Actor {
    pub(super) fn sentence(&self) -> String {
        let mut text = format!("{} (pid {}, uid {})", self.comm, self.pid, self.uid);
        if let Some(pod) = &self.pod {
            let namespace = self.namespace.as_deref().unwrap_or("?");
            text += &format!(" in pod {namespace}/{pod}");
        }
        if let Some(container) = &self.container_name {
            text += &format!(", container {container}");
        }
        if let Some(workload) = &self.workload {
            text += &format!(" of {workload}");
        }
        text
    }
}

/// A policy as people name it: with its namespace, if it has one.
pub(super) fn named(namespace: &str, name: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

/// A text of strangers.
pub(super) fn printable(text: &str) -> String {
    escape::printable(text).into_owned()
}

/// For programs. Numbers of an agent that no longer reports are no numbers.
pub(super) fn json(node: &str, report: Option<&Report>, now: Timestamp) -> Value {
    let health = report.map_or(Health::NoAgent, |report| report.health(now));
    let mut value = json!({"node": node, "health": health.name()});
    let Some(report) = report else {
        return value;
    };
    value["seen"] = json!(report.written.map(|time| time.to_string()));
    let status = match &report.status {
        Ok(status) => status,
        Err(why) => {
            value["unreadable"] = json!(why);
            return value;
        }
    };
    value["agent"] = json!(status.agent_version);
    value["sensor"] = json!(status.sensor.name);
    value["lacks"] = json!(status.lacks().collect::<Vec<_>>());
    if !health.is_known() {
        return value;
    }
    let counts = &status.counts;
    value["counts"] = json!({
        "policies": counts.policies,
        "files": counts.files,
        "asDeclared": counts.as_declared,
        "drifting": counts.drifting,
        "notCompared": counts.not_compared,
        "held": counts.held,
        "healed": counts.healed,
    });
    value["policies"] = status
        .policies
        .iter()
        .map(|policy| json!({"namespace": policy.namespace, "name": policy.name, "version": policy.active_version, "drifting": policy.drifting}))
        .collect();
    value["drift"] = json!(status.drifts.first());
    value
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A NodeDrift whose agent has written at `written`, with this status beside what is usual.
    pub(in crate::cli::kubectl) fn drift(
        node: &str,
        written: &str,
        status: &Value,
    ) -> DynamicObject {
        let mut all = json!({
            "agentVersion": "0.3.0",
            "observedAt": "2026-11-30T10:00:00Z",
            "sensor": {"name": "btf", "hooksAttached": 24, "hooks": 24},
            "counts": {"policies": 2, "files": 214, "asDeclared": 214, "drifting": 0, "notCompared": 0, "held": 0, "healed": 14},
            "conditions": [{"type": "Synced", "status": "True", "reason": "InForce", "message": "ok"}],
            "policies": [{"namespace": "web", "name": "app", "activeVersion": "1.2.0", "mode": "heal", "files": 200, "drifting": 0, "healed": 14},
                {"namespace": "", "name": "ssh", "activeVersion": "1.0.0", "mode": "observe", "files": 14, "drifting": 0, "healed": 0}],
            "drifts": [],
        });
        for (field, value) in status.as_object().into_iter().flatten() {
            all[field] = value.clone();
        }
        let object = json!({
            "apiVersion": "configdrift.io/v1alpha1", "kind": "NodeDrift",
            "metadata": {"name": node, "managedFields": [
                {"manager": "drift-agent", "operation": "Apply", "subresource": "status", "time": written, "apiVersion": "configdrift.io/v1alpha1"},
                {"manager": "somebody", "operation": "Update", "subresource": "status", "time": "2026-12-30T10:00:00Z"},
            ]},
            "status": all,
        });
        serde_json::from_value(object).expect("an object")
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[track_caller]
    fn check(status: &Value, now: &str, expected: Health) {
        let report = Report::brief(drift("n", "2026-11-30T10:00:00Z", status));
        assert_eq!(report.health(at(now)), expected, "{status}");
    }

    #[test]
    fn how_a_node_is_follows_from_what_its_agent_has_written_and_when() {
        let soon = "2026-11-30T10:00:02Z";
        let lacks = |about: &str, status: &str| json!({"conditions": [{"type": about, "status": status, "reason": "R", "message": "m"}]});
        let counts = |drifting: u64, unknown: u64| json!({"counts": {"files": 3, "drifting": drifting, "notCompared": unknown}});
        check(&json!({}), soon, Health::AsDeclared);
        check(&counts(1, 0), soon, Health::Drifting);
        check(&counts(0, 1), soon, Health::NotCompared);
        check(&json!({"counts": {}}), soon, Health::NotCompared);
        check(&lacks("Lossless", "False"), soon, Health::Degraded);
        check(&lacks("Synced", "Unknown"), soon, Health::Degraded);
        check(&lacks("Healed", "False"), soon, Health::AsDeclared);
        check(&json!({"counts": "many"}), soon, Health::Degraded);
        // It was healthy when it last wrote: that says nothing of now.
        check(&json!({}), "2026-11-30T10:06:59Z", Health::AsDeclared);
        check(&json!({}), "2026-11-30T10:07:01Z", Health::Stale);
        check(
            &lacks("Lossless", "False"),
            "2026-11-30T11:00:00Z",
            Health::Stale,
        );
        // Nobody's word counts for the agent's, and no clock but the API server's.
        check(
            &json!({"observedAt": "2026-12-30T10:00:00Z"}),
            "2026-11-30T11:00:00Z",
            Health::Stale,
        );
        let never = Report::brief(
            serde_json::from_value(json!({"metadata": {"name": "n"}})).expect("an object"),
        );
        assert_eq!(never.health(at(soon)), Health::NoAgent);
    }

    #[test]
    fn numbers_of_a_stale_node_are_no_numbers() {
        let report = Report::brief(drift("n", "2026-11-30T10:00:00Z", &json!({})));
        let fresh = json("n", Some(&report), at("2026-11-30T10:00:02Z"));
        assert_eq!(fresh["counts"]["files"], 214);
        let stale = json("n", Some(&report), at("2026-11-30T11:00:00Z"));
        assert_eq!(stale["health"], "stale");
        assert_eq!(stale["seen"], "2026-11-30T10:00:00Z");
        assert!(stale.get("counts").is_none() && stale.get("policies").is_none());
    }
}
