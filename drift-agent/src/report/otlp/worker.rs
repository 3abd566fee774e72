//! The thread that brings records to the collector: in batches, again and again while it may yet take them, and never in anyone's way.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use drift_common::escape::printable;
use opentelemetry_proto::tonic::{
    collector::logs::v1::ExportLogsServiceRequest,
    common::v1::InstrumentationScope,
    logs::v1::{LogRecord, ResourceLogs, ScopeLogs},
    resource::v1::Resource,
};

use super::{
    super::{
        loss::{Lost, lost},
        queue::{Bound, Queue},
        sentence::duration,
    },
    attribute::log_record,
    transport::{Refusal, Taken, Transport},
};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// While someone waits for the last records to leave.
const HURRIED_PAUSE: Duration = Duration::from_millis(100);
/// Of what a collector says about records it rejected, as much as a log line bears.
const QUOTE: usize = 200;

/// What became of records, since the start.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) taken: AtomicU64,
    pub(super) refused: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) queue: Arc<Queue<LogRecord>>,
    pub(super) tally: Arc<Tally>,
    pub(super) transport: Transport,
    pub(super) resource: Resource,
    pub(super) batch: Bound,
    pub(super) delay: Duration,
    pub(super) timeout: Duration,
    pub(super) said: Said,
}

impl Worker {
    /// Until the queue is closed.
    pub(super) async fn run(mut self) {
        loop {
            self.queue
                .until(|state| state.len() > 0 || state.closed())
                .await;
            let full = self.batch.items;
            tokio::select! {
                () = tokio::time::sleep(self.delay) => {}
                () = self.queue.until(|state| state.len() >= full || state.flushing() || state.closed()) => {}
            }
            let batch = self.queue.front(self.batch);
            if self.queue.lock().closed() {
                return;
            }
            let count = batch.len();
            if !self.deliver(batch).await {
                return;
            }
            self.queue.done(count);
        }
    }

    /// Until the collector has taken or refused it (`true`), or nobody wants it delivered any more.
    async fn deliver(&mut self, batch: Vec<LogRecord>) -> bool {
        let count = batch.len() as u64;
        let request = self.request(batch);
        let mut pause = FIRST_PAUSE;
        loop {
            let Some(answer) = self.send(&request).await else {
                return false;
            };
            match answer {
                Ok(taken) => {
                    let refused = taken.rejected.min(count);
                    self.tally
                        .taken
                        .fetch_add(count - refused, Ordering::Relaxed);
                    self.tally.refused.fetch_add(refused, Ordering::Relaxed);
                    self.said.taken();
                    if refused > 0 {
                        self.said.refused(refused, &quote(&taken.message));
                    }
                    self.tell_loss().await;
                    return true;
                }
                Err(Refusal::Never { why }) => {
                    self.tally.refused.fetch_add(count, Ordering::Relaxed);
                    self.said.refused(count, &why);
                    return true;
                }
                Err(Refusal::Later { why, after }) => {
                    self.said.not_taken(&why);
                    self.said.losing(self.queue.lost());
                    if !self
                        .pause(after.unwrap_or_else(|| jittered(pause)), after.is_none())
                        .await
                    {
                        return false;
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// `None`: the queue was closed meanwhile.
    async fn send(&mut self, request: &ExportLogsServiceRequest) -> Option<Result<Taken, Refusal>> {
        let queue = Arc::clone(&self.queue);
        tokio::select! {
            answer = tokio::time::timeout(self.timeout, self.transport.send(request)) => {
                Some(answer.unwrap_or_else(|_| Err(Refusal::Later { why: "no answer in time".to_owned(), after: None })))
            }
            () = queue.until(super::super::queue::State::closed) => None,
        }
    }

    /// Waits before another try, shorter when someone flushes. `false`: the queue was closed.
    async fn pause(&self, wait: Duration, may_hurry: bool) -> bool {
        let hurried = may_hurry && self.queue.lock().flushing();
        let wait = if hurried {
            wait.min(HURRIED_PAUSE)
        } else {
            wait
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.queue.until(|state| state.closed() || (may_hurry && !hurried && state.flushing())) => {}
        }
        !self.queue.lock().closed()
    }

    /// Once the collector takes records again, it is told how many it will never see.
    async fn tell_loss(&mut self) {
        let full = self.queue.lost();
        let refused = self.tally.refused.load(Ordering::Relaxed);
        self.said.lost(full);
        for (count, what) in [
            (full - self.said.told_full, Lost::QueueFull),
            (refused - self.said.told_refused, Lost::Refused),
        ] {
            if count == 0 {
                continue;
            }
            let record = lost(what, count);
            let request = self.request(vec![log_record(&record, record.time)]);
            if !matches!(self.send(&request).await, Some(Ok(_))) {
                return;
            }
            match what {
                Lost::Refused => self.said.told_refused = refused,
                Lost::QueueFull | Lost::OutputBlocked | Lost::HistoryBlocked => {
                    self.said.told_full = full;
                }
            }
        }
    }

    fn request(&self, log_records: Vec<LogRecord>) -> ExportLogsServiceRequest {
        let scope = InstrumentationScope {
            name: "drift-agent".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs {
                resource: Some(self.resource.clone()),
                scope_logs: vec![ScopeLogs {
                    scope: Some(scope),
                    log_records,
                    ..ScopeLogs::default()
                }],
                ..ResourceLogs::default()
            }],
        }
    }
}

/// What the agent's own log was told, so that it is told once. That log goes to standard error and is never exported, or each failed export
/// would make another record to export.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) collector: String,
    pub(super) queue: usize,
    down_since: Option<Instant>,
    last_refusal: Option<String>,
    /// Losses of the queue are going on, and that was told.
    losing: bool,
    /// As many of the queue's losses the log knows of, and the collector.
    logged: u64,
    told_full: u64,
    told_refused: u64,
}

impl Said {
    pub(super) fn new(collector: String, queue: usize) -> Said {
        Said {
            collector,
            queue,
            down_since: None,
            last_refusal: None,
            losing: false,
            logged: 0,
            told_full: 0,
            told_refused: 0,
        }
    }

    fn not_taken(&mut self, why: &str) {
        if self.down_since.is_none() {
            self.down_since = Some(Instant::now());
            log::warn!(
                "the collector at {} does not take records: {why}; up to {} wait here and are sent when it does",
                self.collector,
                self.queue
            );
        }
    }

    fn taken(&mut self) {
        if let Some(since) = self.down_since.take() {
            let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            log::info!(
                "the collector at {} takes records again, after {}",
                self.collector,
                duration(ns)
            );
        }
    }

    /// After a failed try: the first loss is told as it begins.
    fn losing(&mut self, lost: u64) {
        if lost > self.logged && !self.losing {
            self.losing = true;
            log::warn!(
                "records for the collector at {} are being lost: {} wait already",
                self.collector,
                self.queue
            );
        }
    }

    /// After a delivery: how many there were.
    fn lost(&mut self, lost: u64) {
        if lost > self.logged {
            log::warn!(
                "{} records for the collector at {} were lost: the queue of {} was full",
                lost - self.logged,
                self.collector,
                self.queue
            );
        }
        self.logged = lost;
        self.losing = false;
    }

    fn refused(&mut self, count: u64, why: &str) {
        if self.last_refusal.as_deref() != Some(why) {
            log::warn!(
                "the collector at {} refused {count} records for good: {why}; more for the same reason are counted only",
                self.collector
            );
            self.last_refusal = Some(why.to_owned());
        }
    }
}

fn quote(message: &str) -> String {
    let message = printable(message);
    match message.char_indices().nth(QUOTE) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None if message.is_empty() => "it does not say why".to_owned(),
        None => message.into_owned(),
    }
}

/// From half the time to all of it: nodes that lost their collector together do not all come back at the same moment.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    pause / 2 + (pause / 2).mul_f64(random as f64 / u64::MAX as f64)
}
