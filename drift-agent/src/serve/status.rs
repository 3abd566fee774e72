//! How a node is, as `drift-agent status -o json` gives it (docs/control.md). What is not known is not there, never zero.

use std::{collections::BTreeMap, time::SystemTime};

use drift_common::escape::{self, printable};
use serde::{Deserialize, Serialize};

use crate::{
    report::{Actor, Container, Pod},
    stop::Stop,
    store::Holding,
};

/// In a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// Everything was compared and is as declared.
    Healthy,
    /// Everything was compared, and something is not as declared.
    Drifting,
    /// The agent cannot do all it should; `reasons` say why.
    Degraded,
    /// No agent is running.
    NoAgent,
}

impl Health {
    /// Every one.
    pub const ALL: [Health; 4] = [
        Health::Healthy,
        Health::Drifting,
        Health::Degraded,
        Health::NoAgent,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Health::Healthy => "healthy",
            Health::Drifting => "drifting",
            Health::Degraded => "degraded",
            Health::NoAgent => "no-agent",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub node: String,
    pub health: Health,
    /// Why it is degraded.
    pub reasons: Vec<Reason>,
    /// The agent's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptime_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensor: Option<SensorStatus>,
    /// By the kernel half, since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_lost: Option<RecordsLost>,
    /// `None`: none has come to its end since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_full_scan: Option<LastScan>,
    /// For how long one has been under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_scan_running_s: Option<u64>,
    /// What people hold healing back with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<StopStatus>,
    pub policies: Vec<PolicyStatus>,
    /// The gravest of what is not as declared, of these the oldest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifts: Vec<DriftStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privilege: Option<PrivilegeStatus>,
}

impl Status {
    /// What an agent that answers lacks until a node can rely on it; `None`: nothing. What drifts, and what a policy says wrong, does not count: another
    /// agent would not do better.
    #[must_use]
    pub fn not_ready(&self) -> Option<&str> {
        let deaf = [Lack::NoProbes, Lack::SensorFault].map(Lack::name);
        let mut reasons = self.reasons.iter();
        if let Some(reason) = reasons.find(|reason| deaf.contains(&reason.reason.as_str())) {
            return Some(&reason.message);
        }
        let looked = self.last_full_scan.is_some();
        (!looked).then_some("the first look at everything has not ended")
    }
}

/// What keeps the process that looks from writing, and who writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivilegeStatus {
    /// Who the process that looks is.
    pub user: u32,
    /// The version that is in force for it; or why it is not.
    pub landlock: String,
    /// `in force`; or why it is not.
    pub syscall_filter: String,
    /// `not-needed`, `at-work` or `gone`.
    pub restorer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restorer_pid: Option<u32>,
    /// What is missing, and what that means: a sentence each.
    pub lacks: Vec<String>,
}

/// One path that is not as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftStatus {
    pub path: String,
    pub policy: String,
    pub kinds: Vec<String>,
    pub severity: String,
    /// When it was changed, as far as known.
    pub since: String,
    /// `observed`, `pending`, `suppressed` or `failed`.
    pub outcome: String,
    /// Why it is not healed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorStatus>,
    /// Why it is not known who has changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_unknown: Option<String>,
}

/// Who has changed something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorStatus {
    pub comm: String,
    pub pid: u32,
    pub uid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exe: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// What the pod calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Why it is not known in which container it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_unknown: Option<String>,
}

impl From<&Actor> for ActorStatus {
    fn from(actor: &Actor) -> Self {
        let text = |text: &str| printable(text).into_owned();
        let container = actor
            .container
            .as_ref()
            .and_then(|found| found.as_ref().ok());
        let unknown = actor
            .container
            .as_ref()
            .and_then(|found| found.as_ref().err());
        let pod = container.and_then(|container| container.pod.as_ref());
        let of_container =
            |of: fn(&Container) -> Option<&String>| container.and_then(of).map(|it| text(it));
        let of_pod = |of: fn(&Pod) -> Option<&String>| pod.and_then(of).map(|it| text(it));
        Self {
            container_id: of_container(|container| Some(&container.id)),
            container_name: of_container(|container| container.name.as_ref()),
            image: of_container(|container| container.image.as_ref()),
            pod: of_pod(|pod| Some(&pod.name)),
            namespace: of_pod(|pod| Some(&pod.namespace)),
            workload: of_pod(|pod| pod.workload.as_ref()),
            service_account: of_pod(|pod| pod.service_account.as_ref()),
            container_unknown: unknown.map(|why| text(why)),
            comm: printable(&actor.comm.to_string_lossy()).into_owned(),
            pid: actor.pid,
            uid: actor.uid,
            exe: actor
                .exe
                .as_deref()
                .map(|exe| escape::path(exe).to_string()),
            cgroup: actor
                .cgroup
                .as_deref()
                .map(|cgroup| printable(cgroup).into_owned()),
        }
    }
}

/// Healing is held back, of a policy or of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopStatus {
    /// As of `held`.
    pub reason: String,
    /// Not there: all policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    pub message: String,
}

impl StopStatus {
    #[must_use]
    pub fn new(policy: Option<&str>, stop: &Stop) -> Self {
        Self {
            reason: stop.kind.reason().to_owned(),
            policy: policy.map(|policy| printable(policy).into_owned()),
            until: stop.until.map(rfc3339),
            message: stop.message.clone(),
        }
    }

    /// For people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.policy {
            None => self.message.clone(),
            Some(policy) => format!("{policy}: {}", self.message),
        }
    }
}

/// Why a node is not simply what its files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The first look at everything has not ended.
    NotCompared,
    PoliciesRejected,
    NoProbes,
    /// The agent would not hear a change, or cannot know it.
    SensorFault,
    /// Everything should have been compared again long since.
    ScanOverdue,
    NoHistory,
    /// Something may have to be put back, and nobody is there to do it.
    NoRestorer,
    NoAgent,
}

impl Lack {
    /// Every one.
    pub const ALL: [Lack; 8] = [
        Lack::NotCompared,
        Lack::PoliciesRejected,
        Lack::NoProbes,
        Lack::SensorFault,
        Lack::ScanOverdue,
        Lack::NoHistory,
        Lack::NoRestorer,
        Lack::NoAgent,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Lack::NotCompared => "not-compared",
            Lack::PoliciesRejected => "policies-rejected",
            Lack::NoProbes => "no-probes",
            Lack::SensorFault => "sensor-fault",
            Lack::ScanOverdue => "scan-overdue",
            Lack::NoHistory => "no-history",
            Lack::NoRestorer => "no-restorer",
            Lack::NoAgent => "no-agent",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The name of a [`Lack`], or of an error of the store.
    pub reason: String,
    pub message: String,
}

impl Reason {
    /// `message`: a sentence, which may quote names of strangers.
    #[must_use]
    pub fn new(reason: &str, message: &str) -> Reason {
        Reason {
            reason: reason.to_owned(),
            message: printable(message).into_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SensorStatus {
    /// `btf`, `tracepoint` or `scan`.
    pub name: String,
    pub hooks_attached: usize,
    pub hooks: usize,
    pub cannot_see: Vec<String>,
    /// Not there without probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<TableStatus>,
    /// What the kernel half has counted, by the kind of change; kinds that it has not seen are not there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counted: BTreeMap<String, Counted>,
}

/// The tables that the kernel half looks into: the same for all policies, and as large as what these declare asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatus {
    /// Paths, directories and names that are watched, and for how many there is room.
    pub objects: usize,
    pub room: usize,
    /// Of the kernel's memory, as the kernel says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Of one kind of change since the programs were loaded. Each change that was seen is in one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub sent: u64,
    /// The agent was to look at that object already.
    pub coalesced: u64,
    /// By cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<String, u64>,
}

/// Records that did not leave, since the start, by way out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordsLost {
    pub output: u64,
    pub export: u64,
    pub history: u64,
}

/// When everything was compared last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastScan {
    pub ended: String,
    pub age_s: u64,
    pub files: usize,
    pub took_ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    pub policy: String,
    pub version: String,
    /// `observe` or `heal`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// Declared paths: those as declared, those that drift, and those that were not compared yet.
    pub files: usize,
    pub as_declared: usize,
    pub drifting: usize,
    pub not_compared: usize,
    /// To the hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healed_24h: Option<u64>,
    pub held: Held,
    /// The version that was as declared for the soak time, last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_known_good: Option<String>,
    /// When the active version becomes that, if it stays as declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak_left_s: Option<u64>,
    /// The active version is held instead of the one that the Policy says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldStatus>,
    /// Versions whose activation failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedVersion>,
}

/// Who holds a version, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldStatus {
    pub instead_of: String,
    pub since: String,
    pub by: String,
    pub reason: String,
}

/// A version that could not be made active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedVersion {
    pub version: String,
    pub count: u32,
    pub last: String,
    /// One of a closed, documented set.
    pub reason: String,
    pub message: String,
}

impl PolicyStatus {
    /// Adds what is held of the policy, and what has failed.
    pub fn add(&mut self, holding: &Holding) {
        let shown = |text: &str| printable(text).into_owned();
        self.hold = holding.held.get(&self.policy).map(|held| HoldStatus {
            instead_of: shown(&held.instead_of),
            since: rfc3339(held.since),
            by: shown(&held.by),
            reason: shown(&held.reason),
        });
        let failures = holding.failures.iter();
        self.failed = failures
            .filter(|failure| failure.policy == self.policy)
            .map(|failure| FailedVersion {
                version: shown(&failure.version),
                count: failure.count,
                last: rfc3339(failure.last),
                reason: shown(&failure.reason),
                message: shown(&failure.message),
            })
            .collect();
    }

    /// What is held and what has failed, a sentence each.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some(hold) = &self.hold {
            sentences.push(format!(
                "{} is held at {} instead of {} since {}, by {}: {}",
                self.policy, self.version, hold.instead_of, hold.since, hold.by, hold.reason
            ));
        }
        sentences.extend(self.failed.iter().map(|failed| {
            let times = if failed.count == 1 {
                "once".to_owned()
            } else {
                format!("{} times", failed.count)
            };
            format!(
                "{} {} has failed {times}, at {} last ({}): {}",
                self.policy, failed.version, failed.last, failed.reason, failed.message
            )
        }));
        sentences
    }
}

/// Paths that are left as they are for now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub count: usize,
    /// The first of them.
    pub paths: Vec<HeldPath>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPath {
    pub path: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    pub blobs: u64,
    pub bytes: u64,
    pub quota: u64,
}

/// UTC, to the millisecond.
#[must_use]
pub fn rfc3339(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/control.md"));

    #[test]
    fn the_page_about_status_names_all_there_is() {
        let names = Lack::ALL
            .map(Lack::name)
            .into_iter()
            .chain(Health::ALL.map(Health::name));
        for name in names {
            assert!(PAGE.contains(&format!("| `{name}`")), "{name}");
        }
        for reason in crate::serve::socket::REFUSALS {
            assert!(PAGE.contains(&format!("`{reason}`")), "{reason}");
        }
    }

    #[test]
    fn who_has_looked_at_everything_and_would_hear_of_a_change_is_ready() {
        let reason = |lack: Lack| Reason::new(lack.name(), "it lacks something");
        let status = |looked: bool, lacks: &[Lack]| {
            let scan = serde_json::json!({"ended": "2026-01-01T00:00:00Z", "age_s": 1, "files": 1, "took_ns": 1});
            let mut status = serde_json::json!({"node": "n", "health": "degraded", "reasons": [], "policies": []});
            if looked {
                status["last_full_scan"] = scan;
            }
            let mut status: Status = serde_json::from_value(status).unwrap();
            status.reasons = lacks.iter().copied().map(reason).collect();
            status.not_ready().map(str::to_owned)
        };
        assert_eq!(status(true, &[]), None);
        assert!(status(false, &[]).unwrap().contains("first look"));
        for lack in Lack::ALL {
            let deaf = matches!(lack, Lack::NoProbes | Lack::SensorFault);
            assert_eq!(status(true, &[lack]).is_some(), deaf, "{lack:?}");
        }
    }
}
