//! What the kernel half counts, by kind of change: what it sent, what needed no sending, and each way to lose something.

use super::event::Kind;

/// What is counted, for each kind of change apart: see [`Counter::cell`].
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Events put into the ring.
    Sent = 0,
    /// The ring had no room: the *who* of a change is lost, its dirty mark is set.
    RingFull = 1,
    /// A kernel structure could not be read: an event may be missing.
    KernelRead = 2,
    /// A path in user memory could not be read: a sweep is asked for.
    UserRead = 3,
    /// The table of calls under way was full: a sweep is asked for.
    CallsFull = 4,
    /// The table of readers was full: a read of a watched file may go untold.
    ReadersFull = 5,
    /// A program was interrupted by another one that used the same memory of this processor: a sweep is asked for.
    Interrupted = 6,
    /// The kernel left a program out, for it was running on that processor already: counted by the kernel, not here. A sweep is asked for.
    Missed = 7,
    /// The object's mark was up as far already: the agent has not looked yet, and will. Nothing was lost, and nothing had to be sent.
    Coalesced = 8,
}

impl Counter {
    pub const ALL: [Counter; 9] = [
        Counter::Sent,
        Counter::RingFull,
        Counter::KernelRead,
        Counter::UserRead,
        Counter::CallsFull,
        Counter::ReadersFull,
        Counter::Interrupted,
        Counter::Missed,
        Counter::Coalesced,
    ];

    /// The cell of all losses together: no kind has the number 0, whose cells would be here.
    pub const LOSSES: u32 = 0;

    /// Cells of the `COUNTERS` map: one for each kind and counter.
    pub const CELLS: u32 = (Counter::ALL.len() * (Kind::ALL.len() + 1)) as u32;

    /// Index into the per-CPU `COUNTERS` map.
    #[must_use]
    pub const fn cell(self, kind: Kind) -> u32 {
        kind as u32 * Counter::ALL.len() as u32 + self as u32
    }

    /// The counter's name in logs, metrics and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Counter::Sent => "sent",
            Counter::RingFull => "ring_full",
            Counter::KernelRead => "kernel_read",
            Counter::UserRead => "user_read",
            Counter::CallsFull => "calls_full",
            Counter::ReadersFull => "readers_full",
            Counter::Interrupted => "interrupted",
            Counter::Missed => "missed",
            Counter::Coalesced => "coalesced",
        }
    }

    /// Whether it counts a loss (and not traffic).
    #[must_use]
    pub const fn is_loss(self) -> bool {
        match self {
            Counter::Sent | Counter::Coalesced => false,
            Counter::RingFull
            | Counter::KernelRead
            | Counter::UserRead
            | Counter::CallsFull
            | Counter::ReadersFull
            | Counter::Interrupted
            | Counter::Missed => true,
        }
    }
}

const _: () = {
    let mut i = 0;
    while i < Counter::ALL.len() {
        assert!(
            Counter::ALL[i] as usize == i,
            "a counter's number is its place in ALL"
        );
        i += 1;
    }
    let mut i = 0;
    while i < Kind::ALL.len() {
        assert!(
            Counter::Coalesced.cell(Kind::ALL[i]) < Counter::CELLS,
            "every kind has its cells"
        );
        i += 1;
    }
};
