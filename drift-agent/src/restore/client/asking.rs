//! One question, one answer; of the next restorer, where one ends meanwhile.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use super::{
    Restorer,
    at_work::{Unable, exchange},
};
use crate::{
    probe::Watch,
    restore::wire::{Answer, Kind, Request},
};

/// Restorers that are asked the same, one after the other.
pub(super) const TRIES: u32 = 3;

/// Of what comes back without a restorer.
pub(super) const NONE: &str = "no-restorer";

/// Kinds of reasons that are told apart.
const MOST_REASONS: usize = 256;

impl Restorer {
    /// As [`Self::ask`], of one that has what is declared.
    pub(super) fn ask_declared(
        &self,
        watch: Option<&Watch>,
        request: &Request,
        beside: &mut dyn FnMut(),
    ) -> Result<Answer, Unable> {
        self.declared();
        let mut is_last = false;
        loop {
            let process = self.inner().ready()?;
            if let Some(watch) = watch
                && let Err(error) = watch.restorer(process)
            {
                log::warn!(
                    "what the restorer does will be looked at as if somebody else did it: {error}"
                );
            }
            let answer = self.asks(request, TRIES, beside)?;
            let is_stale = matches!(
                &answer,
                Answer::Failed {
                    kind: Kind::Stale,
                    ..
                }
            );
            if is_last || !is_stale {
                return Ok(answer);
            }
            is_last = true;
            if let Some(at_work) = &mut self.inner().at_work {
                at_work.declared = None;
            }
        }
    }

    /// What happens once: a restorer that ends meanwhile may have done it.
    pub(super) fn ask_once(&self, request: &Request) -> Result<Answer, Unable> {
        self.declared();
        self.asks(request, 1, &mut || {})
    }

    /// One question, one answer. Asked again of the next restorer, where one ends meanwhile: each can be done twice without harm.
    pub(super) fn ask(&self, request: &Request) -> Result<Answer, Unable> {
        self.asks(request, TRIES, &mut || {})
    }

    /// `beside`: as for [`exchange`], once for each try.
    pub(super) fn asks(
        &self,
        request: &Request,
        tries: u32,
        beside: &mut dyn FnMut(),
    ) -> Result<Answer, Unable> {
        let mut why = String::new();
        for _ in 0..tries {
            let (mut connection, count) = {
                let mut inner = self.inner();
                // What a restorer is asked that has taken the place of another.
                inner.ready()?;
                inner.connection()?
            };
            let answer = exchange(&mut connection, request, beside);
            let mut inner = self.inner();
            if inner.count == count {
                match (&answer, &mut inner.at_work) {
                    (Ok(_), Some(at_work)) => at_work.free.push(connection),
                    (Ok(_), None) => {}
                    (Err(error), _) => inner.lost(error),
                }
            }
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => why = format!("the restorer has ended before it answered ({error})"),
            }
        }
        Err(Unable::gone(why))
    }
}

/// A reason as records have it: one of a set that is closed, for both ends are the same program.
pub(super) fn known(reason: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let is_one = !reason.is_empty()
        && reason.len() < 64
        && reason
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte.is_ascii_digit());
    if !is_one {
        return NONE;
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(reason) {
        return known;
    }
    if known.len() >= MOST_REASONS {
        return NONE;
    }
    // As many as there are reasons, once each.
    let reason: &'static str = Box::leak(reason.to_owned().into_boxed_str());
    known.insert(reason);
    reason
}
