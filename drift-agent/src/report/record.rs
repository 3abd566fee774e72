//! One decision of the agent, in the shape of `docs/record.schema.json` (`configdrift.io/record/v1`).

use std::{ffi::OsString, path::PathBuf};

use super::container::Container;
use crate::{
    compare::Drift,
    declare::{Redact, Severity},
};

/// The closed list of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    DriftDetected,
    DriftHealed,
    HealFailed,
    HealUnverifiable,
    HealSuppressed,
    /// Someone else put it back.
    DriftResolved,
    /// Changed and changed back, or written with equal content.
    Touched,
    PolicyActivated,
    PolicyRejected,
    EventsLost,
}

impl Event {
    /// Every event.
    pub const ALL: [Event; 10] = [
        Event::DriftDetected,
        Event::DriftHealed,
        Event::HealFailed,
        Event::HealUnverifiable,
        Event::HealSuppressed,
        Event::DriftResolved,
        Event::Touched,
        Event::PolicyActivated,
        Event::PolicyRejected,
        Event::EventsLost,
    ];

    /// The event's name in records, OTLP and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Event::DriftDetected => "config.drift.detected",
            Event::DriftHealed => "config.drift.healed",
            Event::HealFailed => "config.drift.heal_failed",
            Event::HealUnverifiable => "config.drift.heal_unverifiable",
            Event::HealSuppressed => "config.drift.heal_suppressed",
            Event::DriftResolved => "config.drift.resolved",
            Event::Touched => "config.touched",
            Event::PolicyActivated => "config.policy.activated",
            Event::PolicyRejected => "config.policy.rejected",
            Event::EventsLost => "config.events.lost",
        }
    }

    const fn is_about_a_path(self) -> bool {
        match self {
            Event::DriftDetected
            | Event::DriftHealed
            | Event::HealFailed
            | Event::HealUnverifiable
            | Event::HealSuppressed
            | Event::DriftResolved
            | Event::Touched => true,
            Event::PolicyActivated | Event::PolicyRejected | Event::EventsLost => false,
        }
    }

    const fn is_about_a_heal(self) -> bool {
        match self {
            Event::DriftHealed
            | Event::HealFailed
            | Event::HealUnverifiable
            | Event::HealSuppressed => true,
            Event::DriftDetected
            | Event::DriftResolved
            | Event::Touched
            | Event::PolicyActivated
            | Event::PolicyRejected
            | Event::EventsLost => false,
        }
    }

    pub(super) const fn needs_a_reason(self) -> bool {
        match self {
            Event::HealFailed
            | Event::HealUnverifiable
            | Event::HealSuppressed
            | Event::PolicyRejected
            | Event::EventsLost => true,
            Event::DriftDetected
            | Event::DriftHealed
            | Event::DriftResolved
            | Event::Touched
            | Event::PolicyActivated => false,
        }
    }
}

/// The reason of [`Event::DriftResolved`] where nobody has put anything back: it is declared otherwise now, or not at all.
pub const SUPERSEDED: &str = "superseded";

/// What woke the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    Kernel,
    Scan,
    Start,
    Policy,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 4] = [Cause::Kernel, Cause::Scan, Cause::Start, Cause::Policy];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Kernel => "kernel",
            Cause::Scan => "scan",
            Cause::Start => "start",
            Cause::Policy => "policy",
        }
    }
}

/// What came of a heal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Healed,
    Failed,
    Unverifiable,
    Suppressed,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Outcome; 4] = [
        Outcome::Healed,
        Outcome::Failed,
        Outcome::Unverifiable,
        Outcome::Suppressed,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Healed => "healed",
            Outcome::Failed => "failed",
            Outcome::Unverifiable => "unverifiable",
            Outcome::Suppressed => "suppressed",
        }
    }
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

impl FileType {
    /// Every type.
    pub const ALL: [FileType; 8] = [
        FileType::File,
        FileType::Directory,
        FileType::Symlink,
        FileType::Fifo,
        FileType::Socket,
        FileType::Block,
        FileType::Char,
        FileType::Absent,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FileType::File => "file",
            FileType::Directory => "directory",
            FileType::Symlink => "symlink",
            FileType::Fifo => "fifo",
            FileType::Socket => "socket",
            FileType::Block => "block",
            FileType::Char => "char",
            FileType::Absent => "absent",
        }
    }
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
    /// Raw bytes as the kernel has them (without the padding); escaped when shown.
    pub comm: OsString,
    pub exe: Option<PathBuf>,
    pub uid: u32,
    pub gid: u32,
    pub cgroup: Option<String>,
    /// `None`: in none. `Err`: unknown, and why.
    pub container: Option<Result<Container, String>>,
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
    /// How much a drift of the path matters, as its policy says.
    pub severity: Option<Severity>,
    /// Kernel time of the change to this record, nanoseconds.
    pub seen_ns: Option<u64>,
    pub outcome: Option<Outcome>,
    /// One of a closed, documented set.
    pub reason: Option<&'static str>,
    pub message: Option<String>,
    /// Detection to verified, nanoseconds.
    pub heal_ns: Option<u64>,
    /// What was done for programs to take it in.
    pub after_heal: Vec<AfterDone>,
    /// Who still has what stood there before a heal.
    pub holders: Option<Holders>,
    /// What is kept of what healing has taken away.
    pub evidence: Vec<Evidence>,
}

/// What has come of one action after a heal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfterDone {
    pub action: String,
    /// `done` or `failed`.
    pub outcome: &'static str,
    /// One of a closed, documented set.
    pub reason: Option<&'static str>,
    pub message: Option<String>,
    /// Of what it has printed.
    pub output: Option<blake3::Hash>,
    pub took_ns: u64,
}

/// Processes that have what is no longer there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// The first of them.
    pub processes: Vec<Holder>,
    /// All that were found.
    pub count: usize,
    /// Not every process was looked at: why.
    pub incomplete: Option<String>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    pub comm: OsString,
    pub exe: Option<PathBuf>,
    /// `writing`, `open`, `mapped` or `mounted`.
    pub how: &'static str,
    /// Where it is mounted, as that process sees it.
    pub at: Option<PathBuf>,
}

/// A content that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// In a directory, which of its names.
    pub name: Option<OsString>,
    /// `None`: it is not kept, and why.
    pub kept: Result<blake3::Hash, &'static str>,
    /// Bytes.
    pub size: u64,
    pub file_type: FileType,
    /// What of it may be shown.
    pub redact: Redact,
}

impl Record {
    /// A record of this moment with nothing but its event; the caller fills in what [`Record::lacks`] asks for.
    #[must_use]
    pub fn new(event: Event) -> Record {
        Record {
            id: uuid::Uuid::now_v7(),
            time: jiff::Timestamp::now(),
            event,
            policy: None,
            version: None,
            path: None,
            drift: Vec::new(),
            declared: None,
            observed: None,
            actor: None,
            cause: None,
            severity: None,
            seen_ns: None,
            outcome: None,
            reason: None,
            message: None,
            heal_ns: None,
            after_heal: Vec::new(),
            holders: None,
            evidence: Vec::new(),
        }
    }

    /// The first field that readers of this event count on and that is not there.
    #[must_use]
    pub fn lacks(&self) -> Option<&'static str> {
        let detected = self.event == Event::DriftDetected;
        let path = self.event.is_about_a_path();
        let needs = [
            ("policy", path, self.policy.is_some()),
            ("version", path, self.version.is_some()),
            ("path", path, self.path.is_some()),
            ("cause", path, self.cause.is_some()),
            ("drift", detected, !self.drift.is_empty()),
            ("declared", detected, self.declared.is_some()),
            ("observed", detected, self.observed.is_some()),
            ("actor", detected, self.actor.is_some()),
            (
                "outcome",
                self.event.is_about_a_heal(),
                self.outcome.is_some(),
            ),
            (
                "heal_ns",
                self.event == Event::DriftHealed,
                self.heal_ns.is_some(),
            ),
            ("reason", self.event.needs_a_reason(), self.reason.is_some()),
        ];
        needs
            .iter()
            .find(|(_, needed, there)| *needed && !there)
            .map(|(field, ..)| *field)
    }
}
