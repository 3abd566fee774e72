//! Fields whose value is wrong.

use super::{check, policy, version};

#[test]
fn file_modes_are_octal() {
    check(
        &version(
            r"    - path: /etc/a
      content: {inline: a}
      mode: rw-r--r--
    - path: /etc/b
      content: {inline: a}
      mode: 0888
    - path: /etc/c
      content: {inline: a}
      mode: 17777
",
        ),
        r#"error: `rw-r--r--` is not a file mode
   --> p.yaml:10:13
    |
 10 |       mode: rw-r--r--
    |             ^^^^^^^^^
    = write the octal digits that chmod takes, as in "0644" or "4755"

error: `0888` is not a file mode
   --> p.yaml:13:13
    |
 13 |       mode: 0888
    |             ^^^^
    = write the octal digits that chmod takes, as in "0644" or "4755"

error: `17777` is not a file mode
   --> p.yaml:16:13
    |
 16 |       mode: 17777
    |             ^^^^^
    = write the octal digits that chmod takes, as in "0644" or "4755""#,
    );
}

#[test]
fn users_and_groups() {
    check(
        &version(
            r#"    - path: /etc/a
      content: {inline: a}
      owner: 4294967295
      group: "a b"
    - path: /etc/b
      content: {inline: a}
      owner: -1
      group: [x]
"#,
        ),
        r#"error: `4294967295` is too large for the id of a user
   --> p.yaml:10:14
    |
 10 |       owner: 4294967295
    |              ^^^^^^^^^^
    = ids go up to 4294967294

error: `a b` cannot be the name of a group
   --> p.yaml:11:14
    |
 11 |       group: "a b"
    |              ^^^^^
    = write the name as it is in /etc/passwd or /etc/group, or the id

error: `-1` cannot be the name of a user
   --> p.yaml:14:14
    |
 14 |       owner: -1
    |              ^^
    = write the name as it is in /etc/passwd or /etc/group, or the id

error: expected the name or id of a group at `spec.files[1].group`, found a list
   --> p.yaml:15:14
    |
 15 |       group: [x]
    |              ^"#,
    );
}

#[test]
fn versions_are_semantic() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: v1.2
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: latest
",
        r"error: `v1.2` is not a semantic version
  --> p.yaml:6:12
   |
 6 |   version: v1.2
   |            ^^^^
   = write `1.2.0`

error: `latest` is not a semantic version
   --> p.yaml:12:18
    |
 12 |   activeVersion: latest
    |                  ^^^^^^
    = three numbers without leading zeros, and perhaps a pre-release: `1.2.0`, `1.2.0-rc.1`",
    );
}

#[test]
fn a_version_that_is_a_number_to_yaml() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: ssh}
spec:
  activeVersion: 1
",
        r"error: `1.2` is not a semantic version
  --> p.yaml:5:18
   |
 5 |   activeVersion: 1.2
   |                  ^^^
   = write `1.2.0`

error: `1` is not a semantic version
   --> p.yaml:11:18
    |
 11 |   activeVersion: 1
    |                  ^
    = write `1.0.0`",
    );
}

#[test]
fn names_are_those_of_kubernetes() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: Web_1}
spec:
  activeVersion: 1.2.0
",
        r"error: `Web_1` cannot be a name
  --> p.yaml:3:18
   |
 3 | metadata: {name: Web_1}
   |                  ^^^^^
   = a name has lower-case letters, digits, `-` and `.`, a letter or digit at both ends and beside
     each `.`, and at most 253 of them",
    );
}

#[test]
fn durations_have_units() {
    check(
        &policy(
            r"  guard:
    backoff: {first: 2, factor: 0, cap: 5 min}
",
        ),
        r"error: `2` is not a duration
  --> p.yaml:7:22
   |
 7 |     backoff: {first: 2, factor: 0, cap: 5 min}
   |                      ^
   = write the unit: `2s`

error: expected a whole number from 1 to 1000 at `spec.guard.backoff.factor`, found the number `0`
  --> p.yaml:7:33
   |
 7 |     backoff: {first: 2, factor: 0, cap: 5 min}
   |                                 ^

error: `5 min` is not a duration
  --> p.yaml:7:41
   |
 7 |     backoff: {first: 2, factor: 0, cap: 5 min}
   |                                         ^^^^^
   = write whole numbers with units (h, m, s, ms), as in `500ms`, `2s`, `5m`, `1h30m`",
    );
}

#[test]
fn a_backoff_begins_below_its_cap() {
    check(
        &policy(
            r"  guard: {backoff: {first: 10m}}
",
        ),
        r"error: the first back-off of 600s is longer than the cap of 300s
  --> p.yaml:6:28
   |
 6 |   guard: {backoff: {first: 10m}}
   |                            ^^^
   = raise `cap` or lower `first`",
    );
}

#[test]
fn a_word_of_a_closed_set() {
    check(
        &policy(
            r"  mode: Heal
",
        ),
        r"error: unknown mode `Heal`, did you mean `heal`?
  --> p.yaml:6:9
   |
 6 |   mode: Heal
   |         ^^^^
   = allowed here: observe, heal",
    );
}

#[test]
fn paths_have_one_spelling() {
    check(
        &version(
            r#"    - {path: etc/a, content: {inline: a}}
    - {path: /etc//a, content: {inline: a}}
    - {path: /etc/./a, content: {inline: a}}
    - {path: /etc/x/../a, content: {inline: a}}
    - {path: /etc/a/, content: {inline: a}}
    - {path: /, content: {inline: a}}
    - {path: "", content: {inline: a}}
    - {path: "/a\0b", content: {inline: a}}
    - {path: ~/x, content: {inline: a}}
"#,
        ),
        r#"error: `etc/a` is not an absolute path
  --> p.yaml:8:14
   |
 8 |     - {path: etc/a, content: {inline: a}}
   |              ^^^^^
   = write the whole path, as in `/etc/a`

error: `/etc//a` has an empty component (`//`)
  --> p.yaml:9:14
   |
 9 |     - {path: /etc//a, content: {inline: a}}
   |              ^^^^^^^
   = write `/etc/a`

error: `/etc/./a` has the component `.`
   --> p.yaml:10:14
    |
 10 |     - {path: /etc/./a, content: {inline: a}}
    |              ^^^^^^^^
    = write `/etc/a`

error: `/etc/x/../a` has the component `..`
   --> p.yaml:11:14
    |
 11 |     - {path: /etc/x/../a, content: {inline: a}}
    |              ^^^^^^^^^^^
    = write `/etc/a`

error: `/etc/a/` has a closing `/`
   --> p.yaml:12:14
    |
 12 |     - {path: /etc/a/, content: {inline: a}}
    |              ^^^^^^^
    = write `/etc/a`

error: `/` is no file
   --> p.yaml:13:14
    |
 13 |     - {path: /, content: {inline: a}}
    |              ^
    = declare the files beneath it

error: an empty path
   --> p.yaml:14:14
    |
 14 |     - {path: "", content: {inline: a}}
    |              ^^
    = write the whole path, as in `/etc/app/app.conf`

error: `/a\x00b` has a NUL byte
   --> p.yaml:15:14
    |
 15 |     - {path: "/a\0b", content: {inline: a}}
    |              ^^^^^^^
    = no file system of Linux can have such a file

error: `~/x` is not an absolute path
   --> p.yaml:16:14
    |
 16 |     - {path: ~/x, content: {inline: a}}
    |              ^^^
    = `~` and variables are not replaced: write the whole path"#,
    );
}

#[test]
fn content_stays_beneath_the_policy() {
    check(
        &version(
            r"    - {path: /etc/0, content: {file: /etc/passwd}}
    - {path: /etc/1, content: {file: ../x}}
    - {path: /etc/2, content: {file: a//b}}
",
        ),
        r"error: `/etc/passwd` is not relative to this policy file
  --> p.yaml:8:38
   |
 8 |     - {path: /etc/0, content: {file: /etc/passwd}}
   |                                      ^^^^^^^^^^^
   = write where the file is beneath the folder of this policy file, as in `blobs/app.conf`

error: `../x` leads out of the policy folder
  --> p.yaml:9:38
   |
 9 |     - {path: /etc/1, content: {file: ../x}}
   |                                      ^^^^
   = write where the file is beneath the folder of this policy file, as in `blobs/app.conf`

error: `a//b` has a component that says nothing
   --> p.yaml:10:38
    |
 10 |     - {path: /etc/2, content: {file: a//b}}
    |                                      ^^^^
    = write `a/b`",
    );
}

#[test]
fn path_bytes_are_base64() {
    check(
        &version(
            r#"    - {pathBytes: "/etc/a", content: {inline: a}}
    - {pathBytes: ZXRj, content: {inline: a}}
"#,
        ),
        r#"error: `/etc/a` is not base64
  --> p.yaml:8:19
   |
 8 |     - {pathBytes: "/etc/a", content: {inline: a}}
   |                   ^^^^^^^^
   = a path that is UTF-8 is written as `path`; for the base64 of others: base64 -w0

error: `etc` is not an absolute path
  --> p.yaml:9:19
   |
 9 |     - {pathBytes: ZXRj, content: {inline: a}}
   |                   ^^^^
   = write the whole path, as in `/etc`"#,
    );
}

#[test]
fn windows_begin_on_days_and_end_at_times() {
    check(
        &policy(
            r"  guard:
    windows:
      - {days: [mon, tuesday], from: 22:00, to: 24:00}
      - {days: [], from: 6:00, to: noon, timeZone: Berlin/}
      - {kind: freeze, from: 22:00}
  evidence: all
",
        ),
        r#"error: unknown day `tuesday`
  --> p.yaml:8:22
   |
 8 |       - {days: [mon, tuesday], from: 22:00, to: 24:00}
   |                      ^^^^^^^
   = allowed here: mon, tue, wed, thu, fri, sat, sun

error: `24:00` is not a time of day
  --> p.yaml:8:49
   |
 8 |       - {days: [mon, tuesday], from: 22:00, to: 24:00}
   |                                                 ^^^^^
   = write it with quotes, as in "06:00" or "22:30"

error: a window begins on at least one day
  --> p.yaml:9:16
   |
 9 |       - {days: [], from: 6:00, to: noon, timeZone: Berlin/}
   |                ^
   = name days, as in `[mon, tue]`, or remove `days` for every day

error: `6:00` is not a time of day
  --> p.yaml:9:26
   |
 9 |       - {days: [], from: 6:00, to: noon, timeZone: Berlin/}
   |                          ^^^^
   = write it with quotes, as in "06:00" or "22:30"

error: `noon` is not a time of day
  --> p.yaml:9:36
   |
 9 |       - {days: [], from: 6:00, to: noon, timeZone: Berlin/}
   |                                    ^^^^
   = write it with quotes, as in "06:00" or "22:30"

error: `Berlin/` is not the name of a time zone
  --> p.yaml:9:52
   |
 9 |       - {days: [], from: 6:00, to: noon, timeZone: Berlin/}
   |                                                    ^^^^^^^
   = write it as the time zone database has it, as in `UTC` or `Europe/Berlin`

error: missing field `to` in `spec.guard.windows[2]`
   --> p.yaml:10:9
    |
 10 |       - {kind: freeze, from: 22:00}
    |         ^

error: unknown kind `freeze`
   --> p.yaml:10:16
    |
 10 |       - {kind: freeze, from: 22:00}
    |                ^^^^^^
    = allowed here: allow, deny

error: unknown evidence `all`
   --> p.yaml:11:13
    |
 11 |   evidence: all
    |             ^^^
    = allowed here: none, content, inode"#,
    );
}
