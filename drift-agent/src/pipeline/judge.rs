//! A look or a heal has come back: compare, plan, guard, and say what came of it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use drift_common::abi::Kind;

use crate::{
    compare::Drift,
    declare::{Mode, Severity, Target},
    heal::Rival,
    observe::{Observed, Stat, VANISHED, boot_ns},
    report::{Event, FileType},
};

use super::{
    Ears, Pipeline, PipelineError, describe,
    path::{Fingerprint, Ongoing, Why},
    timers::Timer,
    work::{Done, Looked},
};

/// Looks in a row that a change may overtake before the verdict is given all the same.
const MOST_OVERTAKEN: u32 = 8;
/// Before a look that takes the place of the second that was overtaken in a row: twice as long each time, up to eight times. Who changes a file again and again
/// rings once a look, so he pays for as many bells as there are looks. The first is overtaken by the close of who is heard writing, and that is looked at now.
const OVERTAKEN_PAUSE: Duration = Duration::from_millis(2);
/// After so many looks a file that is made and removed again and again may still be seen in the moment before its maker has opened it: looks more that are not
/// judged by that.
const MOST_EMPTY: u32 = 4;
/// How long a maker may take to open what he has made.
const OPENING: Duration = Duration::from_millis(20);
/// Between looks at a file that no two reads agree on.
const UNSTABLE_PAUSE: Duration = Duration::from_millis(20);
/// How long a close may take, and between looks meanwhile.
const CLOSING: Duration = Duration::from_millis(20);
const CLOSING_PAUSE: Duration = Duration::from_millis(1);

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
            Done::SelfTest { number, step } => self.self_tested(number, step),
            Done::Switch(came) => self.switched(*came, ears),
            Done::Reload(reloaded) => self.reloaded(*reloaded),
            Done::Ready(made) => self.made_ready(made),
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
        let later = state.why.take_if(|_| rung);
        if let Some(later) = &later {
            why = why.join(later.clone());
        }
        if (looked.overtaken || rung) && state.overtaken < MOST_OVERTAKEN {
            state.overtaken += 1;
            state.why = Some(why);
            // While somebody writes, the timer that his doorbell has set brings the look.
            if self.timers.get(Timer::Path(index)).is_none() {
                match state.overtaken.checked_sub(2) {
                    None => self.queue(index, true),
                    Some(more) => {
                        let pause = OVERTAKEN_PAUSE * (1 << more.min(3));
                        self.timers.set(Timer::Path(index), now + pause);
                    }
                }
            }
            return Ok(());
        }
        // It was overtaken too often to wait any longer: what has rung since has a look of its own, after this verdict.
        if later.is_some() {
            state.why = later;
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
            state.wait_for(why);
            self.timers.set_no_later(Timer::Path(index), at);
            return Ok(());
        }
        if let Some(at) = coming_back(&drifts, &why, now) {
            state.wait_for(why);
            self.timers.set_no_later(Timer::Path(index), at);
            return Ok(());
        }
        if state.drift.is_none()
            && let Some(at) = just_linked(&drifts, state.stat.as_ref(), &looked.observed, now)
        {
            // Another declared path may be the same file: both are to be told with the other.
            state.stat = looked.observed.stat;
            state.wait_for(why);
            self.timers.set_no_later(Timer::Path(index), at);
            return Ok(());
        }
        if !drifts.is_empty()
            && (MOST_OVERTAKEN..MOST_OVERTAKEN + MOST_EMPTY).contains(&state.overtaken)
            && let Some(at) = just_made(&looked.observed, now)
        {
            state.overtaken += 1;
            state.wait_for(why);
            self.timers.set_no_later(Timer::Path(index), at);
            return Ok(());
        }
        if drifts == [Drift::Unstable] && state.overtaken < MOST_OVERTAKEN {
            state.overtaken += 1;
            state.wait_for(why);
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
    pub(super) fn after_look(&mut self, index: usize, now: Instant) {
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
            state.drift = Some(Box::new(ongoing));
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
    rest_of(STAYS, observed.stat.as_ref()?, now)
}

/// Nobody has it open, and it is empty: whoever has made it comes to that, or it is to be empty.
fn just_made(observed: &Observed, now: Instant) -> Option<Instant> {
    let stat = observed.stat.as_ref()?;
    if stat.file_type != FileType::File || stat.size != 0 {
        return None;
    }
    rest_of(OPENING, stat, now)
}

/// When that time since the last change of a file is over; `None`: it is.
fn rest_of(time: Duration, stat: &Stat, now: Instant) -> Option<Instant> {
    let (seconds, nanoseconds) = stat.times.ctime;
    let seconds = u64::try_from(seconds).ok()?;
    let changed = UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))?;
    // A clock that was set back makes it the future: it is told.
    let age = SystemTime::now().duration_since(changed).ok()?;
    let rest = time.checked_sub(age).filter(|rest| !rest.is_zero())?;
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
