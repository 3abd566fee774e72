//! Heals that somebody asks for: each path is looked at afresh, decided as ever, and the answer waits for what comes of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use drift_common::escape;
use log::debug;
use tokio::sync::oneshot;

use crate::{
    compare::Drift,
    heal::plan,
    report::Cause,
    serve::{Body, HandOutcome, Healing, Refusal, Row, Rows},
};

use super::{Pipeline, PipelineError, path::Ongoing, timers::Timer};

/// When the answer is given, whatever is still to come.
const PATIENCE: Duration = Duration::from_secs(100);

/// Rows of one answer.
const MOST_ROWS: usize = 10_000;

/// One that is under way.
#[derive(Debug)]
pub(super) struct ByHand {
    to: oneshot::Sender<Body>,
    force: bool,
    /// Not answered for yet.
    waiting: BTreeSet<usize>,
    /// What was said of some that wait: why they are held.
    held: BTreeMap<usize, (&'static str, String)>,
    rows: BTreeMap<usize, Row>,
    as_declared: usize,
    /// Actions for programs to take it in are under way.
    after: Vec<String>,
}

impl ByHand {
    fn answer(self) {
        let rows = Rows {
            rows: self.rows.into_values().take(MOST_ROWS).collect(),
            as_declared: self.as_declared,
            after: self.after,
        };
        if self.to.send(Body::Healed(Box::new(rows))).is_err() {
            debug!("who asked to heal has gone; it happens all the same");
        }
    }
}

fn refuse(to: oneshot::Sender<Body>, reason: &str, message: String) {
    let refusal = Refusal {
        reason: reason.to_owned(),
        message,
    };
    if to.send(Body::Error(refusal)).is_err() {
        debug!("who asked to heal has gone");
    }
}

impl Pipeline {
    pub(super) fn heal_by_hand(
        &mut self,
        asked: &Healing,
        to: oneshot::Sender<Body>,
    ) -> Result<(), PipelineError> {
        if self.by_hand.is_some() || self.next.is_some() || self.switching.is_some() {
            let message = "another heal by hand, or a change of versions, is under way: ask again";
            refuse(to, "busy", message.to_owned());
            return Ok(());
        }
        let chosen = match self.chosen(asked) {
            Ok(chosen) => chosen,
            Err(why) => {
                refuse(to, "not-declared", why);
                return Ok(());
            }
        };
        let mut by_hand = ByHand {
            to,
            force: asked.force,
            waiting: chosen,
            held: BTreeMap::new(),
            rows: BTreeMap::new(),
            as_declared: 0,
            after: Vec::new(),
        };
        if asked.dry_run {
            let now = Instant::now();
            for index in std::mem::take(&mut by_hand.waiting) {
                match self.rehearsed(index, asked.force, now) {
                    Some(row) => drop(by_hand.rows.insert(index, row)),
                    None => by_hand.as_declared += 1,
                }
            }
            by_hand.answer();
            return Ok(());
        }
        let indices: Vec<usize> = by_hand.waiting.iter().copied().collect();
        log::info!(
            "a heal by hand of {} paths, by {}",
            indices.len(),
            escape::printable(&asked.by)
        );
        self.by_hand = Some(by_hand);
        self.timers.set(Timer::ByHand, Instant::now() + PATIENCE);
        for index in indices {
            if let Some(drift) = self.paths[index].drift.as_mut() {
                // What holds it is to be said again, to who asks now.
                drift.told = None;
            }
            self.look(index, Cause::Scan, true);
        }
        self.over_by_hand();
        Ok(())
    }

    /// The declared paths that are meant.
    fn chosen(&self, asked: &Healing) -> Result<BTreeSet<usize>, String> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in &asked.paths {
            paths.extend(path.path());
        }
        if let Some(policy) = &asked.policy
            && self.snapshot.policy(policy).is_none()
        {
            let name = escape::name(policy);
            return Err(format!("there is no policy {name} here"));
        }
        let mut chosen = BTreeSet::new();
        let mut met = vec![false; paths.len()];
        for (index, file) in self.snapshot.files.iter().enumerate() {
            if asked
                .policy
                .as_ref()
                .is_some_and(|policy| file.policy.name != *policy)
            {
                continue;
            }
            let mut is_meant = paths.is_empty();
            for (path, met) in paths.iter().zip(&mut met) {
                if file.path.starts_with(path) {
                    (is_meant, *met) = (true, true);
                }
            }
            if is_meant {
                chosen.insert(index);
            }
        }
        match paths.iter().zip(met).find(|(_, met)| !met) {
            Some((path, _)) => Err(format!(
                "{} is not declared, and nothing beneath it is: `drift-agent explain` says more",
                escape::path(path)
            )),
            None => Ok(chosen),
        }
    }

    /// What would come of a path that drifts.
    fn rehearsed(&mut self, index: usize, force: bool, now: Instant) -> Option<Row> {
        if !self.paths[index].looked {
            return Some(self.row(
                index,
                HandOutcome::NotOver,
                Some(("not-compared", "it was not compared yet".to_owned())),
            ));
        }
        self.paths[index].drift.as_ref()?;
        let row = match self.decision(index, now, force) {
            super::guard::Decision::Nothing => self.row(index, HandOutcome::Reported, None),
            super::guard::Decision::Hold(held) => {
                self.row(index, HandOutcome::Held, Some((held.reason, held.message)))
            }
            super::guard::Decision::Heal(_) => self.row(index, HandOutcome::WouldHeal, None),
        };
        Some(row)
    }

    fn row(&self, index: usize, outcome: HandOutcome, why: Option<(&'static str, String)>) -> Row {
        self.row_of(index, self.paths[index].drift.as_deref(), outcome, why)
    }

    fn row_of(
        &self,
        index: usize,
        drift: Option<&Ongoing>,
        outcome: HandOutcome,
        why: Option<(&'static str, String)>,
    ) -> Row {
        let file = &self.snapshot.files[index];
        let action = drift.and_then(|drift| {
            let healable = drift.healable(file);
            (!healable.is_empty()).then(|| plan(file, &healable, drift.print.found()).ok())?
        });
        Row {
            path: escape::path(&file.path).to_string(),
            policy: file.policy.name.clone(),
            version: file.policy.version.clone(),
            drift: drift.map_or_else(Vec::new, |drift| kinds(&drift.drifts)),
            plan: action.as_ref().map(|action| action.words(file)),
            action: action.map(|action| action.name().to_owned()),
            outcome,
            reason: why.as_ref().map(|(reason, _)| (*reason).to_owned()),
            message: why.map(|(_, message)| message),
        }
    }

    /// Whether somebody wants this path to be healed in spite of brakes.
    pub(super) fn is_forced(&self, index: usize) -> bool {
        let by_hand = self.by_hand.as_ref();
        by_hand.is_some_and(|by_hand| by_hand.force && by_hand.waiting.contains(&index))
    }

    /// A path is held that somebody may have asked for.
    pub(super) fn held_by_hand(&mut self, index: usize, reason: &'static str, message: &str) {
        if let Some(by_hand) = &mut self.by_hand
            && by_hand.waiting.contains(&index)
        {
            by_hand.held.insert(index, (reason, message.to_owned()));
        }
    }

    /// A look has come to a verdict.
    pub(super) fn looked_by_hand(&mut self, index: usize) {
        let Some(by_hand) = &mut self.by_hand else {
            return;
        };
        if !by_hand.waiting.contains(&index) || self.paths[index].busy.is_some() {
            return; // not asked for, or being healed
        }
        let held = by_hand.held.remove(&index);
        let row = match (&self.paths[index].drift, held) {
            (None, _) => None,
            (Some(_), Some(why)) => Some(self.row(index, HandOutcome::Held, Some(why))),
            (Some(_), None) => Some(self.row(index, HandOutcome::Reported, None)),
        };
        self.settle_by_hand(index, row);
    }

    /// A heal has come back. `drift`: what it has put back, or has tried to.
    pub(super) fn healed_by_hand(
        &mut self,
        index: usize,
        outcome: HandOutcome,
        drift: &Ongoing,
        why: Option<(&'static str, String)>,
    ) {
        let by_hand = self.by_hand.as_ref();
        if by_hand.is_none_or(|by_hand| !by_hand.waiting.contains(&index)) {
            return;
        }
        let row = self.row_of(index, Some(drift), outcome, why);
        self.settle_by_hand(index, Some(row));
    }

    fn settle_by_hand(&mut self, index: usize, row: Option<Row>) {
        let Some(by_hand) = &mut self.by_hand else {
            return;
        };
        by_hand.waiting.remove(&index);
        match row {
            Some(row) => drop(by_hand.rows.insert(index, row)),
            None => by_hand.as_declared += 1,
        }
        self.over_by_hand();
    }

    /// What programs were told after a heal.
    pub(super) fn after_by_hand(&mut self, sentences: &[String]) {
        if let Some(by_hand) = &mut self.by_hand {
            by_hand.after.extend_from_slice(sentences);
        }
        self.over_by_hand();
    }

    /// Answers when everything is over.
    fn over_by_hand(&mut self) {
        let is_over = |by_hand: &ByHand| by_hand.waiting.is_empty();
        if self.by_hand.as_ref().is_some_and(is_over)
            && !self.reloads_are_due()
            && let Some(by_hand) = self.by_hand.take()
        {
            self.timers.clear(Timer::ByHand);
            by_hand.answer();
        }
    }

    /// Answers now.
    pub(super) fn end_by_hand(&mut self) {
        let Some(by_hand) = &mut self.by_hand else {
            return;
        };
        let waiting = std::mem::take(&mut by_hand.waiting);
        for index in waiting {
            let why = ("unstable", "somebody is writing it, or the disk is slow: `drift-agent history` will say what came of it".to_owned());
            let row = self.row(index, HandOutcome::NotOver, Some(why));
            if let Some(by_hand) = &mut self.by_hand {
                by_hand.rows.insert(index, row);
            }
        }
        if let Some(by_hand) = self.by_hand.take() {
            by_hand.answer();
        }
    }

    /// What is declared is something else by now.
    pub(super) fn forget_by_hand(&mut self) {
        self.timers.clear(Timer::ByHand);
        if let Some(by_hand) = self.by_hand.take() {
            let message = "what is declared has changed meanwhile: ask again";
            refuse(by_hand.to, "busy", message.to_owned());
        }
    }
}

fn kinds(drifts: &[Drift]) -> Vec<String> {
    drifts.iter().map(|drift| drift.name().to_owned()).collect()
}
