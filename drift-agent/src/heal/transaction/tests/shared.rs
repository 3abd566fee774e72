//! Files that others may write to, too: what is staged was made from what they had written.

use std::{fs, sync::Arc};

use super::*;
use crate::{compare::structured::Format, heal::edited};

const THERE: &str = "{ \"theirs\": 1,\n \"a\": 1 }";
const EDITED: &str = "{ \"theirs\": 1,\n \"a\": 2 }";
const NEWER: &str = "{ \"theirs\": 2,\n \"a\": 1 }";

fn managed() -> Target {
    sample::structured(Format::Json, "{\"a\": 2}", &["/a"])
}

/// A change of the one key in what stands there.
fn edit(place: &Place) -> Step {
    fs::write(place.at("f"), THERE).unwrap();
    let declared = Arc::new(sample::declared(place.at("f"), managed()));
    let seen = observe(&place.host, &declared, None, &mut |_| {});
    let Target::File(content) = &declared.target else {
        panic!("a file")
    };
    let source = Source::There(edited(&seen, content).unwrap());
    Step::Put {
        like: seen.stat,
        declared,
        source,
    }
}

fn fresh(place: &Place) -> Step {
    Step::Put {
        declared: Arc::new(sample::declared(place.at("f"), managed())),
        like: None,
        source: Source::Fresh,
    }
}

#[test]
fn only_the_managed_keys_change() {
    let place = Place::new();
    let step = edit(&place);
    place.run(vec![step]).unwrap();
    place.holds(&[("f", EDITED)]);
    let place = Place::new();
    let step = fresh(&place);
    place.run(vec![step]).unwrap();
    place.holds(&[("f", "{\"a\": 2}")]);
}

#[test]
fn what_was_committed_comes_to_its_end_and_who_wrote_meanwhile_has_not_written_in_vain() {
    type Make = fn(&Place) -> Step;
    let cases: [(Make, Option<&str>, &str); 5] = [
        (edit, Some(THERE), EDITED),
        (edit, Some(NEWER), NEWER),
        (edit, Some(EDITED), EDITED),
        (fresh, None, "{\"a\": 2}"),
        (fresh, Some(NEWER), NEWER),
    ];
    for (make, meanwhile, expected) in cases {
        let place = Place::new();
        let step = make(&place);
        committed(&place, &[step], Stage::Committed, 0);
        if let Some(text) = meanwhile {
            fs::write(place.at("f"), text).unwrap();
        }
        let finished = recover(&place.host, &place.store).unwrap().unwrap();
        assert!(finished.left.is_empty(), "{finished:?}");
        place.holds(&[("f", expected)]);
    }
    // Removed meanwhile: whoever did that is seen by the look that follows.
    let place = Place::new();
    let step = edit(&place);
    committed(&place, &[step], Stage::Committed, 0);
    fs::remove_file(place.at("f")).unwrap();
    recover(&place.host, &place.store).unwrap();
    place.holds(&[]);
}

#[test]
fn a_kill_in_the_middle_of_the_exchange_loses_nothing() {
    for (aside, expected) in [(THERE, EDITED), (NEWER, NEWER)] {
        let place = Place::new();
        let step = edit(&place);
        committed(&place, &[step], Stage::Committed, 0);
        let temporary = place.at("").join(temporary_name(&place.at("f")));
        fs::write(place.at("f"), aside).unwrap();
        let spare = place.dir.path().join("spare");
        fs::rename(&temporary, &spare).unwrap();
        fs::rename(place.at("f"), &temporary).unwrap();
        fs::rename(&spare, place.at("f")).unwrap();
        let finished = recover(&place.host, &place.store).unwrap().unwrap();
        assert!(finished.left.is_empty(), "{finished:?}");
        place.holds(&[("f", expected)]);
    }
}

#[test]
fn what_somebody_puts_under_the_temporary_name_is_not_taken() {
    let place = Place::new();
    let step = edit(&place);
    committed(&place, &[step], Stage::Committed, 0);
    let temporary = place.at("").join(temporary_name(&place.at("f")));
    for put in ["planted", ""] {
        fs::remove_file(&temporary).unwrap();
        match put {
            "" => symlink("f", &temporary).unwrap(),
            text => fs::write(&temporary, text).unwrap(),
        }
        let journal = place.store.journal().unwrap().unwrap();
        all_happens(&place, &journal, true);
        assert_eq!(fs::read_to_string(place.at("f")).unwrap(), THERE);
        assert!(fs::symlink_metadata(&temporary).is_err());
        fs::write(&temporary, "").unwrap();
    }
}
