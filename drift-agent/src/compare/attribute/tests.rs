use std::{ffi::CString, io::ErrorKind};

use super::*;
use crate::{
    compare::{Drift, differences},
    declare::{Attributes, Content, Flags, Target, sample},
    observe::{Found, Known, Stat, Times},
    report::FileType,
};

const IMMUTABLE: Flags = Flags {
    immutable: true,
    append: false,
};

/// Everything that can be declared, each of them with a value that is right and one that is wrong.
fn named() -> Vec<(&'static str, Expect, Reading, Reading)> {
    let capabilities = |text| FileCapabilities::parse(text).unwrap();
    let value = |bytes: &[u8]| Reading::Value(bytes.to_vec());
    let list = |mode| Acl {
        mask: Some(7),
        ..Acl::of_mode(mode)
    };
    vec![
        (
            "system.posix_acl_access",
            Expect::Access(list(0o640)),
            value(&list(0o640).to_xattr()),
            value(&list(0o600).to_xattr()),
        ),
        (
            "system.posix_acl_default",
            Expect::Default(list(0o640)),
            value(&list(0o640).to_xattr()),
            Reading::Absent,
        ),
        (
            "user.there",
            Expect::Value(b"v".to_vec()),
            value(b"v"),
            value(b"w"),
        ),
        ("user.gone", Expect::Absent, Reading::Absent, value(b"")),
        (
            "security.selinux",
            Expect::Label("a:b:c".into()),
            value(b"a:b:c\0"),
            value(b"a:b:d\0"),
        ),
        (
            "security.capability",
            Expect::Capabilities(capabilities("cap_kill=ep")),
            value(&capabilities("cap_kill+pe").to_xattr()),
            value(&capabilities("cap_kill=p").to_xattr()),
        ),
    ]
}

fn stat(mode: u32, uid: u32, gid: u32, flags: Option<Flags>) -> Stat {
    Stat {
        file_type: FileType::File,
        mode,
        uid,
        gid,
        size: 1,
        links: 1,
        flags,
        ino: 1,
        dev: (0, 1),
        times: Times {
            mtime: (0, 0),
            ctime: (0, 0),
        },
    }
}

fn look(stat: Stat, attributes: Vec<Reading>) -> Observed {
    Observed {
        found: Found::File(Some(blake3::hash(b"x"))),
        body: None,
        lines: None,
        held: None,
        stat: Some(stat),
        attributes,
        known: Known::default(),
        writers: 0,
    }
}

/// B067: every combination of what is declared and of what is wrong. No switch has a say in another's.
#[test]
fn each_switch_counts_by_itself_in_every_combination() {
    let table = named();
    let switches = table.len() + 5;
    // Each switch is off, on, or on and wrong; all of them in all ways would be 4^11.
    let all = (1u32 << (2 * switches)) - 1;
    let declared_all = (0..switches).fold(0, |bits, index| bits | 1 << (2 * index));
    let wrong_all = declared_all << 1;
    let spread = |pattern: u32| {
        (0..switches).fold(0, |bits, index| {
            bits | (pattern >> index & 1) << (2 * index)
        })
    };
    // Every set of declared ones with every one wrong, every set of wrong ones with every one declared, and both sets the same or opposite.
    let sets = (0..1u32 << switches).flat_map(|pattern| {
        let set = spread(pattern);
        let rest = declared_all & !set;
        [
            set,
            set | wrong_all,
            declared_all | set << 1,
            set << 1,
            set | set << 1,
            set | rest << 1,
        ]
    });
    // Every three switches in all ways.
    let threes = (0..switches).flat_map(|a| {
        (a..switches).flat_map(move |b| {
            (b..switches).flat_map(move |c| {
                (0..64u32).map(move |ways| {
                    (ways & 3) << (2 * a) | (ways >> 2 & 3) << (2 * b) | (ways >> 4) << (2 * c)
                })
            })
        })
    });
    for bits in sets.chain(threes) {
        assert!(bits <= all);
        let is_declared = |index: usize| bits >> (2 * index) & 1 == 1;
        let is_wrong = |index: usize| bits >> (2 * index + 1) & 1 == 1;
        let [content, mode, uid, gid, flags] = [0, 1, 2, 3, 4].map(|n| table.len() + n);
        let mut declared = sample::declared("/etc/f", sample::file(b"x"));
        let mut observed = look(
            stat(
                if is_wrong(mode) { 0o600 } else { 0o640 },
                u32::from(is_wrong(uid)),
                u32::from(is_wrong(gid)),
                Some(if is_wrong(flags) {
                    Flags::default()
                } else {
                    IMMUTABLE
                }),
            ),
            Vec::new(),
        );
        if is_wrong(content) {
            observed.found = Found::File(Some(blake3::hash(b"y")));
        }
        // The content is always declared.
        declared.mode = is_declared(mode).then_some(0o640);
        declared.uid = is_declared(uid).then_some(0);
        declared.gid = is_declared(gid).then_some(0);
        declared.attributes.flags = is_declared(flags).then_some(IMMUTABLE);
        for (index, (name, expect, right, wrong)) in named().into_iter().enumerate() {
            if is_declared(index) {
                let name = CString::new(name).unwrap();
                declared.attributes.named.push(Attribute { name, expect });
                observed
                    .attributes
                    .push(if is_wrong(index) { wrong } else { right });
            }
        }
        let both = |index: usize| is_declared(index) && is_wrong(index);
        let mut expected = Vec::new();
        if is_wrong(content) {
            expected.push(Drift::Content);
        }
        if both(mode) {
            expected.push(Drift::Mode);
        }
        if both(uid) || both(gid) {
            expected.push(Drift::Owner);
        }
        if both(flags) || (0..table.len()).any(both) {
            expected.push(Drift::Xattr);
        }
        assert_eq!(differences(&declared, &observed), expected, "{bits:b}");
    }
}

#[test]
fn what_each_reading_means_to_each_expectation() {
    use Verdict::{Other, Same, Unknown, Unsupported};
    let denied = ErrorKind::PermissionDenied;
    for (name, expect, right, wrong) in named() {
        let not_there = if expect == Expect::Absent {
            Same
        } else {
            Other
        };
        let unsupported = if expect == Expect::Absent {
            Same
        } else {
            Unsupported
        };
        for (reading, expected) in [
            (right, Same),
            (wrong, Other),
            (Reading::Absent, not_there),
            (Reading::Unsupported, unsupported),
            (Reading::Failed(denied), Unknown(denied)),
            // No list, no capabilities, another label.
            (Reading::Value(b"?".to_vec()), Other),
        ] {
            assert_eq!(
                verdict(&expect, &reading, 0o640),
                expected,
                "{name} {reading:?}"
            );
        }
    }
    // Where there are no lists, a mode can be all of one.
    let plain = Expect::Access(Acl::of_mode(0o640));
    for reading in [Reading::Absent, Reading::Unsupported] {
        assert_eq!(verdict(&plain, &reading, 0o4640), Same);
        assert_eq!(verdict(&plain, &reading, 0o600), Other);
    }
    // A label without its closing NUL is the same one.
    let label = Expect::Label("a:b:c".into());
    assert_eq!(verdict(&label, &Reading::Value(b"a:b:c".to_vec()), 0), Same);
}

#[test]
fn what_cannot_be_read_is_unreadable_and_what_cannot_be_had_is_out_of_reach() {
    let mut declared = sample::declared("/etc/f", sample::file(b"x"));
    declared.attributes = Attributes {
        named: vec![Attribute {
            name: c"user.k".to_owned(),
            expect: Expect::Value(b"v".to_vec()),
        }],
        flags: Some(IMMUTABLE),
    };
    let right = stat(0o644, 0, 0, Some(IMMUTABLE));
    let denied = Reading::Failed(ErrorKind::PermissionDenied);
    let observed = look(right, vec![denied]);
    assert_eq!(differences(&declared, &observed), [Drift::Unreadable]);
    assert!(!out_of_reach(&declared, &observed));

    let mut observed = look(right, vec![Reading::Unsupported]);
    assert_eq!(differences(&declared, &observed), [Drift::Xattr]);
    assert!(out_of_reach(&declared, &observed));
    observed.stat = Some(stat(0o644, 0, 0, None));
    assert!(out_of_reach(&declared, &observed));
    observed.stat = Some(stat(0o644, 0, 0, Some(Flags::default())));
    assert!(!out_of_reach(&declared, &observed), "the flag can be set");
}

#[test]
fn attributes_do_not_count_where_something_else_stands() {
    let mut declared = sample::declared("/etc/f", Target::File(Content::exact((*b"x").into())));
    declared.attributes.flags = Some(IMMUTABLE);
    let mut observed = look(stat(0o644, 0, 0, Some(Flags::default())), Vec::new());
    observed.found = Found::Other(FileType::Fifo);
    assert_eq!(differences(&declared, &observed), [Drift::Type]);
}
