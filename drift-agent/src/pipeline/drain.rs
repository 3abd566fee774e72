//! The kernel half's end: doorbells to paths, losses to targeted looks, sweeps at a bounded rate.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use drift_common::abi::{Counter, Kind, SWEEP_SLOT};
use log::{debug, error, warn};

use crate::{
    observe::{Decoded, Object, Wait, decode},
    report::{Cause, Event, Record},
};

use super::{
    Ears, Pipeline, PipelineError,
    describe::is_anothers,
    path::{Queued, Why},
    timers::Timer,
    work::{Haste, Job},
};

/// Readers of wrong content that are told by name.
const MOST_READERS: usize = 8;

/// Sweeps take at most one part in so many of a core's time.
const SWEEP_SHARE: u32 = 100;
/// And come no more often than this.
const SWEEP_PAUSE: Duration = Duration::from_millis(50);

/// Losses, and the looks that answer them.
#[derive(Debug, Default)]
pub struct Losses {
    /// What the counters said last.
    known: u64,
    batch: Option<Batch>,
}

/// The answer to one loss.
#[derive(Debug)]
struct Batch {
    events: u64,
    cause: Counter,
    files: usize,
    waiting: BTreeSet<usize>,
    drifts: usize,
}

impl Losses {
    /// Events that the kernel half has lost so far.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Another snapshot: everything is looked at anyway.
    pub fn forget(&mut self) {
        self.batch = None;
    }
}

/// The sweep: what is looked at when it cannot be told which object was meant.
#[derive(Debug, Default)]
pub struct Sweep {
    running: bool,
    /// A sweep was asked for while one was running.
    again: Option<Why>,
    /// Of the sweep that runs, or was put off.
    why: Option<Why>,
    /// Not before.
    rest_until: Option<Instant>,
    /// Changes counted on the sweep's slot at the start of the last one.
    changes: u64,
}

impl Pipeline {
    /// Takes in all that has rung.
    pub(super) fn drain(&mut self, ears: &mut Option<Ears>) -> Result<(), PipelineError> {
        let Some(ears) = ears else {
            return Ok(());
        };
        while let Some(item) = ears.changes.take() {
            match decode(&item) {
                Ok(heard) => {
                    drop(item);
                    self.heard(&heard);
                }
                // Both halves are built from one `abi`: never expected, and answered by the next scan.
                Err(problem) => error!("the ring holds {problem}"),
            }
        }
        self.count_losses(ears)
    }

    /// What is not urgent.
    pub(super) fn tick(&mut self, ears: &mut Option<Ears>) -> Result<(), PipelineError> {
        if let Some(ears) = ears
            && ears.counters.look_for_missed()
        {
            self.want_sweep(Why::without_doorbell(
                Cause::Kernel,
                "the kernel left the program out that would have told who",
            ));
        }
        self.drain(ears)?;
        if let Some(ears) = ears {
            self.drain_loads(ears);
            if let Err(problem) = ears.watch.rest_readers(|tgid| {
                std::path::Path::new("/proc")
                    .join(tgid.to_string())
                    .exists()
            }) {
                warn!("the read hook cannot be put to rest: {problem}");
            }
        }
        Ok(())
    }

    /// Who has opened or read a file that is not as declared.
    pub(super) fn drain_loads(&mut self, ears: &mut Ears) {
        while let Some(item) = ears.loads.next() {
            let Ok(heard) = decode(&item) else {
                continue;
            };
            drop(item);
            let Some(Object::File(index)) = self.objects.get(heard.event.slot) else {
                continue;
            };
            let Some(drift) = self
                .paths
                .get_mut(*index)
                .and_then(|state| state.drift.as_mut())
            else {
                continue;
            };
            // Before the change it read what was declared.
            if heard.event.time_ns < drift.since_ns {
                continue;
            }
            let reader = Self::reader(&self.identify.actor(&heard.event));
            if drift.readers.len() < MOST_READERS && !drift.readers.contains(&reader) {
                drift.readers.push(reader);
            }
        }
    }

    fn heard(&mut self, heard: &Decoded) {
        debug!(
            "{} slot {} by {}",
            heard.kind.name(),
            heard.event.slot,
            heard.event.tgid
        );
        if heard.kind == Kind::Exit {
            return self.process_ended(heard.event.tgid);
        }
        let objects = std::sync::Arc::clone(&self.objects);
        match objects.get(heard.event.slot) {
            Some(Object::File(index)) => {
                let why = Why::doorbell(heard, heard.event.tgid != 0);
                self.touched(*index, heard, why.clone());
                let peers = self
                    .register
                    .as_ref()
                    .map(|register| register.peers(heard.event.slot));
                for peer in peers.unwrap_or_default() {
                    if let Some(Object::File(index)) = objects.get(peer) {
                        self.touched(*index, heard, why.clone());
                    }
                }
            }
            Some(Object::Directory(directory)) => {
                let why = self.named(heard);
                for index in &directory.below {
                    self.touched(*index, heard, why.clone());
                }
            }
            Some(Object::Name(name)) => {
                let why = self.named(heard);
                // A path through links has several names before this one.
                for paths in name.paths.chunk_by(|(a, _), (b, _)| a == b) {
                    let certain = paths
                        .iter()
                        .any(|(_, above)| heard.event.parent_name == *above);
                    self.touched(
                        paths[0].0,
                        heard,
                        Why {
                            certain,
                            ..why.clone()
                        },
                    );
                }
            }
            Some(Object::Everything) => self.want_sweep(Why::doorbell(heard, true)),
            None => error!(
                "the ring names slot {}, which there is not",
                heard.event.slot
            ),
        }
    }

    /// A doorbell of an object that is no file itself. Its mark is set back here, and what came after the doorbell while the mark was up did not ring.
    fn named(&self, heard: &Decoded) -> Why {
        self.clear(heard.event.slot);
        let slot = self
            .register
            .as_ref()
            .and_then(|register| register.watch.slot(heard.event.slot).ok());
        Why {
            several: slot.is_some_and(|slot| is_anothers(&slot, heard)),
            ..Why::doorbell(heard, true)
        }
    }

    /// The object is about to be looked at.
    fn clear(&self, slot: u32) {
        if let Some(register) = &self.register
            && let Err(problem) = register.watch.clear(slot)
        {
            warn!("a dirty mark cannot be set back: {problem}");
        }
    }

    fn touched(&mut self, index: usize, heard: &Decoded, why: Why) {
        let now = Instant::now();
        let Some(state) = self.paths.get_mut(index) else {
            return;
        };
        let wait = state.settle.heard(heard, now);
        if state.settle.is_writing() {
            self.writing.insert(index);
        } else {
            self.writing.remove(&index);
        }
        match wait {
            Wait::No => self.look_why(index, why, true),
            Wait::Until(at) => {
                state.why = Some(match state.why.take() {
                    Some(before) => before.join(why),
                    None => why,
                });
                self.timers.set(Timer::Path(index), at);
            }
        }
    }

    fn process_ended(&mut self, tgid: u32) {
        let waited: Vec<usize> = self
            .writing
            .iter()
            .copied()
            .filter(|index| {
                self.paths
                    .get_mut(*index)
                    .is_some_and(|state| state.settle.ended(tgid))
            })
            .collect();
        for index in waited {
            self.writing.remove(&index);
            self.queue(index, true);
        }
    }

    /// Asks for a look.
    pub(super) fn look(&mut self, index: usize, cause: Cause, urgent: bool) {
        let unheard = match cause {
            Cause::Start => "found at start: it was changed while no agent was running",
            Cause::Policy => "found when the policy changed",
            Cause::Scan | Cause::Kernel => "found by the periodic scan: no probe saw the change",
        };
        self.look_why(index, Why::without_doorbell(cause, unheard), urgent);
    }

    pub(super) fn look_why(&mut self, index: usize, why: Why, urgent: bool) {
        let Some(state) = self.paths.get_mut(index) else {
            return;
        };
        state.why = Some(match state.why.take() {
            Some(before) => before.join(why),
            None => why,
        });
        self.queue(index, urgent);
    }

    /// A directory is one again, or a link holds what it must: what is declared beneath it, or through it, and was reached by no path or another one, is there
    /// or missing now. No time tells that apart from before.
    pub(super) fn reached_again(&mut self, index: usize, cause: Cause) {
        let objects = std::sync::Arc::clone(&self.objects);
        let place = self.snapshot.files[index].real();
        let Some((_, directory)) = objects.directory_at(place) else {
            return;
        };
        for index in directory.below.iter().copied() {
            if self.paths[index].is_relocated() {
                let why = Why::without_doorbell(cause, "the way to it was put back");
                self.look_why(index, why, true);
            }
        }
    }

    /// Queues the look that a path has a reason for, unless a job is under way: then the reason waits for its end. Until the look begins further reasons may join.
    pub(super) fn queue(&mut self, index: usize, urgent: bool) {
        let Some(state) = self.paths.get_mut(index) else {
            return;
        };
        if state.busy.is_some() || state.why.is_none() {
            return;
        }
        match (state.queued, urgent) {
            (Queued::Urgently, _) | (Queued::Patiently, false) => return,
            // It overtakes the scan.
            (Queued::No | Queued::Patiently, true) => {
                state.queued = Queued::Urgently;
                self.urgent.push_back(Job::Look(index));
            }
            (Queued::No, false) => {
                state.queued = Queued::Patiently;
                self.patient.push_back(index);
            }
        }
        self.timers.clear(Timer::Path(index));
    }

    /// Asks for a sweep, now or as soon as its share of the time allows.
    fn want_sweep(&mut self, why: Why) {
        if self.sweep.running {
            self.sweep.again = Some(why);
            return;
        }
        self.sweep.why = Some(why);
        let now = Instant::now();
        match self.sweep.rest_until {
            Some(until) if now < until => self.timers.set_no_later(Timer::Sweep, until),
            _ => self.start_sweep(Cause::Kernel),
        }
    }

    /// Looks at the times of everything.
    pub(super) fn start_sweep(&mut self, cause: Cause) {
        if self.sweep.running {
            return;
        }
        let mut why = self.sweep.why.take().unwrap_or_else(|| {
            Why::without_doorbell(cause, "found by the periodic scan: no probe saw the change")
        });
        if let Some(register) = &self.register {
            let changes = register
                .watch
                .slot(SWEEP_SLOT)
                .map_or(0, |slot| slot.changes);
            self.clear(SWEEP_SLOT);
            // One call since the last sweep: it was that one. Of several, nobody knows which.
            why.certain &= changes == self.sweep.changes + 1;
            self.sweep.changes = changes;
        }
        self.sweep.why = Some(why);
        self.sweep.running = true;
        let haste = match cause {
            Cause::Scan => Haste::Patient,
            Cause::Kernel | Cause::Start | Cause::Policy => Haste::Urgent,
        };
        self.sweep_job(haste);
    }

    pub(super) fn swept(&mut self, changed: &[usize], cost: Duration) {
        self.sweep.running = false;
        self.sweep.rest_until = Some(Instant::now() + (cost * SWEEP_SHARE).max(SWEEP_PAUSE));
        if let Some(why) = self.sweep.why.take() {
            for index in changed {
                self.look_why(*index, why.clone(), true);
            }
        }
        if let Some(why) = self.sweep.again.take() {
            self.want_sweep(why);
        }
    }

    /// A loss is answered by looking at every object whose mark is set.
    fn count_losses(&mut self, ears: &Ears) -> Result<(), PipelineError> {
        let lost = match ears.counters.lost() {
            Ok(lost) => lost,
            Err(problem) => {
                error!("the kernel programs' counters cannot be read: {problem}");
                return Ok(());
            }
        };
        if lost <= self.losses.known {
            return Ok(());
        }
        let events = lost - self.losses.known;
        self.losses.known = lost;
        let cause = Counter::ALL
            .into_iter()
            .filter(|counter| counter.is_loss())
            .max_by_key(|counter| ears.counters.read(*counter).unwrap_or(0))
            .unwrap_or(Counter::RingFull);
        let dirty = match ears.watch.dirty(self.objects.count() as u32) {
            Ok(dirty) => dirty,
            Err(problem) => {
                error!("the dirty marks cannot be read ({problem}): everything is read again");
                (0..self.objects.count() as u32).collect()
            }
        };
        let mut files = BTreeSet::new();
        let objects = std::sync::Arc::clone(&self.objects);
        for slot in dirty {
            match objects.get(slot) {
                Some(Object::File(index)) => {
                    files.insert(*index);
                }
                Some(Object::Directory(directory)) => {
                    self.clear(slot);
                    files.extend(&directory.below);
                }
                Some(Object::Name(name)) => {
                    self.clear(slot);
                    files.extend(name.paths.iter().map(|(index, _)| index));
                }
                Some(Object::Everything) => self.want_sweep(Why::without_doorbell(
                    Cause::Kernel,
                    "the kernel half could not tell what was changed",
                )),
                None => {}
            }
        }
        let batch = self.losses.batch.get_or_insert(Batch {
            events: 0,
            cause,
            files: 0,
            waiting: BTreeSet::new(),
            drifts: 0,
        });
        batch.events += events;
        batch.files += files.difference(&batch.waiting).count();
        batch.waiting.extend(&files);
        for index in files {
            self.look_why(
                index,
                Why::without_doorbell(Cause::Kernel, "the event that told who was lost"),
                true,
            );
        }
        self.tell_losses()
    }

    /// One path of a loss's answer was read.
    pub(super) fn answered(&mut self, index: usize, drifted: bool) -> Result<(), PipelineError> {
        let Some(batch) = &mut self.losses.batch else {
            return Ok(());
        };
        if batch.waiting.remove(&index) && drifted {
            batch.drifts += 1;
        }
        self.tell_losses()
    }

    /// Tells a loss when its answer is complete.
    fn tell_losses(&mut self) -> Result<(), PipelineError> {
        if !self
            .losses
            .batch
            .as_ref()
            .is_some_and(|batch| batch.waiting.is_empty())
        {
            return Ok(());
        }
        let Some(batch) = self.losses.batch.take() else {
            return Ok(());
        };
        let mut record = Record::new(Event::EventsLost);
        record.reason = Some(batch.cause.name());
        record.message = Some(format!(
            "{} events ({}); all {} files concerned were read again: {} drifting",
            batch.events,
            match batch.cause {
                Counter::RingFull => "ring full",
                Counter::KernelRead => "a kernel structure could not be read",
                Counter::UserRead => "a path in user memory could not be read",
                Counter::CallsFull => "too many calls under way",
                Counter::ReadersFull => "too many readers",
                Counter::Interrupted => "a program was interrupted by another one",
                Counter::Missed => "the kernel left programs out that were running already",
                Counter::Sent => "none",
            },
            batch.files,
            batch.drifts
        ));
        Ok(self.reporter.report(&record)?)
    }

    /// A path's time has come: a writer was quiet long enough, or a hold is over.
    pub(super) fn path_due(&mut self, index: usize) {
        let Some(state) = self.paths.get_mut(index) else {
            return;
        };
        if state.why.is_none() {
            let cause = state
                .drift
                .as_ref()
                .map_or(Cause::Scan, |drift| drift.cause);
            state.why = Some(Why::without_doorbell(
                cause,
                "looked at again: no new event came",
            ));
        }
        self.queue(index, true);
    }
}
