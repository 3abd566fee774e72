//! What the pipeline says of itself when it is asked. All of it is its state; nothing is looked at for it.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use drift_common::{abi::Kind, escape};
use log::{debug, error};

use crate::{
    confine::Confined,
    declare::{Declared, Mode},
    observe::boot_ns,
    restore,
    serve::{
        Asked, Body, Counted, DriftStatus, Health, Held, HeldPath, Lack, LastScan, PolicyStatus,
        PrivilegeStatus, Reason, RecordsLost, Request, SensorStatus, Status, TableStatus, rfc3339,
    },
    settings::Sensor,
};

use super::{
    Ears, Pipeline, PipelineError, change::Ask, loss::tally, path::Ongoing, timers::Timer,
};

/// Held paths that are named, of each policy.
const MOST_NAMED: usize = 10;

/// Drifts that are named.
const MOST_DRIFTS: usize = 20;

/// A scan that is later than this, beyond its time, is overdue.
const GRACE: Duration = Duration::from_secs(60);

impl Pipeline {
    /// Answers a request.
    pub(super) fn answer(
        &mut self,
        asked: Asked,
        ears: &mut Option<Ears>,
    ) -> Result<(), PipelineError> {
        let Asked {
            request,
            peer,
            answer,
        } = asked;
        let body = match request {
            Request::Status => Body::Status(Box::new(self.status(ears.as_ref()))),
            Request::Version(demand, dry_run) => {
                let ask = Ask {
                    demand: *demand,
                    dry_run,
                    to: answer,
                };
                return self.asked(ask, ears);
            }
            Request::Abort(asked) => return self.abort(&asked, peer, answer),
            Request::Pause(asked) => Body::Done(self.pause(&asked, peer)?),
            Request::Resume(asked) => Body::Done(self.resume(&asked, peer)?),
            Request::Heal(asked) => return self.heal_by_hand(&asked, answer),
        };
        if answer.send(body).is_err() {
            debug!("who asked through the control socket has gone");
        }
        Ok(())
    }

    fn status(&self, ears: Option<&Ears>) -> Status {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let policies = self.policies(now, wall);
        let reasons = self.reasons(now, &policies);
        let health = if !reasons.is_empty() {
            Health::Degraded
        } else if policies.iter().any(|policy| policy.drifting > 0) {
            Health::Drifting
        } else {
            Health::Healthy
        };
        let uptime = now.saturating_duration_since(self.started);
        let exports = self.reporter.otlp_counts();
        Status {
            node: self.reporter.node().to_owned(),
            health,
            reasons,
            agent: Some(env!("CARGO_PKG_VERSION").to_owned()),
            pid: Some(std::process::id()),
            started: Some(rfc3339(wall - uptime)),
            uptime_s: Some(uptime.as_secs()),
            sensor: Some(SensorStatus {
                name: if self.deaf.is_some() {
                    "scan"
                } else {
                    self.sensor
                }
                .to_owned(),
                hooks_attached: if self.deaf.is_some() { 0 } else { self.hooks.0 },
                hooks: self.hooks.1,
                cannot_see: self.cannot_see(),
                tables: ears.map(|ears| TableStatus {
                    objects: self.objects.count(),
                    room: ears.capacity,
                    bytes: ears.table_bytes,
                }),
                counted: ears.map_or_else(Default::default, counted),
            }),
            events_lost: Some(self.losses.known()),
            records_lost: Some(RecordsLost {
                output: self.reporter.lines_lost(),
                export: exports.map_or(0, |counts| counts.lost + counts.refused),
                history: self.reporter.unkept(),
            }),
            last_full_scan: self.scans.last().map(|scan| LastScan {
                ended: rfc3339(scan.at),
                age_s: now.saturating_duration_since(scan.ended).as_secs(),
                files: scan.files,
                took_ns: u64::try_from(scan.took.as_nanos()).unwrap_or(u64::MAX),
            }),
            full_scan_running_s: self.scans.running_for(now).map(|time| time.as_secs()),
            stops: self.stop_status(wall),
            policies,
            drifts: self.drifts(wall),
            store: None,
            privilege: Some(self.privilege()),
        }
    }

    fn privilege(&self) -> PrivilegeStatus {
        let Confined {
            user,
            landlock,
            filter,
            lacks,
        } = &self.confined;
        let (restorer, restorer_pid) = match self.restorer.asked() {
            restore::Asked::NotNeeded => ("not-needed", None),
            restore::Asked::AtWork(pid) => ("at-work", Some(pid)),
            restore::Asked::Gone(_) => ("gone", None),
        };
        PrivilegeStatus {
            user: *user,
            landlock: landlock.clone().unwrap_or_else(|why| why),
            syscall_filter: match filter {
                Ok(()) => "in force".to_owned(),
                Err(why) => why.clone(),
            },
            restorer: restorer.to_owned(),
            restorer_pid,
            lacks: lacks.clone(),
        }
    }

    /// What the sensor does not see on this kernel; while it does not pass its self-test, nothing is certain.
    fn cannot_see(&self) -> Vec<String> {
        let unsound = self.selftest.fault().map(|_| {
            "changes between two scans: the sensor has not passed its self-test".to_owned()
        });
        unsound
            .into_iter()
            .chain(self.watching.cannot_see.iter().cloned())
            .collect()
    }

    fn reasons(&self, now: Instant, policies: &[PolicyStatus]) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let mut add = |lack: Lack, message: String| {
            reasons.push(Reason::new(lack.name(), &message));
        };
        let not_compared: usize = policies.iter().map(|policy| policy.not_compared).sum();
        if not_compared > 0 {
            let all = self.paths.len();
            add(
                Lack::NotCompared,
                format!("{not_compared} of {all} paths were not compared yet"),
            );
        }
        if let Some(why) = &self.rejected {
            add(
                Lack::PoliciesRejected,
                format!(
                    "the policy folder was rejected, the last good policies stay in force: {why}"
                ),
            );
        }
        if let Some(why) = &self.deaf
            && self.settings.sensor != Sensor::Scan
        {
            add(
                Lack::NoProbes,
                format!("no probes, changes are found by scanning: {why}"),
            );
        }
        if let Some(fault) = self.selftest.fault().filter(|_| self.deaf.is_none()) {
            add(Lack::SensorFault, fault.to_string());
        }
        let interval = self.full_scan_interval();
        let since = self.scans.last().map_or(self.started, |scan| scan.ended);
        let age = now.saturating_duration_since(since);
        if age > interval.saturating_mul(2) + GRACE {
            add(
                Lack::ScanOverdue,
                format!(
                    "everything was compared {} s ago, and should be every {} s",
                    age.as_secs(),
                    interval.as_secs()
                ),
            );
        }
        if self.reporter.heals().is_none() {
            add(Lack::NoHistory, "no history is kept".to_owned());
        }
        if let restore::Asked::Gone(why) = self.restorer.asked() {
            add(Lack::NoRestorer, format!("nothing can be put back: {why}"));
        }
        reasons
    }

    fn policies(&self, now: Instant, wall: SystemTime) -> Vec<PolicyStatus> {
        let tallies = self.tallies();
        let mut policies: Vec<_> = self
            .snapshot
            .policies
            .iter()
            .zip(tallies)
            .map(|(policy, tally)| PolicyStatus {
                policy: escape::printable(&policy.name).into_owned(),
                version: escape::printable(&policy.version).into_owned(),
                mode: policy.mode.name().to_owned(),
                files: tally.files,
                as_declared: tally.as_declared(),
                drifting: tally.drifting,
                not_compared: tally.not_compared,
                healed_24h: None,
                held: Held::default(),
                last_known_good: None,
                soak_left_s: None,
                hold: None,
                failed: Vec::new(),
            })
            .collect();
        for (at, index, state) in self.by_policy() {
            let file = &self.snapshot.files[index];
            let told = state.drift.as_ref().and_then(|drift| drift.told);
            let Some(reason) = told.filter(|_| file.on_drift == Mode::Heal) else {
                continue;
            };
            let held = &mut policies[at].held;
            held.count += 1;
            if held.paths.len() < MOST_NAMED {
                let until = self.timers.get(Timer::Path(index));
                let until = until.map(|at| wall + at.saturating_duration_since(now));
                held.paths.push(HeldPath {
                    path: escape::path(&file.path).to_string(),
                    reason: reason.to_owned(),
                    until: until.map(rfc3339),
                });
            }
        }
        policies
    }
}

impl Pipeline {
    /// The gravest drifts, of these the oldest.
    fn drifts(&self, wall: SystemTime) -> Vec<DriftStatus> {
        let boot = boot_ns();
        let mut all: Vec<(&Declared, &Ongoing)> = self
            .snapshot
            .files
            .iter()
            .zip(&self.paths)
            .filter_map(|(file, state)| Some((&**file, state.drift.as_deref()?)))
            .filter(|(_, drift)| drift.matters())
            .collect();
        all.sort_by_key(|(file, drift)| (Reverse(file.severity), drift.since_ns));
        all.truncate(MOST_DRIFTS);
        all.into_iter()
            .map(|(file, drift)| {
                let outcome = match drift.told {
                    _ if file.on_drift == Mode::Observe => "observed",
                    Some(_) if drift.failures > 0 => "failed",
                    Some(_) => "suppressed",
                    None => "pending",
                };
                let age = Duration::from_nanos(boot.saturating_sub(drift.since_ns));
                DriftStatus {
                    path: escape::path(&file.path).to_string(),
                    policy: escape::printable(&file.policy.name).into_owned(),
                    kinds: drift
                        .drifts
                        .iter()
                        .map(|kind| kind.name().to_owned())
                        .collect(),
                    severity: file.severity.name().to_owned(),
                    since: rfc3339(wall - age),
                    outcome: outcome.to_owned(),
                    reason: drift.told.map(str::to_owned),
                    actor: match &drift.actor {
                        Some(Ok(actor)) => {
                            let mut actor = actor.clone();
                            // The cluster may have told of the container since.
                            if let Some(pods) = &self.pods {
                                pods.tell(&mut actor);
                            }
                            Some((&actor).into())
                        }
                        Some(Err(_)) | None => None,
                    },
                    actor_unknown: match &drift.actor {
                        Some(Err(why)) => Some(why.clone()),
                        Some(Ok(_)) | None => None,
                    },
                }
            })
            .collect()
    }
}

/// What the kernel half has counted; nothing, where that cannot be read.
fn counted(ears: &Ears) -> BTreeMap<String, Counted> {
    let counts = match ears.counters.all() {
        Ok(counts) => counts,
        Err(problem) => {
            error!("the kernel programs' counters cannot be read: {problem}");
            return BTreeMap::new();
        }
    };
    let kinds = Kind::ALL.into_iter().filter_map(|kind| {
        let (sent, coalesced, lost) = tally(&counts, kind)?;
        let counted = Counted {
            sent,
            coalesced,
            lost,
        };
        Some((kind.name().to_owned(), counted))
    });
    kinds.collect()
}
