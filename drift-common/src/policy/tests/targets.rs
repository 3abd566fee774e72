//! Links, directories, and paths at which nothing may be.

use std::path::Path;

use super::{check, policy, read, version};
use crate::policy::{OnUnexpected, Severity};

/// A version without files, its spec going on with `rest` at line 8.
fn without_files(rest: &str) -> String {
    version("    []\n").replace("  files:\n    []\n", "  files: []\n") + rest
}

#[test]
fn what_can_be_at_a_path() {
    let text = without_files(
        "  symlinks:\n    - {path: /l, target: ../x, owner: root}\n  masks:\n    - {path: /m, severity: error}\n  absent:\n    - {pathBytes: L2H/}\n  directories:\n    - {path: /d, mode: \"0755\"}\n    - {path: /d/e, exhaustive: true, ignore: ['*.bak'], onUnexpected: remove}\n    - {path: /d/f, exhaustive: false}\n",
    );
    let (lineages, problems) = read(&(text + "---\n" + &policy("")));
    assert!(problems.is_empty(), "{problems}");
    let lineages = lineages.expect("no problems");
    let version = lineages[0].active();
    let [link, mask] = &version.symlinks[..] else {
        panic!("two links")
    };
    assert_eq!(link.target, Path::new("../x"));
    assert_eq!(
        (&*mask.target, mask.severity),
        (Path::new("/dev/null"), Severity::Error)
    );
    assert_eq!(version.absent.len(), 1);
    let [d, e, f] = &version.directories[..] else {
        panic!("three directories")
    };
    assert_eq!(
        (d.mode, &d.exhaustive, &f.exhaustive),
        (Some(0o755), &None, &None)
    );
    let exhaustive = e.exhaustive.as_ref().expect("said");
    assert_eq!(exhaustive.ignore.patterns(), ["*.bak"]);
    assert_eq!(exhaustive.on_unexpected, OnUnexpected::Remove);
}

#[test]
fn what_cannot_be_said_of_them() {
    check(
        &without_files(
            "  symlinks:\n    - {path: /l}\n    - {path: /k, target: ''}\n  absent:\n    - {path: /a, mode: \"0644\"}\n  directories:\n    - {path: /d, ignore: ['*.bak'], onUnexpected: delete}\n    - {path: /e, exhaustive: yes}\n    - {path: /f, exhaustive: true, ignore: ['a/b', '[']}\n",
        ),
        r#"error: missing field `target` in `spec.symlinks[0]`
  --> p.yaml:9:7
   |
 9 |     - {path: /l}
   |       ^

error: `` cannot be what a link holds
   --> p.yaml:10:26
    |
 10 |     - {path: /k, target: ''}
    |                          ^^
    = write it as `readlink` prints it

error: unknown field `mode`
   --> p.yaml:12:18
    |
 12 |     - {path: /a, mode: "0644"}
    |                  ^^^^
    = allowed here: path, pathBytes, through, onDrift, severity

error: `ignore` says something only of an exhaustive directory
   --> p.yaml:14:7
    |
 14 |     - {path: /d, ignore: ['*.bak'], onUnexpected: delete}
    |       ^
    = add `exhaustive: true`, or remove it

error: `onUnexpected` says something only of an exhaustive directory
   --> p.yaml:14:7
    |
 14 |     - {path: /d, ignore: ['*.bak'], onUnexpected: delete}
    |       ^
    = add `exhaustive: true`, or remove it

error: unknown rule `delete`
   --> p.yaml:14:51
    |
 14 |     - {path: /d, ignore: ['*.bak'], onUnexpected: delete}
    |                                                   ^^^^^^
    = allowed here: report, remove

error: expected `true` or `false` at `spec.directories[1].exhaustive`, found the text `yes`
   --> p.yaml:15:30
    |
 15 |     - {path: /e, exhaustive: yes}
    |                              ^^^

error: `a/b` is not a pattern: it matches no name in the directory
   --> p.yaml:16:45
    |
 16 |     - {path: /f, exhaustive: true, ignore: ['a/b', '[']}
    |                                             ^^^^^
    = write the names in the directory as shells do, as in `*.bak`

error: `[` is not a pattern: unclosed character class; missing ']'
   --> p.yaml:16:52
    |
 16 |     - {path: /f, exhaustive: true, ignore: ['a/b', '[']}
    |                                                    ^^^
    = write the names in the directory as shells do, as in `*.bak`"#,
    );
}

#[test]
fn a_path_is_one_thing_and_only_a_directory_holds_others() {
    check(
        &(without_files(
            "  symlinks:\n    - {path: /l, target: x}\n  absent:\n    - {path: /a}\n    - {path: /l/x}\n    - {path: /d/a}\n  directories:\n    - {path: /d}\n    - {path: /a/d}\n    - {path: /l}\n",
        ) + "---\n"
            + &policy("")),
        r"error: `/l/x` cannot be beneath `/l`, which is declared as a symbolic link
   --> p.yaml:12:14
    |
 12 |     - {path: /l/x}
    |              ^^^^
    = declared as a symbolic link at p.yaml:9:14

error: `/a/d` cannot be beneath `/a`, which is declared as absent
   --> p.yaml:16:14
    |
 16 |     - {path: /a/d}
    |              ^^^^
    = declared as absent at p.yaml:11:14

error: `/l` is declared twice by `web` 1.2.0
   --> p.yaml:17:14
    |
 17 |     - {path: /l}
    |              ^^
    = first declared at p.yaml:9:14",
    );
}
