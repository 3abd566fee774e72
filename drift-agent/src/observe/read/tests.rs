//! What stands at a path, whatever it is.

use std::{fs, os::unix::fs::symlink, process::Command};

use super::*;
use crate::declare::{Content, sample};

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
        .chain(["", "\n", "\r\n", "\n\n"].map(long))
    {
        fs::write(&path, &text).unwrap();
        let observed = look(&path);
        let whole = blake3::hash(text.as_bytes());
        let body = blake3::hash(without_final_newline(text.as_bytes()));
        assert_eq!(observed.found, Found::File(Some(whole)));
        assert_eq!(observed.body, Some(body), "{} bytes", text.len());
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
    let end = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (started, writes) = std::sync::mpsc::channel();
        let (end, path) = (&end, &path);
        scope.spawn(move || {
            use std::io::Write;
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            while !end.load(std::sync::atomic::Ordering::Relaxed) {
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
                        && start.elapsed() < std::time::Duration::from_secs(20) => {}
                other => break Some(other),
            }
        };
        end.store(true, std::sync::atomic::Ordering::Relaxed);
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
            assert_eq!(file_type(bits | mode), expected, "{bits:o}");
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
