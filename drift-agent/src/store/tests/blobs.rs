//! Contents: what was put comes back, or an error; and the quota.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

#[test]
fn what_was_put_comes_back_after_a_restart_too() {
    let dir = folder();
    let contents = [b"".to_vec(), b"listen = 80\n".to_vec(), noise(1, 3 << 20)];
    let store = open(dir.path());
    let digests: Vec<_> = contents
        .iter()
        .map(|bytes| store.put(bytes).expect("put"))
        .collect();
    for _ in 0..2 {
        for (digest, bytes) in digests.iter().zip(&contents) {
            assert_eq!(store.put(bytes).expect("put again"), *digest);
            assert_eq!(store.get(digest).expect("got"), *bytes);
        }
    }
    let usage = store.usage();
    assert_eq!(usage.blobs, 3);
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.usage(), usage);
    assert_eq!(store.notes(), [""; 0]);
    for (digest, bytes) in digests.iter().zip(&contents) {
        assert_eq!(store.get(digest).expect("got"), *bytes);
    }
}

#[test]
fn many_are_put_at_once() {
    let dir = folder();
    let store = open(dir.path());
    let contents: Vec<_> = (0..600).map(|n| noise(n, 100)).collect();
    let contents: Vec<_> = contents
        .iter()
        .map(|bytes| (blake3::hash(bytes), bytes.as_slice()))
        .collect();
    store.put_all(&contents).expect("put");
    for (digest, bytes) in &contents {
        assert_eq!(store.get(digest).expect("got"), *bytes);
    }
    assert_eq!(store.usage().blobs, 600);
    assert_eq!(
        fs::read_dir(dir.path().join("blobs/incoming"))
            .expect("a folder")
            .count(),
        0
    );
}

#[test]
fn nobody_else_may_read_it() {
    let dir = folder();
    let store = open(dir.path());
    let digest = store.put(b"secret").expect("put");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    let blob = blob_path(dir.path(), &digest);
    assert_eq!(mode(&blob), 0o600);
    assert_eq!(mode(blob.parent().expect("a folder")), 0o700);
    assert_eq!(mode(&dir.path().join("blobs")), 0o700);
    assert_eq!(mode(&dir.path().join("state.redb")), 0o600);
    drop(store);
    // What somebody has opened to all is closed again.
    let loose = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    };
    loose(&dir.path().join("blobs"), 0o777);
    loose(&dir.path().join("state.redb"), 0o666);
    let _store = open(dir.path());
    assert_eq!(mode(&dir.path().join("blobs")), 0o700);
    assert_eq!(mode(&dir.path().join("state.redb")), 0o600);
}

#[test]
fn no_changed_byte_and_no_cut_is_believed_and_a_corrupt_blob_can_be_put_again() {
    let dir = folder();
    let store = open(dir.path());
    let content = b"key = value\n".repeat(40);
    let digest = store.put(&content).expect("put");
    let path = blob_path(dir.path(), &digest);
    let sound = fs::read(&path).expect("the file");
    let mut cases: Vec<Vec<u8>> = (0..sound.len()).map(|cut| sound[..cut].to_vec()).collect();
    for at in 0..sound.len() {
        let mut changed = sound.clone();
        changed[at] ^= 0x10;
        cases.push(changed);
    }
    cases.push([sound.as_slice(), b"more"].concat());
    cases.push([sound.as_slice(), sound.as_slice()].concat());
    for bytes in cases {
        fs::write(&path, &bytes).expect("write");
        match store.get(&digest) {
            // A bit of the frame's head that means nothing.
            Ok(got) => assert_eq!(got, content),
            Err(error) => {
                assert_eq!(error.reason(), "blob-corrupt", "{error}");
                assert!(error.to_string().contains(&digest.to_hex()[..]), "{error}");
                assert!(!path.exists(), "it is removed");
                let error = store.get(&digest).expect_err("gone");
                assert_eq!(error.reason(), "blob-missing");
                assert_eq!(store.usage().blobs, 0);
            }
        }
        store.put(&content).expect("put again");
        assert_eq!(store.get(&digest).expect("got"), content);
    }
}

#[test]
fn a_small_file_that_says_it_is_huge_takes_no_memory() {
    let dir = folder();
    let store = open(dir.path());
    let digest = store.put(b"small").expect("put");
    let zeros = vec![0; 300 << 20];
    let bomb = blob::compress(&zeros).expect("compressed");
    drop(zeros);
    assert!(bomb.len() < 1 << 20);
    fs::write(blob_path(dir.path(), &digest), bomb).expect("write");
    let error = store.get(&digest).expect_err("too large");
    assert!(error.to_string().contains("has another digest"), "{error}");
}

#[test]
fn a_planted_link_is_never_followed() {
    let dir = folder();
    let elsewhere = folder();
    let victim = elsewhere.path().join("victim");
    fs::write(&victim, "theirs").expect("write");
    let store = open(dir.path());
    let content = noise(7, 50);
    let digest = store.put(&content).expect("put");
    let path = blob_path(dir.path(), &digest);
    let shard = path.parent().expect("a folder").to_owned();

    // In place of the blob.
    fs::remove_file(&path).expect("remove");
    symlink(&victim, &path).expect("link");
    assert_eq!(
        store.get(&digest).expect_err("a link").reason(),
        "blob-corrupt"
    );
    symlink(&victim, &path).expect("link");
    store.put(&content).expect("put");
    assert!(path.symlink_metadata().expect("there").is_file());

    // In place of its folder.
    fs::remove_dir_all(&shard).expect("remove");
    symlink(elsewhere.path(), &shard).expect("link");
    assert_eq!(
        store.get(&digest).expect_err("a link").reason(),
        "blob-missing"
    );
    store.put(&content).expect("put");
    assert_eq!(store.get(&digest).expect("got"), content);

    // In place of everything.
    drop(store);
    for name in ["blobs", "state.redb", "last-good"] {
        let path = dir.path().join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path).expect("remove");
        } else if path.exists() {
            fs::remove_file(&path).expect("remove");
        }
        symlink(&victim, &path).expect("link");
    }
    let store = open(dir.path());
    store.put(&content).expect("put");
    assert_eq!(store.get(&digest).expect("got"), content);
    assert_eq!(fs::read(&victim).expect("read"), b"theirs");
    assert_eq!(fs::read_dir(elsewhere.path()).expect("a folder").count(), 1);
}

#[test]
fn what_is_no_blob_goes_and_what_was_under_way_too() {
    let dir = folder();
    let digest = open(dir.path()).put(b"x").expect("put");
    let blobs = dir.path().join("blobs");
    let stray = [
        blobs.join("incoming/.new-17"),
        blobs.join("stray"),
        blob_path(dir.path(), &digest).with_file_name("short"),
        dir.path().join(".new-3"),
    ];
    for path in &stray {
        fs::write(path, "stray").expect("write");
    }
    let store = open(dir.path());
    assert!(stray.iter().all(|path| !path.exists()));
    assert_eq!(store.get(&digest).expect("got"), b"x");
}

#[test]
fn at_the_quota_the_oldest_unneeded_blobs_go_and_what_is_needed_never_does() {
    let dir = folder();
    let store = Store::open(dir.path(), MIB).expect("opens");
    let needed = noise(0, 300 << 10);
    let digest = blake3::hash(&needed);
    let activation = Activation {
        seen: Seen {
            policy: "web".to_owned(),
            version: "1.0.0".to_owned(),
            digest: blake3::hash(b"version"),
        },
        declaration: None,
        blobs: [*digest.as_bytes()].into(),
    };
    let now = SystemTime::now();
    store.state().activate(&[activation], now).expect("active");
    store.put(&needed).expect("put");
    assert_eq!(store.usage().sentence(), None);
    for n in 1..20 {
        store.put(&noise(n, 200 << 10)).expect("put");
        assert!(store.usage().bytes <= MIB);
    }
    assert_eq!(store.get(&digest).expect("kept"), needed);
    let usage = store.usage();
    assert!(usage.evicted >= 16, "{usage:?}");
    assert!(
        usage
            .sentence()
            .is_some_and(|s| s.contains("quota of 1048576 bytes"))
    );
    let error = store.put(&noise(99, 800 << 10)).expect_err("no room");
    assert_eq!(error.reason(), "store-quota", "{error}");
    assert_eq!(store.usage().refused, 1);
    assert_eq!(store.get(&digest).expect("kept"), needed);
}
