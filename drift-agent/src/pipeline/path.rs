//! What the pipeline remembers of one declared path.

use std::time::Instant;

use drift_common::abi::{Kind, SWEEP_SLOT};

use crate::{
    compare::{Drift, attribute},
    declare::{Declared, Flags},
    heal::{self, Brake, Fights, Rival},
    observe::{Decoded, Found, Reading, Settle, Stat},
    report::{Actor, Cause, FileType},
};

use super::{rest::Rest, work::Looked};

/// Whether a look is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queued {
    #[default]
    No,
    /// By the periodic scan, which has time.
    Patiently,
    Urgently,
}

/// One path's state. Nothing here is a baseline: every verdict comes from comparing with the declaration.
#[derive(Debug, Default)]
pub struct PathState {
    /// As last seen; says only whether something has happened since.
    pub stat: Option<Stat>,
    /// Looked at at least once.
    pub looked: bool,
    /// The look at everything that is under way waits for it.
    pub awaited: bool,
    pub settle: Settle,
    /// Why it is to be looked at, while that has not begun.
    pub why: Option<Why>,
    pub queued: Queued,
    /// A job for it is under way, and why.
    pub busy: Option<Why>,
    /// Looks in a row that a change has overtaken.
    pub overtaken: u32,
    /// Changes that the kernel half had counted when it was last seen.
    pub changes: Option<u64>,
    /// Who changes it all the time makes it rest between looks.
    pub rest: Rest,
    pub drift: Option<Ongoing>,
    pub brake: Brake,
    pub fights: Fights,
    /// The first look at its policy has counted it.
    pub counted: bool,
}

impl PathState {
    /// It is to be looked at again, for the same reason and what has come up meanwhile.
    pub fn wait_for(&mut self, why: Why) {
        self.why = Some(match self.why.take() {
            Some(later) => why.join(later),
            None => why,
        });
    }

    /// Whether something stood in the way of the path when it was last looked at. Then there are no times to tell that this has changed.
    pub fn is_relocated(&self) -> bool {
        let drift = self.drift.as_ref();
        drift.is_some_and(|drift| drift.drifts.contains(&Drift::Relocated))
    }
}

/// What made the pipeline look.
#[derive(Clone, Debug)]
pub struct Why {
    pub cause: Cause,
    /// The newest doorbell.
    pub heard: Option<Decoded>,
    /// The doorbell's process is known to have acted on this very path.
    pub certain: bool,
    /// Several processes have completed a change since the last look: of what is seen, nobody knows whose it is.
    pub several: bool,
    /// Why there is no doorbell, where one would be expected.
    pub unheard: &'static str,
}

impl Why {
    pub fn without_doorbell(cause: Cause, unheard: &'static str) -> Why {
        Why {
            cause,
            heard: None,
            certain: false,
            several: false,
            unheard,
        }
    }

    /// From a doorbell.
    pub fn doorbell(heard: &Decoded, certain: bool) -> Why {
        Why {
            cause: Cause::Kernel,
            heard: Some(*heard),
            certain,
            several: false,
            unheard: "",
        }
    }

    /// A later reason joins an earlier one that has not been answered: the kernel's word counts more than a scan's, a certain actor more than an uncertain
    /// one, and the newer of two equals made the state that will be seen.
    pub fn join(self, later: Why) -> Why {
        // What has rung for this very path says more than what asked for a look at everything, or set times.
        if self.is_own() && !later.is_own() && later.is_by_the_way() {
            return self.and_times(&later);
        }
        if later.is_own() && !self.is_own() && self.is_by_the_way() {
            return later;
        }
        // A name that was given or taken away makes what came before it on that name the past.
        let afresh = later.certain
            && later
                .heard
                .as_ref()
                .is_some_and(|heard| is_about_the_name(heard.kind));
        // What may have been about another path says nothing of how many have changed this one.
        let counts = |one: &Why, other: &Why| one.several && (one.certain || !other.certain);
        let several = counts(&later, &self)
            || !afresh
                && (counts(&self, &later)
                    || match (&self.heard, &later.heard) {
                        (Some(one), Some(other)) => {
                            self.certain
                                && later.certain
                                && is_complete(one.kind)
                                && is_complete(other.kind)
                                && one.event.tgid != other.event.tgid
                        }
                        _ => false,
                    });
        // Of two that may have been about another path, the older: it was changed at least so long ago.
        let keep = self.heard.is_some() && (later.heard.is_none() || !later.certain);
        Why {
            several,
            ..if keep { self } else { later }
        }
    }
}

impl Why {
    /// Somebody has acted on this path, and on what is declared of it.
    fn is_own(&self) -> bool {
        self.certain && self.heard.is_some() && !self.is_by_the_way()
    }

    /// It tells of no change of this path by itself.
    fn is_by_the_way(&self) -> bool {
        self.heard
            .as_ref()
            .is_some_and(|heard| heard.event.slot == SWEEP_SLOT || heard.kind == Kind::Times)
    }

    /// Who has changed it has set its times after that: what is seen then is still his.
    fn and_times(mut self, later: &Why) -> Why {
        if let (Some(own), Some(times)) = (&mut self.heard, &later.heard)
            && times.kind == Kind::Times
            && (own.event.tgid, own.event.start_ns) == (times.event.tgid, times.event.start_ns)
        {
            own.event.time_ns = own.event.time_ns.max(times.event.time_ns);
        }
        self
    }
}

/// Whether the doorbell tells that something else, or nothing, stands at the name now.
fn is_about_the_name(kind: Kind) -> bool {
    match kind {
        Kind::Replace | Kind::Remove | Kind::Create => true,
        Kind::Open
        | Kind::Read
        | Kind::Write
        | Kind::Close
        | Kind::Attr
        | Kind::Exit
        | Kind::Mount
        | Kind::Times => false,
    }
}

/// Whether the doorbell tells of a change that is over.
fn is_complete(kind: Kind) -> bool {
    match kind {
        Kind::Close | Kind::Replace | Kind::Remove | Kind::Create | Kind::Attr | Kind::Mount => {
            true
        }
        // Who sets times has changed nothing that is declared.
        Kind::Open | Kind::Read | Kind::Write | Kind::Exit | Kind::Times => false,
    }
}

/// A drift that has been reported and is not over.
#[derive(Clone, Debug)]
pub struct Ongoing {
    /// What was reported.
    pub print: Fingerprint,
    pub drifts: Vec<Drift>,
    pub cause: Cause,
    pub detected: Instant,
    /// When it was changed, as far as known, nanoseconds since boot.
    pub since_ns: u64,
    /// The reason that healing was held back for, once told.
    pub told: Option<&'static str>,
    /// Heals that failed in a row.
    pub failures: u32,
    /// What stood there after heals that were written, and how many in a row it was that.
    pub stuck: Option<(Fingerprint, u32)>,
    /// Who has made it drift, as far as known.
    pub rival: Rival,
    /// As it was told.
    pub actor: Option<Result<Actor, String>>,
    /// Who has read the wrong content.
    pub readers: Vec<String>,
}

/// Heals that were written and did not last until they were read again, with the same thing there each time.
const MOST_DIVERGED: u32 = 2;

impl Ongoing {
    /// The path is not as declared. (A file that says the same in another way is told, and is as declared.)
    pub fn matters(&self) -> bool {
        self.drifts != [Drift::ContentEquivalent]
    }

    /// What of it the policy wants to be put back.
    pub fn healable(&self, declared: &Declared) -> Vec<Drift> {
        heal::healable(declared, &self.drifts, self.print.out_of_reach())
    }

    /// A heal was written, and this was read: whether that is no use, as it was the time before.
    pub fn diverges(&mut self, declared: &Declared, looked: &Looked) -> bool {
        let print = Fingerprint::new(declared, looked);
        let times = match self.stuck.take() {
            Some((before, times)) if before == print => times.saturating_add(1),
            _ => 1,
        };
        self.stuck = Some((print, times));
        times >= MOST_DIVERGED
    }

    /// Healing it is no use while this stands there.
    pub fn is_stuck(&self) -> bool {
        let stuck = self.stuck.as_ref();
        stuck.is_some_and(|(print, times)| *times >= MOST_DIVERGED && *print == self.print)
    }
}

/// Two looks with one fingerprint are one drift, told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    drifts: Vec<Drift>,
    face: Option<blake3::Hash>,
    found: Found,
    file_type: Option<FileType>,
    mode: Option<u32>,
    owner: Option<(u32, u32)>,
    size: Option<u64>,
    /// Where it may have no other name.
    links: Option<u32>,
    flags: Option<Flags>,
    attributes: Vec<Reading>,
    out_of_reach: bool,
}

impl Fingerprint {
    /// What stood there.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Whether what differs in its attributes is what its file system does not have.
    pub fn out_of_reach(&self) -> bool {
        self.out_of_reach
    }

    pub fn new(declared: &Declared, looked: &Looked) -> Fingerprint {
        let (drifts, observed) = (&looked.drifts, &looked.observed);
        let stat = observed.stat.as_ref();
        // Where the differences are known one by one, all else in the file is of no account.
        let bytes = looked.face.is_none();
        Fingerprint {
            drifts: looked.drifts.clone(),
            face: looked.face,
            found: match &looked.observed.found {
                Found::File(digest) => Found::File(digest.filter(|_| bytes)),
                found => found.clone(),
            },
            file_type: stat.map(|stat| stat.file_type),
            mode: stat.map(|stat| stat.mode),
            owner: stat.map(|stat| (stat.uid, stat.gid)),
            // Of a directory it says how its file system keeps names.
            size: stat
                .filter(|stat| stat.file_type == FileType::File && bytes)
                .map(|stat| stat.size),
            links: stat
                .filter(|_| drifts.contains(&Drift::Hardlinked))
                .map(|stat| stat.links),
            flags: stat.and_then(|stat| stat.flags),
            attributes: observed.attributes.clone(),
            out_of_reach: attribute::out_of_reach(declared, observed),
        }
    }
}

impl PathState {
    /// The same path in a new snapshot that declares it as before: jobs and doorbells of the old one are over.
    pub fn carried_over(self) -> PathState {
        PathState {
            why: None,
            busy: None,
            queued: Queued::No,
            overtaken: 0,
            settle: Settle::default(),
            changes: None,
            rest: Rest::default(),
            counted: false,
            ..self
        }
    }

    /// The same path in a new snapshot that declares it otherwise, under the same version: only the brake goes on.
    pub fn brake_only(self) -> PathState {
        PathState {
            brake: self.brake,
            fights: self.fights,
            ..PathState::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use drift_common::abi::{Event, Key};

    use super::*;
    use crate::{
        declare::sample,
        observe::{Known, Observed},
    };

    fn heard(tgid: u32, certain: bool) -> Why {
        heard_of(Kind::Close, tgid, certain)
    }

    fn heard_of(kind: Kind, tgid: u32, certain: bool) -> Why {
        Why {
            cause: Cause::Kernel,
            heard: Some(Decoded {
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
                    slot: 7,
                    kind: kind as u32,
                    tgid,
                    tid: tgid,
                    uid: 0,
                    gid: 0,
                    writers: 0,
                    _reserved: 0,
                    comm: [0; 16],
                },
            }),
            certain,
            several: false,
            unheard: "",
        }
    }

    fn actor(why: &Why) -> Option<u32> {
        why.heard.as_ref().map(|heard| heard.event.tgid)
    }

    #[test]
    fn the_newest_certain_doorbell_names_the_actor() {
        let scan = || Why::without_doorbell(Cause::Scan, "scan");
        for (first, second, expected) in [
            (scan(), heard(1, true), Some(1)),
            (heard(1, true), scan(), Some(1)),
            (heard(1, true), heard(2, true), Some(2)),
            (heard(1, true), heard(2, false), Some(1)),
            (heard(1, false), heard(2, false), Some(1)),
            (heard(1, false), heard(2, true), Some(2)),
            (scan(), scan(), None),
        ] {
            assert_eq!(actor(&first.join(second)), expected);
        }
    }

    #[test]
    fn of_two_processes_that_completed_a_change_neither_is_named() {
        assert!(heard(1, true).join(heard(2, true)).several);
        assert!(!heard(1, true).join(heard(1, true)).several);
        assert!(
            heard(1, true)
                .join(heard(2, true))
                .join(heard(2, true))
                .several
        );
    }

    #[test]
    fn who_puts_something_else_in_place_is_named_alone() {
        let replaced = heard(1, true).join(heard_of(Kind::Replace, 2, true));
        assert!(!replaced.several);
        assert_eq!(actor(&replaced), Some(2));
        assert!(replaced.join(heard_of(Kind::Attr, 3, true)).several);
        // Not where the call may have meant another directory.
        assert_eq!(
            actor(&heard(1, true).join(heard_of(Kind::Replace, 2, false))),
            Some(1)
        );
    }

    #[test]
    fn a_heal_that_twice_came_to_the_same_other_thing_is_no_use() {
        let declared = sample::declared("/etc/a", sample::file(b"0"));
        let looked = |content: &[u8]| {
            let observed = Observed {
                found: Found::File(Some(blake3::hash(content))),
                body: None,
                lines: None,
                held: None,
                stat: None,
                attributes: Default::default(),
                known: Known::default(),
                writers: 0,
                on_top: None,
            };
            Looked::of(&declared, observed)
        };
        let mut ongoing = Ongoing {
            print: Fingerprint::new(&declared, &looked(b"1")),
            drifts: vec![Drift::Content],
            cause: Cause::Kernel,
            detected: Instant::now(),
            since_ns: 0,
            told: None,
            failures: 0,
            stuck: None,
            rival: Rival::new(None),
            actor: None,
            readers: Vec::new(),
        };
        assert!(!ongoing.diverges(&declared, &looked(b"1")));
        assert!(!ongoing.diverges(&declared, &looked(b"2")), "another thing");
        assert!(!ongoing.is_stuck());
        assert!(ongoing.diverges(&declared, &looked(b"2")));
        assert!(
            !ongoing.is_stuck(),
            "what stands there now is another thing"
        );
        ongoing.print = Fingerprint::new(&declared, &looked(b"2"));
        assert!(ongoing.is_stuck());
    }
}
