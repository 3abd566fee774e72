//! What to do on drift, and what holds healing back.

use std::{fmt, num::NonZero, time::Duration};

/// What to do on drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Report only.
    #[default]
    Observe,
    /// Report and put the declared state back.
    Heal,
}

impl Mode {
    /// Each with the word for it, in policies and on the command line.
    pub const ALL: [(&'static str, Self); 2] = [("observe", Self::Observe), ("heal", Self::Heal)];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Heal => "heal",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What becomes of a path that another version no longer declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRemove {
    /// It stays as it is, and nobody watches it any more.
    #[default]
    Leave,
    /// It is removed with the change of versions; of directories, those that are empty.
    Remove,
}

impl OnRemove {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 2] = [("leave", Self::Leave), ("remove", Self::Remove)];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leave => "leave",
            Self::Remove => "remove",
        }
    }
}

/// What holds healing back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    pub backoff: Backoff,
    /// Heals of the policy's files in any minute on one node; `None`: as many as there are drifts. An activation of a version is no drift, and not counted.
    pub per_minute: Option<NonZero<u32>>,
    pub mass_drift: MassDrift,
    /// `None`: what another process does is not held against it.
    pub fight: Option<Fight>,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            per_minute: NonZero::new(1000),
            mass_drift: MassDrift::default(),
            fight: Some(Fight::default()),
        }
    }
}

/// What to do when the first look at a policy finds most of what it declares otherwise: then it is rather the policy that is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MassDrift {
    /// Heal nothing of the policy, and say so.
    #[default]
    Hold,
    /// Heal all the same.
    Heal,
}

impl MassDrift {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 2] = [("hold", Self::Hold), ("heal", Self::Heal)];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Heal => "heal",
        }
    }
}

/// When a path counts as fought over: it was healed `heals` times `within` that time against the same program, and drifts again. Then it is left alone for
/// `hold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fight {
    /// At least 2.
    pub heals: u32,
    pub within: Duration,
    pub hold: Duration,
}

impl Default for Fight {
    fn default() -> Self {
        Self {
            heals: 4,
            within: Duration::from_secs(60),
            hold: Duration::from_secs(3600),
        }
    }
}

/// How long a path is left alone after it was healed, when it drifts again: `first`, then `factor` times longer each time, at most `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Zero: no waiting at all. Not longer than `cap`.
    pub first: Duration,
    /// At least 1.
    pub factor: u32,
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(2),
            factor: 3,
            cap: Duration::from_secs(300),
        }
    }
}
