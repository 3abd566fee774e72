//! What becomes of a database that cannot be used.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// A database that has all sorts of things in it.
fn filled(dir: &Path) {
    let store = open(dir);
    let many: Vec<_> = (0..200)
        .map(|n| seen("web", &format!("1.0.{n}"), "x"))
        .collect();
    store.state().admit(&many, at(0)).expect("admitted");
    let active = [activation("web", "1.0.0", &[blake3::hash(b"x")])];
    store.state().activate(&active, at(0)).expect("active");
}

/// Opens the store on `bytes` in place of the database: it must open, with the old content or with none. Whether it was the old one.
fn opens_with(dir: &Path, bytes: &[u8], what: &str) -> bool {
    fs::write(dir.join("state.redb"), bytes).expect("write");
    let store = Store::open(dir, DEFAULT_QUOTA).unwrap_or_else(|error| panic!("{what}: {error}"));
    let active = store.state().active().expect(what);
    let is_old = active.get("web").is_some_and(|version| version == "1.0.0");
    let has_note = store
        .notes()
        .iter()
        .any(|note| note.contains("state.redb.corrupt-"));
    // An empty file is what a new database begins with.
    assert!(
        is_old || has_note || bytes.is_empty(),
        "{what}: {:?}",
        store.notes()
    );
    assert!(is_old || active.is_empty(), "{what}");
    let fresh = [seen("new", "1.0.0", "new")];
    store.state().admit(&fresh, at(1)).expect(what);
    drop(store);
    assert_eq!(open(dir).notes(), [""; 0], "{what}: once is enough");
    is_old
}

#[test]
fn a_database_that_is_cut_off_anywhere_is_moved_aside_and_made_anew() {
    let dir = folder();
    filled(dir.path());
    let sound = fs::read(dir.path().join("state.redb")).expect("read");
    let steps = sound.len() / 20;
    let cuts = (0..sound.len()).step_by(steps).chain([
        1,
        63,
        64,
        511,
        512,
        4095,
        4096,
        4097,
        sound.len() - 1,
    ]);
    for cut in cuts {
        opens_with(
            dir.path(),
            &sound[..cut],
            &format!("cut at {cut} of {}", sound.len()),
        );
    }
    assert!(opens_with(dir.path(), &sound, "whole"));
    let asides = fs::read_dir(dir.path())
        .expect("a folder")
        .filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name.to_string_lossy().contains("corrupt-")
        })
        .count();
    assert_eq!(asides, 3, "not more than that are kept");
}

#[test]
fn a_database_with_changed_bytes_ends_nobody() {
    let dir = folder();
    filled(dir.path());
    let sound = fs::read(dir.path().join("state.redb")).expect("read");
    let used: Vec<usize> = (0..sound.len()).filter(|at| sound[*at] != 0).collect();
    // Bytes of the head, then some of the rest.
    let head = 0..320;
    let rest = used
        .iter()
        .copied()
        .filter(|at| *at >= 320)
        .step_by(used.len() / 24);
    for at in head.step_by(8).chain(rest) {
        let mut changed = sound.clone();
        changed[at] ^= 0x55;
        opens_with(dir.path(), &changed, &format!("byte {at}"));
    }
    for (seed, what) in (0..8).zip(1..) {
        let mut changed = sound.clone();
        let from = (seed as usize * 7919 * 64) % (changed.len() - 4096);
        changed[from..from + 4096].copy_from_slice(&noise(seed, 4096));
        opens_with(dir.path(), &changed, &format!("noise {what} at {from}"));
    }
}

#[test]
fn a_file_of_another_program_is_moved_aside_whole() {
    let dir = folder();
    for bytes in [
        b"SQLite format 3\0".repeat(300),
        b"x".to_vec(),
        noise(3, 50_000),
    ] {
        assert!(!opens_with(dir.path(), &bytes, "another program's"));
    }
    let kept = fs::read(dir.path().join("state.redb.corrupt-1")).expect("kept");
    assert!(kept.starts_with(b"SQLite format 3"));
    // A database, but not ours.
    let path = dir.path().join("state.redb");
    fs::remove_file(&path).expect("remove");
    let theirs = redb::Database::create(&path).expect("a database");
    let table: redb::TableDefinition<'_, u32, u32> = redb::TableDefinition::new("versions");
    let write = theirs.begin_write().expect("begun");
    write
        .open_table(table)
        .expect("a table")
        .insert(1, 2)
        .expect("inserted");
    write.commit().expect("committed");
    drop(theirs);
    let bytes = fs::read(&path).expect("read");
    assert!(!opens_with(dir.path(), &bytes, "another's database"));
}

#[test]
fn a_folder_or_a_link_in_its_place_is_moved_aside_too() {
    let dir = folder();
    let path = dir.path().join("state.redb");
    fs::create_dir(&path).expect("made");
    fs::write(path.join("inside"), "theirs").expect("write");
    assert_eq!(open(dir.path()).notes().len(), 1);
    let inside = dir.path().join("state.redb.corrupt-1/inside");
    assert_eq!(fs::read(inside).expect("kept"), b"theirs");
}

#[test]
fn a_database_that_ends_the_agent_twice_is_not_opened_a_third_time() {
    let dir = folder();
    filled(dir.path());
    let mark = dir.path().join("state.redb.opening");
    assert!(!mark.exists());
    fs::write(&mark, "1").expect("write");
    assert_eq!(open(dir.path()).notes(), [""; 0], "once may be a power cut");
    fs::write(&mark, "2").expect("write");
    let store = open(dir.path());
    assert!(store.notes()[0].contains("the agent ended while it was opened"));
    assert!(!mark.exists());
    assert!(store.state().active().expect("read").is_empty());
}

#[test]
fn a_folder_that_is_not_there_or_cannot_be_written_is_an_error_with_what_to_do() {
    let dir = folder();
    let absent = dir.path().join("absent");
    let error = Store::open(&absent, DEFAULT_QUOTA).expect_err("absent");
    assert_eq!(error.reason(), "state-folder");
    assert!(error.to_string().contains("--state DIR"), "{error}");
    if rustix::process::geteuid().is_root() {
        return; // root may write everywhere
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).expect("chmod");
    let error = Store::open(dir.path(), DEFAULT_QUOTA).expect_err("not writable");
    assert_eq!(error.reason(), "state-folder");
}

#[test]
fn a_second_process_is_told_so() {
    let dir = folder();
    let _store = open(dir.path());
    let error = Store::open(dir.path(), DEFAULT_QUOTA).expect_err("open already");
    assert_eq!(error.reason(), "state-busy", "{error}");
    assert!(dir.path().join("state.redb").exists());
}
