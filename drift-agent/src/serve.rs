//! The control socket: who may ask a running agent, and what.
//!
//! A Unix socket in the state folder, for root and for who runs the agent alone. A connection carries one request and one answer, each a line of
//! JSON (docs/control.md). The pipeline answers requests from its state when it is woken by them; it never waits for who asks.

mod client;
mod hand;
mod socket;
mod status;

pub use client::{AskError, ask};
pub use hand::{Aborting, Healing, Outcome as HandOutcome, Pausing, Resuming, Row, Rows};
pub use socket::{Desk, Served, serve};
pub use status::{
    ActorStatus, Counted, DriftStatus, Health, Held, HeldPath, Lack, LastScan, PolicyStatus,
    PrivilegeStatus, Reason, RecordsLost, SensorStatus, Status, StopStatus, StoreStatus,
    TableStatus, rfc3339,
};

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::switch::{Answer, Demand};

/// The socket's name in the state folder.
const NAME: &str = "control.sock";

/// The version of the protocol. One that is not known is refused, never guessed at.
pub const VERSION: u32 = 1;

/// Bytes of a request, at most.
const MOST_REQUEST: u64 = 64 << 10;

/// Bytes of an answer that are read, at most.
const MOST_ANSWER: u64 = 64 << 20;

/// What can be asked: all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// How the node is.
    Status,
    /// Another version of a policy; `true`: only say what would happen.
    Version(Box<Demand>, bool),
    /// A change of versions is not to be.
    Abort(Box<Aborting>),
    /// Hold healing for a time.
    Pause(Box<Pausing>),
    /// Let it go on.
    Resume(Box<Resuming>),
    /// Heal now.
    Heal(Box<Healing>),
}

impl Request {
    /// For the pipeline to answer. A change of versions waits for the disk.
    const fn patience(&self) -> Duration {
        match self {
            Self::Status | Self::Pause(_) | Self::Resume(_) => Duration::from_secs(5),
            Self::Version(..) | Self::Abort(_) | Self::Heal(_) => Duration::from_secs(120),
        }
    }
}

/// A request on the wire.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asking {
    v: u32,
    request: Request,
}

/// An answer on the wire.
#[derive(Debug, Serialize, Deserialize)]
struct Answering {
    v: u32,
    #[serde(flatten)]
    body: Body,
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    Status(Box<Status>),
    Version(Answer),
    /// To what is over with a word.
    Done(Answer),
    Healed(Box<Rows>),
    Error(Refusal),
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// One of a closed, documented set.
    pub reason: String,
    pub message: String,
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
    pub gid: u32,
    /// `None`: of another pid namespace.
    pub pid: Option<u32>,
}

/// A request on its way to the pipeline.
#[derive(Debug)]
pub struct Asked {
    pub request: Request,
    /// Who asks, as the kernel says.
    pub peer: Peer,
    pub answer: oneshot::Sender<Body>,
}
