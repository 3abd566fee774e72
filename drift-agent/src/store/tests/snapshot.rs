//! The last good declaration comes back as it was, or not at all.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::*;
use crate::declare::{ActivePolicy, Backoff, Declared, Mode, Position, Snapshot};

fn declaration(version: &str) -> Snapshot {
    let policy = |name: &str, mode| {
        Arc::new(ActivePolicy {
            name: name.to_owned(),
            version: version.to_owned(),
            mode,
            backoff: Backoff {
                first: Duration::from_millis(2500),
                factor: 3,
                cap: Duration::from_secs(300),
            },
        })
    };
    let policies = vec![
        policy("db", Mode::Observe),
        policy("wéb \"1\"\n", Mode::Heal),
    ];
    let file = |path: &[u8], policy: &Arc<ActivePolicy>, content: &[u8], mode, uid| {
        Arc::new(Declared {
            path: PathBuf::from(OsStr::from_bytes(path)),
            policy: policy.clone(),
            content: content.into(),
            digest: blake3::hash(content),
            mode,
            uid,
            gid: uid.map(|uid| uid + 1),
            at: Position {
                file: Path::new("/policies/a.yaml").into(),
                line: 3,
                column: 7,
            },
        })
    };
    let files = vec![
        file(b"/etc/a \xff\n", &policies[0], b"", None, None),
        file(
            b"/etc/b",
            &policies[1],
            version.as_bytes(),
            Some(0o4755),
            Some(0),
        ),
        file(
            b"/etc/c",
            &policies[1],
            &noise(1, 10_000),
            Some(0),
            Some(u32::MAX - 1),
        ),
    ];
    Snapshot { files, policies }
}

const FOLDER: &str = "/etc/drift/policies";

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123)
}

fn save(store: &Store, snapshot: &Snapshot) -> bool {
    store
        .save(Path::new(FOLDER), None, snapshot, now())
        .expect("saved")
}

fn last_good(store: &Store) -> Result<Option<Saved>, StoreError> {
    store.last_good(Path::new(FOLDER), None)
}

#[test]
fn it_comes_back_exactly_after_a_restart_and_without_the_database() {
    let dir = folder();
    let store = open(dir.path());
    assert_eq!(last_good(&store).expect("read"), None);
    assert!(save(&store, &declaration("1.0.0")));
    assert!(!save(&store, &declaration("1.0.0")), "nothing new");
    drop(store);
    let expected = Saved {
        snapshot: declaration("1.0.0"),
        since: now(),
        note: None,
    };
    assert_eq!(last_good(&open(dir.path())).expect("read"), Some(expected));
    fs::write(dir.path().join("state.redb"), "rubbish").expect("write");
    let saved = last_good(&open(dir.path())).expect("read").expect("there");
    assert_eq!(saved.snapshot, declaration("1.0.0"));
}

#[test]
fn another_folders_is_not_taken() {
    let dir = folder();
    let store = open(dir.path());
    save(&store, &declaration("1.0.0"));
    let other = store.last_good(Path::new("/etc/drift/other"), None);
    assert_eq!(other.expect("read"), None);
}

#[test]
fn it_never_heals_because_of_a_command_line_of_before() {
    let dir = folder();
    let store = open(dir.path());
    let snapshot = declaration("1.0.0");
    let (folder, heal) = (Path::new(FOLDER), Some(Mode::Heal));
    store.save(folder, heal, &snapshot, now()).expect("saved");
    let modes = |mode| {
        let saved = store.last_good(folder, mode).expect("read").expect("there");
        let modes: Vec<_> = saved.snapshot.policies.iter().map(|p| p.mode).collect();
        assert!(
            saved
                .snapshot
                .files
                .iter()
                .all(|file| modes.contains(&file.policy.mode))
        );
        (modes, saved.note.is_some())
    };
    assert_eq!(modes(None), (vec![Mode::Observe; 2], true));
    assert_eq!(modes(heal), (vec![Mode::Heal; 2], false));
    assert!(
        save(&store, &snapshot),
        "another command line is another declaration"
    );
    assert_eq!(modes(None), (vec![Mode::Observe, Mode::Heal], false));
    assert_eq!(modes(Some(Mode::Observe)), (vec![Mode::Observe; 2], false));
}

#[test]
fn cut_off_or_changed_anywhere_it_is_refused_and_saved_again() {
    let dir = folder();
    let store = open(dir.path());
    save(&store, &declaration("1.0.0"));
    let path = dir.path().join("last-good");
    let sound = fs::read(&path).expect("read");
    let cuts = (0..sound.len()).map(|cut| sound[..cut].to_vec());
    let changes = (0..sound.len()).map(|at| {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        bytes
    });
    for bytes in cuts.chain(changes) {
        fs::write(&path, bytes).expect("write");
        let error = last_good(&store).expect_err("not whole");
        assert_eq!(error.reason(), "last-good-unusable", "{error}");
    }
    assert!(save(&store, &declaration("1.0.0")));
    assert!(last_good(&store).expect("read").is_some());
}

#[test]
fn a_blob_that_is_gone_is_said_and_put_again() {
    let dir = folder();
    let store = open(dir.path());
    let snapshot = declaration("1.0.0");
    save(&store, &snapshot);
    fs::remove_file(blob_path(dir.path(), &snapshot.files[2].digest)).expect("remove");
    assert_eq!(
        last_good(&store).expect_err("gone").reason(),
        "blob-missing"
    );
    let later = now() + Duration::from_secs(9);
    store
        .save(Path::new(FOLDER), None, &snapshot, later)
        .expect("saved");
    let saved = last_good(&store).expect("read").expect("there");
    assert_eq!(saved.snapshot, snapshot);
    assert_eq!(saved.since, now(), "it has been good since then");
}

#[test]
fn its_blobs_are_never_given_up_for_others() {
    let dir = folder();
    let store = Store::open(dir.path(), MIB).expect("opens");
    save(&store, &declaration("1.0.0"));
    for n in 100..120 {
        store.put(&noise(n, 200 << 10)).expect("put");
    }
    assert!(store.usage().evicted > 0);
    let saved = last_good(&store).expect("read").expect("there");
    assert_eq!(saved.snapshot, declaration("1.0.0"));
}

#[test]
fn without_room_for_the_new_one_the_old_one_stays() {
    let dir = folder();
    let store = Store::open(dir.path(), 64 << 10).expect("opens");
    save(&store, &declaration("1.0.0"));
    let mut large = declaration("2.0.0");
    let content = noise(5, 100 << 10);
    let first = Arc::get_mut(&mut large.files[0]).expect("only one");
    first.digest = blake3::hash(&content);
    first.content = content.into();
    let error = store
        .save(Path::new(FOLDER), None, &large, now())
        .expect_err("no room");
    assert_eq!(error.reason(), "store-quota");
    let saved = last_good(&store).expect("read").expect("there");
    assert_eq!(saved.snapshot, declaration("1.0.0"));
}
