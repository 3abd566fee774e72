//! The dirty mark of a watched object: what keeps a full ring from losing anything but the *who*.

/// The slot that stands for "an attribute was changed through a name that is nobody's": the agent looks at all objects again, at a bounded rate.
pub const SWEEP_SLOT: u32 = 0;

/// The slot that stands for the tables of mounts, in whatever namespace.
pub const MOUNT_SLOT: u32 = 1;
/// The slot of the file that the agent writes to hear itself: the only one that its own changes ring.
pub const CANARY_SLOT: u32 = 2;

/// How far a change has come.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing since the agent last looked.
    Clean = 0,
    /// The inode was made dirty, nobody knows by whom or what for: look after a while.
    Stirred = 1,
    /// Somebody is writing; look when the writer has closed, or has been quiet for a while.
    Open = 2,
    /// A change is complete: look now.
    Done = 3,
}

/// What the kernel half knows of one watched object, in the `SLOTS` array map: written by the kernel half alone. The object's [`Level`] stands beside it in
/// `LEVELS`, which both halves write.
///
/// The kernel half raises the level and rings when it rises; the agent sets it back to [`Level::Clean`] *before* it reads the object. A change that found
/// the level already high came before that store, so the read that follows the store sees it: coalescing loses nothing.
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
pub struct Slot {
    /// When the newest change was seen, nanoseconds since boot.
    pub changed_ns: u64,
    /// Complete changes seen, ever: an open, write and close is one (approximate when two CPUs change one object in the same nanoseconds).
    pub changes: u64,
    /// The thread group that made the newest change. Differs from the doorbell's when a second process came in between.
    pub tgid: u32,
    pub _reserved: u32,
}

const _: () = {
    assert!(size_of::<Slot>() == 24);
    assert!(core::mem::offset_of!(Slot, changes) == 8);
    assert!(core::mem::offset_of!(Slot, tgid) == 16);
};
