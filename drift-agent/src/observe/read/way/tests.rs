//! What stands on the way, and what is said of it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    declare::{Declared, Target, sample},
    observe::{Found, Host, Observed, observe},
};

fn look(declared: &Declared) -> Observed {
    let host = Host::new(Path::new("/")).unwrap();
    observe(&host, declared, None, &mut |_| {})
}

/// `etc/l/m/f`, by `etc/l`, which holds `../srv`, and `srv/m`, which holds `sub/d`.
fn declared(root: &Path, target: Target) -> Declared {
    let (l, m) = (root.join("etc/l"), root.join("srv/m"));
    sample::through(
        sample::declared(root.join("etc/l/m/f"), target),
        &[(&l, "../srv"), (&m, "sub/d")],
        &root.join("srv/sub/d/f"),
    )
}

fn lay_out(root: &Path) {
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::create_dir_all(root.join("srv/sub/d")).unwrap();
    fs::create_dir_all(root.join("other/sub/d")).unwrap();
    symlink("../srv", root.join("etc/l")).unwrap();
    symlink("sub/d", root.join("srv/m")).unwrap();
    symlink("sub/d", root.join("other/m")).unwrap();
    fs::write(root.join("srv/sub/d/f"), "x").unwrap();
    fs::write(root.join("other/sub/d/f"), "other").unwrap();
}

#[test]
fn a_path_is_read_through_its_links_and_through_no_others() {
    type Change = fn(&Path);
    fn relink(root: &Path, link: &str, target: &str) {
        fs::remove_file(root.join(link)).unwrap();
        symlink(target, root.join(link)).unwrap();
    }
    let changes: [(&str, Change); 10] = [
        ("another target", |root| relink(root, "etc/l", "../other")),
        // It leads to the same place, and is not what was declared.
        ("another spelling", |root| {
            relink(root, "etc/l", "../srv/");
        }),
        ("the second with another target", |root| {
            relink(root, "srv/m", "../other/sub/d");
        }),
        ("a directory in place of a link", |root| {
            fs::remove_file(root.join("etc/l")).unwrap();
            fs::create_dir_all(root.join("etc/l/m")).unwrap();
            fs::write(root.join("etc/l/m/f"), "x").unwrap();
        }),
        ("a file in place of a link", |root| {
            fs::remove_file(root.join("srv/m")).unwrap();
            fs::write(root.join("srv/m"), "../srv").unwrap();
        }),
        ("no link", |root| {
            fs::remove_file(root.join("etc/l")).unwrap();
        }),
        ("no directory of a link", |root| {
            fs::rename(root.join("etc"), root.join("gone")).unwrap();
        }),
        ("a link in place of a link's directory", |root| {
            fs::rename(root.join("etc"), root.join("gone")).unwrap();
            symlink("gone", root.join("etc")).unwrap();
        }),
        ("a link planted deeper", |root| {
            fs::rename(root.join("srv/sub"), root.join("srv/gone")).unwrap();
            symlink("gone", root.join("srv/sub")).unwrap();
        }),
        ("a link in place of the last directory", |root| {
            fs::rename(root.join("srv/sub/d"), root.join("srv/sub/gone")).unwrap();
            symlink("gone", root.join("srv/sub/d")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let dir = tempfile::tempdir().unwrap();
        lay_out(dir.path());
        let file = declared(dir.path(), sample::file(b"x"));
        let x = Found::File(Some(blake3::hash(b"x")));
        assert_eq!(look(&file).found, x, "{what}");
        // Who declares no links meets the first of them.
        let plain = sample::declared(&file.path, sample::file(b"x"));
        assert_eq!(look(&plain).found, Found::Relocated);
        change(dir.path());
        let observed = look(&file);
        assert_eq!(observed.found, Found::Relocated, "{what}");
        assert_eq!(observed.stat, None, "{what}");
    }
}

#[test]
fn where_a_link_is_missing_there_is_nothing() {
    let dir = tempfile::tempdir().unwrap();
    lay_out(dir.path());
    let absent = declared(dir.path(), Target::Absent);
    assert!(matches!(look(&absent).found, Found::Other(_)));
    fs::remove_file(dir.path().join("srv/m")).unwrap();
    assert_eq!(look(&absent).found, Found::Absent);
    symlink("elsewhere", dir.path().join("srv/m")).unwrap();
    assert_eq!(look(&absent).found, Found::Relocated);
    // The way is right, and its end is not there yet.
    fs::remove_file(dir.path().join("srv/m")).unwrap();
    symlink("sub/d", dir.path().join("srv/m")).unwrap();
    fs::remove_dir_all(dir.path().join("srv/sub")).unwrap();
    let file = declared(dir.path(), sample::file(b"x"));
    assert_eq!(look(&file).found, Found::Absent);
}

#[test]
fn a_link_that_is_swapped_meanwhile_never_has_something_else_read() {
    let dir = tempfile::tempdir().unwrap();
    lay_out(dir.path());
    let file = declared(dir.path(), sample::file(b"x"));
    let end = AtomicBool::new(false);
    let (mut right, mut elsewhere) = (0, 0);
    std::thread::scope(|scope| {
        let (end, root) = (&end, dir.path());
        scope.spawn(move || {
            while !end.load(Ordering::Relaxed) {
                for target in ["../other", "../srv"] {
                    symlink(target, root.join("etc/new")).unwrap();
                    fs::rename(root.join("etc/new"), root.join("etc/l")).unwrap();
                }
            }
        });
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while (right < 1000 || elsewhere < 1000) && std::time::Instant::now() < deadline {
            match look(&file).found {
                Found::File(digest) => {
                    assert_eq!(digest, Some(blake3::hash(b"x")));
                    right += 1;
                }
                Found::Relocated | Found::Unstable => elsewhere += 1,
                other => panic!("{other:?}"),
            }
        }
        end.store(true, Ordering::Relaxed);
    });
    assert!(right > 0 && elsewhere > 0, "{right} {elsewhere}");
}
