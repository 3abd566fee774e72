//! Changes of versions: chosen so that all fits, made whole or not at all, and held where they are not what the policy folder says.
//!
//! Who asks for a version ([`Demand`]) gets it by a hold: the version takes the place of what the Policy says, until that says another one.
//! There is one answer to which version is active, and healing knows no other: what was rolled back does not come back. A version whose
//! change fails is not tried again by itself; what was active before is held instead, with the reason.

mod answer;
mod choose;
mod evidence;
mod pause;
mod plan;

pub use answer::Answer;
pub use choose::{Decision, Demand, Wish, choose};
pub use evidence::{Changed, Taken, keep_evidence};
pub use pause::{paused, resumed};

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::SystemTime,
};

use drift_common::{
    escape,
    policy::{Hold, Holds, Refused},
};
use thiserror::Error;

use crate::{
    declare::{AfterHeal, Mode, Rejected, Snapshot},
    heal::{self, Finished, HealError, Impossible, Step, Transaction, TransactionError},
    observe::{Host, observe},
    reload,
    store::{Held, Holding, Moved, Store, StoreError},
};

/// Who holds a version whose successor has failed.
const ITSELF: &str = "drift-agent";

/// Why versions did not change. Nothing else has.
#[derive(Debug, Error)]
pub enum SwitchError {
    #[error("{}", .0.plain())]
    Rejected(Rejected),
    #[error("{0}")]
    Refused(#[from] Refused),
    #[error("{0}")]
    NoEarlier(String),
    #[error("{}: {}", escape::path(.path), .why.sentence())]
    Impossible { path: PathBuf, why: Impossible },
    #[error("{}: {source}", escape::path(.path))]
    Unwritable { path: PathBuf, source: HealError },
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Said by the restorer, which has tried it, or has not.
    #[error("{message}")]
    Restorer {
        reason: &'static str,
        message: String,
        is_tried: bool,
    },
}

impl SwitchError {
    /// One of a closed set, for records and metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Rejected(rejected) => rejected.reason(),
            Self::Refused(refused) => refused.reason(),
            Self::NoEarlier(_) => "no-earlier",
            Self::Impossible { why, .. } => why.reason(),
            Self::Unwritable { source, .. } => source.reason(),
            Self::Transaction(error) => error.reason(),
            Self::Store(error) => error.reason(),
            Self::Restorer { reason, .. } => reason,
        }
    }

    /// The same of the path as it is declared.
    fn at(self, declared: &Path) -> Self {
        let path = declared.to_owned();
        match self {
            Self::Impossible { why, .. } => Self::Impossible { path, why },
            Self::Unwritable { source, .. } => Self::Unwritable { path, source },
            other => other,
        }
    }

    /// Whether somebody has stopped it.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.reason() == heal::ABORTED
    }

    /// Whether it was tried: what is only refused, or stopped, has not failed.
    fn has_failed(&self) -> bool {
        match self {
            Self::Rejected(_) | Self::Refused(_) | Self::NoEarlier(_) | Self::Store(_) => false,
            Self::Transaction(TransactionError::Aborted) => false,
            Self::Impossible { .. } | Self::Unwritable { .. } | Self::Transaction(_) => true,
            Self::Restorer { is_tried, .. } => *is_tried,
        }
    }
}

/// What has come of a change.
#[derive(Debug, Default)]
pub struct Switched {
    pub moves: Vec<Moved>,
    /// Paths that were written.
    pub written: usize,
    pub notes: Vec<String>,
    /// It is decided, and some of it is left to do.
    pub is_unfinished: bool,
    /// Paths that are not as declared after it.
    pub amiss: Vec<PathBuf>,
    /// The first of those that were written.
    pub first: Option<PathBuf>,
    /// What is to be done for programs to take it in: each once, after all of it was read again.
    pub after: Vec<AfterHeal>,
}

impl Switched {
    /// What there is to say beside the versions.
    #[must_use]
    pub fn sentence(&self) -> String {
        let s = if self.written == 1 { "" } else { "s" };
        let mut parts = vec![format!("{} path{s} written", self.written)];
        parts.extend(self.notes.iter().cloned());
        if !self.after.is_empty() {
            let after: Vec<String> = self.after.iter().map(ToString::to_string).collect();
            parts.push(format!("then: {}", after.join(", ")));
        }
        if let Some(first) = self.amiss.first() {
            let more = match self.amiss.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            parts.push(format!(
                "not as declared after it: {}{more}",
                escape::path(first)
            ));
        }
        parts.join("; ")
    }
}

/// Versions as people write them: `web 1.0.0 -> 2.0.0`.
#[must_use]
pub fn shown(moves: &[Moved]) -> String {
    let each = moves
        .iter()
        .map(|Moved { policy, from, to }| format!("{} {from} -> {to}", escape::name(policy)));
    each.collect::<Vec<_>>().join(", ")
}

/// The policies that have another version in `new`. One that is only in one of the two has not changed its version.
#[must_use]
pub fn moved(old: &Snapshot, new: &Snapshot) -> Vec<Moved> {
    let changed = new.policies.iter().filter_map(|policy| {
        let (before, _) = old.policy(&policy.name)?;
        (before.version != policy.version).then(|| Moved {
            policy: policy.name.clone(),
            from: before.version.clone(),
            to: policy.version.clone(),
        })
    });
    changed.collect()
}

/// What would be written: everything that is not as `new` declares, of policies that have moved.
///
/// # Errors
/// One of the paths cannot be made as declared, so not all of them can.
pub fn steps(
    host: &Host,
    old: &Snapshot,
    new: &Snapshot,
    moves: &[Moved],
) -> Result<Vec<Step>, SwitchError> {
    plan::steps(host, old, new, moves)
}

/// Makes what `new` declares of the policies that have moved, whole or not at all, and looks at it again. Blocking.
///
/// # Errors
/// Nothing has changed.
pub fn perform(
    host: &Host,
    store: &Store,
    old: &Snapshot,
    new: &Snapshot,
    moves: &[Moved],
    mut holding: Holding,
) -> Result<Switched, SwitchError> {
    store.admit(new).map_err(SwitchError::Rejected)?;
    let steps = plan::steps(host, old, new, moves)?;
    for Moved { policy, to, .. } in moves {
        holding.forget_failure(policy, to);
    }
    let written: Vec<PathBuf> = steps.iter().map(|step| step.path().to_owned()).collect();
    let mut after = Vec::new();
    for path in &written {
        let of = |snapshot: &Snapshot| {
            let found = snapshot
                .files
                .binary_search_by(|declared| declared.path.as_path().cmp(path));
            found
                .ok()
                .map(|index| snapshot.files[index].after_heal.clone())
        };
        // What goes with the old version is what its programs have to hear of.
        reload::add(&mut after, &of(new).or_else(|| of(old)).unwrap_or_default());
    }
    let transaction = Transaction {
        moves: moves.to_vec(),
        holding,
        steps,
        after: after.clone(),
    };
    let Finished {
        mut notes,
        left,
        given_up,
    } = heal::transact(host, store, transaction)?;
    for (path, error) in &left {
        notes.push(format!(
            "{} is left to do, at the next start or before the next change ({error})",
            escape::path(path)
        ));
    }
    for (path, why) in &given_up {
        notes.push(format!("{}: {why}", escape::path(path)));
    }
    let by_place = new.files.iter().map(|declared| (declared.real(), declared));
    let by_place: HashMap<&Path, _> = by_place.collect();
    let amiss = |path: &Path| {
        let declared = by_place.get(path)?;
        let observed = observe(host, declared, None, &mut |_| {});
        (!plan::healable(declared, &observed).is_empty()).then(|| declared.path.clone())
    };
    Ok(Switched {
        moves: moves.to_vec(),
        first: written.first().cloned(),
        after,
        amiss: written.iter().filter_map(|path| amiss(path)).collect(),
        written: written.len(),
        is_unfinished: !left.is_empty(),
        notes,
    })
}

/// A change that was asked for has failed: that is kept. What was active stays so.
pub fn note_failure(store: &Store, demand: &Demand, moves: &[Moved], error: &SwitchError) {
    if !error.has_failed() {
        return;
    }
    let mut holding = match store.holding_now() {
        Ok(holding) => holding,
        Err(error) => return log::warn!("that a version has failed is not kept: {error}"),
    };
    let (reason, message) = (error.reason(), error.to_string());
    // What moves along may be as good as ever.
    for Moved { policy, to, .. } in moves.iter().filter(|step| step.policy == demand.policy) {
        holding.failed(policy, to, reason, &message, SystemTime::now());
    }
    if let Err(error) = store.set_holding(&holding) {
        log::warn!("that a version has failed is not kept: {error}");
    }
}

/// A change that the policy folder asks for has failed: each policy is held at the version that it had, until its Policy says another one.
pub fn hold_back(
    store: &Store,
    new: &Snapshot,
    moves: &[Moved],
    error: &SwitchError,
) -> Result<(), StoreError> {
    let mut holding = store.holding_now()?;
    let (reason, message, now) = (error.reason(), error.to_string(), SystemTime::now());
    for Moved { policy, to, .. } in moves {
        holding.failed(policy, to, reason, &message, now);
    }
    let why = format!("failed: {message}");
    stay(&mut holding, new, moves, ITSELF, &why);
    store.set_holding(&holding)
}

/// Somebody has stopped a change that the policy folder asks for: the same, and nothing has failed.
///
/// # Errors
/// What is held cannot be read or written: nothing is.
pub fn hold_aborted(
    store: &Store,
    new: &Snapshot,
    moves: &[Moved],
    by: &str,
    reason: &str,
) -> Result<(), StoreError> {
    let mut holding = store.holding_now()?;
    stay(
        &mut holding,
        new,
        moves,
        by,
        &format!("was aborted: {reason}"),
    );
    store.set_holding(&holding)
}

/// Each policy keeps the version that it has.
fn stay(holding: &mut Holding, new: &Snapshot, moves: &[Moved], by: &str, why: &str) {
    for Moved { policy, from, to } in moves {
        let Some((_, terms)) = new.policy(policy) else {
            continue;
        };
        let held = Held {
            version: from.clone(),
            instead_of: terms.said.clone(),
            since: SystemTime::now(),
            by: by.to_owned(),
            reason: format!("the change to {to} {why}"),
        };
        holding.held.insert(policy.clone(), held);
    }
}

/// The versions that were active when an agent ran last, as far as they are in the folder still: for a change that was made while none ran.
#[must_use]
pub fn before_the_stop(
    store: &Store,
    folder: &Path,
    mode: Option<Mode>,
    new: &Snapshot,
) -> Option<Snapshot> {
    let active = match store.state().active() {
        Ok(active) => active,
        Err(error) => {
            log::warn!("which versions were active before is not known: {error}");
            return None;
        }
    };
    let mut holds = Holds::new();
    for (name, version) in active {
        let Some((policy, terms)) = new.policy(&name) else {
            continue;
        };
        let (Ok(version), Ok(said)) = (version.parse(), terms.said.parse()) else {
            continue;
        };
        if policy.version != format!("{version}") {
            let hold = Hold {
                version,
                instead_of: said,
            };
            holds.insert(name, hold);
        }
    }
    if holds.is_empty() {
        return None;
    }
    // Policies that have not moved are where they are now.
    let mut all = store.holds();
    all.extend(holds);
    store
        .look_with(folder, store.host_root(), mode, &all)
        .0
        .inspect_err(|rejected| {
            log::info!(
                "the versions that were active before are not in the folder any more: {}",
                rejected.one_line()
            );
        })
        .ok()
}

#[cfg(test)]
mod tests;
