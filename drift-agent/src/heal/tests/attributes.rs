//! Attributes beside mode and owner, on the file system of the temporary folder and on a tmpfs.
//!
//! What it takes: root, and a file system with extended attributes, access lists and flags.

use std::{
    ffi::CString,
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
};

use drift_common::policy::{ACCESS_ACL, Acl, CAPABILITY, DEFAULT_ACL, FileCapabilities, SELINUX};
use rustix::{
    fs::{IFlags, XattrFlags, ioctl_getflags, ioctl_setflags, lgetxattr, lremovexattr, lsetxattr},
    io::Errno,
};

use super::{heal, look};
use crate::{
    compare::{Drift, attribute::out_of_reach, differences},
    declare::{Attribute, Attributes, Declared, Expect, Flags, Target, sample},
};

const IMMUTABLE: Flags = Flags {
    immutable: true,
    append: false,
};

/// A folder whose flags are taken away again, so that it can be removed.
struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.0.path()).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                chattr(&entry.path(), Flags::default());
            }
        }
    }
}

fn chattr(path: &Path, flags: Flags) {
    let Ok(file) = File::open(path) else { return };
    let mut set = ioctl_getflags(&file).unwrap();
    set.set(IFlags::IMMUTABLE, flags.immutable);
    set.set(IFlags::APPEND, flags.append);
    ioctl_setflags(&file, set).unwrap();
}

fn flags(path: &Path) -> Flags {
    let set = ioctl_getflags(File::open(path).unwrap()).unwrap();
    Flags {
        immutable: set.contains(IFlags::IMMUTABLE),
        append: set.contains(IFlags::APPEND),
    }
}

fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    match lgetxattr(path, name, &mut value[..]) {
        Ok(length) => Some(value[..length].to_vec()),
        Err(Errno::NODATA) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

fn set(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn acl(text_mode: u32, users: &[(u32, u8)]) -> Acl<u32> {
    let mut acl = Acl::of_mode(text_mode);
    acl.users = users.to_vec();
    acl.mask = (!users.is_empty()).then_some(acl.group);
    acl
}

fn capabilities(text: &str) -> FileCapabilities {
    FileCapabilities::parse(text).unwrap()
}

fn wanting(
    path: &Path,
    target: Target,
    named: Vec<(&str, Expect)>,
    flags: Option<Flags>,
) -> Declared {
    let named = named.into_iter().map(|(name, expect)| Attribute {
        name: CString::new(name).unwrap(),
        expect,
    });
    Declared {
        attributes: Attributes {
            named: named.collect(),
            flags,
        },
        ..sample::declared(path, target)
    }
}

/// Everything that can be declared of a file.
fn all(path: &Path) -> Declared {
    Declared {
        mode: Some(0o4750),
        ..wanting(
            path,
            sample::file(b"x"),
            vec![
                (ACCESS_ACL, Expect::Access(acl(0o750, &[(1000, 7)]))),
                ("user.there", Expect::Value(b"web".to_vec())),
                ("user.gone", Expect::Absent),
                ("trusted.t", Expect::Value(vec![0, 1, 255])),
                (SELINUX, Expect::Label("system_u:object_r:etc_t:s0".into())),
                (
                    CAPABILITY,
                    Expect::Capabilities(capabilities("cap_net_raw=ep")),
                ),
            ],
            Some(IMMUTABLE),
        )
    }
}

#[track_caller]
fn as_declared(path: &Path) {
    assert_eq!(
        get(path, ACCESS_ACL),
        Some(acl(0o750, &[(1000, 7)]).to_xattr())
    );
    assert_eq!(get(path, "user.there").as_deref(), Some(&b"web"[..]));
    assert_eq!(get(path, "user.gone"), None);
    assert_eq!(get(path, "trusted.t"), Some(vec![0, 1, 255]));
    assert_eq!(
        get(path, SELINUX).as_deref(),
        Some(&b"system_u:object_r:etc_t:s0\0"[..])
    );
    assert_eq!(
        get(path, CAPABILITY),
        Some(capabilities("cap_net_raw=ep").to_xattr())
    );
    assert_eq!(flags(path), IMMUTABLE);
    assert_eq!(mode(path), 0o4750);
}

#[test]
fn a_missing_file_is_made_with_all_that_is_declared() {
    let dir = Dir::new();
    let declared = all(&dir.at("f"));
    assert_eq!(heal(&declared).unwrap(), []);
    as_declared(&dir.at("f"));
    assert_eq!(fs::read_dir(dir.0.path()).unwrap().count(), 1);
}

/// B062, B063: labels, capabilities and lists are seen and put back, each by itself.
#[test]
fn each_drifted_attribute_is_seen_and_put_back_in_place() {
    let dir = Dir::new();
    let path = dir.at("f");
    let declared = all(&path);
    heal(&declared).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let other = acl(0o750, &[(1000, 7), (1001, 4)]);
    type Change<'c> = (&'c str, &'c dyn Fn(&Path));
    let changes: [Change<'_>; 11] = [
        ("value", &|path| set(path, "user.there", b"wed")),
        ("removed", &|path| lremovexattr(path, "user.there").unwrap()),
        ("added", &|path| set(path, "user.gone", b"")),
        ("trusted", &|path| set(path, "trusted.t", &[0, 1])),
        ("label", &|path| set(path, SELINUX, b"a:b:c\0")),
        ("capabilities", &|path| {
            set(path, CAPABILITY, &capabilities("cap_net_raw=p").to_xattr());
        }),
        ("no capabilities", &|path| {
            lremovexattr(path, CAPABILITY).unwrap();
        }),
        ("list", &|path| set(path, ACCESS_ACL, &other.to_xattr())),
        ("no list", &|path| lremovexattr(path, ACCESS_ACL).unwrap()),
        ("flags", &|_| {}),
        ("other flag", &|path| {
            chattr(
                path,
                Flags {
                    immutable: false,
                    append: true,
                },
            );
        }),
    ];
    for (what, change) in changes {
        chattr(&path, Flags::default());
        change(&path);
        let drifts = differences(&declared, &look(&declared));
        assert_eq!(drifts, [Drift::Xattr], "{what}");
        assert_eq!(heal(&declared).unwrap(), [], "{what}");
        as_declared(&path);
    }
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode, "in place");
}

#[test]
fn an_immutable_file_whose_flag_is_declared_is_put_back_whatever_has_drifted() {
    let dir = Dir::new();
    let path = dir.at("f");
    let declared = all(&path);
    heal(&declared).unwrap();
    // Whoever could change it has put the flag back.
    let changes: [&dyn Fn(); 4] = [
        &|| fs::write(&path, "y").unwrap(),
        &|| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap(),
        &|| set(&path, "user.there", b"y"),
        &|| {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        },
    ];
    for change in changes {
        chattr(&path, Flags::default());
        change();
        chattr(&path, IMMUTABLE);
        assert_eq!(heal(&declared).unwrap(), []);
        as_declared(&path);
        assert_eq!(fs::read(&path).unwrap(), b"x");
    }
}

#[test]
fn what_has_lost_its_flag_for_a_heal_gets_it_back_where_it_still_is() {
    let dir = Dir::new();
    let (path, other) = (dir.at("f"), dir.at("other"));
    let declared = all(&path);
    // Under another name the old file stays as it was.
    fs::write(&path, "y").unwrap();
    fs::hard_link(&path, &other).unwrap();
    chattr(&path, IMMUTABLE);
    assert_eq!(heal(&declared).unwrap(), []);
    as_declared(&path);
    assert_eq!(
        (flags(&other), fs::read(&other).unwrap()),
        (IMMUTABLE, b"y".to_vec())
    );
    // A heal that fails gives it back: a directory that is not empty.
    let path = dir.at("d");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("precious"), "").unwrap();
    chattr(&path, IMMUTABLE);
    assert!(heal(&all(&path)).is_err());
    assert_eq!(flags(&path), IMMUTABLE);
    // Devices and FIFOs are replaced without being opened.
    let path = dir.at("fifo");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(heal(&all(&path)).unwrap(), []);
    as_declared(&path);
}

#[test]
fn a_flag_that_nobody_declared_is_not_taken_away() {
    let dir = Dir::new();
    let path = dir.at("f");
    fs::write(&path, "y").unwrap();
    chattr(&path, IMMUTABLE);
    let error = heal(&sample::declared(&path, sample::file(b"x"))).unwrap_err();
    assert_eq!(error.reason(), "not-permitted");
    let mut declared = sample::declared(&path, sample::file(b"y"));
    declared.mode = Some(0o600);
    assert_eq!(heal(&declared).unwrap_err().reason(), "not-permitted");
    assert_eq!(
        (flags(&path), fs::read(&path).unwrap()),
        (IMMUTABLE, b"y".to_vec())
    );
    assert_eq!(
        fs::read_dir(dir.0.path()).unwrap().count(),
        1,
        "no leftovers"
    );
    // Said to be none, it goes.
    let none = wanting(
        &path,
        sample::file(b"x"),
        Vec::new(),
        Some(Flags::default()),
    );
    assert_eq!(heal(&none).unwrap(), []);
    assert_eq!(flags(&path), Flags::default());
}

/// B059: whoever looks while it is replaced, again and again, sees a file of the same owner, mode, list and label, with all of one content.
#[test]
fn at_no_moment_of_a_replacement_is_there_another_mode_or_list() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let dir = Dir::new();
    let path = dir.at("sudoers");
    let mut declared = wanting(
        &path,
        sample::file(b"declared"),
        vec![
            (ACCESS_ACL, Expect::Access(acl(0o440, &[(1000, 4)]))),
            (SELINUX, Expect::Label("a:b:c".into())),
        ],
        None,
    );
    declared.mode = Some(0o440);
    (declared.uid, declared.gid) = (Some(0), Some(0));
    heal(&declared).unwrap();
    let done = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) {
                // One descriptor: all of what is seen is of one file.
                let file = File::open(&path).expect("never without a name");
                let metadata = file.metadata().unwrap();
                assert_eq!(metadata.mode() & 0o7777, 0o440);
                assert_eq!((metadata.uid(), metadata.gid()), (0, 0));
                for name in [ACCESS_ACL, SELINUX] {
                    let mut value = [0; 256];
                    rustix::fs::fgetxattr(&file, name, &mut value[..]).expect(name);
                }
                let content = std::io::read_to_string(&file).unwrap();
                assert_eq!(content.len(), 8, "half of a file: {content}");
                looks += 1;
            }
            looks
        });
        for _ in 0..50 {
            // In place and of the same length: the file that stands there is never half of one.
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"drifted!", 0).unwrap();
            assert_eq!(heal(&declared).unwrap(), []);
        }
        done.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    assert!(looks > 50, "{looks} looks");
}

/// B059, B062: nothing that is not declared is lost when a file is replaced.
#[test]
fn what_is_not_declared_stays_when_a_file_is_replaced() {
    let dir = Dir::new();
    let path = dir.at("f");
    fs::write(&path, "y").unwrap();
    // What is new in the folder would get this list.
    set(
        dir.0.path(),
        DEFAULT_ACL,
        &acl(0o770, &[(4242, 7)]).to_xattr(),
    );
    let list = acl(0o640, &[(1000, 6)]);
    for with_list in [true, false] {
        fs::write(&path, "y").unwrap();
        if with_list {
            set(&path, ACCESS_ACL, &list.to_xattr());
        } else {
            set(&path, ACCESS_ACL, &Acl::of_mode(0o640).to_xattr());
        }
        set(&path, "user.k", b"label");
        set(&path, SELINUX, b"a:b:c\0");
        set(&path, CAPABILITY, &capabilities("cap_kill=ip").to_xattr());
        let file = File::open(&path).unwrap();
        let own = ioctl_getflags(&file).unwrap() | IFlags::NODUMP;
        ioctl_setflags(&file, own).unwrap();
        let before = fs::metadata(&path).unwrap();

        assert_eq!(
            heal(&sample::declared(&path, sample::file(b"x"))).unwrap(),
            []
        );
        let after = fs::metadata(&path).unwrap();
        assert_ne!(before.ino(), after.ino());
        assert_eq!(before.mode(), after.mode());
        assert_eq!(get(&path, ACCESS_ACL), with_list.then(|| list.to_xattr()));
        assert_eq!(get(&path, "user.k").as_deref(), Some(&b"label"[..]));
        assert_eq!(get(&path, SELINUX).as_deref(), Some(&b"a:b:c\0"[..]));
        assert_eq!(
            get(&path, CAPABILITY),
            Some(capabilities("cap_kill=ip").to_xattr())
        );
        let flags = ioctl_getflags(File::open(&path).unwrap()).unwrap();
        assert!(flags.contains(IFlags::NODUMP));
    }
    lremovexattr(dir.0.path(), DEFAULT_ACL).unwrap();
}

/// B058: the kernel takes these away when the owner changes.
#[test]
fn a_change_of_owner_costs_neither_setuid_nor_capabilities() {
    let dir = Dir::new();
    let path = dir.at("f");
    fs::write(&path, "x").unwrap();
    chown(&path, Some(12), Some(34)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
    let value = capabilities("cap_kill=ep").to_xattr();
    set(&path, CAPABILITY, &value);
    let mut declared = sample::declared(&path, sample::file(b"x"));
    (declared.uid, declared.gid) = (Some(0), Some(0));
    assert_eq!(heal(&declared).unwrap(), []);
    assert_eq!((mode(&path), get(&path, CAPABILITY)), (0o6755, Some(value)));
    // Every mode there is comes through a change of owner and through a replacement.
    for bits in (0..=0o7777)
        .step_by(0o111)
        .chain([0o4000, 0o2000, 0o1000, 0o7777])
    {
        for content in ["x", "y"] {
            fs::write(&path, content).unwrap();
            chown(&path, Some(12), Some(34)).unwrap();
            declared.mode = Some(bits);
            assert_eq!(heal(&declared).unwrap(), [], "{bits:04o}");
            assert_eq!(mode(&path), bits);
        }
    }
}

#[test]
fn where_no_list_may_be_the_groups_own_bits_count_and_not_the_mask() {
    let dir = Dir::new();
    let path = dir.at("f");
    let mut list = acl(0o660, &[(1000, 6)]);
    list.group = 4;
    for content in ["x", "y"] {
        for declared_mode in [None, Some(0o600)] {
            fs::write(&path, content).unwrap();
            set(&path, ACCESS_ACL, &list.to_xattr());
            assert_eq!(mode(&path), 0o660);
            let mut declared = wanting(
                &path,
                sample::file(b"x"),
                vec![(ACCESS_ACL, Expect::Absent)],
                None,
            );
            declared.mode = declared_mode;
            assert_eq!(heal(&declared).unwrap(), []);
            assert_eq!(get(&path, ACCESS_ACL), None);
            assert_eq!(mode(&path), declared_mode.unwrap_or(0o640), "{content}");
        }
    }
}

#[test]
fn an_access_list_is_compared_by_what_it_means() {
    let dir = Dir::new();
    let path = dir.at("f");
    fs::write(&path, "x").unwrap();
    let access = |list| {
        let named = vec![(ACCESS_ACL, Expect::Access(list))];
        wanting(&path, sample::file(b"x"), named, None)
    };
    // No more than a mode: the kernel keeps no list.
    let plain = access(Acl::of_mode(0o640));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(differences(&plain, &look(&plain)), []);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4644)).unwrap();
    assert_eq!(differences(&plain, &look(&plain)), [Drift::Xattr]);
    assert_eq!(heal(&plain).unwrap(), []);
    assert_eq!(mode(&path), 0o4640);
    // A chmod changes the mask.
    let named = access(acl(0o640, &[(7, 4)]));
    assert_eq!(heal(&named).unwrap(), []);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    assert_eq!(differences(&named, &look(&named)), [Drift::Xattr]);
    assert_eq!(heal(&named).unwrap(), []);
}

#[test]
fn directories_and_links_have_attributes_too() {
    let dir = Dir::new();
    let (folder, link) = (dir.at("d"), dir.at("l"));
    let default = acl(0o750, &[(1000, 5)]);
    let declared = wanting(
        &folder,
        Target::Directory(None),
        vec![
            (DEFAULT_ACL, Expect::Default(default.clone())),
            ("user.k", Expect::Value(b"v".to_vec())),
        ],
        Some(IMMUTABLE),
    );
    let made = |path: &Path| {
        assert_eq!(get(path, DEFAULT_ACL), Some(default.to_xattr()));
        assert_eq!(get(path, "user.k").as_deref(), Some(&b"v"[..]));
        assert_eq!(flags(path), IMMUTABLE);
    };
    assert_eq!(heal(&declared).unwrap(), []);
    made(&folder);
    chattr(&folder, Flags::default());
    lremovexattr(&folder, DEFAULT_ACL).unwrap();
    assert_eq!(heal(&declared).unwrap(), []);
    made(&folder);
    // Over an immutable file.
    chattr(&folder, Flags::default());
    fs::remove_dir(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    chattr(&folder, IMMUTABLE);
    assert_eq!(heal(&declared).unwrap(), []);
    made(&folder);

    let nowhere = dir.at("nowhere");
    let declared = wanting(
        &link,
        Target::Symlink(nowhere.clone().into_os_string()),
        vec![
            ("trusted.k", Expect::Value(b"v".to_vec())),
            (SELINUX, Expect::Label("a:b:c".into())),
        ],
        None,
    );
    assert_eq!(heal(&declared).unwrap(), []);
    assert_eq!(get(&link, "trusted.k").as_deref(), Some(&b"v"[..]));
    lremovexattr(&link, "trusted.k").unwrap();
    assert_eq!(differences(&declared, &look(&declared)), [Drift::Xattr]);
    assert_eq!(heal(&declared).unwrap(), []);
    fs::remove_file(&link).unwrap();
    symlink("elsewhere", &link).unwrap();
    assert_eq!(heal(&declared).unwrap(), []);
    assert_eq!(get(&link, SELINUX).as_deref(), Some(&b"a:b:c\0"[..]));
    assert!(!nowhere.exists(), "the link was not followed");
}

/// B063: /proc has none of it, and says so.
#[test]
fn what_a_file_system_does_not_have_drifts_and_is_not_tried() {
    let path = PathBuf::from(format!("/proc/{}/limits", std::process::id()));
    let content = fs::read(&path).unwrap();
    let there = |named, flags| wanting(&path, sample::file(&content), named, flags);
    let absent = there(
        vec![("user.k", Expect::Absent), (ACCESS_ACL, Expect::Absent)],
        Some(Flags::default()),
    );
    assert_eq!(differences(&absent, &look(&absent)), []);
    let declared = there(vec![("user.k", Expect::Value(b"v".to_vec()))], None);
    let observed = look(&declared);
    assert_eq!(differences(&declared, &observed), [Drift::Xattr]);
    assert!(out_of_reach(&declared, &observed));
    // Healing is asked for nothing.
    assert_eq!(heal(&declared).unwrap(), [Drift::Xattr]);
}
