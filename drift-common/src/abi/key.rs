//! Who an object is: its inode, never its path.

/// An inode as the kernel names it: `(super_block.s_dev, inode.i_ino, inode.i_generation)`.
///
/// `dev` is the kernel's own number (`major << 20 | minor`), which on btrfs and overlay is not what `stat` shows: the agent never computes it,
/// it opens the object and lets the probe say what it saw. The generation tells a reused inode number from the inode that had it before.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(
    feature = "std",
    derive(
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout
    )
)]
pub struct Key {
    pub ino: u64,
    pub dev: u32,
    pub generation: u32,
}

const _: () = {
    assert!(size_of::<Key>() == 16);
    assert!(core::mem::offset_of!(Key, dev) == 8);
    assert!(core::mem::offset_of!(Key, generation) == 12);
};

/// What the kernel half tells the agent of an object that the agent has just opened.
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
pub struct Learned {
    pub key: Key,
    /// `inode.i_writecount`: how many have it open for writing at this moment, a shared writable mapping included. An open that truncates counts from before the
    /// truncation.
    pub writers: u32,
    /// How many hold the name by which it was opened (`dentry.d_lockref.count`): each open file, mapping, mount and lookup that is under way, this one included.
    /// 0: not known, or it is held by more than that name (`inode.i_count` is not 1).
    pub holders: u32,
    /// The inode beneath it that is written to, where it is an overlay's; zero where there is none.
    pub real: Key,
    /// When it was opened (`bpf_ktime_get_boot_ns`): the kernel may leave the program out that would have told of a later open.
    pub time_ns: u64,
}

const _: () = {
    assert!(size_of::<Learned>() == 48);
    assert!(core::mem::offset_of!(Learned, real) == 24);
};

/// A name in a directory: the directory's inode and [`name_hash`] of the last component.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "std",
    derive(
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout
    )
)]
pub struct NameKey {
    pub dir: Key,
    pub name: u64,
}

const _: () = {
    assert!(size_of::<NameKey>() == 24);
    assert!(core::mem::offset_of!(NameKey, name) == 16);
};

/// Told apart from a name itself: whatever is in a directory of that name, in the table of names that may stand anywhere.
pub const INSIDE: u64 = 0x5555_5555_5555_5555;

/// Told apart from both: a whole path, from the root, in the same table.
pub const WHOLE: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// FNV-1a's starting value, 64 bits.
pub const NAME_HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const NAME_HASH_PRIME: u64 = 0x0000_0100_0000_01b3;

/// One step of [`name_hash`]; the kernel half calls it byte by byte.
#[inline(always)]
#[must_use]
pub const fn name_hash_step(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(NAME_HASH_PRIME)
}

/// The hash of a file name (FNV-1a, 64 bits). It only *selects* what is looked at again: two names with one hash cost a look, nothing else.
#[must_use]
pub const fn name_hash(name: &[u8]) -> u64 {
    let mut hash = NAME_HASH_START;
    let mut i = 0;
    while i < name.len() {
        hash = name_hash_step(hash, name[i]);
        i += 1;
    }
    hash
}
/// Words of the `MAYBE` map.
pub const MAYBE_WORDS: u32 = 1 << 14;

/// Where the `MAYBE` map says whether an inode with this number may be a declared one: a word, and a bit in it. Other inodes share the bit.
#[must_use]
#[inline(always)]
pub const fn maybe_bit(ino: u64) -> (u32, u64) {
    let place = (ino ^ (ino >> 20)) as u32 % (MAYBE_WORDS * 64);
    (place / 64, 1 << (place % 64))
}
