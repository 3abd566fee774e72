//! What stands at a path, whatever it is.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStringExt, fs::symlink},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};

use super::*;
use crate::{
    compare::text::{TextRules, normal},
    declare::{Content, Heed, sample, without_final_newline},
    observe::Reading,
};

fn look(path: &Path) -> Observed {
    look_as(&sample::declared(path, sample::file(b"x")))
}

fn look_as(declared: &Declared) -> Observed {
    let host = Host::new(Path::new("/")).unwrap();
    observe(&host, declared, None, &mut |_| {})
}

#[test]
fn a_regular_file_is_hashed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "x").unwrap();
    let observed = look(&path);
    assert_eq!(observed.found, Found::File(Some(blake3::hash(b"x"))));
    assert_eq!(observed.stat.unwrap().size, 1);
}

#[test]
fn a_content_is_hashed_with_and_without_its_final_line_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let long = |end: &str| "l".repeat(3 * (64 << 10) - 1) + end;
    for text in ["", "x", "\n", "\r\n", "x\n", "xy\r\n", "x\n\n", "\r"]
        .map(str::to_owned)
        .into_iter()
        .chain(["", "\n", "\r\n", "\n\n", "\r\nx\r\n"].map(long))
    {
        fs::write(&path, &text).unwrap();
        let observed = look(&path);
        let whole = blake3::hash(text.as_bytes());
        let body = blake3::hash(without_final_newline(text.as_bytes()));
        assert_eq!(observed.found, Found::File(Some(whole)));
        assert_eq!(observed.body, Some(body), "{} bytes", text.len());
        assert_eq!(observed.lines, None);
        for final_newline in [Heed::Exact, Heed::Ignore] {
            let mut content = Content::exact(Arc::from(&b"other"[..]));
            content.lines = Some(Box::new(whole));
            content.body = (final_newline == Heed::Ignore).then_some(whole);
            let observed = look_as(&sample::declared(&path, Target::File(content)));
            let rules = TextRules {
                final_newline,
                line_endings: Heed::Ignore,
            };
            let lines = blake3::hash(&normal(text.as_bytes(), rules));
            assert_eq!(observed.lines, Some(lines), "{} bytes", text.len());
        }
    }
}

#[test]
fn a_file_above_its_bound_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "12345").unwrap();
    for (most, digest) in [(5, Some(blake3::hash(b"12345"))), (4, None)] {
        let mut content = Content::exact(Arc::from(&b"x"[..]));
        content.max_size = most;
        let observed = look_as(&sample::declared(&path, Target::File(content)));
        assert_eq!(observed.found, Found::File(digest));
    }
}

#[test]
fn a_file_that_is_written_while_it_is_read_has_no_digest_but_that_of_a_moment() {
    // B057
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, vec![b'x'; 8 << 20]).unwrap();
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let (started, writes) = std::sync::mpsc::channel();
        let (end, path) = (&end, &path);
        scope.spawn(move || {
            use std::io::Write;
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            while !end.load(Ordering::Relaxed) {
                file.write_all(b"x").unwrap();
                // Whoever waits for the first is gone at the second.
                let _gone = started.send(());
            }
        });
        writes.recv().unwrap();
        let start = std::time::Instant::now();
        // On a busy machine the writer may rest while it is read: then the digest is of what was there.
        let wrong = loop {
            let observed = look(path);
            let size = observed.stat.map_or(0, |stat| stat.size);
            match observed.found {
                Found::Unstable => break None,
                Found::File(Some(digest))
                    if digest == blake3::hash(&vec![b'x'; size as usize])
                        && start.elapsed() < Duration::from_secs(20) => {}
                other => break Some(other),
            }
        };
        end.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
}

#[test]
fn nothing_that_stands_there_makes_it_hang() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    assert!(
        Command::new("mkfifo")
            .arg(at("fifo"))
            .status()
            .unwrap()
            .success()
    );
    fs::create_dir(at("dir")).unwrap();
    symlink("/dev/zero", at("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    // A sparse giant: 100 GB that would take minutes to read.
    File::create(at("giant"))
        .unwrap()
        .set_len(100 << 30)
        .unwrap();
    for (name, expected) in [
        ("fifo", Found::Other(FileType::Fifo)),
        ("dir", Found::Other(FileType::Directory)),
        ("link", Found::Link("/dev/zero".into())),
        ("socket", Found::Other(FileType::Socket)),
        ("giant", Found::File(None)),
        ("nothing", Found::Absent),
        ("nothing/below", Found::Absent),
        ("fifo/below", Found::Relocated),
        ("link/below", Found::Relocated),
    ] {
        assert_eq!(look(&at(name)).found, expected, "{name}");
    }
    assert_eq!(
        look(Path::new("/dev/null")).found,
        Found::Other(FileType::Char)
    );
}

#[test]
fn a_file_that_does_not_end_has_a_verdict() {
    // Says size 0 and gives data: only its end tells.
    assert!(matches!(
        look(&PathBuf::from(format!("/proc/{}/maps", std::process::id()))).found,
        Found::File(Some(_)) | Found::Unstable
    ));
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("real")).unwrap();
    fs::write(dir.path().join("real/f"), "x").unwrap();
    symlink("real", dir.path().join("alias")).unwrap();
    assert_eq!(look(&dir.path().join("alias/f")).found, Found::Relocated);
}

/// B064: the type and the digits of a mode, whatever stands there.
#[test]
fn every_file_type_is_known_and_no_bit_of_the_mode_is_lost() {
    for (bits, expected) in [
        (0o100_000, FileType::File),
        (0o040_000, FileType::Directory),
        (0o120_000, FileType::Symlink),
        (0o010_000, FileType::Fifo),
        (0o140_000, FileType::Socket),
        (0o060_000, FileType::Block),
        (0o020_000, FileType::Char),
    ] {
        for mode in [0, 0o644, 0o1777, 0o2755, 0o4755, 0o7777] {
            assert_eq!(stat::file_type(bits | mode), expected, "{bits:o}");
        }
    }
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "x").unwrap();
    for mode in [0, 0o644, 0o1777, 0o2755, 0o4755, 0o7777] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let stat = look(&path).stat.unwrap();
        assert_eq!((stat.file_type, stat.mode), (FileType::File, mode));
    }
}

#[test]
fn only_declared_attributes_are_read_and_each_of_them_once() {
    use crate::declare::{Attribute, Attributes, Expect};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "x").unwrap();
    let long = vec![7; 3000];
    for (name, value) in [
        ("user.a", &b"v"[..]),
        ("user.b", &b""[..]),
        ("user.long", &long),
    ] {
        rustix::fs::setxattr(&path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
    }
    let named = |names: &[&str]| Attributes {
        named: names
            .iter()
            .map(|name| Attribute {
                name: std::ffi::CString::new(*name).unwrap(),
                expect: Expect::Absent,
            })
            .collect(),
        flags: None,
    };
    let look = |target, names: &[&str], path: &Path| {
        look_as(&Declared {
            attributes: named(names),
            ..sample::declared(path, target)
        })
    };
    let value = |bytes: &[u8]| Reading::Value(bytes.to_vec());
    let file = || sample::file(b"x");
    assert_eq!(look(file(), &[], &path).attributes, []);
    assert_eq!(
        look(file(), &["user.a", "user.b", "user.c", "user.long"], &path).attributes,
        [value(b"v"), value(b""), Reading::Absent, value(&long)]
    );
    // A link's own, not those of what it leads to.
    let link = dir.path().join("l");
    symlink("f", &link).unwrap();
    let observed = look(Target::Symlink("f".into()), &["trusted.a"], &link);
    assert_eq!(observed.attributes, [Reading::Absent]);
    rustix::fs::lsetxattr(&link, "trusted.a", b"link", rustix::fs::XattrFlags::empty()).unwrap();
    let observed = look(Target::Symlink("f".into()), &["trusted.a"], &link);
    assert_eq!(observed.attributes, [value(b"link")]);
    // What is of another type has none that count.
    let observed = look(Target::Directory(None), &["user.a"], &path);
    assert_eq!(observed.attributes, []);
    // No cost and no trace: reading them changes nothing.
    let before = fs::metadata(&path).unwrap();
    look(file(), &["user.a"], &path);
    use std::os::unix::fs::MetadataExt;
    assert_eq!(
        fs::metadata(&path).unwrap().ctime_nsec(),
        before.ctime_nsec()
    );
}

#[test]
fn a_name_of_255_bytes_and_any_bytes_is_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(OsString::from_vec(vec![0xff; 255]));
    fs::write(&path, "x").unwrap();
    let found = Found::File(Some(blake3::hash(b"x")));
    assert_eq!(look(&path).found, found);
    // No file system has room for one more.
    let path = dir.path().join("n".repeat(256));
    assert_eq!(
        look(&path).found,
        Found::Unreadable(io::ErrorKind::InvalidFilename)
    );
}

#[test]
fn a_path_longer_than_the_kernel_takes_is_walked_to() {
    let dir = tempfile::tempdir().unwrap();
    let name = "d".repeat(200);
    let mut opened = vec![OwnedFd::from(File::open(dir.path()).unwrap())];
    let mut path = dir.path().to_owned();
    for _ in 0..50 {
        let parent = opened.last().unwrap().as_fd();
        mkdirat(parent, &*name, Mode::RWXU).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        opened.push(openat(parent, &*name, flags, Mode::empty()).unwrap());
        path.push(&name);
    }
    assert!(path.as_os_str().len() > 10_000);
    let create = |name: &str| {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(opened.last().unwrap(), name, flags, Mode::RUSR | Mode::WUSR);
        io::Write::write_all(&mut File::from(file.unwrap()), b"x").unwrap();
    };
    create("f");
    create("g");
    let found = Found::File(Some(blake3::hash(b"x")));
    assert_eq!(look(&path.join("f")).found, found);
    assert_eq!(look(&path.join("h")).found, Found::Absent);
    assert_eq!(look(&path.join("f/below")).found, Found::Relocated);
    let host = Host::new(Path::new("/")).unwrap();
    let declared = |name| Arc::new(sample::declared(path.join(name), sample::file(b"x")));
    let both = Reader::new(&host).observe_siblings(&[declared("f"), declared("g")]);
    assert!(both.iter().all(|look| look.observed.found == found));
    assert_eq!(host.stat(&path.join("f")), both[0].observed.stat);

    // Nobody can name it, to remove it.
    for name in ["f", "g"] {
        unlinkat(opened.last().unwrap(), name, AtFlags::empty()).unwrap();
    }
    opened.pop();
    while let Some(parent) = opened.pop() {
        unlinkat(parent, &*name, AtFlags::REMOVEDIR).unwrap();
    }
}

#[test]
fn what_was_read_in_a_directory_that_was_moved_meanwhile_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let make = |name: &str, text: &str| {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("a"), text).unwrap();
        fs::write(at(name).join("b"), text).unwrap();
    };
    make("d", "old");
    let siblings =
        ["d/a", "d/b"].map(|name| Arc::new(sample::declared(at(name), sample::file(b"x"))));
    let host = Host::new(Path::new("/")).unwrap();
    let mut reader = Reader::new(&host);
    let mut looks = 0;
    let together = reader.together(&siblings, &mut |_| {
        looks += 1;
        if looks == 2 {
            fs::rename(at("d"), at("away")).unwrap();
            make("d", "new");
        }
    });
    assert_eq!((together.is_none(), looks), (true, 2));
    let observed = reader.observe_siblings(&siblings);
    let new = Found::File(Some(blake3::hash(b"new")));
    assert!(observed.iter().all(|look| look.observed.found == new));
}

#[test]
fn a_link_to_where_the_directory_was_moved_is_no_way_to_its_times() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let path = dir.path().join("d/f");
    fs::write(&path, "x").unwrap();
    let host = Host::new(Path::new("/")).unwrap();
    assert!(host.stat(&path).is_some());
    fs::rename(dir.path().join("d"), dir.path().join("away")).unwrap();
    symlink("away", dir.path().join("d")).unwrap();
    assert_eq!(host.stat(&path), None);
}

#[test]
fn a_file_that_is_written_during_the_read_is_unstable_or_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "before").unwrap();
    let host = Host::new(Path::new("/")).unwrap();
    let declared = sample::declared(&path, sample::file(b"x"));
    let mut reader = Reader::new(&host);
    // Written after it was opened and before it was read: the first look does not agree with itself.
    let observed = reader.once(&declared, None, &mut |_| {
        fs::write(&path, "after it").unwrap();
    });
    assert_eq!(observed.found, Found::Unstable);
    // Every time: there is a verdict, and an end.
    let mut looks = 0;
    let observed = reader.observe(&declared, None, &mut |_| {
        looks += 1;
        fs::write(&path, "x".repeat(looks)).unwrap();
    });
    assert_eq!((observed.found, looks), (Found::Unstable, TRIES));
    // Replaced by something of another type.
    let observed = reader.observe(&declared, None, &mut |_| {
        if fs::symlink_metadata(&path).unwrap().is_file() {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        }
    });
    assert_eq!(observed.found, Found::Other(FileType::Directory));
}

/// Looks while `disturb` runs over and over on another thread.
fn looks_meanwhile(
    looks: usize,
    declared: &Declared,
    disturb: impl Fn() + Sync,
    check: impl Fn(&Observed),
) {
    let host = Host::new(Path::new("/")).unwrap();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                disturb();
            }
        });
        let mut reader = Reader::new(&host);
        let all = std::panic::AssertUnwindSafe(|| {
            for _ in 0..looks {
                check(&reader.observe(declared, None, &mut |_| {}));
            }
        });
        let result = std::panic::catch_unwind(all);
        ends.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

/// B038
#[test]
fn digest_and_attributes_are_those_of_one_file_however_fast_it_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let texts = ["a".repeat(10), "b".repeat(70_000)];
    fs::write(&path, &texts[0]).unwrap();
    let declared = sample::declared(&path, sample::file(b"x"));
    let replace = || {
        for text in &texts {
            fs::write(dir.path().join("new"), text).unwrap();
            fs::rename(dir.path().join("new"), &path).unwrap();
        }
    };
    looks_meanwhile(500, &declared, replace, |observed| match &observed.found {
        Found::File(Some(digest)) => {
            let size = observed.stat.unwrap().size;
            let text = texts.iter().find(|text| text.len() as u64 == size);
            assert_eq!(*digest, blake3::hash(text.unwrap().as_bytes()));
        }
        found => assert_eq!(*found, Found::Unstable),
    });
}

/// B039
#[test]
fn a_file_that_is_gone_before_it_is_read_has_a_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let declared = sample::declared(&path, sample::file(b"x"));
    let come_and_go = || {
        fs::write(&path, "x").unwrap();
        fs::remove_file(&path).unwrap();
    };
    let can_be = [
        Found::Absent,
        Found::Unstable,
        Found::File(Some(blake3::hash(b""))),
        Found::File(Some(blake3::hash(b"x"))),
    ];
    looks_meanwhile(500, &declared, come_and_go, |observed| {
        assert!(can_be.contains(&observed.found), "{:?}", observed.found);
    });
}

/// B057
#[test]
fn a_file_that_grows_while_it_is_read_is_what_it_was_at_one_moment_or_unstable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, vec![b'x'; 4 << 20]).unwrap();
    let declared = sample::declared(&path, sample::file(b"x"));
    let grow = || {
        let mut file = File::options().append(true).open(&path).unwrap();
        io::Write::write_all(&mut file, b"x").unwrap();
    };
    looks_meanwhile(5, &declared, grow, |observed| match &observed.found {
        Found::File(Some(digest)) => {
            let size = usize::try_from(observed.stat.unwrap().size).unwrap();
            assert_eq!(*digest, blake3::hash(&vec![b'x'; size]));
        }
        found => assert_eq!(*found, Found::Unstable),
    });
}

/// B055
#[test]
fn what_does_not_end_is_read_to_its_bound_and_no_further() {
    // A regular file that says size 0 and gives hundreds of gigabytes.
    let endless = PathBuf::from(format!("/proc/{}/pagemap", std::process::id()));
    let mut content = Content::exact(Arc::from(&b"x"[..]));
    content.max_size = 1 << 20;
    let observed = look_as(&sample::declared(&endless, Target::File(content)));
    assert_eq!((observed.found, observed.body), (Found::File(None), None));
    assert_eq!(
        look(Path::new("/dev/zero")).found,
        Found::Other(FileType::Char)
    );
}

#[test]
fn what_may_not_be_read_is_unreadable_and_its_attributes_are_known() {
    // Root may read everything.
    if rustix::process::geteuid().is_root() {
        eprintln!("not tested: this user may read every file");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
    let observed = look(&path);
    assert_eq!(
        observed.found,
        Found::Unreadable(io::ErrorKind::PermissionDenied)
    );
    assert_eq!(observed.stat.unwrap().mode, 0);
}
