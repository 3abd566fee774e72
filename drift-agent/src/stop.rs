//! What people hold healing back with: the kill switch, the break-glass file, pauses, and the windows of a policy (docs/brakes.md).
//!
//! Observing goes on in all of them. They are asked in this order, and the first that holds is the one that is told.

mod file;
mod window;

pub use file::{BREAK_GLASS, Files, Found};
pub use window::{Open, windows};

use std::time::SystemTime;

use drift_common::escape::printable;

use crate::{declare::ActivePolicy, serve::rfc3339, store::Pauses};

/// Why nothing of a policy is healed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub kind: Kind,
    /// A sentence, without a full stop.
    pub message: String,
    /// When it ends by itself.
    pub until: Option<SystemTime>,
}

/// The kinds, in the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    KillSwitch,
    BreakGlass,
    Paused,
    Window,
}

impl Kind {
    /// Every one.
    pub const ALL: [Kind; 4] = [
        Kind::KillSwitch,
        Kind::BreakGlass,
        Kind::Paused,
        Kind::Window,
    ];

    /// The reason in records.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Kind::KillSwitch => "kill-switch",
            Kind::BreakGlass => "break-glass",
            Kind::Paused => "paused",
            Kind::Window => "outside-window",
        }
    }

    /// Whether who asks for another version by hand is stopped, too. A pause and a window are for what happens by itself.
    #[must_use]
    pub const fn stops_people(self) -> bool {
        match self {
            Kind::KillSwitch | Kind::BreakGlass => true,
            Kind::Paused | Kind::Window => false,
        }
    }
}

/// What there is of them at one moment, but for windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    pub files: Found,
    pub pauses: Pauses,
}

impl Stops {
    /// What stops all policies.
    #[must_use]
    pub fn of_all(&self, now: SystemTime) -> Option<Stop> {
        self.files.stop(now).or_else(|| self.paused(None, now))
    }

    /// What stops a policy.
    #[must_use]
    pub fn of(&self, policy: &ActivePolicy, now: SystemTime) -> Option<Stop> {
        self.of_policy(&policy.name, now)
            .or_else(|| closed(policy, now))
    }

    /// What stops a policy of which nothing but its name is known: its windows are not.
    #[must_use]
    pub fn of_policy(&self, policy: &str, now: SystemTime) -> Option<Stop> {
        self.of_all(now).or_else(|| self.paused(Some(policy), now))
    }

    fn paused(&self, policy: Option<&str>, now: SystemTime) -> Option<Stop> {
        let pause = match policy {
            None => self.pauses.all.as_ref(),
            Some(policy) => self.pauses.policies.get(policy),
        };
        let pause = pause.filter(|pause| pause.holds(now))?;
        let what = match policy {
            None => "all healing",
            Some(_) => "healing of this policy",
        };
        let until = match pause.until {
            Some(until) => format!("until {}", rfc3339(until)),
            None => "until `drift-agent resume`".to_owned(),
        };
        Some(Stop {
            kind: Kind::Paused,
            message: format!(
                "{what} is paused {until} by {}: {}",
                printable(&pause.by),
                printable(&pause.reason)
            ),
            until: pause.until,
        })
    }
}

/// What its windows say of a policy.
fn closed(policy: &ActivePolicy, now: SystemTime) -> Option<Stop> {
    let Open::Closed { until } = windows(&policy.guard.windows, now) else {
        return None;
    };
    let until_text = match until {
        Some(until) => format!("until {}", rfc3339(until)),
        None => "for the next eight days at least".to_owned(),
    };
    Some(Stop {
        kind: Kind::Window,
        message: format!("the policy heals at other times: not {until_text} (guard.windows)"),
        until,
    })
}
