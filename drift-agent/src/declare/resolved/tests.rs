//! What was kept is as good as what would be read, or it is not taken.

use std::{fs, time::Duration};

use super::super::{
    Keep, load_digests,
    tests::{POLICY, Place, version},
};
use super::*;
use crate::declare::Guard;

/// One of everything; the policy files have rested long enough.
fn place() -> Place {
    let place = Place::new();
    let rest = "    - {path: /etc/a, content: {inline: a}, mode: 0644, owner: app, finalNewline: ignore, lineEndings: ignore, maxSize: 9, redact: all, severity: critical, onDrift: observe, hardLinks: allow, xattrs: {user.a: v, user.b: {absent: true}}, acl: ['user::rw-', 'user:app:r--', 'group::r--', 'mask::r--', 'other::r--'], flags: [append]}\n\
                \x20   - {path: /etc/b, content: {file: b}, selinux: 'system_u:object_r:etc_t:s0', capabilities: cap_net_raw=ep}\n\
                \x20 symlinks: [{path: /etc/l, target: /x/y, group: web}]\n\
                \x20 masks: [{path: /etc/m}]\n\
                \x20 absent: [{path: /etc/gone, severity: info}, {path: /etc/way/gone, through: [{path: /etc/way, target: ../srv/}]}]\n\
                \x20 directories: [{path: /etc, exhaustive: true, ignore: ['*.bak'], onUnexpected: remove, mode: '0755'}, {path: /srv, owner: 7, defaultAcl: [user::rwx, 'group:7:r-x', group::r-x, mask::r-x, other::---]}]\n";
    place.write("policies/b", "b");
    place.write(
        "policies/one.yaml",
        POLICY.to_owned() + "---\n" + &version(rest),
    );
    let other = version("    - {path: /opt/c, content: {inline: c}}\n");
    let guard =
        ", guard: {fight: {heals: 7, within: 2m, hold: 3h}, perMinute: 5, massDrift: heal}}";
    let policy = POLICY.trim_end().trim_end_matches('}').to_owned() + guard;
    let other = (policy + "\n---\n" + &other).replace("web", "other");
    place.write("policies/two.yaml", other);
    place
}

/// What is declared, once it could be kept: the policy files must have rested first.
fn kept(place: &Place, path: &Path) -> Snapshot {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while std::time::Instant::now() < end {
        let snapshot = load(place, Some(path));
        if kept::read(path, HEAD).is_ok() {
            return snapshot;
        }
    }
    panic!("it is never kept")
}

fn load(place: &Place, kept: Option<&Path>) -> Snapshot {
    load_digests(&place.policies(), &place.root(), kept).unwrap_or_else(|why| panic!("{why}"))
}

/// Marks what is kept, so that it shows when it was taken.
fn mark(path: &Path) {
    let bytes = kept::read(path, HEAD).unwrap();
    let at = bytes.windows(6).rposition(|is| is == b"/opt/c").unwrap();
    let mut bytes = bytes[HEAD.len()..].to_vec();
    bytes[at - HEAD.len() + 5] = b'd';
    kept::replace(path, HEAD, |out| out.write_all(&bytes)).unwrap();
}

fn was_taken(snapshot: &Snapshot) -> bool {
    snapshot
        .files
        .iter()
        .any(|file| file.path == Path::new("/opt/d"))
}

#[test]
fn what_was_kept_is_what_would_be_resolved() {
    let (place, dir) = (place(), tempfile::tempdir().unwrap());
    let path = dir.path().join("kept");
    let resolved = load(&place, None);
    assert_eq!(resolved.files.len(), 9);
    let gone = resolved
        .files
        .iter()
        .find(|file| file.path.ends_with("way/gone"));
    assert_eq!(gone.unwrap().real(), Path::new("/srv/gone"));
    let named = resolved
        .files
        .iter()
        .flat_map(|file| &file.attributes.named);
    assert_eq!(named.count(), 6);
    let guards = resolved.policies.iter().map(|policy| policy.guard.clone());
    assert!(guards.clone().any(|guard| guard != Guard::default()));
    assert_eq!(kept(&place, &path), resolved);
    assert_eq!(load(&place, Some(&path)), resolved);
    mark(&path);
    assert!(was_taken(&load(&place, Some(&path))));
}

#[test]
fn what_is_compared_by_what_it_says_is_not_kept() {
    let (place, dir) = (place(), tempfile::tempdir().unwrap());
    let path = dir.path().join("kept");
    let text = version("    - {path: /opt/j, content: {inline: '{}'}, compare: {format: json}}\n");
    let text = (POLICY.to_owned() + "---\n" + &text).replace("web", "third");
    place.write("policies/third.yaml", text);
    let mut snapshot = load(&place, None);
    let mut basis = Basis::new(&place.policies(), Keep::Digests);
    basis.list().unwrap();
    let kept = Kept::of(&path, &place.root(), std::iter::empty());
    kept.keep(&snapshot, &basis, |_| true);
    assert!(!path.exists());
    // All but that one can be.
    let json = |file: &Declared| file.path == Path::new("/opt/j");
    let others = snapshot.files.iter().filter(|file| !json(file));
    let others = others.cloned().collect();
    let with = std::mem::replace(&mut snapshot.files, others);
    kept.keep(&snapshot, &basis, |_| true);
    assert!(path.exists());
    let Some(Target::File(content)) = with.iter().find(|file| json(file)).map(|file| &file.target)
    else {
        panic!("no file");
    };
    assert!(content.bytes.is_some() && content.meaning.is_some());
}

#[test]
fn what_rests_on_something_else_now_is_resolved_anew() {
    let (place, dir) = (place(), tempfile::tempdir().unwrap());
    let path = dir.path().join("kept");
    let passwd = place.root().join("etc/passwd");
    for (what, change) in [
        (
            "a policy",
            &(|place: &Place| {
                let text = fs::read_to_string(place.path("policies/two.yaml")).unwrap();
                place.write("policies/two.yaml", text.replace("inline: c", "inline: e"));
            }) as &dyn Fn(&Place),
        ),
        ("a name", &|place| {
            fs::rename(
                place.path("policies/two.yaml"),
                place.path("policies/three.yaml"),
            )
            .unwrap();
        }),
        ("a content", &|place| place.write("policies/b", "B")),
        ("a user", &|_| {
            let text = fs::read_to_string(&passwd).unwrap();
            fs::write(&passwd, text.replace("1000", "1234")).unwrap();
        }),
        ("one more policy", &|place| {
            let text = version("    - {path: /opt/z, content: {inline: z}}\n");
            let text = (POLICY.to_owned() + "---\n" + &text).replace("web", "third");
            place.write("policies/four.yaml", text);
        }),
    ] {
        fs::remove_file(&path).ok();
        kept(&place, &path);
        mark(&path);
        assert!(was_taken(&load(&place, Some(&path))), "{what}");
        change(&place);
        let now = load(&place, Some(&path));
        assert!(!was_taken(&now), "{what}");
        assert_eq!(now, load(&place, None), "{what}");
    }
}

#[test]
fn what_is_damaged_or_makes_no_sense_is_not_taken() {
    let (place, dir) = (place(), tempfile::tempdir().unwrap());
    let path = dir.path().join("kept");
    let resolved = kept(&place, &path);
    let good = fs::read(&path).unwrap();
    let body = kept::read(&path, HEAD).unwrap()[HEAD.len()..].to_vec();
    for at in (0..good.len()).step_by(97) {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(load(&place, Some(&path)), resolved, "changed at {at}");
    }
    // With a right digest: cut off, or with any byte changed, there is an answer and no panic.
    for at in 0..body.len() {
        Rest(&body[..at]).snapshot();
        let mut bytes = body.clone();
        bytes[at] = 0xff;
        let mut rest = Rest(&bytes);
        rest.hash();
        rest.snapshot();
    }
    fs::write(&path, &good[..good.len() / 2]).unwrap();
    assert_eq!(load(&place, Some(&path)), resolved);
}
