//! One decision of the agent, in the shape of `docs/record.schema.json` (`configdrift.io/record/v1`).

use std::path::PathBuf;

use crate::compare::Drift;

/// The closed list of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    DriftDetected,
    DriftHealed,
    HealFailed,
    HealUnverifiable,
    HealSuppressed,
    DriftResolved,
    Touched,
    PolicyActivated,
    PolicyRejected,
    EventsLost,
}

/// What woke the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    Kernel,
    Scan,
    Start,
    Policy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Healed,
    Failed,
    Unverifiable,
    Suppressed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Block,
    Char,
    Absent,
}

/// One side of a comparison. `None`: not declared, or not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub file_type: Option<FileType>,
    pub digest: Option<blake3::Hash>,
    /// Bytes.
    pub size: Option<u64>,
    /// 07777.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

/// The process that made a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Thread group id in the initial pid namespace.
    pub pid: u32,
    /// Start, nanoseconds since boot.
    pub start_ns: u64,
    /// Raw bytes as the kernel has them; escaped when shown.
    pub comm: String,
    pub exe: Option<PathBuf>,
    pub uid: u32,
    pub gid: u32,
    pub cgroup: Option<String>,
}

/// See the schema for what each event must carry; the constructors' callers are the pipeline only.
#[derive(Clone, Debug)]
pub struct Record {
    pub id: uuid::Uuid,
    pub time: jiff::Timestamp,
    pub event: Event,
    pub policy: Option<String>,
    pub version: Option<String>,
    pub path: Option<PathBuf>,
    /// Sorted, no kind twice.
    pub drift: Vec<Drift>,
    pub declared: Option<State>,
    pub observed: Option<State>,
    /// `Err`: unknown, and why.
    pub actor: Option<Result<Actor, String>>,
    pub cause: Option<Cause>,
    /// Kernel time of the change to this record, nanoseconds.
    pub seen_ns: Option<u64>,
    pub outcome: Option<Outcome>,
    /// One of a closed, documented set.
    pub reason: Option<&'static str>,
    pub message: Option<String>,
    /// Detection to verified, nanoseconds.
    pub heal_ns: Option<u64>,
}
