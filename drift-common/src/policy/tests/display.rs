//! How a problem looks when the text around it is odd.

use super::{check, policy, read, version};

#[test]
fn a_control_character() {
    check(
        &policy("  mode: a\x07b\n"),
        r"error: YAML does not allow the control character \x07
  --> p.yaml:6:10
   |
 6 |   mode: a\x07b
   |          ^^^^
   = in a text in double quotes it is written as `\x07`",
    );
}

#[test]
fn columns_are_characters_and_carets_stand_below_wide_ones() {
    check(
        r#"apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web, labels: {名前: "配置 é"}, nmae: x}
spec: {activeVersion: 1.2.0}
"#,
        r#"error: unknown field `nmae`, did you mean `name`?
  --> p.yaml:3:45
   |
 3 | metadata: {name: web, labels: {名前: "配置 é"}, nmae: x}
   |                                                 ^^^^
   = allowed here: name, namespace, labels, annotations"#,
    );
}

#[test]
fn carriage_returns_and_a_byte_order_mark_are_not_counted() {
    check(
        "\u{feff}apiVersion: configdrift.io/v1alpha1\r\nkind: Policy\r\nmetadata: {name: web}\r\nspec:\r\n  activeVersion: 1.2.0\r\n  modde: heal\r\n",
        r"error: unknown field `modde`, did you mean `mode`?
  --> p.yaml:6:3
   |
 6 |   modde: heal
   |   ^^^^^
   = allowed here: activeVersion, mode, onRemove, guard, evidence, nodeSelector, rollout",
    );
}

#[test]
fn marks_of_direction_are_escaped() {
    check(
        &policy("  mode: \"he\u{202e}al\"\n"),
        r#"error: unknown mode `he\u{202e}al`, did you mean `heal`?
  --> p.yaml:6:9
   |
 6 |   mode: "he\u{202e}al"
   |         ^^^^^^^^^^^^^^
   = allowed here: observe, heal"#,
    );
}

#[test]
fn long_lines_are_cut_around_the_place() {
    check(
        &policy(&format!(
            "  mode: {{a: {}, modde: b, {}}}\n  {}: 1\n  guard: {{backoff: {{cap: 5m, {} frist: 2s, {}}}}}\n",
            "x".repeat(500),
            "y".repeat(500),
            "k".repeat(300),
            " ".repeat(200),
            " ".repeat(300),
        )),
        r"error: expected a text at `spec.mode`, found a mapping
  --> p.yaml:6:9
   |
 6 |   mode: {a: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
   |         ^
   = allowed here: observe, heal

error: unknown field `kkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…kkkkkkkkkkkkkkkkkkkkkkkkkkkkkk`
  --> p.yaml:7:3
   |
 7 |   kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   = allowed here: activeVersion, mode, onRemove, guard, evidence, nodeSelector, rollout

error: unknown field `frist`, did you mean `first`?
  --> p.yaml:8:231
   |
 8 | …                               frist: 2s,                                                    …
   |                                 ^^^^^
   = allowed here: first, factor, cap",
    );
}

#[test]
fn deep_nesting() {
    check(
        &format!("{}{}\n", "[".repeat(70), "]".repeat(70)),
        r"error: lists and mappings too deep within each other
  --> p.yaml:1:65
   |
 1 | …[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]…
   |                                 ^
   = a policy needs 10 levels at most",
    );
}

#[test]
fn what_leaves_the_node_does_not_repeat_contents() {
    for content in [
        "hunter2",
        "[hunter2]",
        "{inline: [hunter2]}",
        "{inline: !!int hunter2}",
        "{inline: !hunter2 x}",
        "{inline: {hunter2}}",
        "{inline: 'hunter2}",
        "{inline: hunter2: x}",
        "{inline: \"\\hunter2\"}",
        "{inline: \"\\ud800hunter2\"}",
        "{inline: hunter2, file: b}",
        "{inline: &a *a}\n      hunter2",
        "{inline: hunter2\u{7}}",
    ] {
        let file = format!("    - path: /etc/a\n      content: {content}\n");
        let (_, problems) = read(&version(&file));
        assert!(!problems.is_empty(), "{content}");
        for problem in problems.sorted() {
            let said = problem.one_line().to_string();
            assert!(!said.contains("hunter2"), "{content}: {said}");
            assert!(!problem.help.concat().contains("hunter2"), "{content}");
        }
    }
}
