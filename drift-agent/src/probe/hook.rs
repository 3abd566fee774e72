//! The table of hooks: each kernel program, once, with every place it is attached to.

use std::fmt;

use drift_common::abi::Function;

use super::Sensor;

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The begin of one of the kernel's functions.
    Begin(Function),
    /// Its end.
    End(Function),
    /// A perf tracepoint, `category/name`. One that this kernel or this processor does not have is left out: no program can use a call that is not there.
    Tracepoint(&'static str, &'static str),
    /// A raw tracepoint.
    Raw(&'static str),
}

/// One kernel program.
#[derive(Debug)]
pub struct Hook {
    /// Its name in the object file.
    pub program: &'static str,
    pub places: &'static [Place],
    /// What is not seen without it, for people.
    pub sees: &'static str,
    /// What sees the same in another way, where this cannot be attached: programs of whichever table.
    pub instead: &'static [&'static str],
    /// What happens there is not missed where the place itself is missing.
    pub may_be_absent: bool,
}

impl Hook {
    const fn new(program: &'static str, places: &'static [Place], sees: &'static str) -> Hook {
        Hook {
            program,
            places,
            sees,
            instead: &[],
            may_be_absent: false,
        }
    }

    const fn instead(self, instead: &'static [&'static str]) -> Hook {
        Hook { instead, ..self }
    }

    /// Other places see the same in a kernel that does not have this one.
    const fn may_be_absent(self) -> Hook {
        Hook {
            may_be_absent: true,
            ..self
        }
    }

    /// Without it the others are of no use: it tells the agent what an inode is called, or whether a call succeeded.
    #[must_use]
    pub fn is_essential(&self) -> bool {
        matches!(self.program, "open_exit" | "call_exit" | "file_opened")
    }

    /// Whether its place is a function of the kernel.
    #[must_use]
    pub fn is_on_function(&self) -> bool {
        matches!(self.places.first(), Some(Place::Begin(_) | Place::End(_)))
    }
}

/// The hooks of a sensor, in the order of the kernel half's `hook.rs`.
#[must_use]
pub fn hooks(sensor: Sensor) -> &'static [Hook] {
    match sensor {
        Sensor::Btf => FUNCTIONS,
        Sensor::Tracepoint => TRACEPOINTS,
    }
}

/// The hook with this program.
pub(super) fn named(program: &str) -> Option<&'static Hook> {
    FUNCTIONS
        .iter()
        .chain(IN_RESERVE)
        .chain(TRACEPOINTS)
        .find(|hook| hook.program == program)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tracepoint(category, name) => write!(f, "{category}/{name}"),
            Place::Raw(name) => f.write_str(name),
            Place::Begin(function) => write!(f, "fentry {}", function.name()),
            Place::End(function) => write!(f, "fexit {}", function.name()),
        }
    }
}

macro_rules! calls {
    ($moment:literal: $($call:literal),+) => {
        &[$(Place::Tracepoint("syscalls", concat!("sys_", $moment, "_", $call))),+]
    };
}

/// The program that is attached only where what io_uring completes can be told.
pub(super) const URING: &str = "uring_complete";

const MOUNTS: &str = "who mounts something over a declared path";
const MOUNT_CALLS: &[&str] = &["mount_enter", "call_exit"];

/// Where a program can be attached to the kernel's functions. No program of these is on the way of a system call that changes no file.
const FUNCTIONS: &[Hook] = &[
    Hook::new(
        "file_opened",
        &[Place::End(Function::VfsOpen)],
        "who opens a declared file, files created in its place",
    ),
    Hook::new(
        "made_and_opened",
        &[Place::End(Function::FinishOpen)],
        "files created in a declared place on FUSE and NFS, before they are closed",
    )
    .instead(&["open_exit"]),
    Hook::new(
        "read_permitted",
        &[Place::Begin(Function::SecurityFilePermission)],
        "who reads a declared file",
    )
    .instead(&["read_begun"]),
    Hook::new(
        "mapped",
        &[Place::Begin(Function::SecurityMmapFile)],
        "who reads a declared file through a mapping",
    )
    .instead(&["mmap_enter"]),
    Hook::new(
        "inode_dirtied",
        &[Place::Raw("writeback_mark_inode_dirty")],
        "writes whose descriptor stays open, stores through mappings, io_uring",
    ),
    Hook::new(
        "file_closed",
        &[Place::Begin(Function::Fput)],
        "the end of a write",
    )
    .instead(&["close_enter", "dup_enter", "process_exit"]),
    Hook::new(
        "space_changed",
        &[Place::End(Function::VfsFallocate)],
        "holes punched into a file that stays open",
    ),
    Hook::new(
        "range_cloned",
        &[Place::End(Function::VfsCloneFileRange)],
        "content shared with another file that stays open (FICLONE)",
    ),
    Hook::new(
        "rename_begun",
        &[Place::Begin(Function::VfsRename)],
        "files moved onto or away from a declared path",
    )
    .instead(&["rename_enter", "renameat_enter", "call_exit"]),
    Hook::new(
        "rename_ended",
        &[Place::End(Function::VfsRename)],
        "files moved onto or away from a declared path",
    )
    .instead(&["rename_enter", "renameat_enter", "call_exit"]),
    Hook::new(
        "file_unlinked",
        &[Place::End(Function::VfsUnlink)],
        "declared files removed",
    )
    .instead(&["unlink_enter", "unlinkat_enter", "call_exit"]),
    Hook::new(
        "dir_removed",
        &[Place::End(Function::VfsRmdir)],
        "declared directories removed",
    )
    .instead(&["unlink_enter", "unlinkat_enter", "call_exit"]),
    Hook::new(
        "file_made",
        &[Place::End(Function::VfsCreate)],
        "plain files made in a declared place by mknod",
    )
    .instead(&["make_enter", "makeat_enter", "call_exit"]),
    Hook::new(
        "dir_made",
        &[Place::End(Function::VfsMkdir)],
        "directories made in a declared place",
    )
    .instead(&["make_enter", "makeat_enter", "call_exit"]),
    Hook::new(
        "node_made",
        &[Place::End(Function::VfsMknod)],
        "nodes made in a declared place",
    )
    .instead(&["make_enter", "makeat_enter", "call_exit"]),
    Hook::new(
        "symlink_made",
        &[Place::End(Function::VfsSymlink)],
        "links made in a declared place",
    )
    .instead(&["symlink_enter", "symlinkat_enter", "call_exit"]),
    Hook::new(
        "link_made",
        &[Place::End(Function::VfsLink)],
        "links made in a declared place, and other names of declared files",
    )
    .instead(&["link_enter", "linkat_enter", "call_exit"]),
    Hook::new(
        "attr_changed",
        &[Place::End(Function::NotifyChange)],
        "mode, owner and size changed",
    )
    .instead(&["attr_enter", "attrat_enter", "attrfd_enter", "call_exit"]),
    Hook::new(
        "xattr_set",
        &[Place::End(Function::VfsSetxattr)],
        "labels, capabilities and other extended attributes set",
    )
    .instead(&["attr_enter", "attrat_enter", "attrfd_enter", "call_exit"]),
    Hook::new(
        "xattr_removed",
        &[Place::End(Function::VfsRemovexattr)],
        "extended attributes removed",
    )
    .instead(&["attr_enter", "attrat_enter", "attrfd_enter", "call_exit"]),
    Hook::new(
        "acl_set",
        &[Place::End(Function::VfsSetAcl)],
        "access lists set",
    )
    .instead(&["attr_enter", "attrat_enter", "attrfd_enter", "call_exit"])
    .may_be_absent(),
    Hook::new(
        "acl_removed",
        &[Place::End(Function::VfsRemoveAcl)],
        "access lists removed",
    )
    .instead(&["attr_enter", "attrat_enter", "attrfd_enter", "call_exit"])
    .may_be_absent(),
    Hook::new(
        "flags_set",
        &[Place::End(Function::VfsFileattrSet)],
        "flags changed (chattr)",
    )
    .instead(&["flags_were_set"]),
    Hook::new("mounted", &[Place::End(Function::Mount)], MOUNTS).instead(MOUNT_CALLS),
    Hook::new("unmounted", &[Place::End(Function::Umount)], MOUNTS).instead(MOUNT_CALLS),
    Hook::new("mount_moved", &[Place::End(Function::MoveMount)], MOUNTS).instead(MOUNT_CALLS),
    Hook::new("root_moved", &[Place::End(Function::PivotRoot)], MOUNTS).instead(MOUNT_CALLS),
];

/// What stands in for some of them, on functions too.
const IN_RESERVE: &[Hook] = &[
    Hook::new(
        "read_begun",
        &[Place::Begin(Function::VfsRead)],
        "who reads a declared file",
    )
    .instead(&["read_enter"]),
    Hook::new(
        "flags_were_set",
        &[Place::Begin(Function::MntDropWriteFile)],
        "flags changed (chattr)",
    )
    .instead(&["ioctl_enter", "call_exit"]),
];

/// Where it cannot.
const TRACEPOINTS: &[Hook] = &[
    Hook::new(
        "open_exit",
        calls!("exit": "open", "openat", "openat2", "creat", "open_by_handle_at"),
        "who opens a declared file, files created in its place",
    ),
    Hook::new(
        "read_enter",
        calls!("enter": "read", "pread64", "readv", "preadv", "preadv2", "copy_file_range", "splice"),
        "who reads a declared file",
    ),
    Hook::new(
        "sendfile_enter",
        calls!("enter": "sendfile64"),
        "who sends a declared file",
    ),
    Hook::new(
        "mmap_enter",
        calls!("enter": "mmap"),
        "who reads a declared file through a mapping",
    ),
    Hook::new(
        "inode_dirtied",
        &[Place::Raw("writeback_mark_inode_dirty")],
        "writes whose descriptor stays open, stores through mappings, io_uring",
    ),
    Hook::new(
        URING,
        &[Place::Raw("io_uring_complete")],
        "names changed through io_uring, and the end of its writes",
    ),
    Hook::new(
        "close_enter",
        calls!("enter": "close"),
        "the end of a write",
    ),
    Hook::new(
        "dup_enter",
        calls!("enter": "dup2", "dup3"),
        "the end of a shell's redirection",
    ),
    Hook::new(
        "process_exit",
        &[Place::Tracepoint("sched", "sched_process_exit")],
        "writers that end without closing",
    ),
    Hook::new(
        "rename_enter",
        calls!("enter": "rename"),
        "files moved onto or away from a declared path",
    ),
    Hook::new(
        "renameat_enter",
        calls!("enter": "renameat", "renameat2"),
        "files moved onto or away from a declared path",
    ),
    Hook::new(
        "unlink_enter",
        calls!("enter": "unlink", "rmdir"),
        "declared files removed",
    ),
    Hook::new(
        "unlinkat_enter",
        calls!("enter": "unlinkat"),
        "declared files removed",
    ),
    Hook::new(
        "make_enter",
        calls!("enter": "mkdir", "mknod"),
        "directories and nodes made in a declared place",
    ),
    Hook::new(
        "makeat_enter",
        calls!("enter": "mkdirat", "mknodat"),
        "directories and nodes made in a declared place",
    ),
    Hook::new(
        "link_enter",
        calls!("enter": "link"),
        "links made in a declared place, and other names of declared files",
    ),
    Hook::new(
        "linkat_enter",
        calls!("enter": "linkat"),
        "links made in a declared place, and other names of declared files",
    ),
    Hook::new(
        "symlink_enter",
        calls!("enter": "symlink"),
        "links made in a declared place",
    ),
    Hook::new(
        "symlinkat_enter",
        calls!("enter": "symlinkat"),
        "links made in a declared place",
    ),
    Hook::new(
        "attr_enter",
        calls!("enter":
            "chmod", "chown", "lchown", "truncate", "setxattr", "lsetxattr", "removexattr", "lremovexattr"),
        "mode, owner, size and other attributes changed by path",
    ),
    Hook::new(
        "attrat_enter",
        calls!("enter": "fchmodat", "fchmodat2", "fchownat", "setxattrat", "removexattrat", "file_setattr"),
        "mode, owner and other attributes changed by path",
    ),
    Hook::new(
        "attrfd_enter",
        calls!("enter": "fchmod", "fchown", "fsetxattr", "fremovexattr", "ftruncate", "fallocate"),
        "mode, owner, size and other attributes changed through a descriptor",
    ),
    Hook::new(
        "times_enter",
        calls!("enter": "utime", "utimes"),
        "times set by path",
    ),
    Hook::new(
        "timesat_enter",
        calls!("enter": "futimesat", "utimensat"),
        "times set by path",
    ),
    Hook::new(
        "ioctl_enter",
        calls!("enter": "ioctl"),
        "flags changed (chattr), blocks of another file (FICLONE)",
    ),
    Hook::new(
        "mount_enter",
        calls!("enter": "mount", "umount", "move_mount", "pivot_root"),
        MOUNTS,
    ),
    Hook::new(
        "call_exit",
        calls!("exit":
            "rename", "renameat", "renameat2", "unlink", "rmdir", "unlinkat", "mkdir", "mknod", "mkdirat", "mknodat", "link", "symlink",
            "linkat", "symlinkat", "chmod", "chown", "lchown", "truncate", "fchmodat", "fchmodat2", "fchownat", "fchmod", "fchown",
            "setxattr", "lsetxattr", "removexattr", "lremovexattr", "setxattrat", "removexattrat", "file_setattr", "fsetxattr", "fremovexattr",
            "ftruncate", "fallocate", "utime", "utimes", "futimesat", "utimensat", "ioctl", "mount", "umount", "move_mount", "pivot_root"),
        "whether a call that renames, removes, creates or changes attributes succeeded",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sensor_has_the_hooks_that_all_its_others_need() {
        let essential = |sensor| {
            hooks(sensor)
                .iter()
                .filter(|hook| hook.is_essential())
                .count()
        };
        assert_eq!(essential(Sensor::Btf), 1);
        assert_eq!(essential(Sensor::Tracepoint), 2);
    }

    #[test]
    fn what_stands_in_for_a_hook_is_in_a_table_and_leads_to_no_ring() {
        fn depth(hook: &Hook) -> usize {
            hook.instead
                .iter()
                .map(|program| 1 + depth(named(program).expect(program)))
                .max()
                .unwrap_or(0)
        }
        for hook in FUNCTIONS.iter().chain(IN_RESERVE) {
            assert!(depth(hook) <= 2, "{}", hook.program);
        }
    }

    #[test]
    fn the_sensor_btf_attaches_to_no_system_call() {
        for hook in FUNCTIONS {
            for place in hook.places {
                assert!(!matches!(place, Place::Tracepoint(..)), "{place}");
            }
        }
    }

    #[test]
    fn each_call_that_is_remembered_on_entry_is_looked_at_on_exit() {
        let exits = &TRACEPOINTS.last().expect("hooks").places;
        for hook in TRACEPOINTS {
            if [
                "open_exit",
                "call_exit",
                "read_enter",
                "sendfile_enter",
                "mmap_enter",
                "close_enter",
                "dup_enter",
            ]
            .contains(&hook.program)
            {
                continue;
            }
            for place in hook.places {
                if let Place::Tracepoint("syscalls", enter) = place {
                    let exit = enter.replace("sys_enter_", "sys_exit_");
                    assert!(
                        exits.iter().any(|place| matches!(place, Place::Tracepoint("syscalls", name) if **name == *exit)),
                        "{exit}"
                    );
                }
            }
        }
    }
}
