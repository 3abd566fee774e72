//! Why something is not done.

use crate::restore::wire::{Answer, Kind};

/// Why something is not done.
pub(super) struct Refusal {
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) kind: Kind,
}

impl Refusal {
    pub(super) fn new(kind: Kind, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            kind,
        }
    }

    pub(super) fn stale(message: impl Into<String>) -> Self {
        Self::new(Kind::Stale, "stale-declaration", message)
    }

    /// What an honest detector never asks for.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        let message = message.into();
        log::warn!("the detecting process asked for what is refused: {message}");
        Self::new(Kind::Refused, "refused", message)
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::Failed {
            reason: refusal.reason.to_owned(),
            message: refusal.message,
            kind: refusal.kind,
        }
    }
}
