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
