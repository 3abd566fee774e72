//! How far the API server is, asked for now and then, and after each outage: a watch that was begun before a backup was put back waits for numbers that are far
//! off, or were given twice, and says nothing of that; and an outage has ended when the API server answers, also where nothing has changed meanwhile.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};
use tokio::time::{Instant, timeout};

use super::client::{jittered, own};

/// While all is well.
const EVERY: Duration = Duration::from_secs(240);
/// After an error, for the first time; then twice as long each time, up to the last.
const SOON: Duration = Duration::from_secs(2);
const LAST: Duration = Duration::from_secs(30);
/// After an answer, whatever goes wrong meanwhile.
const APART: Duration = Duration::from_secs(10);
/// For an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is where it was, or further.
    Ahead(u64),
    /// It shows an earlier state than it has shown before.
    Back(u64),
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    #[error("it has not answered within {} s", ANSWER.as_secs())]
    Late,
    #[error("its list has no resourceVersion")]
    Unnumbered,
    #[error("{0}")]
    Refused(#[from] kube::Error),
}

/// Who asks.
pub(super) struct Asker {
    api: Api<DynamicObject>,
    /// The furthest that it was.
    most: u64,
    next: Instant,
    pause: Duration,
    not_before: Instant,
}

impl Asker {
    pub(super) fn new(client: Client) -> Self {
        Self {
            api: Api::all_with(client, &own("Policy")),
            most: 0,
            next: Instant::now() + jittered(EVERY),
            pause: SOON,
            not_before: Instant::now(),
        }
    }

    /// When it is to be asked.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// A watch has met an error: it is asked soon.
    pub(super) fn hurry(&mut self) {
        let soon = Instant::now() + jittered(self.pause);
        self.next = self.next.min(soon.max(self.not_before));
    }

    /// It was at `revision` at least.
    pub(super) fn heard(&mut self, revision: Option<u64>) {
        self.most = self.most.max(revision.unwrap_or(0));
    }

    /// Asks. One object at most is sent, and of it only what is known of every object.
    pub(super) async fn ask(&mut self) -> Result<Standing, Unknown> {
        let answer = timeout(
            ANSWER,
            self.api.list_metadata(&ListParams::default().limit(1)),
        )
        .await
        .map_err(|_| Unknown::Late)
        .and_then(|answer| Ok(answer?))
        .and_then(|list| {
            let revision = list.metadata.resource_version;
            let revision = revision.and_then(|revision| revision.parse().ok());
            revision.ok_or(Unknown::Unnumbered)
        });
        let now = Instant::now();
        match answer {
            Ok(revision) => {
                (self.next, self.pause) = (now + jittered(EVERY), SOON);
                self.not_before = now + jittered(APART);
                let is_back = revision < self.most;
                self.most = revision;
                Ok(if is_back {
                    Standing::Back(revision)
                } else {
                    Standing::Ahead(revision)
                })
            }
            Err(error) => {
                self.next = now + jittered(self.pause);
                self.pause = (self.pause * 2).min(LAST);
                Err(error)
            }
        }
    }
}

impl Standing {
    pub(super) const fn revision(self) -> u64 {
        match self {
            Self::Ahead(revision) | Self::Back(revision) => revision,
        }
    }
}
