//! What takes a drift to be one, what is said of it, and what follows.

use super::{check, policy, read, version};
use crate::policy::{Compare, Document, FileSpec, Heed, Mode, Problems, Redact, Severity, parse};

#[test]
fn what_can_be_said_of_a_file() {
    let files = version(
        "    - path: /etc/a\n      content: {inline: a}\n      onDrift: observe\n      severity: critical\n      redact: all\n      maxSize: 64KiB\n      finalNewline: ignore\n      lineEndings: ignore\n      compare: exact\n    - path: /etc/b\n      content: {inline: a}\n",
    );
    let (lineages, problems) = read(&(files + "---\n" + &policy("")));
    assert!(problems.is_empty(), "{problems}");
    let lineages = lineages.expect("no problems");
    let [a, b] = &lineages[0].active().files[..] else {
        panic!("two files")
    };
    let said = |file: &FileSpec| {
        (
            file.on_drift,
            file.severity,
            file.redact,
            file.max_size.as_ref().map(|size| size.value),
            (file.final_newline, file.line_endings),
            file.compare.value.clone(),
        )
    };
    assert_eq!(
        said(a),
        (
            Some(Mode::Observe),
            Severity::Critical,
            Redact::All,
            Some(64 << 10),
            (Heed::Ignore, Heed::Ignore),
            Compare::Exact
        )
    );
    assert_eq!(
        said(b),
        (
            None,
            Severity::Warning,
            Redact::Keys,
            None,
            (Heed::Exact, Heed::Exact),
            Compare::Exact
        )
    );
}

#[test]
fn words_that_are_not_known() {
    check(
        &version(
            r"    - path: /etc/a
      content: {inline: a}
      onDrift: haal
      severity: high
      redact: key
      maxSize: 2000MiB
      finalNewline: ignored
      compare: bytes
    - path: /etc/b
      content: {inline: a}
      maxSize: 1k
",
        ),
        r"error: unknown mode `haal`, did you mean `heal`?
   --> p.yaml:10:16
    |
 10 |       onDrift: haal
    |                ^^^^
    = allowed here: observe, heal

error: unknown severity `high`
   --> p.yaml:11:17
    |
 11 |       severity: high
    |                 ^^^^
    = allowed here: info, warning, error, critical

error: unknown redaction `key`, did you mean `keys`?
   --> p.yaml:12:15
    |
 12 |       redact: key
    |               ^^^
    = allowed here: none, keys, all

error: `2000MiB` is not a possible size
   --> p.yaml:13:16
    |
 13 |       maxSize: 2000MiB
    |                ^^^^^^^
    = write 1 to 1024MiB

error: unknown rule `ignored`, did you mean `ignore`?
   --> p.yaml:14:21
    |
 14 |       finalNewline: ignored
    |                     ^^^^^^^
    = allowed here: exact, ignore

error: unknown comparison `bytes`
   --> p.yaml:15:16
    |
 15 |       compare: bytes
    |                ^^^^^
    = allowed here: exact

error: `1k` is not a size
   --> p.yaml:18:16
    |
 18 |       maxSize: 1k
    |                ^^
    = write whole numbers, as in `512`, `64KiB`, `1MiB`",
    );
}

#[test]
fn what_nobody_acts_on_yet_is_refused() {
    let text = version(
        r"    - path: /etc/a
      content: {inline: a}
  environment:
    - {process: /usr/bin/app, variables: [{name: LANG, value: C}, {name: X, absent: true}]}
",
    );
    check(
        &(text + "---\n" + &policy("")),
        r"error: `environment` is not supported yet
   --> p.yaml:11:17
    |
 11 |     - {process: /usr/bin/app, variables: [{name: LANG, value: C}, {name: X, absent: true}]}
    |                 ^^^^^^^^^^^^
    = this drift-agent would not act on it: remove it, or use one that does",
    );
}

#[test]
fn rules_actions_and_requirements_are_checked_all_the_same() {
    check(
        &version(
            r"    - path: /etc/a
      content: {inline: a}
      compare: {format: jsn, sets: [a], ignore: [/a~b], equal: [{at: /a, as: numbr}]}
      afterHeal:
        - {signal: KILL, unit: nginx.service}
        - {reload: nginx}
        - {command: []}
        - {command: [reload], signal: HUP}
        - {http: 'http://10.0.0.1/reload', timeout: 0s}
  environment:
    - {process: app, variables: [{name: A=B, value: a}, {name: X}]}
  dependencies:
    - {policy: base, version: latest}
",
        ),
        r"error: unknown format `jsn`, did you mean `json`?
   --> p.yaml:10:25
    |
 10 |       compare: {format: jsn, sets: [a], ignore: [/a~b], equal: [{at: /a, as: numbr}]}
    |                         ^^^
    = allowed here: yaml, json, json5, toml, ini, env, keyvalue

error: `a` is not a JSON pointer
   --> p.yaml:10:37
    |
 10 |       compare: {format: jsn, sets: [a], ignore: [/a~b], equal: [{at: /a, as: numbr}]}
    |                                     ^
    = write the keys on the way, each after a `/`, as in `/spec/ports/0`

error: `/a~b` is not a JSON pointer
   --> p.yaml:10:50
    |
 10 |       compare: {format: jsn, sets: [a], ignore: [/a~b], equal: [{at: /a, as: numbr}]}
    |                                                  ^^^^
    = in a key, `~` is written `~0` and `/` is written `~1`

error: unknown rule `numbr`, did you mean `number`?
   --> p.yaml:10:78
    |
 10 |       compare: {format: jsn, sets: [a], ignore: [/a~b], equal: [{at: /a, as: numbr}]}
    |                                                                              ^^^^^
    = allowed here: number, quantity, bool, duration, caseInsensitive

error: unknown signal `KILL`
   --> p.yaml:12:20
    |
 12 |         - {signal: KILL, unit: nginx.service}
    |                    ^^^^
    = allowed here: HUP, USR1, USR2, TERM, INT

error: `nginx` is not the name of a unit
   --> p.yaml:13:20
    |
 13 |         - {reload: nginx}
    |                    ^^^^^
    = write it whole, as in `nginx.service`

error: a command needs a program
   --> p.yaml:14:21
    |
 14 |         - {command: []}
    |                     ^
    = write a list, as in `[/usr/sbin/nginx, -s, reload]`; there is no shell

error: missing field `unit`, `pidFile` or `process` in `spec.files[0].afterHeal[3]`
   --> p.yaml:15:11
    |
 15 |         - {command: [reload], signal: HUP}
    |           ^

error: `reload` is not an absolute path
   --> p.yaml:15:22
    |
 15 |         - {command: [reload], signal: HUP}
    |                      ^^^^^^
    = write the whole path, as in `/reload`

error: only one of `signal`, `reload`, `restart`, `command` or `http` can be given in
       `spec.files[0].afterHeal[3]`
   --> p.yaml:15:31
    |
 15 |         - {command: [reload], signal: HUP}
    |                               ^^^^^^

error: `http://10.0.0.1/reload` is no address on this machine
   --> p.yaml:16:18
    |
 16 |         - {http: 'http://10.0.0.1/reload', timeout: 0s}
    |                  ^^^^^^^^^^^^^^^^^^^^^^^^
    = write it as in `http://127.0.0.1:8080/reload` or `http://[::1]:8080/reload`: only the machine
      itself is asked

error: nothing can be waited for so long
   --> p.yaml:16:53
    |
 16 |         - {http: 'http://10.0.0.1/reload', timeout: 0s}
    |                                                     ^^
    = write more than 0s, and at most 600s

error: `app` is not an absolute path
   --> p.yaml:18:17
    |
 18 |     - {process: app, variables: [{name: A=B, value: a}, {name: X}]}
    |                 ^^^
    = write the whole path, as in `/app`

error: `A=B` cannot be the name of a variable
   --> p.yaml:18:41
    |
 18 |     - {process: app, variables: [{name: A=B, value: a}, {name: X}]}
    |                                         ^^^
    = write it as in `LANG`, without its value

error: missing field `value` or `absent` in `spec.environment[0].variables[1]`
   --> p.yaml:18:57
    |
 18 |     - {process: app, variables: [{name: A=B, value: a}, {name: X}]}
    |                                                         ^

error: `latest` is not a range of versions
   --> p.yaml:20:31
    |
 20 |     - {policy: base, version: latest}
    |                               ^^^^^^
    = write it as in `1.2.0` (and what is compatible), `=1.2.0`, `>=1.2.0, <2.0.0`",
    );
}

#[test]
fn rules_that_are_right_are_read() {
    let text = version(
        "    - path: /etc/a\n      content: {inline: a}\n      compare: {format: yaml, sets: [\"#1/a\"], manage: [/a/*], absent: empty}\n",
    );
    let mut problems = Problems::default();
    let documents = parse(&super::source(&text), &mut problems);
    assert!(problems.is_empty(), "{problems}");
    let [Document::Version(version)] = &documents[..] else {
        panic!("a version")
    };
    let Compare::Structured(rules) = &version.files[0].compare.value else {
        panic!("rules")
    };
    assert_eq!(rules.sets, ["#1/a"]);
    assert_eq!(rules.manage.as_deref(), Some(&["/a/*".to_owned()][..]));
}
