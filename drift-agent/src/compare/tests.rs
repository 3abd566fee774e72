use std::io::ErrorKind;

use super::*;
use crate::{
    compare::text::{TextRules, normal},
    declare::{Content, Exhaustive, Flags, Heed, sample, without_final_newline},
    observe::{Known, Stat, Times, Unexpected},
    report::FileType,
};

fn declared(mode: Option<u32>, uid: Option<u32>, gid: Option<u32>) -> Declared {
    Declared {
        mode,
        uid,
        gid,
        ..sample::declared("/etc/f", sample::file(b"x"))
    }
}

fn look(found: Found, mode: u32, uid: u32, gid: u32) -> Observed {
    Observed {
        found,
        body: None,
        lines: None,
        held: None,
        stat: Some(Stat {
            file_type: FileType::File,
            mode,
            uid,
            gid,
            size: 1,
            links: 1,
            flags: Some(Flags::default()),
            ino: 1,
            dev: (0, 1),
            times: Times {
                mtime: (0, 0),
                ctime: (0, 0),
            },
        }),
        attributes: Vec::new(),
        known: Known::default(),
        writers: 0,
        on_top: None,
    }
}

#[test]
fn what_stands_there_decides() {
    let right = Found::File(Some(blake3::hash(b"x")));
    let wrong = Found::File(Some(blake3::hash(b"y")));
    for (found, expected) in [
        (right, vec![]),
        (wrong, vec![Drift::Content]),
        (Found::File(None), vec![Drift::Content]),
        (Found::Absent, vec![Drift::Missing]),
        (Found::Relocated, vec![Drift::Relocated]),
        (
            Found::Unreadable(ErrorKind::PermissionDenied),
            vec![Drift::Unreadable],
        ),
        (Found::Unstable, vec![Drift::Unstable]),
        (Found::Other(FileType::Fifo), vec![Drift::Type]),
    ] {
        assert_eq!(
            differences(
                &declared(None, None, None),
                &look(found.clone(), 0o644, 0, 0)
            ),
            expected,
            "{found:?}"
        );
    }
}

#[test]
fn each_attribute_counts_by_itself_and_only_where_it_is_declared() {
    // B067, B152.
    // All combinations of: mode declared, mode wrong, uid declared, uid wrong, gid declared, gid wrong, content wrong.
    for bits in 0u32..128 {
        let bit = |index: u32| bits >> index & 1 == 1;
        let declared = declared(
            bit(0).then_some(0o4755),
            bit(2).then_some(5),
            bit(4).then_some(6),
        );
        let observed = look(
            Found::File(Some(blake3::hash(if bit(6) { b"y" } else { b"x" }))),
            if bit(1) { 0o755 } else { 0o4755 },
            if bit(3) { 50 } else { 5 },
            if bit(5) { 60 } else { 6 },
        );
        let drifts = differences(&declared, &observed);
        assert_eq!(drifts.contains(&Drift::Content), bit(6), "{bits:b}");
        assert_eq!(drifts.contains(&Drift::Mode), bit(0) && bit(1), "{bits:b}");
        assert_eq!(
            drifts.contains(&Drift::Owner),
            (bit(2) && bit(3)) || (bit(4) && bit(5)),
            "{bits:b}"
        );
        assert!(drifts.is_sorted());
    }
}

#[test]
fn a_final_line_end_counts_unless_it_is_said_not_to() {
    #[track_caller]
    fn check(said: &str, there: &str, ignored: bool, expected: &[Drift]) {
        let mut content = Content::exact(std::sync::Arc::from(said.as_bytes()));
        let body = |text: &str| blake3::hash(without_final_newline(text.as_bytes()));
        content.body = ignored.then(|| body(said));
        let declared = sample::declared("/etc/f", Target::File(content));
        let mut observed = look(
            Found::File(Some(blake3::hash(there.as_bytes()))),
            0o644,
            0,
            0,
        );
        observed.body = Some(body(there));
        assert_eq!(
            differences(&declared, &observed),
            expected,
            "{said:?} {there:?}"
        );
    }
    for (there, exact, ignored) in [
        ("x", true, true),
        ("x\n", false, true),
        ("x\r\n", false, true),
        ("x\n\n", false, false),
        ("x ", false, false),
        ("", false, false),
    ] {
        let kinds = |same: bool| if same { &[][..] } else { &[Drift::Content][..] };
        check("x", there, false, kinds(exact));
        check("x", there, true, kinds(ignored));
    }
    check("x\n", "x", true, &[]);
    check("", "\n", true, &[]);
    check("", "x", true, &[Drift::Content]);
}

#[test]
fn line_ends_count_unless_it_is_said_not_to() {
    #[track_caller]
    fn check(there: &str, rules: TextRules, same: bool) {
        let said = "a\nb\n";
        let digest = |text: &str| blake3::hash(&normal(text.as_bytes(), rules));
        let ignored = |heed| heed == Heed::Ignore;
        let mut content = Content::exact(std::sync::Arc::from(said.as_bytes()));
        content.lines = ignored(rules.line_endings).then(|| Box::new(digest(said)));
        let declared = sample::declared("/etc/f", Target::File(content));
        let found = Found::File(Some(blake3::hash(there.as_bytes())));
        let mut observed = look(found, 0o644, 0, 0);
        observed.lines = ignored(rules.line_endings).then(|| digest(there));
        let expected = if same { &[][..] } else { &[Drift::Content][..] };
        assert_eq!(differences(&declared, &observed), expected, "{there:?}");
    }
    let rules = |line_endings, final_newline| TextRules {
        line_endings,
        final_newline,
    };
    let (exact, lines) = (
        rules(Heed::Exact, Heed::Exact),
        rules(Heed::Ignore, Heed::Exact),
    );
    for there in ["a\r\nb\r\n", "a\r\nb\n"] {
        check(there, exact, false);
        check(there, lines, true);
    }
    for there in ["a\rb\n", "a\r\nb", "a\r\n\r\nb\r\n", "a\r\nb\r\n "] {
        check(there, lines, false);
    }
    check("a\r\nb", rules(Heed::Ignore, Heed::Ignore), true);
}

/// What can stand at a path.
fn stands() -> Vec<(&'static str, Found)> {
    let unexpected = |count: usize| {
        Found::Directory(Unexpected {
            names: (0..count).map(|n| n.to_string().into()).collect(),
            count,
        })
    };
    vec![
        ("nothing", Found::Absent),
        ("file", Found::File(Some(blake3::hash(b"x")))),
        ("other file", Found::File(Some(blake3::hash(b"y")))),
        ("huge file", Found::File(None)),
        ("link", Found::Link("/dev/null".into())),
        ("other link", Found::Link("/dev/zero".into())),
        ("directory", unexpected(0)),
        ("full directory", unexpected(2)),
        ("fifo", Found::Other(FileType::Fifo)),
        ("unreadable", Found::Unreadable(ErrorKind::PermissionDenied)),
        ("unstable", Found::Unstable),
        ("relocated", Found::Relocated),
    ]
}

#[test]
fn what_stands_there_against_every_target() {
    use Drift::{Content, LinkTarget, Missing, Relocated, Type, Unexpected, Unreadable, Unstable};
    #[track_caller]
    fn check(target: Target, expected: [Option<Drift>; 12]) {
        let declared = sample::declared("/etc/f", target);
        for ((what, found), expected) in stands().into_iter().zip(expected) {
            let drifts = differences(&declared, &look(found, 0o644, 0, 0));
            assert_eq!(
                drifts,
                Vec::from_iter(expected),
                "{what} at {:?}",
                declared.target
            );
        }
    }
    let (r, s, t) = (Some(Unreadable), Some(Unstable), Some(Type));
    let (m, l, u) = (Some(Missing), Some(Relocated), Some(Unexpected));
    let c = Some(Content);
    check(sample::file(b"x"), [m, None, c, c, t, t, t, t, t, r, s, l]);
    check(
        Target::Symlink("/dev/null".into()),
        [m, t, t, t, None, Some(LinkTarget), t, t, t, r, s, l],
    );
    check(Target::Absent, [None, u, u, u, u, u, u, u, u, u, u, l]);
    for target in [None, Some(Exhaustive::default())] {
        check(
            Target::Directory(target),
            [m, t, t, t, t, t, None, u, t, r, s, l],
        );
    }
}

#[test]
fn what_a_link_holds_is_a_text_and_not_a_path() {
    // Equal as paths; the first of them leads nowhere where `a` is a file.
    for text in ["a/", "./a", "a/.", "b/../a", "A"] {
        let declared = sample::declared("/etc/f", Target::Symlink("a".into()));
        let observed = look(Found::Link(text.into()), 0o777, 0, 0);
        assert_eq!(
            differences(&declared, &observed),
            [Drift::LinkTarget],
            "{text}"
        );
        assert_ne!(Target::Symlink("a".into()), Target::Symlink(text.into()));
    }
}

#[test]
fn of_what_cannot_be_read_the_attributes_are_compared() {
    let unreadable = || Found::Unreadable(ErrorKind::PermissionDenied);
    let mut declared = sample::declared("/etc/f", sample::file(b"x"));
    declared.mode = Some(0o644);
    declared.uid = Some(0);
    let kinds = |mode, uid| differences(&declared, &look(unreadable(), mode, uid, 0));
    assert_eq!(kinds(0o644, 0), [Drift::Unreadable]);
    assert_eq!(kinds(0o600, 0), [Drift::Mode, Drift::Unreadable]);
    assert_eq!(
        kinds(0o600, 7),
        [Drift::Mode, Drift::Owner, Drift::Unreadable]
    );
    let mut nothing = look(unreadable(), 0o600, 7, 0);
    nothing.stat = None;
    assert_eq!(differences(&declared, &nothing), [Drift::Unreadable]);
}

#[test]
fn where_nobody_can_look_nothing_is_said_to_be_unexpected() {
    let declared = sample::declared("/etc/f", Target::Absent);
    let mut observed = look(Found::Unreadable(ErrorKind::PermissionDenied), 0o644, 0, 0);
    assert_eq!(differences(&declared, &observed), [Drift::Unexpected]);
    observed.stat = None;
    assert_eq!(differences(&declared, &observed), [Drift::Unreadable]);
}
