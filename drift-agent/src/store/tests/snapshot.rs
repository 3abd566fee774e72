//! The last good policies come back as they were, or not at all.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use super::*;
use crate::declare::{self, Sources};

const FOLDER: &str = "/etc/drift/policies";

fn sources(version: &str) -> Sources {
    let files: [(&[u8], Vec<u8>); 5] = [
        (b"web.yaml", format!("version: {version}\n").into_bytes()),
        (b"db.yml", b"kind: Policy\r\n".to_vec()),
        (b"blobs/deep/er", noise(1, 10_000)),
        (b"empty", Vec::new()),
        (b"n\xffme\n\"", version.into()),
    ];
    files
        .into_iter()
        .map(|(path, bytes)| (PathBuf::from(OsStr::from_bytes(path)), bytes.into()))
        .collect()
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123)
}

fn save(store: &Store, sources: &Sources) -> bool {
    let saved = store.save(Path::new(FOLDER), sources, now());
    saved.expect("saved")
}

fn restore(store: &Store) -> Result<Option<Restored>, StoreError> {
    store.restore(Path::new(FOLDER))
}

/// What lies in a folder.
fn lying(folder: &Path) -> Sources {
    let mut found = Sources::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(inside).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let beneath = path.strip_prefix(folder).expect("beneath").to_owned();
                found.insert(beneath, fs::read(path).expect("read").into());
            }
        }
    }
    found
}

#[track_caller]
fn comes_back(store: &Store, sources: &Sources) {
    let restored = restore(store).expect("restored").expect("there");
    assert_eq!(lying(&restored.folder), *sources);
    assert_eq!(restored.since, now());
}

#[test]
fn they_come_back_exactly_after_a_restart_and_without_the_database() {
    let dir = folder();
    let store = open(dir.path());
    assert_eq!(restore(&store).expect("read"), None);
    assert!(save(&store, &sources("1.0.0")));
    assert!(!save(&store, &sources("1.0.0")), "nothing new");
    drop(store);
    comes_back(&open(dir.path()), &sources("1.0.0"));
    fs::write(dir.path().join("state.redb"), "rubbish").expect("write");
    let store = open(dir.path());
    comes_back(&store, &sources("1.0.0"));
    // What was laid out before is gone when it is laid out again.
    save(
        &store,
        &Sources::from([("a".into(), b"a".as_slice().into())]),
    );
    let restored = restore(&store).expect("restored").expect("there");
    assert_eq!(lying(&restored.folder).len(), 1);
}

#[test]
fn another_folders_are_not_taken() {
    let dir = folder();
    let store = open(dir.path());
    save(&store, &sources("1.0.0"));
    let other = store.restore(Path::new("/etc/drift/other"));
    assert_eq!(other.expect("read"), None);
}

#[test]
fn what_a_folder_declares_is_declared_by_what_was_saved_of_it() {
    let dir = folder();
    let policies = folder();
    let text = "\
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.0.0}
spec:
  policy: web
  version: 1.0.0
  files:
    - {path: /etc/app/a.conf, content: {inline: \"a\\n\"}, mode: \"0640\", onDrift: heal}
    - {path: /etc/app/b.conf, content: {file: contents/b.conf}}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec: {activeVersion: 1.0.0}
";
    fs::create_dir(policies.path().join("contents")).expect("made");
    fs::write(policies.path().join("contents/b.conf"), noise(2, 5000)).expect("write");
    fs::write(policies.path().join("contents/unused"), "unused").expect("write");
    fs::write(policies.path().join("web.yaml"), text).expect("write");
    let host = folder();
    let (declared, mut basis) =
        declare::look(policies.path(), host.path(), None, &declare::Holds::new());
    let declared = declared.expect("valid");
    let store = open(dir.path());
    let sources = basis.take_sources();
    assert_eq!(sources.len(), 2, "what nobody declares is not kept");
    store.save(policies.path(), &sources, now()).expect("saved");
    let restored = store
        .restore(policies.path())
        .expect("restored")
        .expect("there");
    let again =
        declare::load(&restored.folder, host.path(), None, &declare::Holds::new()).expect("valid");
    assert_eq!(again.policies, declared.policies);
    for (again, declared) in again.files.iter().zip(&declared.files) {
        assert_eq!(again.path, declared.path);
        assert_eq!(again.target, declared.target);
        assert_eq!(
            (again.mode, again.on_drift),
            (declared.mode, declared.on_drift)
        );
        assert_eq!(again.at.line, declared.at.line);
    }
    assert_eq!(again.files.len(), 2);
}

#[test]
fn a_list_that_is_cut_off_or_changed_anywhere_is_refused_and_saved_again() {
    let dir = folder();
    let store = open(dir.path());
    save(&store, &sources("1.0.0"));
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
        let error = restore(&store).expect_err("not whole");
        assert_eq!(error.reason(), "last-good-unusable", "{error}");
    }
    assert!(save(&store, &sources("1.0.0")));
    comes_back(&store, &sources("1.0.0"));
}

#[test]
fn a_list_that_leads_out_of_the_folder_is_refused() {
    let dir = folder();
    let store = open(dir.path());
    for path in ["../out", "/out", "a/../../out", "..", ""] {
        save(
            &store,
            &Sources::from([(path.into(), b"a".as_slice().into())]),
        );
        let error = restore(&store).expect_err(path);
        assert_eq!(error.reason(), "last-good-unusable", "{error}");
        assert!(!dir.path().join("out").exists());
    }
}

#[test]
fn links_in_the_way_of_laying_out_are_not_followed() {
    let dir = folder();
    let elsewhere = folder();
    fs::write(elsewhere.path().join("web.yaml"), "theirs").expect("write");
    let store = open(dir.path());
    save(&store, &sources("1.0.0"));
    let link = dir.path().join("restored");
    std::os::unix::fs::symlink(elsewhere.path(), &link).expect("link");
    comes_back(&store, &sources("1.0.0"));
    fs::remove_dir_all(link.join("blobs")).expect("remove");
    std::os::unix::fs::symlink(elsewhere.path(), link.join("blobs")).expect("link");
    comes_back(&store, &sources("1.0.0"));
    let theirs = lying(elsewhere.path());
    assert_eq!(theirs.len(), 1);
    assert_eq!(
        theirs[Path::new("web.yaml")],
        Body::from(b"theirs".as_slice())
    );
}

#[test]
fn a_blob_that_is_gone_is_said_and_put_again() {
    let dir = folder();
    let store = open(dir.path());
    let sources = sources("1.0.0");
    save(&store, &sources);
    let digest = sources[Path::new("blobs/deep/er")].digest();
    fs::remove_file(blob_path(dir.path(), &digest)).expect("remove");
    assert_eq!(restore(&store).expect_err("gone").reason(), "blob-missing");
    let later = now() + Duration::from_secs(9);
    store
        .save(Path::new(FOLDER), &sources, later)
        .expect("saved");
    comes_back(&store, &sources); // and they have been good since then
}

#[test]
fn their_blobs_are_never_given_up_for_others() {
    let dir = folder();
    let store = Store::open(dir.path(), MIB).expect("opens");
    save(&store, &sources("1.0.0"));
    for n in 100..120 {
        store.put(&noise(n, 200 << 10)).expect("put");
    }
    assert!(store.usage().evicted > 0);
    comes_back(&store, &sources("1.0.0"));
}

#[test]
fn without_room_for_the_new_ones_the_old_ones_stay() {
    let dir = folder();
    let store = Store::open(dir.path(), 64 << 10).expect("opens");
    save(&store, &sources("1.0.0"));
    let mut large = sources("2.0.0");
    large.insert("large".into(), noise(5, 100 << 10).into());
    let error = store
        .save(Path::new(FOLDER), &large, now())
        .expect_err("no room");
    assert_eq!(error.reason(), "store-quota");
    comes_back(&store, &sources("1.0.0"));
}

/// A policy folder with one version whose content is `content`.
fn policies(content: &str) -> TempDir {
    let dir = folder();
    let text = format!(
        "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec: {{activeVersion: 1.0.0}}\n---\n\
         apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: p-1.0.0}}\nspec:\n  policy: p\n  version: 1.0.0\n  \
         files:\n    - {{path: /nowhere/f, content: {{inline: {content}}}}}\n"
    );
    fs::write(dir.path().join("p.yaml"), text).expect("a policy");
    dir
}

#[test]
fn a_version_is_the_same_for_ever_in_its_folder_and_another_folder_begins_anew() {
    let dir = folder();
    let store = open(dir.path());
    let (one, other) = (policies("one"), policies("other"));
    let look = |folder: &TempDir| store.look(folder.path(), Path::new("/"), None);
    let (outcome, mut basis) = look(&one);
    let snapshot = outcome.expect("the first folder");
    let in_force = store.in_force(one.path(), &snapshot, basis.take_sources());
    store.keep(&in_force).expect("kept");
    fs::copy(other.path().join("p.yaml"), one.path().join("p.yaml")).expect("changed");
    let rejected = look(&one).0.expect_err("a version with another content");
    assert_eq!(rejected.reason(), "version-changed");
    look(&other).0.expect("another folder");
}

/// Lays down version `version` of a policy, whose content is named by this digest, in `dir`.
fn declare_by_digest(dir: &Path, version: &str, digest: &Hash) {
    let text = format!(
        "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec: {{activeVersion: {version}}}\n---\n\
         apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: p-{version}}}\nspec:\n  policy: p\n  version: {version}\n  \
         files:\n    - {{path: /nowhere/f, content: {{digest: \"blake3:{digest}\"}}}}\n"
    );
    fs::write(dir.join("p.yaml"), text).expect("a policy");
}

/// Looks at the folder as the agent does, and keeps what is in force.
fn take(store: &Store, dir: &Path) -> Result<(), String> {
    let (outcome, mut basis) = store.look(dir, Path::new("/"), None);
    let snapshot = outcome.map_err(|why| why.plain().to_string())?;
    let in_force = store.in_force(dir, &snapshot, basis.take_sources());
    store.keep(&in_force).expect("kept");
    Ok(())
}

#[test]
fn a_content_named_by_its_digest_may_be_one_that_was_kept() {
    let dir = folder();
    let store = open(dir.path());
    let policies = folder();
    let content = noise(7, 10_000);
    let digest = blake3::hash(&content);
    declare_by_digest(policies.path(), "1.0.0", &digest);
    let refused = take(&store, policies.path()).expect_err("nobody has it");
    assert!(refused.contains("there is no file"), "{refused}");
    let blobs = policies.path().join("blobs");
    fs::create_dir(&blobs).expect("made");
    let file = blobs.join(digest.to_hex().as_str());
    fs::write(&file, &content).expect("written");
    take(&store, policies.path()).expect("it is beside the policies");
    fs::remove_file(&file).expect("removed");
    take(&store, policies.path()).expect("it was kept");
    declare_by_digest(policies.path(), "2.0.0", &digest);
    take(&store, policies.path()).expect("another version names it too");
    // The last good policies have all they need without the store's help.
    let restored = store
        .last_good(policies.path())
        .expect("whole")
        .expect("one");
    let snapshot = declare::load(
        &restored.folder,
        Path::new("/"),
        None,
        &declare::Holds::new(),
    );
    assert_eq!(snapshot.expect("good").files.len(), 1);
    // A file that is there and holds something else is a mistake to be told.
    fs::write(&file, "other").expect("written");
    let refused = take(&store, policies.path()).expect_err("not what its name says");
    assert!(
        refused.contains("does not hold what its name says"),
        "{refused}"
    );
    // Kept, and damaged since: as if it were not there.
    fs::remove_file(&file).expect("removed");
    fs::write(blob_path(dir.path(), &digest), "rubbish").expect("written");
    let refused = take(&store, policies.path()).expect_err("nobody has it");
    assert!(refused.contains("there is no file"), "{refused}");
}

#[test]
fn a_retained_version_can_be_declared_again_though_no_folder_has_it() {
    let dir = folder();
    let store = open(dir.path());
    let policies = folder();
    let blobs = policies.path().join("blobs");
    fs::create_dir(&blobs).expect("made");
    let mut texts = Vec::new();
    for n in 1..=8 {
        let content = noise(n, 5000);
        let digest = blake3::hash(&content);
        fs::write(blobs.join(digest.to_hex().as_str()), &content).expect("written");
        declare_by_digest(policies.path(), &format!("{n}.0.0"), &digest);
        texts.push(fs::read(policies.path().join("p.yaml")).expect("read"));
        take(&store, policies.path()).expect("good");
        // The next folder has nothing of this one.
        fs::remove_file(blobs.join(digest.to_hex().as_str())).expect("removed");
    }
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.declaration("p", "9.0.0").expect("read"), None);
    assert_eq!(
        store.declaration("p", "2.0.0").expect("read"),
        None,
        "too old"
    );
    for n in 3..=8_u64 {
        let sources = store.declaration("p", &format!("{n}.0.0"));
        let sources = sources.expect("read").expect("it is retained");
        let at = usize::try_from(n).expect("small") - 1;
        assert_eq!(
            sources[Path::new("p.yaml")],
            Body::from(texts[at].as_slice()),
            "{n}"
        );
        let content = noise(n, 5000);
        let path = Path::new("blobs").join(blake3::hash(&content).to_hex().as_str());
        assert_eq!(sources[&path], Body::from(content.as_slice()), "{n}");
        assert_eq!(sources.len(), 2);
    }
}

#[test]
fn what_is_too_large_for_memory_is_kept_and_comes_back_too() {
    let dir = folder();
    let mut all = sources("1.0.0");
    let size = drift_common::policy::MAX_CONTENT + (5 << 20);
    let file = tempfile::tempfile().expect("a file");
    file.set_len(size).expect("sparse");
    let most = drift_common::policy::MAX_CONTENT;
    let (large, digest) = Body::read(file, declare::Form::Plain, most).expect("read");
    assert!(large.held().is_none());
    all.insert("large".into(), large.clone());
    let store = open(dir.path());
    assert!(save(&store, &all));
    assert!(!save(&store, &all), "nothing new");
    assert_eq!(store.body(&digest).expect("kept"), large);
    drop(store);
    let store = open(dir.path());
    comes_back(&store, &all);
    fs::write(blob_path(dir.path(), &digest), "rubbish").expect("written");
    assert!(matches!(
        store.body(&digest),
        Err(StoreError::Corrupt { .. })
    ));
    assert!(save(&store, &all), "it is put anew");
    comes_back(&store, &all);
}
