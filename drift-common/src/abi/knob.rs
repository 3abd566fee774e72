//! What the agent tells the kernel half when it loads it.

/// Read-only in the kernel: the verifier prunes what a knob switches off.
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
pub struct Knobs {
    /// The agent's own thread group: its changes do not ring, and what it opens is told to it as a [`Key`](super::Key).
    pub agent_tgid: u32,
    /// Not 0: the verifier knows what a task leads to, and the kernel half follows its pointers by loads instead of calls of a helper.
    pub follows_types: u32,
    /// When that thread group started, in ticks ([`TICK_NS`]) since boot: the number alone may be somebody else's one day.
    pub agent_start: u64,
}

/// Nanoseconds in one of the ticks that /proc counts in: `USER_HZ` is 100 on every architecture that drift is built for.
pub const TICK_NS: u64 = 10_000_000;

const _: () = assert!(size_of::<Knobs>() == 16);
