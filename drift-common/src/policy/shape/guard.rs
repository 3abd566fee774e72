//! What holds healing back.

use super::{Rule, Shape, Value, may, must};
use crate::policy::guard::{Days, MassDrift, WindowKind};

pub(crate) static GUARD: Shape = Shape {
    what: "a mapping",
    fields: &[
        may(
            "backoff",
            Value::Map(&BACKOFF),
            "How long a path is left alone after it was healed.",
        ),
        may(
            "perMinute",
            Value::Number(0, MAX_PER_MINUTE),
            "Heals of the policy's files in any minute on one node: 1000 by default, 0 for no bound.",
        ),
        may(
            "massDrift",
            words!(MassDrift),
            "When the first look finds more than half of the policy's files, and more than 20, drifted: hold (the default) or heal.",
        ),
        may(
            "fight",
            Value::Map(&FIGHT),
            "When a path is left alone because another program keeps changing it.",
        ),
        may(
            "windows",
            Value::List(&Value::Map(&WINDOW), 0, MAX_WINDOWS as u32),
            "When healing may happen, and when not.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

/// Windows of one policy.
pub(crate) const MAX_WINDOWS: usize = 64;

const CLOCK: Value = Value::Text("^([01][0-9]|2[0-3]):[0-5][0-9]$", 5);

pub(crate) static WINDOW: Shape = Shape {
    what: "a mapping with from and to",
    fields: &[
        may(
            "kind",
            words!(WindowKind),
            "allow (the default): healing happens in such windows alone. deny: never in this one.",
        ),
        may(
            "days",
            Value::List(
                &Value::Words(|| Days::NAMES.iter().map(|(word, _)| *word).collect()),
                0,
                16,
            ),
            "The days on which it begins; every day where that is not said.",
        ),
        must("from", CLOCK, "When it begins."),
        must(
            "to",
            CLOCK,
            "When it ends: on the next day, where that is not after from.",
        ),
        may(
            "timeZone",
            Value::Text("^[A-Za-z0-9_+/-]+$", 64),
            "As in Europe/Berlin; UTC where that is not said.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

/// Heals a minute: more than a disk can do.
pub(crate) const MAX_PER_MINUTE: u32 = 1_000_000;
/// Heals that are remembered of one path.
pub(crate) const MAX_HEALS: u32 = 100;

pub(crate) static FIGHT: Shape = Shape {
    what: "a mapping",
    fields: &[
        may(
            "heals",
            Value::Number(2, MAX_HEALS),
            "So many heals against the same program.",
        ),
        may("within", Value::Duration, "In so long a time."),
        may(
            "hold",
            Value::Duration,
            "Then the path is left alone for so long.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

pub(crate) static BACKOFF: Shape = Shape {
    what: "a mapping",
    fields: &[
        may("first", Value::Duration, "After the first heal."),
        may(
            "factor",
            Value::Number(1, 1000),
            "So many times longer after each further one.",
        ),
        may("cap", Value::Duration, "Never longer."),
    ],
    one_of: &[],
    rules: &[Rule {
        expression: "duration(has(self.first) ? self.first : '0s') <= duration(has(self.cap) ? self.cap : '300s')",
        message: "`first` is longer than `cap` (300s where it is not said): raise `cap` or lower `first`",
    }],
};
