//! The records about one drift, and whether they say what happened. Pure: no I/O, no clock.

use std::{path::Path, time::Duration};

use super::{
    Sensor,
    drifts::Tool,
    record::{Actor, Record},
    table::Row,
};

/// Collects the records about one path until its drift is over.
#[derive(Debug)]
pub(super) struct Incident {
    path: String,
    detected: Option<Detected>,
    end: Option<End>,
}

#[derive(Debug)]
struct Detected {
    record: Record,
    /// From the end of the tool to the arrival of the record.
    after: Duration,
}

#[derive(Debug)]
enum End {
    Healed { heal_ns: Option<u64> },
    Otherwise(String),
}

impl Incident {
    pub(super) fn new(path: &Path) -> Incident {
        Incident {
            path: path.to_string_lossy().into_owned(),
            detected: None,
            end: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn feed(&mut self, record: Record, after: Duration) {
        if record.path.as_deref() != Some(&self.path) || self.is_over() {
            return;
        }
        let (None, "config.drift.detected") = (&self.detected, &*record.event) else {
            if self.detected.is_some() {
                self.end = End::of(&record);
            }
            return;
        };
        self.detected = Some(Detected { record, after });
    }
}

impl End {
    fn of(record: &Record) -> Option<End> {
        let kind = record.event.strip_prefix("config.drift.")?;
        match kind {
            "healed" => Some(End::Healed {
                heal_ns: record.heal_ns,
            }),
            "heal_failed" | "heal_unverifiable" | "heal_suppressed" | "resolved" => {
                let why = [record.reason.as_deref(), record.message.as_deref()];
                let why: Vec<&str> = why.into_iter().flatten().collect();
                Some(End::Otherwise([&[kind], &why[..]].concat().join(": ")))
            }
            _ => None, // detected once more: still going on
        }
    }
}

/// What is to be shown of an incident, and what is wrong with it.
#[derive(Debug)]
pub(super) struct Verdict {
    sensor: Sensor,
    actor: Option<Actor>,
    kinds: Vec<String>,
    seen_ns: Option<u64>,
    heal_ns: Option<u64>,
    unknown: Option<String>,
    detected: bool,
    complaints: Vec<String>,
}

impl Verdict {
    pub(super) fn of(incident: &Incident, sensor: Sensor) -> Verdict {
        let record = incident.detected.as_ref().map(|detected| &detected.record);
        let mut verdict = Verdict {
            sensor,
            actor: record.and_then(|record| record.actor.clone()),
            kinds: record.map_or_else(Vec::new, |record| record.drift.clone()),
            seen_ns: None,
            heal_ns: None,
            unknown: record.and_then(|record| record.actor_unknown.clone()),
            detected: record.is_some(),
            complaints: Vec::new(),
        };
        let Some(Detected { record, after }) = &incident.detected else {
            verdict.complain("no drift was reported".to_owned());
            return verdict;
        };
        let cause = record.cause.as_deref().unwrap_or("nothing");
        match sensor {
            Sensor::Probes(_) => {
                verdict.seen_ns = record.seen_ns;
                if cause != "kernel" {
                    verdict.complain(format!("found by {cause}, not by the kernel programs"));
                } else if record.seen_ns.is_none() {
                    verdict.complain("the record does not say when the kernel saw it".to_owned());
                }
            }
            // Without the kernel's time of the change, the demo's own: from the tool's end to the record.
            Sensor::Scan => {
                verdict.seen_ns = Some(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
                if cause != "scan" {
                    verdict.complain(format!("found by {cause}, not by a scan"));
                }
            }
        }
        match &incident.end {
            Some(End::Healed { heal_ns }) => verdict.heal_ns = *heal_ns,
            Some(End::Otherwise(how)) => verdict.complain(format!("not healed: {how}")),
            None => verdict.complain("not healed in time".to_owned()),
        }
        verdict
    }

    /// Compares with what was really done, and by which process.
    pub(super) fn hold_against(&mut self, tool: &Tool, pid: u32) {
        if !self.detected {
            return;
        }
        if !self.kinds.iter().any(|kind| tool.kinds.contains(&&**kind)) {
            self.complain(format!("the drift is {}", tool.kinds.join(" or ")));
        }
        match (&self.actor, self.sensor) {
            (Some(actor), _) => {
                let wrong =
                    if super::residue::is_initial_pid_namespace() && actor.pid != u64::from(pid) {
                        Some(format!("it was pid {pid}"))
                    } else if !is_comm_of(&actor.comm, tool.comm()) {
                        Some(format!("it was {}", tool.comm()))
                    } else {
                        None
                    };
                if let Some(wrong) = wrong {
                    self.complain(format!("wrong process: {wrong}"));
                }
            }
            (None, Sensor::Probes(_)) => self.complain(format!(
                "not attributed: {}",
                self.unknown.as_deref().unwrap_or("no reason given")
            )),
            (None, Sensor::Scan) if self.unknown.is_none() => {
                self.complain("not attributed, and no reason given".to_owned());
            }
            (None, Sensor::Scan) => {}
        }
    }

    pub(super) fn complain(&mut self, what: String) {
        self.complaints.push(what);
    }

    pub(super) fn into_row(self, what: &str) -> Row {
        let by = match &self.actor {
            Some(Actor { pid, comm, uid }) => {
                let user = if *uid == 0 {
                    "root".to_owned()
                } else {
                    format!("uid {uid}")
                };
                format!("{comm} (pid {pid}, {user})")
            }
            None if self.detected => "unknown".to_owned(),
            None => "-".to_owned(),
        };
        Row {
            what: what.to_owned(),
            seen_ns: self.seen_ns,
            by,
            drift: self.kinds.join(","),
            heal_ns: self.heal_ns,
            unknown: self.unknown,
            skipped: false,
            complaints: self.complaints,
        }
    }
}

/// The kernel cuts names at 15 bytes, and an interpreter may add its version.
fn is_comm_of(comm: &str, program: &str) -> bool {
    let cut = &program[..program.len().min(15)];
    comm.starts_with(cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{drifts, scene::Scene};

    const PATH: &str = "/scratch/etc/app.conf";

    fn detected(pid: u64, comm: &str, cause: &str) -> Record {
        Record {
            event: "config.drift.detected".to_owned(),
            path: Some(PATH.to_owned()),
            drift: vec!["content".to_owned()],
            actor: Some(Actor {
                pid,
                comm: comm.to_owned(),
                uid: 0,
            }),
            cause: Some(cause.to_owned()),
            seen_ns: Some(1_300_000),
            ..Record::default()
        }
    }

    fn ended(event: &str) -> Record {
        Record {
            event: event.to_owned(),
            path: Some(PATH.to_owned()),
            heal_ns: Some(900_000),
            reason: Some("backoff".to_owned()),
            ..Record::default()
        }
    }

    #[track_caller]
    fn complaints(records: &[Record], sensor: Sensor) -> Vec<String> {
        let mut incident = Incident::new(Path::new(PATH));
        for record in records {
            incident.feed(record.clone(), Duration::from_millis(400));
        }
        let scene = Scene::set().unwrap();
        let sed = &drifts::all(&scene)[0];
        let mut verdict = Verdict::of(&incident, sensor);
        verdict.hold_against(sed, 7);
        verdict.complaints
    }

    const PROBES: Sensor = Sensor::Probes(12);

    #[test]
    fn a_drift_seen_by_the_kernel_attributed_and_healed_is_as_it_should_be() {
        let other = Record {
            path: Some("/scratch/etc/tls.pem".to_owned()),
            ..detected(1, "cron", "scan")
        };
        let records = [
            ended("config.drift.healed"), // of an earlier drift
            other,
            detected(7, "sed", "kernel"),
            ended("config.touched"),
            ended("config.drift.healed"),
            ended("config.drift.heal_failed"), // of a later one
        ];
        assert_eq!(complaints(&records, PROBES), Vec::<String>::new());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let healed = || ended("config.drift.healed");
        assert_eq!(complaints(&[], PROBES), ["no drift was reported"]);
        assert_eq!(
            complaints(&[detected(7, "sed", "kernel")], PROBES),
            ["not healed in time"]
        );
        assert_eq!(
            complaints(&[detected(7, "sed", "scan"), healed()], PROBES),
            ["found by scan, not by the kernel programs"]
        );
        assert_eq!(
            complaints(&[detected(8, "sed", "kernel"), healed()], PROBES),
            ["wrong process: it was pid 7"]
        );
        assert_eq!(
            complaints(&[detected(7, "cron", "kernel"), healed()], PROBES),
            ["wrong process: it was sed"]
        );
        assert_eq!(
            complaints(
                &[
                    detected(7, "sed", "kernel"),
                    ended("config.drift.heal_suppressed")
                ],
                PROBES
            ),
            ["not healed: heal_suppressed: backoff"]
        );
        let mode = Record {
            drift: vec!["mode".to_owned()],
            ..detected(7, "sed", "kernel")
        };
        assert_eq!(
            complaints(&[mode, healed()], PROBES),
            ["the drift is content"]
        );
    }

    #[test]
    fn a_scan_need_not_know_who_but_says_why() {
        let scanned = Record {
            actor: None,
            actor_unknown: Some("no probes".to_owned()),
            seen_ns: None,
            ..detected(7, "sed", "scan")
        };
        let healed = ended("config.drift.healed");
        assert_eq!(
            complaints(&[scanned.clone(), healed.clone()], Sensor::Scan),
            Vec::<String>::new()
        );
        let silent = Record {
            actor_unknown: None,
            ..scanned.clone()
        };
        assert_eq!(
            complaints(&[silent, healed.clone()], Sensor::Scan),
            ["not attributed, and no reason given"]
        );
        let mut incident = Incident::new(Path::new(PATH));
        incident.feed(scanned, Duration::from_millis(400));
        incident.feed(healed, Duration::from_millis(500));
        let row = Verdict::of(&incident, Sensor::Scan).into_row("sed");
        assert_eq!((row.seen_ns, &*row.by), (Some(400_000_000), "unknown"));
    }

    #[test]
    fn names_are_compared_as_the_kernel_cuts_them() {
        assert!(is_comm_of("python3.11", "python3"));
        assert!(is_comm_of("a-very-long-pro", "a-very-long-program"));
        assert!(!is_comm_of("sh", "sed"));
    }
}
