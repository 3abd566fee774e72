//! The kernel's functions that programs of the sensor `btf` are attached to. Their parameters are found by name in the running kernel's BTF: where they
//! stand differs from 5.10 to 7.3.

/// The function of one system call: a program on it is paid for by those who make this call.
macro_rules! call {
    ($call:literal) => {
        if cfg!(target_arch = "aarch64") {
            concat!("__arm64_sys_", $call)
        } else {
            concat!("__x64_sys_", $call)
        }
    };
}

/// Index into [`Signatures`].
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    VfsOpen = 0,
    FinishOpen = 1,
    SecurityFilePermission = 2,
    SecurityMmapFile = 3,
    VfsRead = 4,
    Fput = 5,
    VfsFallocate = 6,
    VfsCloneFileRange = 7,
    VfsRename = 8,
    VfsUnlink = 9,
    VfsRmdir = 10,
    VfsCreate = 11,
    VfsMkdir = 12,
    VfsMknod = 13,
    VfsSymlink = 14,
    VfsLink = 15,
    NotifyChange = 16,
    VfsSetxattr = 17,
    VfsRemovexattr = 18,
    VfsSetAcl = 19,
    VfsRemoveAcl = 20,
    VfsFileattrSet = 21,
    MntDropWriteFile = 22,
    Mount = 23,
    Umount = 24,
    MoveMount = 25,
    PivotRoot = 26,
}

impl Function {
    pub const ALL: [Function; 27] = [
        Function::VfsOpen,
        Function::FinishOpen,
        Function::SecurityFilePermission,
        Function::SecurityMmapFile,
        Function::VfsRead,
        Function::Fput,
        Function::VfsFallocate,
        Function::VfsCloneFileRange,
        Function::VfsRename,
        Function::VfsUnlink,
        Function::VfsRmdir,
        Function::VfsCreate,
        Function::VfsMkdir,
        Function::VfsMknod,
        Function::VfsSymlink,
        Function::VfsLink,
        Function::NotifyChange,
        Function::VfsSetxattr,
        Function::VfsRemovexattr,
        Function::VfsSetAcl,
        Function::VfsRemoveAcl,
        Function::VfsFileattrSet,
        Function::MntDropWriteFile,
        Function::Mount,
        Function::Umount,
        Function::MoveMount,
        Function::PivotRoot,
    ];

    /// As the kernel names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Function::VfsOpen => "vfs_open",
            Function::FinishOpen => "finish_open",
            Function::SecurityFilePermission => "security_file_permission",
            Function::SecurityMmapFile => "security_mmap_file",
            Function::VfsRead => "vfs_read",
            Function::Fput => "__fput",
            Function::VfsFallocate => "vfs_fallocate",
            Function::VfsCloneFileRange => "vfs_clone_file_range",
            Function::VfsRename => "vfs_rename",
            Function::VfsUnlink => "vfs_unlink",
            Function::VfsRmdir => "vfs_rmdir",
            Function::VfsCreate => "vfs_create",
            Function::VfsMkdir => "vfs_mkdir",
            Function::VfsMknod => "vfs_mknod",
            Function::VfsSymlink => "vfs_symlink",
            Function::VfsLink => "vfs_link",
            Function::NotifyChange => "notify_change",
            Function::VfsSetxattr => "vfs_setxattr",
            Function::VfsRemovexattr => "vfs_removexattr",
            Function::VfsSetAcl => "vfs_set_acl",
            Function::VfsRemoveAcl => "vfs_remove_acl",
            Function::VfsFileattrSet => "vfs_fileattr_set",
            Function::MntDropWriteFile => "mnt_drop_write_file",
            Function::Mount => call!("mount"),
            Function::Umount => call!("umount"),
            Function::MoveMount => call!("move_mount"),
            Function::PivotRoot => call!("pivot_root"),
        }
    }

    /// Whether a program looks at what it returns.
    #[must_use]
    pub const fn is_seen_at_its_end(self) -> bool {
        !matches!(
            self,
            Function::SecurityFilePermission
                | Function::SecurityMmapFile
                | Function::VfsRead
                | Function::Fput
                | Function::MntDropWriteFile
        )
    }

    /// The parameters that its programs read, two at most.
    #[must_use]
    pub const fn parameters(self) -> &'static [Parameter] {
        const FILE: Parameter = Parameter::pointer("file", "file");
        const DENTRY: Parameter = Parameter::pointer("dentry", "dentry");
        const MASK: Parameter = Parameter::int("mask");
        const OUT: Parameter = Parameter::pointer("file_out", "file");
        const OLD: Parameter = Parameter::pointer("old_dentry", "dentry");
        const NEW: Parameter = Parameter::pointer("new_dentry", "dentry");
        const ATTR: Parameter = Parameter::pointer("attr", "iattr");
        match self {
            Function::VfsOpen
            | Function::FinishOpen
            | Function::SecurityMmapFile
            | Function::VfsRead
            | Function::Fput
            | Function::VfsFallocate
            | Function::MntDropWriteFile => &[FILE],
            Function::Mount | Function::Umount | Function::MoveMount | Function::PivotRoot => &[],
            Function::SecurityFilePermission => &[FILE, MASK],
            Function::VfsCloneFileRange => &[OUT],
            Function::VfsRename | Function::VfsLink => &[OLD, NEW],
            Function::NotifyChange => &[DENTRY, ATTR],
            Function::VfsUnlink
            | Function::VfsRmdir
            | Function::VfsCreate
            | Function::VfsMkdir
            | Function::VfsMknod
            | Function::VfsSymlink
            | Function::VfsSetxattr
            | Function::VfsRemovexattr
            | Function::VfsSetAcl
            | Function::VfsRemoveAcl
            | Function::VfsFileattrSet => &[DENTRY],
        }
    }
}

/// A parameter as every kernel has it: what differs is its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// The struct it points to; `None`: an int.
    pub points_to: Option<&'static str>,
}

impl Parameter {
    const fn pointer(name: &'static str, to: &'static str) -> Parameter {
        Parameter {
            name,
            points_to: Some(to),
        }
    }

    const fn int(name: &'static str) -> Parameter {
        Parameter {
            name,
            points_to: None,
        }
    }
}

const _: () = {
    let mut i = 0;
    while i < Function::ALL.len() {
        assert!(
            Function::ALL[i] as usize == i,
            "a function's number is its place in ALL"
        );
        i += 1;
    }
};

/// Where one function of the running kernel has what its programs read: places in the list of its parameters.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "std",
    derive(
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout
    )
)]
pub struct Signature {
    /// Of the first and the second of [`Function::parameters`].
    pub parameters: [u32; 2],
    /// What it returns stands after its last parameter.
    pub returned: u32,
    /// Not 0: it returns 64 bits (a pointer, a length), 0: an int.
    pub returns_wide: u32,
    /// Not 0: both parameters are members of the struct that the first place points to, at these offsets (`vfs_rename` since 5.12).
    pub in_struct: u32,
    pub members: [u32; 2],
}

impl Signature {
    /// Of a function that no program is attached to.
    pub const NONE: Signature = Signature {
        parameters: [0; 2],
        returned: 0,
        returns_wide: 0,
        in_struct: 0,
        members: [0; 2],
    };
}

/// Of every [`Function`], by its number.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "std",
    derive(
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout
    )
)]
pub struct Signatures {
    pub of: [Signature; Function::ALL.len()],
}

impl Signatures {
    pub const NONE: Signatures = Signatures {
        of: [Signature::NONE; Function::ALL.len()],
    };
}

const _: () = assert!(size_of::<Signatures>() == Function::ALL.len() * 28);

/// Parameters and what is returned stand in at most so many places.
pub const MOST_PLACES: u32 = 7;
