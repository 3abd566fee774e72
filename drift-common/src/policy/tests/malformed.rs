//! Documents that are YAML but no policies.

use super::{check, policy, version};

#[test]
fn an_unknown_field_names_the_one_that_was_meant() {
    check(
        &policy(
            r"  modde: heal
",
        ),
        r"error: unknown field `modde`, did you mean `mode`?
  --> p.yaml:6:3
   |
 6 |   modde: heal
   |   ^^^^^
   = allowed here: activeVersion, mode, onRemove, guard, evidence, nodeSelector, rollout",
    );
}

#[test]
fn an_unknown_field_like_no_other() {
    check(
        &policy(
            r"  weights: {}
",
        ),
        r"error: unknown field `weights`
  --> p.yaml:6:3
   |
 6 |   weights: {}
   |   ^^^^^^^
   = allowed here: activeVersion, mode, onRemove, guard, evidence, nodeSelector, rollout",
    );
}

#[test]
fn missing_fields_are_named_with_their_place() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {}
spec: {}
",
        r"error: missing field `name` in `metadata`
  --> p.yaml:3:11
   |
 3 | metadata: {}
   |           ^

error: missing field `activeVersion` in `spec`
  --> p.yaml:4:7
   |
 4 | spec: {}
   |       ^",
    );
}

#[test]
fn a_misspelt_field_is_not_called_missing_too() {
    check(
        &version(
            r"    - pth: /etc/a
      content: {inline: a}
",
        ),
        r"error: unknown field `pth`, did you mean `path`?
  --> p.yaml:8:7
   |
 8 |     - pth: /etc/a
   |       ^^^
   = allowed here: path, pathBytes, through, content, mode, owner, group, xattrs, selinux, acl,
     flags, capabilities, onDrift, severity, redact, maxSize, finalNewline, lineEndings, hardLinks,
     write, compare, afterHeal",
    );
}

#[test]
fn missing_fields_of_an_item() {
    check(
        &version(
            r#"    - path: /etc/a
      content: {inline: a}
    - mode: "0644"
"#,
        ),
        r#"error: missing field `path` or `pathBytes` in `spec.files[1]`
   --> p.yaml:10:7
    |
 10 |     - mode: "0644"
    |       ^^^^

error: missing field `content` in `spec.files[1]`
   --> p.yaml:10:7
    |
 10 |     - mode: "0644"
    |       ^^^^"#,
    );
}

#[test]
fn what_was_found_and_what_was_expected() {
    check(
        &version(
            r"    - path: [/etc/a]
      content: text
      mode: yes
    - nothing
    -
",
        ),
        r#"error: expected a text at `spec.files[0].path`, found a list
  --> p.yaml:8:13
   |
 8 |     - path: [/etc/a]
   |             ^

error: expected a mapping with `inline` or `file` at `spec.files[0].content`, found a text
  --> p.yaml:9:16
   |
 9 |       content: text
   |                ^^^^

error: `yes` is not a file mode
   --> p.yaml:10:13
    |
 10 |       mode: yes
    |             ^^^
    = write the octal digits that chmod takes, as in "0644" or "4755"

error: expected a mapping with path and content at `spec.files[1]`, found the text `nothing`
   --> p.yaml:11:7
    |
 11 |     - nothing
    |       ^^^^^^^

error: expected a mapping with path and content at `spec.files[2]`, found nothing
   --> p.yaml:12:6
    |
 12 |     -
    |      ^"#,
    );
}

#[test]
fn a_mapping_is_not_a_list() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files: {path: /etc/a}
",
        r"error: expected a list at `spec.files`, found a mapping
  --> p.yaml:7:10
   |
 7 |   files: {path: /etc/a}
   |          ^
   = an empty list is written `[]`",
    );
}

#[test]
fn what_is_no_text_to_yaml_needs_quotes() {
    check(
        &version(
            r"    - path: /etc/a
      content: {inline: 80}
    - path: /etc/b
      content: {inline: true}
    - path: /etc/c
      content: {inline: }
",
        ),
        r#"error: expected a text at `spec.files[0].content.inline`, found a number
  --> p.yaml:9:25
   |
 9 |       content: {inline: 80}
   |                         ^^
   = put it in quotes

error: expected a text at `spec.files[1].content.inline`, found a boolean
   --> p.yaml:11:25
    |
 11 |       content: {inline: true}
    |                         ^^^^
    = put it in quotes

error: expected a text at `spec.files[2].content.inline`, found nothing
   --> p.yaml:13:23
    |
 13 |       content: {inline: }
    |                       ^
    = an empty file is written `inline: ""`"#,
    );
}

#[test]
fn exactly_one_of_two_fields() {
    check(
        &version(
            r"    - path: /etc/a
      content: {inline: a, file: b}
    - path: /etc/b
      content: {}
    - path: /etc/c
      pathBytes: L2V0Yy9j
      content: {flie: x}
",
        ),
        r"error: only one of `inline`, `base64`, `gzip`, `dataUrl`, `file`, `digest`, `configMap` or `secret`
       can be given in `spec.files[0].content`
  --> p.yaml:9:28
   |
 9 |       content: {inline: a, file: b}
   |                            ^^^^

error: missing field `inline`, `base64`, `gzip`, `dataUrl`, `file`, `digest`, `configMap` or
       `secret` in `spec.files[1].content`
   --> p.yaml:11:16
    |
 11 |       content: {}
    |                ^

error: only one of `path` or `pathBytes` can be given in `spec.files[2]`
   --> p.yaml:13:7
    |
 13 |       pathBytes: L2V0Yy9j
    |       ^^^^^^^^^

error: unknown field `flie`, did you mean `file`?
   --> p.yaml:14:17
    |
 14 |       content: {flie: x}
    |                 ^^^^
    = allowed here: inline, base64, gzip, dataUrl, file, digest, configMap, secret",
    );
}

#[test]
fn an_unknown_kind() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: Polcy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
",
        r"error: unknown kind `Polcy`, did you mean `Policy`?
  --> p.yaml:2:7
   |
 2 | kind: Polcy
   |       ^^^^^
   = allowed here: Policy, PolicyVersion, PolicyVersionRef",
    );
}

#[test]
fn a_document_of_another_language() {
    check(
        r"apiVersion: v1
kind: ConfigMap
data: {}
",
        r"error: unknown apiVersion `v1`
  --> p.yaml:1:13
   |
 1 | apiVersion: v1
   |             ^^
   = only documents of configdrift.io/v1alpha1 belong here",
    );
}

#[test]
fn another_version_of_the_language() {
    check(
        r"apiVersion: configdrift.io/v1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
",
        r"error: unknown apiVersion `configdrift.io/v1`
  --> p.yaml:1:13
   |
 1 | apiVersion: configdrift.io/v1
   |             ^^^^^^^^^^^^^^^^^
   = only documents of configdrift.io/v1alpha1 belong here",
    );
}

#[test]
fn a_document_that_does_not_say_what_it_is() {
    check(
        r"kind: Policy
metdata: {}
",
        r"error: missing field `apiVersion`
  --> p.yaml:1:1
   |
 1 | kind: Policy
   | ^^^^

error: unknown field `metdata`, did you mean `metadata`?
  --> p.yaml:2:1
   |
 2 | metdata: {}
   | ^^^^^^^
   = allowed here: apiVersion, kind, metadata, spec",
    );
}

#[test]
fn a_document_that_is_a_text() {
    check(
        r"hello
",
        r"error: expected a document with apiVersion, kind, metadata and spec, found the text `hello`
  --> p.yaml:1:1
   |
 1 | hello
   | ^^^^^",
    );
}

#[test]
fn the_items_of_a_list_are_documents() {
    check(
        r"apiVersion: v1
kind: List
metadata: {resourceVersion: ''}
items:
  - apiVersion: v1
    kind: Secret
  - kind: List
  - text
",
        r"error: unknown apiVersion `v1`
  --> p.yaml:5:17
   |
 5 |   - apiVersion: v1
   |                 ^^
   = only documents of configdrift.io/v1alpha1 belong here

error: missing field `apiVersion` in `items[1]`
  --> p.yaml:7:5
   |
 7 |   - kind: List
   |     ^^^^

error: unknown kind `List`
  --> p.yaml:7:11
   |
 7 |   - kind: List
   |           ^^^^
   = allowed here: Policy, PolicyVersion, PolicyVersionRef

error: expected a document with apiVersion, kind, metadata and spec at `items[2]`, found the text
       `text`
  --> p.yaml:8:5
   |
 8 |   - text
   |     ^^^^",
    );
}

#[test]
fn json_is_yaml() {
    check(
        r#"{
  "apiVersion": "configdrift.io/v1alpha1",
  "kind": "Policy",
  "metadata": {"name": "web"},
  "spec": {"activeVersion": "1.2.0", "mode": "hael"}
}
"#,
        r#"error: unknown mode `hael`, did you mean `heal`?
  --> p.yaml:5:46
   |
 5 |   "spec": {"activeVersion": "1.2.0", "mode": "hael"}
   |                                              ^^^^^^
   = allowed here: observe, heal"#,
    );
}
