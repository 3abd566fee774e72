//! Whole or not at all.

mod shared;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use tempfile::TempDir;

use super::*;
use crate::{
    compare::differences,
    declare::{HardLinks, Target, Writing, sample},
    heal::temporary_name,
    observe::observe,
    store::{Change, DEFAULT_QUOTA, Entry, Over},
};

struct Place {
    dir: TempDir,
    host: Host,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        fs::create_dir(&state).unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        let store = Store::open(&state, DEFAULT_QUOTA).unwrap();
        Self {
            dir,
            host: Host::new(Path::new("/")).unwrap(),
            store,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join("tree").join(name)
    }

    fn put(&self, name: &str, target: Target) -> Step {
        Step::Put {
            declared: Arc::new(sample::declared(self.at(name), target)),
            like: None,
            source: Source::Declared,
        }
    }

    fn run(&self, steps: Vec<Step>) -> Result<Finished, TransactionError> {
        let transaction = Transaction {
            moves: vec![moved()],
            holding: held(),
            steps,
            after: Vec::new(),
        };
        run(&self.host, &self.store, transaction)
    }

    /// Everything beneath the tree: what it holds, or where it leads.
    fn tree(&self) -> BTreeMap<String, String> {
        fn walk(dir: &Path, under: &str, all: &mut BTreeMap<String, String>) {
            for entry in fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                let name = format!("{under}{}", entry.file_name().display());
                let file_type = entry.file_type().unwrap();
                let shown = if file_type.is_dir() {
                    walk(&entry.path(), &format!("{name}/"), all);
                    "directory".to_owned()
                } else if file_type.is_symlink() {
                    format!("-> {}", fs::read_link(entry.path()).unwrap().display())
                } else {
                    fs::read_to_string(entry.path()).unwrap()
                };
                all.insert(name, shown);
            }
        }
        let mut all = BTreeMap::new();
        walk(&self.at(""), "", &mut all);
        all
    }

    #[track_caller]
    fn holds(&self, expected: &[(&str, &str)]) {
        let expected = expected
            .iter()
            .map(|(name, what)| ((*name).to_owned(), (*what).to_owned()));
        assert_eq!(self.tree(), expected.collect());
        assert_eq!(self.store.journal().unwrap(), None, "a journal is left");
    }
}

fn moved() -> Moved {
    Moved {
        policy: "p".into(),
        from: "1.0.0".into(),
        to: "2.0.0".into(),
    }
}

/// Something that can be told from nothing.
fn held() -> Holding {
    let mut holding = Holding::default();
    holding.failed("p", "3.0.0", "x", "y", std::time::UNIX_EPOCH);
    holding
}

#[test]
fn every_target_takes_its_place_and_nothing_is_left() {
    let place = Place::new();
    fs::write(place.at("file"), "old").unwrap();
    fs::write(place.at("was-file"), "old").unwrap();
    fs::create_dir(place.at("was-directory")).unwrap();
    symlink("nowhere", place.at("was-link")).unwrap();
    fs::write(place.at("gone"), "old").unwrap();
    fs::create_dir(place.at("conf.d")).unwrap();
    let mut attributes = sample::declared(place.at("conf.d"), Target::Directory(None));
    attributes.mode = Some(0o750);
    let finished = place
        .run(vec![
            place.put("file", sample::file(b"new")),
            place.put("new/sub/file", sample::file(b"new")),
            place.put("new", Target::Directory(None)),
            place.put("was-file", Target::Directory(None)),
            place.put("was-directory", sample::file(b"new")),
            place.put("was-link", sample::file(b"new")),
            place.put("link", Target::Symlink("there".into())),
            place.put("gone", Target::Absent),
            Step::Attributes(Arc::new(attributes)),
            Step::Remove(place.at("never/there")),
        ])
        .unwrap();
    assert!(finished.left.is_empty(), "{finished:?}");
    place.holds(&[
        ("conf.d", "directory"),
        ("file", "new"),
        ("link", "-> there"),
        ("new", "directory"),
        ("new/sub", "directory"),
        ("new/sub/file", "new"),
        ("was-directory", "new"),
        ("was-file", "directory"),
        ("was-link", "new"),
    ]);
    let mode = fs::metadata(place.at("conf.d")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7777, 0o750);
    assert_eq!(place.store.holding(), held());
}

#[test]
fn where_one_path_cannot_be_staged_nothing_has_changed() {
    for (name, target) in [
        ("full", sample::file(b"new")),
        ("full", Target::Absent),
        ("file/beneath", sample::file(b"new")),
        ("link/beneath", sample::file(b"new")),
    ] {
        let place = Place::new();
        fs::write(place.at("file"), "old").unwrap();
        fs::create_dir(place.at("full")).unwrap();
        fs::write(place.at("full/of"), "old").unwrap();
        symlink("full", place.at("link")).unwrap();
        let before = place.tree();
        let steps = vec![
            place.put("file", sample::file(b"new")),
            place.put("made/for/it", sample::file(b"new")),
            place.put("other-link", Target::Symlink("there".into())),
            place.put(name, target),
        ];
        let error = place.run(steps).unwrap_err();
        let TransactionError::Stage { path, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(*path, place.at(name));
        assert_eq!(place.tree(), before, "{name}");
        assert_eq!(place.store.journal().unwrap(), None);
        assert_eq!(place.store.holding(), Holding::default());
    }
}

#[test]
fn what_nobody_may_change_is_found_before_anything_has_changed() {
    let place = Place::new();
    fs::write(place.at("file"), "old").unwrap();
    fs::write(place.at("held"), "old").unwrap();
    let chattr = |flag: &str| {
        let mut chattr = std::process::Command::new("chattr");
        let status = chattr.arg(flag).arg(place.at("held")).status();
        status.is_ok_and(|status| status.success())
    };
    if !chattr("+i") {
        eprintln!("SKIPPED: chattr +i does not work here (FS_IOC_SETFLAGS)");
        return;
    }
    let result = place.run(vec![
        place.put("file", sample::file(b"new")),
        place.put("held", sample::file(b"new")),
    ]);
    assert!(chattr("-i"));
    assert_eq!(result.unwrap_err().reason(), "not-permitted");
    place.holds(&[("file", "old"), ("held", "old")]);
}

/// As a kill after the commit has left it: `done` of these have taken their names.
fn committed(place: &Place, steps: &[Step], stage: Stage, done: usize) {
    let mut notes = Vec::new();
    let directories = stage::missing(&place.host, steps);
    let mut journal = Journal {
        stage: Stage::Intended,
        moves: vec![moved()],
        holding: held(),
        directories: directories
            .into_iter()
            .map(|path| Directory { path })
            .collect(),
        entries: steps.iter().map(stage::entry).collect(),
        after: vec!["restart web.service".to_owned()],
    };
    place.store.write_journal(&journal).unwrap();
    stage::all(
        &place.host,
        Some(&place.store),
        steps,
        &mut notes,
        &mut Vec::new(),
    )
    .unwrap();
    journal.stage = stage;
    place.store.write_journal(&journal).unwrap();
    let entries = journal.entries.drain(..done).collect();
    let part = Journal { entries, ..journal };
    all_happens(place, &part, false);
}

fn all_happens(place: &Place, journal: &Journal, check: bool) {
    let mut given_up = Vec::new();
    assert!(apply::all(&place.host, journal, check, &mut given_up).is_empty());
    assert!(given_up.is_empty(), "{given_up:?}");
}

fn three(place: &Place) -> Vec<Step> {
    fs::write(place.at("a"), "old").unwrap();
    fs::write(place.at("b"), "old").unwrap();
    vec![
        place.put("a", sample::file(b"new")),
        place.put("b", Target::Directory(None)),
        place.put("made/c", sample::file(b"new")),
    ]
}

#[test]
fn what_was_not_committed_is_dropped_and_what_was_comes_to_its_end_however_often() {
    for done in 0..=3 {
        let place = Place::new();
        let steps = three(&place);
        committed(&place, &steps, Stage::Committed, done);
        for again in 0..3 {
            let finished = recover(&place.host, &place.store).unwrap();
            assert_eq!(finished.is_some(), again == 0, "{done}");
            place.holds(&[
                ("a", "new"),
                ("b", "directory"),
                ("made", "directory"),
                ("made/c", "new"),
            ]);
            assert_eq!(place.store.holding(), held());
        }
    }
    let place = Place::new();
    let steps = three(&place);
    committed(&place, &steps, Stage::Intended, 0);
    let finished = recover(&place.host, &place.store).unwrap().unwrap();
    assert!(finished.notes[0].contains("(`p` 1.0.0 -> 2.0.0) was interrupted before anything"));
    place.holds(&[("a", "old"), ("b", "old")]);
    assert_eq!(place.store.holding(), Holding::default());
}

#[test]
fn what_is_decided_is_held_before_its_file_says_so() {
    let place = Place::new();
    let steps = three(&place);
    committed(&place, &steps, Stage::Intended, 0);
    place.store.read_holding_again().unwrap();
    assert_eq!(place.store.holding(), Holding::default());
    committed(&place, &steps, Stage::Committed, 0);
    place.store.read_holding_again().unwrap();
    assert_eq!(place.store.holding(), held());
    // That it is known already does not keep it from being written.
    recover(&place.host, &place.store).unwrap();
    assert_eq!(place.store.journal().unwrap(), None);
    let state = place.dir.path().join("state");
    let Place {
        dir: _dir, store, ..
    } = place;
    drop(store);
    let store = Store::open(&state, DEFAULT_QUOTA).unwrap();
    assert_eq!(store.holding(), held());
}

#[test]
fn another_process_does_not_decide_what_takes_a_name() {
    let place = Place::new();
    let steps = three(&place);
    committed(&place, &steps, Stage::Committed, 0);
    let staged = place.at("").join(temporary_name(&place.at("a")));
    fs::write(&staged, "planted").unwrap();
    let finished = recover(&place.host, &place.store).unwrap().unwrap();
    // Said, and not done: some of it may have been.
    assert!(finished.notes[1].ends_with("left to you: restart web.service"));
    // What was staged is gone, and that is not forgotten by a second try for something else.
    assert!(finished.left.is_empty(), "{finished:?}");
    assert!(
        matches!(&finished.given_up[..], [(path, HealError::ReadBack)] if *path == place.at("a")),
        "{finished:?}"
    );
    assert!(finished.notes[2].contains("does not read back"));
    assert_eq!(fs::read_to_string(place.at("a")).unwrap(), "old");
    assert!(!staged.exists());
    let Step::Put { declared, .. } = &steps[0] else {
        panic!("a file")
    };
    let observed = observe(&place.host, declared, None, &mut |_| {});
    assert!(!differences(declared, &observed).is_empty());
}

#[test]
fn what_cannot_be_done_after_the_commit_is_left_said_and_done_later() {
    let place = Place::new();
    let steps = three(&place);
    committed(&place, &steps, Stage::Committed, 0);
    // Its directory becomes something else before the name is taken.
    fs::rename(place.at("made"), place.at("away")).unwrap();
    fs::write(place.at("made"), "in the way").unwrap();
    let finished = recover(&place.host, &place.store).unwrap().unwrap();
    assert_eq!(finished.left[0].0, place.at("made/c"), "{finished:?}");
    assert_eq!(fs::read_to_string(place.at("a")).unwrap(), "new");
    let error = place
        .run(vec![place.put("a", sample::file(b"newer"))])
        .unwrap_err();
    assert_eq!(error.reason(), "earlier-unfinished");
    assert_eq!(fs::read_to_string(place.at("a")).unwrap(), "new");
    fs::remove_file(place.at("made")).unwrap();
    fs::rename(place.at("away"), place.at("made")).unwrap();
    place
        .run(vec![place.put("a", sample::file(b"newer"))])
        .unwrap();
    place.holds(&[
        ("a", "newer"),
        ("b", "directory"),
        ("made", "directory"),
        ("made/c", "new"),
    ]);
}

#[test]
fn a_journal_that_cannot_be_believed_is_removed_and_said() {
    let place = Place::new();
    let path = place.dir.path().join("state/journal");
    for bytes in [&b""[..], b"drift-journal-1 00\n{}", &[0xff; 300]] {
        fs::write(&path, bytes).unwrap();
        let finished = recover(&place.host, &place.store).unwrap().unwrap();
        assert!(finished.notes[0].contains("it was removed"), "{finished:?}");
        assert!(!path.exists());
    }
    symlink(place.at("nowhere"), &path).unwrap();
    assert!(recover(&place.host, &place.store).unwrap().is_some());
    assert!(fs::symlink_metadata(&path).is_err());
}

#[test]
fn a_journal_says_paths_of_any_bytes() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let place = Place::new();
    let path = place.at("").join(OsStr::from_bytes(b"\xff\n\x1b"));
    let declared = Arc::new(sample::declared(&path, sample::file(b"new")));
    let steps = [Step::Put {
        declared,
        like: None,
        source: Source::Declared,
    }];
    committed(&place, &steps, Stage::Committed, 0);
    let journal = place.store.journal().unwrap().unwrap();
    let digest = blake3::hash(b"new").to_string();
    let change = Change::File {
        digest,
        over: Over::Anything,
    };
    assert_eq!(
        journal.entries,
        [Entry {
            path: path.clone(),
            change
        }]
    );
    recover(&place.host, &place.store).unwrap();
    assert_eq!(fs::read(path).unwrap(), b"new");
}

fn in_place(path: &Path, mode: u32) -> Declared {
    let Target::File(mut content) = sample::file(b"new") else {
        panic!("a file")
    };
    content.write = Writing::InPlace;
    content.hard_links = HardLinks::Allow;
    let mut declared = sample::declared(path, Target::File(content));
    declared.mode = Some(mode);
    declared
}

/// Who gives another file the declared name has it not written to.
#[test]
fn what_has_another_name_is_not_written_to_in_place() {
    let place = Place::new();
    let path = place.at("file");
    let other = place.dir.path().join("other");
    fs::write(&other, "another's").unwrap();
    let mut declared = in_place(&path, 0o640);
    if let Target::File(content) = &mut declared.target {
        content.hard_links = HardLinks::Report;
    }
    let step = || Step::Put {
        like: observe(&place.host, &declared, None, &mut |_| {}).stat,
        declared: Arc::new(declared.clone()),
        source: Source::Declared,
    };
    fs::hard_link(&other, &path).unwrap();
    let error = place.run(vec![step()]).unwrap_err();
    assert_eq!(error.reason(), "hardlinked");
    place.holds(&[("file", "another's")]);
    // Not even where that has happened since it was decided.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "own").unwrap();
    committed(&place, &[step()], Stage::Committed, 0);
    fs::remove_file(&path).unwrap();
    fs::hard_link(&other, &path).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
    recover(&place.host, &place.store).unwrap();
    place.holds(&[("file", "another's")]);
    // Nor are its attributes set.
    let attributes = execute(&place.host, &declared, &Action::Attributes, None);
    assert_eq!(attributes.unwrap_err().reason(), "hardlinked");
    let mode = fs::metadata(&other).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

/// Whoever holds a version while a heal is interrupted holds it afterwards.
#[test]
fn a_heal_in_place_leaves_what_is_held_as_it_is() {
    let place = Place::new();
    let path = place.at("file");
    fs::write(&path, "old").unwrap();
    let declared = in_place(&path, 0o640);
    let step = Step::Put {
        like: observe(&place.host, &declared, None, &mut |_| {}).stat,
        declared: Arc::new(declared),
        source: Source::Declared,
    };
    committed(&place, &[step], Stage::Committed, 0);
    let journal = place.store.journal().unwrap().unwrap();
    let heal = Journal {
        moves: Vec::new(),
        holding: Holding::default(),
        ..journal
    };
    place.store.write_journal(&heal).unwrap();
    place.store.set_holding(&held()).unwrap();
    let finished = recover(&place.host, &place.store).unwrap().unwrap();
    assert!(finished.notes[0].starts_with("a heal of "), "{finished:?}");
    place.holds(&[("file", "new")]);
    assert_eq!(place.store.holding(), held());
}

#[test]
fn what_is_written_in_place_keeps_its_inode_and_comes_to_its_end_from_wherever_it_was() {
    use std::os::unix::fs::MetadataExt;
    let long = "old ".repeat(100);
    // What stands there after a kill: nothing was written, some, or all but the end.
    for begun in ["", "n", "new"] {
        let place = Place::new();
        let path = place.at("file");
        fs::write(&path, &long).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        fs::hard_link(&path, place.at("name")).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let declared = in_place(&path, 0o640);
        let like = observe(&place.host, &declared, None, &mut |_| {}).stat;
        let steps = [
            place.put("other", sample::file(b"new")),
            Step::Put {
                declared: Arc::new(declared),
                like,
                source: Source::Declared,
            },
        ];
        committed(&place, &steps, Stage::Committed, 0);
        let digest = blake3::hash(b"new").to_string();
        let entries = place.store.journal().unwrap().unwrap().entries;
        let change = Change::Into {
            digest,
            seen: None,
            alone: false,
        };
        assert_eq!(entries[1].change, change);
        fs::write(&path, [begun, &long[begun.len()..]].concat()).unwrap();
        for again in 0..2 {
            let finished = recover(&place.host, &place.store).unwrap();
            assert_eq!(finished.is_some(), again == 0);
            place.holds(&[("file", "new"), ("name", "new"), ("other", "new")]);
            let stat = fs::metadata(&path).unwrap();
            assert_eq!((stat.ino(), stat.mode() & 0o7777), (inode, 0o640));
        }
    }
}

#[test]
fn what_somebody_has_written_meanwhile_is_not_written_over_in_place() {
    let place = Place::new();
    let path = place.at("file");
    fs::write(&path, "later").unwrap();
    let declared = in_place(&path, 0o640);
    let step = Step::Put {
        like: observe(&place.host, &declared, None, &mut |_| {}).stat,
        declared: Arc::new(declared),
        source: Source::Declared,
    };
    let mut journal = Journal {
        stage: Stage::Committed,
        moves: Vec::new(),
        holding: held(),
        directories: Vec::new(),
        entries: vec![stage::entry(&step)],
        after: Vec::new(),
    };
    let (mut notes, mut lifted) = (Vec::new(), Vec::new());
    stage::all(&place.host, None, &[step], &mut notes, &mut lifted).unwrap();
    let Change::Into { seen, .. } = &mut journal.entries[0].change else {
        panic!("in place")
    };
    *seen = Some(blake3::hash(b"earlier").to_string());
    all_happens(&place, &journal, false);
    place.holds(&[("file", "later")]);
}
