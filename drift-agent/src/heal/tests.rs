//! Whatever stands there: plan, execute, look again.

mod attributes;
mod structured;
mod through;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use super::{HealError, execute, healable, plan};
use crate::{
    compare::{Drift, differences},
    declare::{Declared, Exhaustive, Target, sample},
    observe::{Host, Observed, observe},
};

fn host() -> Host {
    Host::new(Path::new("/")).unwrap()
}

fn look(declared: &Declared) -> Observed {
    observe(&host(), declared, None, &mut |_| {})
}

/// Heals once, and says what is left.
fn heal(declared: &Declared) -> Result<Vec<Drift>, HealError> {
    let observed = look(declared);
    let drifts = healable(
        declared,
        &differences(declared, &observed),
        crate::compare::attribute::out_of_reach(declared, &observed),
    );
    if !drifts.is_empty() {
        let action = plan(declared, &drifts, &observed.found).unwrap();
        execute(&host(), declared, &action, observed.stat.as_ref())?;
    }
    Ok(differences(declared, &look(declared)))
}

/// Puts something there; `name` says what.
fn put(path: &Path, name: &str) {
    // Never a file of the machine: a link that is followed by mistake leads nowhere.
    let nowhere = path.with_file_name("nowhere");
    match name {
        "nothing" => {}
        "file" => fs::write(path, "other").unwrap(),
        "link" => symlink(nowhere, path).unwrap(),
        "directory" => fs::create_dir(path).unwrap(),
        "fifo" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        other => panic!("{other}"),
    }
}

#[test]
fn every_target_is_put_in_place_of_whatever_stands_there_and_stays() {
    for stands in ["nothing", "file", "link", "directory", "fifo"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/p");
        let targets = [
            sample::file(b"x"),
            Target::Symlink("/dev/null".into()),
            Target::Absent,
            Target::Directory(None),
        ];
        for target in targets {
            fs::create_dir_all(dir.path().join("sub")).unwrap();
            put(&path, stands);
            let declared = sample::declared(&path, target);
            let shown = format!("{stands} at {:?}", declared.target);
            assert_eq!(heal(&declared).unwrap(), [], "{shown}");
            // A fixed point, with nothing left beside it.
            assert_eq!(differences(&declared, &look(&declared)), [], "{shown}");
            let left = fs::read_dir(dir.path().join("sub")).unwrap().count();
            let expected = usize::from(declared.target != Target::Absent);
            assert_eq!(left, expected, "{shown}");
            fs::remove_dir_all(dir.path().join("sub")).unwrap();
        }
    }
}

#[test]
fn a_directory_that_is_not_empty_is_never_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("precious"), "x").unwrap();
    for target in [
        sample::file(b"x"),
        Target::Symlink("/dev/null".into()),
        Target::Absent,
    ] {
        let error = heal(&sample::declared(&path, target)).unwrap_err();
        assert_eq!(error.reason(), "directory-in-the-way");
        assert!(path.join("precious").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no leftovers");
    }
}

#[test]
fn a_missing_directory_gets_its_mode_whatever_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    let mut declared = sample::declared(&path, Target::Directory(None));
    assert_eq!(heal(&declared).unwrap(), []);
    assert_eq!(mode(), 0o755);
    for bits in [0o1777, 0o2750, 0o700] {
        declared.mode = Some(bits);
        assert_eq!(heal(&declared).unwrap(), []);
        assert_eq!(mode(), bits);
        fs::remove_dir(&path).unwrap();
        assert_eq!(heal(&declared).unwrap(), []);
        assert_eq!(mode(), bits);
    }
}

#[test]
fn what_nobody_declared_goes_only_where_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d");
    fs::create_dir(&path).unwrap();
    for name in ["declared", "stray", ".hidden", "keep.bak"] {
        fs::write(path.join(name), "x").unwrap();
    }
    fs::create_dir(path.join("empty")).unwrap();
    symlink(dir.path().join("nowhere"), path.join("link")).unwrap();
    let exhaustive = |removes| {
        let ignore = crate::declare::Globs::new(vec!["*.bak".into()]).unwrap();
        let declared = [std::ffi::OsString::from("declared")].into();
        let exhaustive = Exhaustive {
            declared,
            ignore,
            removes,
        };
        sample::declared(&path, Target::Directory(Some(exhaustive)))
    };
    assert_eq!(heal(&exhaustive(false)).unwrap(), [Drift::Unexpected]);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 6);
    assert_eq!(heal(&exhaustive(true)).unwrap(), []);
    let mut left: Vec<_> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["declared", "keep.bak"]);
    // What holds something stays, and does not keep the others there.
    fs::create_dir(path.join("a-full")).unwrap();
    fs::write(path.join("a-full/x"), "x").unwrap();
    fs::write(path.join("stray"), "x").unwrap();
    let error = heal(&exhaustive(true)).unwrap_err();
    assert_eq!(error.reason(), "directory-in-the-way");
    assert!(path.join("a-full/x").exists() && !path.join("stray").exists());
}

/// B022, B023: what is there under a name that nobody declared is not changed, and two declared names of one file come apart.
#[test]
fn a_file_with_another_name_is_replaced_and_the_other_name_keeps_what_it_had() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("p"), dir.path().join("other"));
    let state = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.permissions().mode() & 0o7777, metadata.nlink())
    };
    let declare = |path: &Path, mode, allowed| {
        let mut content = crate::declare::Content::exact((*b"x").into());
        if allowed {
            content.hard_links = crate::declare::HardLinks::Allow;
        }
        Declared {
            mode: Some(mode),
            ..sample::declared(path, Target::File(content))
        }
    };
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(&path, &other).unwrap();
    // By itself it is told, and stays.
    let reports = declare(&path, 0o640, false);
    assert_eq!(heal(&reports).unwrap(), [Drift::Hardlinked]);
    let allows = declare(&path, 0o600, true);
    assert_eq!(heal(&allows).unwrap(), []);
    assert_eq!((state(&path), state(&other)), ((0o600, 2), (0o600, 2)));
    assert_eq!(heal(&reports).unwrap(), []);
    assert_eq!((state(&path), state(&other)), ((0o640, 1), (0o600, 1)));

    fs::remove_file(&other).unwrap();
    fs::hard_link(&path, &other).unwrap();
    let (one, two) = (declare(&path, 0o600, false), declare(&other, 0o644, false));
    for _ in 0..3 {
        for declared in [&one, &two] {
            assert_eq!(heal(declared).unwrap(), []);
        }
    }
    assert_eq!((state(&path), state(&other)), ((0o600, 1), (0o644, 1)));
}

#[test]
fn a_link_with_another_name_is_made_anew_and_the_other_name_keeps_its_owner() {
    use std::os::unix::fs::MetadataExt;
    if !rustix::process::geteuid().is_root() {
        return; // nobody else may give a link away
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("p"), dir.path().join("other"));
    symlink("nowhere", &path).unwrap();
    fs::hard_link(&path, &other).unwrap();
    let mut declared = sample::declared(&path, Target::Symlink("nowhere".into()));
    declared.uid = Some(1);
    assert_eq!(heal(&declared).unwrap(), []);
    let owner = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
    assert_eq!((owner(&path), owner(&other)), (1, 0));
}
