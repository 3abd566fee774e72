//! One record of the ring: something happened to a watched object, and who did it.

use super::key::Key;

/// What happened. The closed set of the ring; the number is what travels.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A watched file was opened for reading.
    Open = 1,
    /// A process read from a watched file for the first time since the agent looked.
    Read = 2,
    /// A watched file was opened for writing, or written to; its writer still has it open.
    Write = 3,
    /// The last descriptor of a writer was closed.
    Close = 4,
    /// A rename moved something onto, or away from, a watched name.
    Replace = 5,
    /// A watched name was unlinked.
    Remove = 6,
    /// A watched name came into being (file, link, directory, node).
    Create = 7,
    /// Mode, owner or size was changed by a call that is complete in itself.
    Attr = 8,
    /// A process that had a watched file open for writing has ended, or has closed one in a way that does not tell which.
    Exit = 9,
    /// Something was mounted, moved or unmounted: in some mount namespace.
    Mount = 10,
    /// Times were set: nothing that is declared is another for it.
    Times = 11,
}

impl Kind {
    /// Every kind. The match in [`Kind::from_u32`] has no `_` arm over the variants, so a new kind cannot be forgotten there.
    pub const ALL: [Kind; 11] = [
        Kind::Open,
        Kind::Read,
        Kind::Write,
        Kind::Close,
        Kind::Replace,
        Kind::Remove,
        Kind::Create,
        Kind::Attr,
        Kind::Exit,
        Kind::Mount,
        Kind::Times,
    ];

    /// The kind's name in logs, metrics and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Open => "open",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Close => "close",
            Kind::Replace => "replace",
            Kind::Remove => "remove",
            Kind::Create => "create",
            Kind::Attr => "attr",
            Kind::Exit => "exit",
            Kind::Mount => "mount",
            Kind::Times => "times",
        }
    }

    /// The kind with this number, if there is one.
    #[must_use]
    pub const fn from_u32(number: u32) -> Option<Kind> {
        let mut i = 0;
        while i < Kind::ALL.len() {
            if Kind::ALL[i] as u32 == number {
                return Some(Kind::ALL[i]);
            }
            i += 1;
        }
        None
    }
}

/// The doorbell. All kinds have this one shape: the kind says which fields mean something, the rest is zero.
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
pub struct Event {
    /// `bpf_ktime_get_boot_ns` when the hook ran: nanoseconds since boot, suspended time included.
    pub time_ns: u64,
    /// Start of the actor's thread group, nanoseconds since boot. With `tgid` it names the process for good.
    pub start_ns: u64,
    /// `bpf_get_current_cgroup_id`: the inode number of the actor's directory in the cgroup v2 hierarchy.
    pub cgroup: u64,
    /// For an event found by a path with slashes: [`name_hash`](super::name_hash) of the component before the last, else 0.
    pub parent_name: u64,
    /// The inode that was touched; zero where the call names it by path only.
    pub key: Key,
    /// Index of the watched object in the agent's table and in the `SLOTS` map.
    pub slot: u32,
    /// A [`Kind`].
    pub kind: u32,
    /// Thread group id, as the initial pid namespace has it.
    pub tgid: u32,
    /// Thread id, as the initial pid namespace has it.
    pub tid: u32,
    pub uid: u32,
    pub gid: u32,
    /// `inode.i_writecount` after this event: how many descriptors still write to the file. Zero where unknown.
    pub writers: u32,
    pub _reserved: u32,
    /// The thread's name, padded with zero bytes.
    pub comm: [u8; 16],
}

const _: () = {
    assert!(size_of::<Event>() == 96);
    assert!(core::mem::offset_of!(Event, key) == 32);
    assert!(core::mem::offset_of!(Event, slot) == 48);
    assert!(core::mem::offset_of!(Event, tgid) == 56);
    assert!(core::mem::offset_of!(Event, writers) == 72);
    assert!(core::mem::offset_of!(Event, comm) == 80);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_from_its_number_and_no_other_number_is_one() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_u32(kind as u32), Some(kind));
        }
        for number in [0, 12, 255, u32::MAX] {
            assert_eq!(Kind::from_u32(number), None, "{number}");
        }
    }
}
