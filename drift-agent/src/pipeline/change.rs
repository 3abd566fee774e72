//! What is declared changes: the folder is read again, or somebody asks for a version. Versions change whole or not at all.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::SystemTime};

use drift_common::escape;
use log::{debug, error, warn};
use tokio::sync::oneshot;

use crate::{
    declare::{ActivePolicy, Basis, Declared, Snapshot, Sources},
    observe::Stat,
    report::{Cause, Event, Record},
    serve::Body,
    store::{Holding, Moved},
    switch::{self, Answer, Decision, Demand, SwitchError, Switched, Taken},
};

use super::{
    Ears, Pipeline, PipelineError, mounts,
    work::{Done, Haste},
};

/// A demand, and who waits for what comes of it.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) demand: Demand,
    /// Only say what would happen.
    pub(super) dry_run: bool,
    pub(super) to: oneshot::Sender<Body>,
}

impl Ask {
    pub(super) fn answer(self, answer: Answer) {
        if self.to.send(Body::Version(answer)).is_err() {
            debug!("who asked for a version has gone; it happens all the same");
        }
    }
}

/// What is to be declared next.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) snapshot: Arc<Snapshot>,
    sources: Sources,
    /// Policies that get another version by it.
    pub(super) moves: Vec<Moved>,
    /// What is held from then on.
    holding: Holding,
    /// Who has asked for it; nobody: the folder says so.
    pub(super) ask: Option<Ask>,
}

/// A change of versions has come to its end, the good one or the other.
#[derive(Debug)]
pub(super) struct Came {
    next: Next,
    result: Result<Switched, SwitchError>,
    /// What was not as declared, and is kept.
    taken: Vec<Taken>,
}

impl Pipeline {
    /// Reads the policy folder again. One that is not valid changes nothing but what is said.
    pub(super) fn reload(&mut self, ears: &mut Option<Ears>) -> Result<Basis, PipelineError> {
        let (folder, mode) = (&self.settings.policies, self.settings.mode);
        let root = &self.settings.host_root;
        if self.switching.is_some() {
            // What is held may become something else by what is under way: nothing is remembered of this look.
            self.again = true;
            let (_, basis) = self
                .store
                .look_with(folder, root, mode, &self.store.holds());
            return Ok(basis);
        }
        let (outcome, mut basis) = self.store.look(folder, root, mode);
        let sources = basis.take_sources();
        if outcome.is_ok() {
            self.rejected = None;
        }
        match outcome {
            Ok(snapshot) if snapshot == *self.snapshot => {
                self.forget_next();
                self.keep(&snapshot, sources);
            }
            Ok(snapshot) => {
                self.forget_next();
                let moves = switch::moved(&self.snapshot, &snapshot);
                if let Some(stop) = self.stop_of_moves(&snapshot, &moves, false) {
                    self.say_waits(&moves, &stop)?;
                    return Ok(basis);
                }
                self.halt.waits = false;
                self.next = Some(Next {
                    snapshot: Arc::new(snapshot),
                    sources,
                    moves,
                    holding: self.store.holding(),
                    ask: None,
                });
                self.advance(ears)?;
            }
            Err(rejected) => {
                self.forget_next();
                self.say_rejected(&rejected)?;
            }
        }
        Ok(basis)
    }

    /// Somebody asks for a version.
    pub(super) fn asked(&mut self, ask: Ask, ears: &mut Option<Ears>) -> Result<(), PipelineError> {
        if self.switching.is_some() || self.next.is_some() {
            ask.answer(Answer::busy());
            return Ok(());
        }
        let (policies, mode) = (&self.settings.policies, self.settings.mode);
        let now = SystemTime::now();
        let Decision {
            moves,
            holding,
            snapshot,
            mut basis,
        } = match switch::choose(&self.store, policies, mode, &ask.demand, now) {
            Ok(decision) => decision,
            Err(error) => {
                ask.answer(Answer::failed(&error));
                return Ok(());
            }
        };
        if moves.is_empty() {
            let answer = Answer::already(&ask.demand);
            ask.answer(answer);
            return Ok(());
        }
        if let Some(stop) = self.stop_of_moves(&snapshot, &moves, true) {
            let text = format!("{}\nNothing was changed.\n", stop.message);
            ask.answer(Answer::new(10, text));
            return Ok(());
        }
        if ask.dry_run {
            let steps = switch::steps(&self.host, &self.snapshot, &snapshot, &moves);
            ask.answer(Answer::rehearsed(&moves, steps));
            return Ok(());
        }
        self.next = Some(Next {
            snapshot: Arc::new(snapshot),
            sources: basis.take_sources(),
            moves,
            holding,
            ask: Some(ask),
        });
        self.advance(ears)
    }

    /// What waited for the jobs that were under way begins.
    pub(super) fn advance(&mut self, ears: &mut Option<Ears>) -> Result<(), PipelineError> {
        // A heal of the old state that is under way must not land after the new state was looked at.
        if self.running > 0 {
            return Ok(());
        }
        let Some(next) = self.next.take() else {
            return Ok(());
        };
        if next.moves.is_empty() {
            self.keep(&next.snapshot, next.sources);
            return self.declare(next.snapshot, None, Cause::Policy, ears);
        }
        self.switching = Some(Arc::clone(&next.snapshot));
        // Before anybody can ask for the end of this one.
        let is_clear = self.store.forget_abort();
        let (restorer, store) = (Arc::clone(&self.restorer), Arc::clone(&self.store));
        let (register, old) = (self.register.clone(), Arc::clone(&self.snapshot));
        let (host, places) = (Arc::clone(&self.host), self.settings.state.join("places"));
        let seen = self.seen_as_declared(&next.moves);
        self.run(Haste::Urgent, move || {
            mounts::keep(&host, &places);
            let holding = next.holding.clone();
            let watch = register.as_ref().map(|register| &*register.watch);
            let both = (&*old, &*next.snapshot);
            let known = |declared: &Declared| {
                let stat = seen.get(&declared.path);
                stat.is_some_and(|stat| {
                    host.links_hold(declared).is_ok() && host.stat(declared.real()) == Some(*stat)
                })
            };
            let taken = switch::keep_evidence(&host, &store, both.0, both.1, &next.moves, &known);
            let result = is_clear
                .map_err(SwitchError::from)
                .and_then(|()| restorer.switch(watch, &store, both, &next.moves, holding));
            Done::Switch(Box::new(Came {
                next,
                result,
                taken,
            }))
        });
        Ok(())
    }

    /// Paths of these policies that were as declared at their last look, and of which nothing was heard since; with what they were like then.
    fn seen_as_declared(&self, moves: &[Moved]) -> HashMap<PathBuf, Stat> {
        let both = self.snapshot.files.iter().zip(&self.paths);
        let seen = both.filter_map(|(declared, state)| {
            let is_clean = state.looked && state.drift.is_none() && state.why.is_none();
            let name = &declared.policy.name;
            let is_moved = is_clean && moves.iter().any(|moved| moved.policy == *name);
            state
                .stat
                .filter(|_| is_moved)
                .map(|stat| (declared.path.clone(), stat))
        });
        seen.collect()
    }

    /// Versions have changed, or nothing has.
    pub(super) fn switched(
        &mut self,
        came: Came,
        ears: &mut Option<Ears>,
    ) -> Result<(), PipelineError> {
        self.switching = None;
        let Came {
            next,
            result,
            taken,
        } = came;
        let stopping = self.stopping.take();
        let Next {
            snapshot,
            sources,
            moves,
            holding: _,
            ask,
        } = next;
        match result {
            Ok(switched) => {
                if let Some(stopping) = stopping {
                    stopping.tell_late(&moves);
                }
                let replaced = self.replaced(taken, &snapshot);
                self.keep(&snapshot, sources);
                self.declare(snapshot, Some(&switched), Cause::Policy, ears)?;
                for record in replaced {
                    self.tell(&record)?;
                }
                self.after_switch(&switched, ask);
                // What else the folder says by now.
                self.again = true;
                Ok(())
            }
            Err(error) => match stopping {
                Some(stopping) if error.is_aborted() => {
                    self.has_stopped(stopping, &snapshot, &moves, ask)
                }
                stopping => {
                    if let Some(stopping) = stopping {
                        stopping.tell_failed(&moves);
                    }
                    self.not_switched(&snapshot, &moves, ask, &error)
                }
            },
        }
    }

    /// What was not as declared and went with the versions: who had made it so is known as long as the old ones are in force here.
    fn replaced(&self, taken: Vec<Taken>, new: &Snapshot) -> Vec<Record> {
        let old = &self.snapshot.files;
        let each = taken.into_iter().map(|taken| {
            let at = old.binary_search_by(|declared| declared.path.cmp(&taken.path));
            let drift = at.ok().and_then(|index| self.paths[index].drift.as_ref());
            let actor = drift.map(|drift| drift.actor.clone());
            taken.record(
                new,
                actor.map(|actor| actor.unwrap_or_else(|| Err("not known".to_owned()))),
            )
        });
        each.collect()
    }

    /// Nothing has changed, and nobody tries that again by himself.
    fn not_switched(
        &mut self,
        new: &Snapshot,
        moves: &[Moved],
        ask: Option<Ask>,
        why: &SwitchError,
    ) -> Result<(), PipelineError> {
        let versions = switch::shown(moves);
        error!("{versions} failed, and nothing has changed: {why}");
        let mut record = Record::new(Event::PolicyRejected);
        if let [one] = moves {
            record.policy = Some(one.policy.clone());
            record.version = Some(one.to.clone());
        }
        record.reason = Some("activation-failed");
        record.message = Some(format!(
            "{versions} failed ({}), nothing has changed, and it is not tried again by itself: {why}",
            why.reason()
        ));
        match ask {
            Some(ask) => {
                switch::note_failure(&self.store, &ask.demand, moves, why);
                ask.answer(Answer::failed(why));
            }
            None => {
                if let Err(error) = switch::hold_back(&self.store, new, moves, why) {
                    warn!("that a change of versions has failed is not kept: {error}");
                    // Without that the same would be tried again at once.
                    return Ok(self.reporter.report(&record)?);
                }
            }
        }
        // With the versions that are held now, whatever else the folder says holds.
        self.again = true;
        Ok(self.reporter.report(&record)?)
    }

    /// Whether the folder is to be read again, now.
    pub(super) fn may_read_again(&mut self) -> bool {
        self.switching.is_none() && std::mem::take(&mut self.again)
    }

    /// Which versions are held could not be read when they may have changed, and can be now.
    pub(super) fn knows_holding_again(&self) -> bool {
        self.store.is_holding_old() && self.store.read_holding_again().is_ok()
    }

    /// What was to come next does not come.
    fn forget_next(&mut self) {
        if let Some(ask) = self.next.take().and_then(|next| next.ask) {
            ask.answer(Answer::busy());
        }
    }

    /// Why a policy has the version that it has, where there is more to say than that.
    pub(super) fn how_activated(
        &self,
        policy: &ActivePolicy,
        switched: Option<&Switched>,
        holding: &Holding,
    ) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(switched) = switched {
            let mut moves = switched.moves.iter();
            if let Some(moved) = moves.find(|moved| moved.policy == policy.name) {
                parts.push(format!("it was {}", moved.from));
                parts.push(switched.sentence());
            }
        }
        if let Some(held) = holding.held.get(&policy.name) {
            parts.push(format!(
                "held instead of {} by {}: {}",
                held.instead_of,
                escape::printable(&held.by),
                escape::printable(&held.reason)
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
