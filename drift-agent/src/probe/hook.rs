//! The table of hooks: each kernel program, once, with every place it is attached to.

use std::fmt;

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
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
}

impl Hook {
    /// Without it the others are of no use: it tells the agent what an inode is called, or whether a call succeeded.
    #[must_use]
    pub fn is_essential(&self) -> bool {
        matches!(self.program, "open_exit" | "call_exit")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tracepoint(category, name) => write!(f, "{category}/{name}"),
            Place::Raw(name) => f.write_str(name),
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

/// In the order of the kernel half's `hook.rs`.
pub const HOOKS: &[Hook] = &[
    Hook {
        program: "open_exit",
        places: calls!("exit": "open", "openat", "openat2", "creat", "open_by_handle_at"),
        sees: "who opens a declared file, files created in its place",
    },
    Hook {
        program: "read_enter",
        places: calls!("enter": "read", "pread64", "readv", "preadv", "preadv2"),
        sees: "who reads a declared file",
    },
    Hook {
        program: "inode_dirtied",
        places: &[Place::Raw("writeback_mark_inode_dirty")],
        sees: "writes whose descriptor stays open, stores through mappings, io_uring",
    },
    Hook {
        program: URING,
        places: &[Place::Raw("io_uring_complete")],
        sees: "names changed through io_uring, and the end of its writes",
    },
    Hook {
        program: "close_enter",
        places: calls!("enter": "close"),
        sees: "the end of a write",
    },
    Hook {
        program: "dup_enter",
        places: calls!("enter": "dup2", "dup3"),
        sees: "the end of a shell's redirection",
    },
    Hook {
        program: "process_exit",
        places: &[Place::Tracepoint("sched", "sched_process_exit")],
        sees: "writers that end without closing",
    },
    Hook {
        program: "rename_enter",
        places: calls!("enter": "rename"),
        sees: "files moved onto or away from a declared path",
    },
    Hook {
        program: "renameat_enter",
        places: calls!("enter": "renameat", "renameat2"),
        sees: "files moved onto or away from a declared path",
    },
    Hook {
        program: "unlink_enter",
        places: calls!("enter": "unlink", "rmdir"),
        sees: "declared files removed",
    },
    Hook {
        program: "unlinkat_enter",
        places: calls!("enter": "unlinkat"),
        sees: "declared files removed",
    },
    Hook {
        program: "make_enter",
        places: calls!("enter": "mkdir", "mknod"),
        sees: "directories and nodes made in a declared place",
    },
    Hook {
        program: "makeat_enter",
        places: calls!("enter": "mkdirat", "mknodat"),
        sees: "directories and nodes made in a declared place",
    },
    Hook {
        program: "link_enter",
        places: calls!("enter": "link"),
        sees: "links made in a declared place, and other names of declared files",
    },
    Hook {
        program: "linkat_enter",
        places: calls!("enter": "linkat"),
        sees: "links made in a declared place, and other names of declared files",
    },
    Hook {
        program: "symlink_enter",
        places: calls!("enter": "symlink"),
        sees: "links made in a declared place",
    },
    Hook {
        program: "symlinkat_enter",
        places: calls!("enter": "symlinkat"),
        sees: "links made in a declared place",
    },
    Hook {
        program: "attr_enter",
        places: calls!("enter":
            "chmod", "chown", "lchown", "truncate", "setxattr", "lsetxattr", "removexattr", "lremovexattr"),
        sees: "mode, owner, size and other attributes changed by path",
    },
    Hook {
        program: "attrat_enter",
        places: calls!("enter": "fchmodat", "fchmodat2", "fchownat", "setxattrat", "removexattrat", "file_setattr"),
        sees: "mode, owner and other attributes changed by path",
    },
    Hook {
        program: "attrfd_enter",
        places: calls!("enter": "fchmod", "fchown", "fsetxattr", "fremovexattr", "ftruncate", "fallocate"),
        sees: "mode, owner, size and other attributes changed through a descriptor",
    },
    Hook {
        program: "times_enter",
        places: calls!("enter": "utime", "utimes"),
        sees: "times set by path",
    },
    Hook {
        program: "timesat_enter",
        places: calls!("enter": "futimesat", "utimensat"),
        sees: "times set by path",
    },
    Hook {
        program: "ioctl_enter",
        places: calls!("enter": "ioctl"),
        sees: "flags changed (chattr), blocks of another file (FICLONE)",
    },
    Hook {
        program: "mount_enter",
        places: calls!("enter": "mount", "umount", "move_mount", "pivot_root"),
        sees: "who mounts something over a declared path",
    },
    Hook {
        program: "call_exit",
        places: calls!("exit":
            "rename", "renameat", "renameat2", "unlink", "rmdir", "unlinkat", "mkdir", "mknod", "mkdirat", "mknodat", "link", "symlink",
            "linkat", "symlinkat", "chmod", "chown", "lchown", "truncate", "fchmodat", "fchmodat2", "fchownat", "fchmod", "fchown",
            "setxattr", "lsetxattr", "removexattr", "lremovexattr", "setxattrat", "removexattrat", "file_setattr", "fsetxattr", "fremovexattr",
            "ftruncate", "fallocate", "utime", "utimes", "futimesat", "utimensat", "ioctl", "mount", "umount", "move_mount", "pivot_root"),
        sees: "whether a call that renames, removes, creates or changes attributes succeeded",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hooks_that_all_others_need_are_in_the_table() {
        assert_eq!(HOOKS.iter().filter(|hook| hook.is_essential()).count(), 2);
    }

    #[test]
    fn each_call_that_is_remembered_on_entry_is_looked_at_on_exit() {
        let exits = &HOOKS.last().expect("hooks").places;
        for hook in HOOKS {
            if [
                "open_exit",
                "call_exit",
                "read_enter",
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
