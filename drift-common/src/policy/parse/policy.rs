//! The spec of a `Policy`.

use std::num::NonZero;

use semver::Version;

use super::{rollout, scalar};
use crate::escape;
use crate::policy::{
    Backoff, ClockTime, Days, Evidence, Fight, Guard, MassDrift, Mode, NodeSelector, OnRemove,
    Policy, Rollout, Window, WindowKind,
    decode::{Cursor, Decoder},
    shape::{self, MAX_HEALS, MAX_PER_MINUTE, MAX_WINDOWS},
    source::Spanned,
};

pub(super) struct Spec {
    active_version: Spanned<Version>,
    mode: Mode,
    on_remove: OnRemove,
    guard: Guard,
    evidence: Evidence,
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
            evidence,
            node_selector,
            rollout,
        } = self;
        Policy {
            name,
            active_version,
            mode,
            on_remove,
            guard,
            evidence,
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
    let evidence = fields.optional(decoder, "evidence", |decoder, word| {
        decoder.word(word, "evidence", &Evidence::ALL)
    });
    let node_selector = fields.optional(decoder, "nodeSelector", rollout::node_selector);
    let rollout = fields.optional(decoder, "rollout", rollout::rollout);
    fields.end(decoder);
    Some(Spec {
        active_version: active_version?,
        mode: mode.unwrap_or_default(),
        on_remove: on_remove.unwrap_or_default(),
        guard: guard.unwrap_or_default(),
        evidence: evidence.unwrap_or_default(),
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
    let windows = fields.optional(decoder, "windows", windows);
    fields.end(decoder);
    let backoff = backoff.unwrap_or_default();
    Some(Guard {
        // Who asks for no waiting at all wants none after a few heals either.
        fight: fight.or(default.fight.filter(|_| !backoff.first.is_zero())),
        backoff,
        per_minute: per_minute.map_or(default.per_minute, NonZero::new),
        mass_drift: mass_drift.unwrap_or_default(),
        windows: windows.unwrap_or_default(),
    })
}

fn windows(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Vec<Window>> {
    let windows = decoder.list(cursor, window)?;
    if windows.len() > MAX_WINDOWS {
        let message = format!("{} windows are too many", windows.len());
        let help = format!("at most {MAX_WINDOWS}: one window can begin on several days");
        return decoder.wrong(cursor, message, help);
    }
    Some(windows)
}

fn window(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Window> {
    let mut fields = decoder.shaped(cursor, &shape::WINDOW)?;
    let kind = fields.optional(decoder, "kind", |decoder, kind| {
        decoder.word(kind, "kind", &WindowKind::ALL)
    });
    let days = fields.optional(decoder, "days", days);
    let from = fields.required(decoder, "from", clock_time);
    let to = fields.required(decoder, "to", clock_time);
    let zone = fields.optional(decoder, "timeZone", time_zone);
    let days = if fields.has("days") {
        days
    } else {
        Some(Days::ALL)
    };
    let zone = if fields.has("timeZone") {
        zone
    } else {
        Some(decoder.spanned(cursor, "UTC".to_owned()))
    };
    fields.end(decoder);
    Some(Window {
        kind: kind.unwrap_or_default(),
        days: days?,
        from: from?,
        to: to?,
        zone: zone?,
    })
}

fn days(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Days> {
    let days = decoder.list(cursor, |decoder, day| {
        decoder.word(day, "day", &Days::NAMES)
    })?;
    let days = Days::of(days);
    if days.is_none() {
        return decoder.wrong(
            cursor,
            "a window begins on at least one day",
            "name days, as in `[mon, tue]`, or remove `days` for every day",
        );
    }
    days
}

fn clock_time(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<ClockTime> {
    const HELP: &str = "write it with quotes, as in \"06:00\" or \"22:30\"";
    let text = scalar::raw(decoder, cursor, "a time of day", HELP)?;
    let time = text.split_once(':').and_then(|(hour, minute)| {
        let number = |text: &str| -> Option<u8> {
            let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok())?
        };
        ClockTime::new(number(hour)?, number(minute)?)
    });
    if time.is_none() {
        let message = format!("{} is not a time of day", escape::name(&text));
        return decoder.wrong(cursor, message, HELP);
    }
    time
}

/// How a time zone can be called. Whether there is one of that name is a matter of the machine that goes by it.
fn time_zone(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<String>> {
    let text = decoder.text(cursor)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_+-".contains(c);
    let is_name = text.len() <= 64
        && text
            .split('/')
            .all(|part| !part.is_empty() && part.chars().all(allowed));
    if !is_name {
        let message = format!("{} is not the name of a time zone", escape::name(&text));
        return decoder.wrong(
            cursor,
            message,
            "write it as the time zone database has it, as in `UTC` or `Europe/Berlin`",
        );
    }
    Some(decoder.spanned(cursor, text.to_string()))
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
