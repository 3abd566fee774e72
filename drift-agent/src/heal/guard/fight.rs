//! Whether another program keeps putting a path back to something else: two healers, each of which is right to itself, never end.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use drift_common::escape;

use crate::{declare::Fight, report::Actor};

/// Whom a path was healed against. A program that is started anew for every change is one rival, so its process is not part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    program: Program,
    /// The newest process of it.
    pid: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Program {
    Known {
        comm: OsString,
        exe: Option<PathBuf>,
        uid: u32,
    },
    Unknown,
}

impl Rival {
    #[must_use]
    pub fn new(actor: Option<&Actor>) -> Self {
        match actor {
            Some(actor) => Self {
                program: Program::Known {
                    comm: actor.comm.clone(),
                    exe: actor.exe.clone(),
                    uid: actor.uid,
                },
                pid: Some(actor.pid),
            },
            None => Self {
                program: Program::Unknown,
                pid: None,
            },
        }
    }
}

impl Rival {
    fn is_known(&self) -> bool {
        matches!(self.program, Program::Known { .. })
    }

    /// It is not known to be another one.
    fn may_be(&self, other: &Self) -> bool {
        !self.is_known() || !other.is_known() || self.program == other.program
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Program::Unknown => f.write_str("a process that is not known"),
            Program::Known { comm, uid, .. } => {
                write!(
                    f,
                    "{} (pid {}, uid {uid})",
                    escape::printable(&comm.to_string_lossy()),
                    self.pid.unwrap_or_default()
                )
            }
        }
    }
}

/// A path that is fought over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contested {
    pub rival: Rival,
    pub until: Instant,
    /// Heals against the rival; what follows a hold that is over begins with none.
    pub heals: usize,
    pub within: Duration,
}

/// The heals of one path against the rival that it was healed against last.
#[derive(Clone, Debug, Default)]
pub struct Fights {
    rival: Option<Rival>,
    /// Oldest first, at most as many as make a fight.
    heals: VecDeque<Instant>,
    until: Option<Instant>,
    /// It was fought over before: the first heal that does not last is one too many.
    was_contested: bool,
}

impl Fights {
    /// Held since before a restart.
    #[must_use]
    pub fn resumed(until: Instant) -> Self {
        Self {
            until: Some(until),
            was_contested: true,
            ..Self::default()
        }
    }

    /// Until when the path is left alone, if it is.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// The path has drifted, `rival` did it: whether it may not be healed now.
    pub fn ask(&mut self, fight: Option<&Fight>, rival: &Rival, now: Instant) -> Option<Contested> {
        let fight = fight?;
        if let Some(until) = self.until {
            if now < until {
                return Some(self.contested(until, fight, rival));
            }
            // Over: one try.
            self.until = None;
            self.heals.clear();
            return None;
        }
        let was_healed = !self.heals.is_empty();
        while self
            .heals
            .front()
            .is_some_and(|heal| *heal + fight.within < now)
        {
            self.heals.pop_front();
        }
        if was_healed && self.heals.is_empty() {
            // Left in peace since.
            self.was_contested = false;
        }
        let same = self
            .rival
            .as_ref()
            .is_none_or(|before| before.may_be(rival));
        let most = if self.was_contested {
            1
        } else {
            fight.heals as usize
        };
        if same && self.heals.len() >= most {
            let until = now + fight.hold;
            self.until = Some(until);
            self.was_contested = true;
            return Some(self.contested(until, fight, rival));
        }
        None
    }

    fn contested(&self, until: Instant, fight: &Fight, rival: &Rival) -> Contested {
        let known = self.rival.as_ref().filter(|_| !rival.is_known());
        Contested {
            rival: known.unwrap_or(rival).clone(),
            until,
            heals: self.heals.len(),
            within: fight.within,
        }
    }

    /// The path was healed against this rival.
    pub fn healed(&mut self, fight: Option<&Fight>, rival: &Rival, now: Instant) {
        let Some(fight) = fight else {
            return;
        };
        if self
            .rival
            .as_ref()
            .is_some_and(|before| !before.may_be(rival))
        {
            self.heals.clear();
            self.was_contested = false;
        }
        // Who was not seen this time may be the one who was seen before.
        if rival.is_known() || self.rival.is_none() {
            self.rival = Some(rival.clone());
        }
        self.heals.push_back(now);
        while self.heals.len() > fight.heals as usize {
            self.heals.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGHT: Fight = Fight {
        heals: 3,
        within: Duration::from_secs(60),
        hold: Duration::from_secs(3600),
    };

    fn rival(comm: &str, pid: u32) -> Rival {
        Rival {
            program: Program::Known {
                comm: comm.into(),
                exe: None,
                uid: 0,
            },
            pid: Some(pid),
        }
    }

    /// Drifts every `pace`, each healed where that is allowed; the numbers of those that were.
    fn fought(
        fights: &mut Fights,
        pace: Duration,
        drifts: u32,
        who: impl Fn(u32) -> Rival,
    ) -> Vec<u32> {
        let start = Instant::now();
        let mut healed = Vec::new();
        for drift in 0..drifts {
            let now = start + pace * drift;
            let rival = who(drift);
            if fights.ask(Some(&FIGHT), &rival, now).is_none() {
                fights.healed(Some(&FIGHT), &rival, now);
                healed.push(drift);
            }
        }
        healed
    }

    #[test]
    fn a_rival_ends_healing_after_so_many_heals_whatever_its_process() {
        let mut fights = Fights::default();
        let healed = fought(&mut fights, Duration::from_millis(100), 6000, |drift| {
            rival("puppet", drift)
        });
        assert_eq!(healed, [0, 1, 2]);
    }

    #[test]
    fn who_is_not_always_seen_is_a_rival_all_the_same() {
        let mut fights = Fights::default();
        let healed = fought(&mut fights, Duration::from_millis(100), 100, |drift| {
            if drift % 2 == 1 {
                Rival::new(None)
            } else {
                rival("puppet", drift)
            }
        });
        assert_eq!(healed, [0, 1, 2]);
        let now = Instant::now();
        let contested = fights.ask(Some(&FIGHT), &Rival::new(None), now);
        let named = contested.expect("held").rival.to_string();
        assert_eq!(named, "puppet (pid 2, uid 0)");
    }

    #[test]
    fn after_the_hold_it_is_tried_once() {
        let mut fights = Fights::default();
        let healed = fought(&mut fights, Duration::from_secs(10), 1000, |_| {
            rival("puppet", 1)
        });
        // 3 heals, an hour from the fourth drift on, one heal, an hour from the next drift on.
        assert_eq!(healed, [0, 1, 2, 363, 724]);
    }

    #[test]
    fn several_programs_and_rare_changes_are_no_fight() {
        let by_turns = fought(
            &mut Fights::default(),
            Duration::from_secs(1),
            50,
            |drift| rival(if drift % 2 == 0 { "vim" } else { "sed" }, drift),
        );
        assert_eq!(by_turns.len(), 50);
        let rare = fought(&mut Fights::default(), Duration::from_secs(31), 50, |_| {
            rival("cron", 1)
        });
        assert_eq!(rare.len(), 50);
    }

    #[test]
    fn who_was_left_in_peace_has_all_heals_again() {
        let mut fights = Fights::default();
        let start = Instant::now();
        let who = rival("puppet", 1);
        for second in 0..4 {
            let now = start + Duration::from_secs(second);
            if fights.ask(Some(&FIGHT), &who, now).is_none() {
                fights.healed(Some(&FIGHT), &who, now);
            }
        }
        assert!(fights.until().is_some());
        let healed = |fights: &mut Fights, at: u64| {
            let now = start + Duration::from_secs(at);
            let held = fights.ask(Some(&FIGHT), &who, now).is_some();
            if !held {
                fights.healed(Some(&FIGHT), &who, now);
            }
            !held
        };
        assert!(!healed(&mut fights, 100));
        assert!(healed(&mut fights, 3700));
        for second in 0..3 {
            assert!(healed(&mut fights, 8000 + second), "{second}");
        }
        assert!(!healed(&mut fights, 8003));
    }

    #[test]
    fn a_restart_does_not_release_it() {
        let now = Instant::now();
        let until = now + Duration::from_secs(10);
        let mut fights = Fights::resumed(until);
        let who = rival("puppet", 1);
        assert!(fights.ask(Some(&FIGHT), &who, now).is_some());
        assert!(fights.ask(Some(&FIGHT), &who, until).is_none());
        fights.healed(Some(&FIGHT), &who, until);
        assert!(fights.ask(Some(&FIGHT), &who, until).is_some());
    }

    #[test]
    fn where_it_is_switched_off_nothing_is_held() {
        let mut fights = Fights::default();
        let who = Rival::new(None);
        for _ in 0..100 {
            assert_eq!(fights.ask(None, &who, Instant::now()), None);
            fights.healed(None, &who, Instant::now());
        }
    }
}
