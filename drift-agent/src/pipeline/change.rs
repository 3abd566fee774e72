//! What is declared changes: the folder is read again, or somebody asks for a version. Versions change whole or not at all.

use std::{sync::Arc, time::SystemTime};

use drift_common::escape;
use log::{debug, error, warn};
use tokio::sync::oneshot;

use crate::{
    declare::{ActivePolicy, Basis, Snapshot, Sources},
    report::{Cause, Event, Record},
    serve::Body,
    store::{Holding, Moved},
    switch::{self, Answer, Decision, Demand, SwitchError, Switched},
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
    snapshot: Arc<Snapshot>,
    sources: Sources,
    /// Policies that get another version by it.
    moves: Vec<Moved>,
    /// What is held from then on.
    holding: Holding,
    /// Who has asked for it; nobody: the folder says so.
    ask: Option<Ask>,
}

/// A change of versions has come to its end, the good one or the other.
#[derive(Debug)]
pub(super) struct Came {
    next: Next,
    result: Result<Switched, SwitchError>,
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
        let (restorer, store) = (Arc::clone(&self.restorer), Arc::clone(&self.store));
        let (register, old) = (self.register.clone(), Arc::clone(&self.snapshot));
        let (host, places) = (Arc::clone(&self.host), self.settings.state.join("places"));
        self.run(Haste::Urgent, move || {
            mounts::keep(&host, &places);
            let holding = next.holding.clone();
            let watch = register.as_ref().map(|register| &*register.watch);
            let both = (&*old, &*next.snapshot);
            let result = restorer.switch(watch, &store, both, &next.moves, holding);
            Done::Switch(Box::new(Came { next, result }))
        });
        Ok(())
    }

    /// Versions have changed, or nothing has.
    pub(super) fn switched(
        &mut self,
        came: Came,
        ears: &mut Option<Ears>,
    ) -> Result<(), PipelineError> {
        self.switching = None;
        let Came { next, result } = came;
        let Next {
            snapshot,
            sources,
            moves,
            holding: _,
            ask,
        } = next;
        match result {
            Ok(switched) => {
                self.keep(&snapshot, sources);
                self.declare(snapshot, Some(&switched), Cause::Policy, ears)?;
                self.after_switch(&switched, ask);
                // What else the folder says by now.
                self.again = true;
                Ok(())
            }
            Err(error) => self.not_switched(&snapshot, &moves, ask, &error),
        }
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
