//! Records into the node's own history, written by a thread of their own: a disk that is slow or full holds nobody up.
//!
//! What the disk does not take waits in the bounded queue and is tried again; what does not fit is counted, and the history itself says so as
//! soon as it goes on. Records are written at once and synced together: a kill loses none that was written, a power cut those of the last
//! second.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use super::{
    loss::{Lost, lost},
    queue::{Bound, Queue},
    read,
    record::{Event, Record},
};
use crate::store::{Bounds, HistoryWriter, MOST_LINE, read_history};

/// As many as wait for standard output.
const WAITING: Bound = Bound {
    items: 16 * 1024,
    bytes: 8 * 1024 * 1024,
};
/// Written at once.
const PIECE: Bound = Bound {
    items: 256,
    bytes: 64 * 1024,
};
/// What was written is synced so much later: many records share one wait for the disk, and heals, which sync too, are not held up by each.
const SYNC_AFTER: Duration = Duration::from_secs(1);
/// Between two tries at a disk that takes nothing.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Old segments go also while nothing happens.
const EXPIRE: Duration = Duration::from_secs(3600);
/// Heals are counted for so long, by the hour.
const HOURS: usize = 24;

/// A record on its way.
#[derive(Clone, Debug)]
struct Kept {
    json: Arc<str>,
    /// The policy, of a heal.
    healed: Option<Arc<str>>,
}

/// For each policy, heals by the hour.
type Healed = BTreeMap<String, [(u64, u64); HOURS]>;

/// How often each policy was healed lately, as the history on the disk says: it survives a restart.
#[derive(Clone, Debug, Default)]
pub struct Heals {
    healed: Arc<Mutex<Healed>>,
}

impl Heals {
    /// Of each policy, in the 24 hours before `now`, to the hour.
    #[must_use]
    pub fn of_a_day(&self, now: SystemTime) -> BTreeMap<String, u64> {
        let oldest = (hour(now) + 1).saturating_sub(HOURS as u64);
        let mut counts = BTreeMap::new();
        self.lock().retain(|policy, hours| {
            let recent = hours.iter().filter(|(hour, _)| *hour >= oldest);
            let count: u64 = recent.map(|(_, count)| count).sum();
            if count > 0 {
                counts.insert(policy.clone(), count);
            }
            count > 0
        });
        counts
    }

    fn count(&self, policy: &str, at: SystemTime) {
        let hour = hour(at);
        let mut healed = self.lock();
        let hours = healed.entry(policy.to_owned()).or_insert([(0, 0); HOURS]);
        let slot = &mut hours[usize::try_from(hour % HOURS as u64).unwrap_or(0)];
        if slot.0 != hour {
            *slot = (hour, 0);
        }
        slot.1 += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Healed> {
        self.healed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hour(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() / 3600)
}

/// Keeps records.
#[derive(Debug)]
pub(super) struct History {
    queue: Arc<Queue<Kept>>,
    heals: Heals,
    thread: Option<JoinHandle<()>>,
}

impl History {
    /// Goes on with the history in the state folder.
    pub(super) fn start(state: PathBuf, bounds: Bounds, node: String) -> io::Result<History> {
        let writer = HistoryWriter::open(&state, bounds, SystemTime::now())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let queue = Arc::new(Queue::new(WAITING));
        let heals = Heals::default();
        let keeper = Keeper {
            state,
            writer,
            queue: Arc::clone(&queue),
            heals: heals.clone(),
            node,
            told: 0,
            sync_at: None,
            failing: false,
        };
        let thread = thread::Builder::new()
            .name("drift-history".to_owned())
            .spawn(move || {
                let queue = Arc::clone(&keeper.queue);
                runtime.block_on(keeper.run());
                queue.close();
            })?;
        Ok(History {
            queue,
            heals,
            thread: Some(thread),
        })
    }

    /// Hands a record over, with its line of JSON. What does not fit is counted.
    pub(super) fn push(&self, record: &Record, json: &str) {
        if json.len() > MOST_LINE {
            log::error!(
                "a record of {} bytes is too long for the history",
                json.len()
            );
            return;
        }
        let healed = record
            .policy
            .as_deref()
            .filter(|_| record.event == Event::DriftHealed);
        let kept = Kept {
            json: json.into(),
            healed: healed.map(Arc::from),
        };
        self.queue.push(kept, json.len());
    }

    pub(super) fn wake(&self) {
        self.queue.wake();
    }

    /// Waits until all is on the disk. Returns how many records are not.
    pub(super) fn flush(&self, within: Duration) -> usize {
        self.queue.flush(within)
    }

    pub(super) fn heals(&self) -> Heals {
        self.heals.clone()
    }

    pub(super) fn lost(&self) -> u64 {
        self.queue.lost()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        let left = self.queue.flush(Duration::from_secs(1));
        if left > 0 {
            log::warn!("{left} records end with the agent: the disk has not taken them");
        }
        self.queue.close();
        // With records left the thread may hang in a write that never returns; the process may end without it.
        if let Some(thread) = self.thread.take()
            && left == 0
            && thread.join().is_err()
        {
            log::error!("the thread that keeps records has panicked");
        }
    }
}

struct Keeper {
    state: PathBuf,
    writer: HistoryWriter,
    queue: Arc<Queue<Kept>>,
    heals: Heals,
    node: String,
    /// Losses told so far.
    told: u64,
    /// When what was written is to be synced.
    sync_at: Option<Instant>,
    /// The disk has not taken the last piece.
    failing: bool,
}

impl Keeper {
    async fn run(mut self) {
        self.count_heals();
        loop {
            let wait = match self.sync_at {
                Some(at) => at.saturating_duration_since(Instant::now()),
                None => EXPIRE,
            };
            let woken = self.queue.until(|state| state.len() > 0 || state.closed());
            let idle = tokio::time::timeout(wait, woken).await.is_err();
            let is_due = self.sync_at.is_some_and(|at| at <= Instant::now());
            if is_due || self.queue.lock().closed() {
                self.sync();
            }
            if self.queue.lock().closed() {
                return;
            }
            if idle {
                if let Err(error) = self.writer.expire(SystemTime::now()) {
                    log::warn!("old records cannot be removed from the history: {error}");
                }
                continue;
            }
            if !self.piece() {
                let closed = self.queue.until(super::queue::State::closed);
                if tokio::time::timeout(TRY_AGAIN, closed).await.is_ok() {
                    return;
                }
            }
        }
    }

    /// Writes what waits at the front. Whether the disk took it.
    fn piece(&mut self) -> bool {
        let piece = self.queue.front(PIECE);
        let lost_so_far = self.queue.lost();
        let loss = (lost_so_far > self.told)
            .then(|| lost(Lost::HistoryBlocked, lost_so_far - self.told).line(&self.node));
        let loss = loss.and_then(Result::ok);
        let lines = piece.iter().map(|kept| &*kept.json).chain(loss.as_deref());
        if let Err(error) = self.writer.append(lines, SystemTime::now()) {
            if !std::mem::replace(&mut self.failing, true) {
                log::warn!("the history is not being kept: {error}. It is tried again");
            }
            return false;
        }
        if std::mem::take(&mut self.failing) {
            log::warn!("the history is being kept again");
        }
        self.told = lost_so_far;
        self.sync_at
            .get_or_insert_with(|| Instant::now() + SYNC_AFTER);
        if self.queue.lock().flushing() {
            self.sync();
        }
        let now = SystemTime::now();
        for policy in piece.iter().filter_map(|kept| kept.healed.as_deref()) {
            self.heals.count(policy, now);
        }
        self.queue.done(piece.len());
        true
    }

    fn sync(&mut self) {
        self.sync_at = None;
        if let Err(error) = self.writer.sync(SystemTime::now()) {
            log::warn!("the last records of the history may not survive a power cut: {error}");
        }
    }

    /// Counts what earlier agents have healed lately.
    fn count_heals(&self) {
        let since = SystemTime::now() - Duration::from_secs(HOURS as u64 * 3600);
        let read = read_history(&self.state, Some(since), |line| {
            if !line.contains(Event::DriftHealed.name()) {
                return;
            }
            if let Some(record) = read::record(line)
                && record.event == Event::DriftHealed
                && let Some(policy) = &record.policy
                && SystemTime::from(record.time) >= since
            {
                self.heals.count(policy, record.time.into());
            }
        });
        match read {
            Ok(past) if past.damaged > 0 => log::warn!(
                "{} lines of the history were not what was written: they are left out",
                past.damaged
            ),
            Ok(_) => {}
            Err(error) => log::warn!("heals of the last day are counted from now on: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3600 + 1800)
    }

    #[test]
    fn heals_are_counted_for_a_day_and_no_longer() {
        let heals = Heals::default();
        for hour in 1000..1030 {
            heals.count("web", at(hour));
            heals.count("web", at(hour));
        }
        heals.count("old", at(1005));
        let counts = heals.of_a_day(at(1029));
        assert_eq!(counts.get("web"), Some(&48));
        assert_eq!(counts.get("old"), None, "25 hours ago");
        assert_eq!(heals.of_a_day(at(1052)).get("web"), Some(&2));
        assert!(heals.of_a_day(at(1060)).is_empty());
        assert!(heals.lock().is_empty(), "what is over takes no memory");
    }
}
