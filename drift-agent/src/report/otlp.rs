//! Records to an OpenTelemetry collector, as OTLP logs.
//!
//! The messages are those of `opentelemetry-proto`, sent by code of this folder and not by the SDK's exporter: the SDK counts neither what
//! it gives up nor what a collector rejects, and reads none of the certificate variables (see `docs/adr/0004-otlp-logs-without-the-sdk.md`).

mod attribute;
mod settings;
mod tls;
mod transport;
mod worker;

use std::{
    fmt, io,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};

use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message;

pub use self::settings::Settings;
use self::{
    attribute::{log_record, resource},
    transport::Transport,
    worker::{Said, Tally, Worker},
};
use super::{
    queue::{Bound, Queue},
    record::Record,
};

/// The names of all attributes and variables, for the test that the documents tell of each.
#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    let mut names = attribute::names();
    names.extend(settings::names());
    names
}

/// Records weigh a few hundred bytes; this bounds those of hostile names.
const QUEUE_BYTES: usize = 8 * 1024 * 1024;
/// Well under what collectors take in one request (4 MiB by gRPC).
const BATCH_BYTES: usize = 1024 * 1024;

/// Why records cannot be sent at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    #[error("{variable} is {value:?}: {expected}")]
    Setting {
        variable: &'static str,
        /// Without what may be secret in it.
        value: String,
        expected: String,
    },
    #[error("{variable}: cannot read {}", path.display())]
    Unreadable {
        variable: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{variable}: {} is not what it should be: {problem}", path.display())]
    Pem {
        variable: &'static str,
        path: PathBuf,
        problem: String,
    },
    #[error("{variable} is set and {missing} is not: a certificate and its key go together")]
    HalfIdentity {
        variable: &'static str,
        missing: &'static str,
    },
    #[error(
        "no certificate authority was found on this machine to trust the collector by: name one with OTEL_EXPORTER_OTLP_CERTIFICATE"
    )]
    NoAuthorities,
    #[error("cannot make a client for the collector: {0}")]
    Client(String),
    #[error("cannot start the thread that sends records")]
    Thread(#[source] io::Error),
}

impl OtlpError {
    fn setting(variable: &'static str, value: &str, expected: &str) -> OtlpError {
        OtlpError::Setting {
            variable,
            value: value.to_owned(),
            expected: expected.to_owned(),
        }
    }

    /// The kind of error, for metrics and conditions: a closed set.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            OtlpError::Setting { .. } | OtlpError::HalfIdentity { .. } => "setting",
            OtlpError::Unreadable { .. } => "unreadable",
            OtlpError::Pem { .. } | OtlpError::NoAuthorities => "certificate",
            OtlpError::Client(_) => "client",
            OtlpError::Thread(_) => "thread",
        }
    }
}

/// What became of the records handed over so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The collector has them.
    pub taken: u64,
    /// The collector will not have them.
    pub refused: u64,
    /// Did not fit into the queue.
    pub lost: u64,
    /// On their way.
    pub waiting: u64,
}

/// Sends records from a thread of its own; nothing here waits for the network but `flush`, and that not longer than it is told.
pub(super) struct Exporter {
    queue: Arc<Queue<LogRecord>>,
    tally: Arc<Tally>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    pub(super) fn start(settings: &Settings, node: &str) -> Result<Exporter, OtlpError> {
        let queue = Arc::new(Queue::new(Bound {
            items: settings.queue,
            bytes: QUEUE_BYTES,
        }));
        let tally = Arc::new(Tally::default());
        let worker = Worker {
            queue: Arc::clone(&queue),
            tally: Arc::clone(&tally),
            transport: Transport::new(settings)?,
            resource: resource(node, &settings.resource),
            batch: Bound {
                // More would never be together.
                items: settings.batch.min(settings.queue),
                bytes: BATCH_BYTES,
            },
            delay: settings.delay,
            timeout: settings.timeout,
            said: Said::new(settings.collector(), settings.queue),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(OtlpError::Thread)?;
        let thread = thread::Builder::new()
            .name("drift-otlp".to_owned())
            .spawn(move || {
                runtime.block_on(worker.run());
                // A name that is being looked up cannot be called off, and nobody waits for it.
                runtime.shutdown_background();
            })
            .map_err(OtlpError::Thread)?;
        Ok(Exporter {
            queue,
            tally,
            thread: Some(thread),
        })
    }

    /// Hands a record over. What does not fit is counted.
    pub(super) fn push(&self, record: &Record) {
        let record = log_record(record, jiff::Timestamp::now());
        let bytes = record.encoded_len();
        self.queue.push(record, bytes);
    }

    pub(super) fn wake(&self) {
        self.queue.wake();
    }

    /// Waits until the collector has answered for all of them. Returns how many it has not.
    pub(super) fn flush(&self, within: Duration) -> usize {
        self.queue.flush(within)
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.queue.lock();
        Counts {
            taken: self.tally.taken.load(Ordering::Relaxed),
            refused: self.tally.refused.load(Ordering::Relaxed),
            lost: state.lost(),
            waiting: state.len() as u64,
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let left = self.queue.lock().len();
        if left > 0 {
            log::warn!("{left} records end with the agent: the collector has not taken them");
        }
        self.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that sends records has panicked");
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
