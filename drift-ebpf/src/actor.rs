//! Who is running.

use aya_ebpf::helpers::{
    bpf_get_current_cgroup_id, bpf_get_current_comm, bpf_get_current_pid_tgid,
    bpf_get_current_uid_gid,
};
use drift_common::abi::{CANARY_SLOT, Counter, Event, Kind, TICK_NS};

use crate::{
    emit::NO_KEY,
    fault::count,
    kernel::{Task, agent_start, agent_tgid},
    map::RESTORER,
};

/// (thread group, thread), as the initial pid namespace has them.
#[inline(always)]
pub fn ids() -> (u32, u32) {
    let both = bpf_get_current_pid_tgid();
    ((both >> 32) as u32, both as u32)
}

/// The thread group that changes something; 0, nobody's number, where the kernel does it for somebody else.
#[inline(always)]
pub fn tgid(kind: Kind) -> u32 {
    match Task::current().is_kernel_thread() {
        Ok(false) => ids().0,
        Ok(true) => 0,
        Err(_) => {
            count(kind, Counter::KernelRead);
            ids().0
        }
    }
}

/// Whether the agent itself is running, to which what it opens is told: the process with its number that started when it did, whatever it calls itself.
#[inline(always)]
pub fn is_agent() -> bool {
    is(agent_tgid(), agent_start())
}

/// Whether the process that writes for the agent is running.
#[inline(always)]
pub fn is_restorer() -> bool {
    RESTORER
        .get(0)
        .is_some_and(|[tgid, start]| is(*tgid as u32, *start))
}

/// Whether the agent, or the process that writes for it, is running: their changes do not ring.
#[inline(always)]
pub fn is_ours() -> bool {
    is_agent() || is_restorer()
}

/// Whether a change of this object by who is running does not ring: the agent's own, but for the one by which it hears itself.
#[inline(always)]
pub fn is_silent(slot: u32) -> bool {
    slot != CANARY_SLOT && is_ours()
}

#[inline(always)]
fn is(tgid: u32, start: u64) -> bool {
    ids().0 == tgid
        && Task::current()
            .start_ns()
            .is_ok_and(|started| started / TICK_NS == start)
}

/// An event with the actor filled in, where there is one, and all else zero. What cannot be read stays zero and is counted: an actor that is half known is still an event.
#[inline(always)]
pub fn event(kind: Kind) -> Event {
    let tid = ids().1;
    let tgid = tgid(kind);
    if tgid == 0 {
        return Event {
            kind: kind as u32,
            ..NOBODY
        };
    }
    let user = bpf_get_current_uid_gid();
    let start_ns = match Task::current().start_ns() {
        Ok(start) => start,
        Err(_) => {
            count(kind, Counter::KernelRead);
            0
        }
    };
    Event {
        start_ns,
        kind: kind as u32,
        // SAFETY: a helper without arguments.
        cgroup: unsafe { bpf_get_current_cgroup_id() },
        tgid,
        tid,
        uid: user as u32,
        gid: (user >> 32) as u32,
        comm: bpf_get_current_comm().unwrap_or_default(),
        ..NOBODY
    }
}

/// An event of which nobody is known to be the actor.
pub const NOBODY: Event = Event {
    time_ns: 0,
    start_ns: 0,
    cgroup: 0,
    parent_name: 0,
    key: NO_KEY,
    slot: 0,
    kind: 0,
    tgid: 0,
    tid: 0,
    uid: 0,
    gid: 0,
    writers: 0,
    _reserved: 0,
    comm: [0; 16],
};
