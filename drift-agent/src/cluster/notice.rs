//! Records on their way to the cluster: what of a record is of use there, in a bounded queue.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use drift_common::escape;
use tokio::sync::mpsc;

use crate::{
    report::{Event, Record},
    serve::ActorStatus,
};

/// Records that wait; of each object the cluster is told a few a minute, whatever happens.
const MOST: usize = 1024;

/// What the cluster is told of a record. All texts are safe to show.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    pub(super) event: Event,
    pub(super) policy: Option<String>,
    pub(super) version: Option<String>,
    pub(super) path: Option<String>,
    pub(super) kinds: Vec<&'static str>,
    pub(super) severity: Option<&'static str>,
    pub(super) reason: Option<&'static str>,
    pub(super) message: Option<String>,
    pub(super) actor: Option<Result<ActorStatus, String>>,
    pub(super) time: jiff::Timestamp,
}

impl From<&Record> for Notice {
    fn from(record: &Record) -> Self {
        let shown = |text: &String| escape::printable(text).into_owned();
        Self {
            event: record.event,
            policy: record.policy.as_ref().map(shown),
            version: record.version.as_ref().map(shown),
            path: record
                .path
                .as_deref()
                .map(|path| escape::path(path).to_string()),
            kinds: record.drift.iter().map(|kind| kind.name()).collect(),
            severity: record.severity.map(crate::declare::Severity::name),
            reason: record.reason,
            message: record.message.as_ref().map(shown),
            actor: record.actor.as_ref().map(|actor| match actor {
                Ok(actor) => Ok(actor.into()),
                Err(why) => Err(shown(why)),
            }),
            time: record.time,
        }
    }
}

/// Where records for the cluster go in.
#[derive(Clone, Debug)]
pub struct Notices {
    queue: mpsc::Sender<Notice>,
    lost: Arc<AtomicU64>,
}

impl Notices {
    /// Never waits. What does not fit is counted, and that is part of the node's status.
    pub fn push(&self, record: &Record) {
        if self.queue.try_send(record.into()).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Where they come out.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) queue: mpsc::Receiver<Notice>,
    lost: Arc<AtomicU64>,
}

impl Heard {
    /// Those that did not fit, since the start.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Both ends.
pub(super) fn notices() -> (Notices, Heard) {
    let (send, queue) = mpsc::channel(MOST);
    let lost = Arc::<AtomicU64>::default();
    let notices = Notices {
        queue: send,
        lost: Arc::clone(&lost),
    };
    (notices, Heard { queue, lost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted_and_nobody_waits() {
        let (notices, mut heard) = notices();
        let record = Record::new(Event::EventsLost);
        for _ in 0..MOST + 3 {
            notices.push(&record);
        }
        assert_eq!(heard.lost(), 3);
        let there = std::iter::from_fn(|| heard.queue.try_recv().ok()).count();
        assert_eq!(there, MOST);
        notices.push(&record);
        assert_eq!(heard.lost(), 3);
    }
}
