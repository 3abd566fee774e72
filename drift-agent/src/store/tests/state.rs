//! What is known of versions and paths.

use std::{collections::BTreeSet, time::Duration};

use super::*;

const SOAK: Duration = Duration::from_secs(60);

#[test]
fn a_version_whose_digest_changes_is_refused_with_both_digests_and_what_to_do() {
    let dir = folder();
    let store = open(dir.path());
    let first = [seen("web", "1.0.0", "a"), seen("db", "1.0.0", "b")];
    store.state().admit(&first, at(0)).expect("new");
    store.state().admit(&first, at(1)).expect("known");
    drop(store);
    let store = open(dir.path());
    let changed = [
        seen("web", "1.0.0", "a"),
        seen("db", "1.0.0", "other"),
        seen("db", "2.0.0", "new"),
    ];
    let error = store.state().admit(&changed, at(2)).expect_err("changed");
    assert_eq!(error.reason(), "version-changed");
    let (known, now) = (blake3::hash(b"b"), blake3::hash(b"other"));
    assert_eq!(
        error.to_string(),
        format!(
            "version `1.0.0` of the policy `db` was {known} and is {now} now: a version never changes. Give what is new a new version number \
             and make that the active one, or put the old content back"
        )
    );
    // Nothing of what was refused is remembered.
    let other = [seen("db", "2.0.0", "newer")];
    store.state().admit(&other, at(3)).expect("not seen yet");
}

#[test]
fn names_in_sentences_are_safe_to_show() {
    let dir = folder();
    let store = open(dir.path());
    let admit = |content| {
        let seen = [seen("we\u{202e}b\n", "1.0.0", content)];
        store.state().admit(&seen, at(0))
    };
    admit("a").expect("new");
    let error = admit("b").expect_err("changed").to_string();
    assert!(error.contains("`we\\u{202e}b\\x0a`"), "{error}");
}

#[test]
fn the_last_good_version_is_one_that_was_healthy_for_the_whole_soak() {
    let dir = folder();
    let store = open(dir.path());
    let state = store.state();
    let note_of = |version, healthy, second| {
        state
            .note_health("web", version, healthy, at(second), SOAK)
            .expect("noted")
    };
    let note = |healthy, second| note_of("1.0.0", healthy, second);
    assert!(!note(true, 0), "no version is active");
    let active = [activation("web", "1.0.0", &[])];
    state.activate(&active, at(0)).expect("active");
    assert!(!note(true, 0));
    assert!(!note(true, 59));
    assert!(!note(false, 59), "a drift");
    assert!(!note(true, 60), "the soak begins anew");
    assert!(!note(true, 119));
    assert!(state.last_good().expect("read").is_empty());
    assert!(note(true, 120));
    assert!(!note(true, 200), "said once");

    let active = [activation("web", "2.0.0", &[])];
    state.activate(&active, at(300)).expect("active");
    assert!(!note(true, 300) && !note(true, 400), "it is not active");
    let note = |healthy, second| note_of("2.0.0", healthy, second);
    assert!(!note(true, 300), "another version has its own soak");
    assert!(!note(true, 330));
    assert!(!note(true, 290), "the clock was set back: it begins anew");
    assert!(!note(true, 349));
    let good = |store: &Store| store.state().last_good().expect("read")["web"].clone();
    assert_eq!(good(&store), "1.0.0");
    drop(store);

    let store = open(dir.path());
    assert_eq!(good(&store), "1.0.0", "it survives a restart");
    assert_eq!(store.state().active().expect("read")["web"], "2.0.0");
    let note = |second| {
        let noted = store
            .state()
            .note_health("web", "2.0.0", true, at(second), SOAK);
        noted.expect("noted")
    };
    assert!(!note(351), "nobody looked in between");
    assert!(note(411));
    assert_eq!(good(&store), "2.0.0");
}

#[test]
fn a_policy_that_is_gone_keeps_only_its_digests() {
    let dir = folder();
    let store = open(dir.path());
    let state = store.state();
    let digest = store.put(b"content").expect("put");
    let both = [
        activation("web", "1.0.0", &[digest]),
        activation("db", "1.0.0", &[]),
    ];
    state.activate(&both, at(0)).expect("active");
    for second in [0, 60] {
        state
            .note_health("web", "1.0.0", true, at(second), SOAK)
            .expect("noted");
    }
    assert_eq!(state.last_good().expect("read").len(), 1);
    assert!(state.needed().expect("read").contains(&digest));
    state.activate(&both[1..], at(70)).expect("active");
    assert_eq!(state.active().expect("read").len(), 1);
    assert!(state.last_good().expect("read").is_empty());
    assert!(state.needed().expect("read").is_empty());
    let changed = [seen("web", "1.0.0", "other")];
    let error = state.admit(&changed, at(80)).expect_err("known");
    assert_eq!(error.reason(), "version-changed");
}

#[test]
fn old_versions_keep_their_blobs_up_to_a_number_and_the_last_good_one_always() {
    let dir = folder();
    let store = open(dir.path());
    let state = store.state();
    let blob = |n: u64| blake3::hash(&n.to_le_bytes());
    for n in 0..20 {
        let active = [activation("web", &format!("{n}.0.0"), &[blob(n)])];
        state.activate(&active, at(n * 100)).expect("active");
        if n == 2 {
            for second in [0, 60] {
                let now = at(n * 100 + second);
                let noted = state.note_health("web", "2.0.0", true, now, SOAK);
                noted.expect("noted");
            }
        }
    }
    let needed: BTreeSet<_> = state
        .needed()
        .expect("read")
        .iter()
        .map(|d| *d.as_bytes())
        .collect();
    let expected: BTreeSet<_> = [2, 14, 15, 16, 17, 18, 19]
        .map(|n| *blob(n).as_bytes())
        .into();
    assert_eq!(needed, expected);
    // With the disk full they go one by one, the oldest first; never the active and the last good one.
    let mut released = Vec::new();
    while let Some((_, version)) = state.release_oldest().expect("released") {
        released.push(version);
    }
    assert_eq!(released, ["14.0.0", "15.0.0", "16.0.0", "17.0.0", "18.0.0"]);
    assert_eq!(state.needed().expect("read").len(), 2);
}

#[test]
fn the_number_of_versions_that_are_remembered_is_bounded() {
    let dir = folder();
    let store = open(dir.path());
    let state = store.state();
    let active = [activation("kept", "1.0.0", &[])];
    state.activate(&active, at(0)).expect("active");
    let many: Vec<_> = (0..MOST_VERSIONS)
        .map(|n| seen("web", &format!("1.0.{n}"), "x"))
        .collect();
    state.admit(&many, at(10)).expect("admitted");
    let more: Vec<_> = (0..500)
        .map(|n| seen("web", &format!("2.0.{n}"), "x"))
        .collect();
    state.admit(&more, at(20)).expect("admitted");
    let changed = [
        seen("kept", "1.0.0", "changed"),
        seen("web", "2.0.7", "changed"),
    ];
    let error = state.admit(&changed, at(30)).expect_err("both are known");
    let StoreError::VersionChanged { changed } = error else {
        panic!("{error}");
    };
    assert_eq!(changed.len(), 2);
    let size = fs::metadata(dir.path().join("state.redb"))
        .expect("there")
        .len();
    assert!(size < 16 << 20, "{size}");
}

#[test]
fn back_off_survives_a_restart() {
    let dir = folder();
    let store = open(dir.path());
    let brake = |row, seconds| HeldBrake {
        row,
        not_before: at(seconds),
        contested: None,
    };
    let longest = Longest {
        backoff: Duration::from_secs(300),
        contested: Duration::from_secs(3600),
    };
    let contested = |until| HeldBrake {
        contested: Some(at(until)),
        ..brake(4, 54)
    };
    let path = |name: &str| Path::new("/etc/app").join(name);
    let brakes = [
        (path("held"), brake(4, 54)),
        (path("over"), brake(1, 2)),
        (path("gone"), brake(7, 100)),
        (path("far"), brake(9, 1_000_000)),
        (path("cleared"), brake(2, 80)),
        (path("contested"), contested(4000)),
        (path("contested-for-ever"), contested(1_000_000)),
        (path("was-contested"), contested(305)),
    ];
    let brakes: Vec<_> = brakes
        .iter()
        .map(|(path, brake)| (path.as_path(), Some(*brake)))
        .collect();
    store.state().set_brakes(&brakes).expect("set");
    store
        .state()
        .set_brakes(&[(&path("cleared"), None)])
        .expect("set");
    store
        .state()
        .set_brakes(&[(&path("held"), Some(brake(5, 162)))])
        .expect("set");
    drop(store);
    for _ in 0..2 {
        let store = open(dir.path());
        let is_declared = |declared: &Path| declared != path("gone");
        let brakes = store
            .state()
            .brakes(at(310), longest, is_declared)
            .expect("read");
        let expected = [
            (path("contested"), contested(3910)),
            (path("contested-for-ever"), contested(3910)),
            (path("far"), brake(9, 610)), // the clock was set back
            (path("held"), brake(5, 162)),
            (path("was-contested"), brake(4, 54)),
        ];
        assert_eq!(brakes.into_iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn brakes_noted_by_many_at_once_are_all_written_and_the_last_word_counts() {
    let dir = folder();
    let store = open(dir.path());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let state = store.state();
            scope.spawn(move || {
                for row in 0..50 {
                    let brake = HeldBrake {
                        row,
                        not_before: at(0),
                        contested: None,
                    };
                    state.note_brake(format!("/etc/{thread}").into(), brake);
                    state.write_brakes().expect("written");
                }
            });
        }
    });
    drop(store);
    let store = open(dir.path());
    let longest = Longest {
        backoff: Duration::ZERO,
        contested: Duration::ZERO,
    };
    let brakes = store.state().brakes(at(0), longest, |_| true);
    let rows: Vec<_> = brakes
        .expect("read")
        .values()
        .map(|brake| brake.row)
        .collect();
    assert_eq!(rows, [49; 8]);
}

#[test]
fn what_a_minute_has_cost_and_what_is_being_put_in_place_survive_a_restart() {
    let dir = folder();
    let store = open(dir.path());
    let spent = vec![(at(10), 3), (at(12), u32::MAX)];
    store.state().note_spent("web", vec![(at(1), 1)]);
    store.state().note_spent("web", spent.clone());
    let brake = HeldBrake {
        row: 1,
        not_before: at(0),
        contested: None,
    };
    store.state().note_brake("/etc/a".into(), brake);
    store.state().write_brakes().expect("written");
    store
        .state()
        .set_activating("web", Some("1.0.0"))
        .expect("set");
    store
        .state()
        .set_activating("ssh", Some("2.0.0"))
        .expect("set");
    store.state().set_activating("ssh", None).expect("set");
    drop(store);
    let store = open(dir.path());
    let all = store.state().spent().expect("read");
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [("web".into(), spent)]);
    let activating = store.state().activating().expect("read");
    assert_eq!(
        activating.into_iter().collect::<Vec<_>>(),
        [("web".into(), "1.0.0".into())]
    );
}
