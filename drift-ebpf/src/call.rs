//! A system call under way: what its `sys_enter` saw, kept for its `sys_exit`, where it is known whether it succeeded.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use drift_common::abi::Kind;

use crate::{fault::Fault, map::CALLS};

/// "The working directory" where a directory descriptor is expected (`AT_FDCWD`).
pub const WORKING_DIRECTORY: i32 = -100;

/// One object that a call names.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Named {
    /// A path in user memory, or 0: the descriptor itself.
    pub path: u64,
    pub fd: i32,
    /// Not 0: this place of a call is in use.
    pub used: u32,
}

/// [`Named::used`] of what gets another name: not what it is changes, but how many names it has.
pub const SOURCE: u32 = 2;

impl Named {
    pub const NONE: Named = Named {
        path: 0,
        fd: 0,
        used: 0,
    };

    #[inline(always)]
    pub const fn path(fd: i32, path: u64) -> Named {
        Named { path, fd, used: 1 }
    }

    #[inline(always)]
    pub const fn source(fd: i32, path: u64) -> Named {
        Named {
            path,
            fd,
            used: SOURCE,
        }
    }

    #[inline(always)]
    pub const fn descriptor(fd: i32) -> Named {
        Named {
            path: 0,
            fd,
            used: 1,
        }
    }
}

/// A call that changes what one or two names stand for.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Call {
    pub first: Named,
    pub second: Named,
    pub kind: Kind,
    pub _reserved: u32,
}

impl Call {
    /// Remembers the call until it returns.
    #[inline(always)]
    pub fn enter(kind: Kind, first: Named, second: Named) -> Result<(), Fault> {
        let call = Call {
            first,
            second,
            kind,
            _reserved: 0,
        };
        CALLS
            .insert(bpf_get_current_pid_tgid(), call, 0)
            .map_err(|_| Fault::CallsFull)
    }

    /// The call that this thread comes back from, if it is one that was remembered.
    #[inline(always)]
    pub fn leave() -> Option<Call> {
        let thread = bpf_get_current_pid_tgid();
        // SAFETY: the entry is this thread's own; nobody else writes it.
        let call = unsafe { CALLS.get(thread) }.copied()?;
        // It was there a moment ago, and only this thread removes it.
        let _gone = CALLS.remove(thread);
        Some(call)
    }
}
