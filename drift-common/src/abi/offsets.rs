//! Where the running kernel keeps the fields that the hooks read. From its BTF, at load time: Rust's compiler emits no CO-RE relocations.

/// An offset that this kernel does not have: what needs it is not loaded, or does without.
pub const ABSENT: u32 = u32::MAX;

/// Byte offsets into kernel structures.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "std",
    derive(
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout
    )
)]
pub struct Offsets {
    pub task_files: u32,
    pub task_fs: u32,
    pub task_group_leader: u32,
    /// `task_struct.start_boottime`: nanoseconds since boot.
    pub task_start_boottime: u32,
    pub task_flags: u32,
    pub files_fdt: u32,
    pub fdtable_max_fds: u32,
    pub fdtable_fd: u32,
    /// `fs_struct.pwd.dentry`.
    pub fs_pwd_dentry: u32,
    pub file_inode: u32,
    pub file_mode: u32,
    /// `file.f_path.dentry`.
    pub file_dentry: u32,
    /// `file.f_count` (before 6.13) or `file.f_ref.refcnt`: references, an unsigned long.
    pub file_references: u32,
    /// What `file_references` holds when one reference is left: 1 for `f_count`, 0 for `f_ref`, which counts from zero.
    pub file_last_reference: u32,
    pub dentry_parent: u32,
    pub dentry_inode: u32,
    /// `dentry.d_name.name`.
    pub dentry_name: u32,
    /// `dentry.d_lockref.count` and `inode.i_count`; [`ABSENT`] where they are kept otherwise.
    pub dentry_count: u32,
    pub inode_count: u32,
    pub inode_ino: u32,
    pub inode_super: u32,
    pub inode_generation: u32,
    pub inode_writecount: u32,
    pub inode_size: u32,
    pub super_dev: u32,
    pub super_magic: u32,
    /// `ovl_inode.vfs_inode` and `ovl_inode.__upperdentry`; [`ABSENT`] where overlay is a module, or not there.
    pub overlay_inode: u32,
    pub overlay_upper: u32,
    /// `io_kiocb.opcode`, `io_kiocb.file` and `io_kiocb.cqe.res`; [`ABSENT`] where `io_uring_complete` does not have the request.
    pub request_opcode: u32,
    pub request_file: u32,
    pub request_result: u32,
    /// `iattr.ia_valid`: which attributes a change is about.
    pub iattr_valid: u32,
}

impl Offsets {
    /// Whether what io_uring has done can be told.
    #[must_use]
    pub const fn has_requests(&self) -> bool {
        self.request_opcode != ABSENT
            && self.request_file != ABSENT
            && self.request_result != ABSENT
    }
}

const _: () = assert!(size_of::<Offsets>() == 32 * 4);
