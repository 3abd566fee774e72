//! What blocks: looking, healing, sweeping. Each is a job on a thread of its own, and comes back as data.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use drift_common::abi::{Level, Slot};

use crate::{
    compare::{self, Drift},
    declare::Declared,
    heal::{self, Action, HealError, Healed},
    observe::{Host, Observed, OldFile, Register, Stat, observe},
    report::{Evidence, Holders},
};

use super::{Pipeline, change, describe, path::Queued, reloads, selftest, timers::Timer};

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    Urgent,
    /// The periodic scan.
    Patient,
}

/// Something to do for one path.
#[derive(Clone, Debug)]
pub enum Job {
    Look(usize),
    Heal(usize, Action),
}

/// What came of it.
#[derive(Debug)]
pub enum Done {
    Look {
        generation: u64,
        index: usize,
        looked: Looked,
    },
    Heal {
        generation: u64,
        index: usize,
        result: Result<Healed, HealError>,
        /// The declared path, read again.
        looked: Looked,
        aftermath: Aftermath,
    },
    SelfTest {
        number: u64,
        step: selftest::Step,
    },
    Switch(Box<change::Came>),
    Reload(Box<reloads::Reloaded>),
    /// The ready file was asked for.
    Ready(io::Result<()>),
    Sweep {
        generation: u64,
        /// Paths that are not as they were when last seen.
        changed: Vec<usize>,
        cost: Duration,
    },
}

impl Done {
    /// Not one of the jobs of which there are only so many at once.
    pub(super) fn is_apart(&self) -> bool {
        matches!(self, Done::Reload(_) | Done::Ready(_))
    }
}

/// What else there is to say of a heal.
#[derive(Debug)]
pub struct Aftermath {
    /// When it was read again.
    pub verified: Instant,
    pub evidence: Vec<Evidence>,
    pub holders: Option<Holders>,
}

/// One look, and what the kernel half says of the object.
#[derive(Debug)]
pub struct Looked {
    /// Without the bytes of a file: they are compared where they were read, and go.
    pub observed: Observed,
    /// See [`Compared::drifts`].
    pub drifts: Vec<Drift>,
    /// See [`Compared::face`].
    pub face: Option<blake3::Hash>,
    /// What the two sides of a record do not say of it.
    pub detail: Option<String>,
    /// Changed while it was looked at: the doorbell is on its way.
    pub overtaken: bool,
    pub slot: Option<Slot>,
}

/// Looks at one path: mark back, re-key, read, and a glance at the mark again.
fn look(host: &Host, register: Option<&Register>, slot: u32, declared: &Declared) -> Looked {
    let Some(register) = register else {
        let observed = observe(host, declared, None, &mut |_| {});
        return Looked::of(declared, observed);
    };
    let watch = &register.watch;
    // Before the read, so that a change during it rings. Where the mark cannot be set back, doorbells stay out until the next scan.
    if let Err(error) = watch.clear(slot) {
        log::warn!("a dirty mark cannot be set back: {error}");
    }
    let mut again = false;
    let mut observed = observe(host, declared, Some(watch), &mut |known| {
        again |= register.seen(host, slot, declared, known);
    });
    if again {
        observed = observe(host, declared, Some(watch), &mut |known| {
            register.seen(host, slot, declared, known);
        });
    }
    // Before the comparison, which may take its time.
    let overtaken = watch
        .level(slot)
        .is_ok_and(|level| level > Level::Stirred as u32);
    let slot = watch.slot(slot).ok();
    Looked {
        overtaken,
        slot,
        ..Looked::of(declared, observed)
    }
}

impl Looked {
    /// Compares, on the thread that has looked: a large file takes its time to be understood.
    pub(super) fn of(declared: &Declared, mut observed: Observed) -> Looked {
        let compared = compare::compare(declared, &observed);
        observed.held = None;
        Looked {
            face: compared.face(),
            detail: describe::detail(declared, &observed, &compared),
            drifts: compared.drifts,
            observed,
            overtaken: false,
            slot: None,
        }
    }
}

impl Pipeline {
    /// Starts queued jobs, as far as there is room: urgent ones first, and what is patient leaves half of the room free.
    pub(super) fn start_jobs(&mut self) {
        if self.next.is_some() || self.switching.is_some() || self.repair.is_some() {
            return;
        }
        while self.running < super::MOST_JOBS {
            match self.urgent.pop_front() {
                Some(job) => self.start(job, Haste::Urgent),
                None if self.running < super::MOST_JOBS / 2 => match self.next_patient() {
                    Some(index) => self.start(Job::Look(index), Haste::Patient),
                    None => return,
                },
                None => return,
            }
        }
    }

    /// What the periodic scan looks at next, if it may.
    fn next_patient(&mut self) -> Option<usize> {
        // What was looked at meanwhile, or is to be at once, needs no other look.
        while let Some(index) = self.patient.front()
            && self.paths[*index].queued != Queued::Patiently
        {
            self.patient.pop_front();
        }
        let index = *self.patient.front()?;
        match self.pace.take(Instant::now()) {
            Ok(()) => {
                self.patient.pop_front();
                Some(index)
            }
            Err(until) => {
                self.timers.set(Timer::Pace, until);
                None
            }
        }
    }

    fn start(&mut self, job: Job, haste: Haste) {
        let (Job::Look(index) | Job::Heal(index, _)) = &job;
        let index = *index;
        let (Some(declared), Some(slot)) = (
            self.snapshot.files.get(index).cloned(),
            self.objects.slot_of(index),
        ) else {
            return;
        };
        let (host, store) = (Arc::clone(&self.host), Arc::clone(&self.store));
        let search = Arc::clone(&self.search);
        let register = self.register.clone();
        let restorer = Arc::clone(&self.restorer);
        let generation = self.generation;
        let forced = self.is_forced(index);
        let state = &mut self.paths[index];
        if let Job::Look(_) = job {
            state.queued = Queued::No;
            // A heal has come in between: the reason waits for its end.
            if state.busy.is_some() {
                return;
            }
            state.busy = state.why.take();
        }
        self.run_and_let_go(haste, move || match job {
            Job::Look(_) => {
                let looked = look(&host, register.as_deref(), slot, &declared);
                let done = Done::Look {
                    generation,
                    index,
                    looked,
                };
                (done, None)
            }
            Job::Heal(_, action) => {
                let replaces = matches!(action, Action::Replace | Action::Edit | Action::Remove);
                let watch = register.as_ref().map(|register| &*register.watch);
                let old = replaces
                    .then(|| OldFile::at(&host, declared.real(), watch))
                    .flatten();
                let doomed = heal::doomed(&host, &store, &declared, &action);
                let mut evidence = Vec::new();
                let keep = || evidence = doomed.keep(&store);
                let result = restorer.heal(watch, host.places(), &declared, &action, forced, keep);
                let looked = look(&host, register.as_deref(), slot, &declared);
                let verified = Instant::now();
                // The file is back: nobody waits for this.
                let now = looked.observed.stat.as_ref();
                let old = old.filter(|old| result.is_ok() && old.is_replaced(now));
                let holders = old.as_ref().and_then(|old| search.holders(old, watch));
                let done = Done::Heal {
                    generation,
                    index,
                    result,
                    looked,
                    aftermath: Aftermath {
                        verified,
                        evidence,
                        holders,
                    },
                };
                // The last who has the old file pays for its removal.
                (done, old)
            }
        });
    }

    /// The restorer has what is declared before it is asked to put it back: reading the policies takes it as long as it has taken here.
    pub(super) fn tell_restorer(&self) {
        let (restorer, snapshot) = (Arc::clone(&self.restorer), Arc::clone(&self.snapshot));
        let turn = restorer.turn();
        tokio::task::spawn_blocking(move || restorer.declare(turn, &snapshot));
    }

    /// Compares times and sizes of everything that is not being looked at with what was last seen.
    pub(super) fn sweep_job(&mut self, haste: Haste) {
        let seen: Vec<(usize, Arc<Declared>, Option<Stat>, bool)> = self
            .paths
            .iter()
            .enumerate()
            .filter(|(_, state)| state.busy.is_none() && state.looked)
            .map(|(index, state)| {
                let declared = Arc::clone(&self.snapshot.files[index]);
                (index, declared, state.stat, state.is_relocated())
            })
            .collect();
        let host = Arc::clone(&self.host);
        let generation = self.generation;
        self.run(haste, move || {
            let start = Instant::now();
            let changed = seen
                .into_iter()
                .filter(|(_, declared, stat, is_relocated)| {
                    *is_relocated
                        || host.links_hold(declared).is_err()
                        || host.stat(declared.real()) != *stat
                })
                .map(|(index, ..)| index)
                .collect();
            Done::Sweep {
                generation,
                changed,
                cost: start.elapsed(),
            }
        });
    }

    pub(super) fn run(&mut self, haste: Haste, job: impl FnOnce() -> Done + Send + 'static) {
        self.run_and_let_go(haste, || (job(), ()));
    }

    /// As [`Self::run`], of a job that has something to let go: when it has told what it has done.
    fn run_and_let_go<T>(
        &mut self,
        haste: Haste,
        job: impl FnOnce() -> (Done, T) + Send + 'static,
    ) {
        self.running += 1;
        let told = self.done.clone();
        let job = Box::new(move || {
            let (done, _held) = job();
            // The receiver goes only when the agent ends and waits no longer.
            if told.send(Box::new(done)).is_err() {
                log::debug!("a job came back after the end");
            }
        });
        let left = match (&self.quiet, haste) {
            (Some(quiet), Haste::Patient) => quiet.run(job).err(),
            (None, _) | (_, Haste::Urgent) => Some(job as Box<dyn FnOnce() + Send>),
        };
        if let Some(job) = left {
            tokio::task::spawn_blocking(job);
        }
    }

    /// What may take long, and holds nothing up.
    pub(super) fn run_apart(&self, job: impl FnOnce() -> Done + Send + 'static) {
        let done = self.done.clone();
        tokio::task::spawn_blocking(move || {
            if done.send(Box::new(job())).is_err() {
                log::debug!("what came after a heal was over after the end");
            }
        });
    }
}
