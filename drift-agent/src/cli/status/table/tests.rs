use crate::serve::{HeldPath, LastScan, Reason, SensorStatus};

use super::*;

fn policy(name: &str, version: &str, mode: &str, files: usize, drifting: usize) -> PolicyStatus {
    PolicyStatus {
        policy: name.to_owned(),
        version: version.to_owned(),
        mode: mode.to_owned(),
        files,
        as_declared: files - drifting,
        drifting,
        healed_24h: Some(0),
        last_known_good: Some(version.to_owned()),
        ..PolicyStatus::default()
    }
}

fn status() -> Status {
    let mut web = policy("web", "1.2.0", "heal", 180, 0);
    web.healed_24h = Some(14);
    web.last_known_good = Some("1.1.0".to_owned());
    web.soak_left_s = Some(45);
    let mut limits = policy("limits", "2.0.1", "heal", 23, 1);
    limits.healed_24h = Some(2);
    limits.last_known_good = None;
    limits.held = Held {
        count: 1,
        paths: vec![HeldPath {
            path: "/etc/security/limits.conf".to_owned(),
            reason: "backoff".to_owned(),
            until: Some("2026-11-29T14:05:20.500Z".to_owned()),
        }],
    };
    Status {
        node: "node-7".to_owned(),
        health: Health::Drifting,
        reasons: Vec::new(),
        agent: Some("0.3.0".to_owned()),
        pid: Some(7),
        started: None,
        uptime_s: Some(3 * 86_400 + 5),
        sensor: Some(SensorStatus {
            name: "tracepoint".to_owned(),
            hooks_attached: 12,
            hooks: 12,
            cannot_see: Vec::new(),
            tables: None,
            counted: std::collections::BTreeMap::new(),
        }),
        events_lost: Some(0),
        records_lost: None,
        last_full_scan: Some(LastScan {
            ended: "2026-11-29T14:00:00.000Z".to_owned(),
            age_s: 240,
            files: 214,
            took_ns: 6_400_000,
        }),
        full_scan_running_s: None,
        stops: Vec::new(),
        policies: vec![policy("ssh", "1.0.0", "observe", 11, 1), web, limits],
        drifts: Vec::new(),
        store: None,
        privilege: None,
    }
}

#[test]
fn a_status_says_all_at_a_glance() {
    let expected = "\
node-7   drifting   agent 0.3.0 up 3 days   probes tracepoint 12/12   events lost 0   last full scan 4 min ago (214 files, 6 ms)

 policy   version   mode      files   as declared   drifting   healed (24 h)   known good             held
 ssh      1.0.0     observe      11            10          1               -   1.0.0                  -
 web      1.2.0     heal        180           180          0              14   1.1.0, 1.2.0 in 45 s   0
 limits   2.0.1     heal         23            22          1               2   -                      1   backoff until 14:05:20
";
    assert_eq!(table(&status(), &TimeZone::UTC), expected);
}

/// B076: what was not compared yet is not called as declared, and is called that it was not compared.
#[test]
fn b076_before_the_first_scan_ended_nothing_is_called_as_declared() {
    let mut status = status();
    status.health = Health::Degraded;
    status.last_full_scan = None;
    status.full_scan_running_s = Some(2);
    status.reasons = vec![Reason {
        reason: "not-compared".to_owned(),
        message: "11 of 11 paths were not compared yet".to_owned(),
    }];
    status.policies.truncate(1);
    status.policies[0].not_compared = 11;
    status.policies[0].as_declared = 0;
    status.policies[0].drifting = 0;
    let expected = "\
node-7   degraded   agent 0.3.0 up 3 days   probes tracepoint 12/12   events lost 0   first full scan running for 2 s
  11 of 11 paths were not compared yet

 policy   version   mode      files   as declared   drifting   not compared   healed (24 h)   known good   held
 ssh      1.0.0     observe      11             0          0             11               -   1.0.0        -
";
    assert_eq!(table(&status, &TimeZone::UTC), expected);
}

#[test]
fn without_an_agent_only_what_it_left_is_told() {
    let mut status = status();
    status.health = Health::NoAgent;
    status.agent = None;
    status.sensor = None;
    status.events_lost = None;
    status.last_full_scan = None;
    status.reasons = vec![Reason {
        reason: "no-agent".to_owned(),
        message: "no agent is running".to_owned(),
    }];
    let expected = "\
node-7   no-agent
  no agent is running

 policy   version   known good
 ssh      1.0.0     1.0.0
 web      1.2.0     1.1.0
 limits   2.0.1     -
";
    assert_eq!(table(&status, &TimeZone::UTC), expected);
    status.policies.clear();
    assert!(table(&status, &TimeZone::UTC).ends_with("not there either\n"));
}

#[test]
fn names_cannot_drive_the_terminal() {
    let mut status = status();
    status.node = "no\u{1b}[2Jde".to_owned();
    status.policies[0].policy = "\u{202e}gpj".to_owned();
    status.reasons = vec![Reason {
        reason: "no-probes".to_owned(),
        message: "a\nb".to_owned(),
    }];
    let shown = table(&status, &TimeZone::UTC);
    let is_unsafe = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!shown.contains(is_unsafe), "{shown}");
    assert!(shown.contains("a\\x0ab"), "{shown}");
}
