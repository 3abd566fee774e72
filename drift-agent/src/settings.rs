//! What the agent was asked to do: checked, nothing optional behind this border but what may really be absent.

use std::{path::PathBuf, time::Duration};

use crate::{cluster::Source, declare::Mode, probe, report::Output};

/// How changes are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sensor {
    /// Kernel programs where this kernel lets them run, else by scanning, said loudly.
    Auto,
    /// Kernel programs on the kernel's own functions, or not at all.
    Btf,
    /// Kernel programs on tracepoints, or not at all.
    Tracepoint,
    /// By looking again and again.
    Scan,
}

impl Sensor {
    /// The kernel half that is asked for: `Ok(None)` is the best there is. `Err`: none at all.
    pub fn probes(self) -> Result<Option<probe::Sensor>, Unwanted> {
        match self {
            Sensor::Auto => Ok(None),
            Sensor::Btf => Ok(Some(probe::Sensor::Btf)),
            Sensor::Tracepoint => Ok(Some(probe::Sensor::Tracepoint)),
            Sensor::Scan => Err(Unwanted),
        }
    }
}

/// Nobody asked for probes.
#[derive(Clone, Copy, Debug)]
pub struct Unwanted;

/// For `drift-agent run`.
#[derive(Clone, Debug)]
pub struct Settings {
    pub policies: PathBuf,
    /// Where the policies in that folder come from; `None`: whoever writes to it.
    pub source: Option<Source>,
    pub state: PathBuf,
    /// Where declared paths begin.
    pub host_root: PathBuf,
    /// Overrides what each Policy says.
    pub mode: Option<Mode>,
    pub sensor: Sensor,
    /// `None`: 10 minutes beside probes, once a second without.
    pub scan_interval: Option<Duration>,
    /// How often the agent tries whether it would hear a change.
    pub self_test: Duration,
    /// Paths a second that the periodic scans look at, at most.
    pub scan_rate: Option<u32>,
    /// They run on threads that come last.
    pub scan_idle: bool,
    /// A version that was as declared for so long is the last known good one.
    pub soak: Duration,
    /// Bytes on the disk for contents.
    pub store_quota: u64,
    /// Bytes of the ring of changes.
    pub ring: u32,
    pub output: Output,
    /// A file that stops healing for a while: see [`crate::stop`].
    pub break_glass: PathBuf,
    /// Programs that `afterHeal` may name.
    pub allowed_commands: Vec<PathBuf>,
    pub ready_file: Option<PathBuf>,
    /// Let the kernel programs log what they do.
    pub debug_probes: bool,
}

/// A full scan beside probes: for what no probe can see.
pub const SCAN_BESIDE_PROBES: Duration = Duration::from_secs(600);
/// A look at everything where there are no probes.
pub const SCAN_ALONE: Duration = Duration::from_secs(1);
/// Bytes of the ring of changes: some 40,000 doorbells, and an object that has rung does not ring again before it was looked at.
pub const RING: u32 = 4 << 20;
