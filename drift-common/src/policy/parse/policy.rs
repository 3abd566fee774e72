//! The spec of a `Policy`.

use std::num::NonZero;

use semver::Version;

use super::{rollout, scalar};
use crate::policy::{
    Backoff, Fight, Guard, MassDrift, Mode, NodeSelector, OnRemove, Policy, Rollout,
    decode::{Cursor, Decoder},
    shape::{self, MAX_HEALS, MAX_PER_MINUTE},
    source::Spanned,
};

pub(super) struct Spec {
    active_version: Spanned<Version>,
    mode: Mode,
    on_remove: OnRemove,
    guard: Guard,
    node_selector: NodeSelector,
    rollout: Option<Rollout>,
}

impl Spec {
    pub(super) fn named(self, name: Spanned<String>) -> Policy {
        let Self {
            active_version,
            mode,
            on_remove,
            guard,
            node_selector,
            rollout,
        } = self;
        Policy {
            name,
            active_version,
            mode,
            on_remove,
            guard,
            node_selector,
            rollout,
        }
    }
}

pub(super) fn spec(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spec> {
    let mut fields = decoder.shaped(cursor, &shape::POLICY)?;
    let active_version = fields.required(decoder, "activeVersion", scalar::version);
    let mode = fields.optional(decoder, "mode", |decoder, mode| {
        decoder.word(mode, "mode", &Mode::ALL)
    });
    let on_remove = fields.optional(decoder, "onRemove", |decoder, rule| {
        decoder.word(rule, "rule", &OnRemove::ALL)
    });
    let guard = fields.optional(decoder, "guard", guard);
    let node_selector = fields.optional(decoder, "nodeSelector", rollout::node_selector);
    let rollout = fields.optional(decoder, "rollout", rollout::rollout);
    fields.end(decoder);
    Some(Spec {
        active_version: active_version?,
        mode: mode.unwrap_or_default(),
        on_remove: on_remove.unwrap_or_default(),
        guard: guard.unwrap_or_default(),
        node_selector: node_selector.unwrap_or_default(),
        rollout,
    })
}

fn guard(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Guard> {
    let mut fields = decoder.shaped(cursor, &shape::GUARD)?;
    let default = Guard::default();
    let backoff = fields.optional(decoder, "backoff", backoff);
    let per_minute = fields.optional(decoder, "perMinute", |decoder, number| {
        scalar::whole_number(decoder, number, 0, MAX_PER_MINUTE)
    });
    let mass_drift = fields.optional(decoder, "massDrift", |decoder, word| {
        decoder.word(word, "massDrift", &MassDrift::ALL)
    });
    let fight = fields.optional(decoder, "fight", fight);
    fields.end(decoder);
    let backoff = backoff.unwrap_or_default();
    Some(Guard {
        // Who asks for no waiting at all wants none after a few heals either.
        fight: fight.or(default.fight.filter(|_| !backoff.first.is_zero())),
        backoff,
        per_minute: per_minute.map_or(default.per_minute, NonZero::new),
        mass_drift: mass_drift.unwrap_or_default(),
    })
}

fn fight(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Fight> {
    let default = Fight::default();
    let mut fields = decoder.shaped(cursor, &shape::FIGHT)?;
    let heals = fields.optional(decoder, "heals", |decoder, heals| {
        scalar::whole_number(decoder, heals, 2, MAX_HEALS)
    });
    let within = fields.optional(decoder, "within", scalar::duration);
    let hold = fields.optional(decoder, "hold", scalar::duration);
    fields.end(decoder);
    Some(Fight {
        heals: heals.unwrap_or(default.heals),
        within: within.unwrap_or(default.within),
        hold: hold.unwrap_or(default.hold),
    })
}

fn backoff(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Backoff> {
    const MAX_FACTOR: u32 = 1000;
    let default = Backoff::default();
    let mut fields = decoder.shaped(cursor, &shape::BACKOFF)?;
    let first = fields.optional(decoder, "first", |decoder, first| {
        scalar::duration(decoder, first).map(|duration| decoder.spanned(first, duration))
    });
    let factor = fields.optional(decoder, "factor", |decoder, factor| {
        scalar::whole_number(decoder, factor, 1, MAX_FACTOR)
    });
    let cap = fields.optional(decoder, "cap", scalar::duration);
    fields.end(decoder);
    let cap = cap.unwrap_or(default.cap);
    if let Some(first) = &first
        && first.value > cap
    {
        let problem = first.at.problem(format!(
            "the first back-off of {:?} is longer than the cap of {cap:?}",
            first.value
        ));
        decoder.problem(problem.help("raise `cap` or lower `first`"));
        return None;
    }
    Some(Backoff {
        // A cap below the default first shortens that.
        first: first.map_or(default.first.min(cap), |first| first.value),
        factor: factor.unwrap_or(default.factor),
        cap,
    })
}
