//! Looking at many paths at once, without probes: for `check`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use super::read::{Host, Observed, Reader};
use crate::declare::Declared;

/// Paths that a thread takes at once: enough to stay in one directory, few enough for all threads to end together.
const SHARE: usize = 64;

/// Between two calls of `progress`, at most.
const PAUSE: Duration = Duration::from_millis(200);

/// Looks at each path once, on so many threads, and gives what `judge` makes of them, in the paths' order. `progress` is called from time to time with the number
/// of paths that are done.
///
/// Memory: what `judge` gives, and a buffer for each thread.
pub fn scan<T: Send>(
    host: &Host,
    files: &[Arc<Declared>],
    threads: usize,
    judge: impl Fn(&Declared, Observed) -> Option<T> + Sync,
    mut progress: impl FnMut(usize),
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let mut found: Vec<(usize, T)> = Vec::new();
    thread::scope(|scope| {
        let (judged, shares) = mpsc::channel();
        for _ in 0..threads.max(1) {
            let judged = judged.clone();
            let (next, judge) = (&next, &judge);
            scope.spawn(move || {
                let mut reader = Reader::new(host);
                loop {
                    let start = next.fetch_add(SHARE, Ordering::Relaxed);
                    if start >= files.len() {
                        return;
                    }
                    let share = &files[start..(start + SHARE).min(files.len())];
                    let mut of_share = Vec::new();
                    let mut index = start;
                    // Sorted by path: what is in one directory stands together, but for what is beneath it.
                    for siblings in share.chunk_by(|a, b| a.path.parent() == b.path.parent()) {
                        let observed = reader.observe_siblings(siblings);
                        for (declared, observed) in siblings.iter().zip(observed) {
                            of_share.extend(judge(declared, observed).map(|is| (index, is)));
                            index += 1;
                        }
                    }
                    if judged.send((share.len(), of_share)).is_err() {
                        return;
                    }
                }
            });
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
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, judged)| judged).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

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
            3,
            |declared, observed| {
                judged.fetch_add(1, Ordering::Relaxed);
                (!compare::differences(declared, &observed).is_empty())
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
            .map(|number| dir.path().join(format!("{number:04}")))
            .collect();
        assert_eq!(wrong, expected);
    }
}
