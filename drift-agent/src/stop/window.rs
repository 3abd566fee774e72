//! Windows: the times at which a policy heals. Pure: the time is an argument.
//!
//! A window begins at a time of day on the clocks of its time zone, and ends at one. Where clocks are set forward over one of these it is as much later; where
//! they are set back, and show it twice, it begins and ends at the first. So a window is as long as the clocks of that night make it.

use std::time::SystemTime;

use drift_common::policy::WindowKind;
use jiff::{SignedDuration, Timestamp, ToSpan, civil, tz::TimeZone};

use crate::declare::Window;

/// Days that are looked at for the moment at which that changes.
const DAYS_AHEAD: i64 = 8;

/// Whether healing may happen now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    Open,
    /// Until then at least; `None`: it does not open in the next days.
    Closed {
        until: Option<SystemTime>,
    },
}

/// What the windows of a policy say: none that denies may be open, and one that allows must be, where there are such.
#[must_use]
pub fn windows(windows: &[Window], now: SystemTime) -> Open {
    if windows.is_empty() {
        return Open::Open;
    }
    let now = Timestamp::try_from(now).unwrap_or(Timestamp::MAX);
    let times = Times::of(windows, now);
    if times.is_open(now) {
        return Open::Open;
    }
    // Beyond what was looked at, nothing is known to be open.
    let known = now.checked_add(SignedDuration::from_hours(24 * DAYS_AHEAD));
    let known = now..known.unwrap_or(Timestamp::MAX);
    let until = times
        .changes()
        .find(|at| *at > now && known.contains(at) && times.is_open(*at));
    Open::Closed {
        until: until.map(SystemTime::from),
    }
}

/// Windows as moments, from yesterday on.
struct Times {
    allows: Vec<(Timestamp, Timestamp)>,
    denies: Vec<(Timestamp, Timestamp)>,
    /// There are windows that allow, be it on other days.
    only_allowed: bool,
}

impl Times {
    fn of(windows: &[Window], now: Timestamp) -> Self {
        let mut times = Self {
            allows: Vec::new(),
            denies: Vec::new(),
            only_allowed: false,
        };
        for window in windows {
            // One whose time zone is gone since it was declared: it was found then. Nothing is healed by a clock that nobody knows.
            let zone = TimeZone::get(&window.zone.value);
            let list = match window.kind {
                WindowKind::Allow => {
                    times.only_allowed = true;
                    &mut times.allows
                }
                WindowKind::Deny => &mut times.denies,
            };
            match zone {
                Ok(zone) => list.extend(moments(window, &zone, now)),
                Err(_) if window.kind == WindowKind::Deny => {
                    list.push((Timestamp::MIN, Timestamp::MAX));
                }
                Err(_) => {}
            }
        }
        times
    }

    fn is_open(&self, at: Timestamp) -> bool {
        let within = |(from, to): &(Timestamp, Timestamp)| *from <= at && at < *to;
        !self.denies.iter().any(within) && (!self.only_allowed || self.allows.iter().any(within))
    }

    /// Moments at which it may open, soonest first.
    fn changes(&self) -> impl Iterator<Item = Timestamp> + use<> {
        let begins = self.allows.iter().map(|(from, _)| *from);
        let mut all: Vec<_> = begins
            .chain(self.denies.iter().map(|(_, to)| *to))
            .collect();
        all.sort_unstable();
        all.into_iter()
    }
}

/// When a window begins and ends, from the day before `now` on.
fn moments(
    window: &Window,
    zone: &TimeZone,
    now: Timestamp,
) -> impl Iterator<Item = (Timestamp, Timestamp)> {
    let today = zone.to_datetime(now).date();
    (-2..=DAYS_AHEAD).filter_map(move |offset| {
        let day = today.checked_add(offset.days()).ok()?;
        let place = usize::try_from(day.weekday().to_monday_zero_offset()).ok()?;
        if !window.days.has(place) {
            return None;
        }
        let last = if window.to > window.from {
            day
        } else {
            day.tomorrow().ok()?
        };
        let at = |day: civil::Date, time: drift_common::policy::ClockTime| {
            let (hour, minute) = (time.hour().cast_signed(), time.minute().cast_signed());
            zone.to_timestamp(day.at(hour, minute, 0, 0)).ok()
        };
        let (from, to) = (at(day, window.from)?, at(last, window.to)?);
        (from < to).then_some((from, to))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use drift_common::policy::{ClockTime, Days, Source, Spanned};

    use super::*;

    fn window(kind: WindowKind, days: &[usize], from: &str, to: &str, zone: &str) -> Window {
        let clock = |text: &str| {
            let (hour, minute) = text.split_once(':').unwrap();
            ClockTime::new(hour.parse().unwrap(), minute.parse().unwrap()).unwrap()
        };
        let source = Source::new(Path::new("t").into(), Vec::new()).unwrap();
        Window {
            kind,
            days: Days::of(days.iter().copied()).unwrap_or(Days::ALL),
            from: clock(from),
            to: clock(to),
            zone: Spanned {
                value: zone.to_owned(),
                at: source.start(),
            },
        }
    }

    /// `until`: `None`: it is open.
    #[track_caller]
    fn check(all: &[Window], now: &str, until: Option<&str>) {
        let time = |text: &str| SystemTime::from(text.parse::<Timestamp>().unwrap());
        let expected = match until {
            None => Open::Open,
            Some("never") => Open::Closed { until: None },
            Some(until) => Open::Closed {
                until: Some(time(until)),
            },
        };
        assert_eq!(windows(all, time(now)), expected, "{now}");
    }

    use WindowKind::{Allow, Deny};

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_begins() {
        // 2026-11-27 is a Friday.
        let night = [window(Allow, &[4], "22:00", "06:00", "UTC")];
        check(&night, "2026-11-27T21:59:59Z", Some("2026-11-27T22:00:00Z"));
        check(&night, "2026-11-27T22:00:00Z", None);
        check(&night, "2026-11-28T05:59:59Z", None);
        check(&night, "2026-11-28T06:00:00Z", Some("2026-12-04T22:00:00Z"));
        check(&night, "2026-11-26T23:00:00Z", Some("2026-11-27T22:00:00Z"));
        check(&[], "2026-11-26T23:00:00Z", None);
    }

    #[test]
    fn what_denies_counts_more_than_what_allows() {
        let both = [
            window(Allow, &[], "08:00", "18:00", "UTC"),
            window(Deny, &[], "12:00", "13:00", "UTC"),
        ];
        check(&both, "2026-11-27T11:00:00Z", None);
        check(&both, "2026-11-27T12:30:00Z", Some("2026-11-27T13:00:00Z"));
        check(&both, "2026-11-27T18:00:00Z", Some("2026-11-28T08:00:00Z"));
        let deny = [window(Deny, &[5, 6], "00:00", "00:00", "UTC")];
        check(&deny, "2026-11-27T23:59:00Z", None);
        check(&deny, "2026-11-28T00:00:00Z", Some("2026-11-30T00:00:00Z"));
        let always = [window(Deny, &[], "07:00", "07:00", "UTC")];
        check(&always, "2026-11-28T00:00:00Z", Some("never"));
    }

    #[test]
    fn clocks_that_are_set_make_a_window_longer_or_shorter() {
        if TimeZone::get("Europe/Berlin").is_err() {
            eprintln!("SKIPPED: this machine has no time zone database");
            return;
        }
        // Forward from 02:00 to 03:00 on 2026-03-29, back from 03:00 to 02:00 on 2026-10-25.
        let night = [window(Allow, &[], "01:00", "04:00", "Europe/Berlin")];
        check(&night, "2026-03-28T23:59:59Z", Some("2026-03-29T00:00:00Z"));
        check(&night, "2026-03-29T01:59:59Z", None);
        check(&night, "2026-03-29T02:00:00Z", Some("2026-03-29T23:00:00Z"));
        check(&night, "2026-10-24T23:00:00Z", None);
        check(&night, "2026-10-25T02:59:59Z", None);
        check(&night, "2026-10-25T03:00:00Z", Some("2026-10-26T00:00:00Z"));
        // What is not there in that night begins after it.
        let gap = [window(Allow, &[], "02:30", "05:00", "Europe/Berlin")];
        check(&gap, "2026-03-29T01:29:59Z", Some("2026-03-29T01:30:00Z"));
        check(&gap, "2026-03-29T02:59:59Z", None);
        // Shown twice: from the first of the two on.
        let fold = [window(Allow, &[], "02:30", "03:30", "Europe/Berlin")];
        check(&fold, "2026-10-25T00:30:00Z", None);
        check(&fold, "2026-10-25T02:29:59Z", None);
        check(&fold, "2026-10-25T02:30:00Z", Some("2026-10-26T01:30:00Z"));
    }
}
