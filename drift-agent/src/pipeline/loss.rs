//! What the kernel half has lost: counted, answered by a look at every object whose mark is set, and told when the answer is complete.

use std::collections::{BTreeMap, BTreeSet};

use drift_common::abi::{Counter, Kind};
use log::error;

use crate::{
    observe::Object,
    probe::Counts,
    report::{Cause, Event, Record},
};

use super::{
    Ears, Pipeline, PipelineError,
    path::{Queued, Why},
};

/// Losses, and the looks that answer them.
#[derive(Debug, Default)]
pub struct Losses {
    /// What the counters of the programs that run said last.
    known: u64,
    counts: Counts,
    /// What those of programs before them had said at their end.
    before: u64,
    batch: Option<Batch>,
    unsound: Option<Unsound>,
}

/// The answer to one loss.
#[derive(Debug, Default)]
struct Batch {
    events: BTreeMap<&'static str, (Counter, u64, BTreeMap<&'static str, u64>)>,
    files: usize,
    waiting: BTreeSet<usize>,
    drifts: usize,
}

/// The kernel half was not in order: everything is read again.
#[derive(Debug)]
struct Unsound {
    reason: &'static str,
    message: String,
    files: usize,
    waiting: BTreeSet<usize>,
    drifts: usize,
}

impl Losses {
    /// Events that the kernel half has lost so far.
    pub fn known(&self) -> u64 {
        self.before + self.known
    }

    /// Another snapshot: everything is looked at anyway.
    pub fn forget(&mut self) {
        self.batch = None;
    }

    /// Other programs, whose counters begin at nothing.
    pub fn other_programs(&mut self) {
        self.before += std::mem::take(&mut self.known);
        self.counts = Counts::default();
    }

    /// The kernel half was not in order, and all paths are looked at again: told when they were.
    pub fn unsound(&mut self, reason: &'static str, message: String, paths: usize) {
        self.unsound = Some(Unsound {
            reason,
            message,
            files: paths,
            waiting: (0..paths).collect(),
            drifts: 0,
        });
    }
}

impl Pipeline {
    /// The declared paths that these slots stand for. Marks of what is no file are set back: what is below is about to be looked at.
    pub(super) fn marked(&mut self, slots: &[u32]) -> BTreeSet<usize> {
        let mut files = BTreeSet::new();
        let objects = std::sync::Arc::clone(&self.objects);
        for slot in slots {
            match objects.get(*slot) {
                Some(Object::File(index)) => {
                    files.insert(*index);
                }
                Some(Object::Directory(directory)) => {
                    self.clear(*slot);
                    files.extend(&directory.below);
                }
                Some(Object::Name(name)) => {
                    self.clear(*slot);
                    files.extend(name.paths.iter().map(|(index, _)| index));
                }
                Some(Object::Everything) => self.want_sweep(Why::without_doorbell(
                    Cause::Kernel,
                    "the kernel half could not tell what was changed",
                )),
                // Its doorbell may be on its way, and says who it was.
                Some(Object::Mounts) => self.table_changed(),
                Some(Object::Canary) | None => {}
            }
        }
        files
    }

    /// A loss is answered by looking at every object whose mark is set.
    pub(super) fn count_losses(&mut self, ears: &Ears) -> Result<(), PipelineError> {
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
        self.losses.known = lost;
        // It may be the self-test's doorbell that was lost.
        self.selftest.excuse();
        let counts = match ears.counters.all() {
            Ok(counts) => counts,
            Err(problem) => {
                error!("the kernel programs' counters cannot be read: {problem}");
                Counts::default()
            }
        };
        let losses = counts.losses_since(&self.losses.counts);
        self.losses.counts = counts;
        let dirty = match ears.watch.dirty(self.objects.count() as u32) {
            Ok(dirty) => dirty,
            Err(problem) => {
                error!("the dirty marks cannot be read ({problem}): everything is read again");
                (0..self.objects.count() as u32).collect()
            }
        };
        let mut files = self.marked(&dirty);
        // Of these the doorbell was heard, and the look that it asks for has not begun.
        files.retain(|index| self.paths[*index].queued != Queued::Urgently);
        let batch = self.losses.batch.get_or_insert_default();
        for (cause, kind, count) in losses {
            let (_, events, kinds) =
                batch
                    .events
                    .entry(cause.name())
                    .or_insert((cause, 0, BTreeMap::new()));
            *events += count;
            if let Some(kind) = kind {
                *kinds.entry(kind.name()).or_default() += count;
            }
        }
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
        if let Some(batch) = &mut self.losses.batch
            && batch.waiting.remove(&index)
        {
            batch.drifts += usize::from(drifted);
        }
        if let Some(unsound) = &mut self.losses.unsound
            && unsound.waiting.remove(&index)
        {
            unsound.drifts += usize::from(drifted);
        }
        self.tell_losses()
    }

    /// Tells a loss when its answer is complete.
    pub(super) fn tell_losses(&mut self) -> Result<(), PipelineError> {
        let answered = |batch: &mut Batch| batch.waiting.is_empty();
        if let Some(batch) = self.losses.batch.take_if(answered) {
            self.reporter.report(&batch.record())?;
        }
        let answered = |unsound: &mut Unsound| unsound.waiting.is_empty();
        if let Some(unsound) = self.losses.unsound.take_if(answered) {
            let mut record = Record::new(Event::EventsLost);
            record.reason = Some(unsound.reason);
            record.message = Some(match unsound.files {
                0 => unsound.message,
                files => format!(
                    "{}; all {files} files were read again: {} drifting",
                    unsound.message, unsound.drifts
                ),
            });
            self.reporter.report(&record)?;
        }
        Ok(())
    }
}

impl Batch {
    fn record(&self) -> Record {
        let total: u64 = self.events.values().map(|(_, events, _)| events).sum();
        let most = self.events.values().max_by_key(|(_, events, _)| events);
        let cause = most.map_or(Counter::RingFull, |(cause, ..)| *cause);
        let mut record = Record::new(Event::EventsLost);
        record.reason = Some(cause.name());
        let apart = self.events.values().map(|(cause, _, kinds)| {
            let kinds: Vec<String> = kinds
                .iter()
                .map(|(kind, count)| format!("{kind} {count}"))
                .collect();
            format!("{} {}", cause.name(), kinds.join(" "))
                .trim_end()
                .to_owned()
        });
        record.message = Some(format!(
            "{total} events ({}); all {} files concerned were read again: {} drifting; lost by hook: {}",
            sentence(cause),
            self.files,
            self.drifts,
            apart.collect::<Vec<_>>().join(", ")
        ));
        record
    }
}

const fn sentence(cause: Counter) -> &'static str {
    match cause {
        Counter::RingFull => "ring full",
        Counter::KernelRead => "a kernel structure could not be read",
        Counter::UserRead => "a path in user memory could not be read",
        Counter::CallsFull => "too many calls under way",
        Counter::ReadersFull => "too many readers",
        Counter::Interrupted => "a program was interrupted by another one",
        Counter::Missed => "the kernel left programs out that were running already",
        Counter::Sent | Counter::Coalesced => "none",
    }
}

/// What was counted of one kind of change, for the status: nothing that is zero.
pub(super) fn tally(counts: &Counts, kind: Kind) -> Option<(u64, u64, BTreeMap<String, u64>)> {
    let of = |counter| counts.of(kind, counter);
    let lost: BTreeMap<String, u64> = Counter::ALL
        .into_iter()
        .filter(|counter| counter.is_loss() && of(*counter) > 0)
        .map(|counter| (counter.name().to_owned(), of(counter)))
        .collect();
    let (sent, coalesced) = (of(Counter::Sent), of(Counter::Coalesced));
    (sent + coalesced > 0 || !lost.is_empty()).then_some((sent, coalesced, lost))
}
