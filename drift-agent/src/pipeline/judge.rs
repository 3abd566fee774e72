//! A look or a heal has come back: compare, plan, guard, and say what came of it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use drift_common::abi::Kind;

use crate::{
    compare::{self, Drift},
    declare::{Mode, Severity, Target},
    heal::{HealError, Healed, Rival, healable},
    observe::{Observed, Stat, VANISHED},
    report::{Event, FileType, Holders, Outcome, Record},
    serve::HandOutcome,
};

use super::{
    Ears, Pipeline, PipelineError,
    describe::{self, boot_ns},
    path::{Fingerprint, Ongoing, Why},
    timers::Timer,
    work::{Aftermath, Done, Looked},
};

/// Looks in a row that a change may overtake before the verdict is given all the same.
const MOST_OVERTAKEN: u32 = 8;
/// Between looks at a file that no two reads agree on.
const UNSTABLE_PAUSE: Duration = Duration::from_millis(20);
/// How long a close may take, and between looks meanwhile.
const CLOSING: Duration = Duration::from_millis(20);
const CLOSING_PAUSE: Duration = Duration::from_millis(1);
/// A heal that failed is tried again after this, then twice as long each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(300);

impl Pipeline {
    /// A job came back.
    pub(super) fn take(
        &mut self,
        done: Done,
        ears: &mut Option<Ears>,
    ) -> Result<(), PipelineError> {
        match done {
            Done::Look {
                generation,
                index,
                looked,
            } if generation == self.generation => self.looked(index, &looked, ears),
            Done::Heal {
                generation,
                index,
                result,
                looked,
                aftermath,
            } if generation == self.generation => {
                self.healed(index, result, &looked, aftermath, ears)
            }
            Done::Sweep {
                generation,
                changed,
                cost,
            } => {
                let current = generation == self.generation;
                self.swept(if current { &changed } else { &[] }, cost);
                Ok(())
            }
            Done::Switch(came) => self.switched(*came, ears),
            Done::Reload(reloaded) => self.reloaded(*reloaded),
            // Of a snapshot that holds no longer; everything was looked at since.
            Done::Look { .. } | Done::Heal { .. } => Ok(()),
        }
    }

    fn looked(
        &mut self,
        index: usize,
        looked: &Looked,
        ears: &mut Option<Ears>,
    ) -> Result<(), PipelineError> {
        // What has rung since the look began may have been in time to be seen.
        self.drain(ears)?;
        let now = Instant::now();
        let state = &mut self.paths[index];
        let Some(mut why) = state.busy.take() else {
            return Ok(());
        };
        // Nobody's dirty inode is no reason to wait with the verdict: a change of another file that is synced makes this one dirty again. It has a look of
        // its own, after a while.
        let rung = state.why.as_ref().is_some_and(|later| {
            let heard = later.heard.as_ref();
            heard.is_some_and(|heard| heard.kind != Kind::Write || heard.event.tgid != 0)
        });
        if let Some(later) = state.why.take_if(|_| rung) {
            why = why.join(later);
        }
        if (looked.overtaken || rung) && state.overtaken < MOST_OVERTAKEN {
            state.overtaken += 1;
            state.why = Some(why);
            // While somebody writes, the timer that his doorbell has set brings the look.
            if self.timers.get(Timer::Path(index)).is_none() {
                self.queue(index, true);
            }
            return Ok(());
        }
        let drifts = looked.drifts.clone();
        let open = state.settle.found_open(looked.observed.writers, now);
        if let Some(at) = open.filter(|_| !drifts.is_empty()) {
            // His close, or his end, brings the look sooner.
            self.writing.insert(index);
            let at = if is_closing(&why) {
                now + CLOSING_PAUSE
            } else {
                at
            };
            state.why.get_or_insert(why);
            self.timers.set_no_later(Timer::Path(index), at);
            return Ok(());
        }
        if let Some(at) = coming_back(&drifts, &why, now) {
            state.why.get_or_insert(why);
            self.timers.set_no_later(Timer::Path(index), at);
            return Ok(());
        }
        if state.drift.is_none()
            && let Some(at) = just_linked(&drifts, state.stat.as_ref(), &looked.observed, now)
        {
            // Another declared path may be the same file: both are to be told with the other.
            state.stat = looked.observed.stat;
            state.why.get_or_insert(why);
            self.timers.set_no_later(Timer::Path(index), at);
            return Ok(());
        }
        if drifts == [Drift::Unstable] && state.overtaken < MOST_OVERTAKEN {
            state.overtaken += 1;
            state.why.get_or_insert(why);
            self.timers
                .set_no_later(Timer::Path(index), now + UNSTABLE_PAUSE);
            return Ok(());
        }
        state.overtaken = 0;
        let first_look = !state.looked;
        self.verdict(index, &why, &drifts, looked)?;
        self.scans.compared(&mut self.paths[index], now);
        self.counted(index)?;
        self.after_look(index, now);
        self.looked_by_hand(index);
        if let Some(first) = self.first.as_mut().filter(|_| first_look) {
            *first = first.saturating_sub(1);
        }
        self.answered(index, !drifts.is_empty())
    }

    /// Another reason to look may have come up meanwhile; a writer that is still there is looked at from time to time.
    fn after_look(&mut self, index: usize, now: Instant) {
        let state = &mut self.paths[index];
        if let Some(again) = state.settle.look_again(now) {
            self.timers.set_no_later(Timer::Path(index), again);
        }
        if self.timers.get(Timer::Path(index)).is_none() {
            self.queue(index, true);
        }
    }

    /// What was seen against what is declared, and against what was told before.
    fn verdict(
        &mut self,
        index: usize,
        why: &Why,
        drifts: &[Drift],
        looked: &Looked,
    ) -> Result<(), PipelineError> {
        // Of a file with keys of others nobody wants to hear whenever they write.
        let is_shared = matches!(&self.snapshot.files[index].target, Target::File(content) if !content.is_whole());
        let state = &mut self.paths[index];
        let before = std::mem::replace(&mut state.stat, looked.observed.stat);
        let seen_before = std::mem::replace(&mut state.looked, true);
        let changes = looked.slot.map(|slot| slot.changes);
        let unseen = match (changes, state.changes) {
            (Some(now), Some(before)) => now.saturating_sub(before),
            _ => 1,
        };
        state.changes = changes;
        if drifts.is_empty() {
            return match state.drift.take() {
                Some(_) => self.resolved(index, why, looked),
                None if seen_before
                    && !is_shared
                    && why.heard.is_some()
                    && is_other(before.as_ref(), looked.observed.stat.as_ref()) =>
                {
                    self.say_touched(index, why, looked)
                }
                None => Ok(()),
            };
        }
        if *drifts != [Drift::ContentEquivalent] {
            let policy = &self.snapshot.files[index].policy;
            self.unsound.insert(policy.name.clone());
        }
        let print = Fingerprint::new(&self.snapshot.files[index], looked);
        let known = state
            .drift
            .as_ref()
            .is_some_and(|drift| drift.print == print);
        if !known {
            let mut ongoing = Ongoing {
                print,
                drifts: drifts.to_vec(),
                cause: why.cause,
                detected: Instant::now(),
                since_ns: why
                    .heard
                    .as_ref()
                    .map_or_else(boot_ns, |heard| heard.event.time_ns),
                told: None,
                failures: 0,
                stuck: None,
                rival: Rival::new(None),
                actor: None,
                readers: Vec::new(),
            };
            if let Some(before) = state.drift.take() {
                // The same drift with another face: who has read it before, and what was told of its healing, still holds.
                ongoing.readers = before.readers;
                ongoing.told = before.told;
                ongoing.failures = before.failures;
                ongoing.stuck = before.stuck;
                ongoing.rival = before.rival;
            }
            state.drift = Some(ongoing);
            let mut record = self.about(Event::DriftDetected, index, why.cause);
            self.sides(&mut record, index, drifts, &looked.observed);
            if drifts == [Drift::ContentEquivalent] {
                // Nothing that reads the file would tell the difference.
                record.severity = Some(Severity::Info);
            }
            self.who(&mut record, why, looked.slot.as_ref(), &looked.observed);
            if let Some(drift) = &mut self.paths[index].drift {
                if let Some(Ok(actor)) = &record.actor {
                    drift.rival = Rival::new(Some(actor));
                }
                drift.actor.clone_from(&record.actor);
            }
            let mut notes = Vec::new();
            if unseen > 1 && why.heard.is_some() {
                notes.push(format!(
                    "{unseen} changes until it was read: this is what they came to"
                ));
            }
            let declared = &self.snapshot.files[index];
            notes.extend(looked.detail.clone());
            if drifts.contains(&Drift::Hardlinked) {
                notes.extend(self.same_inode(index));
            }
            if declared.on_drift == Mode::Observe {
                notes.push("watching only".to_owned());
            }
            record.message = (!notes.is_empty()).then(|| notes.join("; "));
            self.tell(&record)?;
        }
        self.decide(index)
    }

    /// The other declared paths that are known to be the same file.
    fn same_inode(&self, index: usize) -> Option<String> {
        let inode = |stat: &Stat| (stat.ino, stat.dev);
        let own = self.paths[index].stat.as_ref().map(inode)?;
        let others = self.paths.iter().zip(&self.snapshot.files).enumerate();
        let others = others
            .filter(|(other, (state, _))| {
                *other != index && state.stat.as_ref().map(inode) == Some(own)
            })
            .map(|(_, (_, file))| &file.path);
        describe::also_declared(others)
    }

    fn resolved(&mut self, index: usize, why: &Why, looked: &Looked) -> Result<(), PipelineError> {
        let mut record = self.about(Event::DriftResolved, index, why.cause);
        self.sides(&mut record, index, &[], &looked.observed);
        self.who(&mut record, why, looked.slot.as_ref(), &looked.observed);
        self.reached_again(index, why.cause);
        self.tell(&record)
    }

    fn say_touched(
        &mut self,
        index: usize,
        why: &Why,
        looked: &Looked,
    ) -> Result<(), PipelineError> {
        let mut record = self.about(Event::Touched, index, why.cause);
        self.sides(&mut record, index, &[], &looked.observed);
        self.who(&mut record, why, looked.slot.as_ref(), &looked.observed);
        self.tell(&record)
    }

    /// A heal came back, with a fresh look at the declared path: only that look says whether it worked.
    fn healed(
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
        self.braked(index, drift.as_ref().filter(|_| result.is_ok()), now);
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
            Ok(_) if drifts == [Drift::Unreadable] || drifts == [Drift::Unstable] => {
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
        self.healed_by_hand(index, outcome, &drift.drifts, why);
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

/// A close rings while it begins: for a moment the file is still counted as open.
fn is_closing(why: &Why) -> bool {
    why.heard.as_ref().is_some_and(|heard| {
        heard.kind == Kind::Close
            && heard.event.writers == 0
            && boot_ns().saturating_sub(heard.event.time_ns) < CLOSING.as_nanos() as u64
    })
}

/// A name that has just gone may come back: the other half of a save.
fn coming_back(drifts: &[Drift], why: &Why, now: Instant) -> Option<Instant> {
    let heard = why.heard.as_ref()?;
    if drifts != [Drift::Missing] || !matches!(heard.kind, Kind::Replace | Kind::Remove) {
        return None;
    }
    let age = Duration::from_nanos(boot_ns().saturating_sub(heard.event.time_ns));
    let rest = VANISHED.checked_sub(age).filter(|rest| !rest.is_zero())?;
    Some(now + rest)
}

/// Who replaces a file may give the old one a second name for a moment, to keep it: told is one that stays. `before`: as it was last seen; what was never seen is
/// looked at once more too, when the other declared paths have been seen.
fn just_linked(
    drifts: &[Drift],
    before: Option<&Stat>,
    observed: &Observed,
    now: Instant,
) -> Option<Instant> {
    const STAYS: Duration = Duration::from_secs(1);
    if drifts != [Drift::Hardlinked] {
        return None;
    }
    if before.is_none() {
        return Some(now + STAYS);
    }
    let (seconds, nanoseconds) = observed.stat.as_ref()?.times.ctime;
    let seconds = u64::try_from(seconds).ok()?;
    let changed = UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))?;
    // A clock that was set back makes it the future: it is told.
    let age = SystemTime::now().duration_since(changed).ok()?;
    let rest = STAYS.checked_sub(age).filter(|rest| !rest.is_zero())?;
    Some(now + rest)
}

/// Whether something happened to the path itself, whatever it holds now: a directory has other times whenever something happens in it.
fn is_other(before: Option<&Stat>, now: Option<&Stat>) -> bool {
    let own = |stat: &Stat| {
        (
            stat.file_type,
            stat.mode,
            stat.uid,
            stat.gid,
            stat.flags,
            stat.ino,
            stat.dev,
        )
    };
    match (before, now) {
        (Some(before), Some(now)) if now.file_type == FileType::Directory => {
            own(before) != own(now)
        }
        (before, now) => before != now,
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
