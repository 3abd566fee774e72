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
    probe::{Fate, Machine, Probe, ProbeSettings, Refused, Tried},
    settings::RING,
};

/// Say which sensor would run on this machine, and what it would not see.
///
/// Loads every kernel program and attaches it to each of its places for a moment, as `run` does: nothing is concluded from versions or lists. Nothing
/// stays behind.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProbeCommand {
    /// A table for people, or one JSON object.
    #[arg(short, long, value_enum, default_value_t = OutputArg::Table)]
    output: OutputArg,
}

const EXAMPLES: &str = "\
Status:
  0   kernel probes run here
  1   they do not: `run` would go on by scanning, and the report says what to change

Examples:
  sudo drift-agent probe
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
    /// Which sensor `run --sensor auto` takes: `tracepoint` or `scan`.
    sensor: &'static str,
    /// Why no probes run: a closed set, and a sentence with what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Reason>,
    hooks: Vec<HookReport>,
    not_seen: Vec<String>,
}

#[derive(Debug, Serialize)]
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
        let ProbeCommand { output } = self;
        let machine = Machine::look();
        let loaded = Probe::load(ProbeSettings {
            objects: 1,
            ring: RING,
            debug: false,
        });
        let report = Report::new(machine, &loaded);
        drop(loaded);
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
        Ok(if report.refused.is_none() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

impl Report {
    fn new(machine: Machine, loaded: &Result<Probe, Refused>) -> Report {
        match loaded {
            Ok(probe) => Report {
                machine,
                sensor: "tracepoint",
                refused: None,
                hooks: probe.tried.iter().map(HookReport::new).collect(),
                not_seen: probe.unseen().into_iter().map(str::to_owned).collect(),
            },
            Err(refused) => Report {
                machine,
                sensor: "scan",
                refused: Some(Reason {
                    reason: refused.reason(),
                    message: refused.to_string(),
                }),
                hooks: Vec::new(),
                not_seen: vec![
                    "who made a change, and changes that are undone between two scans".to_owned(),
                ],
            },
        }
    }

    fn table(&self) -> String {
        let Report {
            machine,
            sensor,
            refused,
            hooks,
            not_seen,
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
        line("sensor", sensor);
        if let Some(Reason { reason, message }) = refused {
            line("no probes", &format_args!("{reason}: {message}"));
        }
        if !hooks.is_empty() {
            writeln!(text, "\n{:<16} {:<9} sees", "program", "places").ok();
        }
        for hook in hooks {
            let HookReport {
                program,
                sees,
                refused,
                attached,
                absent,
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
        }
        text.push_str("\nnot seen here\n");
        if not_seen.is_empty() {
            text.push_str(
                "  nothing that this kernel could show (docs/limits.md has what no kernel shows)\n",
            );
        }
        for phrase in not_seen {
            writeln!(text, "  {phrase}").ok();
        }
        text
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
    use crate::probe::{HOOKS, Stated};

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
        let refused = Refused::NotAllowed(io::Error::from_raw_os_error(1));
        let report = Report::new(machine(), &Err(refused));
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
        assert_eq!(json["security_modules"]["unknown"], "no file");
    }

    #[test]
    fn a_hook_tells_what_became_of_each_of_its_places() {
        let places = HOOKS[0].places;
        let tried = Tried {
            hook: &HOOKS[0],
            refused: None,
            places: vec![
                (places[0], Fate::Attached),
                (places[1], Fate::Absent),
                (places[2], Fate::Refused("no room".to_owned())),
            ],
        };
        assert!(tried.is_attached() && tried.is_blind());
        let report = HookReport::new(&tried);
        assert_eq!(report.attached, ["syscalls/sys_exit_open"]);
        assert_eq!(report.absent, ["syscalls/sys_exit_openat"]);
        assert_eq!(report.failed[0].why, "no room");
    }

    #[test]
    fn a_call_that_is_not_there_is_nothing_that_is_missed() {
        let tried = |places| Tried {
            hook: &HOOKS[0],
            refused: None,
            places,
        };
        let call = HOOKS[0].places[0];
        assert!(!tried(vec![(call, Fate::Absent)]).is_blind());
        let raw = crate::probe::Place::Raw("x");
        assert!(tried(vec![(raw, Fate::Absent)]).is_blind());
    }
}
