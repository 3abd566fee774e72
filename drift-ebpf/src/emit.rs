//! The only writer of rings and dirty marks.

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::bpf_ktime_get_boot_ns,
    maps::RingBuf,
};
use aya_log_ebpf::debug;
use drift_common::abi::{Counter, Event, Key, Kind, Level, MOUNT_SLOT};

use crate::{
    actor,
    fault::count,
    map::{CHANGES, LEVELS, LOADED, LOADS, LOADS_BYTES, SLOTS},
};

/// What a hook knows of a change, beside who made it.
pub struct Change {
    pub slot: u32,
    pub kind: Kind,
    pub level: Level,
    pub key: Key,
    pub writers: u32,
    pub parent_name: u64,
}

pub const NO_KEY: Key = Key {
    ino: 0,
    dev: 0,
    generation: 0,
};

/// Marks the object and rings when the mark rises. See [`drift_common::abi::Slot`] for why this loses nothing.
#[inline(always)]
pub fn change(change: &Change) {
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_boot_ns() };
    let tgid = actor::tgid(change.kind);
    if let Some(slot) = SLOTS.get_ptr_mut(change.slot) {
        // SAFETY: the pointer is into the array map. Fields are written without a lock: two CPUs at once may count one change too few.
        unsafe {
            (*slot).tgid = tgid;
            (*slot).changed_ns = now;
            if change.level as u32 == Level::Done as u32 {
                (*slot).changes += 1;
            }
        }
    }
    if !raise(change.slot, change.level) {
        return count(change.kind, Counter::Coalesced);
    }
    let mut event = actor::event(change.kind);
    event.time_ns = now;
    event.slot = change.slot;
    event.key = change.key;
    event.writers = change.writers;
    event.parent_name = change.parent_name;
    // A writer that has just opened a file is not urgent. What is complete must wake the reader even when not urgent ones lie before it, which the
    // ring's own rule ("wake when the reader had caught up") would not.
    let wake = match change.level {
        Level::Clean | Level::Stirred | Level::Open => BPF_RB_NO_WAKEUP,
        Level::Done => BPF_RB_FORCE_WAKEUP,
    };
    send(&CHANGES, change.kind, &event, u64::from(wake));
    // Compiled to one comparison unless the agent was started with --debug-probes.
    debug!(
        (),
        "{} slot {} by {}",
        change.kind.name(),
        change.slot,
        event.tgid
    );
}

/// A name was put, or taken away, by a call that is complete in itself.
#[inline(always)]
pub fn name(slot: u32, kind: Kind) {
    change(&Change {
        slot,
        kind,
        level: Level::Done,
        key: NO_KEY,
        writers: 0,
        parent_name: 0,
    });
}

/// Something was mounted, moved or unmounted.
#[inline(always)]
pub fn mount() {
    name(MOUNT_SLOT, Kind::Mount);
}

/// Raises an object's mark; true when it rose, and so is worth a doorbell. Two CPUs at once may both see it rise, which costs a doorbell and hides nothing.
#[inline(always)]
fn raise(slot: u32, level: Level) -> bool {
    let Some(mark) = LEVELS.get_ptr_mut(slot) else {
        return false;
    };
    // SAFETY: an aligned u32 in an array map.
    unsafe {
        if *mark >= level as u32 {
            return false;
        }
        *mark = level as u32;
    }
    true
}

/// Marks an object without a doorbell: for a hook that could not tell what happened. The agent finds the mark when it next looks at the counters.
#[inline(always)]
pub fn mark(slot: u32) {
    raise(slot, Level::Done);
}

/// Tells that an object's inode was made dirty without naming a process: a read that updates the access time does that too.
#[inline(always)]
pub fn stirred(slot: u32, key: Key) {
    if !raise(slot, Level::Stirred) {
        return count(Kind::Write, Counter::Coalesced);
    }
    let event = Event {
        // SAFETY: a helper without arguments.
        time_ns: unsafe { bpf_ktime_get_boot_ns() },
        key,
        slot,
        kind: Kind::Write as u32,
        ..actor::NOBODY
    };
    send(&CHANGES, Kind::Write, &event, u64::from(BPF_RB_NO_WAKEUP));
}

/// Tells that a watched file was empty when it was opened to be read: once for each process and state of the file. Who has emptied it is not known.
#[inline(always)]
pub fn emptied(slot: u32, key: Key) {
    let Some(state) = SLOTS.get_ptr(slot) else {
        return;
    };
    // SAFETY: the pointer is into the array map; an aligned u64 is read whole.
    let changes = unsafe { (*state).changes };
    let seen = [actor::ids().0, slot, Kind::Attr as u32];
    // SAFETY: the value is a plain u64.
    if unsafe { LOADED.get(seen) }.is_some_and(|told| *told == changes) {
        return;
    }
    // Not told again is the aim; where the table refuses, it is told again.
    let _told_again = LOADED.insert(seen, changes, 0);
    if !raise(slot, Level::Done) {
        return;
    }
    let event = Event {
        // SAFETY: a helper without arguments.
        time_ns: unsafe { bpf_ktime_get_boot_ns() },
        key,
        slot,
        kind: Kind::Attr as u32,
        ..actor::NOBODY
    };
    send(&CHANGES, Kind::Attr, &event, u64::from(BPF_RB_FORCE_WAKEUP));
}

/// Tells the end of a process that had a watched file open for writing. Not tied to a slot: the agent knows whose end it waits for.
#[inline(always)]
pub fn ended() {
    let mut event = actor::event(Kind::Exit);
    // SAFETY: a helper without arguments.
    event.time_ns = unsafe { bpf_ktime_get_boot_ns() };
    event.slot = u32::MAX;
    send(&CHANGES, Kind::Exit, &event, u64::from(BPF_RB_FORCE_WAKEUP));
}

/// Tells who opened or read a watched file, once for each state of the file.
#[inline(always)]
pub fn load(slot: u32, kind: Kind, key: Key) {
    let Some(state) = SLOTS.get_ptr(slot) else {
        return;
    };
    // SAFETY: the pointer is into the array map; an aligned u64 is read whole.
    let changes = unsafe { (*state).changes };
    let seen = [actor::ids().0, slot, kind as u32];
    // SAFETY: the value is a plain u64.
    if unsafe { LOADED.get(seen) }.is_some_and(|told| *told == changes) {
        return;
    }
    let mut event = actor::event(kind);
    // SAFETY: a helper without arguments.
    event.time_ns = unsafe { bpf_ktime_get_boot_ns() };
    event.slot = slot;
    event.key = key;
    if send(&LOADS, kind, &event, u64::from(wake_for_loads())) {
        // Not told again is the aim; where the table refuses, it is told again.
        let _told_again = LOADED.insert(seen, changes, 0);
    }
}

/// They wait for the agent's next tick while there is room: from half of their ring on it is woken, once for each eighth more. Two CPUs at once may leave one out.
#[inline(always)]
fn wake_for_loads() -> u32 {
    const EIGHTH: u64 = LOADS_BYTES as u64 / 8;
    /// What a record takes, with its header.
    const RECORD: u64 = (size_of::<Event>() as u64 + 8).next_multiple_of(8);
    let waiting = LOADS.query(u64::from(BPF_RB_AVAIL_DATA));
    if waiting >= u64::from(LOADS_BYTES) / 2 && waiting % EIGHTH < RECORD {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    }
}

#[inline(always)]
fn send(ring: &RingBuf, kind: Kind, event: &Event, wake: u64) -> bool {
    let Some(mut entry) = ring.reserve::<Event>(0) else {
        count(kind, Counter::RingFull);
        return false;
    };
    entry.write(*event);
    entry.submit(wake);
    count(kind, Counter::Sent);
    true
}
