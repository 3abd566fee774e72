//! Between a drift and its heal: what holds it back, and for how long.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use log::warn;

use crate::{
    declare::{ActivePolicy, MassDrift, Mode, Snapshot},
    heal::{Action, Budget, Mass, MassVerdict, Verdict, plan},
    report::{Cause, Event, Outcome},
    store::{Spent, StoreError},
};

use super::{
    Pipeline, PipelineError,
    path::{Ongoing, Why},
    timers::Timer,
    work::Job,
};

/// What one policy's heals have in common.
#[derive(Debug)]
pub(super) struct PolicyBrake {
    budget: Budget,
    mass: Mass,
    /// Its version is being put in place: until all of it was as declared once, what differs is no drift.
    activating: bool,
}

impl PolicyBrake {
    fn new(mass: Mass) -> Self {
        Self {
            budget: Budget::default(),
            mass,
            activating: false,
        }
    }
}

/// Versions by policy, as an earlier run has left them.
#[derive(Debug, Default)]
pub(super) struct Before {
    active: BTreeMap<String, String>,
    activating: BTreeMap<String, String>,
}

/// What is to be done about a path.
pub(super) enum Decision {
    /// It does not drift, or nobody wants that put back.
    Nothing,
    Hold(Held),
    Heal(Action),
}

/// Why a path is not healed now.
pub(super) struct Held {
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// When to ask again.
    until: Option<Instant>,
}

/// Reasons that are not told as those of other paths are.
const OBSERVES: &str = "observe";
const COUNTING: &str = "not-compared";
const MASS: &str = "mass-drift";

impl Pipeline {
    /// What was active before this start. To be asked before what is active now is written down.
    pub(super) fn before(&self) -> Before {
        let state = self.store.state();
        let read = || {
            Ok(Before {
                active: state.active()?,
                activating: state.activating()?,
            })
        };
        read().unwrap_or_else(|error: StoreError| {
            warn!("what was active before is not known: {error}");
            Before::default()
        })
    }

    /// Brakes for the policies of the snapshot that holds now; `old` is the one before.
    pub(super) fn brake_policies(&mut self, old: &Snapshot) {
        let mut brakes: BTreeMap<&str, PolicyBrake> = old
            .policies
            .iter()
            .map(|policy| policy.name.as_str())
            .zip(std::mem::take(&mut self.policy_brakes))
            .collect();
        let snapshot = Arc::clone(&self.snapshot);
        for policy in &snapshot.policies {
            let name = policy.name.as_str();
            let known = old.policies.iter().find(|old| old.name == name);
            let version_before = match known {
                Some(known) => Some(&known.version),
                None => self.before.active.get(name),
            };
            let activates = version_before.is_some_and(|before| *before != policy.version);
            let mut brake = brakes
                .remove(name)
                .unwrap_or_else(|| PolicyBrake::new(self.first_look(policy)));
            if activates {
                brake.activating = true;
                self.note_activating(name, Some(&policy.version));
            } else if known.is_none() {
                brake.activating = self.before.activating.get(name) == Some(&policy.version);
            }
            if brake.activating || policy.guard.mass_drift == MassDrift::Heal {
                brake.mass = Mass::OVER;
            } else if brake.mass.verdict() == MassVerdict::Counting {
                brake.mass = self.first_look(policy);
            }
            self.policy_brakes.push(brake);
        }
    }

    fn first_look(&self, policy: &Arc<ActivePolicy>) -> Mass {
        let files = self.snapshot.files.iter();
        let of_policy =
            files.filter(|file| Arc::ptr_eq(&file.policy, policy) && file.on_drift == Mode::Heal);
        Mass::new(of_policy.count())
    }

    fn note_activating(&self, policy: &str, version: Option<&str>) {
        if let Err(error) = self.store.state().set_activating(policy, version) {
            warn!("whether {policy} is being put in place would not survive a restart: {error}");
        }
    }

    /// The place of a path's policy among the policies.
    fn policy_of(&self, index: usize) -> usize {
        let name = &self.snapshot.files[index].policy.name;
        let policies = &self.snapshot.policies;
        let found = policies.binary_search_by(|policy| policy.name.cmp(name));
        // A snapshot holds the policies of its files.
        found.unwrap_or(0)
    }

    /// A version is in place once all of it was as declared.
    pub(super) fn end_activations(&mut self) {
        for place in 0..self.policy_brakes.len() {
            if !self.policy_brakes[place].activating {
                continue;
            }
            let policy = Arc::clone(&self.snapshot.policies[place]);
            let files = self.snapshot.files.iter().zip(&self.paths);
            let mut of_policy = files.filter(|(file, _)| Arc::ptr_eq(&file.policy, &policy));
            if of_policy.all(|(_, state)| {
                state.looked && !state.drift.as_deref().is_some_and(Ongoing::matters)
            }) {
                self.policy_brakes[place].activating = false;
                self.note_activating(&policy.name, None);
            }
        }
    }

    /// A path was looked at: it may be the last of its policy that the first look waits for.
    pub(super) fn counted(&mut self, index: usize) -> Result<(), PipelineError> {
        let state = &mut self.paths[index];
        if std::mem::replace(&mut state.counted, true) {
            return Ok(());
        }
        let file = &self.snapshot.files[index];
        if file.on_drift != Mode::Heal {
            return Ok(());
        }
        let drift = state.drift.as_ref();
        let drifted = drift.is_some_and(|drift| !drift.healable(file).is_empty());
        let place = self.policy_of(index);
        let Some(brake) = self.policy_brakes.get_mut(place) else {
            return Ok(());
        };
        if !brake.mass.seen(drifted) {
            return Ok(());
        }
        let name = &self.snapshot.policies[place].name;
        let files = self.snapshot.files.iter().zip(&self.paths).enumerate();
        let waiting: Vec<usize> = files
            .filter(|(_, (file, state))| file.policy.name == *name && state.drift.is_some())
            .map(|(index, _)| index)
            .collect();
        for index in waiting {
            if self.paths[index].busy.is_none() {
                self.decide(index)?;
            }
        }
        Ok(())
    }

    /// A path is drifting: heal it, hold back, or leave it, as the policy and the brakes say.
    pub(super) fn decide(&mut self, index: usize) -> Result<(), PipelineError> {
        let now = Instant::now();
        let force = self.is_forced(index);
        match self.decision(index, now, force) {
            Decision::Nothing => Ok(()),
            Decision::Hold(held) => {
                self.held_by_hand(index, held.reason, &held.message);
                match held.reason {
                    // Said with the drift itself.
                    OBSERVES => Ok(()),
                    // Decided when all of the policy was looked at.
                    COUNTING => Ok(()),
                    MASS => self.hold_mass(index),
                    _ => {
                        if let Some(until) = held.until {
                            self.timers.set_no_later(Timer::Path(index), until);
                        }
                        self.hold(index, held.reason, held.message)
                    }
                }
            }
            Decision::Heal(action) => {
                let place = self.policy_of(index);
                self.heal(index, place, action, now);
                Ok(())
            }
        }
    }

    /// What is to be done about a path that drifts. The brakes are asked in the order of docs/brakes.md; `force`: only those that people have put
    /// on for everybody.
    pub(super) fn decision(&mut self, index: usize, now: Instant, force: bool) -> Decision {
        let file = Arc::clone(&self.snapshot.files[index]);
        let Some(drift) = &self.paths[index].drift else {
            return Decision::Nothing;
        };
        let drifts = drift.healable(&file);
        if drifts.is_empty() {
            return Decision::Nothing; // reported, and that is all that is wanted
        }
        let held = |reason, message| {
            Decision::Hold(Held {
                reason,
                message,
                until: None,
            })
        };
        if file.on_drift == Mode::Observe && !force {
            let message = "the policy says that it is only watched";
            return held(OBSERVES, message.to_owned());
        }
        let wall = SystemTime::now();
        let stop = self.halt.stops.of(&file.policy, wall);
        if let Some(stop) = stop.filter(|stop| !force || stop.kind.stops_people()) {
            let left = |until: SystemTime| now + until.duration_since(wall).unwrap_or_default();
            return Decision::Hold(Held {
                reason: stop.kind.reason(),
                message: stop.message,
                until: stop.until.map(left),
            });
        }
        let action = match plan(&file, &drifts, drift.print.found()) {
            Ok(action) => action,
            Err(impossible) => {
                return held(impossible.reason(), impossible.sentence().to_owned());
            }
        };
        if force {
            return Decision::Heal(action);
        }
        let place = self.policy_of(index);
        match self.policy_brakes[place].mass.verdict() {
            MassVerdict::Counting => {
                let message = "the first look at the policy is not over";
                return held(COUNTING, message.to_owned());
            }
            MassVerdict::Held => {
                let message = self.mass_message(place);
                return held(MASS, message);
            }
            MassVerdict::Go => {}
        }
        match self.held(index, place, now) {
            Some(held) => Decision::Hold(held),
            None => Decision::Heal(action),
        }
    }

    fn heal(&mut self, index: usize, place: usize, action: Action, now: Instant) {
        let state = &mut self.paths[index];
        let cause = state
            .drift
            .as_ref()
            .map_or(Cause::Scan, |drift| drift.cause);
        state.busy = Some(Why::without_doorbell(cause, ""));
        if !self.is_activation(place, cause) {
            self.policy_brakes[place].budget.spend(now);
        }
        self.timers.clear(Timer::Path(index));
        self.reloads.heals += 1;
        self.urgent.push_front(Job::Heal(index, action));
    }

    /// What a new version changes is no drift, be it that the policy has changed now, or before this start.
    fn is_activation(&self, place: usize, cause: Cause) -> bool {
        match cause {
            Cause::Policy => true,
            Cause::Start => self.policy_brakes[place].activating,
            Cause::Kernel | Cause::Scan => false,
        }
    }

    /// Whether an earlier run had this version of the path's policy in force: only then do its brakes still hold.
    pub(super) fn was_active(&self, index: usize) -> bool {
        let policy = &self.snapshot.files[index].policy;
        self.before.active.get(&policy.name) == Some(&policy.version)
    }

    /// What holds a path back now.
    fn held(&mut self, index: usize, place: usize, now: Instant) -> Option<Held> {
        let guard = &self.snapshot.files[index].policy.guard;
        let cause = self.paths[index].drift.as_ref()?.cause;
        let is_activation = self.is_activation(place, cause);
        let state = &mut self.paths[index];
        let drift = state.drift.as_ref()?;
        if drift.is_stuck() {
            return Some(Held {
                reason: "does-not-converge",
                message: "what is written does not last until it is read again".to_owned(),
                until: None,
            });
        }
        if is_activation {
            return None;
        }
        let before = state.fights.until();
        if let Some(contested) = state.fights.ask(guard.fight.as_ref(), &drift.rival, now) {
            let wait = time(contested.until.saturating_duration_since(now));
            let heals = match contested.heals {
                0 => "fought over before a restart".to_owned(),
                heals => format!(
                    "healed {heals} times in {} against {}",
                    time(contested.within),
                    contested.rival
                ),
            };
            let until = state.fights.until();
            if until != before {
                self.note_brake(index, until, SystemTime::now(), now);
            }
            return Some(Held {
                reason: "contested",
                message: format!(
                    "{heals}: two programs disagree about this path, so it is left alone for {wait} (guard.fight)"
                ),
                until: Some(contested.until),
            });
        }
        if let Verdict::Hold(until) = state.brake.ask(now) {
            let row = state.brake.row();
            let wait = until.saturating_duration_since(now).as_secs_f64();
            let times = if row == 1 {
                "once".to_owned()
            } else {
                format!("{row} times")
            };
            return Some(Held {
                reason: "backoff",
                message: format!(
                    "healed {times} just before: holding for {wait:.1} s (guard.backoff)"
                ),
                until: Some(until),
            });
        }
        let most = guard.per_minute?;
        let until = self.policy_brakes[place].budget.ask(most, now)?;
        Some(Held {
            reason: "budget",
            message: format!(
                "{most} heals of this policy in a minute: holding for {} (guard.perMinute)",
                time(until.saturating_duration_since(now))
            ),
            until: Some(until),
        })
    }

    /// Says once for the whole policy that most of it drifts, and that none of it is healed.
    fn hold_mass(&mut self, index: usize) -> Result<(), PipelineError> {
        let place = self.policy_of(index);
        let name = self.snapshot.policies[place].name.clone();
        let files = self.snapshot.files.iter().zip(&mut self.paths);
        let of_policy = files.filter(|(file, _)| file.policy.name == name);
        let drifts = of_policy.filter_map(|(_, state)| state.drift.as_mut());
        let mut is_told = false;
        for drift in drifts {
            is_told |= drift.told == Some(MASS);
            drift.told = Some(MASS);
        }
        if is_told {
            return Ok(());
        }
        if let Some(drift) = &mut self.paths[index].drift {
            drift.told = None;
        }
        let message = self.mass_message(place);
        self.hold(index, MASS, message)
    }

    fn mass_message(&self, place: usize) -> String {
        let (drifted, paths) = self.policy_brakes[place].mass.figures();
        let name = &self.snapshot.policies[place].name;
        format!(
            "{drifted} of {paths} files of this policy are not as declared at the first look: none of them is healed. If the policy is right, heal all of it once with `drift-agent heal --policy {name} --force`, or say so with `guard: {{massDrift: heal}}` in it; if it is not, activate another version"
        )
    }

    /// Says why healing is held back, once.
    fn hold(
        &mut self,
        index: usize,
        reason: &'static str,
        message: String,
    ) -> Result<(), PipelineError> {
        let Some(drift) = &mut self.paths[index].drift else {
            return Ok(());
        };
        // Between the tries of a heal that fails, its failure is what there is to say.
        if drift.told == Some(reason) || drift.failures > 0 {
            return Ok(());
        }
        drift.told = Some(reason);
        let (cause, drifts) = (drift.cause, drift.drifts.clone());
        let mut record = self.about(Event::HealSuppressed, index, cause);
        record.drift = drifts;
        record.outcome = Some(Outcome::Suppressed);
        record.reason = Some(reason);
        record.message = Some(message);
        self.tell(&record)
    }

    /// The heals of a policy in the last minute.
    pub(super) fn spent(&self, policy: &str, wall: SystemTime, now: Instant) -> Option<Spent> {
        let policies = self.snapshot.policies.iter();
        let brake = policies
            .zip(&self.policy_brakes)
            .find(|(active, _)| active.name == policy);
        let spent = brake?.1.budget.spent(now);
        Some(
            spent
                .filter_map(|(ago, heals)| Some((wall.checked_sub(ago)?, heals)))
                .collect(),
        )
    }

    /// What was healed in the minute before a restart counts in the minute after it.
    pub(super) fn resume_budgets(
        &mut self,
        spent: &BTreeMap<String, Spent>,
        wall: SystemTime,
        now: Instant,
    ) {
        for (policy, brake) in self.snapshot.policies.iter().zip(&mut self.policy_brakes) {
            let spent = spent.get(&policy.name).into_iter().flatten();
            let ago = |time: SystemTime| wall.duration_since(time).ok();
            let spent = spent.filter_map(|(time, heals)| Some((ago(*time)?, *heals)));
            brake.budget = Budget::resumed(spent, now);
        }
    }

    /// A heal was tried. `written`: the drift that it has put back, or would have if nobody had come in between.
    pub(super) fn braked(&mut self, index: usize, written: Option<&Ongoing>, now: Instant) {
        let place = self.policy_of(index);
        let is_activation = written.is_some_and(|drift| self.is_activation(place, drift.cause));
        let guard = &self.snapshot.files[index].policy.guard;
        let state = &mut self.paths[index];
        state.brake.tried(now, &guard.backoff);
        if let Some(drift) = written.filter(|_| !is_activation) {
            state.fights.healed(guard.fight.as_ref(), &drift.rival, now);
        }
        let contested = state.fights.until();
        self.note_brake(index, contested, SystemTime::now(), now);
    }
}

/// For people: `20 s`, `5 min`, `1 h`.
fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}
