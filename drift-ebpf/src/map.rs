//! Every map, once. Sizes marked "agent" are set by the agent when it loads the programs, from what is declared.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf},
};
use drift_common::abi::{Counter, Key, Learned, MAYBE_WORDS, NameKey, Slot};

use crate::{call::Call, path::Last};

/// Doorbells of changes. Size: agent.
#[map]
pub static CHANGES: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

/// Who opened and read watched files. A ring of its own: a flood of reads cannot push out a change.
#[map]
pub static LOADS: RingBuf = RingBuf::with_byte_size(LOADS_BYTES, 0);
pub const LOADS_BYTES: u32 = 1 << 18;

/// The dirty mark ([`drift_common::abi::Level`]) of each watched object, by slot. Size: agent.
#[map]
pub static LEVELS: Array<u32> = Array::with_max_entries(1, 0);

/// What was seen of each watched object, by slot. Size: agent.
#[map]
pub static SLOTS: Array<Slot> = Array::with_max_entries(1, 0);

/// Watched files by inode. Size: agent.
#[map]
pub static INODES: HashMap<Key, u32> = HashMap::with_max_entries(1, 0);

/// A bit for the number of each watched inode, shared with others: most inodes of a machine are let go after one look at theirs, before anything else is
/// read of them.
#[map]
pub static MAYBE: Array<u64> = Array::with_max_entries(MAYBE_WORDS, 0);

/// Directories in which a watched name stands -> the slot that everything else in them rings, 0 (the sweep's, which no directory has) if nothing does.
/// Size: agent.
#[map]
pub static DIRS: HashMap<Key, u32> = HashMap::with_max_entries(1, 0);

/// Watched names by directory: declared paths and each of their ancestor directories. Size: agent.
#[map]
pub static NAMES: HashMap<NameKey, u32> = HashMap::with_max_entries(1, 0);

/// Watched names wherever they stand: for calls that name an object by a path with slashes, which the kernel half does not walk. Size: agent.
#[map]
pub static NAMES_ANYWHERE: HashMap<u64, u32> = HashMap::with_max_entries(1, 0);

/// Calls under way, by thread: what `sys_enter` saw, for `sys_exit`.
#[map]
pub static CALLS: HashMap<u64, Call> = HashMap::with_max_entries(16_384, 0);

/// Renames under way, by thread and moved entry (an overlay renames within a rename): the slots that ring when they succeed, 0 for none.
#[map]
pub static RENAMES: LruHashMap<[u64; 2], [u32; 2]> = LruHashMap::with_max_entries(4_096, 0);

/// Thread groups that opened a watched file for writing: their end is worth a doorbell. One that falls out of the table costs a delay (the quiet time).
#[map]
pub static WRITERS: LruHashMap<u32, u32> = LruHashMap::with_max_entries(8_192, 0);

/// Thread groups that opened a watched file and have not read it yet -> how many times.
#[map]
pub static READERS: HashMap<u32, u32> = HashMap::with_max_entries(8_192, 0);

/// Zero: no process is in `READERS`, the read hook returns at once.
#[map]
pub static READ_ARMED: Array<u32> = Array::with_max_entries(1, 0);

/// The process that writes for the agent, by its number and when it started, in ticks since boot; zeros where none does. What it changes is looked at
/// afterwards, and does not ring.
#[map]
pub static RESTORER: Array<[u64; 2]> = Array::with_max_entries(1, 0);

/// (thread group, slot, kind) -> the slot's count of changes when it was last reported: one load is told once per state of the file.
#[map]
pub static LOADED: LruHashMap<[u32; 3], u64> = LruHashMap::with_max_entries(16_384, 0);

/// What the agent's own threads opened last, by thread id: how the agent learns the kernel's name of an inode.
#[map]
pub static LEARNED: LruHashMap<u32, Learned> = LruHashMap::with_max_entries(1_024, 0);

/// One cell per CPU, kind of change and [`Counter`].
#[map]
pub static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::CELLS, 0);

/// Room for one path (PATH_MAX) per CPU: too large for the stack.
#[map]
pub static PATH: PerCpuArray<[u8; 4096]> = PerCpuArray::with_max_entries(1, 0);

/// What was found out about the path in `PATH`.
#[map]
pub static LAST: PerCpuArray<Last> = PerCpuArray::with_max_entries(1, 0);

/// Room for one name per CPU.
#[map]
pub static NAME: PerCpuArray<Name> = PerCpuArray::with_max_entries(1, 0);

/// NAME_MAX bytes and the closing zero.
#[repr(C)]
pub struct Name {
    /// The thread that has written it last.
    pub owner: u64,
    pub text: [u8; 256],
}
