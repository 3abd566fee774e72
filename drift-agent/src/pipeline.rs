//! From a wake-up to a report: the whole way, in one place.
//!
//! ```text
//! wake -> settle -> observe -> compare -> plan -> guard -> execute -> verify -> report
//! ```
//!
//! One task owns all state. Looking and healing block, so they run on a small pool of threads as [`work::Job`]s and come back as [`Wake::Done`].

mod abort;
mod attribute;
mod by_hand;
mod change;
mod describe;
mod drain;
mod ears;
mod end;
mod guard;
mod healed;
mod health;
mod judge;
mod keep;
mod loss;
mod mounts;
mod path;
mod quiet;
mod ready;
mod reloads;
mod scan;
mod selftest;
mod service;
mod status;
mod stops;
mod superseded;
mod sweep;
mod timers;
mod work;

pub(crate) use attribute::differences as attribute_differences;
pub(crate) use describe::{
    also_declared, declared as declared_side, detail, observed as observed_side,
};

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    io::{self, IsTerminal},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use crate::{
    cluster::Pods,
    confine::Confined,
    declare::{Basis, Changes, Rejected, Snapshot},
    observe::{Host, Identify, Objects, Register, Search, boot_ns},
    probe::Probe,
    report::{Cause, Event, Record, ReportError, Reporter, Watching, complain},
    restore::Restorer,
    serve::Asked,
    settings::{SCAN_BESIDE_PROBES, Settings},
    stop::Files,
    store::Store,
    switch::{Changed, Switched},
};

use self::{
    change::Next,
    ears::{Ears, rung},
    health::Noting,
    path::PathState,
    quiet::{Pace, Quiet},
    timers::{Timer, Timers},
    work::{Done, Job},
};

/// Jobs under way at once: enough for their syncs to share the disk's journal, few enough to leave the machine alone.
const MOST_JOBS: usize = 8;

/// How often what is not urgent is looked at: opens for writing, reads, counters.
const TICK: Duration = Duration::from_millis(500);

/// Everything that can wake the pipeline.
enum Wake {
    /// The kernel rang.
    Ring,
    /// So many have read watched files that they should be heard of now.
    Loads,
    /// A job came back.
    Done(Box<Done>),
    /// A time has come.
    Time,
    /// Something was mounted or unmounted.
    Mounts,
    /// The policy folder changed, or SIGHUP.
    Policies,
    /// Somebody asks through the control socket.
    Asked(Box<Asked>),
    /// SIGTERM, SIGINT.
    End,
}

/// Why the agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    #[error("cannot listen to the kernel programs")]
    Ring(#[source] io::Error),
    #[error("cannot start the threads of the periodic scans")]
    Threads(#[source] io::Error),
    #[error("cannot write the ready file {path}")]
    Ready { path: String, source: io::Error },
}

/// All state.
struct Pipeline {
    settings: Settings,
    store: Arc<Store>,
    restorer: Arc<Restorer>,
    confined: Confined,
    reporter: Reporter,
    host: Arc<Host>,
    snapshot: Arc<Snapshot>,
    /// What is declared when the jobs under way have come back.
    next: Option<Next>,
    /// What is being made as it declares.
    switching: Option<Arc<Snapshot>>,
    /// Who wants that to end.
    stopping: Option<abort::Stopping>,
    /// The folder is to be read again when that is over.
    again: bool,
    /// Counts snapshots: a job that comes back for an older one is only counted.
    generation: u64,
    objects: Arc<Objects>,
    register: Option<Arc<Register>>,
    paths: Vec<PathState>,
    /// As many as the snapshot has policies.
    policy_brakes: Vec<guard::PolicyBrake>,
    before: guard::Before,
    halt: stops::Halt,
    by_hand: Option<by_hand::ByHand>,
    reloads: reloads::Reloads,
    search: Arc<Search>,
    /// Paths that somebody has open for writing.
    writing: BTreeSet<usize>,
    identify: Identify,
    /// What the cluster says of containers, where there is one.
    pods: Option<Pods>,
    timers: Timers,
    urgent: VecDeque<Job>,
    /// What the periodic scan has not looked at.
    patient: VecDeque<usize>,
    pace: Pace,
    /// Where its looks run, if they are to come last.
    quiet: Option<Quiet>,
    running: usize,
    done: mpsc::UnboundedSender<Box<Done>>,
    /// Looks of the first scan that are not back yet; `None` when it is over.
    first: Option<usize>,
    losses: loss::Losses,
    sweep: sweep::Sweep,
    scans: scan::FullScans,
    selftest: selftest::SelfTest,
    /// The kernel half is to be loaded anew when no job is under way.
    repair: Option<selftest::Fault>,
    mounts: mounts::Mounted,
    /// Policies that were not as declared since their health was noted last.
    unsound: BTreeSet<String>,
    noting: Arc<Noting>,
    /// Why the policies that are in the folder are not in force.
    rejected: Option<String>,
    /// Why there is no actor, where nothing hears them.
    deaf: Option<String>,
    watching: Watching,
    /// Its name: `btf`, `tracepoint`, `scan`.
    sensor: &'static str,
    /// Programs that are attached, of all there are.
    hooks: (usize, usize),
    started: Instant,
    service: Option<service::Service>,
}

/// What `run` needs beside its settings.
#[derive(Debug)]
pub struct Parts {
    pub settings: Settings,
    pub store: Arc<Store>,
    pub restorer: Restorer,
    pub confined: Confined,
    pub reporter: Reporter,
    pub host: Host,
    pub snapshot: Snapshot,
    /// What the snapshot rests on, or what was rejected.
    pub basis: Basis,
    /// Why the snapshot is not what the policy folder holds, but the last good one.
    pub rejected: Option<Rejected>,
    /// What the folder says waits: what is declared is what it said before.
    pub waits: bool,
    /// Versions that were changed before the start: programs are still to take that in.
    pub switched: Option<Changed>,
    /// `Err`: why there are no probes.
    pub probe: Result<Probe, String>,
    /// What the cluster says of containers.
    pub pods: Option<Pods>,
    /// What is asked through the control socket.
    pub asked: mpsc::Receiver<Asked>,
}

/// Runs until SIGTERM or SIGINT. Everything is detached when it returns.
pub async fn run(parts: Parts) -> Result<(), PipelineError> {
    let (done, mut back) = mpsc::unbounded_channel();
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let mut basis = parts.basis;
    let sources = basis.take_sources();
    let mut changes = Changes::since(basis);

    let mut asked = parts.asked;
    let mut unseen = Vec::new();
    let mut hooks = 0;
    let mut sensor = "scan";
    let (mut ears, deaf) = match parts.probe {
        Ok(probe) => {
            sensor = probe.sensor.name();
            unseen.extend(probe.unseen().into_iter().map(str::to_owned));
            hooks = probe.hooks();
            (Some(Ears::new(probe)?), None)
        }
        Err(reason) => (None, Some(reason)),
    };
    let unseen_count = unseen.len();
    let files = Files::of(&parts.settings.state, &parts.settings.break_glass);
    let halt = stops::Halt::new(files, parts.store.pauses());
    let pace = Pace::new(parts.settings.scan_rate, Instant::now());
    let idle = parts.settings.scan_idle;
    let quiet = idle.then(|| Quiet::start(MOST_JOBS / 2)).transpose();
    let quiet = quiet.map_err(PipelineError::Threads)?;
    let host_root = parts.settings.host_root.clone();
    let mut pipeline = Pipeline {
        watching: Watching {
            sensor: match &deaf {
                None => format!("{sensor} probes ({hooks} hooks)"),
                Some(_) => "scan alone".to_owned(),
            },
            cannot_see: match &deaf {
                None => unseen,
                Some(_) => vec![
                    "who made a change, and changes that are undone between two scans".to_owned(),
                ],
            },
            ..Watching::default()
        },
        settings: parts.settings,
        store: parts.store,
        restorer: Arc::new(parts.restorer),
        confined: parts.confined,
        reporter: parts.reporter,
        host: Arc::new(parts.host),
        snapshot: Arc::default(),
        next: None,
        switching: None,
        stopping: None,
        again: parts.waits,
        generation: 0,
        objects: Arc::default(),
        register: None,
        paths: Vec::new(),
        policy_brakes: Vec::new(),
        halt,
        by_hand: None,
        reloads: reloads::Reloads::default(),
        search: Arc::default(),
        before: guard::Before::default(),
        writing: BTreeSet::new(),
        identify: Identify::new(&host_root),
        pods: parts.pods,
        timers: Timers::default(),
        urgent: VecDeque::new(),
        patient: VecDeque::new(),
        pace,
        quiet,
        running: 0,
        done,
        first: Some(0),
        losses: loss::Losses::default(),
        sweep: sweep::Sweep::default(),
        scans: scan::FullScans::default(),
        selftest: selftest::SelfTest::new(boot_ns()),
        repair: None,
        mounts: mounts::Mounted::default(),
        unsound: BTreeSet::new(),
        noting: Arc::default(),
        rejected: None,
        deaf,
        sensor,
        hooks: (hooks, hooks + unseen_count),
        started: Instant::now(),
        service: service::Service::of_environment(),
    };
    pipeline.before = pipeline.before();
    match parts.rejected {
        Some(rejected) => pipeline.say_rejected(&rejected)?,
        None => pipeline.keep(&parts.snapshot, sources),
    }
    pipeline.declare(Arc::new(parts.snapshot), None, Cause::Start, &mut ears)?;
    if let Some(Changed { switched, taken }) = parts.switched {
        for taken in taken {
            pipeline.tell(&taken.record(&pipeline.snapshot, None))?;
        }
        pipeline.after_switch(&switched, None);
    }
    pipeline.look_at_stops(Cause::Start, None)?;
    pipeline.resume_brakes();
    let now = Instant::now();
    pipeline
        .timers
        .set(Timer::Scan, now + pipeline.scan_interval());
    if ears.is_some() {
        pipeline.timers.set(Timer::Tick, now + TICK);
        pipeline.timers.set(Timer::SelfTest, now);
    } else {
        pipeline
            .timers
            .set(Timer::FullScan, now + SCAN_BESIDE_PROBES);
    }
    pipeline
        .timers
        .set(Timer::Health, now + pipeline.health_interval());

    let table = mounts::Table::of(&pipeline.host);
    loop {
        pipeline.start_jobs();
        pipeline.start_reloads();
        pipeline.reporter.pass_on();
        let wake = tokio::select! {
            biased;
            _ = terminate.recv() => Wake::End,
            _ = interrupt.recv() => Wake::End,
            _ = hangup.recv() => Wake::Policies,
            () = changes.changed() => Wake::Policies,
            Some(done) = back.recv() => Wake::Done(done),
            Some(asked) = asked.recv() => Wake::Asked(Box::new(asked)),
            wake = rung(&mut ears) => wake,
            () = table.changed() => Wake::Mounts,
            () = pipeline.timers.next() => Wake::Time,
        };
        match wake {
            Wake::Ring => pipeline.drain(&mut ears)?,
            Wake::Loads => {
                if let Some(ears) = &mut ears {
                    pipeline.drain_loads(ears);
                }
            }
            Wake::Done(done) => {
                if !done.is_apart() {
                    pipeline.running -= 1;
                }
                pipeline.take(*done, &mut ears)?;
                pipeline.advance(&mut ears)?;
                pipeline.ready()?;
            }
            Wake::Mounts => pipeline.table_changed(),
            Wake::Time => pipeline.time(&mut ears)?,
            Wake::Asked(asked) => pipeline.answer(*asked, &mut ears)?,
            Wake::Policies => {
                let basis = pipeline.reload(&mut ears)?;
                changes.rebase(basis);
            }
            Wake::End => break,
        }
        if pipeline.may_read_again() {
            let basis = pipeline.reload(&mut ears)?;
            changes.rebase(basis);
        }
        if pipeline.may_repair() {
            pipeline.repair(&mut ears)?;
        }
    }
    pipeline.end(&mut back, ears).await
}

fn listen(kind: SignalKind) -> Result<Signal, PipelineError> {
    signal(kind).map_err(PipelineError::Signals)
}

impl Pipeline {
    fn say_rejected(&mut self, rejected: &Rejected) -> Result<(), PipelineError> {
        // A line of a policy may hold a secret: it is shown to who sits there, never to a log.
        if io::stderr().is_terminal() {
            complain(rejected);
        } else {
            complain(rejected.plain());
        }
        self.rejected = Some(rejected.one_line().to_string());
        let mut record = Record::new(Event::PolicyRejected);
        record.reason = Some(rejected.reason());
        record.message = Some(format!(
            "{}; the last good policies stay in force",
            rejected.one_line()
        ));
        Ok(self.reporter.report(&record)?)
    }

    /// Makes a snapshot the one that holds, and looks at everything. No job is under way.
    fn declare(
        &mut self,
        snapshot: Arc<Snapshot>,
        switched: Option<&Switched>,
        cause: Cause,
        ears: &mut Option<Ears>,
    ) -> Result<(), PipelineError> {
        self.generation += 1;
        if let Some(register) = self.register.take() {
            register.withdraw();
        }
        // What has rung for the old table of slots says nothing in the new one; all is looked at below.
        if let Some(ears) = ears {
            while ears.changes.take().is_some() {}
            while ears.loads.take().is_some() {}
        }
        self.selftest.excuse();
        let objects = Arc::new(Objects::new(&snapshot.files));
        if let Some(heard) = ears
            && objects.count() > heard.capacity
        {
            *ears = self.larger(objects.count());
        }
        self.forget_by_hand();
        let old = std::mem::replace(&mut self.snapshot, snapshot);
        let mut states: HashMap<_, _> = old
            .files
            .iter()
            .zip(std::mem::take(&mut self.paths))
            .map(|(declared, state)| (declared.path.as_path(), (declared, state)))
            .collect();
        let mut superseded = Vec::new();
        let mut over = |before, state: &PathState| {
            let drift = state.drift.as_ref();
            superseded.extend(drift.map(|drift| superseded::record(before, drift, &self.snapshot)));
        };
        self.paths = self
            .snapshot
            .files
            .iter()
            .map(|declared| match states.remove(declared.path.as_path()) {
                Some((before, state)) if before == declared => state.carried_over(),
                Some((before, state)) => {
                    over(before, &state);
                    if before.policy.version == declared.policy.version {
                        state.brake_only()
                    } else {
                        PathState::default()
                    }
                }
                None => PathState::default(),
            })
            .collect();
        for (before, state) in states.values() {
            over(before, state);
        }
        drop(states);
        superseded.sort_by(|one, other| one.path.cmp(&other.path));
        for record in superseded {
            self.tell(&record)?;
        }
        self.brake_policies(&old);
        self.tell_restorer();
        self.writing.clear();
        self.host.declare(&self.snapshot.files);
        self.objects = objects;
        self.register = ears.as_ref().map(|ears| {
            Arc::new(Register::new(
                Arc::clone(&ears.watch),
                Arc::clone(&self.objects),
            ))
        });
        self.urgent.clear();
        self.patient.clear();
        self.reloads.heals = 0;
        self.timers.clear_paths();
        self.losses.forget();
        self.say_activated(&old, switched)?;
        // Policies that change during the first scan make it longer, or shorter.
        if self.first.is_some() {
            self.first = Some(self.paths.iter().filter(|state| !state.looked).count());
        }
        self.scans.begin_anew(&mut self.paths, Instant::now());
        for index in 0..self.paths.len() {
            self.look(index, cause, true);
        }
        self.ready()
    }

    /// A policy whose version is new here is told.
    fn say_activated(
        &mut self,
        old: &Snapshot,
        switched: Option<&Switched>,
    ) -> Result<(), PipelineError> {
        let holding = self.store.holding();
        for policy in &self.snapshot.policies {
            let known = old
                .policies
                .iter()
                .any(|old| old.name == policy.name && old.version == policy.version);
            if known {
                continue;
            }
            let mut record = Record::new(Event::PolicyActivated);
            record.policy = Some(policy.name.clone());
            record.version = Some(policy.version.clone());
            record.message = self.how_activated(policy, switched, &holding);
            self.reporter.report(&record)?;
        }
        self.watching.files = self.snapshot.files.len();
        self.watching.policies = self
            .snapshot
            .policies
            .iter()
            .map(|policy| {
                (
                    policy.name.clone(),
                    policy.version.clone(),
                    policy.mode.name(),
                )
            })
            .collect();
        Ok(self.reporter.watching(&self.watching)?)
    }
}
