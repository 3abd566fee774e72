//! System calls that no process of the agent ever makes are refused by the kernel: whoever has taken one over cannot make them either.
//!
//! What is denied, not what is allowed: the C library, the runtime and the allocator may begin to use other calls with any update, and an agent that is killed
//! for one would be worse than what this keeps out. A denied call fails with EPERM like any call that is not permitted, so whoever made it says so; and the
//! kernel's audit log has it, where it logs `errno` (sysctl kernel.seccomp.actions_logged).

use std::{collections::BTreeMap, env::consts::ARCH};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::Part;

/// Other processes, name spaces, mounts, the kernel itself, its clock, its keys; and descriptors that need no path.
const NOBODY: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_open_by_handle_at,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_personality,
    libc::SYS_mknodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// The detector starts nothing, and changes no attribute of any file: its own are made as they should be.
const NOT_THE_DETECTOR: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_fchownat,
    libc::SYS_fchown,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
];

/// Newer than the C library's headers; the same on all architectures.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

/// The restorer hears nothing from the kernel.
const NOT_THE_RESTORER: &[i64] = &[libc::SYS_bpf, libc::SYS_perf_event_open];

/// The x32 ABI has the same calls under numbers with this bit, and some under numbers of its own: none of them is ever made here.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const X32_OWN: std::ops::RangeInclusive<i64> = 512..=547;

/// For the rest of this thread's life, and for all that it starts.
///
/// # Errors
/// The kernel takes no filters, or this architecture has none here.
pub(super) fn apply(part: Part) -> Result<(), String> {
    for program in programs(part)? {
        apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn programs(part: Part) -> Result<Vec<BpfProgram>, String> {
    let own: &[i64] = match part {
        Part::Detector => NOT_THE_DETECTOR,
        Part::Restorer => NOT_THE_RESTORER,
        Part::Start => &[],
    };
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> = NOBODY
        .iter()
        .chain(own)
        .map(|number| (*number, Vec::new()))
        .collect();
    #[cfg(target_arch = "x86_64")]
    {
        let same: Vec<i64> = denied.keys().copied().collect();
        for number in same.into_iter().chain(X32_OWN) {
            denied.insert(number | X32, Vec::new());
        }
    }
    denied.insert(libc::SYS_clone, vec![new_user_namespace()?]);
    let no_permission = SeccompAction::Errno(libc::EPERM as u32);
    // Its flags are out of a filter's reach. Told that there is no such call, the C library takes `clone`.
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let no_such_call = SeccompAction::Errno(libc::ENOSYS as u32);
    [(denied, no_permission), (clone3, no_such_call)]
        .into_iter()
        .map(|(rules, action)| {
            let architecture = ARCH
                .try_into()
                .map_err(|_| format!("there are no filters for {ARCH}"))?;
            SeccompFilter::new(rules, SeccompAction::Allow, action, architecture)
                .and_then(TryInto::try_into)
                .map_err(|error| error.to_string())
        })
        .collect()
}

/// In a user namespace of its own a process has every capability.
fn new_user_namespace() -> Result<SeccompRule, String> {
    let flag = libc::CLONE_NEWUSER as u64;
    let flags = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(flag),
        flag,
    );
    flags
        .and_then(|flags| SeccompRule::new(vec![flags]))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_denied_twice_and_filters_fit_the_kernel() {
        for part in [Part::Detector, Part::Restorer] {
            for program in programs(part).expect("a filter") {
                assert!(program.len() < 4096, "BPF_MAXINSNS: {}", program.len());
            }
        }
        let mut all: Vec<i64> = NOBODY.to_vec();
        all.extend(NOT_THE_DETECTOR);
        all.sort_unstable();
        let before = all.len();
        all.dedup();
        assert_eq!(all.len(), before);
    }
}
