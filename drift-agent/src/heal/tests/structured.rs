//! Files that are compared by what they say: all of them, or only some of their keys.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use super::{heal, host, look};
use crate::{
    compare::{Drift, differences, structured::Format},
    declare::{Declared, Target, sample},
    heal::{
        HealError,
        replace::{Bytes, New, replace},
    },
};

/// Declared, what stands there, and what healing only `/a` (of the section `s`, where keys have one) makes of it.
const MANAGED: [(Format, &str, &str, &str, &str); 7] = [
    (
        Format::Yaml,
        "/s/a",
        "s: {a: 1}\n",
        "# theirs\nother: [1,  2]\ns:\n  b: x   # theirs\n  a: 2\n\n",
        "# theirs\nother: [1,  2]\ns:\n  b: x   # theirs\n  a: 1\n\n",
    ),
    (
        Format::Json,
        "/s/a",
        "{\"s\": {\"a\": 1}}",
        "{ \"b\":[1 ,2],\n\t\"s\": {\"a\": 2, \"c\": \"\\u0041\"}}",
        "{ \"b\":[1 ,2],\n\t\"s\": {\"a\": 1, \"c\": \"\\u0041\"}}",
    ),
    (
        Format::Json5,
        "/s/a",
        "{s: {a: 1}}",
        "{ // theirs\n  s: {a: 2, c: 'x',},\n}\n",
        "{ // theirs\n  s: {a: 1, c: 'x',},\n}\n",
    ),
    (
        Format::Toml,
        "/s/a",
        "[s]\na = 1\n",
        "b = 0x10  # theirs\n[s]\n  a = 2\n  c = 1_000\n",
        "b = 0x10  # theirs\n[s]\n  a = 1\n  c = 1_000\n",
    ),
    (
        Format::Ini,
        "/s/a",
        "[s]\na = 1\n",
        "; theirs\n[t]\na = 2\n[s]\nc=  3\na = 2\n",
        "; theirs\n[t]\na = 2\n[s]\nc=  3\na = 1\n",
    ),
    (
        Format::Env,
        "/A",
        "A=1\n",
        "# theirs\nexport B='x y'\nA=2\n",
        "# theirs\nexport B='x y'\nA=1\n",
    ),
    (
        Format::KeyValue,
        "/Port",
        "Port 22\n",
        "# theirs\nX11Forwarding   no\nPort 23\n",
        "# theirs\nX11Forwarding   no\nPort 22\n",
    ),
];

fn managed(path: &Path, format: Format, pointer: &str, content: &str) -> Declared {
    sample::declared(path, sample::structured(format, content, &[pointer]))
}

#[test]
fn managed_keys_are_put_back_and_every_other_byte_stays() {
    // B119, B048
    for (format, pointer, content, there, healed) in MANAGED {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let declared = managed(&path, format, pointer, content);
        fs::write(&path, there).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(differences(&declared, &look(&declared)), [Drift::Content]);
        assert_eq!(heal(&declared).unwrap(), [], "{format:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), healed, "{format:?}");
        let after = fs::metadata(&path).unwrap();
        assert_eq!(after.mode() & 0o7777, 0o640);
        // A fixed point: the second heal has nothing to do, and others may write what they like.
        assert_eq!(heal(&declared).unwrap(), []);
        assert_eq!(fs::metadata(&path).unwrap().ino(), after.ino());
        fs::write(&path, healed.replace("theirs", "changed")).unwrap();
        assert_eq!(differences(&declared, &look(&declared)), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no leftovers");
    }
}

#[test]
fn a_missing_file_with_managed_keys_is_made_from_the_declared_content() {
    for (format, pointer, content, ..) in MANAGED {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert_eq!(heal(&managed(&path, format, pointer, content)).unwrap(), []);
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn what_says_the_same_is_left_as_it_is_written_and_what_does_not_becomes_as_declared() {
    // B050, B052
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.yaml");
    let content = "a: 1\nb: [x, z]\n";
    let mut declared = sample::declared(&path, sample::structured(Format::Yaml, content, &[]));
    let other = "# why\nb:\n    - x\n    - \"z\"\na: 1\n";
    fs::write(&path, other).unwrap();
    assert_eq!(heal(&declared).unwrap(), [Drift::ContentEquivalent]);
    assert_eq!(fs::read_to_string(&path).unwrap(), other);
    // What else drifts is put back without touching it.
    declared.mode = Some(0o600);
    assert_eq!(heal(&declared).unwrap(), [Drift::ContentEquivalent]);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(fs::read_to_string(&path).unwrap(), other);
    for changed in ["a: 2\nb: [x, z]\n", "a: 1\nb: [z, x]\n", "a: [", ""] {
        fs::write(&path, changed).unwrap();
        assert_eq!(heal(&declared).unwrap(), [], "{changed:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn a_file_that_does_not_parse_is_left_to_those_who_write_the_rest_of_it() {
    for there in ["{\"a\": 2, \"token\": s3cr3t", ""] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, there).unwrap();
        let error = heal(&managed(&path, Format::Json, "/a", "{\"a\": 1}")).unwrap_err();
        assert_eq!(error.reason(), "unparsable");
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), there);
    }
}

#[test]
fn who_writes_to_a_shared_file_meanwhile_does_not_write_in_vain() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let declared = managed(&path, Format::Json, "/a", "{\"a\": 1}");
    let seen = look(&declared);
    let new = |there: &str| New {
        bytes: Bytes::Held(b"{\"a\": 1}"),
        digest: blake3::hash(b"{\"a\": 1}"),
        instead_of: Some(blake3::hash(there.as_bytes())),
    };
    // Gone meanwhile; then something else.
    let error = replace(&host(), &declared, &new("seen"), seen.stat.as_ref(), None).unwrap_err();
    assert!(matches!(error, HealError::Changed), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    fs::write(&path, "newer").unwrap();
    let before = fs::metadata(&path).unwrap().ino();
    let error = replace(&host(), &declared, &new("seen"), seen.stat.as_ref(), None).unwrap_err();
    assert_eq!(error.reason(), "changed-meanwhile");
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    assert_eq!(fs::metadata(&path).unwrap().ino(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    replace(&host(), &declared, &new("newer"), seen.stat.as_ref(), None).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\": 1}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_file_larger_than_what_is_understood_is_drift_and_is_not_read_into_memory() {
    // B055
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let declared = managed(&path, Format::Json, "/a", "{\"a\": 1}");
    let file = fs::File::create(&path).unwrap();
    file.set_len(9 << 20).unwrap();
    let seen = look(&declared);
    assert_eq!(differences(&declared, &seen), [Drift::Content]);
    assert!(seen.held.is_none());
    assert_eq!(heal(&declared).unwrap_err().reason(), "too-large");
    let whole = sample::structured(Format::Json, "{\"a\": 1}", &[]);
    assert!(matches!(&whole, Target::File(content) if content.is_whole()));
    assert_eq!(heal(&sample::declared(&path, whole)).unwrap(), []);
}

#[test]
fn a_shared_file_with_another_name_gets_its_attributes_apart_from_that_and_keeps_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("f"), dir.path().join("other"));
    let there = "{ \"a\":1, \"theirs\":2 }";
    fs::write(&path, there).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::hard_link(&path, &other).unwrap();
    let mut declared = managed(&path, Format::Json, "/a", "{\"a\": 1}");
    declared.mode = Some(0o600);
    assert_eq!(
        differences(&declared, &look(&declared)),
        [Drift::Mode, Drift::Hardlinked]
    );
    assert_eq!(heal(&declared).unwrap(), []);
    for (path, mode) in [(&path, 0o600), (&other, 0o644)] {
        assert_eq!(fs::read_to_string(path).unwrap(), there);
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, mode);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
