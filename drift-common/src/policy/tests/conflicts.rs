//! Documents that are right each by itself.

use super::{check, policy, version};

#[test]
fn an_active_version_that_is_not_there() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: a}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.3.0
",
        r"error: `web` has no version 1.3.0
   --> p.yaml:15:18
    |
 15 |   activeVersion: 1.3.0
    |                  ^^^^^
    = versions of `web`: 1.2.0",
    );
}

#[test]
fn a_policy_without_versions() {
    check(
        &policy(r""),
        r"error: `web` has no version 1.2.0
  --> p.yaml:5:18
   |
 5 |   activeVersion: 1.2.0
   |                  ^^^^^
   = there is no PolicyVersion with `policy: web`",
    );
}

#[test]
fn a_version_of_a_misspelt_policy() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: wbe
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: a}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
",
        r"error: there is no Policy named `wbe`, did you mean `web`?
  --> p.yaml:5:11
   |
 5 |   policy: wbe
   |           ^^^
   = policies here: web

error: `web` has no version 1.2.0
   --> p.yaml:15:18
    |
 15 |   activeVersion: 1.2.0
    |                  ^^^^^
    = there is no PolicyVersion with `policy: web`",
    );
}

#[test]
fn a_version_without_its_policy() {
    check(
        &version(
            r"    - path: /etc/a
      content: {inline: a}
",
        ),
        r"error: there is no Policy named `web`
  --> p.yaml:5:11
   |
 5 |   policy: web
   |           ^^^
   = add a document with `kind: Policy`, this name and `activeVersion: 1.2.0`",
    );
}

#[test]
fn documents_declared_twice() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: a}
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: a}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.3.0
  files:
    - path: /etc/a
      content: {inline: a}
",
        r"error: version 1.2.0 of `web` is declared twice
   --> p.yaml:16:12
    |
 16 |   version: 1.2.0
    |            ^^^^^
    = first declared at p.yaml:6:12

error: the policy `web` is declared twice
   --> p.yaml:29:18
    |
 29 | metadata: {name: web}
    |                  ^^^
    = first declared at p.yaml:23:18

error: the PolicyVersion `web-1.2.0` is declared twice
   --> p.yaml:35:18
    |
 35 | metadata: {name: web-1.2.0}
    |                  ^^^^^^^^^
    = first declared at p.yaml:3:18
    = each needs a name of its own, as in `web-1.3.0`",
    );
}

#[test]
fn versions_that_differ_in_build_metadata_only() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: a}
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: b}
spec:
  policy: web
  version: 1.2.0+b
  files:
    - path: /etc/a
      content: {inline: a}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
",
        r"error: version 1.2.0 of `web` is declared twice
   --> p.yaml:16:12
    |
 16 |   version: 1.2.0+b
    |            ^^^^^^^
    = first declared at p.yaml:6:12",
    );
}

#[test]
fn a_path_twice_in_one_version() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: a}
    - path: /etc/a
      content: {inline: b}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
",
        r"error: `/etc/a` is declared twice by `web` 1.2.0
   --> p.yaml:10:13
    |
 10 |     - path: /etc/a
    |             ^^^^^^
    = first declared at p.yaml:8:13",
    );
}

#[test]
fn a_path_of_two_policies() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: a}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: ssh-1.2.0}
spec:
  policy: ssh
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: a}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: ssh}
spec:
  activeVersion: 1.2.0
",
        r"error: `/etc/a` is declared by two policies, `web` 1.2.0 and `ssh` 1.2.0
   --> p.yaml:24:13
    |
 24 |     - path: /etc/a
    |             ^^^^^^
    = first declared at p.yaml:8:13
    = only one policy can have a path: remove it from the other",
    );
}

#[test]
fn a_path_beneath_a_file() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: a}
    - path: /etc/a/b
      content: {inline: b}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
",
        r"error: `/etc/a/b` cannot be beneath `/etc/a`, which is declared as a file
   --> p.yaml:10:13
    |
 10 |     - path: /etc/a/b
    |             ^^^^^^^^
    = declared as a file at p.yaml:8:13",
    );
}

#[test]
fn a_path_beneath_a_file_of_another_policy() {
    check(
        r"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: a}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: ssh-1.2.0}
spec:
  policy: ssh
  version: 1.2.0
  files:
    - path: /etc/a/b/c
      content: {inline: a}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: ssh}
spec:
  activeVersion: 1.2.0
",
        r"error: `/etc/a/b/c` cannot be beneath `/etc/a`, which is declared as a file
   --> p.yaml:24:13
    |
 24 |     - path: /etc/a/b/c
    |             ^^^^^^^^^^
    = declared as a file at p.yaml:8:13",
    );
}
