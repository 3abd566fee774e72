//! Text that is not the YAML of policies.

use super::{check, policy, version};

#[test]
fn a_key_given_twice() {
    check(
        &policy(
            r"  mode: heal
  mode: observe
",
        ),
        r"error: the field `mode` is given twice
  --> p.yaml:7:3
   |
 7 |   mode: observe
   |   ^^^^
   = first given at p.yaml:6:3",
    );
}

#[test]
fn merge_keys_are_refused() {
    check(
        &policy(
            r"  guard: &guard {backoff: {first: 1s}}
  <<: *guard
",
        ),
        r"error: merge keys (`<<`) are not part of YAML 1.2
  --> p.yaml:7:3
   |
 7 |   <<: *guard
   |   ^^
   = write the fields out, or use an alias for a whole value: `guard: *guard`",
    );
}

#[test]
fn keys_are_texts() {
    check(
        &policy(
            r"  [a]: b
  : c
  guard: {}
",
        ),
        r"error: a field's name must be a text
  --> p.yaml:6:3
   |
 6 |   [a]: b
   |   ^
   = write `name: value`; put a text that begins with `{`, `[` or `?` in quotes

error: a field's name must be a text
  --> p.yaml:7:3
   |
 7 |   : c
   |   ^
   = write `name: value`; put a text that begins with `{`, `[` or `?` in quotes",
    );
}

#[test]
fn foreign_tags_are_refused() {
    check(
        &policy(
            r"  mode: !heal x
  guard: !!binary aGk=
",
        ),
        r"error: this tag is not known here
  --> p.yaml:6:9
   |
 6 |   mode: !heal x
   |         ^^^^^^^
   = remove the tag; a text that begins with `!` needs quotes

error: the tag `!!binary` is not known here
  --> p.yaml:7:10
   |
 7 |   guard: !!binary aGk=
   |          ^^^^^^^^^^^^^
   = keep such contents in files of their own: `content: {file: …}`",
    );
}

#[test]
fn a_tag_that_does_not_fit() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: !!int x
",
        r"error: this is not what its tag `!!int` says
  --> p.yaml:5:18
   |
 5 |   activeVersion: !!int x
   |                  ^^^^^^^
   = remove the tag",
    );
}

#[test]
fn a_tab_in_the_indentation() {
    check(
        &policy("\tmode: heal\n"),
        r"error: a tab in the indentation
  --> p.yaml:6:1
   |
 6 |     mode: heal
   | ^^^^
   = indent with spaces",
    );
}

#[test]
fn a_tab_after_a_colon() {
    check(
        "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {name: web}\nspec: {activeVersion:\t1.2.0,\tmodde:\theal}\n",
        r"error: a tab before this value
  --> p.yaml:4:23
   |
 4 | spec: {activeVersion:    1.2.0,    modde:    heal}
   |                          ^
   = write a space instead",
    );
}

#[test]
fn a_quote_not_closed() {
    check(
        &version(
            r#"    - path: "/etc/a
      content: {inline: a}
"#,
        ),
        r#"error: this quote is not closed, or its text goes on without indentation
  --> p.yaml:8:13
   |
 8 |     - path: "/etc/a
   |             ^
   = a `'` within single quotes is written `''`, a `"` within double quotes `\"`"#,
    );
}

#[test]
fn a_quote_not_closed_at_the_end() {
    check(
        &policy(
            r#"  mode: "heal

"#,
        ),
        r#"error: this quote is never closed
  --> p.yaml:6:9
   |
 6 |   mode: "heal
   |         ^
   = a `'` within single quotes is written `''`, a `"` within double quotes `\"`"#,
    );
}

#[test]
fn text_after_a_quote() {
    check(
        &policy(
            r#"  mode: "he"al"
"#,
        ),
        r#"error: something stands after the closing quote
  --> p.yaml:6:13
   |
 6 |   mode: "he"al"
   |             ^
   = a `'` within single quotes is written `''`, a `"` within double quotes `\"`"#,
    );
}

#[test]
fn a_brace_not_closed() {
    check(
        &version(
            r"    - {path: /etc/a, content: {inline: a}
",
        ),
        r"error: expected `,` or `}` here
  --> p.yaml:8:42
   |
 8 |     - {path: /etc/a, content: {inline: a}
   |                                          ^
   = put a text that holds `,`, `{`, `}`, `[` or `]` in quotes
   = the `{` at p.yaml:8:7 is not closed yet",
    );
}

#[test]
fn a_bracket_not_closed() {
    check(
        &policy(
            r"  mode: [heal
",
        ),
        r"error: expected `,` or `]` here
  --> p.yaml:6:14
   |
 6 |   mode: [heal
   |              ^
   = put a text that holds `,`, `{`, `}`, `[` or `]` in quotes
   = the `[` at p.yaml:6:9 is not closed yet",
    );
}

#[test]
fn a_colon_in_a_text() {
    check(
        &version(
            r"    - path: /etc/a
      content: {inline: a}
      owner: a: b
",
        ),
        r"error: no field can begin here
   --> p.yaml:10:15
    |
 10 |       owner: a: b
    |               ^
    = put a text that holds `: ` in quotes; look whether the indentation is what it should be",
    );
}

#[test]
fn no_space_after_a_colon() {
    check(
        &policy(
            r"  guard: {backoff:{first: 2s}}
",
        ),
        r"error: no space after this `:`
  --> p.yaml:6:18
   |
 6 |   guard: {backoff:{first: 2s}}
   |                  ^
   = write a space there",
    );
}

#[test]
fn wrong_indentation() {
    check(
        &policy(
            r" mode: heal
",
        ),
        r"error: expected another field of the mapping here
  --> p.yaml:6:2
   |
 6 |  mode: heal
   |  ^
   = indent with spaces, all fields of a mapping and all items of a list by the same number",
    );
}

#[test]
fn a_field_without_a_colon() {
    check(
        &policy(
            r"  mode
  guard: {}
",
        ),
        r"error: a field's name without `:` before this
  --> p.yaml:7:3
   |
 7 |   guard: {}
   |   ^
   = write `name: value`; put a text of several lines in quotes, or begin it with `|`",
    );
}

#[test]
fn a_list_on_the_line_of_its_field() {
    check(
        &policy(
            r"  mode: - heal
",
        ),
        r"error: no list can begin here
  --> p.yaml:6:9
   |
 6 |   mode: - heal
   |         ^
   = begin it on a line of its own, or write it as `[…, …]`",
    );
}

#[test]
fn an_alias_without_an_anchor() {
    check(
        &policy(
            r"  mode: *mode
",
        ),
        r"error: an alias without an anchor
  --> p.yaml:6:9
   |
 6 |   mode: *mode
   |         ^
   = a text that begins with `*` needs quotes; an anchor stands before its aliases, in the same
     document",
    );
}

#[test]
fn an_alias_of_itself() {
    check(
        r"a: &a [*a]
",
        r"error: an alias within what it stands for
  --> p.yaml:1:8
   |
 1 | a: &a [*a]
   |        ^^
   = a policy cannot contain itself",
    );
}

#[test]
fn an_unknown_escape() {
    check(
        &policy(
            r#"  mode: "a\q"
"#,
        ),
        r#"error: an escape that YAML does not know, in this text
  --> p.yaml:6:9
   |
 6 |   mode: "a\q"
   |         ^
   = write `\\` for a backslash, or use single quotes, where a backslash is a backslash"#,
    );
}

#[test]
fn surrogate_pairs() {
    check(
        &policy(
            r#"  mode: "\ud83d\ude00"
"#,
        ),
        r#"error: an escape that is no character, in this text
  --> p.yaml:6:9
   |
 6 |   mode: "\ud83d\ude00"
   |         ^
   = YAML knows no surrogate pairs: write the character itself, or all of it as in `\U0001F600`"#,
    );
}

#[test]
fn a_text_that_needs_quotes() {
    check(
        &policy(
            r"  mode: %x
",
        ),
        r"error: a text without quotes cannot begin like this
  --> p.yaml:6:9
   |
 6 |   mode: %x
   |         ^
   = put the text in quotes",
    );
}

#[test]
fn text_after_a_document() {
    check(
        r"{}
...
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
...
x: y
- z
",
        r"error: missing field `apiVersion`
  --> p.yaml:1:1
   |
 1 | {}
   | ^

error: missing field `kind`
  --> p.yaml:1:1
   |
 1 | {}
   | ^

error: expected another field of the mapping here
   --> p.yaml:10:3
    |
 10 | - z
    |   ^
    = indent with spaces, all fields of a mapping and all items of a list by the same number",
    );
}
