//! When to look: a half-written file is not a drift.
//!
//! A change that is complete (a close, a rename, a chmod) is looked at right away. While somebody has the file open for writing, the look waits for the close,
//! or until the writer has been quiet for [`QUIET`], or for [`PATIENCE`] at most. A name that has just gone may be coming back (editors move the file away and
//! write it anew): it gets [`VANISHED`].
//!
//! Pure: the time is an argument.

use std::time::{Duration, Instant};

use drift_common::abi::Kind;

use super::decode::Decoded;

/// A writer that has written nothing for so long is not in the middle of something.
pub const QUIET: Duration = Duration::from_secs(1);
/// A writer that is first heard of may be gone at once, without a close that rings: what unmaps a file, or uses io_uring. Then a look tells so.
pub const GLANCE: Duration = Duration::from_millis(20);
/// A writer that never pauses is not waited for any longer.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long a name may be gone between the two halves of a save.
pub const VANISHED: Duration = Duration::from_millis(5);

/// When to look at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Now.
    No,
    /// Not before.
    Until(Instant),
}

/// One object's writers, as far as the doorbells tell.
#[derive(Clone, Debug, Default)]
pub struct Settle {
    writing: Option<Writing>,
}

#[derive(Clone, Copy, Debug)]
struct Writing {
    /// Thread group; 0: nobody has rung, but the file was found open for writing.
    by: u32,
    since: Instant,
    /// When it last rang.
    heard: Instant,
}

impl Settle {
    /// Somebody has the object open for writing.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Since when somebody has it open for writing.
    #[must_use]
    pub fn writing_since(&self) -> Option<Instant> {
        self.writing.map(|writing| writing.since)
    }

    /// Takes in one doorbell of the object.
    pub fn heard(&mut self, heard: &Decoded, now: Instant) -> Wait {
        match heard.kind {
            // Nobody's: the inode was made dirty, by a change of attributes or a read as well as by a write.
            Kind::Write if heard.event.tgid == 0 => Wait::Until(now + QUIET),
            Kind::Write => {
                let before = self.writing.replace(Writing {
                    by: heard.event.tgid,
                    since: self.writing.map_or(now, |writing| writing.since),
                    heard: now,
                });
                Wait::Until(match before {
                    Some(before) => (now + QUIET).min(before.since + PATIENCE),
                    None => now + GLANCE,
                })
            }
            Kind::Close => {
                if heard.event.writers == 0 {
                    self.writing = None;
                    Wait::No
                } else {
                    self.until_quiet(now)
                }
            }
            Kind::Replace | Kind::Remove | Kind::Create => {
                // Another inode stands there now, or none: who wrote to the old one does not matter.
                self.writing = None;
                Wait::No
            }
            Kind::Attr | Kind::Times => self.until_quiet(now),
            Kind::Open | Kind::Read | Kind::Exit | Kind::Mount => self.until_quiet(now),
        }
    }

    /// The file was read while so many had it open for writing. What was seen may be half of something: not to be judged before the time that is given.
    pub fn found_open(&mut self, writers: u32, now: Instant) -> Option<Instant> {
        if writers == 0 {
            self.writing = None;
            return None;
        }
        let writing = self.writing.get_or_insert(Writing {
            by: 0,
            since: now,
            heard: now,
        });
        let until = (writing.heard + QUIET).min(writing.since + PATIENCE);
        (now < until).then_some(until)
    }

    /// The process has ended; whether that ends a wait here.
    pub fn ended(&mut self, tgid: u32) -> bool {
        let waited = self.writing.is_some_and(|writing| writing.by == tgid);
        if waited {
            self.writing = None;
        }
        waited
    }

    /// The wait is over without a close: go on looking, when it was quiet for long enough, and from time to time after that, for the writer may write again unseen.
    #[must_use]
    pub fn look_again(&self, now: Instant) -> Option<Instant> {
        let quiet = self.writing?.heard + QUIET;
        Some(if now < quiet { quiet } else { now + PATIENCE })
    }

    fn until_quiet(&self, now: Instant) -> Wait {
        match self.writing {
            Some(writing) => Wait::Until((now + QUIET).min(writing.since + PATIENCE)),
            None => Wait::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use drift_common::abi::{Event, Key};

    use super::*;

    fn heard(kind: Kind, tgid: u32, writers: u32) -> Decoded {
        Decoded {
            kind,
            event: Event {
                time_ns: 0,
                start_ns: 0,
                cgroup: 0,
                parent_name: 0,
                key: Key {
                    ino: 0,
                    dev: 0,
                    generation: 0,
                },
                slot: 1,
                kind: kind as u32,
                tgid,
                tid: tgid,
                uid: 0,
                gid: 0,
                writers,
                _reserved: 0,
                comm: [0; 16],
            },
        }
    }

    #[test]
    fn a_complete_change_is_looked_at_now() {
        let now = Instant::now();
        for kind in [
            Kind::Close,
            Kind::Replace,
            Kind::Remove,
            Kind::Create,
            Kind::Attr,
        ] {
            assert_eq!(
                Settle::default().heard(&heard(kind, 7, 0), now),
                Wait::No,
                "{kind:?}"
            );
        }
    }

    #[test]
    fn a_writer_is_waited_for_until_it_closes() {
        let now = Instant::now();
        let mut settle = Settle::default();
        assert_eq!(
            settle.heard(&heard(Kind::Write, 7, 1), now),
            Wait::Until(now + GLANCE),
            "it may be gone at once"
        );
        assert_eq!(
            settle.heard(&heard(Kind::Write, 7, 1), now),
            Wait::Until(now + QUIET)
        );
        assert_eq!(settle.look_again(now), Some(now + QUIET));
        assert_eq!(settle.look_again(now + QUIET), Some(now + QUIET + PATIENCE));
        assert_eq!(
            settle.heard(&heard(Kind::Attr, 8, 0), now),
            Wait::Until(now + QUIET)
        );
        assert_eq!(
            settle.heard(&heard(Kind::Close, 9, 1), now),
            Wait::Until(now + QUIET),
            "one of two writers"
        );
        assert_eq!(settle.heard(&heard(Kind::Close, 7, 0), now), Wait::No);
        assert!(!settle.is_writing());
    }

    #[test]
    fn a_dirty_inode_alone_is_no_writer() {
        let now = Instant::now();
        let mut settle = Settle::default();
        assert_eq!(
            settle.heard(&heard(Kind::Write, 0, 0), now),
            Wait::Until(now + QUIET)
        );
        assert!(!settle.is_writing());
        assert_eq!(settle.heard(&heard(Kind::Attr, 7, 0), now), Wait::No);
    }

    #[test]
    fn a_writer_that_never_pauses_is_looked_at_all_the_same() {
        let start = Instant::now();
        let mut settle = Settle::default();
        let mut now = start;
        for _ in 0..100 {
            let Wait::Until(until) = settle.heard(&heard(Kind::Write, 7, 1), now) else {
                panic!("a writer is waited for");
            };
            assert!(until <= start + PATIENCE);
            now += Duration::from_millis(300);
        }
    }

    #[test]
    fn what_is_found_open_is_not_judged_before_it_was_quiet() {
        let now = Instant::now();
        let mut settle = Settle::default();
        assert_eq!(settle.found_open(0, now), None);
        assert_eq!(settle.found_open(1, now), Some(now + QUIET));
        assert_eq!(settle.found_open(1, now + QUIET), None, "it was quiet");
        assert_eq!(settle.found_open(0, now), None);
        assert!(!settle.is_writing());
    }

    #[test]
    fn a_writer_that_ends_without_closing_ends_the_wait() {
        let now = Instant::now();
        let mut settle = Settle::default();
        settle.heard(&heard(Kind::Write, 7, 1), now);
        assert!(!settle.ended(8));
        assert!(settle.ended(7));
        assert!(!settle.is_writing());
    }
}
