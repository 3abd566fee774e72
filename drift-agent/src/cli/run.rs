//! `drift-agent run`: watch, report, heal, until told to stop.

use std::{
    fs::{self, File},
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use drift_common::escape;
use rustix::fs::{FlockOperation, flock};
use tokio::sync::mpsc;

use super::{
    duration::{duration, interval},
    root::HostRoot,
    size::quota,
    state::StateFolder,
};
use crate::{
    declare::{self, Basis, Mode, Rejected, Snapshot},
    heal,
    kept::Unusable,
    observe::{Host, Objects},
    pipeline::{self, Parts},
    probe::{Probe, ProbeSettings, Refused},
    report::{OtlpSettings, Output, Reporter},
    serve,
    settings::{Sensor, Settings},
    stop::{BREAK_GLASS, Files, Stops},
    store::{Bounds, Store},
    switch,
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
    #[command(flatten)]
    state: StateFolder,
    #[command(flatten)]
    root: HostRoot,
    /// What to do on drift, whatever the policies say.
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// How to see changes.
    #[arg(long, value_enum, default_value_t = SensorArg::Auto)]
    sensor: SensorArg,
    /// How often everything is looked at, whatever was seen [default: 10m beside probes, 1s without].
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    scan_interval: Option<Duration>,
    /// How often the agent changes a file of its own to know that it would hear a change.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = self_test_interval)]
    self_test: Duration,
    /// Let the periodic scans look at no more than this many paths a second. Changes that probes see are looked at at once all the same.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    scan_rate: Option<u32>,
    /// Let the periodic scans run only when nobody else wants the processors, and come last at the disk (nice 19).
    #[arg(long)]
    scan_idle: bool,
    /// How long everything a version declares must have stayed as declared before it counts as the last known good one.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    soak: Duration,
    /// What the contents in the state folder may take of the disk.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = quota)]
    store_quota: u64,
    /// Room for changes that the agent has not heard of yet: a power of two, `64KiB` to say it shortly. A full ring loses who made a change, never that there
    /// was one.
    #[arg(long, value_name = "SIZE", value_parser = ring, default_value = "4MiB")]
    ring: u32,
    /// A table for people, or one JSON record a line (docs/record.schema.json).
    #[arg(short, long, value_enum, default_value_t = OutputArg::Table)]
    output: OutputArg,
    /// The file that stops all healing for an hour, or for as long as it says (docs/brakes.md).
    #[arg(long, value_name = "PATH", default_value = BREAK_GLASS)]
    break_glass: PathBuf,
    /// A program that `afterHeal` of a policy may run. May be given more than once; without it none is run.
    #[arg(long = "allow-command", value_name = "PATH", value_parser = absolute)]
    allowed_commands: Vec<PathBuf>,
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
  drift-agent run --policies policies --sensor scan --scan-interval 5s -o jsonl
  sudo drift-agent run --policies policies --scan-interval 1h --scan-idle --scan-rate 2000";

/// Requests that wait for the pipeline.
const REQUESTS: usize = 8;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    /// Report only.
    Observe,
    /// Report and put the declared state back.
    Heal,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SensorArg {
    /// The first of the others that this kernel lets run.
    Auto,
    /// Probes on the kernel's own functions, or not at all: system calls that change no file pay nothing.
    Btf,
    /// Probes on the tracepoints of system calls, or not at all.
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
            root,
            mode,
            sensor,
            scan_interval,
            self_test,
            scan_rate,
            scan_idle,
            soak,
            store_quota,
            ring,
            output,
            break_glass,
            allowed_commands,
            ready_file,
            debug_probes,
        } = self;
        let settings = Settings {
            policies,
            state: state.path()?,
            host_root: root.host_root.clone(),
            mode: mode.map(|mode| match mode {
                ModeArg::Observe => Mode::Observe,
                ModeArg::Heal => Mode::Heal,
            }),
            sensor: match sensor {
                SensorArg::Auto => Sensor::Auto,
                SensorArg::Btf => Sensor::Btf,
                SensorArg::Tracepoint => Sensor::Tracepoint,
                SensorArg::Scan => Sensor::Scan,
            },
            scan_interval,
            self_test,
            scan_rate,
            scan_idle,
            soak,
            store_quota,
            ring,
            output: match output {
                OutputArg::Table => Output::Table,
                OutputArg::Jsonl => Output::Jsonl,
            },
            break_glass,
            allowed_commands,
            ready_file,
            debug_probes,
        };
        start(settings, root.host()?)
    }
}

fn start(settings: Settings, host: Host) -> Result<()> {
    let otlp = OtlpSettings::from_env()?;
    // One agent for a state folder: two would heal against each other.
    let _lock = lock(&settings.state)?;
    let store = Store::open(&settings.state, settings.store_quota)?.rooted(&settings.host_root);
    for note in store.notes() {
        eprintln!("{note}.");
    }
    let host = mind_places(host, &settings)?;
    let recovered = recover(&host, &store);
    let (outcome, basis, waits) = look(&host, &store, &settings);
    let (snapshot, rejected) = match outcome {
        Ok(snapshot) => (snapshot, None),
        Err(rejected) => (last_good(&store, &settings, &rejected)?, Some(rejected)),
    };
    // What is staged still is not left over.
    if recovered {
        pipeline::remove_leftovers(&host, &snapshot.files);
    }
    // One thread waits and decides: a second one that waited for it would have to be woken first, and wake it then, at every doorbell.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(32)
        .thread_name("drift")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let mut reporter = Reporter::new(settings.output, &super::node(), otlp.as_ref())?;
        if let Err(error) = reporter.keep_history(&settings.state, Bounds::default()) {
            eprintln!("degraded: no history is kept ({error}). All else goes on.");
        }
        let probe = sense(&settings, &snapshot)?;
        let store = Arc::new(store);
        let (ask, asked) = mpsc::channel(REQUESTS);
        let served = serve::serve(
            &settings.state,
            ask,
            Arc::clone(&store),
            reporter.heals(),
            settings.soak,
        );
        let _served = served
            .inspect_err(|error| {
                eprintln!("degraded: no control socket ({error}): `drift-agent status` cannot ask this agent. All else goes on.");
            })
            .ok();
        pipeline::run(Parts {
            settings,
            store,
            reporter,
            host,
            snapshot,
            basis,
            rejected,
            waits,
            probe,
            asked,
        })
        .await
        .map_err(anyhow::Error::from)
    })
}

/// Takes up where declared paths were when they were declared.
fn mind_places(host: Host, settings: &Settings) -> Result<Host> {
    let host = host
        .minding_places(&settings.host_root)
        .context("cannot read the table of mounts of the host's root directory")?;
    if let Some(Err(error)) = host
        .places()
        .map(|places| places.resume(&settings.state.join("places")))
        && !matches!(error, Unusable::Absent)
    {
        eprintln!(
            "degraded: where declared paths were is not known ({error}): what is mounted over them now counts as declared."
        );
    }
    Ok(host)
}

/// What a crash has left of a change of versions is dropped, or brought to its end. False: something is left to do.
fn recover(host: &Host, store: &Store) -> bool {
    match heal::recover(host, store) {
        Ok(None) => true,
        Ok(Some(finished)) => {
            for note in &finished.notes {
                eprintln!("{note}.");
            }
            for (path, error) in &finished.left {
                eprintln!("degraded: {} is left to do: {error}", escape::path(path));
            }
            finished.left.is_empty()
        }
        Err(error) => {
            eprintln!(
                "degraded: an interrupted change of versions cannot be brought to its end ({error}): it is tried again before the next one."
            );
            false
        }
    }
}

/// What the policy folder declares now. Versions that it has changed while no agent ran are changed first, whole or not at all; `true`: they wait, and what was
/// active before still is.
fn look(
    host: &Host,
    store: &Store,
    settings: &Settings,
) -> (Result<Snapshot, Rejected>, Basis, bool) {
    let (policies, mode) = (&settings.policies, settings.mode);
    let (outcome, basis) = store.look(policies, store.host_root(), mode);
    let Ok(snapshot) = &outcome else {
        return (outcome, basis, false);
    };
    let Some(before) = switch::before_the_stop(store, policies, mode, snapshot) else {
        return (outcome, basis, false);
    };
    let moves = switch::moved(&before, snapshot);
    let versions = switch::shown(&moves);
    let stops = Stops {
        files: Files::of(&settings.state, &settings.break_glass).look(),
        pauses: store.pauses(),
    };
    let now = SystemTime::now();
    let moved = |policy: &str| moves.iter().any(|moved| moved.policy == policy);
    let mut policies_moved = snapshot
        .policies
        .iter()
        .filter(|policy| moved(&policy.name));
    if let Some(stop) = policies_moved.find_map(|policy| stops.of(policy, now)) {
        eprintln!(
            "{versions}, changed while no agent ran, waits: {}.",
            stop.message
        );
        return (Ok(before), basis, true);
    }
    match switch::perform(host, store, &before, snapshot, &moves, store.holding()) {
        Ok(switched) => {
            let came = switched.sentence();
            eprintln!("Changed while no agent ran: {versions} ({came}).");
            (outcome, basis, false)
        }
        Err(error) => {
            eprintln!(
                "degraded: {versions}, changed while no agent ran, failed, nothing has changed, and it is not tried again by itself: {error}"
            );
            if let Err(error) = switch::hold_back(store, snapshot, &moves, &error) {
                eprintln!("degraded: that is not kept: {error}");
                return (outcome, basis, false);
            }
            let (outcome, basis) = store.look(policies, store.host_root(), mode);
            (outcome, basis, false)
        }
    }
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
    match declare::load(
        &restored.folder,
        store.host_root(),
        settings.mode,
        &store.holds(),
    ) {
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
    let Ok(sensor) = settings.sensor.probes() else {
        return Ok(Err("asked for with --sensor scan".to_owned()));
    };
    let loaded = Probe::load(ProbeSettings {
        sensor,
        objects: Objects::new(&snapshot.files).count(),
        ring: settings.ring,
        debug: settings.debug_probes,
    });
    match loaded {
        Ok(probe) => Ok(Ok(probe)),
        Err(refused) if settings.sensor != Sensor::Auto => {
            bail!(
                "no probes ({}): {refused}. What runs here: drift-agent probe. Without probes: --sensor scan",
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

/// Makes the state folder what it must be, and holds it against a second agent.
pub(super) fn lock(state: &Path) -> Result<File> {
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

fn absolute(text: &str) -> Result<PathBuf, String> {
    if text.starts_with('/') {
        Ok(text.into())
    } else {
        Err("the whole path, as in /usr/sbin/nginx".to_owned())
    }
}

/// `4096`, `64KiB`, `4MiB`: what the kernel takes for a ring.
/// A test takes up to a second.
fn self_test_interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < Duration::from_secs(2) {
        return Err("a self-test takes up to a second: 2s or more".to_owned());
    }
    Ok(interval)
}

fn ring(text: &str) -> Result<u32, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let scale: u32 = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return Err(format!("unknown unit `{unit}`: 4096, 64KiB, 4MiB")),
    };
    let size = text[..text.len() - unit.len()]
        .parse()
        .ok()
        .and_then(|number: u32| number.checked_mul(scale))
        .ok_or("a size is a number, or a number and a unit: 4096, 64KiB, 4MiB")?;
    let page = rustix::param::page_size() as u32;
    if !size.is_power_of_two() || size < page || size > MOST_RING {
        return Err(format!(
            "the kernel takes powers of two, from one page ({page}) to 1024MiB"
        ));
    }
    Ok(size)
}

/// It is locked in memory.
const MOST_RING: u32 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_a_size_that_the_kernel_takes() {
        let page = rustix::param::page_size();
        for (text, expected) in [
            ("4MiB", Some(4 << 20)),
            ("64KiB", Some(64 << 10)),
            ("1048576", Some(1 << 20)),
            ("1024MiB", Some(1 << 30)),
            ("2048MiB", None),
            ("4096MiB", None),
            ("3MiB", None),
            ("1KiB", None),
            ("MiB", None),
            ("4M", None),
            ("-1", None),
            ("0", None),
        ] {
            assert_eq!(ring(text).ok(), expected, "{text}");
        }
        assert_eq!(ring(&page.to_string()).ok(), Some(page as u32));
        assert_eq!(
            ring("4MiB").ok(),
            Some(crate::settings::RING),
            "the default"
        );
    }
}
