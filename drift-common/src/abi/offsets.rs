//! Where the running kernel keeps the fields that the hooks read. From its BTF, at load time: Rust's compiler emits no CO-RE relocations.

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
    pub inode_ino: u32,
    pub inode_super: u32,
    pub inode_generation: u32,
    pub inode_writecount: u32,
    pub super_dev: u32,
    /// `iattr.ia_valid`: which attributes a change is about.
    pub iattr_valid: u32,
}

const _: () = assert!(size_of::<Offsets>() == 23 * 4);
