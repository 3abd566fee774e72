//! Whether the agent would hear a change: from time to time it makes one, of a file of its own, and waits for it (docs/adr/0014-the-agent-hears-itself.md).
//!
//! ```text
//! write -> hook -> mark -> ring -> decode -> right actor -> look
//! ```
//!
//! Beside that: whether every program is still attached, and whether the kernel tables hold what was put into them. What is not in order is answered by
//! loading everything anew, with new tables, and reading everything again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use drift_common::abi::{CANARY_SLOT, Kind};
use log::{debug, warn};

use crate::{
    observe::{Decoded, Register, boot_ns, is_same_process},
    report::Cause,
    store::Store,
};

use super::{
    Ears, Pipeline, PipelineError,
    path::{Queued, Why},
    timers::Timer,
    work::{Done, Haste},
};

/// A change must be heard within this.
const DEADLINE: Duration = Duration::from_secs(1);

const LATE: &str = "not within a second";

const LOADED_ANEW: &str = "the kernel programs were loaded anew";
const NOT_LOADED: &str = "the kernel programs could not be loaded anew";

/// How far the present test has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// None is under way.
    Rest,
    /// The file is being written.
    Writing,
    Written,
    /// Its doorbell rang. Where the file was not said to be written yet, that is on its way.
    Heard,
}

/// What is wrong with the sensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The file in the state folder cannot be written, and why.
    NotWritten(String),
    /// It was written, and no doorbell came.
    NotHeard,
    /// A doorbell came with another process.
    WrongActor(u32),
    /// The doorbell came, and what was written was not read, and why.
    NotRead(String),
    /// These programs are not attached any more.
    Detached(Vec<String>),
    /// What the kernel tables hold is not what was put into them.
    Tampered(String),
}

impl Fault {
    /// One of a closed, documented set.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Fault::NotWritten(_) | Fault::NotHeard | Fault::WrongActor(_) | Fault::NotRead(_) => {
                "self-test"
            }
            Fault::Detached(_) => "detached",
            Fault::Tampered(_) => "tampered",
        }
    }

    /// Whether the kernel half is at fault: loading it anew may help.
    const fn is_the_sensors(&self) -> bool {
        match self {
            Fault::NotWritten(_) | Fault::NotRead(_) => false,
            Fault::NotHeard | Fault::WrongActor(_) | Fault::Detached(_) | Fault::Tampered(_) => {
                true
            }
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::NotWritten(why) => write!(
                f,
                "the self-test's file in the state folder could not be written ({why})"
            ),
            Fault::NotHeard => f.write_str(
                "the self-test wrote a file and the kernel programs did not tell of it within a second",
            ),
            Fault::WrongActor(pid) => write!(
                f,
                "the self-test wrote a file and the kernel programs say that process {pid} did"
            ),
            Fault::NotRead(why) => write!(
                f,
                "the kernel programs told of the self-test's file, which could not be read then ({why})"
            ),
            Fault::Detached(programs) => write!(
                f,
                "kernel programs were not attached any more ({})",
                programs.join(", ")
            ),
            Fault::Tampered(tables) => write!(
                f,
                "somebody else has changed the kernel tables ({tables})"
            ),
        }
    }
}

/// What a time means.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// Begin the test with this number.
    Begin(u64),
    /// It was over in time.
    Passed,
    Failed(Fault),
}

/// The test, as a state: the times are its callers'.
#[derive(Debug)]
pub(super) struct SelfTest {
    stage: Stage,
    /// Whether the time that comes next is a deadline.
    running: bool,
    number: u64,
    /// Until a test has passed.
    fault: Option<Fault>,
}

/// What a job has done for the test with this number.
#[derive(Debug)]
pub(super) enum Step {
    Written(Result<Vec<String>, String>),
    /// The number that was read, or why none was.
    Read(Result<u64, String>),
}

impl SelfTest {
    /// `number`: one that no earlier run of the agent has written.
    pub(super) const fn new(number: u64) -> SelfTest {
        SelfTest {
            stage: Stage::Rest,
            running: false,
            number,
            fault: None,
        }
    }

    /// What is wrong with the sensor, as far as is known.
    pub(super) const fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    fn due(&mut self) -> Due {
        if !self.running {
            self.running = true;
            self.stage = Stage::Writing;
            self.number = self.number.wrapping_add(1);
            return Due::Begin(self.number);
        }
        self.running = false;
        match std::mem::replace(&mut self.stage, Stage::Rest) {
            Stage::Rest => Due::Passed,
            Stage::Writing => Due::Failed(Fault::NotWritten(LATE.to_owned())),
            Stage::Written => Due::Failed(Fault::NotHeard),
            Stage::Heard => Due::Failed(Fault::NotRead(LATE.to_owned())),
        }
    }

    /// The file was written.
    fn written(&mut self) {
        if self.stage == Stage::Writing {
            self.stage = Stage::Written;
        }
    }

    /// Its doorbell came: true when it is one that was waited for.
    fn heard(&mut self) -> bool {
        let waited = matches!(self.stage, Stage::Writing | Stage::Written);
        if waited {
            self.stage = Stage::Heard;
        }
        waited
    }

    fn read(&mut self, number: u64) {
        if self.stage == Stage::Heard && number == self.number {
            self.stage = Stage::Rest;
            self.fault = None;
        }
    }

    /// What was under way says nothing: its doorbell was lost in a full ring, or thrown away with others.
    pub(super) fn excuse(&mut self) {
        self.stage = Stage::Rest;
    }
}

impl Pipeline {
    /// The time of the self-test has come: it begins, or must be over.
    pub(super) fn self_test(
        &mut self,
        ears: &mut Option<Ears>,
        now: Instant,
    ) -> Result<(), PipelineError> {
        // What has rung by now counts.
        self.drain(ears)?;
        let (Some(heard), Some(register)) = (ears.as_ref(), self.register.clone()) else {
            return Ok(());
        };
        match self.selftest.due() {
            Due::Begin(number) => {
                self.timers.set(Timer::SelfTest, now + DEADLINE);
                let detached = heard.attached.detached();
                if detached.is_empty() {
                    self.heed_marks(&register, ears)?;
                } else {
                    self.sensor_fault(Fault::Detached(detached));
                }
                let store = Arc::clone(&self.store);
                self.run(Haste::Urgent, move || Done::SelfTest {
                    number,
                    step: Step::Written(write(&store, &register, number)),
                });
            }
            due => {
                let rest = self.settings.self_test.saturating_sub(DEADLINE);
                self.timers.set(Timer::SelfTest, now + rest);
                if let Due::Failed(fault) = due {
                    self.sensor_fault(fault);
                }
            }
        }
        self.tell_losses()
    }

    /// The canary's doorbell.
    pub(super) fn canary_rang(&mut self, heard: &Decoded) {
        let actor = &heard.event;
        let own = actor.tgid == std::process::id() && is_same_process(actor.tgid, actor.start_ns);
        // Before its close nothing is complete, and others may open what they like.
        if heard.kind != Kind::Close || !self.selftest.heard() {
            return;
        }
        if !own {
            self.selftest.excuse();
            return self.sensor_fault(Fault::WrongActor(actor.tgid));
        }
        let (store, number) = (Arc::clone(&self.store), self.selftest.number);
        self.run(Haste::Urgent, move || Done::SelfTest {
            number,
            step: Step::Read(read(&store)),
        });
    }

    /// A job of the self-test has come back.
    pub(super) fn self_tested(&mut self, number: u64, step: Step) -> Result<(), PipelineError> {
        if number != self.selftest.number {
            return Ok(());
        }
        match step {
            Step::Written(Ok(tampered)) => {
                self.selftest.written();
                if !tampered.is_empty() {
                    self.sensor_fault(Fault::Tampered(tampered.join("; ")));
                }
            }
            Step::Written(Err(why)) => {
                self.selftest.excuse();
                self.sensor_fault(Fault::NotWritten(why));
            }
            Step::Read(Ok(number)) => self.selftest.read(number),
            Step::Read(Err(why)) => {
                self.selftest.excuse();
                self.sensor_fault(Fault::NotRead(why));
            }
        }
        self.tell_losses()
    }

    /// Marks that are up although nobody waits to look: their doorbells never came.
    fn heed_marks(
        &mut self,
        register: &Register,
        ears: &mut Option<Ears>,
    ) -> Result<(), PipelineError> {
        let dirty = match register.watch.dirty(self.objects.count() as u32) {
            Ok(dirty) => dirty,
            Err(problem) => {
                warn!("the dirty marks cannot be read: {problem}");
                return Ok(());
            }
        };
        // What has been marked since the ring was empty has rung, too, and says who it was.
        self.drain(ears)?;
        for index in self.marked(&dirty) {
            let state = &self.paths[index];
            let waits = state.busy.is_some()
                || state.why.is_some()
                || state.queued != Queued::No
                || self.timers.get(Timer::Path(index)).is_some();
            if !waits {
                let unheard = "the event that told who never came";
                self.look_why(index, Why::without_doorbell(Cause::Kernel, unheard), true);
            }
        }
        Ok(())
    }

    /// The sensor is not what it should be: said, and, where that may help, loaded anew as soon as no job is under way.
    fn sensor_fault(&mut self, fault: Fault) {
        warn!("{fault}");
        if fault.is_the_sensors() {
            self.repair.get_or_insert_with(|| fault.clone());
        } else if self.selftest.fault.as_ref() != Some(&fault) {
            // There is nothing to repair; as long as it stays the same it is told once.
            self.losses.unsound(fault.reason(), fault.to_string(), 0);
        }
        self.selftest.fault = Some(fault);
    }

    pub(super) fn may_repair(&self) -> bool {
        self.repair.is_some()
            && self.running == 0
            && self.next.is_none()
            && self.switching.is_none()
    }

    /// Loads and attaches the kernel half anew, and reads everything again: nobody knows what was missed.
    pub(super) fn repair(&mut self, ears: &mut Option<Ears>) -> Result<(), PipelineError> {
        let Some(fault) = self.repair.take() else {
            return Ok(());
        };
        let count = self.objects.count();
        let repaired = if let Fault::Detached(_) = fault {
            // Somebody has closed descriptors of this process. New ones would get their numbers, and be closed with the old links.
            if let Some(old) = ears.take() {
                old.attached.let_go();
            }
            *ears = self.larger(count);
            match &self.deaf {
                None => LOADED_ANEW.to_owned(),
                Some(reason) => format!("{NOT_LOADED} ({reason})"),
            }
        } else {
            match self.listen(count) {
                Ok(new) => {
                    *ears = Some(new);
                    LOADED_ANEW.to_owned()
                }
                // The old ones may still hear something.
                Err(reason) => format!("{NOT_LOADED} ({reason})"),
            }
        };
        self.declare(Arc::clone(&self.snapshot), None, Cause::Scan, ears)?;
        self.losses.unsound(
            fault.reason(),
            format!("{fault}; {repaired}"),
            self.paths.len(),
        );
        // Whether that has helped is to be known at once.
        self.timers.set(Timer::SelfTest, Instant::now());
        self.tell_losses()
    }
}

/// Writes the file, and holds the tables against what was put into them: `Ok` with a sentence for each that differs.
fn write(store: &Store, register: &Register, number: u64) -> Result<Vec<String>, String> {
    let text = |error: std::io::Error| error.to_string();
    let watch = &register.watch;
    let since = boot_ns();
    let canary = store.canary().map_err(text)?;
    // The kernel half has seen that open, and says what the file is called there. Where it has not, no doorbell comes either.
    match watch.learned(since) {
        Some(learned) => register.canary(learned.key),
        None => debug!("the kernel programs have not seen the canary's file being opened"),
    }
    if let Err(problem) = watch.clear(CANARY_SLOT) {
        warn!("the canary's mark cannot be set back: {problem}");
    }
    canary.write(number).map_err(text)?;
    Ok(match watch.tampered() {
        Ok(tampered) => tampered.iter().map(ToString::to_string).collect(),
        Err(problem) => {
            warn!("the kernel tables cannot be read: {problem}");
            Vec::new()
        }
    })
}

fn read(store: &Store) -> Result<u64, String> {
    match store.canary_number() {
        Ok(Some(number)) => Ok(number),
        Ok(None) => Err("it is gone".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> SelfTest {
        let mut test = SelfTest::new(6);
        assert_eq!(test.due(), Due::Begin(7));
        test
    }

    #[test]
    fn a_test_that_comes_all_the_way_back_has_passed() {
        let mut test = begun();
        test.written();
        assert!(test.heard());
        test.read(7);
        assert_eq!(test.due(), Due::Passed);
        assert_eq!(test.due(), Due::Begin(8));
    }

    #[test]
    fn the_doorbell_may_come_before_the_news_that_the_file_is_written() {
        let mut test = begun();
        assert!(test.heard());
        test.written();
        test.read(7);
        assert_eq!(test.due(), Due::Passed);
    }

    #[test]
    fn where_it_stops_is_told() {
        let mut test = begun();
        assert!(matches!(test.due(), Due::Failed(Fault::NotWritten(_))));
        let mut test = begun();
        test.written();
        assert_eq!(test.due(), Due::Failed(Fault::NotHeard));
        let mut test = begun();
        test.written();
        test.heard();
        test.read(6);
        assert!(
            matches!(test.due(), Due::Failed(Fault::NotRead(_))),
            "an old number"
        );
    }

    #[test]
    fn a_second_doorbell_and_one_that_nobody_waits_for_are_none() {
        let mut test = SelfTest::new(0);
        assert!(!test.heard());
        let mut test = begun();
        assert!(test.heard());
        assert!(!test.heard());
    }

    #[test]
    fn a_doorbell_that_the_ring_has_lost_is_no_fault() {
        let mut test = begun();
        test.written();
        test.excuse();
        assert_eq!(test.due(), Due::Passed);
    }

    #[test]
    fn a_fault_stands_until_a_test_has_passed() {
        let mut test = begun();
        test.fault = Some(Fault::NotHeard);
        test.written();
        test.excuse();
        assert_eq!(test.due(), Due::Passed);
        assert_eq!(test.fault(), Some(&Fault::NotHeard), "nothing was heard");
        let Due::Begin(number) = test.due() else {
            panic!("the next one");
        };
        test.written();
        test.heard();
        test.read(number);
        assert_eq!(test.fault(), None);
    }

    #[test]
    fn only_what_the_sensor_does_is_answered_by_loading_it_anew() {
        let disk = [
            Fault::NotWritten(String::new()),
            Fault::NotRead(String::new()),
        ];
        assert!(disk.iter().all(|fault| !fault.is_the_sensors()));
        let sensor = [
            Fault::NotHeard,
            Fault::WrongActor(1),
            Fault::Detached(Vec::new()),
            Fault::Tampered(String::new()),
        ];
        assert!(sensor.iter().all(Fault::is_the_sensors));
    }
}
