//! Looking at many paths at once, without probes: for `check`.

use std::{
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    read::{Host, Look, Reader},
    seen::Seen,
};
use crate::declare::{Declared, Target};

/// Paths that a thread takes at once: enough to stay in one directory, few enough for all threads to end together.
const SHARE: usize = 256;

/// Threads that look: reading small files is waiting for the kernel, and more than this waits for its locks.
const MOST_THREADS: usize = 8;

/// Between two calls of `progress`, at most.
const PAUSE: Duration = Duration::from_millis(200);

/// How much of the machine a scan may take.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub threads: usize,
    /// Files a second, of all threads together; `None`: as fast as they can.
    pub files_per_second: Option<u32>,
}

/// Looks at each path once, and gives what `judge` makes of them with their numbers, in the paths' order. Files that are as `seen` has them are not read. `progress` is called from
/// time to time with the number of paths that are done.
///
/// Memory: what `judge` gives, and for each thread a buffer and what one file holds that is compared by what it says.
pub fn scan<T: Send>(
    host: &Host,
    files: &[Arc<Declared>],
    pace: Pace,
    seen: &Seen,
    judge: impl Fn(&Declared, Look) -> Option<T> + Sync,
    mut progress: impl FnMut(usize),
) -> Vec<(usize, T)> {
    let share = pace.share();
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let mut found: Vec<(usize, T)> = Vec::new();
    let look = |judged: &mpsc::Sender<(usize, Vec<(usize, T)>)>| {
        let mut reader = Reader::new(host).unless(seen);
        loop {
            let first = next.fetch_add(share, Ordering::Relaxed);
            if first >= files.len() {
                return;
            }
            pace.wait(first, start);
            let share = &files[first..(first + share).min(files.len())];
            let mut of_share = Vec::new();
            let mut index = first;
            // Sorted by path: what is in one directory stands together, but for what is beneath it.
            for siblings in share.chunk_by(|a, b| are_looked_at_together(a, b)) {
                let looks = reader.observe_siblings(siblings);
                for (declared, look) in siblings.iter().zip(looks) {
                    of_share.extend(judge(declared, look).map(|is| (index, is)));
                    index += 1;
                }
            }
            if judged.send((share.len(), of_share)).is_err() {
                return;
            }
        }
    };
    let look = &look;
    thread::scope(|scope| {
        let (judged, shares) = mpsc::channel();
        // As many threads as there may be: where none may, this one looks.
        let started = (0..pace.threads.max(1)).map_while(|_| {
            let judged = judged.clone();
            let work = move || look(&judged);
            thread::Builder::new().spawn_scoped(scope, work).ok()
        });
        if started.count() == 0 {
            look(&judged);
        }
        drop(judged);
        let mut done = 0;
        loop {
            match shares.recv_timeout(PAUSE) {
                Ok((count, mut of_share)) => {
                    done += count;
                    found.append(&mut of_share);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            progress(done);
        }
    });
    found.sort_unstable_by_key(|(index, _)| *index);
    found
}

/// What a file holds that is compared by what it says is held until it is judged: one at a time. What is reached through links has its own way.
fn are_looked_at_together(a: &Declared, b: &Declared) -> bool {
    let is_held = |declared: &Declared| matches!(&declared.target, Target::File(content) if content.meaning.is_some());
    let is_alone = |declared| is_held(declared) || !declared.links().is_empty();
    folder(&a.path) == folder(&b.path) && !is_alone(a) && !is_alone(b)
}

/// The bytes before the last slash: of declared paths, which are normal, that is the parent, at a fraction of what `Path::parent` costs.
fn folder(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/');
    &bytes[..end.unwrap_or(0)]
}

impl Pace {
    /// On all processors, within reason; no more than `rate` files a second where there is one.
    #[must_use]
    pub fn of(rate: Option<u32>) -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: threads.min(MOST_THREADS),
            files_per_second: rate,
        }
    }

    /// Paths that a thread takes at once: where there is a rate, no more than in a fifth of a second.
    fn share(&self) -> usize {
        let most = |rate: u32| (rate as usize / 5).clamp(1, SHARE);
        self.files_per_second.map_or(SHARE, most)
    }

    /// Waits until `done` paths may have been looked at since `start`.
    fn wait(&self, done: usize, start: Instant) {
        let Some(rate) = self.files_per_second else {
            return;
        };
        let due = Duration::from_secs_f64(done as f64 / f64::from(rate.max(1)));
        if let Some(rest) = due.checked_sub(start.elapsed()) {
            thread::sleep(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{compare, declare::sample};

    #[test]
    fn every_path_is_looked_at_once_and_comes_back_in_its_order() {
        let dir = tempfile::tempdir().unwrap();
        let files: Vec<Arc<Declared>> = (0..1000)
            .map(|number| {
                let path = dir.path().join(format!("{number:04}"));
                fs::write(&path, if number % 7 == 0 { "other" } else { "declared" }).unwrap();
                Arc::new(sample::declared(
                    path.to_str().unwrap(),
                    sample::file(b"declared"),
                ))
            })
            .collect();
        let host = Host::new(Path::new("/")).unwrap();
        let judged = AtomicUsize::new(0);
        let mut last = 0;
        let wrong = scan(
            &host,
            &files,
            Pace {
                threads: 3,
                files_per_second: None,
            },
            &Seen::default(),
            |declared, look| {
                judged.fetch_add(1, Ordering::Relaxed);
                (!compare::differences(declared, &look.observed).is_empty())
                    .then(|| declared.path.clone())
            },
            |done| {
                assert!(done >= last);
                last = done;
            },
        );
        assert_eq!((judged.into_inner(), last), (1000, 1000));
        let expected: Vec<_> = (0..1000)
            .step_by(7)
            .map(|number| (number, dir.path().join(format!("{number:04}"))))
            .collect();
        assert_eq!(wrong, expected);
    }
}
