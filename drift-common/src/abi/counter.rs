//! Where something can be lost in the kernel half, and what is counted there.

/// Index into the per-CPU `COUNTERS` map.
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
}

impl Counter {
    pub const ALL: [Counter; 8] = [
        Counter::Sent,
        Counter::RingFull,
        Counter::KernelRead,
        Counter::UserRead,
        Counter::CallsFull,
        Counter::ReadersFull,
        Counter::Interrupted,
        Counter::Missed,
    ];

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
        }
    }

    /// Whether it counts a loss (and not traffic).
    #[must_use]
    pub const fn is_loss(self) -> bool {
        match self {
            Counter::Sent => false,
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
};
