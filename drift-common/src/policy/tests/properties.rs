//! What holds for any text and any document.

use std::{ffi::OsString, num::NonZero, os::unix::ffi::OsStringExt, path::PathBuf, time::Duration};

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

/// Whatever the text, its problems can be shown, and stand in it.
fn holds(text: &str) -> Result<(), TestCaseError> {
    let (_, problems) = read(text);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = text.split('\n').collect();
    for problem in problems.sorted() {
        let Position { line, column, .. } = problem.at;
        prop_assert!(line >= 1 && column >= 1);
        let there = lines.get(line as usize - 1);
        prop_assert!(there.is_some(), "{} has no line {line}", lines.len());
        let columns = there.map_or(0, |line| line.chars().count());
        prop_assert!(
            column as usize <= columns + 1,
            "{} {column}",
            problem.one_line()
        );
        for line in problem.to_string().lines() {
            prop_assert!(unicode_width::UnicodeWidthStr::width(line) <= 100, "{line}");
            prop_assert!(!line.contains(crate::escape::is_deceptive), "{line:?}");
        }
    }
    Ok(())
}

/// Pieces that YAML and policies are made of, and ones that are in the way.
fn pieces() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "a",
        "b: ",
        ": ",
        "- ",
        "? ",
        "\n",
        "\n  ",
        "\n    ",
        " ",
        "\t",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&a ",
        "*a",
        "!",
        "!!str ",
        "!!int ",
        "|\n",
        ">-\n",
        "'",
        "\"",
        "\\",
        "\\x4",
        "\\u",
        "#",
        " # c\n",
        "---\n",
        "...\n",
        "%TAG ! b\n",
        "%YAML 1.2\n",
        "é",
        "配",
        "\u{feff}",
        "\u{202e}",
        "\r",
        "\r\n",
        "~",
        "0644",
        "1.2.0",
        "<<: ",
        "\0",
        "\u{85}",
        "apiVersion: ",
        "configdrift.io/v1alpha1",
        "kind: Policy\n",
        "kind: PolicyVersion\n",
        "kind: List\n",
        "items:\n",
        "metadata: ",
        "{name: web}\n",
        "spec:\n",
        "policy: web\n",
        "version: 1.2.0\n",
        "activeVersion: 1.2.0\n",
        "files:\n",
        "path: /etc/a\n",
        "content: ",
        "{inline: a}\n",
        "mode: ",
        "guard: ",
        "backoff: ",
        "first: 2s",
        "xattrs: ",
        "acl: ",
        "user::rw-",
        "capabilities: ",
        "cap_chown=ep",
        "through: ",
        "[{path: /etc, target: ../x}]\n",
        "flags: [immutable]\n",
    ]);
    vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?(\\.[a-z0-9]{1,4})?"
}

fn number() -> impl Strategy<Value = Version> {
    "[0-9]\\.[1-9][0-9]{0,3}\\.(0|[1-9])(-rc\\.[0-9])?(\\+[a-z0-9]{1,5})?"
        .prop_map(|text| text.parse().expect("a semantic version"))
}

fn path() -> impl Strategy<Value = PathBuf> {
    let byte = prop_oneof![8 => b'a'..=b'z', 1 => select(&b" \n\"\\'#:\xc3\xa9\xff\x1b.-{%"[..])];
    let name = vec(byte, 1..12).prop_filter("a name", |name| name != b"." && name != b"..");
    vec(name, 1..5).prop_map(|names| {
        let path: Vec<u8> = names
            .iter()
            .flat_map(|name| [b"/", &name[..]].concat())
            .collect();
        OsString::from_vec(path).into()
    })
}

fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => "[ -~]{0,20}",
        1 => "[ \t]{0,3}",
        1 => any::<String>(),
        1 => select(vec!["", "- a", "# b", "---", "...", "a: b", " x", "\u{feff}", "é\u{202e}", "\r"]).prop_map(String::from),
    ];
    vec(line, 0..6).prop_map(|lines| lines.join("\n"))
}

fn spanned<T>(value: T) -> Spanned<T> {
    let at = source("").place(1, 1, 1);
    Spanned { value, at }
}

fn principal() -> impl Strategy<Value = Spanned<Principal>> {
    prop_oneof![
        (0..u32::MAX).prop_map(Principal::Id),
        "[a-z_][a-z0-9_-]{0,8}[$]?".prop_map(Principal::Name),
    ]
    .prop_map(spanned)
}

/// What else can be said of a file.
fn said() -> Vec<FileSpec> {
    let plain = "    - {path: /a, content: {inline: a}}\n";
    let all = r#"    - path: /a
      content: {gzip: H4sIAAAAAAACA0tMSk5JTQMA7zmOSwYAAAA=}
      onDrift: heal
      severity: critical
      redact: all
      maxSize: 1MiB
      finalNewline: ignore
      hardLinks: allow
      write: inPlace
      xattrs: {"user.a: b": "x y", user.b: {base64: //8=}, trusted.c: {absent: true}, user.d: "é\u202e"}
      acl: ["user::rw-", "user:7:r--", "user:a-b:r--", "group::r--", "mask::r--", "other::r--"]
      selinux: "system_u:object_r:etc_t:s0:c1,c2"
      capabilities: cap_chown,cap_kill=ip cap_bpf=p [rootid=7]
      flags: [append]
      compare: {format: json, sets: ["/a~1b"], ignore: ["", /b/*], equal: [{at: /c, as: quantity}], manage: ["/x y"], absent: "null", keys: anyCase}
      afterHeal:
        - {signal: HUP, unit: nginx.service}
        - {signal: USR1, process: /usr/sbin/nginx}
        - {reload: a@b.service}
        - {restart: c.timer}
        - {command: [/bin/x, "a b"], timeout: 1m}
"#;
    let files = [plain, all].map(|items| unchecked(items).files);
    files.into_iter().flatten().collect()
}

/// What else than files a version can declare.
fn others() -> Vec<PolicyVersion> {
    let all = r#"    []
  symlinks:
    - {path: "/a b", target: "../x y", owner: root, group: 7}
    - {pathBytes: L2H/, through: [], target: /x, onDrift: observe, selinux: "u:r:t", xattrs: {trusted.x: y}}
  masks: [{path: /m, severity: info}]
  absent: [{path: /n}, {path: /o, onDrift: heal, severity: critical}, {path: /n/o, through: [{path: /n, target: "."}]}]
  directories:
    - {path: /d, mode: "1777", owner: 0}
    - {path: /g, acl: [], defaultAcl: ["u::7", "g::5", "o::0"], flags: [], xattrs: {user.x: y}}
    - {path: /e, exhaustive: true, ignore: ["*.bak", "{a,b}", "[0-9]"], onUnexpected: remove}
    - {path: /f, exhaustive: true}
    - {path: /h/i, through: [{pathBytes: L2g=, target: "/x y"}, {path: "/x y", target: a//./b/}], exhaustive: true}
"#;
    ["    []\n", all].into_iter().map(unchecked).collect()
}

/// A version with these items, whether the agent acts on all of it or not.
fn unchecked(items: &str) -> PolicyVersion {
    let text = version(items).replace("files:\n    []", "files: []");
    let mut problems = Problems::default();
    let mut documents = parse(&source(&text), &mut problems);
    assert!(problems.is_empty(), "{problems}");
    match documents.pop() {
        Some(Document::Version(version)) => version,
        other => panic!("{other:?}"),
    }
}

prop_compose! {
    fn file()(
        path in path(),
        content in prop_oneof![
            3 => text().prop_map(|text| Content::Inline(text.into())),
            1 => "[a-z]{1,5}(/[a-z .]{0,5}[a-z])?".prop_map(|path| Content::File(path.into())),
            1 => any::<[u8; 32]>().prop_map(|bytes| Content::Blob(blake3::Hash::from_bytes(bytes))),
            1 => (any::<bool>(), "[a-z]([a-z.-]{0,5}[a-z])?".prop_filter("a name", |name| is_name(name)), "[a-zA-Z._-]{1,6}").prop_map(|(is_secret, name, key)| Content::Kept(Kept {
                by: if is_secret { Keeper::Secret } else { Keeper::ConfigMap },
                name: name.into(),
                key: key.into(),
            })),
            1 => "data:,[a-z :#{},-]{0,20}".prop_map(|text| Content::Packed(Packed { encoding: Encoding::DataUrl, text: text.into() })),
        ],
        mode in option::of(0_u32..0o10000),
        owner in option::of(principal()),
        group in option::of(principal()),
        said in select(said()),
    ) -> FileSpec {
        let (path, content) = (spanned(path), spanned(content));
        // A mode and an access list have to agree.
        let mode = match &said.attributes.acl {
            Wanted::Present(acl) => mode.map(|mode| mode & 0o7000 | acl.mode()),
            Wanted::LeftAlone | Wanted::Absent => mode,
        };
        FileSpec { path, content, mode, owner, group, ..said }
    }
}

/// Selectors and rollouts, each once.
fn rollouts() -> Vec<(NodeSelector, Option<Rollout>)> {
    let share = |version: &str, weight| Share {
        version: spanned(version.parse().expect("a version")),
        weight,
    };
    let labels = [
        ("topology.kubernetes.io/zone", "a"),
        ("gpu", ""),
        ("no", "0"),
    ];
    vec![
        (NodeSelector::new(), None),
        (
            labels
                .map(|(label, value)| (label.to_owned(), value.to_owned()))
                .into(),
            Some(Rollout::Canary(share("1.0.0-rc.1", 0))),
        ),
        (
            NodeSelector::new(),
            Some(Rollout::Arms(vec![
                ("a".to_owned(), share("1.0.0", 100)),
                ("null".to_owned(), share("2.0.0", 0)),
            ])),
        ),
    ]
}

fn document() -> impl Strategy<Value = Document> {
    let version = (
        name(),
        name(),
        number(),
        vec(file(), 0..5),
        select(others()),
    )
        .prop_map(|(name, policy, version, files, others)| {
            Document::Version(PolicyVersion {
                name: spanned(name),
                policy: spanned(policy),
                version: spanned(version),
                files,
                symlinks: others.symlinks,
                absent: others.absent,
                directories: others.directories,
                environment: Vec::new(),
                dependencies: Vec::new(),
            })
        });
    let millis = || (0_u64..100_000_000).prop_map(Duration::from_millis);
    let backoff = (millis(), 1_u32..=1000, millis()).prop_map(|(a, factor, b)| Backoff {
        first: a.min(b),
        factor,
        cap: a.max(b),
    });
    let mode = select(vec![Mode::Observe, Mode::Heal]);
    let fight = (2_u32..=100, millis(), millis()).prop_map(|(heals, within, hold)| Fight {
        heals,
        within,
        hold,
    });
    let mass_drift = select(vec![MassDrift::Hold, MassDrift::Heal]);
    let time = || {
        (0_u8..24, 0_u8..60)
            .prop_filter_map("a time", |(hour, minute)| ClockTime::new(hour, minute))
    };
    let days = vec(0_usize..7, 1..7).prop_filter_map("days", Days::of);
    let kind = select(vec![WindowKind::Allow, WindowKind::Deny]);
    let zone = select(vec!["UTC", "Europe/Berlin", "Etc/GMT+1"]);
    let window =
        (kind, days, time(), time(), zone).prop_map(|(kind, days, from, to, zone)| Window {
            kind,
            days,
            from,
            to,
            zone: spanned(zone.to_owned()),
        });
    let windows = vec(window, 0..3);
    let guard = (backoff, 0_u32..=1_000_000, mass_drift, fight, windows).prop_map(
        |(backoff, per_minute, mass_drift, fight, windows)| Guard {
            // Without a first wait there is no fight, unless it is said what one is.
            fight: (!backoff.first.is_zero() || fight.heals > 50).then_some(fight),
            backoff,
            per_minute: NonZero::new(per_minute),
            mass_drift,
            windows,
        },
    );
    let on_remove = select(vec![OnRemove::Leave, OnRemove::Remove]);
    let evidence = select(vec![Evidence::None, Evidence::Content, Evidence::Inode]);
    let policy = (
        name(),
        number(),
        mode,
        on_remove,
        guard,
        evidence,
        select(rollouts()),
    )
        .prop_map(
            |(name, version, mode, on_remove, guard, evidence, (node_selector, rollout))| {
                Document::Policy(Policy {
                    name: spanned(name),
                    active_version: spanned(version),
                    mode,
                    on_remove,
                    guard,
                    evidence,
                    node_selector,
                    rollout,
                })
            },
        );
    prop_oneof![version, policy]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_text_is_read_or_refused_where_it_is_wrong(text in any::<String>()) {
        holds(&text)?;
    }

    #[test]
    fn any_yaml_is_read_or_refused_where_it_is_wrong(text in pieces()) {
        holds(&text)?;
    }

    #[test]
    fn a_policy_with_an_accident_is_read_or_refused_where_it_is_wrong(
        document in document(), at in any::<prop::sample::Index>(), gone in 0_usize..4, new in pieces()
    ) {
        let mut text = render(&[document]).to_string();
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let from = at.index(ends.len());
        let to = (from + gone).min(ends.len() - 1);
        text.replace_range(ends[from]..ends[to], &new[..new.char_indices().nth(3).map_or(new.len(), |(at, _)| at)]);
        holds(&text)?;
    }

    #[test]
    fn what_is_rendered_is_read_as_the_same(documents in vec(document(), 0..4)) {
        let text = render(&documents).to_string();
        let mut problems = Problems::default();
        let read = parse(&source(&text), &mut problems);
        prop_assert!(problems.is_empty(), "{problems}\n{text}");
        prop_assert_eq!(read, documents, "{}", text);
    }
}
