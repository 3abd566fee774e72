//! The ways of changing a file, what each comes to, and where the kernel half does not see it.

use drift_tests::stage::Kind;

/// A way of changing what stands at a declared path.
#[derive(Clone, Copy, Debug)]
pub struct Technique {
    /// Its function in `evade.py`.
    pub function: &'static str,
    /// What it is called in the table.
    pub title: &'static str,
    /// The kinds of drift it comes to, joined by `+`; `ok`: none.
    pub drift: &'static str,
    /// File systems that refuse it.
    pub refused_by: &'static [Kind],
    pub declared: Declares,
}

/// What is declared at its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declares {
    /// Content, mode, owner and group.
    File,
    /// The same, and attributes.
    Attributes,
    /// A symbolic link.
    Link,
    /// A file, reached through a link that is declared to be on the way.
    Through,
}

impl Technique {
    /// It takes seconds: the others go on beside it.
    pub fn is_slow(&self) -> bool {
        SLOW.contains(&self.function)
    }

    /// It begins before the agent does.
    pub fn is_before(&self) -> bool {
        self.function.ends_with("_before") || self.function.contains("_before_")
    }

    /// Who does it is to be named each time, for others have not seen who it is.
    pub fn names(&self) -> bool {
        NAMES.contains(&self.function)
    }

    /// Nothing differs in the end.
    pub fn is_harmless(&self) -> bool {
        self.drift == "ok"
    }
}

const fn file(function: &'static str, title: &'static str) -> Technique {
    to(function, title, "content")
}

const fn to(function: &'static str, title: &'static str, drift: &'static str) -> Technique {
    Technique {
        function,
        title,
        drift,
        refused_by: &[],
        declared: Declares::File,
    }
}

const fn attribute(function: &'static str, title: &'static str, drift: &'static str) -> Technique {
    Technique {
        declared: Declares::Attributes,
        ..to(function, title, drift)
    }
}

const fn except(technique: Technique, refused_by: &'static [Kind]) -> Technique {
    Technique {
        refused_by,
        ..technique
    }
}

const SLOW: &[&str] = &[
    "keeps_open",
    "ftruncate",
    "fallocate_punch",
    "ficlone",
    "mmap_store_late",
    "mmap_store_again",
    "process_vm_writev",
    "ptrace_poke",
    "opened_before",
    "opened_before_and_kept",
    "mapped_before",
    "dirtied_before",
];

const NAMES: &[&str] = &[
    "mmap_store",
    "uring_write",
    "uring_polled_write",
    "uring_truncate",
];

/// All of them.
pub const TECHNIQUES: &[Technique] = &[
    // Writes by system call.
    file("write", "write"),
    file("pwritev2", "pwritev2"),
    file("append", "write, appending"),
    file("direct_io", "write past the page cache (O_DIRECT)"),
    file("aio", "io_submit"),
    except(
        file("open_by_handle_at", "write, opened by a handle"),
        &[Kind::Overlay],
    ),
    file("sendfile", "sendfile"),
    file("copy_file_range", "copy_file_range"),
    file("splice", "splice"),
    file("keeps_open", "write, kept open"),
    // Size and blocks.
    file("truncate", "truncate"),
    file("ftruncate", "ftruncate, kept open"),
    file("open_truncating", "open with O_TRUNC"),
    file("open_truncating_to_read", "open to read with O_TRUNC"),
    file("fallocate_punch", "fallocate, a hole, kept open"),
    except(
        file("ficlone", "FICLONE, kept open"),
        &[Kind::Ext4, Kind::Tmpfs, Kind::Overlay],
    ),
    // Mappings.
    file("mmap_store", "store through a mapping"),
    file("mmap_store_late", "store long after the close"),
    file("mmap_store_again", "store again after it was seen"),
    file("process_vm_writev", "process_vm_writev into a mapping"),
    file("ptrace_poke", "ptrace into a mapping"),
    // io_uring.
    file("uring_write", "io_uring: open, write, close"),
    file("uring_polled_write", "io_uring, polled (SQPOLL)"),
    file("uring_truncate", "io_uring: open with O_TRUNC"),
    file("uring_rename", "io_uring: rename"),
    to("uring_unlink", "io_uring: unlink", "missing"),
    // Attributes.
    to("chmod", "chmod", "mode"),
    to("fchmod", "fchmod", "mode"),
    to(
        "chmod_by_descriptor_path",
        "chmod of /proc/self/fd/N",
        "mode",
    ),
    to(
        "chmod_through_link",
        "chmod through a symbolic link",
        "mode",
    ),
    to("chmod_hard_link", "chmod of a hard link", "mode+hardlinked"),
    to("chown", "chown", "owner"),
    to("utimes", "utimes", "ok"),
    file("utimes_back", "write of equal size, times set back"),
    attribute("chattr", "chattr", "xattr"),
    attribute("setxattr", "setxattr", "xattr"),
    attribute("fremovexattr", "fremovexattr", "xattr"),
    attribute("setfacl", "setfacl", "mode+xattr"),
    attribute("setcap", "setcap", "xattr"),
    // Names.
    file("rename_over", "rename over it"),
    to("rename_away", "rename away", "missing"),
    to("unlink", "unlink", "missing"),
    file("unlink_and_create", "unlink, made anew"),
    file("exchange_file", "exchanged with another file"),
    file("exchange_parent", "parent exchanged"),
    file("exchange_grandparent", "grandparent exchanged"),
    file("replace_grandparent", "grandparent replaced"),
    to(
        "link_ancestor",
        "ancestor exchanged with a link",
        "relocated",
    ),
    Technique {
        declared: Declares::Through,
        ..to("swap_link", "declared link on the way swapped", "relocated")
    },
    Technique {
        declared: Declares::Link,
        ..to("data_swap", "..data swapped", "link-target")
    },
    file("unnamed_then_linked", "O_TMPFILE, then linkat"),
    to("symlink_in_place", "symbolic link in its place", "type"),
    to("fifo_in_place", "FIFO in its place", "type"),
    to("directory_in_place", "directory in its place", "type"),
    to(
        "write_hard_link",
        "write through a hard link",
        "content+hardlinked",
    ),
    file("relative_path", "write by a relative path with dots"),
    file("bare_name", "rename over it by its bare name"),
    file("long_path", "truncate by a path of 4,000 bytes"),
    file("flipped_path", "path that changes during the call"),
    file("unread_path", "rename, paths in pages not read yet"),
    to("chrooted", "rename away in a chroot", "missing"),
    // Descriptors.
    file("passed_over_a_socket", "descriptor passed over a socket"),
    file("opened_again", "opened again by /proc/self/fd/N"),
    file("duplicated", "through a duplicate"),
    file("inherited", "by a child that inherited it"),
    file("opened_before", "opened before the agent started"),
    file("opened_before_and_kept", "the same, kept open"),
    file("mapped_before", "mapped before the agent started"),
    file("dirtied_before", "the same, its pages dirty"),
    to("write_and_revert", "write and revert within 1 ms", "ok"),
    // Mounts and namespaces.
    to("bind_over_file", "bind mount over it", "relocated"),
    to(
        "bind_over_parent",
        "bind mount over the parent",
        "relocated",
    ),
    to(
        "bind_twin_over_parent",
        "bind mount of a twin over the parent",
        "relocated",
    ),
    to("tmpfs_over_parent", "tmpfs over the parent", "relocated"),
    to(
        "tmpfs_over_grandparent",
        "tmpfs over the grandparent",
        "relocated",
    ),
    to(
        "overlay_over_parent",
        "overlay over the parent",
        "relocated",
    ),
    to("moved_mount", "open_tree, move_mount", "relocated"),
    to("mounted_and_taken_away", "mount and umount", "ok"),
    file("other_namespace", "write from another mount namespace"),
    to(
        "hidden_in_other_namespace",
        "another file in another mount namespace",
        "ok",
    ),
];

/// Where no event is seen: (technique, file systems, why). The scan, or the next look at a file that is open for writing, finds it.
pub const UNSEEN: &[(&str, &[Kind], &str)] = &[
    ("uring_rename", &Kind::ALL, SWEEP),
    ("uring_unlink", &Kind::ALL, SWEEP),
    ("chmod_by_descriptor_path", &Kind::ALL, SWEEP),
    ("chmod_through_link", &Kind::ALL, SWEEP),
    ("mmap_store_late", &[Kind::Tmpfs], STORES),
    ("mmap_store_again", &[Kind::Tmpfs], STORES),
    ("process_vm_writev", &[Kind::Tmpfs], STORES),
    ("ptrace_poke", &[Kind::Tmpfs], STORES),
    ("mapped_before", &[Kind::Tmpfs], STORES),
    ("dirtied_before", &[Kind::Tmpfs], STORES),
    (
        "opened_before_and_kept",
        &[Kind::Tmpfs],
        "tmpfs marks an inode dirty only when its times change, and never writes back: a write through a descriptor that nobody saw being opened rings when it is closed",
    ),
];

const SWEEP: &str = "the event does not tell which file it was: it asks for a sweep, and sweeps take one per cent of a core, so that one of thousands of files rests for \
    a second or more before the next";

const STORES: &str = "tmpfs never writes a page back, so that no store through a mapping faults after the first: found by the looks at a file that is open for writing \
    (10 s), or by the scan";
