//! `drift-agent probe`: which sensor would run here, and why not a better one.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::{
    probe::{Fate, Machine, Probe, ProbeSettings, Refused, Sensor, Tried},
    settings::RING,
};

/// Say which sensor would run on this machine, and what each would not see.
///
/// Loads every kernel program of each sensor and attaches it to each of its places for a moment, as `run` does: nothing is concluded from versions or lists. Nothing
/// stays behind.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProbeCommand {
    /// A table for people, or one JSON object.
    #[arg(short, long, value_enum, default_value_t = OutputArg::Table)]
    output: OutputArg,
    /// Try this one alone.
    #[arg(long, value_enum)]
    sensor: Option<SensorArg>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SensorArg {
    Btf,
    Tracepoint,
}

const EXAMPLES: &str = "\
Status:
  0   kernel probes run here
  1   they do not: `run` would go on by scanning, and the report says what to change

Examples:
  sudo drift-agent probe
  sudo drift-agent probe --sensor tracepoint
  sudo drift-agent probe -o json | jq '.hooks[] | select(.refused)'";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputArg {
    Table,
    Json,
}

/// What is told.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    machine: Machine,
    /// Which sensor `run --sensor auto` takes: the first that runs of `btf`, `tracepoint` and `scan`.
    #[serde(flatten)]
    taken: Verdict,
    /// The others that were tried.
    other_sensors: Vec<Verdict>,
}

/// What became of one sensor.
#[derive(Debug, Serialize)]
struct Verdict {
    sensor: &'static str,
    /// Why it does not run, or, of `scan`, why no probes do: a closed set, and a sentence with what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Reason>,
    hooks: Vec<HookReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tables: Option<TableReport>,
    not_seen: Vec<String>,
}

/// What the kernel tables take where little is declared. There is one set of them for all policies; `status` says what they take in a running agent.
#[derive(Clone, Copy, Debug, Serialize)]
struct TableReport {
    /// Paths, directories and names that fit.
    room: usize,
    bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Reason {
    reason: &'static str,
    message: String,
}

#[derive(Debug, Serialize)]
struct HookReport {
    program: &'static str,
    sees: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    attached: Vec<String>,
    /// Not in this kernel, or not on this processor.
    absent: Vec<String>,
    /// The programs that see in another way what this one does not.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    instead: &'static [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
}

#[derive(Debug, Serialize)]
struct Failed {
    place: String,
    why: String,
}

impl ProbeCommand {
    /// Tries everything, and says what came of it.
    pub fn run(self) -> Result<ExitCode> {
        let ProbeCommand { output, sensor } = self;
        let machine = Machine::look();
        let sensors: &[Sensor] = match sensor {
            None => &[Sensor::Btf, Sensor::Tracepoint],
            Some(SensorArg::Btf) => &[Sensor::Btf],
            Some(SensorArg::Tracepoint) => &[Sensor::Tracepoint],
        };
        let tried = sensors.iter().map(|sensor| {
            let loaded = Probe::load(ProbeSettings {
                sensor: Some(*sensor),
                objects: 1,
                ring: RING,
                debug: false,
            });
            Verdict::new(*sensor, &loaded)
        });
        let report = Report::new(machine, tried.collect());
        let text = match output {
            OutputArg::Table => report.table(),
            OutputArg::Json => {
                serde_json::to_string_pretty(&report).context("writing the report")? + "\n"
            }
        };
        match io::stdout().lock().write_all(text.as_bytes()) {
            // Whoever reads has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => other.context("writing to standard output")?,
        }
        Ok(if report.taken.refused.is_none() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

impl Report {
    /// `tried`: the better ones first.
    fn new(machine: Machine, mut tried: Vec<Verdict>) -> Report {
        let taken = match tried.iter().position(|verdict| verdict.refused.is_none()) {
            Some(first) => tried.remove(first),
            None => Verdict {
                sensor: "scan",
                // What the most modest one lacks, all lack.
                refused: tried.last().and_then(|verdict| verdict.refused.clone()),
                hooks: Vec::new(),
                tables: None,
                not_seen: vec![BLIND.to_owned()],
            },
        };
        Report {
            machine,
            taken,
            other_sensors: tried,
        }
    }

    fn table(&self) -> String {
        let Report {
            machine,
            taken,
            other_sensors,
        } = self;
        let mut text = String::new();
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            // Writing into a String cannot fail.
            writeln!(text, "{name:<17} {value}").ok();
        };
        line(
            "kernel",
            &format_args!("{} ({})", machine.kernel, machine.architecture),
        );
        line("type information", &machine.btf);
        line("tracefs", &machine.tracefs);
        line("security modules", &machine.security_modules);
        line("lockdown", &machine.lockdown);
        let missing = match machine.missing_capabilities[..] {
            [] => "all that drift uses".to_owned(),
            ref missing => format!("without {}", missing.join(", ")),
        };
        line("capabilities", &missing);
        line("sensor", &taken.sensor);
        if let Some(Reason { reason, message }) = &taken.refused {
            line("no probes", &format_args!("{reason}: {message}"));
        }
        for other in other_sensors {
            match &other.refused {
                Some(Reason { reason, message }) => {
                    line(
                        "",
                        &format_args!("not {}: {reason}: {message}", other.sensor),
                    );
                }
                None => line(
                    "",
                    &format_args!("{0} would run too: --sensor {0} shows it", other.sensor),
                ),
            }
        }
        if let Some(TableReport { room, bytes }) = taken.tables {
            let mebibytes = bytes as f64 / f64::from(1 << 20);
            line(
                "kernel tables",
                &format_args!(
                    "{mebibytes:.1} MiB, with room for {room} paths, directories and names; with more declared, more"
                ),
            );
        }
        taken.add_to(&mut text);
        text
    }
}

const BLIND: &str = "who made a change, and changes that are undone between two scans";

impl Verdict {
    fn new(sensor: Sensor, loaded: &Result<Probe, Refused>) -> Verdict {
        match loaded {
            Ok(probe) => Verdict {
                sensor: sensor.name(),
                refused: None,
                hooks: probe.tried.iter().map(HookReport::new).collect(),
                tables: probe.table_bytes.map(|bytes| TableReport {
                    room: probe.capacity,
                    bytes,
                }),
                not_seen: probe.unseen().into_iter().map(str::to_owned).collect(),
            },
            Err(refused) => Verdict {
                sensor: sensor.name(),
                refused: Some(Reason {
                    reason: refused.reason(),
                    message: refused.to_string(),
                }),
                hooks: Vec::new(),
                tables: None,
                not_seen: vec![BLIND.to_owned()],
            },
        }
    }

    /// Its hooks, and what it does not see.
    fn add_to(&self, text: &mut String) {
        if !self.hooks.is_empty() {
            writeln!(text, "\n{:<16} {:<9} sees", "program", "places").ok();
        }
        for hook in &self.hooks {
            let HookReport {
                program,
                sees,
                refused,
                attached,
                absent,
                instead,
                failed,
            } = hook;
            let places = format!("{}/{}", attached.len(), attached.len() + failed.len());
            writeln!(text, "{program:<16} {places:<9} {sees}").ok();
            if let Some(refused) = refused {
                writeln!(text, "{:<26} refused: {refused}", "").ok();
            }
            for Failed { place, why } in failed {
                writeln!(text, "{:<26} not at {place}: {why}", "").ok();
            }
            if !absent.is_empty() {
                writeln!(text, "{:<26} not in this kernel: {}", "", absent.join(", ")).ok();
            }
            if !instead.is_empty() {
                writeln!(text, "{:<26} instead: {}", "", instead.join(", ")).ok();
            }
        }
        text.push_str("\nnot seen here\n");
        if self.not_seen.is_empty() {
            text.push_str(
                "  nothing that this kernel could show (docs/limits.md has what no kernel shows)\n",
            );
        }
        for phrase in &self.not_seen {
            writeln!(text, "  {phrase}").ok();
        }
    }
}

impl HookReport {
    fn new(tried: &Tried) -> HookReport {
        let mut report = HookReport {
            program: tried.hook.program,
            sees: tried.hook.sees,
            refused: tried.refused.clone(),
            attached: Vec::new(),
            absent: Vec::new(),
            instead: tried.instead,
            failed: Vec::new(),
        };
        for (place, fate) in &tried.places {
            let place = place.to_string();
            match fate {
                Fate::Attached => report.attached.push(place),
                Fate::Absent => report.absent.push(place),
                Fate::Refused(why) => report.failed.push(Failed {
                    place,
                    why: why.clone(),
                }),
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Hook, Stated, hooks};

    fn first() -> &'static Hook {
        &hooks(Sensor::Tracepoint)[0]
    }

    fn machine() -> Machine {
        Machine {
            kernel: "6.1.0".to_owned(),
            architecture: "x86_64".to_owned(),
            btf: Stated::Known("there".to_owned()),
            tracefs: Stated::Known("there".to_owned()),
            security_modules: Stated::Unknown {
                unknown: "no file".to_owned(),
            },
            lockdown: Stated::Known("none".to_owned()),
            missing_capabilities: vec!["CAP_BPF"],
        }
    }

    #[test]
    fn without_probes_the_reason_and_what_to_do_are_told() {
        let refused = || Err(Refused::NotAllowed(io::Error::from_raw_os_error(1)));
        let tried =
            [Sensor::Btf, Sensor::Tracepoint].map(|sensor| Verdict::new(sensor, &refused()));
        let report = Report::new(machine(), tried.into());
        let table = report.table();
        for said in [
            "sensor            scan",
            "not-allowed: not allowed to load kernel programs",
            "run as root",
            "without CAP_BPF",
            "not known: no file",
            "  who made a change",
        ] {
            assert!(table.contains(said), "{said}: {table}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["sensor"], "scan");
        assert_eq!(json["refused"]["reason"], "not-allowed");
        assert_eq!(json["other_sensors"][0]["sensor"], "btf");
        assert_eq!(json["security_modules"]["unknown"], "no file");
    }

    #[test]
    fn a_hook_tells_what_became_of_each_of_its_places() {
        let places = first().places;
        let tried = Tried {
            hook: first(),
            refused: None,
            places: vec![
                (places[0], Fate::Attached),
                (places[1], Fate::Absent),
                (places[2], Fate::Refused("no room".to_owned())),
            ],
            instead: &[],
        };
        assert!(tried.is_attached() && tried.is_blind());
        let report = HookReport::new(&tried);
        assert_eq!(report.attached, ["syscalls/sys_exit_open"]);
        assert_eq!(report.absent, ["syscalls/sys_exit_openat"]);
        assert_eq!(report.failed[0].why, "no room");
    }

    #[test]
    fn the_first_that_runs_is_taken_and_the_reason_of_a_better_one_is_told() {
        let better = Err(Refused::NoFunctions("not here".to_owned()));
        let runs = Verdict {
            sensor: "tracepoint",
            refused: None,
            hooks: Vec::new(),
            tables: None,
            not_seen: Vec::new(),
        };
        let report = Report::new(machine(), vec![Verdict::new(Sensor::Btf, &better), runs]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["sensor"], "tracepoint");
        assert!(json["refused"].is_null());
        assert_eq!(
            json["other_sensors"][0]["refused"]["reason"],
            "no-functions"
        );
        let table = report.table();
        assert!(
            table.contains("not btf: no-functions: no program can be attached to this kernel's functions: not here"),
            "{table}"
        );
    }

    #[test]
    fn what_something_else_sees_is_not_missed() {
        let tried = |instead| Tried {
            hook: first(),
            refused: Some("no".to_owned()),
            places: Vec::new(),
            instead,
        };
        assert!(tried(&[]).is_blind());
        assert!(!tried(&["another"]).is_blind());
    }

    #[test]
    fn a_call_that_is_not_there_is_nothing_that_is_missed() {
        let tried = |places| Tried {
            hook: first(),
            refused: None,
            places,
            instead: &[],
        };
        let call = first().places[0];
        assert!(!tried(vec![(call, Fate::Absent)]).is_blind());
        let raw = crate::probe::Place::Raw("x");
        assert!(tried(vec![(raw, Fate::Absent)]).is_blind());
    }
}
