//! What people hold healing back with: looked at once a second, told when it begins and when it is over, each once.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use drift_common::escape;
use log::warn;

use crate::{
    declare::{Mode, Snapshot},
    observe::actor_of,
    report::{Actor, Cause, Event, Outcome, Record, complain},
    serve::{Pausing, Peer, Resuming, StopStatus},
    stop::{Files, Kind, Stop, Stops},
    store::{LONGEST_PAUSE, Moved, Pause, Pauses},
    switch::{self, Answer},
};

use super::{Pipeline, PipelineError, timers::Timer};

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// What stops, and what was said of it.
#[derive(Debug)]
pub(super) struct Halt {
    files: Files,
    pub(super) stops: Stops,
    /// By policy: what was told to stop it. Windows come and go, and are told path by path.
    told: BTreeMap<String, Stop>,
    refused: Vec<String>,
    /// What was under way between versions waits for it.
    pub(super) waits: bool,
}

impl Halt {
    pub(super) fn new(files: Files, pauses: Pauses) -> Self {
        let stops = Stops {
            files: files.look(),
            pauses,
        };
        Self {
            files,
            stops,
            told: BTreeMap::new(),
            refused: Vec::new(),
            waits: false,
        }
    }
}

impl Pipeline {
    /// Looks at what stops, and says what is new. True where something may go on now that was stopped.
    pub(super) fn look_at_stops(
        &mut self,
        cause: Cause,
        who: Option<&Result<Actor, String>>,
    ) -> Result<(), PipelineError> {
        let (now, wall) = (Instant::now(), SystemTime::now());
        self.timers.set(Timer::Stops, now + EVERY);
        self.halt.stops.files = self.halt.files.look();
        for refused in &self.halt.stops.files.refused {
            if !self.halt.refused.contains(refused) {
                warn!("{refused}");
            }
        }
        self.halt.refused.clone_from(&self.halt.stops.files.refused);
        self.forget_pauses(wall);
        let snapshot = std::sync::Arc::clone(&self.snapshot);
        let mut loud = Vec::new();
        let mut told = BTreeMap::new();
        let mut is_released = false;
        for policy in &snapshot.policies {
            let stop = self.halt.stops.of(policy, wall);
            let stop = stop.filter(|stop| stop.kind != Kind::Window);
            let before = self.halt.told.remove(&policy.name);
            match (&before, &stop) {
                (Some(before), Some(stop)) if before == stop => {}
                (_, Some(stop)) => {
                    loud.push(stop.message.clone());
                    self.say_stopped(
                        policy.name.clone(),
                        policy.version.clone(),
                        stop,
                        cause,
                        who,
                    )?;
                }
                (Some(before), None) => {
                    is_released = true;
                    loud.push(format!("healing goes on. Over is: {}", before.message));
                    self.say_released(policy.name.clone(), policy.version.clone(), before, who)?;
                }
                (None, None) => {}
            }
            if let Some(stop) = stop {
                told.insert(policy.name.clone(), stop);
            }
        }
        self.halt.told = told;
        loud.dedup();
        for sentence in loud {
            complain(format_args!("{sentence}."));
        }
        if is_released {
            self.decide_again()?;
        }
        if self.halt.waits && is_released {
            self.halt.waits = false;
            self.again = true;
        }
        Ok(())
    }

    /// Pauses that are over go.
    fn forget_pauses(&mut self, wall: SystemTime) {
        let mut pauses = self.store.pauses();
        if pauses.expire(wall)
            && let Err(error) = self.store.set_pauses(&pauses)
        {
            // Over all the same, by the time that it says.
            warn!("that a pause is over is not kept: {error}");
        }
        self.halt.stops.pauses = pauses;
    }

    /// Whatever drifts and is not under way is decided anew.
    fn decide_again(&mut self) -> Result<(), PipelineError> {
        for index in 0..self.paths.len() {
            let state = &self.paths[index];
            if state.drift.is_some() && state.busy.is_none() && state.looked {
                self.decide(index)?;
            }
        }
        Ok(())
    }

    fn say_stopped(
        &mut self,
        policy: String,
        version: String,
        stop: &Stop,
        cause: Cause,
        who: Option<&Result<Actor, String>>,
    ) -> Result<(), PipelineError> {
        let mut record = Record::new(Event::HealSuppressed);
        record.policy = Some(policy);
        record.version = Some(version);
        record.path = Some(self.where_it_says(stop.kind));
        record.cause = Some(cause);
        record.outcome = Some(Outcome::Suppressed);
        record.reason = Some(stop.kind.reason());
        record.message = Some(stop.message.clone());
        record.actor = Some(who.cloned().unwrap_or_else(|| {
            Err("found by looking, once a second: the message says whose it is".to_owned())
        }));
        Ok(self.reporter.report(&record)?)
    }

    fn say_released(
        &mut self,
        policy: String,
        version: String,
        before: &Stop,
        who: Option<&Result<Actor, String>>,
    ) -> Result<(), PipelineError> {
        let mut record = Record::new(Event::PolicyActivated);
        record.policy = Some(policy);
        record.version = Some(version);
        record.reason = Some("healing-resumed");
        record.message = Some(format!("healing goes on. Over is: {}", before.message));
        record.actor = who.cloned();
        Ok(self.reporter.report(&record)?)
    }

    /// The file that says it.
    fn where_it_says(&self, kind: Kind) -> PathBuf {
        let files = &self.halt.stops.files;
        match kind {
            Kind::KillSwitch | Kind::BreakGlass => files.path(SystemTime::now()),
            Kind::Paused | Kind::Window => None,
        }
        .map_or_else(|| self.settings.state.join("pauses"), PathBuf::from)
    }

    /// Somebody holds healing.
    pub(super) fn pause(&mut self, asked: &Pausing, peer: Peer) -> Result<Answer, PipelineError> {
        if let Some(unknown) = self.unknown(asked.policy.as_deref()) {
            return Ok(unknown);
        }
        let now = SystemTime::now();
        let pause = Pause {
            since: now,
            until: Some(now + Duration::from_secs(asked.seconds).min(LONGEST_PAUSE)),
            by: by(&asked.by, peer),
            reason: asked.reason.clone(),
        };
        let text = switch::paused(&pause, asked.policy.as_deref());
        let mut pauses = self.store.pauses();
        if let Err(why) = pauses.add(asked.policy.as_deref(), pause) {
            return Ok(Answer::new(1, format!("{why}\n")));
        }
        if let Err(error) = self.store.set_pauses(&pauses) {
            return Ok(Answer::new(1, format!("{error}\nNothing was changed.\n")));
        }
        self.look_at_stops(Cause::Policy, Some(&who(peer)))?;
        Ok(Answer::new(0, text))
    }

    /// Somebody lets it go on.
    pub(super) fn resume(&mut self, asked: &Resuming, peer: Peer) -> Result<Answer, PipelineError> {
        if let Some(unknown) = self.unknown(asked.policy.as_deref()) {
            return Ok(unknown);
        }
        let mut pauses = self.store.pauses();
        let ended = pauses.end(asked.policy.as_deref());
        if let Err(error) = self.store.set_pauses(&pauses) {
            return Ok(Answer::new(1, format!("{error}\nNothing was changed.\n")));
        }
        self.look_at_stops(Cause::Policy, Some(&who(peer)))?;
        let still = self.halt.stops.of_all(SystemTime::now());
        Ok(switch::resumed(
            &ended,
            asked.policy.as_deref(),
            still.as_ref(),
        ))
    }

    pub(super) fn unknown(&self, policy: Option<&str>) -> Option<Answer> {
        let name = policy?;
        let is_known = self.snapshot.policy(name).is_some();
        (!is_known).then(|| {
            let name = escape::name(name);
            let text = format!(
                "there is no policy {name} here: `drift-agent status` names those there are\n"
            );
            Answer::new(10, text)
        })
    }

    /// What stops versions from changing, of those that write something: what comes by itself waits for all of it, what somebody asks for is
    /// only stopped by what stops people.
    pub(super) fn stop_of_moves(
        &self,
        new: &Snapshot,
        moves: &[Moved],
        by_hand: bool,
    ) -> Option<Stop> {
        let now = SystemTime::now();
        moves.iter().find_map(|moved| {
            let policies = new.policies.iter();
            let policy = policies
                .into_iter()
                .find(|policy| policy.name == moved.policy)?;
            let stop = self.halt.stops.of(policy, now)?;
            (writes(new, &policy.name) && (!by_hand || stop.kind.stops_people())).then_some(stop)
        })
    }

    /// A change of versions that the folder asks for waits.
    pub(super) fn say_waits(&mut self, moves: &[Moved], stop: &Stop) -> Result<(), PipelineError> {
        if let Some(until) = stop.until {
            let left = until.duration_since(SystemTime::now()).unwrap_or_default();
            self.timers
                .set_no_later(Timer::Waiting, Instant::now() + left);
        }
        if std::mem::replace(&mut self.halt.waits, true) {
            return Ok(());
        }
        let versions = switch::shown(moves);
        complain(format_args!("{versions} waits: {}.", stop.message));
        for moved in moves {
            let mut record = Record::new(Event::HealSuppressed);
            record.policy = Some(moved.policy.clone());
            record.version = Some(moved.to.clone());
            record.path = Some(self.where_it_says(stop.kind));
            record.cause = Some(Cause::Policy);
            record.outcome = Some(Outcome::Suppressed);
            record.reason = Some(stop.kind.reason());
            record.message = Some(format!("{versions} waits: {}", stop.message));
            self.reporter.report(&record)?;
        }
        Ok(())
    }

    /// For `status`.
    pub(super) fn stop_status(&self, wall: SystemTime) -> Vec<StopStatus> {
        if let Some(stop) = self.halt.stops.of_all(wall) {
            return vec![StopStatus::new(None, &stop)];
        }
        let policies = self.snapshot.policies.iter();
        policies
            .filter_map(|policy| {
                let stop = self.halt.stops.of(policy, wall)?;
                Some(StopStatus::new(Some(&policy.name), &stop))
            })
            .collect()
    }
}

/// Whether healing writes anything of a policy.
fn writes(snapshot: &Snapshot, policy: &str) -> bool {
    let mut files = snapshot.files.iter();
    files.any(|file| file.policy.name == policy && file.on_drift == Mode::Heal)
}

/// Who the command says it is, and what the kernel says of it.
pub(super) fn by(said: &str, peer: Peer) -> String {
    let pid = peer.pid.map(|pid| format!(", pid {pid}"));
    let said: String = said.chars().take(200).collect();
    let uid = format!("uid {}", peer.uid);
    match said.strip_suffix(&format!("({uid})")) {
        Some(name) => format!("{name}({uid}{})", pid.unwrap_or_default()),
        None => format!("{uid}{}", pid.unwrap_or_default()),
    }
}

pub(super) fn who(peer: Peer) -> Result<Actor, String> {
    let pid = peer.pid.ok_or("who asks is in another pid namespace")?;
    actor_of(pid, peer.uid, peer.gid).ok_or_else(|| format!("pid {pid} has ended meanwhile"))
}
