//! The conditions of a node. Each says something good: `True` is how it should be.

use serde_json::{Value, json};

use super::{LONGEST_MESSAGE, Seen, clip};
use crate::serve::{Lack, PolicyStatus};

/// Whether it is so (`None`: not known), why in a word, and in a sentence.
type Verdict = (Option<bool>, &'static str, String);

pub(super) fn all(seen: &Seen<'_>) -> Vec<Value> {
    [
        ("Synced", synced(seen)),
        ("Healed", healed(seen)),
        ("Lossless", lossless(seen)),
        ("HooksAttached", hooks_attached(seen)),
        ("SnapshotFresh", snapshot_fresh(seen)),
    ]
    .into_iter()
    .map(|(about, (verdict, reason, message))| {
        let status = match verdict {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        json!({"type": about, "status": status, "reason": reason, "message": clip(&message, LONGEST_MESSAGE)})
    })
    .collect()
}

/// Why the agent says that it lacks this.
fn lacks(seen: &Seen<'_>, lack: Lack) -> Option<String> {
    let mut reasons = seen.status.reasons.iter();
    reasons
        .find(|reason| reason.reason == lack.name())
        .map(|reason| reason.message.clone())
}

/// What is in force is what the cluster says.
fn synced(seen: &Seen<'_>) -> Verdict {
    if let Some(why) = lacks(seen, Lack::PoliciesRejected) {
        return (Some(false), "PoliciesRejected", why);
    }
    let mut refused = seen.view.refused.values().chain(&seen.view.files);
    if let Some(why) = refused.next() {
        let more = match refused.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        return (Some(false), "NotTaken", format!("{why}{more}"));
    }
    let policies = &seen.status.policies;
    let told = |is: &dyn Fn(&&PolicyStatus) -> bool| {
        policies
            .iter()
            .find(is)
            .map(|policy| policy.sentences().join("; "))
    };
    if let Some(why) = told(&|policy| policy.hold.is_some()) {
        return (Some(false), "VersionHeld", why);
    }
    if !seen.view.complete {
        let why = "the API server has not said yet what is for this node".to_owned();
        return (None, "NotHeardYet", why);
    }
    let all = policies.len();
    (
        Some(true),
        "InForce",
        format!("the active versions of {all} policies are in force"),
    )
}

fn healed(seen: &Seen<'_>) -> Verdict {
    let policies = &seen.status.policies;
    let sum = |of: &dyn Fn(&PolicyStatus) -> usize| policies.iter().map(of).sum::<usize>();
    let (files, drifting) = (sum(&|policy| policy.files), sum(&|policy| policy.drifting));
    let (held, unknown) = (
        sum(&|policy| policy.held.count),
        sum(&|policy| policy.not_compared),
    );
    let told = format!("{drifting} of {files} paths are not as declared");
    if held > 0 {
        let told = format!("{told}; {held} are left as they are for now");
        return (Some(false), "HealHeld", told);
    }
    if drifting > 0 {
        return (Some(false), "Drifting", told);
    }
    if unknown > 0 {
        let told = format!("{unknown} of {files} paths were not compared yet");
        return (None, "NotCompared", told);
    }
    let told = format!("all of {files} paths are as declared");
    (Some(true), "AsDeclared", told)
}

fn lossless(seen: &Seen<'_>) -> Verdict {
    let status = seen.status;
    let events = status.events_lost.unwrap_or(0);
    let records = status
        .records_lost
        .map_or(0, |lost| lost.output + lost.export + lost.history)
        + seen.notices_lost;
    let told = format!(
        "since the start {events} events of the kernel half were lost, each answered by looking, and {records} records did not leave the node"
    );
    if seen.has_lost {
        return (Some(false), "Lost", told);
    }
    if let Some(why) = lacks(seen, Lack::NoHistory) {
        return (Some(false), "NoHistory", why);
    }
    (Some(true), "NothingLost", told)
}

fn hooks_attached(seen: &Seen<'_>) -> Verdict {
    if let Some(why) = lacks(seen, Lack::SensorFault) {
        return (Some(false), "SensorFault", why);
    }
    let Some(sensor) = &seen.status.sensor else {
        return (None, "NotKnown", "the sensor was not asked".to_owned());
    };
    let (attached, hooks) = (sensor.hooks_attached, sensor.hooks);
    if attached == 0 {
        let why = lacks(seen, Lack::NoProbes)
            .unwrap_or_else(|| "changes are found by scanning, as the agent was told".to_owned());
        return (Some(false), "ScanAlone", why);
    }
    let told = format!(
        "{attached} of {hooks} kernel programs are attached ({})",
        sensor.name
    );
    if attached < hooks {
        return (Some(false), "SomeMissing", told);
    }
    (Some(true), "AllAttached", told)
}

/// The API server was heard lately.
fn snapshot_fresh(seen: &Seen<'_>) -> Verdict {
    let view = seen.view;
    if view.is_old(seen.now) {
        let why = "the API server answers nothing but errors: what it said last is in force";
        return (Some(false), "NotHeard", why.to_owned());
    }
    if !view.complete {
        let why = "since the agent's start the API server has not said all of it yet: what it said before is in force";
        return (Some(false), "NotHeardYet", why.to_owned());
    }
    if view.node.is_none() {
        let why = "there is no Node of this name: what was said of it last is in force";
        return (Some(false), "NoNode", why.to_owned());
    }
    (
        Some(true),
        "Watching",
        "the API server is watched".to_owned(),
    )
}
