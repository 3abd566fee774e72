//! What a version is, however it is written.

use super::{parse, source};
use crate::policy::{Content, Document, MAX_CONTENT, Problems, canonical};

/// The canonical form of the version that `text` declares, and its digest.
#[track_caller]
fn identity(text: &str) -> (String, String) {
    let mut problems = Problems::default();
    let documents = parse(&source(text), &mut problems);
    assert!(problems.is_empty(), "{problems}");
    let [Document::Version(version)] = &documents[..] else {
        panic!("a version")
    };
    let contents: Vec<blake3::Hash> = version
        .files
        .iter()
        .map(|file| match &file.content.value {
            Content::Inline(text) => blake3::hash(text.as_bytes()),
            Content::Packed(packed) => blake3::hash(&packed.unpack(MAX_CONTENT).expect("checked")),
            // As if that were its content.
            Content::File(path) => blake3::hash(path.as_os_str().as_encoded_bytes()),
            Content::Blob(digest) => *digest,
            Content::Kept(kept) => blake3::hash(kept.key.as_bytes()),
        })
        .collect();
    (
        canonical(version, &contents),
        version.digest(&contents).to_string(),
    )
}

const PLAIN: &str = r#"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files:
    - path: /etc/a
      content: {inline: "a"}
      mode: "0644"
      owner: root
      group: 0
      finalNewline: ignore
    - path: /etc/b
      content: {inline: "a"}
"#;

#[test]
fn the_canonical_form_is_what_the_documents_say_it_is() {
    let (form, digest) = identity(PLAIN);
    let a = blake3::hash(b"a");
    assert_eq!(
        form,
        format!(
            r#"{{"files":[{{"content":"blake3:{a}","finalNewline":"ignore","group":0,"mode":"0644","owner":"root","path":"/etc/a"}},{{"content":"blake3:{a}","path":"/etc/b"}}],"form":1,"policy":"web","version":"1.2.0"}}"#
        )
    );
    // Written down: it must never change by accident.
    assert_eq!(
        digest,
        "8fabe2332b7bab935960f226880e606e5fc931919262e47be9d7f7e73a5537fa"
    );
}

#[test]
fn the_same_meaning_has_the_same_digest() {
    let plain = identity(PLAIN);
    #[track_caller]
    fn check(plain: &(String, String), text: &str) {
        assert_eq!(identity(text), *plain, "{text}");
    }
    // Another formatting, another order of keys and files, JSON, aliases, defaults written out, other metadata, another encoding.
    check(
        &plain,
        r#"{"kind": "PolicyVersion", "spec": {"version": "1.2.0+build.7", "files": [
            {"content": {"base64": "YQ=="}, "path": "/etc/b", "compare": "exact", "severity": "warning", "redact": "keys", "hardLinks": "report", "write": "replace"},
            {"owner": "root", "mode": 644, "group": "0", "content": {"dataUrl": "data:,%61"}, "finalNewline": "ignore", "pathBytes": "L2V0Yy9h"}
          ], "policy": "web"}, "metadata": {"name": "other", "labels": {"x": "y"}}, "apiVersion": "configdrift.io/v1alpha1"}"#,
    );
    check(
        &plain,
        &PLAIN
            .replacen("{inline: \"a\"}", "&content {inline: a}", 1)
            .replacen("{inline: \"a\"}", "*content", 1)
            .replace("\n", "   # a comment\n"),
    );
}

#[test]
fn links_and_directories_have_a_part_in_it() {
    let with = |rest: &str| identity(&(PLAIN.to_owned() + rest)).1;
    let one = "  symlinks: [{path: /l, target: /dev/null}]\n  directories: [{path: /d, exhaustive: true, ignore: [b, a]}]\n";
    let plain = with(one);
    assert_eq!(
        plain,
        with(
            "  directories: [{path: /d, ignore: [a, b], exhaustive: true, onUnexpected: report}]\n  masks: [{path: /l}]\n"
        )
    );
    for (from, to) in [
        ("/dev/null", "/dev/zero"),
        ("/l", "/m"),
        ("exhaustive: true", "exhaustive: true, onUnexpected: remove"),
        ("exhaustive: true, ignore: [b, a]", "mode: 755"),
        ("[b, a]", "[b]"),
        (
            "symlinks: [{path: /l, target: /dev/null}]",
            "absent: [{path: /l}]",
        ),
    ] {
        assert_ne!(with(&one.replace(from, to)), plain, "{to}");
    }
}

#[test]
fn attributes_have_a_part_in_it_by_what_they_mean() {
    let with = |rest: &str| identity(&PLAIN.replace("      finalNewline: ignore\n", rest));
    let one = "      xattrs: {user.a: web, user.b: {absent: true}}\n      acl: [user::rw-, 'user:alice:r--', 'user:7:r--', group::r--, mask::r--, other::r--]\n      selinux: u:r:t\n      capabilities: cap_net_raw=ep\n      flags: [immutable]\n";
    let (form, plain) = with(one);
    assert!(
        form.contains(
            r#"{"acl":["user::rw-","user:7:r--","user:alice:r--","group::r--","mask::r--","other::r--"],"capabilities":"cap_net_raw=ep","content":"#
        ) && form.contains(
            r#","flags":["immutable"],"group":0,"mode":"0644","owner":"root","path":"/etc/a","selinux":"u:r:t","xattrs":{"user.a":"d2Vi","user.b":null}}"#
        ),
        "{form}"
    );
    for (from, to) in [
        ("web", "{base64: d2Vi}"),
        ("cap_net_raw=ep", "cap_net_raw+pe"),
        ("[user::rw-, 'user:alice:r--'", "['user:alice:4', 'u::rw'"),
        ("[immutable]", "[immutable, immutable]"),
    ] {
        assert_eq!(with(&one.replace(from, to)).1, plain, "{to}");
    }
    for (from, to) in [
        ("web", "wed"),
        ("{absent: true}", "''"),
        ("cap_net_raw=ep", "cap_net_raw=p"),
        ("cap_net_raw=ep", "none"),
        ("'user:7:r--'", "'group:7:r--'"),
        ("u:r:t", "u:r:v"),
        ("[immutable]", "[]"),
        ("      flags: [immutable]\n", ""),
    ] {
        assert_ne!(with(&one.replace(from, to)).1, plain, "{to}");
    }
}

#[test]
fn another_meaning_has_another_digest() {
    let (_, plain) = identity(PLAIN);
    for (from, to) in [
        ("version: 1.2.0", "version: 1.2.1"),
        ("version: 1.2.0", "version: 1.2.0-rc.1"),
        ("policy: web", "policy: ssh"),
        ("/etc/b", "/etc/c"),
        ("{inline: \"a\"}", "{inline: \"b\"}"),
        ("0644", "0640"),
        ("owner: root", "owner: 0"),
        ("group: 0", "group: root"),
        ("finalNewline: ignore", "finalNewline: exact"),
        ("finalNewline: ignore", "lineEndings: ignore"),
        ("finalNewline: ignore", "onDrift: heal"),
        ("finalNewline: ignore", "onDrift: observe"),
        ("finalNewline: ignore", "severity: info"),
        ("finalNewline: ignore", "redact: all"),
        ("finalNewline: ignore", "maxSize: 1MiB"),
        ("finalNewline: ignore", "hardLinks: allow"),
        ("finalNewline: ignore", "write: inPlace"),
        ("finalNewline: ignore", "compare: {format: yaml}"),
        ("finalNewline: ignore", "afterHeal: [{reload: a.service}]"),
    ] {
        let text = PLAIN.replace(from, to);
        assert_ne!(text, PLAIN);
        assert_ne!(identity(&text).1, plain, "{to}");
    }
}
