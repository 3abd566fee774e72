//! Whether the first look at a policy finds most of it drifted. Then nobody has changed a thousand files: the policy is wrong, or it is on the wrong node.

/// So few may all be drifted.
const FEW: usize = 20;

/// What the first look at a policy has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MassVerdict {
    /// Not all of its paths were looked at: nothing is healed before.
    Counting,
    Held,
    Go,
}

/// The first look at one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mass {
    paths: usize,
    waiting: usize,
    drifted: usize,
    verdict: MassVerdict,
}

impl Mass {
    /// A policy whose first look is over, or does not matter.
    pub const OVER: Mass = Mass {
        paths: 0,
        waiting: 0,
        drifted: 0,
        verdict: MassVerdict::Go,
    };

    /// So many paths of the policy are to be healed when they drift, and none of them was looked at.
    #[must_use]
    pub fn new(paths: usize) -> Self {
        if paths <= FEW {
            return Self::OVER;
        }
        Self {
            paths,
            waiting: paths,
            drifted: 0,
            verdict: MassVerdict::Counting,
        }
    }

    /// One of its paths was looked at for the first time. True when that ends the first look.
    pub fn seen(&mut self, drifted: bool) -> bool {
        if self.verdict != MassVerdict::Counting {
            return false;
        }
        self.waiting = self.waiting.saturating_sub(1);
        self.drifted += usize::from(drifted);
        let few = |drifted: usize| drifted <= FEW || drifted * 2 <= self.paths;
        if few(self.drifted + self.waiting) {
            // Whatever the rest comes to.
            self.verdict = MassVerdict::Go;
        } else if self.waiting == 0 {
            self.verdict = MassVerdict::Held;
        }
        self.verdict != MassVerdict::Counting
    }

    #[must_use]
    pub fn verdict(&self) -> MassVerdict {
        self.verdict
    }

    /// Drifted, of so many.
    #[must_use]
    pub fn figures(&self) -> (usize, usize) {
        (self.drifted, self.paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(paths: usize, drifted: usize) -> MassVerdict {
        let mut mass = Mass::new(paths);
        // The drifted ones first: what is healed before all was seen cannot be taken back.
        for path in 0..paths {
            if mass.verdict() != MassVerdict::Counting {
                break;
            }
            mass.seen(path < drifted);
        }
        mass.verdict()
    }

    #[test]
    fn more_than_half_and_more_than_twenty_are_held() {
        for (paths, drifted, expected) in [
            (20, 20, MassVerdict::Go),
            (21, 21, MassVerdict::Held),
            (21, 20, MassVerdict::Go),
            (40, 20, MassVerdict::Go),
            (41, 21, MassVerdict::Held),
            (100, 50, MassVerdict::Go),
            (100, 51, MassVerdict::Held),
            (1000, 0, MassVerdict::Go),
            (0, 0, MassVerdict::Go),
        ] {
            assert_eq!(look(paths, drifted), expected, "{drifted} of {paths}");
        }
    }

    #[test]
    fn nothing_is_decided_while_it_could_still_be_too_much() {
        let mut mass = Mass::new(100);
        for _ in 0..49 {
            assert!(!mass.seen(false));
            assert_eq!(mass.verdict(), MassVerdict::Counting);
        }
        assert!(mass.seen(false), "at most fifty are left");
        assert_eq!(mass.verdict(), MassVerdict::Go);
        assert!(!mass.seen(true), "told once");
    }
}
