//! `drift-agent run`: watch, report, heal, until told to stop.

mod start;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rustix::fs::{FlockOperation, flock};

use super::{
    duration::{duration, interval},
    root::HostRoot,
    size::quota,
    state::StateFolder,
};
use crate::{
    cluster,
    declare::Mode,
    report::Output,
    settings::{Sensor, Settings},
    stop::BREAK_GLASS,
};

/// Watch the declared paths, report drift, and put the declared state back where the policy says so.
///
/// Runs until SIGTERM or SIGINT. SIGHUP, or a change in the policy folder, reads the policies again; policies that are not valid leave the last good ones in
/// force. Records go to a collector too when OTEL_EXPORTER_OTLP_ENDPOINT is set.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    /// Where the policies are: in the folder that --policies names, custom resources of the cluster that this node is in, or both.
    #[arg(long, value_enum, default_value_t = SourceArg::Files)]
    source: SourceArg,
    /// Folder of policy files (*.yaml, *.yml).
    #[arg(long, value_name = "DIR", required_if_eq_any([("source", "files"), ("source", "both")]))]
    policies: Option<PathBuf>,
    /// How the API server is reached [default: as a pod is told].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The name of this node in the cluster [default: NODE_NAME, else this machine's name].
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
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
  sudo drift-agent run --source crd --kubeconfig admin.conf --node-name web-7
  sudo drift-agent run --source both --policies policies --kubeconfig admin.conf
  drift-agent run --policies policies --sensor scan --scan-interval 5s -o jsonl
  sudo drift-agent run --policies policies --scan-interval 1h --scan-idle --scan-rate 2000";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SourceArg {
    /// The policy folder.
    Files,
    /// Policy and PolicyVersion resources.
    Crd,
    /// The resources, and the policy folder beside them.
    Both,
}

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
            source,
            policies,
            kubeconfig,
            node_name,
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
        let state = state.path()?;
        let cluster = |files| {
            let node = node_name
                .clone()
                .or_else(|| std::env::var("NODE_NAME").ok())
                .unwrap_or_else(super::node);
            let source = cluster::Source {
                kubeconfig: kubeconfig.clone(),
                node,
                files,
            };
            (cluster::policies(&state), Some(source))
        };
        let (policies, source) = match (source, policies) {
            (SourceArg::Crd, None) => cluster(None),
            (SourceArg::Both, Some(own)) => cluster(Some(own)),
            (SourceArg::Files, Some(_)) if kubeconfig.is_some() || node_name.is_some() => bail!(
                "--kubeconfig and --node-name are of a cluster: add --source crd or --source both, or leave them out"
            ),
            (SourceArg::Files, Some(policies)) => (policies, None),
            (SourceArg::Crd, Some(_)) => bail!(
                "with --source crd no policy folder is read: use --source both, or leave --policies out"
            ),
            (SourceArg::Files | SourceArg::Both, None) => {
                bail!("name the policy folder with --policies DIR")
            }
        };
        let settings = Settings {
            policies,
            source,
            state,
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
        start::start(settings, root.host()?)
    }
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

/// A test takes up to a second.
fn self_test_interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < Duration::from_secs(2) {
        return Err("a self-test takes up to a second: 2s or more".to_owned());
    }
    Ok(interval)
}

/// `4096`, `64KiB`, `4MiB`: what the kernel takes for a ring.
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
