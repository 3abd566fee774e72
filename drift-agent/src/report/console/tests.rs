use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::{
    super::{
        record::{Cause, Event, Record, State},
        sample::{any_record, every_event},
    },
    Look, Watching,
    layout::width,
};
use crate::compare::Drift;

fn look(columns: usize) -> Look {
    Look {
        columns: Some(columns),
        colour: false,
        zone: TimeZone::UTC,
    }
}

fn at_two(mut record: Record) -> Record {
    record.time = "2026-01-02T14:02:11.5Z".parse().expect("a time");
    record
}

#[test]
fn every_event_is_one_line() {
    let lines: Vec<String> = every_event()
        .into_iter()
        .map(|record| look(100).line(&at_two(record)))
        .collect();
    let expected = [
        "14:02:11  DRIFT   /etc/app/app.conf         content    web 1.2.0     vim (pid 812, uid 1000)",
        "14:02:11  healed  /etc/app/app.conf         1.1 ms     web 1.2.0",
        "14:02:11  FAILED  /etc/app/app.conf         back-off",
        "14:02:11  UNSURE  /etc/app/app.conf         back-off",
        "14:02:11  HELD    /etc/app/app.conf         back-off",
        "14:02:11  back    /etc/app/app.conf         as declared again  web 1.2.0     vim (pid 812, uid 1000)",
        "14:02:11  touch   /etc/app/app.conf         as declared  web 1.2.0     vim (pid 812, uid 1000)",
        "14:02:11  policy  /etc/app/app.conf         replaced   web 1.2.0     vim (pid 812, uid 1000)",
        "14:02:11  REJECT  back-off",
        "14:02:11  lost    back-off",
    ];
    assert_eq!(lines, expected);
    let mut activated = Record::new(Event::PolicyActivated);
    activated.policy = Some("web".into());
    activated.version = Some("1.2.0".into());
    assert_eq!(
        look(100).line(&at_two(activated)),
        "14:02:11  policy  web 1.2.0     is active"
    );
}

#[test]
fn a_line_of_the_past_has_its_day_and_the_end_of_its_id() {
    let mut record = at_two(every_event().remove(1));
    record.reason = None;
    record.id = uuid::Uuid::from_u128(0x0191_2d4c_0000_7000_8000_0000_3f2a_91c4);
    let json = record.line("node-a").expect("a line");
    assert_eq!(
        look(100).past(&json),
        "2026-01-02 14:02:11  3f2a91c4  healed  /etc/app/app.conf         1.1 ms     web 1.2.0"
    );
    assert!(width(&look(60).past(&json)) <= 60);
    let later = json.replace("drift.healed", "drift.\u{202e}invented");
    let shown = look(100).past(&later);
    assert!(
        shown.contains("invented") && !shown.contains('\u{202e}'),
        "{shown}"
    );
}

#[test]
fn a_drift_line_tells_both_sides_and_who_and_that_nothing_is_done() {
    let mut record = at_two(Record::new(Event::DriftDetected));
    record.path = Some("/etc/ssh/sshd_config".into());
    record.policy = Some("ssh".into());
    record.version = Some("1.0.0".into());
    record.drift = vec![Drift::Mode];
    record.declared = Some(State {
        mode: Some(0o600),
        ..State::default()
    });
    record.observed = Some(State {
        mode: Some(0o644),
        ..State::default()
    });
    record.actor = Some(Err("found by the scan".into()));
    record.cause = Some(Cause::Start);
    record.message = Some("watching only".into());
    assert_eq!(
        look(100).line(&record),
        "14:02:11  DRIFT   /etc/ssh/sshd_config   mode 0600 -> 0644  ssh 1.0.0  found at start  watching only"
    );
}

#[test]
fn long_paths_are_cut_in_the_middle() {
    let mut record = at_two(Record::new(Event::DriftHealed));
    record.path = Some(
        "/etc/kubernetes/manifests/overlays/production/eu-central-1/app/values/app.conf".into(),
    );
    record.policy = Some("web".into());
    record.version = Some("1.2.0".into());
    record.heal_ns = Some(1_100_000);
    assert_eq!(
        look(80).line(&record),
        "14:02:11  healed  /etc/kubernetes/manif…1/app/values/app.conf  1.1 ms  web 1.2.0"
    );
}

#[test]
fn a_hostile_name_cannot_drive_the_terminal() {
    let mut record = at_two(Record::new(Event::PolicyRejected));
    record.message = Some("bad\u{1b}]0;owned\u{7}\n14:02:12  healed  all is well".into());
    let line = look(100).line(&record);
    assert!(!line.chars().any(char::is_control), "{line:?}");
}

#[test]
fn colour_is_on_the_label_only() {
    let look = Look {
        colour: true,
        ..look(100)
    };
    let record = at_two(every_event().swap_remove(1));
    assert_eq!(
        look.line(&record),
        "14:02:11  \u{1b}[32mhealed\u{1b}[0m  /etc/app/app.conf         1.1 ms     web 1.2.0"
    );
}

#[test]
fn the_clock_is_the_one_on_the_wall() {
    let look = Look {
        zone: TimeZone::fixed(jiff::tz::offset(-5)),
        ..look(100)
    };
    let line = look.line(&at_two(Record::new(Event::EventsLost)));
    assert!(line.starts_with("09:02:11"), "{line}");
}

#[test]
fn the_start_line_says_what_is_watched_and_what_is_not_seen() {
    let mut watching = Watching {
        files: 214,
        policies: vec![
            ("ssh".into(), "1.0.0".into(), "observe"),
            ("web".into(), "1.2.0".into(), "heal"),
            ("limits".into(), "2.0.1".into(), "heal"),
        ],
        sensor: "tracepoint probes".into(),
        cannot_see: vec![],
    };
    let whole = "watching 214 files of 3 policies (ssh 1.0.0 observe, web 1.2.0 heal, limits 2.0.1 heal) with tracepoint probes; cannot see: nothing known";
    assert_eq!(look(160).watching(&watching), [whole]);
    assert_eq!(
        look(100).watching(&watching),
        [
            "watching 214 files of 3 policies (ssh 1.0.0 observe, web 1.2.0 heal, limits 2.0.1 heal)",
            "with tracepoint probes; cannot see: nothing known",
        ]
    );
    assert_eq!(
        look(70).watching(&watching)[0],
        "watching 214 files of 3 policies (ssh 1.0.0 observe, 2 more)"
    );
    assert_eq!(
        look(40).watching(&watching)[0],
        "watching 214 files of 3 policies"
    );
    watching.files = 1;
    watching.policies.truncate(1);
    watching.cannot_see = vec!["io_uring".into(), "writes through mmap".into()];
    assert_eq!(
        look(160).watching(&watching),
        [
            "watching 1 file of 1 policy (ssh 1.0.0 observe) with tracepoint probes; cannot see: io_uring, writes through mmap"
        ]
    );
}

proptest! {
    #[test]
    fn no_line_wraps_or_breaks(record in any_record(), columns in 40..160_usize) {
        let line = look(columns).line(&record);
        prop_assert!(width(&line) <= columns, "{} columns: {line}", width(&line));
        prop_assert!(!line.chars().any(char::is_control));
    }
}
