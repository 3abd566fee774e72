//! Where this kernel keeps what the hooks read.

use drift_common::abi::{ABSENT, Offsets};

use super::btf::{Btf, BtfError};

/// From the kernel's own type information. A member that is missing, of another size or ambiguous is an error: the hooks must never read wrong memory.
pub fn resolve(btf: &Btf<'_>) -> Result<Offsets, BtfError> {
    let at = |name, path, size| btf.member(name, path, size).map(|member| member.offset);
    let start = |name, path| btf.start(name, path).map(|member| member.offset);
    // What not every kernel has, and the rest does without.
    let may = |found| match found {
        Err(BtfError::NoStruct { .. } | BtfError::NoMember { .. }) => Ok(ABSENT),
        other => other,
    };
    // What only makes things quicker: where it is kept in another shape, too.
    let quicker = |found| match found {
        Err(BtfError::Size { .. } | BtfError::Ambiguous { .. } | BtfError::BitField { .. }) => {
            Ok(ABSENT)
        }
        other => may(other),
    };
    // 6.13 replaced `f_count` (counts from one) by `f_ref` (counts from zero).
    let (file_references, file_last_reference) = match at("file", "f_ref.refcnt", 8) {
        Ok(offset) => (offset, 0),
        Err(BtfError::NoMember { .. }) => (at("file", "f_count", 8)?, 1),
        Err(other) => return Err(other),
    };
    let (overlay_inode, overlay_upper) = match overlay(btf) {
        Err(BtfError::NoStruct { .. } | BtfError::NoMember { .. }) => (ABSENT, ABSENT),
        found => found?,
    };
    Ok(Offsets {
        task_files: at("task_struct", "files", 8)?,
        task_fs: at("task_struct", "fs", 8)?,
        task_group_leader: at("task_struct", "group_leader", 8)?,
        task_start_boottime: at("task_struct", "start_boottime", 8)?,
        task_flags: at("task_struct", "flags", 4)?,
        files_fdt: at("files_struct", "fdt", 8)?,
        fdtable_max_fds: at("fdtable", "max_fds", 4)?,
        fdtable_fd: at("fdtable", "fd", 8)?,
        fs_pwd_dentry: at("fs_struct", "pwd.dentry", 8)?,
        file_inode: at("file", "f_inode", 8)?,
        file_mode: at("file", "f_mode", 4)?,
        file_dentry: at("file", "f_path.dentry", 8)?,
        file_references,
        file_last_reference,
        dentry_parent: at("dentry", "d_parent", 8)?,
        dentry_inode: at("dentry", "d_inode", 8)?,
        dentry_name: at("dentry", "d_name.name", 8)?,
        dentry_count: quicker(at("dentry", "d_lockref.count", 4))?,
        inode_count: quicker(at("inode", "i_count", 4))?,
        inode_ino: at("inode", "i_ino", 8)?,
        inode_super: at("inode", "i_sb", 8)?,
        inode_generation: at("inode", "i_generation", 4)?,
        inode_writecount: at("inode", "i_writecount", 4)?,
        inode_size: at("inode", "i_size", 8)?,
        super_dev: at("super_block", "s_dev", 4)?,
        super_magic: at("super_block", "s_magic", 8)?,
        overlay_inode,
        overlay_upper,
        // What the tracepoint keeps of its arguments says whether the request is one of them: the second, then.
        request_opcode: match start("trace_event_raw_io_uring_complete", "req") {
            Ok(_) => may(at("io_kiocb", "opcode", 1))?,
            Err(error) => may(Err(error))?,
        },
        request_file: may(at("io_kiocb", "file", 8))?,
        request_result: may(at("io_kiocb", "cqe.res", 4))?,
        iattr_valid: at("iattr", "ia_valid", 4)?,
    })
}

/// Where an overlay keeps its inode, and the way to the one in its upper layer.
pub fn overlay(btf: &Btf<'_>) -> Result<(u32, u32), BtfError> {
    let inode = btf.start("ovl_inode", "vfs_inode")?.offset;
    let upper = btf.member("ovl_inode", "__upperdentry", 8)?.offset;
    // A module's information must be about this kernel's inodes.
    let outer = btf.member("ovl_inode", "vfs_inode.i_ino", 8)?.offset;
    let inner = btf.member("inode", "i_ino", 8)?.offset;
    if outer.checked_sub(inode) != Some(inner) {
        return Err(BtfError::Outside {
            name: "ovl_inode".to_owned(),
            member: "vfs_inode.i_ino".to_owned(),
        });
    }
    Ok((inode, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_every_member() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            // A kernel without BTF: what the agent says then is tested in tests/.
            return;
        };
        let btf = Btf::parse(&bytes).expect("this kernel's BTF");
        resolve(&btf).expect("every member");
    }
}
