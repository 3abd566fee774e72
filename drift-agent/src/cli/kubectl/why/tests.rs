use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use super::{
    super::{fleet::tests::now, report::tests::drift},
    *,
};

const FRESH: &str = "2026-11-30T10:00:00Z";

fn drifting() -> Value {
    json!({
        "counts": {"policies": 1, "files": 200, "asDeclared": 199, "drifting": 1, "notCompared": 0, "held": 1, "healed": 3},
        "conditions": [{"type": "Healed", "status": "False", "reason": "HealHeld", "message": "1 of 200 paths are not as declared; 1 are left as they are for now"}],
        "policies": [{"namespace": "web", "name": "app", "activeVersion": "1.2.0", "mode": "heal", "files": 200, "drifting": 1, "held": 1, "healed": 3}],
        "drifts": [
            {"path": "/etc/app/app.conf", "namespace": "web", "policy": "app", "kinds": ["content", "mode"], "since": "2026-11-30T09:58:00Z", "outcome": "suppressed", "reason": "backoff",
                "actor": {"comm": "sh", "pid": 77, "uid": 0, "pod": "cart-7d9", "namespace": "shop", "containerName": "app", "workload": "Deployment/cart"}},
            {"path": "/etc/app/tls.pem", "namespace": "web", "policy": "app", "kinds": ["mode"], "since": "2026-11-30T09:50:00Z", "outcome": "healed"},
        ],
    })
}

fn report(written: &str, status: &Value) -> Report {
    Report::whole(drift("node-b", written, status))
}

fn seen<'s>(report: &'s Report, path: &'s str, list: Option<&'static str>) -> Seen<'s> {
    let status = report.status.as_ref().expect("a status");
    Seen {
        node: "node-b",
        path,
        drift: status.drifts.iter().find(|drift| drift.path == path),
        declares: list.map(|list| Declares {
            namespace: "web".to_owned(),
            policy: "app".to_owned(),
            version: "1.2.0".to_owned(),
            list,
        }),
        status,
        health: report.health(now()),
        age: report.age(now()),
    }
}

#[test]
fn why_a_node_is_as_it_is() {
    assert_eq!(
        of_node("node-b", &report(FRESH, &drifting()), now()),
        "\
node-b is drifting: agent 0.3.0, btf 24/24, seen 2 s ago

  Healed is False: HealHeld: 1 of 200 paths are not as declared; 1 are left as they are for now

 policy    version   mode   files   drifting   held   healed (24 h)
 web/app   1.2.0     heal     200          1      1               3

  /etc/app/app.conf: suppressed: content, mode, by sh (pid 77, uid 0) in pod shop/cart-7d9,
  container app of Deployment/cart
  /etc/app/tls.pem: healed: mode

One path: kubectl drift why node-b /etc/app/app.conf
"
    );
    let stale = of_node("node-b", &report("2026-11-30T09:00:00Z", &json!({})), now());
    assert!(
        stale.starts_with("node-b is stale: agent 0.3.0, btf 24/24, seen 60 min ago; what follows is as it was then\n"),
        "{stale}"
    );
    assert!(stale.contains("kubectl get node node-b"), "{stale}");
}

#[test]
fn why_a_path_is_as_it_is() {
    let report = report(FRESH, &drifting());
    let path = seen(&report, "/etc/app/app.conf", Some("files"));
    assert_eq!(path.verdict(), Some(Verdict::Drifting));
    assert_eq!(
        path.text(Verdict::Drifting),
        "\
/etc/app/app.conf on node-b is NOT as declared: content, mode
  declared   web/app 1.2.0, in its files
  changed    2026-11-30T09:58:00Z: content, mode, by sh (pid 77, uid 0) in pod shop/cart-7d9,
             container app of Deployment/cart
  healing    suppressed: backoff
  known      the agent has written 2 s ago (drifting)

On node-b: drift-agent explain /etc/app/app.conf
"
    );
    assert_eq!(
        path.json(Verdict::Drifting)["drift"]["actor"]["pod"],
        "cart-7d9"
    );
}

#[test]
fn a_path_is_said_to_be_as_declared_only_where_that_is_known() {
    #[track_caller]
    fn check(
        written: &str,
        status: &Value,
        path: &str,
        list: Option<&'static str>,
        expected: Option<Verdict>,
    ) {
        let report = report(written, status);
        assert_eq!(seen(&report, path, list).verdict(), expected);
    }
    let other = Some("files");
    check(
        FRESH,
        &drifting(),
        "/etc/app/tls.pem",
        None,
        Some(Verdict::Healed),
    );
    check(
        FRESH,
        &drifting(),
        "/etc/app/other",
        other,
        Some(Verdict::AsDeclared),
    );
    check(FRESH, &drifting(), "/etc/app/other", None, None);
    let more = json!({"counts": {"files": 200, "drifting": 30, "notCompared": 0}});
    check(
        FRESH,
        &more,
        "/etc/app/other",
        other,
        Some(Verdict::NotKnown),
    );
    let late = json!({"counts": {"files": 200, "drifting": 0, "notCompared": 7}});
    check(
        FRESH,
        &late,
        "/etc/app/other",
        other,
        Some(Verdict::NotKnown),
    );
    check(
        "2026-11-30T09:00:00Z",
        &drifting(),
        "/etc/app/other",
        other,
        Some(Verdict::NotKnown),
    );
    check(
        "2026-11-30T09:00:00Z",
        &drifting(),
        "/etc/app/app.conf",
        other,
        Some(Verdict::NotKnown),
    );
}

#[test]
fn what_strangers_write_stays_in_its_lines() {
    let evil = "\u{1b}]0;x\u{7}\u{202e}";
    let path = format!("/etc/{evil}{}", "x".repeat(300));
    let status = json!({
        "agentVersion": evil, "sensor": {"name": evil},
        "conditions": [{"type": evil, "status": evil, "reason": evil, "message": evil}],
        "policies": [{"namespace": evil, "name": "n".repeat(253), "activeVersion": evil, "mode": evil, "message": evil}],
        "drifts": [{"path": path, "kinds": [evil], "outcome": evil, "reason": evil, "since": evil, "actorUnknown": evil}],
    });
    let report = report(FRESH, &status);
    let seen = seen(&report, &path, Some("files"));
    let text = of_node(evil, &report, now()) + &seen.text(Verdict::Drifting);
    for line in text.lines() {
        assert!(line.width() <= 100, "{line}");
        assert!(!line.chars().any(escape::is_deceptive), "{line:?}");
    }
}
