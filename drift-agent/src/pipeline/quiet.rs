//! What the periodic scans may take: paths a second, and threads that come last.

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

type Job = Box<dyn FnOnce() + Send>;

/// Paths that may be looked at one after the other: what comes in a fifth of a second.
const BURSTS: u32 = 5;

/// How many paths a periodic scan may look at, and how many of them it has not.
#[derive(Debug)]
pub(super) struct Pace {
    /// Paths a second; `None`: as fast as they can be.
    rate: Option<u32>,
    /// When everything that was looked at so far has had its time.
    due: Instant,
}

impl Pace {
    pub(super) fn new(rate: Option<u32>, now: Instant) -> Self {
        Self { rate, due: now }
    }

    /// Takes one path. `Err`: when there may be one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let Some(rate) = self.rate else {
            return Ok(());
        };
        // What was not used lasts for one burst, and no more.
        let burst = Duration::from_secs(1) / BURSTS;
        self.due = self.due.max(now.checked_sub(burst).unwrap_or(now));
        if self.due > now {
            return Err(self.due);
        }
        self.due += Duration::from_secs(1) / rate.max(1);
        Ok(())
    }

    /// The time that so many paths take.
    pub(super) fn time_for(&self, paths: usize) -> Duration {
        self.rate.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(paths as f64 / f64::from(rate.max(1)))
        })
    }
}

/// Threads with the lowest priority (nice 19, which the disk heeds too).
#[derive(Debug)]
pub(super) struct Quiet {
    jobs: mpsc::Sender<Job>,
}

impl Quiet {
    /// They end when this goes.
    pub(super) fn start(threads: usize) -> std::io::Result<Self> {
        let (jobs, taken) = mpsc::channel::<Job>();
        let taken = Arc::new(Mutex::new(taken));
        for _ in 0..threads {
            let taken = Arc::clone(&taken);
            let name = "drift-scan".to_owned();
            thread::Builder::new().name(name).spawn(move || {
                // On Linux it is a thread that has a priority, and not its process.
                if let Err(error) = rustix::process::setpriority_process(None, 19) {
                    log::warn!("the periodic scans cannot come last: {error}");
                }
                loop {
                    let next = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    match next {
                        Ok(job) => job(),
                        Err(mpsc::RecvError) => return,
                    }
                }
            })?;
        }
        Ok(Self { jobs })
    }

    /// Does it on one of them. Gives it back where they are all gone.
    pub(super) fn run(&self, job: Job) -> Result<(), Job> {
        self.jobs.send(job).map_err(|mpsc::SendError(job)| job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_keeps_its_rate_and_what_was_not_used_lasts_for_one_burst() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace::new(Some(10), start);
        let mut taken = |millis| {
            let mut count = 0;
            while pace.take(at(millis)).is_ok() {
                count += 1;
            }
            count
        };
        assert_eq!(taken(0), 1);
        assert_eq!(taken(50), 0);
        assert_eq!(taken(100), 1);
        // A fifth of a second of ten paths a second, and the one that is due.
        assert_eq!(taken(60_000), 3);
        assert_eq!(taken(60_050), 0);
        assert_eq!(pace.take(at(60_050)), Err(at(60_100)));
        assert_eq!(pace.time_for(25), Duration::from_millis(2500));
    }

    #[test]
    fn without_a_rate_there_is_none() {
        let now = Instant::now();
        let mut pace = Pace::new(None, now);
        assert!((0..100_000).all(|_| pace.take(now).is_ok()));
        assert_eq!(pace.time_for(1000), Duration::ZERO);
    }

    #[test]
    fn quiet_threads_have_the_lowest_priority_and_others_keep_theirs() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        let quiet = Quiet::start(2).unwrap();
        let (told, heard) = mpsc::channel();
        let job = Box::new(move || {
            told.send(rustix::process::getpriority_process(None))
                .unwrap();
        });
        assert!(quiet.run(job).is_ok());
        let found = heard.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(found, Ok(19));
        assert_eq!(priority(), before);
    }
}
