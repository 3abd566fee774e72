//! What a change of versions takes away that was not as it was declared is kept before it does, as a heal keeps it.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Switched, plan};
use crate::{
    compare::Drift,
    declare::{Declared, Mode, Snapshot, Target},
    heal::{self, Action},
    observe::{Host, Observed, observe_at_rest},
    pipeline::{declared_side, observed_side},
    report::{Actor, Cause, Event, Evidence, Record},
    store::{Moved, Store},
};

/// One path.
#[derive(Debug)]
pub struct Taken {
    pub path: PathBuf,
    pub policy: String,
    /// What was declared of it until then; where nothing was, what is from then on.
    pub declared: Arc<Declared>,
    /// It was declared before.
    pub was_declared: bool,
    pub drifts: Vec<Drift>,
    /// Without the bytes.
    pub observed: Observed,
    pub evidence: Vec<Evidence>,
}

/// Versions that were changed before an agent was there to tell of it, and what went with them.
#[derive(Debug)]
pub struct Changed {
    pub switched: Switched,
    pub taken: Vec<Taken>,
}

impl Taken {
    /// What is told of it, where `new` is in force. `actor`: who had made it so, where its drift was known.
    #[must_use]
    pub fn record(self, new: &Snapshot, actor: Option<Result<Actor, String>>) -> Record {
        let mut record = Record::new(Event::PolicyActivated);
        let policy = new.policy(&self.policy);
        record.version = policy.map(|(policy, _)| policy.version.clone());
        record.message = Some(if self.was_declared {
            format!(
                "what stood there was not as {} declared it, and went with the change of versions: it is kept",
                self.declared.policy.version
            )
        } else {
            "nobody had declared what stood there, and it went with the change of versions: it is kept"
                .to_owned()
        });
        record.policy = Some(self.policy);
        record.path = Some(self.path);
        record.reason = Some("replaced");
        record.cause = Some(Cause::Policy);
        record.severity = Some(self.declared.severity);
        record.drift = self.drifts;
        record.declared = Some(declared_side(&self.declared));
        record.observed = Some(observed_side(&self.observed));
        record.evidence = self.evidence;
        record.actor =
            Some(actor.unwrap_or_else(|| Err("it was found when the versions changed".to_owned())));
        record
    }
}

/// Keeps it. Blocking, and done by who asks for the change. Where what stands there is as the versions before declare it nothing is kept: those
/// are known. What cannot be kept holds no change up. Of paths that are `known` to be so nothing is read.
#[must_use]
pub fn keep_evidence(
    host: &Host,
    store: &Store,
    old: &Snapshot,
    new: &Snapshot,
    moves: &[Moved],
    known: &dyn Fn(&Declared) -> bool,
) -> Vec<Taken> {
    let moved: BTreeSet<&str> = moves.iter().map(|step| step.policy.as_str()).collect();
    let before = old.files.iter().map(|declared| (declared.real(), declared));
    let before: HashMap<&Path, &Arc<Declared>> = before.collect();
    let mut taken = Vec::new();
    let mut gone: HashSet<PathBuf> = plan::dropped(old, new, &moved).into_iter().collect();
    let heals = |declared: &&Arc<Declared>| {
        moved.contains(declared.policy.name.as_str()) && declared.on_drift == Mode::Heal
    };
    for declared in new.files.iter().filter(heals) {
        if let Target::Directory(_) = declared.target {
            let Some((mut found, Action::Clear(mut names))) = judged(host, declared) else {
                continue;
            };
            // What was declared until now is looked at by itself.
            names.retain(|name| {
                let path = declared.real().join(name);
                let is_known = before.contains_key(&*path);
                is_known.then(|| gone.insert(path));
                !is_known
            });
            found.was_declared = before.contains_key(declared.real());
            taken.extend(kept(host, store, found, &Action::Clear(names)));
            continue;
        }
        let earlier = before.get(declared.real()).copied();
        if earlier.is_some_and(|earlier| known(earlier)) {
            continue;
        }
        let Some((mut found, action)) = judged(host, earlier.unwrap_or(declared)) else {
            continue;
        };
        // As the new version wants it already: it stays.
        if earlier.is_some() && judged(host, declared).is_none() {
            continue;
        }
        found.was_declared = earlier.is_some();
        taken.extend(kept(host, store, found, &action));
    }
    for declared in old.files.iter().filter(|old| gone.contains(old.real())) {
        if let Some((found, action)) = judged(host, declared) {
            taken.extend(kept(host, store, found, &action));
        }
    }
    taken
}

/// What stands there, and what would put it right; `None`: nothing has to, or can.
fn judged(host: &Host, declared: &Arc<Declared>) -> Option<(Taken, Action)> {
    let mut observed = observe_at_rest(host, declared);
    let drifts = plan::healable(declared, &observed);
    if drifts.is_empty() {
        return None;
    }
    let action = heal::plan(declared, &drifts, &observed.found).ok()?;
    observed.held = None;
    let taken = Taken {
        path: declared.path.clone(),
        policy: declared.policy.name.clone(),
        declared: Arc::clone(declared),
        was_declared: true,
        drifts,
        observed,
        evidence: Vec::new(),
    };
    Some((taken, action))
}

fn kept(host: &Host, store: &Store, taken: Taken, action: &Action) -> Option<Taken> {
    let evidence = heal::doomed(host, store, &taken.declared, action).keep(store);
    (!evidence.is_empty()).then_some(Taken { evidence, ..taken })
}
