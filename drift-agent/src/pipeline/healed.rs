//! A heal has come back, with a fresh look at the declared path.

use std::time::{Duration, Instant};

use crate::{
    compare::{self, Drift},
    heal::{HealError, Healed, healable},
    report::{Event, Holders, Outcome, Record},
    serve::HandOutcome,
};

use super::{
    Ears, Pipeline, PipelineError, describe,
    path::{Fingerprint, Ongoing},
    timers::Timer,
    work::{Aftermath, Looked},
};

/// A heal that failed is tried again after this, then twice as long each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(300);

impl Pipeline {
    /// A heal came back, with a fresh look at the declared path: only that look says whether it worked.
    pub(super) fn healed(
        &mut self,
        index: usize,
        result: Result<Healed, HealError>,
        looked: &Looked,
        aftermath: Aftermath,
        ears: &mut Option<Ears>,
    ) -> Result<(), PipelineError> {
        if let Some(ears) = ears {
            self.drain_loads(ears);
        }
        if looked.overtaken {
            self.drain(ears)?;
        }
        let now = Instant::now();
        let file = std::sync::Arc::clone(&self.snapshot.files[index]);
        let drifts = looked.drifts.clone();
        // What nobody wants to be put back may stay.
        let out_of_reach = compare::attribute::out_of_reach(&file, &looked.observed);
        let is_healed = healable(&file, &drifts, out_of_reach).is_empty();
        let state = &mut self.paths[index];
        state.busy = None;
        state.stat = looked.observed.stat;
        let drift = state.drift.take();
        self.braked(index, drift.as_deref().filter(|_| result.is_ok()), now);
        let Some(mut drift) = drift else {
            self.reloads.heals = self.reloads.heals.saturating_sub(1);
            return Ok(());
        };
        let record = match result {
            Ok(healed) if is_healed => {
                drift.drifts.retain(|kind| !drifts.contains(kind));
                let mut record = self.about(Event::DriftHealed, index, drift.cause);
                record.outcome = Some(Outcome::Healed);
                record.heal_ns =
                    Some(
                        u64::try_from(
                            aftermath
                                .verified
                                .saturating_duration_since(drift.detected)
                                .as_nanos(),
                        )
                        .unwrap_or(u64::MAX),
                    );
                record.message = healed_message(&healed, &drift, aftermath.holders.as_ref());
                record.holders = aftermath.holders;
                if !aftermath.evidence.is_empty() {
                    record.evidence = aftermath.evidence;
                    record.actor.clone_from(&drift.actor);
                }
                Some(record)
            }
            Ok(_) if drifts.contains(&Drift::Unreadable) || drifts == [Drift::Unstable] => {
                let mut record = self.about(Event::HealUnverifiable, index, drift.cause);
                record.outcome = Some(Outcome::Unverifiable);
                record.reason = Some(if drifts == [Drift::Unstable] {
                    "changed-meanwhile"
                } else {
                    "unreadable"
                });
                record.message = Some(
                    "it was written, and could not be read again through the declared path"
                        .to_owned(),
                );
                Some(record)
            }
            Ok(_) if drift.diverges(&file, looked) => self.failed(
                index,
                &drift,
                "does-not-converge",
                "it was written twice, and both times the same other thing stood there when it was read again: something changes it at once. It is left alone until it is changed to something else, or declared anew"
                    .to_owned(),
            ),
            Ok(_) => self.failed(
                index,
                &drift,
                "changed-meanwhile",
                "it was written, and something else stood there when it was read again".to_owned(),
            ),
            // Somebody has put it back meanwhile.
            Err(_) if is_healed => Some(self.about(Event::DriftResolved, index, drift.cause)),
            Err(error) => self.failed(index, &drift, error.reason(), error.to_string()),
        };
        let (outcome, why) = match &record {
            Some(record) => (record.outcome, record.reason.zip(record.message.clone())),
            None => (
                Some(Outcome::Failed),
                drift.told.map(|told| (told, "as before".to_owned())),
            ),
        };
        if let Some(mut record) = record {
            record.drift.clone_from(&drift.drifts);
            record.declared = Some(describe::declared(&file));
            record.observed = Some(describe::observed(&looked.observed));
            drift.told = record.reason;
            if record.event == Event::DriftHealed {
                self.heal_is_well(index, record)?;
            } else {
                self.tell(&record)?;
            }
        }
        self.reloads.heals = self.reloads.heals.saturating_sub(1);
        let outcome = match outcome {
            Some(Outcome::Failed | Outcome::Suppressed) => HandOutcome::Failed,
            Some(Outcome::Unverifiable) => HandOutcome::Unverifiable,
            // Somebody else has put it back.
            Some(Outcome::Healed) | None => HandOutcome::Healed,
        };
        self.healed_by_hand(index, outcome, &drift, why);
        if is_healed {
            self.reached_again(index, drift.cause);
        }
        let state = &mut self.paths[index];
        if is_healed && !drifts.is_empty() {
            drift.print = Fingerprint::new(&file, looked);
            drift.drifts = drifts;
            drift.failures = 0;
            state.drift = Some(drift);
        } else if !drifts.is_empty() {
            drift.failures += 1;
            drift.print = Fingerprint::new(&file, looked);
            drift.drifts = drifts;
            let is_stuck = drift.is_stuck();
            let retry = FIRST_RETRY
                .saturating_mul(1 << drift.failures.saturating_sub(1).min(16))
                .min(LAST_RETRY);
            state.drift = Some(drift);
            // A change that has rung meanwhile is answered at once.
            if state.why.is_none() && !is_stuck {
                self.timers.set(Timer::Path(index), now + retry);
            }
        }
        self.after_look(index, now);
        Ok(())
    }

    /// A failure is told when it is new: its retries are not.
    fn failed(
        &self,
        index: usize,
        drift: &Ongoing,
        reason: &'static str,
        message: String,
    ) -> Option<Record> {
        if drift.told == Some(reason) {
            return None;
        }
        let mut record = self.about(Event::HealFailed, index, drift.cause);
        record.outcome = Some(Outcome::Failed);
        record.reason = Some(reason);
        record.message = Some(message);
        Some(record)
    }
}

fn healed_message(healed: &Healed, drift: &Ongoing, holders: Option<&Holders>) -> Option<String> {
    let mut notes = healed.notes.clone();
    notes.extend(holders.and_then(describe::still_held));
    if !drift.readers.is_empty() {
        notes.push(format!(
            "read while it was not as declared by {}",
            drift.readers.join(", ")
        ));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}
