//! A drift from what is declared otherwise now, or not at all: whoever was told that it has begun is told that it is over.

use crate::{
    declare::{Declared, Snapshot},
    report::{Cause, Event, Record, SUPERSEDED},
};

use super::path::Ongoing;

/// `old` is of the snapshot before; what stands there now is compared with `new`, and told anew where that differs too.
pub(super) fn record(old: &Declared, drift: &Ongoing, new: &Snapshot) -> Record {
    let mut record = Record::new(Event::DriftResolved);
    record.policy = Some(old.policy.name.clone());
    record.version = Some(old.policy.version.clone());
    record.path = Some(old.path.clone());
    record.cause = Some(Cause::Policy);
    record.severity = Some(old.severity);
    record.drift.clone_from(&drift.drifts);
    record.reason = Some(SUPERSEDED);
    let now = new
        .files
        .binary_search_by(|declared| declared.path.cmp(&old.path))
        .ok()
        .map(|at| &new.files[at].policy);
    record.message = Some(match now {
        Some(policy) if policy.name == old.policy.name && policy.version == old.policy.version => {
            "it is declared otherwise now".to_owned()
        }
        Some(policy) => format!("{} {} declares it now", policy.name, policy.version),
        None => "no policy declares it any more".to_owned(),
    });
    record
}
