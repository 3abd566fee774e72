//! What to do on drift, and what holds healing back.

use std::{fmt, num::NonZero, time::Duration};

use super::source::Spanned;

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

/// What is kept of what healing takes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing.
    None,
    /// The content of files, with who has made it so and when.
    #[default]
    Content,
    /// That, and the files themselves, where they can be moved.
    Inode,
}

impl Evidence {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 3] = [
        ("none", Self::None),
        ("content", Self::Content),
        ("inode", Self::Inode),
    ];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Content => "content",
            Self::Inode => "inode",
        }
    }
}

/// What holds healing back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    pub backoff: Backoff,
    /// Heals of the policy's files in any minute on one node; `None`: as many as there are drifts. An activation of a version is no drift, and not counted.
    pub per_minute: Option<NonZero<u32>>,
    pub mass_drift: MassDrift,
    /// `None`: what another process does is not held against it.
    pub fight: Option<Fight>,
    /// When healing may happen, and when not. None: always.
    pub windows: Vec<Window>,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            per_minute: NonZero::new(1000),
            mass_drift: MassDrift::default(),
            fight: Some(Fight::default()),
            windows: Vec::new(),
        }
    }
}

/// A time that comes again each week: healing happens in it alone, or does not happen in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub kind: WindowKind,
    /// The days on which it begins.
    pub days: Days,
    pub from: ClockTime,
    /// Not after `from`: on the next day.
    pub to: ClockTime,
    /// As the time zone database calls it. Whether a machine knows it is found out there.
    pub zone: Spanned<String>,
}

/// What a window is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowKind {
    /// Healing may happen in it. Where a policy has such windows, at no other time.
    #[default]
    Allow,
    /// Healing may not happen in it, whatever other windows say.
    Deny,
}

impl WindowKind {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 2] = [("allow", Self::Allow), ("deny", Self::Deny)];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// Days of the week; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days(u8);

impl Days {
    /// Each day with the word for it, by its place in the week, from Monday on.
    pub const NAMES: [(&'static str, usize); 7] = [
        ("mon", 0),
        ("tue", 1),
        ("wed", 2),
        ("thu", 3),
        ("fri", 4),
        ("sat", 5),
        ("sun", 6),
    ];
    /// Every day.
    pub const ALL: Self = Self(0x7f);

    /// These days, by their places in the week. `None`: there are none, or one is none.
    #[must_use]
    pub fn of(days: impl IntoIterator<Item = usize>) -> Option<Self> {
        let mut bits = 0_u8;
        for day in days {
            bits |= (day < 7).then_some(1 << day)?;
        }
        (bits != 0).then_some(Self(bits))
    }

    /// Whether a day is among them.
    #[must_use]
    pub const fn has(self, day: usize) -> bool {
        day < 7 && self.0 & (1 << day) != 0
    }

    /// The words of those that are among them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = Self::NAMES.iter();
        all.filter(move |(_, day)| self.has(*day))
            .map(|(name, _)| *name)
    }
}

/// A time of day, to the minute, as clocks on walls show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockTime {
    hour: u8,
    minute: u8,
}

impl ClockTime {
    /// `None`: no clock shows that.
    #[must_use]
    pub const fn new(hour: u8, minute: u8) -> Option<Self> {
        if hour < 24 && minute < 60 {
            Some(Self { hour, minute })
        } else {
            None
        }
    }

    #[must_use]
    pub const fn hour(self) -> u8 {
        self.hour
    }

    #[must_use]
    pub const fn minute(self) -> u8 {
        self.minute
    }
}

impl fmt::Display for ClockTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.hour, self.minute)
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
