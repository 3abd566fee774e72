use unicode_width::UnicodeWidthStr as _;

use super::{
    super::fleet::tests::{fleet, now},
    *,
};

const FRESH: &str = "2026-11-30T10:00:00Z";

fn three() -> Fleet {
    let drifting = json!({
        "counts": {"policies": 2, "files": 214, "asDeclared": 213, "drifting": 1, "notCompared": 0, "held": 0, "healed": 2},
        "policies": [{"namespace": "web", "name": "app", "activeVersion": "1.1.0", "files": 200, "drifting": 1}],
        "drifts": [{"path": "/etc/app/app.conf", "namespace": "web", "policy": "app", "kinds": ["content"], "outcome": "pending",
            "actor": {"comm": "sh", "pid": 77, "uid": 0, "pod": "cart-7d9", "namespace": "shop"}}],
    });
    fleet(
        &[
            ("node-a", FRESH, json!({})),
            ("node-b", FRESH, drifting),
            ("node-c", "2026-11-30T09:48:00Z", json!({})),
        ],
        &["node-a", "node-b", "node-c", "node-d"],
    )
}

#[test]
fn the_fleet_at_a_glance() {
    assert_eq!(
        status(&three(), now()),
        "\
4 nodes: 1 no agent, 1 stale, 1 drifting, 1 as declared
427 of 428 files as declared (99.76 %) on the 2 nodes that report; 16 healed in 24 h

 node     health        as declared   drifting   healed (24 h)   agent   seen
 node-d   no agent                ?          ?               ?   -       never
     no agent has reported: kubectl get pods -A -o wide
 node-c   stale                   ?          ?               ?   0.3.0   12 min ago
     its agent has stopped reporting: kubectl drift why node-c
 node-b   drifting          213/214          1               2   0.3.0   2 s ago
     /etc/app/app.conf: content, by sh (pid 77, uid 0) in pod shop/cart-7d9
 node-a   as declared       214/214          0              14   0.3.0   2 s ago

 policy    version            nodes
 ssh       1.0.0                  1
 ssh       not known: stale       1
 web/app   1.1.0                  1
 web/app   1.2.0                  1
 web/app   not known: stale       1
"
    );
    assert_eq!(three().worst(now()).map(Health::exit), Some(5));
}

#[test]
fn the_fleet_for_programs() {
    let value = sums(&three(), now());
    assert_eq!(value["health"]["stale"], 1);
    assert_eq!(value["health"]["as declared"], 1);
    assert_eq!(value["consistencyPercent"], 99.76);
    let names: Vec<_> = value["attention"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|node| &node["node"])
        .collect();
    assert_eq!(names, ["node-d", "node-c", "node-b"]);
    assert_eq!(values(&three(), now()).len(), 4);
}

#[test]
fn of_many_nodes_those_are_shown_that_are_not_as_they_should_be() {
    let names: Vec<String> = (0..1000).map(|n| format!("node-{n:04}")).collect();
    let reports: Vec<(&str, &str, Value)> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            (
                name.as_str(),
                if n % 40 == 0 {
                    "2026-11-30T09:00:00Z"
                } else {
                    FRESH
                },
                json!({}),
            )
        })
        .collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = status(&fleet(&reports, &nodes), now());
    assert!(
        text.starts_with("1000 nodes: 25 stale, 975 as declared\n"),
        "{text}"
    );
    assert!(
        text.contains("\n 980 more, of which 5 are not as declared: kubectl drift nodes\n"),
        "{text}"
    );
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with(" node-"))
            .count(),
        MOST_SHOWN
    );
}

#[test]
fn nothing_that_a_cluster_says_drives_a_terminal_or_is_too_wide() {
    let evil = "\u{1b}]0;owned\u{7}\u{202e}x\n";
    let long = format!("{evil}{}", "n".repeat(240));
    let status_of = json!({
        "agentVersion": long,
        "counts": {"files": u32::MAX, "asDeclared": u32::MAX, "drifting": 7, "notCompared": 0, "held": 3, "healed": u32::MAX},
        "policies": [{"namespace": evil, "name": long, "activeVersion": long, "files": u32::MAX, "drifting": u32::MAX}],
        "drifts": [{"path": format!("/etc/{long}"), "kinds": [evil], "outcome": "pending", "actorUnknown": evil}],
        "conditions": [{"type": evil, "status": "False", "reason": evil, "message": evil}],
    });
    let wrong = json!({"counts": evil});
    let fleet = fleet(&[("a", FRESH, status_of), (&long, FRESH, wrong)], &[&long]);
    let text = status(&fleet, now()) + &table(&fleet, now());
    for line in text.lines() {
        assert!(line.width() <= 100, "{}: {line}", line.width());
        assert!(
            !line.chars().any(drift_common::escape::is_deceptive),
            "{line:?}"
        );
    }
    let json = format!("{:#}", shown(sums(&fleet, now())));
    assert!(
        !json.contains('\u{202e}') && !json.contains("\\u001b"),
        "{json}"
    );
}

#[test]
fn no_nodes_and_nodes_that_may_not_be_listed() {
    let mut nobody = Fleet::default();
    let may_not = unlisted(&nobody);
    assert!(may_not.contains("you may not list nodes"), "{may_not}");
    assert_eq!(status(&nobody, now()), NOBODY.to_owned() + &may_not);
    nobody.nodes = Some(Default::default());
    assert_eq!(status(&nobody, now()), NOBODY);
    let mut fleet = three();
    fleet.nodes = None;
    let text = status(&fleet, now());
    assert!(text.contains("you may not list nodes"), "{text}");
    assert!(!text.contains("node-d"), "{text}");
}
