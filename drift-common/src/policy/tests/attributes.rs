//! Extended attributes, access lists, labels, capabilities, flags.

use super::{check, policy, read, version};
use crate::policy::{Attributes, FileCapabilities, Flags, PolicyVersion, Principal, Wanted};

/// The version that a file `/etc/a` with `rest` makes, `rest` at six columns.
fn file(rest: &str) -> String {
    version(&format!(
        "    - path: /etc/a\n      content: {{inline: a}}\n{rest}"
    ))
}

#[track_caller]
fn active(text: &str) -> PolicyVersion {
    let (lineages, problems) = read(&(text.to_owned() + "---\n" + &policy("")));
    assert!(problems.is_empty(), "{problems}");
    lineages.expect("no problems")[0].active().clone()
}

#[track_caller]
fn of_file(rest: &str) -> Attributes {
    active(&file(rest)).files.remove(0).attributes
}

#[test]
fn what_is_not_said_is_left_alone() {
    assert!(of_file("").is_empty());
    let attributes = of_file("      flags: []\n      acl: []\n      capabilities: none\n");
    assert_eq!(attributes.flags, Some(Flags::default()));
    assert_eq!(attributes.acl, Wanted::Absent);
    assert_eq!(attributes.capabilities, Wanted::Absent);
    assert!(!attributes.is_empty());
}

#[test]
fn extended_attributes_have_a_text_bytes_or_are_not_there() {
    let attributes = of_file(
        "      xattrs:\n        user.origin: web\n        user.empty: \"\"\n        user.raw: {base64: AAH/}\n        trusted.gone: {absent: true}\n        security.ima: {base64: BA==}\n",
    );
    let xattrs: Vec<_> = attributes.xattrs.into_iter().collect();
    let value = |bytes: &[u8]| Some(bytes.to_vec());
    assert_eq!(
        xattrs,
        [
            ("security.ima".to_owned(), value(&[4])),
            ("trusted.gone".to_owned(), None),
            ("user.empty".to_owned(), value(b"")),
            ("user.origin".to_owned(), value(b"web")),
            ("user.raw".to_owned(), value(&[0, 1, 0xff])),
        ]
    );
}

#[test]
fn an_access_list_is_a_text_or_a_list_and_its_order_does_not_count() {
    let list = of_file(
        "      mode: \"2660\"\n      acl: [other::---, 'm:rw', 'group::r--', 'u:7:---', user:alice:rw-, 'group:adm:r', 'user::rw-']\n",
    );
    let text = of_file(
        "      mode: \"2660\"\n      acl: |\n        # file: etc/a\n        user::rw-\n        user:alice:rw-\n        user:7:---\n        group::r--\t#effective:r--\n        group:adm:r--\n        mask::rw-\n        other::---\n",
    );
    let line = of_file(
        "      mode: \"2660\"\n      acl: user::rw-,user:alice:rw,group::r,group:adm:4,u:7:0,mask::6,other::-\n",
    );
    assert_eq!(list, text);
    assert_eq!(list, line);
    let Wanted::Present(acl) = list.acl else {
        panic!("{list:?}")
    };
    let who: Vec<_> = acl.users.iter().map(|(who, _)| who.value.clone()).collect();
    assert_eq!(who, [Principal::Id(7), Principal::Name("alice".into())]);
    assert_eq!(acl.mode(), 0o660);
}

#[test]
fn a_directory_has_a_default_list_and_a_link_little() {
    let text = version("    []\n").replace("  files:\n    []\n", "  files: []\n")
        + "  directories:\n    - {path: /d, mode: \"0755\", flags: [append, immutable], defaultAcl: 'user::rwx,group::rx,other::-', acl: [], selinux: 'u:r:t:s0:c1,c2'}\n  symlinks:\n    - {path: /l, target: x, selinux: 'u:r:t', xattrs: {trusted.x: '1'}}\n";
    let version = active(&text);
    let directory = &version.directories[0].attributes;
    assert_eq!(
        directory.flags,
        Some(Flags {
            immutable: true,
            append: true
        })
    );
    assert!(matches!(&directory.default_acl, Wanted::Present(acl) if acl.mode() == 0o750));
    assert_eq!(directory.selinux.as_deref(), Some("u:r:t:s0:c1,c2"));
    let link = &version.symlinks[0].attributes;
    assert_eq!(link.selinux.as_deref(), Some("u:r:t"));
    assert_eq!(link.xattrs.len(), 1);
}

#[test]
fn capabilities_are_what_they_mean() {
    let said = |text: &str| of_file(&format!("      capabilities: {text}\n")).capabilities;
    let expected = FileCapabilities::parse("cap_net_raw=ep").expect("one");
    for text in [
        "cap_net_raw=ep",
        "cap_net_raw+pe",
        "CAP_NET_RAW=p cap_net_raw+e",
    ] {
        assert_eq!(said(text), Wanted::Present(expected), "{text}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_with_what_to_write_instead() {
    check(
        &file(
            r"      mode: 640
      xattrs:
        user.n: 7
        user.null:
        user.b: {base64: '?'}
        user.c: {absent: false}
        usr.d: x
        security.selinux: x
        system.posix_acl_access: x
        trusted.overlay.opaque: 'y'
      acl: [user::rw-, usr:alice:r--, 'user:al ice:r--', 'group::rwz', 'default:user::rwx', mask::r--, mask::r--]
      selinux: etc_t
      capabilities: cap_net_rw=ep
      flags: [immutable, apend]
",
        ),
        r#"error: expected a text at `spec.files[0].xattrs.user.n`, found a number
   --> p.yaml:12:17
    |
 12 |         user.n: 7
    |                 ^
    = put it in quotes

error: expected a value at `spec.files[0].xattrs.user.null`, found nothing
   --> p.yaml:13:18
    |
 13 |         user.null:
    |                  ^
    = an empty one is written `""`; one that must not be there, `{absent: true}`

error: this is not base64
   --> p.yaml:14:26
    |
 14 |         user.b: {base64: '?'}
    |                          ^^^
    = write what `base64 FILE` prints

error: an attribute that may be there is left alone
   --> p.yaml:15:26
    |
 15 |         user.c: {absent: false}
    |                          ^^^^^
    = write `absent: true`, or remove the attribute

error: `usr.d` cannot be the name of an extended attribute
   --> p.yaml:16:9
    |
 16 |         usr.d: x
    |         ^^^^^
    = names begin with `user.`, `trusted.` or `security.`, and have at most 255 bytes

error: `security.selinux` is declared by a field of its own
   --> p.yaml:17:9
    |
 17 |         security.selinux: x
    |         ^^^^^^^^^^^^^^^^
    = write it as `selinux`

error: `system.posix_acl_access` is declared by a field of its own
   --> p.yaml:18:9
    |
 18 |         system.posix_acl_access: x
    |         ^^^^^^^^^^^^^^^^^^^^^^^
    = write it as `acl`

error: `trusted.overlay.opaque` belongs to the overlay file system itself
   --> p.yaml:19:9
    |
 19 |         trusted.overlay.opaque: 'y'
    |         ^^^^^^^^^^^^^^^^^^^^^^
    = remove it

error: `usr:alice:r--` is not an entry of an access list, did you mean `user`?
   --> p.yaml:20:24
    |
 20 |       acl: [user::rw-, usr:alice:r--, 'user:al ice:r--', 'group::rwz', 'default:user::rwx', …
    |                        ^^^^^^^^^^^^^
    = write entries as `getfacl` prints them, as in `user::rw-`, `user:alice:r--`, `group::r--`,
      `mask::r--`, `other::---`

error: `al ice` cannot be the name of a user
   --> p.yaml:20:39
    |
 20 | …l: [user::rw-, usr:alice:r--, 'user:al ice:r--', 'group::rwz', 'default:user::rwx', mask::r-…
    |                                ^^^^^^^^^^^^^^^^^
    = write the name as it is in /etc/passwd or /etc/group, or the id

error: `group::rwz` does not say what is permitted
   --> p.yaml:20:58
    |
 20 | …, usr:alice:r--, 'user:al ice:r--', 'group::rwz', 'default:user::rwx', mask::r--, mask::r--]
    |                                      ^^^^^^^^^^^^
    = write `r`, `w` and `x`, or `-` in their place

error: `default:user::rwx` is about what will be made in the directory
   --> p.yaml:20:72
    |
 20 | …, usr:alice:r--, 'user:al ice:r--', 'group::rwz', 'default:user::rwx', mask::r--, mask::r--]
    |                                                    ^^^^^^^^^^^^^^^^^^^
    = write it in `defaultAcl`, without `default:`

error: `mask::r--` is the second of its kind
   --> p.yaml:20:104
    |
 20 | …, usr:alice:r--, 'user:al ice:r--', 'group::rwz', 'default:user::rwx', mask::r--, mask::r--]
    |                                                                                    ^^^^^^^^^
    = remove one of them

error: `etc_t` is not a label
   --> p.yaml:21:16
    |
 21 |       selinux: etc_t
    |                ^^^^^
    = write it as `ls -Z` prints it, as in `system_u:object_r:etc_t:s0`

error: there is no capability `cap_net_rw`, did you mean `cap_net_raw`?
   --> p.yaml:22:21
    |
 22 |       capabilities: cap_net_rw=ep
    |                     ^^^^^^^^^^^^^
    = write it as `getcap` prints it, as in `cap_net_raw=ep`; a file that has none, `none`

error: unknown flag `apend`, did you mean `append`?
   --> p.yaml:23:26
    |
 23 |       flags: [immutable, apend]
    |                          ^^^^^
    = allowed here: immutable, append"#,
    );
}

/// Names of attributes are anybody's text, also on the way to what is wrong beneath them.
#[test]
fn a_strange_name_is_shown_safely_and_not_at_length() {
    let long = "x".repeat(5000);
    let text = file(&format!(
        "      xattrs: {{\"user.\\u202e\\e[2J\": 7, user.{long}: null}}\n"
    ));
    let (_, problems) = read(&text);
    let shown = problems.to_string();
    assert!(
        shown.contains(r"`spec.files[0].xattrs.user.\u{202e}\x1b[2J`"),
        "{shown}"
    );
    assert!(shown.contains("`spec.files[0].xattrs.user.xxxx"), "{shown}");
    assert!(!shown.contains(|c| crate::escape::is_deceptive(c) && c != '\n'));
    assert!(shown.len() < 3000, "{}", shown.len());
}

#[test]
fn access_lists_that_cannot_be() {
    check(
        &version(
            r#"    - {path: /a, content: {inline: a}, acl: [user::rw-, 'user:7:r'], mode: "0644"}
    - {path: /b, content: {inline: a}, acl: 'user::rw,group::r,other::-,user:7:r,u:7:-,mask::r'}
    - {path: /c, content: {inline: a}, acl: ''}
    - {path: /d, content: {inline: a}, acl: 7}
    - {path: /e, content: {inline: a}, acl: 'user::rw,group::r,other::-,user:7:r,mask::rw', mode: "2640"}
    - {path: /f, content: {inline: a}, acl: 'user::rw,group::r,other::-', mode: 600}
    - {path: /g, content: {inline: a}, capabilities: 'cap_chown=ep cap_kill=p'}
    - {path: /h, content: {inline: a}, capabilities: cap_chown}
    - {path: /i, content: {inline: a}, capabilities: '='}
    - {path: /j, content: {inline: a}, defaultAcl: []}
  symlinks:
    - {path: /k, target: x, acl: [], xattrs: {user.a: b}}
"#,
        ),
        r#"error: the access list has no `group::`, no `mask::`, no `other::`
  --> p.yaml:8:45
   |
 8 |     - {path: /a, content: {inline: a}, acl: [user::rw-, 'user:7:r'], mode: "0644"}
   |                                             ^
   = user::, group:: and other:: are always there, mask:: where others are named

error: `7` has two entries
  --> p.yaml:9:45
   |
 9 | … - {path: /b, content: {inline: a}, acl: 'user::rw,group::r,other::-,user:7:r,u:7:-,mask::r'}
   |                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   = remove one of them

error: there is no entry in it
   --> p.yaml:10:45
    |
 10 |     - {path: /c, content: {inline: a}, acl: ''}
    |                                             ^^
    = where nobody is named beside those of the mode, write `[]`

error: expected a list of entries, or a text at `spec.files[3].acl`, found the number `7`
   --> p.yaml:11:45
    |
 11 |     - {path: /d, content: {inline: a}, acl: 7}
    |                                             ^

error: the access list says mask::rw- where the mode has r--
   --> p.yaml:12:45
    |
 12 | …/e, content: {inline: a}, acl: 'user::rw,group::r,other::-,user:7:r,mask::rw', mode: "2640"}
    |                                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    = this list comes with the mode "2660": the mode's group bits are the mask's, where there is one

error: the access list says group::r-- where the mode has ---
   --> p.yaml:13:45
    |
 13 |     - {path: /f, content: {inline: a}, acl: 'user::rw,group::r,other::-', mode: 600}
    |                                             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    = this list comes with the mode "0640": the mode's group bits are the mask's, where there is one

error: no file can have `cap_chown=ep cap_kill=p`: in effect are all that it gives, or none
   --> p.yaml:14:54
    |
 14 |     - {path: /g, content: {inline: a}, capabilities: 'cap_chown=ep cap_kill=p'}
    |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^
    = give each capability the flag `e`, or none of them

error: `cap_chown` is not a file's capabilities
   --> p.yaml:15:54
    |
 15 |     - {path: /h, content: {inline: a}, capabilities: cap_chown}
    |                                                      ^^^^^^^^^
    = write it as `getcap` prints it, as in `cap_net_raw=ep`; a file that has none, `none`

error: `=` gives nothing
   --> p.yaml:16:54
    |
 16 |     - {path: /i, content: {inline: a}, capabilities: '='}
    |                                                      ^^^
    = write `none`

error: unknown field `defaultAcl`
   --> p.yaml:17:40
    |
 17 |     - {path: /j, content: {inline: a}, defaultAcl: []}
    |                                        ^^^^^^^^^^
    = allowed here: path, pathBytes, through, content, mode, owner, group, xattrs, selinux, acl,
      flags, capabilities, onDrift, severity, redact, maxSize, finalNewline, lineEndings, hardLinks,
      write, compare, afterHeal

error: unknown field `acl`
   --> p.yaml:19:29
    |
 19 |     - {path: /k, target: x, acl: [], xattrs: {user.a: b}}
    |                             ^^^
    = allowed here: path, pathBytes, through, target, owner, group, xattrs, selinux, onDrift,
      severity

error: a symbolic link cannot have the attribute `user.a`
   --> p.yaml:19:47
    |
 19 |     - {path: /k, target: x, acl: [], xattrs: {user.a: b}}
    |                                               ^^^^^^
    = only `trusted.` and `security.` ones can be on a link itself"#,
    );
}
