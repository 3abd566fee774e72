//! What each name in the table's first column does.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    os::unix::fs::{FileExt, PermissionsExt},
    path::PathBuf,
};

use anyhow::Result;
use drift_tests::agent::tool;
use rustix::{
    fs::{FallocateFlags, FileType, IFlags, fallocate},
    mount::{MountFlags, mount, mount_bind, mount_remount},
};

use crate::cell::{Cell, WAY, lay_out, make_directory, make_file, make_link, make_node, remove};

pub type Mutation = fn(&Cell) -> Result<()>;

/// Seconds from 1970 to 2100.
const YEAR_2100: i64 = 4_102_444_800;

/// The mutation of that name.
pub fn find(name: &str) -> Option<Mutation> {
    nothing_that_counts(name)
        .or_else(|| bytes(name))
        .or_else(|| attributes(name))
        .or_else(|| what_stands_there(name))
        .or_else(|| link_texts(name))
        .or_else(|| in_a_directory(name))
        .or_else(|| the_way_to_it(name))
        .or_else(|| links_on_the_way(name))
        .or_else(|| mounts(name))
}

fn nothing_that_counts(name: &str) -> Option<Mutation> {
    let mutation: Mutation = match name {
        "untouched" => |_| Ok(()),
        "read" => Cell::look,
        "touched now" => |cell| {
            let now = std::time::UNIX_EPOCH.elapsed()?.as_secs();
            cell.touch(i64::try_from(now)?)
        },
        "touched to 1970" => |cell| cell.touch(0),
        "touched to 2100" => |cell| cell.touch(YEAR_2100),
        "opened for writing and closed" => |cell| cell.open().map(drop),
        "rewritten with the same bytes" => |cell| cell.edit(|bytes| bytes),
        "truncated and rewritten" => |cell| {
            cell.open()?.set_len(0)?;
            cell.edit(|bytes| bytes)
        },
        "changed and reverted" => |cell| {
            cell.edit(|_| b"other".to_vec())?;
            cell.edit(|bytes| bytes)
        },
        "space reserved beyond the end" => |cell| {
            let file = cell.open()?;
            Ok(fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20)?)
        },
        "mode set to what it is" => |cell| cell.chmod(|mode| mode),
        "owner set to what it is" => |cell| cell.chown(Some(0), Some(0)),
        "renamed away and back" => |cell| {
            fs::rename(cell.path(), cell.spare("away"))?;
            Ok(fs::rename(cell.spare("away"), cell.path())?)
        },
        "made and removed again" => |cell| cell.make_and_remove(&cell.path()),
        "replaced by its twin" => |cell| {
            let twin = cell.twin()?;
            cell.replace(|new| Ok(fs::rename(twin, new)?))
        },
        "exchanged with its twin" => |cell| {
            let twin = cell.twin()?;
            cell.exchange(&cell.path(), &twin)
        },
        "removed and made anew" => |cell| {
            remove(&cell.path())?;
            // What a link leads to is still there.
            let beside = cell.path().with_file_name("target");
            if beside.exists() {
                remove(&beside)?;
            }
            lay_out(cell.column, &cell.path())
        },
        "hard link added" => |cell| cell.hard_link(&cell.path(), &cell.spare("another name")),
        "names like it made beside it" => |cell| {
            for name in ["P", "p~", ".p.swp", "p.new", "#p#", "p ", "4913"] {
                make_file(&cell.parent().join(name), b"x", 0o644)?;
            }
            Ok(())
        },
        _ => return None,
    };
    Some(mutation)
}

fn bytes(name: &str) -> Option<Mutation> {
    let mutation: Mutation = match name {
        "appended" => |cell| {
            let length = cell.declared().len() as u64;
            Ok(cell.open()?.write_all_at(b"more\n", length)?)
        },
        "put in front" => |cell| cell.edit(|bytes| [b"# first\n".as_slice(), &bytes].concat()),
        "overwritten with as many bytes" => {
            |cell| cell.edit_text(|text| text.replacen("value", "VALUE", 1))
        }
        "overwritten, and its times put back" => |cell| {
            let before = fs::metadata(cell.path())?;
            cell.edit_text(|text| text.replacen("value", "eulav", 1))?;
            let times = fs::FileTimes::new()
                .set_modified(before.modified()?)
                .set_accessed(before.accessed()?);
            Ok(cell.open()?.set_times(times)?)
        },
        "one bit turned" => |cell| {
            cell.edit(|mut bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                bytes
            })
        },
        "cut in half" => |cell| {
            let length = cell.declared().len() as u64;
            Ok(cell.open()?.set_len(length / 2)?)
        },
        "emptied" => |cell| {
            if cell.is_directory() {
                cell.empty_directory()
            } else {
                Ok(cell.open()?.set_len(0)?)
            }
        },
        "extended by zeros" => |cell| {
            let length = cell.declared().len() as u64;
            Ok(cell.open()?.set_len(length + 1)?)
        },
        "hole punched" => |cell| {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(fallocate(&cell.open()?, how, 4096, 4096)?)
        },
        "made a sparse giant" => |cell| Ok(cell.open()?.set_len(100 << 30)?),
        "line ends made CRLF" => |cell| cell.edit_text(|text| text.replace('\n', "\r\n")),
        "one line end made CRLF" => |cell| cell.edit_text(|text| text.replacen('\n', "\r\n", 1)),
        "final line end dropped" => |cell| {
            cell.edit(|mut bytes| {
                bytes.pop();
                bytes
            })
        },
        "final line end doubled" => |cell| cell.edit_text(|text| text + "\n"),
        "byte order mark added" => |cell| cell.edit_text(|text| format!("\u{feff}{text}")),
        "made UTF-16" => {
            |cell| cell.edit_text(|text| text.chars().flat_map(|letter| [letter, '\0']).collect())
        }
        "blanks made tabs" => |cell| cell.edit_text(|text| text.replace(' ', "\t")),
        "blank at the end of a line" => |cell| cell.edit_text(|text| text.replacen('\n', " \n", 1)),
        "NUL put in" => |cell| cell.edit_text(|text| text.replacen(' ', "\0", 1)),
        "two lines exchanged" => |cell| {
            cell.edit_text(|text| {
                let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
                lines.swap(3, 4);
                lines.concat()
            })
        },
        "one letter made upper case" => {
            |cell| cell.edit_text(|text| text.replacen("setting_0399", "Setting_0399", 1))
        }
        "written through a hard link" => |cell| {
            let name = cell.spare("another name");
            cell.hard_link(&cell.path(), &name)?;
            Ok(fs::write(name, "other\n")?)
        },
        "written through a symbolic link" => |cell| {
            let name = cell.spare("another name");
            make_link(&name, cell.path())?;
            Ok(fs::write(name, "other\n")?)
        },
        "written through a mapping" => |cell| {
            let script = "import mmap, sys; file = open(sys.argv[1], 'r+b'); m = mmap.mmap(file.fileno(), 0); m[7] = 42; m.close()";
            let path = cell.path();
            let arguments = [OsStr::new("-c"), OsStr::new(script), path.as_os_str()];
            tool("python3", &arguments).map(drop)
        },
        "another file copied into it" => |cell| {
            let other = cell.spare("source");
            make_file(&other, b"other\n", 0o600)?;
            tool("cp", &[other, cell.path()]).map(drop)
        },
        "edited in place by sed" => |cell| {
            let path = cell.path();
            let arguments = [
                OsStr::new("-i"),
                OsStr::new("s/0007/seven/"),
                path.as_os_str(),
            ];
            tool("sed", &arguments).map(drop)
        },
        _ => return None,
    };
    Some(mutation)
}

fn attributes(name: &str) -> Option<Mutation> {
    let mutation: Mutation = match name {
        "owner's write bit taken" => |cell| cell.chmod(|mode| mode & !0o200),
        "group's write bit given" => |cell| cell.chmod(|mode| mode | 0o020),
        "others' read bit given" => |cell| cell.chmod(|mode| mode | 0o004),
        "setuid given" => |cell| cell.chmod(|mode| mode | 0o4000),
        "setgid given" => |cell| cell.chmod(|mode| mode | 0o2000),
        "sticky given" => |cell| cell.chmod(|mode| mode | 0o1000),
        "every bit taken" => |cell| cell.chmod(|_| 0),
        "every bit given" => |cell| cell.chmod(|_| 0o7777),
        "user changed" => |cell| cell.chown(Some(1), None),
        "group changed" => |cell| cell.chown(None, Some(1)),
        "user and mode changed" => |cell| {
            cell.chown(Some(1), None)?;
            cell.chmod(|mode| mode ^ 0o001)
        },
        "setuid given, then taken by a change of owner" => |cell| {
            cell.chmod(|mode| mode | 0o4000)?;
            cell.give_away(1)
        },
        "appended, mode and group changed" => |cell| {
            bytes("appended").map_or(Ok(()), |append| append(cell))?;
            cell.chown(None, Some(1))?;
            cell.chmod(|mode| mode ^ 0o001)
        },
        "extended attribute set" => |cell| cell.attribute("user.drift", b"x"),
        "access list set" => |cell| {
            // Such that the mode stays.
            let group = if cell.is_directory() { 5 } else { 4 };
            let owner = group + 2;
            cell.access_list("system.posix_acl_access", [owner, 4, group, group, 0])
        },
        "access list that gives the group more" => |cell| {
            let group = if cell.is_directory() { 5 } else { 4 };
            let owner = group + 2;
            cell.access_list("system.posix_acl_access", [owner, 6, group, group + 2, 0])
        },
        "default access list set" => {
            |cell| cell.access_list("system.posix_acl_default", [7, 7, 5, 7, 0])
        }
        "capability set" => |cell| {
            // Version 2, effective: may bind low ports.
            let words = [0x0200_0001u32, 1 << 10, 0, 0, 0];
            let value: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            cell.attribute("security.capability", &value)
        },
        "made immutable" => |cell| cell.flag(IFlags::IMMUTABLE),
        "made append-only" => |cell| cell.flag(IFlags::APPEND),
        _ => return None,
    };
    Some(mutation)
}

fn what_stands_there(name: &str) -> Option<Mutation> {
    let mutation: Mutation = match name {
        "removed" => |cell| remove(&cell.path()),
        "renamed away" => |cell| Ok(fs::rename(cell.path(), cell.spare("away"))?),
        "replaced by another file" => |cell| cell.replace(|new| make_file(new, b"other\n", 0o600)),
        "replaced by an empty file" => |cell| cell.replace(|new| make_file(new, b"", 0o640)),
        "replaced by its bytes in another mode" => {
            |cell| cell.replace(|new| make_file(new, &cell.declared(), 0o600))
        }
        "replaced by a hard link to another file" => |cell| {
            let other = cell.spare("another");
            make_file(&other, b"other\n", 0o640)?;
            cell.replace(|new| cell.hard_link(&other, new))
        },
        "replaced by an empty directory" => |cell| cell.replace(|new| make_directory(new, 0o750)),
        "replaced by a full directory" => |cell| {
            cell.replace(|new| {
                make_directory(new, 0o750)?;
                make_file(&new.join("precious"), b"x", 0o644)
            })
        },
        "replaced by a directory in another mode" => {
            |cell| cell.replace(|new| make_directory(new, 0o700))
        }
        "replaced by a FIFO" => |cell| cell.replace(|new| make_node(new, FileType::Fifo)),
        "replaced by a socket" => |cell| cell.replace(|new| make_node(new, FileType::Socket)),
        "replaced by a character device" => {
            |cell| cell.replace(|new| make_node(new, FileType::CharacterDevice))
        }
        "replaced by a block device" => {
            |cell| cell.replace(|new| make_node(new, FileType::BlockDevice))
        }
        "replaced by a link to its twin" => |cell| {
            let twin = cell.twin()?;
            cell.replace(|new| make_link(new, twin))
        },
        "replaced by a link to a file" => |cell| {
            let other = cell.spare("another");
            make_file(&other, b"other\n", 0o640)?;
            cell.replace(|new| make_link(new, other))
        },
        "replaced by a link to a directory" => |cell| {
            let other = cell.spare("another");
            make_directory(&other, 0o750)?;
            make_file(&other.join("child"), b"child\n", 0o644)?;
            cell.replace(|new| make_link(new, other))
        },
        "replaced by a link to /dev/null" => |cell| cell.replace(|new| make_link(new, "/dev/null")),
        "replaced by a dangling link" => {
            |cell| cell.replace(|new| make_link(new, cell.spare("nowhere")))
        }
        "replaced by a link to itself" => |cell| cell.replace(|new| make_link(new, "p")),
        "exchanged with another file" => |cell| {
            let other = cell.spare("another");
            make_file(&other, b"other\n", 0o600)?;
            cell.exchange(&cell.path(), &other)
        },
        "exchanged with a directory" => |cell| {
            let other = cell.spare("another");
            make_directory(&other, 0o750)?;
            cell.exchange(&cell.path(), &other)
        },
        _ => return None,
    };
    Some(mutation)
}

fn link_texts(name: &str) -> Option<Mutation> {
    let mutation: Mutation = match name {
        "retargeted to the same text" => |cell| {
            let text = fs::read_link(cell.path())?;
            retarget(cell, text)
        },
        "retargeted" => |cell| retarget(cell, "elsewhere"),
        "retargeted to the same place, spelt otherwise" => |cell| {
            let text = fs::read_link(cell.path())?;
            let text = text.strip_prefix("/").map_or_else(
                |_| PathBuf::from("./target"),
                |below| PathBuf::from("//").join("..").join(below),
            );
            retarget(cell, text)
        },
        "retargeted to the same place, absolutely" => {
            |cell| retarget(cell, cell.parent().join("target"))
        }
        "retargeted to its text with a slash" => |cell| {
            let mut text = fs::read_link(cell.path())?.into_os_string();
            text.push("/");
            retarget(cell, text)
        },
        "retargeted to a text that is not UTF-8" => {
            |cell| retarget(cell, OsStr::from_bytes(b"caf\xe9"))
        }
        "retargeted to the longest text" => |cell| {
            // Some file systems keep link texts in a block, others in less than a page.
            let text = "very/".repeat(200) + "long";
            retarget(cell, text)
        },
        "retargeted, and its owner changed" => |cell| {
            retarget(cell, "elsewhere")?;
            cell.chown(Some(1), None)
        },
        "its target written" => |cell| Ok(fs::write(cell.parent().join("target"), "other")?),
        "its target removed" => |cell| remove(&cell.parent().join("target")),
        _ => return None,
    };
    Some(mutation)
}

fn retarget(cell: &Cell, text: impl Into<OsString>) -> Result<()> {
    let text = text.into();
    cell.replace(|new| make_link(new, text))
}

fn in_a_directory(name: &str) -> Option<Mutation> {
    let mutation: Mutation = match name {
        "file put in" => |cell| make_file(&cell.inside("stray"), b"x", 0o644),
        "hidden file put in" => |cell| make_file(&cell.inside(".stray"), b"x", 0o644),
        "name with a line break put in" => |cell| make_file(&cell.inside("a\nb"), b"x", 0o644),
        "name that is not UTF-8 put in" => {
            |cell| make_file(&cell.inside(OsStr::from_bytes(b"caf\xe9")), b"x", 0o644)
        }
        "longest name put in" => |cell| make_file(&cell.inside("n".repeat(255)), b"x", 0o644),
        "child's name in upper case put in" => |cell| make_file(&cell.inside("CHILD"), b"x", 0o644),
        "editor's copy of the child put in" => {
            |cell| make_file(&cell.inside("child~"), b"x", 0o644)
        }
        "directory put in" => |cell| make_directory(&cell.inside("sub"), 0o755),
        "link put in" => |cell| make_link(&cell.inside("link"), "child"),
        "FIFO put in" => |cell| make_node(&cell.inside("fifo"), FileType::Fifo),
        "hard link of the child put in" => {
            |cell| cell.hard_link(&cell.inside("child"), &cell.inside("another"))
        }
        "thousand files put in" => |cell| {
            let mut numbers = 0..1000;
            numbers.try_for_each(|number| {
                make_file(&cell.inside(format!("stray-{number}")), b"", 0o644)
            })
        },
        "ignored file put in" => |cell| make_file(&cell.inside("new.bak"), b"x", 0o644),
        "ignored directory put in" => |cell| make_directory(&cell.inside("new.bak"), 0o755),
        "ignored file removed" => |cell| remove(&cell.inside("old.bak")),
        "file put in and taken out" => |cell| cell.make_and_remove(&cell.inside("stray")),
        "file put in, and the mode changed" => |cell| {
            make_file(&cell.inside("stray"), b"x", 0o644)?;
            cell.chmod(|mode| mode | 0o001)
        },
        "child changed" => |cell| Ok(fs::write(cell.inside("child"), "other\n")?),
        "child removed" => |cell| remove(&cell.inside("child")),
        "child renamed" => |cell| Ok(fs::rename(cell.inside("child"), cell.inside("other"))?),
        "child replaced by a directory" => |cell| {
            remove(&cell.inside("child"))?;
            make_directory(&cell.inside("child"), 0o755)
        },
        "child replaced by a dangling link" => |cell| {
            remove(&cell.inside("child"))?;
            make_link(&cell.inside("child"), cell.spare("nowhere"))
        },
        _ => return None,
    };
    Some(mutation)
}

fn the_way_to_it(name: &str) -> Option<Mutation> {
    let mutation: Mutation = match name {
        "parent renamed away" => |cell| cell.replace_parent(|_| Ok(())),
        "parent renamed away and back" => {
            |cell| cell.replace_parent(|parent| Ok(fs::rename(cell.spare("away"), parent)?))
        }
        "parent removed" => |cell| remove(&cell.parent()),
        "parent replaced by its twin" => |cell| {
            let twin = cell.twin_of_parent()?;
            cell.replace_parent(|parent| Ok(fs::rename(twin, parent)?))
        },
        "parent exchanged with an empty directory" => |cell| {
            let empty = cell.spare("empty");
            make_directory(&empty, 0o755)?;
            cell.exchange(&cell.parent(), &empty)
        },
        "parent exchanged with another tree" => |cell| {
            let other = cell.other_parent()?;
            cell.exchange(&cell.parent(), &other)
        },
        "parent replaced by a link to it" => {
            |cell| cell.replace_parent(|parent| make_link(parent, cell.spare("away")))
        }
        "parent replaced by a dangling link" => {
            |cell| cell.replace_parent(|parent| make_link(parent, cell.spare("nowhere")))
        }
        "parent replaced by a link to itself" => {
            |cell| cell.replace_parent(|parent| make_link(parent, "d"))
        }
        "parent replaced by a file" => {
            |cell| cell.replace_parent(|parent| make_file(parent, b"x", 0o644))
        }
        "parent replaced by a FIFO" => {
            |cell| cell.replace_parent(|parent| make_node(parent, FileType::Fifo))
        }
        "parent of the parent replaced by a link" => |cell| {
            fs::rename(cell.spare("up"), cell.spare("down"))?;
            make_link(&cell.spare("up"), "down")
        },
        "parent closed to all" => |cell| {
            let parent = fs::File::open(cell.parent())?;
            Ok(parent.set_permissions(fs::Permissions::from_mode(0o000))?)
        },
        _ => return None,
    };
    Some(mutation)
}

fn links_on_the_way(name: &str) -> Option<Mutation> {
    fn retarget(cell: &Cell, text: &str) -> Result<()> {
        let new = cell.spare("new");
        make_link(&new, text)?;
        Ok(fs::rename(new, cell.way())?)
    }
    let mutation: Mutation = match name {
        "link on the way replaced by its twin" => |cell| retarget(cell, WAY),
        "link on the way retargeted" => |cell| {
            cell.twin_of_parent()?;
            retarget(cell, "twin")
        },
        "link on the way spelt otherwise" => |cell| retarget(cell, "./up/d"),
        "link on the way removed" => |cell| remove(&cell.way()),
        "link on the way replaced by the directory" => |cell| {
            remove(&cell.way())?;
            Ok(fs::rename(cell.parent(), cell.way())?)
        },
        _ => return None,
    };
    Some(mutation)
}

fn mounts(name: &str) -> Option<Mutation> {
    let mutation: Mutation = match name {
        "twin bound over it" => |cell| Ok(mount_bind(cell.twin()?, cell.path())?),
        "bound over itself, read-only" => |cell| {
            mount_bind(cell.path(), cell.path())?;
            let flags = MountFlags::BIND | MountFlags::RDONLY;
            Ok(mount_remount(cell.path(), flags, "")?)
        },
        "another file bound over it" => {
            |cell| Ok(mount_bind(cell.other_parent()?.join("p"), cell.path())?)
        }
        "/dev/null bound over it" => |cell| Ok(mount_bind("/dev/null", cell.path())?),
        "another directory bound over it" => {
            |cell| Ok(mount_bind(cell.other_parent()?, cell.path())?)
        }
        "tmpfs mounted over it" => |cell| Ok(tmpfs(&cell.path())?),
        "tmpfs mounted over the parent" => |cell| Ok(tmpfs(&cell.parent())?),
        "twin bound over the parent" => {
            |cell| Ok(mount_bind(cell.twin_of_parent()?, cell.parent())?)
        }
        "another tree bound over the parent" => {
            |cell| Ok(mount_bind(cell.other_parent()?, cell.parent())?)
        }
        _ => return None,
    };
    Some(mutation)
}

fn tmpfs(place: &std::path::Path) -> rustix::io::Result<()> {
    mount("none", place, "tmpfs", MountFlags::empty(), None)
}
