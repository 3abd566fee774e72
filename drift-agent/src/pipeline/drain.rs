//! The kernel half's end: doorbells to paths, and the looks they ask for.

use std::time::Instant;

use drift_common::abi::Kind;
use log::{debug, error, warn};

use crate::{
    observe::{Decoded, Object, Wait, decode},
    report::Cause,
};

use super::{
    Ears, Pipeline, PipelineError,
    describe::is_anothers,
    path::{Queued, Why},
    timers::Timer,
    work::Job,
};

/// Readers of wrong content that are told by name.
const MOST_READERS: usize = 8;

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
        while let Some(item) = ears.loads.take() {
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
            if heard.event.time_ns < drift.since_ns || drift.readers.len() >= MOST_READERS {
                continue;
            }
            let reader = Self::reader(&self.identify.actor(&heard.event));
            if !drift.readers.contains(&reader) {
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
        // Who it was may be gone when it is asked for.
        self.identify.meet(&heard.event);
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
                // A name in directories of one name, more than once: nobody knows which of them was meant.
                let is_meant = |above: &u64| *above == heard.event.parent_name;
                let paths = name.paths.chunk_by(|(a, _), (b, _)| a == b);
                let alike = paths.filter(|paths| paths.iter().any(|(_, above)| is_meant(above)));
                let is_one = alike.count() == 1;
                // A path through links has several names before this one.
                for paths in name.paths.chunk_by(|(a, _), (b, _)| a == b) {
                    let certain = is_one && paths.iter().any(|(_, above)| is_meant(above));
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
            Some(Object::Canary) => self.canary_rang(heard),
            Some(Object::Everything) => self.want_sweep(Why::doorbell(heard, true)),
            Some(Object::Mounts) => self.mounted(Some(heard)),
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
        let several = slot.is_some_and(|slot| is_anothers(&slot, heard));
        let mut heard = *heard;
        // What the same process has done since did not ring, and is its change all the same.
        if let Some(slot) = slot
            && slot.tgid == heard.event.tgid
        {
            heard.event.time_ns = heard.event.time_ns.max(slot.changed_ns);
        }
        Why {
            several,
            ..Why::doorbell(&heard, true)
        }
    }

    /// The object is about to be looked at.
    pub(super) fn clear(&self, slot: u32) {
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
        // What may have been about another path is no reason to forget who writes to this one, or to wait longer for him: it would be a way to put off the look.
        let wait = if why.certain || heard.kind == Kind::Write {
            state.settle.heard(heard, now)
        } else {
            Wait::No
        };
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
