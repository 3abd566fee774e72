//! Through the links that are declared, and never anywhere else.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{heal, host, look, put};
use crate::{
    compare::differences,
    declare::{Declared, Exhaustive, Globs, Target, sample},
    heal::{Action, HealError, execute, plan, sweep_leftovers, temporary_name},
    observe::Found,
};

/// `l/sub/p`, where `l` holds `real`.
fn declared(root: &Path, target: Target) -> Declared {
    let link = root.join("l");
    sample::through(
        sample::declared(root.join("l/sub/p"), target),
        &[(&link, "real")],
        &root.join("real/sub/p"),
    )
}

fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_target_is_put_where_the_links_lead_and_missing_directories_are_made_there() {
    for stands in [
        "nothing",
        "file",
        "link",
        "directory",
        "fifo",
        "no directory",
    ] {
        let targets = [
            sample::file(b"x"),
            Target::Symlink("/dev/null".into()),
            Target::Absent,
            Target::Directory(None),
        ];
        for target in targets {
            let dir = tempfile::tempdir().unwrap();
            symlink("real", dir.path().join("l")).unwrap();
            if stands != "no directory" {
                fs::create_dir_all(dir.path().join("real/sub")).unwrap();
                put(&dir.path().join("real/sub/p"), stands);
            }
            let declared = declared(dir.path(), target);
            let shown = format!("{stands} at {:?}", declared.target);
            assert_eq!(heal(&declared).unwrap(), [], "{shown}");
            assert_eq!(differences(&declared, &look(&declared)), [], "{shown}");
            let link = fs::read_link(dir.path().join("l")).unwrap();
            assert_eq!(link, Path::new("real"), "{shown}");
            if declared.target != Target::Absent {
                assert_eq!(names(&dir.path().join("real/sub")), ["p"], "{shown}");
            }
        }
    }
}

#[test]
fn a_link_that_is_not_as_declared_is_left_alone_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("real/sub")).unwrap();
    fs::create_dir_all(at("trap/sub")).unwrap();
    let file = declared(dir.path(), sample::file(b"x"));
    for link in ["nothing", "trap", "trap/sub/..", "./real"] {
        if link != "nothing" {
            symlink(link, at("l")).unwrap();
        }
        let observed = look(&file);
        assert_eq!(observed.found, Found::Relocated, "{link}");
        let drifts = differences(&file, &observed);
        let reason = plan(&file, &drifts, &observed.found).unwrap_err().reason();
        assert_eq!(reason, "relocated");
        // Should somebody ask for it all the same.
        for action in [Action::Replace, Action::Attributes, Action::Remove] {
            let result = execute(&host(), &file, &action, None);
            assert!(
                matches!(result, Err(HealError::Parent { .. })),
                "{result:?}"
            );
        }
        assert_eq!(names(&at("trap/sub")), [""; 0], "{link}");
        assert_eq!(names(&at("real/sub")), [""; 0], "{link}");
        if link != "nothing" {
            fs::remove_file(at("l")).unwrap();
        }
    }
    symlink("real", at("l")).unwrap();
    assert_eq!(heal(&file).unwrap(), []);
    assert_eq!(fs::read(at("real/sub/p")).unwrap(), b"x");
}

#[test]
fn what_a_killed_heal_has_left_goes_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("real/sub")).unwrap();
    symlink("real", dir.path().join("l")).unwrap();
    let file = declared(dir.path(), sample::file(b"x"));
    let left = dir
        .path()
        .join("real/sub")
        .join(temporary_name(file.real()));
    fs::write(&left, "half").unwrap();
    assert!(sweep_leftovers(&host(), &file).unwrap());
    assert!(!left.exists());
    assert!(!sweep_leftovers(&host(), &file).unwrap());
}

/// Exchanges what has this name with a link to `trap`, and back again, as fast as can be.
fn swap(root: &Path, name: &str, end: &AtomicBool) {
    let (place, trap) = (root.join(name), root.join(format!("{name}.trap")));
    symlink(root.join("trap"), &trap).unwrap();
    while !end.load(Ordering::Relaxed) {
        renameat_with(CWD, &place, CWD, &trap, RenameFlags::EXCHANGE).unwrap();
    }
}

#[test]
fn whoever_swaps_links_and_directories_gets_no_write_elsewhere() {
    /// Heals at least, whatever comes of them; more until there was one of each kind.
    const ROUNDS: usize = 4000;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["real/sub", "trap/sub"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    symlink("real", at("l")).unwrap();
    // All that a heal could do to it would show.
    fs::write(at("trap/sub/p"), "precious").unwrap();
    fs::set_permissions(at("trap/sub/p"), fs::Permissions::from_mode(0o600)).unwrap();
    let before = fs::metadata(at("trap/sub/p")).unwrap();
    let exhaustive = Exhaustive {
        ignore: Globs::new(Vec::new()).unwrap(),
        removes: true,
        ..Exhaustive::default()
    };
    let file = Declared {
        mode: Some(0o644),
        ..declared(dir.path(), sample::file(b"x"))
    };
    let absent = declared(dir.path(), Target::Absent);
    let link = dir.path().join("l");
    let sub = sample::through(
        sample::declared(at("l/sub"), Target::Directory(Some(exhaustive))),
        &[(&link, "real")],
        &at("real/sub"),
    );
    let heals = [
        (&file, Action::Replace),
        (&file, Action::Attributes),
        (&absent, Action::Remove),
        (&file, Action::Replace),
        (&sub, Action::Clear(vec!["p".into()])),
        (&sub, Action::Replace),
    ];
    let end = AtomicBool::new(false);
    let (mut done, mut refused) = (0, 0);
    let deadline = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        for name in ["l", "real"] {
            let (end, root) = (&end, dir.path());
            scope.spawn(move || swap(root, name, end));
        }
        let host = host();
        for (declared, action) in heals.iter().cycle() {
            match execute(&host, declared, action, None) {
                Ok(_) => done += 1,
                Err(_) => refused += 1,
            }
            let is_enough = done + refused >= ROUNDS && done > 0 && refused > 0;
            if is_enough || Instant::now() > deadline {
                break;
            }
        }
        end.store(true, Ordering::Relaxed);
    });
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
    assert_eq!(names(&at("trap")), ["sub"], "{done} done");
    assert_eq!(names(&at("trap/sub")), ["p"], "{done} done");
    let after = fs::metadata(at("trap/sub/p")).unwrap();
    let face = |it: &fs::Metadata| (it.ino(), it.mode(), it.len(), it.ctime(), it.ctime_nsec());
    assert_eq!(face(&after), face(&before));
    let folder = fs::metadata(at("trap/sub")).unwrap();
    assert_eq!(folder.mode() & 0o7777, 0o755);
}
