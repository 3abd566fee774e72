//! A [`Record`] in words: the body of a log record, and the pieces the table is made of.

use std::{borrow::Cow, os::unix::ffi::OsStrExt};

use drift_common::escape::{self, printable};

use super::{
    line::{mode, shown},
    record::{Actor, Cause, Event, FileType, Record, SUPERSEDED, State},
};
use crate::compare::Drift;

/// What happened, in one sentence, with names made safe to show.
pub(super) fn sentence(record: &Record) -> String {
    let path = path(record);
    let version = version(record);
    let said = match record.event {
        Event::DriftDetected => {
            let by = match &record.actor {
                Some(Ok(actor)) => format!("changed by {}{}", who(actor), within(actor)),
                Some(Err(why)) => format!("who changed it is not known ({})", printable(why)),
                None => "who changed it is not known".to_owned(),
            };
            let found = found(record).map_or(String::new(), |found| format!(", {found}"));
            format!(
                "{path} is not as {version} declares: {}; {by}{found}",
                differences(record)
            )
        }
        Event::DriftHealed => {
            let took = record
                .heal_ns
                .map_or(String::new(), |ns| format!(" after {}", duration(ns)));
            format!("{path} is as {version} declares again: healed and verified{took}")
        }
        Event::HealFailed => format!("{path} could not be put back to {version}{}", why(record)),
        Event::HealUnverifiable => {
            format!(
                "whether {path} was put back to {version} cannot be verified{}",
                why(record)
            )
        }
        Event::HealSuppressed => {
            format!("{path} is not put back to {version} for now{}", why(record))
        }
        Event::DriftResolved if record.reason == Some(SUPERSEDED) => {
            format!("{path} is not held against {version} any more")
        }
        Event::DriftResolved => format!("{path} is as {version} declares again{}", by(record)),
        Event::Touched => format!(
            "{path} was touched and is as {version} declares{}",
            by(record)
        ),
        Event::PolicyActivated => format!("{version} is active"),
        Event::PolicyRejected => format!("a policy was rejected{}", why(record)),
        Event::EventsLost => format!("events were lost{}", why(record)),
    };
    match &record.message {
        Some(message) => format!("{said}: {}", printable(message)),
        None => said,
    }
}

/// `vim (pid 812, uid 1000)`; root by name, since its number is everywhere the same.
pub(super) fn who(actor: &Actor) -> String {
    let comm = escape::bytes(actor.comm.as_bytes());
    match actor.uid {
        0 => format!("{comm} (pid {}, root)", actor.pid),
        uid => format!("{comm} (pid {}, uid {uid})", actor.pid),
    }
}

/// ` in pod shop/web-1`; nothing, where it runs in no container, or that is not known.
fn within(actor: &Actor) -> String {
    match &actor.container {
        Some(Ok(container)) => format!(" in {}", printable(&container.short())),
        Some(Err(_)) | None => String::new(),
    }
}

/// How it was found, where not by the change itself.
pub(super) fn found(record: &Record) -> Option<&'static str> {
    match record.cause {
        Some(Cause::Kernel) | None => None,
        Some(Cause::Scan) => Some("found by the scan"),
        Some(Cause::Start) => Some("found at start"),
        Some(Cause::Policy) => Some("found when the policy changed"),
    }
}

/// Each kind of drift; where both sides are known and short, with both: `mode 0644 -> 0666`.
pub(super) fn differences(record: &Record) -> String {
    let (declared, observed) = (record.declared.as_ref(), record.observed.as_ref());
    record
        .drift
        .iter()
        .map(|kind| {
            let sides = declared
                .zip(observed)
                .and_then(|(declared, observed)| sides(*kind, declared, observed));
            sides.map_or_else(
                || kind.name().to_owned(),
                |sides| format!("{} {sides}", kind.name()),
            )
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn sides(kind: Drift, declared: &State, observed: &State) -> Option<String> {
    match kind {
        Drift::Mode => {
            let (from, to) = declared.mode.zip(observed.mode)?;
            Some(format!("{} -> {}", mode(from), mode(to)))
        }
        Drift::Owner => {
            // What is not declared is left alone, so it is not part of the difference.
            let side = |state: &State| {
                let uid = declared.uid.and(state.uid).map(|uid| uid.to_string());
                let gid = declared.gid.and(state.gid).map(|gid| format!(":{gid}"));
                format!("{}{}", uid.unwrap_or_default(), gid.unwrap_or_default())
            };
            let (from, to) = (side(declared), side(observed));
            (!from.is_empty() && !to.is_empty()).then(|| format!("{from} -> {to}"))
        }
        Drift::Type => {
            let (from, to) = declared.file_type.zip(observed.file_type)?;
            Some(format!("{} -> {}", FileType::name(from), to.name()))
        }
        Drift::Content
        | Drift::ContentEquivalent
        | Drift::Missing
        | Drift::Unexpected
        | Drift::Xattr
        | Drift::LinkTarget
        | Drift::Relocated
        | Drift::Hardlinked
        | Drift::Unreadable
        | Drift::Unstable => None,
    }
}

/// The path as declared, made safe to show.
pub(super) fn path(record: &Record) -> Cow<'_, str> {
    record.path.as_deref().map_or(Cow::Borrowed("-"), shown)
}

/// `web 1.2.0`.
pub(super) fn version(record: &Record) -> String {
    let policy = record
        .policy
        .as_deref()
        .map_or(Cow::Borrowed("-"), printable);
    match record.version.as_deref().map(printable) {
        Some(version) => format!("{policy} {version}"),
        None => policy.into_owned(),
    }
}

fn why(record: &Record) -> String {
    record
        .reason
        .map_or(String::new(), |reason| format!(" ({reason})"))
}

fn by(record: &Record) -> String {
    match &record.actor {
        Some(Ok(actor)) => format!(", by {}{}", who(actor), within(actor)),
        Some(Err(_)) | None => String::new(),
    }
}

/// A duration people can compare: `1.9 ms`, `412 ms`, `7.0 s`, `3 min 20 s`.
pub(super) fn duration(ns: u64) -> String {
    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;
    // Tenths are rounded, and a time that rounds to the next unit is told in it.
    let tenths = |unit: u64| {
        let tenths = (u128::from(ns) * 10 + u128::from(unit) / 2) / u128::from(unit);
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    let seconds = ns / S;
    match ns {
        0..50_000 => "<0.1 ms".to_owned(),
        50_000..9_950_000 => format!("{} ms", tenths(MS)),
        9_950_000..999_500_000 => format!("{} ms", (ns + MS / 2) / MS),
        999_500_000..59_950_000_000 => format!("{} s", tenths(S)),
        _ if seconds < 60 => "1 min 0 s".to_owned(),
        _ if seconds < 3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            record::{Event, Record, State},
            sample::{every_event, vim},
        },
        differences, duration, sentence,
    };
    use crate::compare::Drift;

    #[test]
    fn durations_are_told_in_a_unit_people_compare() {
        #[track_caller]
        fn check(ns: u64, said: &str) {
            assert_eq!(duration(ns), said);
        }
        check(0, "<0.1 ms");
        check(49_999, "<0.1 ms");
        check(50_000, "0.1 ms");
        check(1_920_000, "1.9 ms");
        check(9_949_999, "9.9 ms");
        check(9_950_000, "10 ms");
        check(412_400_000, "412 ms");
        check(999_499_999, "999 ms");
        check(999_500_000, "1.0 s");
        check(7_000_000_000, "7.0 s");
        check(59_949_999_999, "59.9 s");
        check(59_950_000_000, "1 min 0 s");
        check(200_000_000_000, "3 min 20 s");
        check(7_260_000_000_000, "2 h 1 min");
        check(u64::MAX, "5124095 h 34 min");
    }

    #[test]
    fn both_sides_of_a_difference_are_told_where_they_are_short() {
        let mut record = Record::new(Event::DriftDetected);
        record.drift = vec![Drift::Content, Drift::Mode, Drift::Owner];
        record.declared = Some(State {
            mode: Some(0o600),
            gid: Some(0),
            ..State::default()
        });
        record.observed = Some(State {
            mode: Some(0o4644),
            uid: Some(7),
            gid: Some(1000),
            ..State::default()
        });
        assert_eq!(
            differences(&record),
            "content, mode 0600 -> 4644, owner :0 -> :1000"
        );
    }

    #[test]
    fn every_event_has_a_sentence() {
        let said: Vec<String> = every_event().iter().map(sentence).collect();
        let expected = [
            "/etc/app/app.conf is not as web 1.2.0 declares: content; changed by vim (pid 812, uid 1000)",
            "/etc/app/app.conf is as web 1.2.0 declares again: healed and verified after 1.1 ms",
            "/etc/app/app.conf could not be put back to web 1.2.0 (back-off)",
            "whether /etc/app/app.conf was put back to web 1.2.0 cannot be verified (back-off)",
            "/etc/app/app.conf is not put back to web 1.2.0 for now (back-off)",
            "/etc/app/app.conf is as web 1.2.0 declares again, by vim (pid 812, uid 1000)",
            "/etc/app/app.conf was touched and is as web 1.2.0 declares, by vim (pid 812, uid 1000)",
            "web 1.2.0 is active",
            "a policy was rejected (back-off)",
            "events were lost (back-off)",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn names_in_a_sentence_cannot_drive_a_terminal() {
        let mut record = Record::new(Event::Touched);
        record.path = Some("/etc/a\u{1b}]0;x\u{7}\n".into());
        let mut actor = vim();
        actor.comm = "\u{202e}evil".into();
        record.actor = Some(Ok(actor));
        record.message = Some("quotes \u{1b}[2J\n".into());
        let said = sentence(&record);
        assert!(
            !said.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{said:?}"
        );
    }
}
