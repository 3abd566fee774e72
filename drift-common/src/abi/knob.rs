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
}

const _: () = assert!(size_of::<Knobs>() == 4);
