//! What comes after heals, and after a change of versions: programs are made to take it in. Once for all that was healed together, beside everything
//! else: a command that hangs holds up its own policy's next ones alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use log::warn;

use crate::{
    declare::AfterHeal,
    reload::{self, Came, ReloadError},
    report::{AfterDone, Cause, Event, Outcome, Record},
    store::Store,
    switch::{Answer, Switched},
};

use super::{Pipeline, PipelineError, change::Ask, work::Done};

/// Heals that follow each other at once are one transaction; not for longer than this.
const TOGETHER: Duration = Duration::from_secs(1);

/// Actions that may take longer than this all in all are not waited for by who has asked for a version.
const MOST_WAIT: Duration = Duration::from_secs(100);

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    /// By policy: not begun yet.
    waiting: BTreeMap<String, Batch>,
    /// Policies whose actions are under way.
    running: BTreeSet<String>,
    /// Records of heals that wait for what comes of them.
    records: Vec<(u64, Record)>,
    next: u64,
    /// Heals that are queued or under way.
    pub(super) heals: usize,
}

/// Actions for what was healed together.
#[derive(Debug)]
struct Batch {
    since: Instant,
    actions: Vec<AfterHeal>,
    records: Vec<u64>,
    origin: Origin,
    ask: Option<(Ask, Answer)>,
}

/// What they are for.
#[derive(Clone, Debug)]
struct Origin {
    policy: String,
    version: String,
    path: PathBuf,
    cause: Cause,
}

/// They are over.
#[derive(Debug)]
pub(super) struct Reloaded {
    batch: Batch,
    came: Vec<Came>,
    done: Vec<AfterDone>,
}

impl Pipeline {
    /// A heal is well, and its record is to be told when programs have taken it in.
    pub(super) fn heal_is_well(
        &mut self,
        index: usize,
        record: Record,
    ) -> Result<(), PipelineError> {
        let file = Arc::clone(&self.snapshot.files[index]);
        if file.after_heal.is_empty() {
            return self.tell(&record);
        }
        let number = self.reloads.next;
        self.reloads.next += 1;
        let origin = Origin {
            policy: file.policy.name.clone(),
            version: file.policy.version.clone(),
            path: file.path.clone(),
            cause: record.cause.unwrap_or(Cause::Scan),
        };
        self.release_records(Some(&record))?;
        self.reloads.records.push((number, record));
        let batch = self.batch(origin);
        reload::add(&mut batch.actions, &file.after_heal);
        batch.records.push(number);
        Ok(())
    }

    fn batch(&mut self, origin: Origin) -> &mut Batch {
        let name = origin.policy.clone();
        self.reloads.waiting.entry(name).or_insert_with(|| Batch {
            since: Instant::now(),
            actions: Vec::new(),
            records: Vec::new(),
            origin,
            ask: None,
        })
    }

    /// Versions have changed. Who has asked is answered when programs have taken that in.
    pub(super) fn after_switch(&mut self, switched: &Switched, ask: Option<Ask>) {
        let answer = Answer::done(switched);
        let first = switched.moves.first().zip(switched.first.clone());
        let Some((moved, path)) = first.filter(|_| !switched.after.is_empty()) else {
            if let Some(ask) = ask {
                ask.answer(answer);
            }
            return;
        };
        let origin = Origin {
            policy: moved.policy.clone(),
            version: moved.to.clone(),
            path,
            cause: Cause::Policy,
        };
        let longest: Duration = switched.after.iter().map(longest).sum();
        let batch = self.batch(origin);
        reload::add(&mut batch.actions, &switched.after);
        match ask {
            Some(ask) if longest > MOST_WAIT || batch.ask.is_some() => ask.answer(answer),
            ask => batch.ask = ask.map(|ask| (ask, answer)),
        }
    }

    /// Begins what may begin.
    pub(super) fn start_reloads(&mut self) {
        if self.reloads.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        let is_quiet = self.reloads.heals == 0;
        let ready = |(policy, batch): (&String, &Batch)| {
            let is_due = is_quiet || now.saturating_duration_since(batch.since) > TOGETHER;
            (is_due && !self.reloads.running.contains(policy)).then(|| policy.clone())
        };
        let ready: Vec<String> = self.reloads.waiting.iter().filter_map(ready).collect();
        for policy in ready {
            let Some(batch) = self.reloads.waiting.remove(&policy) else {
                continue;
            };
            self.reloads.running.insert(policy);
            let (restorer, store) = (Arc::clone(&self.restorer), Arc::clone(&self.store));
            self.run_apart(move || {
                let came = restorer.after_heal(&batch.actions);
                let done = came.iter().map(|came| after_done(came, &store)).collect();
                Done::Reload(Box::new(Reloaded { batch, came, done }))
            });
        }
    }

    /// They are over: the records that have waited are told, and what failed is told by itself.
    pub(super) fn reloaded(&mut self, reloaded: Reloaded) -> Result<(), PipelineError> {
        let Reloaded { batch, came, done } = reloaded;
        self.reloads.running.remove(&batch.origin.policy);
        for number in &batch.records {
            let place = self.reloads.records.iter().position(|(of, _)| of == number);
            if let Some(place) = place {
                let (_, mut record) = self.reloads.records.remove(place);
                record.after_heal.clone_from(&done);
                self.reporter.report(&record)?;
            }
        }
        let Origin {
            policy,
            version,
            path,
            cause,
        } = &batch.origin;
        for (came, done) in came
            .iter()
            .zip(&done)
            .filter(|(came, _)| came.result.is_err())
        {
            let mut record = Record::new(Event::HealFailed);
            record.policy = Some(policy.clone());
            record.version = Some(version.clone());
            record.path = Some(path.clone());
            record.cause = Some(*cause);
            record.outcome = Some(Outcome::Failed);
            record.reason = Some("after-heal");
            record.message = Some(format!(
                "it is as declared, and what comes after that failed and is not tried again: {}",
                came.sentence()
            ));
            record.after_heal = vec![done.clone()];
            self.reporter.report(&record)?;
        }
        let sentences: Vec<String> = came.iter().map(Came::sentence).collect();
        if let Some((ask, answer)) = batch.ask {
            let failed = came.iter().any(|came| came.result.is_err());
            let lines: String = sentences.iter().map(|line| format!("{line}\n")).collect();
            let status = if failed { 1 } else { answer.status };
            ask.answer(Answer::new(status, answer.text + &lines));
        } else {
            for sentence in &sentences {
                log::info!("after {}: {sentence}", drift_common::escape::path(path));
            }
        }
        self.after_by_hand(&sentences);
        Ok(())
    }

    /// Whether anything is still to come.
    pub(super) fn reloads_are_due(&self) -> bool {
        !self.reloads.waiting.is_empty() || !self.reloads.running.is_empty()
    }

    /// Reports. What waits about the same path is told first: records of a path are in their order.
    pub(super) fn tell(&mut self, record: &Record) -> Result<(), PipelineError> {
        self.release_records(Some(record))?;
        Ok(self.reporter.report(record)?)
    }

    /// Records that wait, about the path of this one, or all of them.
    pub(super) fn release_records(&mut self, of: Option<&Record>) -> Result<(), PipelineError> {
        let path = of.and_then(|record| record.path.as_ref());
        let (ready, rest) = std::mem::take(&mut self.reloads.records)
            .into_iter()
            .partition(|(_, waiting)| of.is_none() || waiting.path.as_ref() == path);
        self.reloads.records = rest;
        let ready: Vec<(u64, Record)> = ready;
        for (_, record) in ready {
            self.reporter.report(&record)?;
        }
        Ok(())
    }
}

fn longest(action: &AfterHeal) -> Duration {
    match action {
        AfterHeal::Command { timeout, .. } | AfterHeal::Http { timeout, .. } => *timeout,
        AfterHeal::Signal { .. } | AfterHeal::Reload(_) | AfterHeal::Restart(_) => {
            Duration::from_secs(30)
        }
    }
}

/// For records. What a command has printed may be a secret: it is kept in the store, and shown by `history --show`.
fn after_done(came: &Came, store: &Store) -> AfterDone {
    let output = (!came.output.is_empty()).then(|| store.put_evidence(&came.output));
    AfterDone {
        action: came.action.to_string(),
        outcome: if came.result.is_ok() {
            "done"
        } else {
            "failed"
        },
        reason: came.result.as_ref().err().map(ReloadError::reason),
        message: match &came.result {
            Ok(done) if done.is_empty() => None,
            Ok(done) => Some(done.clone()),
            Err(error) => Some(error.to_string()),
        },
        output: output.and_then(|output| {
            output
                .inspect_err(|error| warn!("what a command has printed is not kept: {error}"))
                .ok()
        }),
        took_ns: u64::try_from(came.took.as_nanos()).unwrap_or(u64::MAX),
    }
}
