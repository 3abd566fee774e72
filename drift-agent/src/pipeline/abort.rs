//! Somebody wants a change of versions not to be: one that waits, one that is being staged, one that is decided.

use drift_common::escape;
use log::debug;
use tokio::sync::oneshot;

use crate::{
    declare::Snapshot,
    report::{Actor, Event, Record, complain},
    serve::{Aborting, Body, Peer},
    store::Moved,
    switch::{self, Answer},
};

use super::{
    Pipeline, PipelineError,
    stops::{by, who},
};

/// Who waits for the end of what is under way.
#[derive(Debug)]
pub(super) struct Stopping {
    wish: Wish,
    to: oneshot::Sender<Body>,
}

#[derive(Debug)]
struct Wish {
    policy: String,
    by: String,
    reason: String,
    actor: Result<Actor, String>,
}

impl Stopping {
    fn answer(self, answer: Answer) {
        tell(self.to, answer);
    }

    /// It came too late.
    pub(super) fn tell_late(self, moves: &[Moved]) {
        let back = moves.iter().find(|moved| moved.policy == self.wish.policy);
        let back = back.map_or(String::new(), |moved| {
            let policy = escape::name(&moved.policy);
            format!(
                "`drift-agent rollback {policy} --to {}` goes back\n",
                moved.from
            )
        });
        let versions = switch::shown(moves);
        let text = format!("{versions} was decided already, and has come\n{back}");
        self.answer(Answer::new(10, text));
    }

    /// It has failed by itself.
    pub(super) fn tell_failed(self, moves: &[Moved]) {
        let versions = switch::shown(moves);
        let text = format!("{versions} has failed by itself. Nothing was changed.\n");
        self.answer(Answer::new(0, text));
    }
}

fn tell(to: oneshot::Sender<Body>, answer: Answer) {
    if to.send(Body::Done(answer)).is_err() {
        debug!("who wanted a change of versions stopped has gone");
    }
}

impl Pipeline {
    /// Stops the change that moves a policy, if it is not decided.
    pub(super) fn abort(
        &mut self,
        asked: &Aborting,
        peer: Peer,
        to: oneshot::Sender<Body>,
    ) -> Result<(), PipelineError> {
        let wish = Wish {
            policy: asked.policy.clone(),
            by: by(&asked.by, peer),
            reason: asked.reason.clone(),
            actor: who(peer),
        };
        let is_of = |moves: &[Moved]| moves.iter().any(|moved| moved.policy == asked.policy);
        if let Some(unknown) = self.unknown(Some(&asked.policy)) {
            tell(to, unknown);
            return Ok(());
        }
        if let Some(new) = &self.switching {
            let moves = switch::moved(&self.snapshot, new);
            if !is_of(&moves) {
                tell(to, self.nothing_of(&asked.policy));
            } else if self.stopping.is_some() {
                tell(to, Answer::busy());
            } else if let Err(error) = self.store.ask_abort() {
                tell(to, Answer::new(1, format!("{error}\nIt goes on.\n")));
            } else {
                self.stopping = Some(Stopping { wish, to });
            }
            return Ok(());
        }
        let answer = match self.next.take_if(|next| is_of(&next.moves)) {
            Some(next) => {
                let is_asked_for = next.ask.is_some();
                if let Some(ask) = next.ask {
                    ask.answer(wish.answer(&next.moves));
                }
                self.aborted(&next.snapshot, &next.moves, &wish, is_asked_for)?
            }
            None => match self.waiting().filter(|(_, moves)| is_of(moves)) {
                Some((new, moves)) => self.aborted(&new, &moves, &wish, false)?,
                None => self.nothing_of(&asked.policy),
            },
        };
        tell(to, answer);
        Ok(())
    }

    /// What was under way has ended before it was decided, because somebody wanted that.
    pub(super) fn has_stopped(
        &mut self,
        stopping: Stopping,
        new: &Snapshot,
        moves: &[Moved],
        ask: Option<super::change::Ask>,
    ) -> Result<(), PipelineError> {
        let is_asked_for = ask.is_some();
        if let Some(ask) = ask {
            ask.answer(stopping.wish.answer(moves));
        }
        let answer = self.aborted(new, moves, &stopping.wish, is_asked_for)?;
        stopping.answer(answer);
        Ok(())
    }

    /// What the folder says and what waits for the end of something that people have put on.
    fn waiting(&self) -> Option<(Snapshot, Vec<Moved>)> {
        if !self.halt.waits {
            return None;
        }
        let (folder, mode) = (&self.settings.policies, self.settings.mode);
        let (outcome, _) = self.store.look(folder, &self.settings.host_root, mode);
        let new = outcome.ok()?;
        let moves = switch::moved(&self.snapshot, &new);
        Some((new, moves))
    }

    /// Nothing has changed, and the folder alone does not bring it back.
    fn aborted(
        &mut self,
        new: &Snapshot,
        moves: &[Moved],
        wish: &Wish,
        is_asked_for: bool,
    ) -> Result<Answer, PipelineError> {
        let versions = switch::shown(moves);
        let by = escape::printable(&wish.by);
        let mut sentence = format!(
            "{versions} was aborted by {by}: {}. Nothing was changed",
            escape::printable(&wish.reason)
        );
        // What somebody has asked for is held by nobody who does not get it.
        if !is_asked_for {
            let (policies, reason) = (&self.store, &wish.reason);
            if let Err(error) = switch::hold_aborted(policies, new, moves, &wish.by, reason) {
                return Ok(Answer::new(1, format!("{error}\nIt comes still.\n")));
            }
            let each = moves
                .iter()
                .map(|moved| format!("{} at {}", escape::name(&moved.policy), moved.from));
            let held: Vec<String> = each.collect();
            sentence += &format!(
                ", and this node holds {} until its Policy says another activeVersion",
                held.join(", ")
            );
        }
        complain(format_args!("{sentence}."));
        for moved in moves {
            let mut record = Record::new(Event::PolicyRejected);
            record.policy = Some(moved.policy.clone());
            record.version = Some(moved.to.clone());
            record.reason = Some(crate::heal::ABORTED);
            record.message = Some(sentence.clone());
            record.actor = Some(wish.actor.clone());
            self.reporter.report(&record)?;
        }
        self.halt.waits = false;
        // With what is held now, whatever else the folder says holds.
        self.again = true;
        Ok(Answer::new(
            0,
            format!("{}\n", sentence.replace(". ", ".\n")),
        ))
    }

    /// There is nothing to stop, and how to go back is another question.
    fn nothing_of(&self, policy: &str) -> Answer {
        let name = escape::name(policy);
        let at = self.snapshot.policy(policy);
        let at = at.map_or(String::new(), |(active, _)| {
            format!(": it has the version {}", active.version)
        });
        Answer::new(
            10,
            format!(
                "no change of {name} is under way, and none waits{at}\n`drift-agent rollback {name}` goes back to the one before\n"
            ),
        )
    }
}

impl Wish {
    /// To who has asked for the change.
    fn answer(&self, moves: &[Moved]) -> Answer {
        let versions = switch::shown(moves);
        let by = escape::printable(&self.by);
        let why = escape::printable(&self.reason);
        let text = format!("{versions} was aborted by {by}: {why}\nNothing was changed.\n");
        Answer::new(1, text)
    }
}
