//! What the policy may say about equality.

use super::{Format::*, *};
use crate::declare::Heed;

fn rules() -> Rules {
    Rules::default()
}

#[test]
fn typed_equality_counts_where_it_is_told() {
    #[track_caller]
    fn check(equal: Equal, one: &str, other: &str, same: bool) {
        let rules = rules().equal("/a", equal).expect("a pointer");
        let expected = if same {
            "equivalent".to_owned()
        } else {
            format!("changed /a {one} -> {other}")
        };
        check_with(
            Yaml,
            &rules,
            &format!("a: {one}\n"),
            &format!("a: {other}\n"),
            &expected,
        );
    }
    // B053
    check(Equal::Quantity, "1000m", "1", true);
    check(Equal::Quantity, "1000m", "2", false);
    check(Equal::Number, "1", "1.0", true);
    check(Equal::Number, "1", "\"1\"", true);
    check(Equal::Number, "1", "1x", false);
    check(Equal::Bool, "yes", "true", true);
    check(Equal::Bool, "yes", "false", false);
    check(Equal::Bool, "'no'", "off", true);
    check(Equal::Duration, "90s", "1m30s", true);
    check(Equal::Duration, "90s", "90ms", false);
    check(Equal::CaseInsensitive, "INFO", "info", true);
    check(Equal::CaseInsensitive, "INFO", "warn", false);
    // B053: off by default
    super::check(Yaml, "a: 1000m\n", "a: 1\n", "changed /a 1000m -> 1");
}

#[test]
fn typed_equality_holds_below_a_pattern_only() {
    let rules = rules().equal("/*/cpu", Equal::Quantity).expect("a pattern");
    check_with(
        Yaml,
        &rules,
        "a: {cpu: 1000m}\ncpu: 1000m\n",
        "a: {cpu: 1}\ncpu: 1\n",
        "changed /cpu 1000m -> 1",
    );
}

#[test]
fn ignored_pointers_are_not_looked_at() {
    let rules = rules()
        .ignore("/spec/*/status")
        .and_then(|rules| rules.ignore("/metadata/**"))
        .expect("patterns");
    check_with(
        Yaml,
        &rules,
        "metadata: {a: 1}\nspec: {x: {status: up, y: 1}}\n",
        "spec: {x: {status: down, y: 1}, z: {status: new}}\n",
        "added /spec/z - -> {status: new}",
    );
    check_with(
        Yaml,
        &rules,
        "spec: {x: {y: 1}}\n",
        "metadata: {b: 2}\nspec: {x: {y: 1, status: 3}}\n",
        "equivalent",
    );
}

#[test]
fn lists_are_sets_where_it_is_told() {
    let rules = rules().set("/a").expect("a pointer");
    // B054
    check_with(
        Yaml,
        &rules,
        "a: [1, {b: 2}, 3]\n",
        "a: [3, 1, {b: 2}]\n",
        "equivalent",
    );
    check_with(
        Yaml,
        &rules,
        "a: [1, 2]\n",
        "a: [2, 3]\n",
        "removed /a/0 1 -> -\nadded /a/1 - -> 3",
    );
    check_with(
        Yaml,
        &rules,
        "a: [1, 1]\n",
        "a: [1]\n",
        "removed /a/1 1 -> -",
    );
    check_with(Yaml, &rules, "a: [1]\n", "a: [1, 1]\n", "added /a/1 - -> 1");
    check_with(
        Yaml,
        &rules,
        "b: [1, 2]\n",
        "b: [2, 1]\n",
        "changed /b/0 1 -> 2\nchanged /b/1 2 -> 1",
    );
}

#[test]
fn the_values_of_a_key_that_stands_several_times_are_a_set_where_it_is_told() {
    let rules = rules().set("/HostKey").expect("a pointer");
    let declared = "HostKey a\nHostKey b\nPort 22\n";
    let swapped = "HostKey b\nHostKey a\nPort 22\n";
    check_with(KeyValue, &rules, declared, swapped, "equivalent");
    check_with(
        KeyValue,
        &rules,
        declared,
        "HostKey b\nPort 22\nHostKey c\nHostKey b\n",
        "removed /HostKey/0 a -> -\nadded /HostKey/1 - -> c\nadded /HostKey/2 - -> b",
    );
    check_with(
        KeyValue,
        &rules,
        "HostKey a\n",
        "HostKey b\nHostKey a\n",
        "added /HostKey/0 - -> b",
    );
    // Sections that stand several times too.
    let peers = Rules::default().set("/Peer").expect("a pointer");
    let wireguard = "[Peer]\nK=1\n[Peer]\nK=2\n";
    check_with(
        Ini,
        &peers,
        wireguard,
        "[Peer]\nK=2\n[Peer]\nK=1\n",
        "equivalent",
    );
    check_with(
        Ini,
        &peers,
        wireguard,
        "[Peer]\nK=2\n[Peer]\nK=3\n",
        "removed /Peer/0 {K: 1} -> -\nadded /Peer/1 - -> {K: 3}",
    );
    // What is as declared in another order is not edited.
    let managed = rules.manage("/HostKey").expect("a pointer");
    let tree = parse(KeyValue, declared.as_bytes()).expect("parses");
    let edited = |observed: &str| {
        let text = edit(&tree, observed.as_bytes(), &managed).expect("can be edited");
        String::from_utf8(text).expect("UTF-8")
    };
    assert_eq!(edited(swapped), swapped);
    assert_eq!(
        edited("HostKey b\nX 1\nHostKey c\n"),
        "HostKey a\nX 1\nHostKey b\n"
    );
}

#[test]
fn the_number_of_a_key_may_be_said_also_where_it_stands_once() {
    let of = |pattern: &str| rules().manage(pattern).expect("a pattern");
    let declared = "Match User a\n  A 1\n";
    let observed = "Match User a\n  A 2\n  B 3\n";
    for pattern in ["/Match/A", "/Match/0/A", "/Match/*/A"] {
        let changed = "changed /Match/A 1 -> 2";
        check_with(KeyValue, &of(pattern), declared, observed, changed);
        let tree = parse(KeyValue, declared.as_bytes()).expect("parses");
        let edited = edit(&tree, observed.as_bytes(), &of(pattern)).expect("can be edited");
        assert_eq!(edited, b"Match User a\n  A 1\n  B 3\n");
    }
    check_with(KeyValue, &of("/Match/1/A"), declared, observed, "");
    for pattern in ["/Port", "/Port/0", "/Port/*"] {
        let changed = "changed /Port 22 -> 23";
        check_with(
            KeyValue,
            &of(pattern),
            "Port 22\n",
            "Port 23\nX 1\n",
            changed,
        );
    }
    let ignoring = rules().ignore("/Peer/*/K").expect("a pattern");
    let (one, other) = ("[Peer]\nK=1\nL=1\n", "[Peer]\nK=2\nL=1\n");
    check_with(Ini, &ignoring, one, other, "equivalent");
    let (one, other) = (one.repeat(2), other.repeat(2));
    check_with(Ini, &ignoring, &one, &other, "equivalent");
    // A key that is called like a number is below its section, and nothing else is.
    check_with(Ini, &of("/a/0"), "[a]\n0=x\nb=1\n", "[a]\n0=x\nb=2\n", "");
    // Where no key can stand twice, a number is an item of a list, or a key.
    check_with(Json, &of("/a/0"), "{\"a\": 1}", "{\"a\": 2}", "");
}

#[test]
fn one_new_item_of_a_list_is_one_difference() {
    check(Yaml, "[a, b, c]", "[x, a, b, c]", "added /0 - -> x");
    check(Yaml, "[a, b, c]", "[a, x, b, c]", "added /1 - -> x");
    check(Yaml, "[a, b, c]", "[a, c]", "removed /1 b -> -");
    check(Yaml, "[a, a]", "[a, a, a]", "added /2 - -> a");
}

#[test]
fn what_counts_as_absent_is_told() {
    // B054
    let (null, empty, none) = ("k:\n", "k: \"\"\n", "{}\n");
    check(Yaml, null, empty, "changed /k null -> \"\"");
    check(Yaml, null, none, "removed /k null -> -");
    check(Yaml, empty, none, "removed /k \"\" -> -");
    check(Env, "K=\n", "", "removed /K \"\" -> -");
    let nulls = rules().absence(Absence::Null);
    check_with(Yaml, &nulls, null, none, "equivalent");
    check_with(Yaml, &nulls, null, empty, "added /k - -> \"\"");
    check_with(Yaml, &nulls, empty, none, "removed /k \"\" -> -");
    let all = rules().absence(Absence::Empty);
    check_with(Yaml, &all, null, empty, "equivalent");
    check_with(Yaml, &all, empty, none, "equivalent");
    check_with(Yaml, &all, "k: {l: {m: []}}\n", none, "equivalent");
    check_with(Yaml, &all, "k: 0\n", none, "removed /k 0 -> -");
    check_with(Env, &all, "K=\n", "", "equivalent");
}

#[test]
fn keys_of_sshd_are_the_same_in_any_case_where_it_is_told() {
    let rules = rules().keys(Keys::AnyCase);
    check_with(
        KeyValue,
        &rules,
        "Port 22\nPort 23\n",
        "PORT 22\nport 23\n",
        "equivalent",
    );
    check_with(
        KeyValue,
        &rules,
        "Port 22\n",
        "PORT 23\n",
        "changed /Port 22 -> 23",
    );
    check(
        KeyValue,
        "Port 22\n",
        "PORT 22\n",
        "removed /Port 22 -> -\nadded /PORT - -> 22",
    );
}

#[test]
fn ends_of_lines_and_of_the_file_count_as_it_is_told() {
    // B047, B049: here they are only another way of writing.
    check(Ini, "[a]\nk=v\n", "[a]\r\nk=v\r\n", "equivalent");
    check(Yaml, "a: 1", "a: 1\n", "equivalent");
    let lines = rules().line_endings(Heed::Ignore);
    check_with(Ini, &lines, "[a]\nk=v\n", "[a]\r\nk=v\r\n", "");
    let end = rules().final_newline(Heed::Ignore);
    check_with(Yaml, &end, "a: 1", "a: 1\n", "");
    check_with(Yaml, &end, "a: 1", "a:  1\n", "equivalent");
}

#[test]
fn only_managed_keys_are_compared() {
    // B119: the policy owns /a only, another tool changes /b.
    let managed = rules().manage("/a").expect("a pointer");
    check_with(
        Json,
        &managed,
        r#"{"a": 1, "b": 1}"#,
        r#"{ "b": 2, "a": 1 }"#,
        "",
    );
    check_with(
        Json,
        &managed,
        r#"{"a": 1}"#,
        r#"{"b": 2}"#,
        "removed /a 1 -> -",
    );
    check_with(
        Json,
        &managed,
        r#"{}"#,
        r#"{"a": {"x": 1}, "b": 2}"#,
        "added /a - -> {x: 1}",
    );
    check_with(
        Json,
        &managed,
        r#"{"a": {"x": 1}}"#,
        r#"{"a": {"x": 2, "y": 3}}"#,
        "changed /a/x 1 -> 2\nadded /a/y - -> 3",
    );
    let deep = rules().manage("/s/*/p").expect("a pattern");
    check_with(
        Json,
        &deep,
        r#"{"s": {"x": {"p": 1}, "y": {"p": 1}}}"#,
        r#"{"s": {"x": {"p": 1, "q": 1}, "z": {"p": 4}}, "t": 1}"#,
        "removed /s/y/p 1 -> -\nadded /s/z/p - -> 4",
    );
    let ssh = rules()
        .manage("/Match/PasswordAuthentication")
        .expect("a pointer");
    check_with(
        KeyValue,
        &ssh,
        "Match User a\nPasswordAuthentication no\n",
        "Port 1\nMatch User a\nX 1\nPasswordAuthentication yes\n",
        "changed /Match/PasswordAuthentication no -> yes",
    );
}
