//! What is kept of what a change takes away, and changes that somebody stops.

use super::*;
use crate::declare::Declared;

/// What a change from what the folder said to version 2 would take away, as paths and what is kept of them.
fn kept(place: &Place, spec: &str) -> Vec<(String, bool, Vec<u8>)> {
    let old = place.look();
    place.say("2.0.0", spec);
    let new = place.look();
    let moves = moved(&old, &new);
    let state = place.dir.path().join("state");
    let nothing = |_: &Declared| false;
    let taken = keep_evidence(&place.host, &place.store, &old, &new, &moves, &nothing);
    taken
        .into_iter()
        .flat_map(|taken| {
            let name = taken.path.file_name().unwrap().display().to_string();
            let was = taken.was_declared;
            taken
                .evidence
                .into_iter()
                .map(move |kept| (name.clone(), was, kept))
        })
        .map(|(name, was, kept)| {
            let digest = kept.kept.unwrap();
            (name, was, Store::peek_blob(&state, &digest).unwrap())
        })
        .collect()
}

#[test]
fn what_was_not_as_declared_is_kept_and_nothing_else() {
    let place = Place::new();
    assert_eq!(kept(&place, HEAL), []);
    place.say("1.0.0", HEAL);
    fs::write(place.at("app.conf"), "of nobody").unwrap();
    // As the next version wants it: it stays.
    fs::write(place.at("lib.conf"), "lib 2").unwrap();
    // Declared by the next version, and there already.
    fs::write(place.at("base-2"), "in the way").unwrap();
    assert_eq!(
        kept(&place, HEAL),
        [
            ("app.conf".to_owned(), true, b"of nobody".to_vec()),
            ("base-2".to_owned(), false, b"in the way".to_vec()),
        ]
    );
}

#[test]
fn what_goes_because_nobody_declares_it_any_more_is_kept_where_it_had_drifted() {
    for (spec, expected) in [(HEAL, 0), ("mode: heal, onRemove: remove", 1)] {
        let place = Place::new();
        place.say("1.0.0", spec);
        fs::write(place.at("app-1"), "by hand").unwrap();
        let kept = kept(&place, spec);
        assert_eq!(kept.len(), expected, "{kept:?}");
        if let [(name, was_declared, bytes)] = &kept[..] {
            assert_eq!(
                (&**name, was_declared, &bytes[..]),
                ("app-1", &true, &b"by hand"[..])
            );
        }
    }
}

#[test]
fn where_the_policy_wants_no_evidence_or_writes_nothing_none_is_kept() {
    for spec in ["mode: heal, evidence: none", "mode: observe"] {
        let place = Place::new();
        place.say("1.0.0", spec);
        fs::write(place.at("app.conf"), "of nobody").unwrap();
        assert_eq!(kept(&place, spec), []);
    }
}

/// B145: what is aborted before the commit has changed nothing, has not failed, and is held where it was.
#[test]
fn what_is_aborted_before_it_is_decided_changes_nothing() {
    let place = Place::new();
    let one = place.look();
    place.say("2.0.0", HEAL);
    let new = place.look();
    let moves = moved(&one, &new);
    place.store.ask_abort().unwrap();
    let holding = place.store.holding();
    let error = perform(&place.host, &place.store, &one, &new, &moves, holding).unwrap_err();
    assert!(error.is_aborted() && !error.has_failed(), "{error}");
    hold_aborted(&place.store, &new, &moves, "somebody", "not today").unwrap();
    place.is_at(1);
    let holding = place.store.holding();
    assert!(holding.failures.is_empty());
    let held = &holding.held["lib"];
    assert_eq!(
        (&*held.version, &*held.by, &*held.reason),
        (
            "1.0.0",
            "somebody",
            "the change to 2.0.0 was aborted: not today"
        )
    );
    assert_eq!(moved(&one, &place.look()), []);
    // Whoever begins the next one forgets it.
    place.store.forget_abort().unwrap();
    assert!(!place.store.is_abort_asked());
    place.activate("2.0.0").unwrap();
    place.is_at(2);
}
