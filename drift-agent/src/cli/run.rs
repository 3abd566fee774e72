//! `drift-agent run`: watch, report, heal, until told to stop.

use std::{
    fs::{self, File},
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rustix::fs::{FlockOperation, flock};

use crate::{
    declare::{self, Mode, Rejected, Snapshot},
    observe::{Host, Objects},
    pipeline::{self, Parts},
    probe::{Probe, ProbeSettings, Refused},
    report::{OtlpSettings, Output, Reporter},
    settings::{Sensor, Settings},
    store::{DEFAULT_QUOTA, Store},
};

/// Watch the declared paths, report drift, and put the declared state back where the policy says so.
///
/// Runs until SIGTERM or SIGINT. SIGHUP, or a change in the policy folder, reads the policies again; policies that are not valid leave the last good ones in
/// force. Records go to a collector too when OTEL_EXPORTER_OTLP_ENDPOINT is set.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    /// Folder of policy files (*.yaml, *.yml).
    #[arg(long, value_name = "DIR")]
    policies: PathBuf,
    /// Folder for what must survive a restart [default: /var/lib/drift-agent, for other users than root ~/.local/state/drift-agent].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// What to do on drift, whatever the policies say.
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// How to see changes.
    #[arg(long, value_enum, default_value_t = SensorArg::Auto)]
    sensor: SensorArg,
    /// How often everything is looked at, whatever was seen [default: 10m beside probes, 1s without].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    scan_interval: Option<Duration>,
    /// A table for people, or one JSON record a line (docs/record.schema.json).
    #[arg(short, long, value_enum, default_value_t = OutputArg::Table)]
    output: OutputArg,
    /// File to create when the probes are attached and everything was looked at once; removed at the end.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Let the kernel programs say what they do (with RUST_LOG=debug). For finding faults in drift itself.
    #[arg(long)]
    debug_probes: bool,
}

const EXAMPLES: &str = "\
Examples:
  sudo drift-agent run --policies policies
  sudo drift-agent run --policies policies --mode heal
  drift-agent run --policies policies --sensor scan --scan-interval 5s -o jsonl";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    /// Report only.
    Observe,
    /// Report and put the declared state back.
    Heal,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SensorArg {
    /// Kernel probes where they run, else scanning.
    Auto,
    /// Kernel probes, or not at all.
    Tracepoint,
    /// Scanning alone: cannot say who.
    Scan,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputArg {
    Table,
    Jsonl,
}

impl Run {
    /// Runs the agent.
    pub fn run(self) -> Result<()> {
        // Taken apart so that no flag is left unused.
        let Run {
            policies,
            state,
            mode,
            sensor,
            scan_interval,
            output,
            ready_file,
            debug_probes,
        } = self;
        let settings = Settings {
            policies,
            state: match state {
                Some(state) => state,
                None => default_state()?,
            },
            mode: mode.map(|mode| match mode {
                ModeArg::Observe => Mode::Observe,
                ModeArg::Heal => Mode::Heal,
            }),
            sensor: match sensor {
                SensorArg::Auto => Sensor::Auto,
                SensorArg::Tracepoint => Sensor::Tracepoint,
                SensorArg::Scan => Sensor::Scan,
            },
            scan_interval,
            output: match output {
                OutputArg::Table => Output::Table,
                OutputArg::Jsonl => Output::Jsonl,
            },
            ready_file,
            debug_probes,
        };
        start(settings)
    }
}

fn start(settings: Settings) -> Result<()> {
    let otlp = OtlpSettings::from_env()?;
    // One agent for a state folder: two would heal against each other.
    let _lock = lock(&settings.state)?;
    let store = Store::open(&settings.state, DEFAULT_QUOTA)?;
    for note in store.notes() {
        eprintln!("{note}.");
    }
    let (outcome, basis) = store.look(&settings.policies, Path::new("/"), settings.mode);
    let (snapshot, rejected) = match outcome {
        Ok(snapshot) => (snapshot, None),
        Err(rejected) => (last_good(&store, &settings, &rejected)?, Some(rejected)),
    };
    let host = Host::new(Path::new("/")).context("cannot open the root directory")?;
    pipeline::remove_leftovers(&host, &snapshot.files);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(32)
        .thread_name("drift")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let node = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let reporter = Reporter::new(settings.output, &node, otlp.as_ref())?;
        let probe = sense(&settings, &snapshot)?;
        pipeline::run(Parts {
            settings,
            store: store.into(),
            reporter,
            host,
            snapshot,
            basis,
            rejected,
            probe,
        })
        .await
        .map_err(anyhow::Error::from)
    })
}

/// What was declared by the same policy folder when it was good last. Without that the agent does not start.
fn last_good(store: &Store, settings: &Settings, rejected: &Rejected) -> Result<Snapshot> {
    let rejected = if io::stderr().is_terminal() {
        rejected.to_string()
    } else {
        rejected.plain().to_string()
    };
    let restored = match store.last_good(&settings.policies) {
        Ok(Some(restored)) => restored,
        Ok(None) => bail!("{rejected}"),
        Err(error) => bail!("{rejected}\nThe last good policies are no help: {error}"),
    };
    let shown = restored.folder.display();
    match declare::load(&restored.folder, Path::new("/"), settings.mode) {
        Ok(snapshot) => {
            let since = jiff::Timestamp::try_from(restored.since).unwrap_or_default();
            eprintln!(
                "degraded: the policy folder was rejected. Going on with its last good policies, in force since {since:.0}: {shown} shows them. \
                 To start without them, remove {}.",
                settings.state.join("last-good").display()
            );
            Ok(snapshot)
        }
        Err(again) => bail!(
            "{rejected}\nThe last good policies ({shown}) are no help: {}",
            again.plain()
        ),
    }
}

/// Loads the probes, as far as the sensor that was asked for wants them. `Ok(Err(_))`: going on by scanning, and why.
fn sense(settings: &Settings, snapshot: &Snapshot) -> Result<Result<Probe, String>> {
    if settings.sensor == Sensor::Scan {
        return Ok(Err("asked for with --sensor scan".to_owned()));
    }
    let loaded = Probe::load(ProbeSettings {
        objects: Objects::new(&snapshot.files).count(),
        debug: settings.debug_probes,
    });
    match loaded {
        Ok(probe) => Ok(Ok(probe)),
        Err(refused) if settings.sensor == Sensor::Tracepoint => {
            bail!(
                "no probes ({}): {refused}. Without them: --sensor scan",
                refused.reason()
            )
        }
        Err(refused) => {
            eprintln!(
                "degraded: no probes ({}): {refused}. Going on by scanning: changes are found late, and nobody can say who made them.",
                refused.reason()
            );
            Ok(Err(short(&refused)))
        }
    }
}

fn short(refused: &Refused) -> String {
    refused.to_string()
}

fn default_state() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/drift-agent".into());
    }
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("XDG_STATE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("drift-agent"))
        .context("no state folder: HOME is not set, so name one with --state DIR")
}

/// Makes the state folder what it must be, and holds it against a second agent.
fn lock(state: &Path) -> Result<File> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state)
        .with_context(|| {
            format!(
                "cannot make the state folder {}; name another with --state DIR",
                state.display()
            )
        })?;
    let path = state.join("lock");
    let file = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot write in the state folder {}; make it writable, or name another with --state DIR", state.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => bail!(
            "another drift-agent uses the state folder {}: stop it, or name another folder with --state DIR",
            state.display()
        ),
        Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// `500ms`, `2s`, `10m`, `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()]
        .parse()
        .map_err(|_| "a duration is a number and a unit: 500ms, 2s, 10m, 1h".to_owned())?;
    let duration = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.saturating_mul(60)),
        "h" => Duration::from_secs(number.saturating_mul(3600)),
        _ => return Err(format!("unknown unit `{unit}`: 500ms, 2s, 10m, 1h")),
    };
    if duration < Duration::from_millis(100) {
        return Err("at least 100ms: scanning more often takes a whole core".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, expected) in [
            ("500ms", Some(Duration::from_millis(500))),
            ("2s", Some(Duration::from_secs(2))),
            ("10m", Some(Duration::from_secs(600))),
            ("1h", Some(Duration::from_secs(3600))),
            ("1", None),
            ("s", None),
            ("-1s", None),
            ("1ms", None),
            ("99999999999999999999s", None),
            ("1d", None),
        ] {
            assert_eq!(duration(text).ok(), expected, "{text}");
        }
    }
}
