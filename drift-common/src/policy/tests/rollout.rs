//! Which node has which version.

use proptest::{prelude::*, sample::select};

use super::*;

fn of(rest: &str) -> Policy {
    let mut problems = Problems::default();
    let documents = parse(&source(&policy(rest)), &mut problems);
    match documents.into_iter().next() {
        Some(Document::Policy(policy)) => policy,
        other => panic!("{other:?}\n{problems}"),
    }
}

fn node(uid: impl Into<String>) -> Node {
    Node {
        uid: uid.into(),
        labels: [("role".to_owned(), "web".to_owned())].into(),
    }
}

/// The version, or `none`.
fn version_of(policy: &Policy, node: &Node) -> String {
    assign(policy, node).map_or_else(|| "none".to_owned(), |version| version.value.to_string())
}

fn canary(weight: u32) -> Policy {
    of(&format!(
        "  rollout: {{canary: {{version: 1.3.0, weight: {weight}}}}}\n"
    ))
}

#[test]
fn without_a_rollout_every_node_has_the_active_version() {
    assert_eq!(version_of(&of(""), &node("a")), "1.2.0");
    assert_eq!(version_of(&of(""), &Node::default()), "1.2.0");
}

#[test]
fn a_selector_needs_every_label_with_its_value() {
    for (selector, selected) in [
        ("{}", true),
        ("{role: web}", true),
        ("{role: db}", false),
        ("{role: web, zone: a}", false),
        ("{zone: \"\"}", false),
    ] {
        let policy = of(&format!("  nodeSelector: {selector}\n"));
        assert_eq!(
            assign(&policy, &node("a")).is_some(),
            selected,
            "{selector}"
        );
    }
}

/// These numbers are what agents of other versions, and the controller, come to: they never change.
#[test]
fn the_place_of_a_node_is_the_same_for_ever() {
    let least = |uid: &str| {
        let is_in = |weight: &u32| version_of(&canary(*weight), &node(uid)) == "1.3.0";
        (0..=100).find(is_in)
    };
    let found: Vec<Option<u32>> = (0..8)
        .map(|n| least(&format!("6a1c0e58-0000-4000-8000-00000000000{n}")))
        .collect();
    assert_eq!(found, [11, 23, 60, 65, 18, 57, 92, 18].map(Some));
}

#[test]
fn a_weight_of_w_takes_w_in_a_hundred_nodes() {
    const NODES: u32 = 20_000;
    for weight in [0, 1, 5, 10, 25, 50, 99, 100] {
        let policy = canary(weight);
        let moved = (0..NODES)
            .filter(|n| version_of(&policy, &node(format!("uid-{n}"))) == "1.3.0")
            .count();
        let share = f64::from(weight) / 100.0;
        // Five times the standard deviation of so many throws; and none at all, or all, where it is said so.
        let most = 5.0 * (f64::from(NODES) * share * (1.0 - share)).sqrt();
        let off = (moved as f64 - f64::from(NODES) * share).abs();
        assert!(off <= most, "{weight} %: {moved} of {NODES}");
    }
}

#[test]
fn not_the_same_nodes_are_the_first_for_every_policy() {
    let mut other = canary(50);
    other.name.value = "other".to_owned();
    let both = |n: &u32| {
        let node = node(format!("uid-{n}"));
        version_of(&canary(50), &node) == version_of(&other, &node)
    };
    let same = (0..2000).filter(both).count();
    assert!((800..1200).contains(&same), "{same} of 2000");
}

#[test]
fn policies_of_other_nodes_are_left_out_with_their_versions() {
    let text = "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {name: web}\nspec: {activeVersion: 1.2.0, nodeSelector: {role: web}}\n---\n\
         apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {name: db}\nspec: {activeVersion: 1.0.0, nodeSelector: {role: db}}\n---\n\
         apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {name: db-1.0.0}\nspec: {policy: db, version: 1.0.0, absent: [{path: /etc/x}]}\n---\n\
         apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {name: web-1.2.0}\nspec: {policy: web, version: 1.2.0, absent: [{path: /etc/x}]}\n";
    let mut problems = Problems::default();
    let all = parse(&source(text), &mut problems);
    for (role, policy) in [("web", "web"), ("db", "db")] {
        let mut node = Node::default();
        node.labels.insert("role".to_owned(), role.to_owned());
        let documents = assigned(all.clone(), &node);
        let lineages = validate(documents, &Holds::new(), &mut problems);
        let names: Vec<String> = lineages
            .into_iter()
            .flatten()
            .map(|lineage| lineage.policy.name.value)
            .collect();
        assert_eq!(names, [policy]);
    }
    assert!(assigned(all.clone(), &Node::default()).is_empty());
    // One path for two policies: no node has both.
    assert!(
        validate(all, &Holds::new(), &mut problems).is_some(),
        "{problems}"
    );
}

#[test]
fn what_is_wrong_with_a_selector_or_a_rollout_is_said_where_it_stands() {
    let wrong = [
        ("nodeSelector: {-a: x}", "`-a` cannot be a label"),
        ("nodeSelector: {a/b/c: x}", "`a/b/c` cannot be a label"),
        (
            "nodeSelector: {a: x y}",
            "`x y` cannot be the value of a label",
        ),
        (
            "nodeSelector: {a: 1}",
            "expected a text at `spec.nodeSelector.a`, found the number `1`",
        ),
        (
            "nodeSelector: [a]",
            "expected a mapping from labels to values at `spec.nodeSelector`, found a list",
        ),
        (
            "rollout: {}",
            "missing field `canary` or `arms` in `spec.rollout`",
        ),
        (
            "rollout: {canary: {version: 1.3.0}}",
            "missing field `weight` in `spec.rollout.canary`",
        ),
        (
            "rollout: {canary: {version: 1.3.0, weight: 101}}",
            "expected a whole number from 0 to 100 at `spec.rollout.canary.weight`, found the number `101`",
        ),
        ("rollout: {arms: []}", "0 arms"),
        (
            "rollout: {arms: [{name: a, version: 1.3.0, weight: 60}, {name: b, version: 1.2.0, weight: 41}]}",
            "the weights of the arms come to 101",
        ),
        (
            "rollout: {arms: [{name: a, version: 1.3.0, weight: 1}, {name: a, version: 1.2.0, weight: 1}]}",
            "two arms are called `a`",
        ),
    ];
    for (text, expected) in wrong {
        let mut problems = Problems::default();
        let documents = parse(&source(&policy(&format!("  {text}\n"))), &mut problems);
        assert!(documents.is_empty(), "{text}");
        let said = problems.one_line().to_string();
        assert!(said.contains(expected), "{text}\n{said}\n{expected}");
    }
}

#[test]
fn every_version_of_a_rollout_must_be_there() {
    let text = format!(
        "{}---\n{}",
        policy("  rollout: {canary: {version: 1.3.0, weight: 5}}\n"),
        version("    - {path: /etc/a, content: {inline: a}}\n")
    );
    let (_, problems) = read(&text);
    let said = problems.one_line().to_string();
    assert!(
        said.contains("p.yaml:6:31: `web` has no version 1.3.0"),
        "{said}"
    );
}

/// Up to three arms that come to at most 100.
fn weights() -> impl Strategy<Value = [u32; 3]> {
    (0_u32..=100, 0_u32..=100, 0_u32..=100).prop_map(|(a, b, c)| {
        let b = b.min(100 - a);
        [a, b, c.min(100 - a - b)]
    })
}

fn arms([a, b, c]: [u32; 3]) -> Policy {
    of(&format!(
        "  rollout:\n    arms:\n      - {{name: a, version: 2.0.0, weight: {a}}}\n      - {{name: b, version: 3.0.0, weight: {b}}}\n      - {{name: c, version: 4.0.0, weight: {c}}}\n"
    ))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_canary_that_grows_never_moves_a_node_back(uid in "[a-f0-9-]{1,40}", less in 0_u32..=100, more in 0_u32..=100) {
        let (less, more) = (less.min(more), less.max(more));
        let node = node(uid);
        if version_of(&canary(less), &node) == "1.3.0" {
            prop_assert_eq!(version_of(&canary(more), &node), "1.3.0");
        }
        prop_assert_eq!(version_of(&canary(100), &node), "1.3.0");
        prop_assert_eq!(version_of(&canary(0), &node), "1.2.0");
    }

    #[test]
    fn an_arm_that_grows_keeps_its_nodes(uid in "[a-f0-9-]{1,40}", weights in weights(), which in select(vec![0_usize, 1, 2]), by in 0_u32..=100) {
        let node = node(uid);
        let mut grown = weights;
        grown[which] += by.min(100 - weights.iter().sum::<u32>());
        let version = ["2.0.0", "3.0.0", "4.0.0"][which];
        if version_of(&arms(weights), &node) == version {
            prop_assert_eq!(version_of(&arms(grown), &node), version);
        }
    }

    #[test]
    fn who_asks_makes_no_difference(uid in "[a-f0-9-]{1,40}", weights in weights(), others in proptest::collection::btree_map("[a-z]{1,8}", "[a-z]{0,8}", 0..4)) {
        let policy = arms(weights);
        let mut with_labels = node(uid);
        let without = with_labels.clone();
        with_labels.labels.extend(others);
        prop_assert_eq!(version_of(&policy, &with_labels), version_of(&policy, &without));
    }
}
