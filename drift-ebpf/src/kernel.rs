//! The only place that reads kernel memory: typed steps from the current task to a file, an inode, a name.
//!
//! Offsets come from the running kernel's BTF (the agent refuses to load the programs without them), pointers from the kernel itself. A read that
//! fails is a fault, not a crash: `bpf_probe_read_kernel` checks the address. Where the verifier follows types, the way from a task to its descriptors, which
//! every open and close takes, is made of plain loads: the verifier checks their offsets against the same BTF, and one that fails reads zero.

use aya_ebpf::{
    EbpfContext,
    helpers::{
        bpf_get_current_pid_tgid, bpf_get_current_task, bpf_get_current_task_btf,
        bpf_probe_read_kernel, bpf_probe_read_kernel_str_bytes,
    },
    programs::TracePointContext,
};
use drift_common::abi::{ABSENT, Knobs, NAME_HASH_START, Offsets, name_hash_step};

use crate::{fault::Fault, map::NAME};

/// The kernel's limit for one component.
const NAME_MAX: usize = 255;

/// Overwritten by the agent before the programs are loaded.
#[unsafe(no_mangle)]
static OFFSETS: Offsets = Offsets {
    task_files: 0,
    task_fs: 0,
    task_group_leader: 0,
    task_start_boottime: 0,
    task_flags: 0,
    files_fdt: 0,
    fdtable_max_fds: 0,
    fdtable_fd: 0,
    fs_pwd_dentry: 0,
    file_inode: 0,
    file_mode: 0,
    file_dentry: 0,
    file_references: 0,
    file_last_reference: 0,
    dentry_parent: 0,
    dentry_inode: 0,
    dentry_name: 0,
    dentry_count: 0,
    inode_count: 0,
    inode_ino: 0,
    inode_super: 0,
    inode_generation: 0,
    inode_writecount: 0,
    inode_size: 0,
    super_dev: 0,
    super_magic: 0,
    overlay_inode: 0,
    overlay_upper: 0,
    request_opcode: 0,
    request_file: 0,
    request_result: 0,
    iattr_valid: 0,
};

/// Overwritten by the agent before the programs are loaded.
#[unsafe(no_mangle)]
static KNOBS: Knobs = Knobs {
    agent_tgid: 0,
    follows_types: 0,
    agent_start: 0,
};

macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a plain static of this object; volatile because the loader changes it after the compiler has seen it.
        unsafe { core::ptr::read_volatile(&raw const OFFSETS.$field) as usize }
    };
}

/// See [`Knobs::agent_tgid`].
#[inline(always)]
pub fn agent_tgid() -> u32 {
    // SAFETY: as in `offset!`.
    unsafe { core::ptr::read_volatile(&raw const KNOBS.agent_tgid) }
}

/// See [`Knobs::agent_start`].
#[inline(always)]
pub fn agent_start() -> u64 {
    // SAFETY: as in `offset!`.
    unsafe { core::ptr::read_volatile(&raw const KNOBS.agent_start) }
}

/// See [`Knobs::follows_types`].
#[inline(always)]
fn follows_types() -> bool {
    // SAFETY: as in `offset!`.
    unsafe { core::ptr::read_volatile(&raw const KNOBS.follows_types) != 0 }
}

/// Argument `index` of a system call's `sys_enter` tracepoint (stable layout: number at 8, arguments from 16, 8 bytes each).
#[inline(always)]
pub fn argument(ctx: &TracePointContext, index: usize) -> u64 {
    // SAFETY: the verifier checks the constant offset against the size of a tracepoint's context.
    unsafe { *ctx.as_ptr().cast::<u64>().add(2 + index) }
}

/// The return value in a system call's `sys_exit` tracepoint (stable layout: at 16).
#[inline(always)]
pub fn returned(ctx: &TracePointContext) -> i64 {
    // SAFETY: as in `argument`.
    unsafe { *ctx.as_ptr().cast::<i64>().add(2) }
}

/// A kernel address. Never dereferenced here, only handed to `bpf_probe_read_kernel`.
#[derive(Clone, Copy)]
pub struct Address(u64);

impl Address {
    #[inline(always)]
    pub const fn new(address: u64) -> Address {
        Address(address)
    }

    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// To tell it from others.
    #[inline(always)]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The pointer that stands so many bytes behind it.
    #[inline(always)]
    pub fn pointer(self, offset: usize) -> Result<Address, Fault> {
        self.read(offset)
    }

    #[inline(always)]
    fn read<T>(self, offset: usize) -> Result<T, Fault> {
        // SAFETY: the helper checks the address and fails instead of faulting; T is an integer or an `Address`.
        unsafe { bpf_probe_read_kernel((self.0 as *const u8).add(offset).cast::<T>()) }
            .map_err(|_| Fault::Kernel)
    }
}

/// A `struct task_struct`.
#[derive(Clone, Copy)]
pub struct Task(Address);

const PF_KTHREAD: u32 = 0x0020_0000;

impl Task {
    #[inline(always)]
    pub fn current() -> Task {
        // SAFETY: a helper without arguments.
        Task(Address(unsafe { bpf_get_current_task() }))
    }

    /// Start of the thread group, nanoseconds since boot.
    #[inline(always)]
    pub fn start_ns(self) -> Result<u64, Fault> {
        let leader: Address = self.0.read(offset!(task_group_leader))?;
        leader.read(offset!(task_start_boottime))
    }

    /// A thread of the kernel's own: it acts for somebody else, and nobody knows for whom.
    #[inline(always)]
    pub fn is_kernel_thread(self) -> Result<bool, Fault> {
        let flags: u32 = self.0.read(offset!(task_flags))?;
        Ok(flags & PF_KTHREAD != 0)
    }

    /// The inode of the working directory.
    #[inline(always)]
    pub fn working_directory(self) -> Result<Inode, Fault> {
        let fs: Address = self.0.read(offset!(task_fs))?;
        let dentry: Address = fs.read(offset!(fs_pwd_dentry))?;
        Dentry(dentry).inode()
    }
}

/// The descriptors of the task that runs.
#[derive(Clone, Copy)]
struct Descriptors {
    /// An array of pointers to files.
    files: Address,
    /// How many there are; the most there can be where that was not asked.
    count: u32,
}

impl Descriptors {
    /// `None`: a task that is ending has none. `COUNTED`: how many there are is of interest.
    #[inline(always)]
    fn own<const COUNTED: bool>() -> Result<Option<Descriptors>, Fault> {
        if follows_types() {
            return Ok(Descriptors::own_by_types());
        }
        let files: Address = Task::current().0.read(offset!(task_files))?;
        let table: Address = files.read(offset!(files_fdt))?;
        Ok(Some(Descriptors {
            files: table.read(offset!(fdtable_fd))?,
            count: if COUNTED {
                table.read(offset!(fdtable_max_fds))?
            } else {
                u32::MAX
            },
        }))
    }

    #[inline(always)]
    fn own_by_types() -> Option<Descriptors> {
        let (task_files, files_fdt) = (offset!(task_files), offset!(files_fdt));
        let (fd, max_fds) = (offset!(fdtable_fd), offset!(fdtable_max_fds));
        // SAFETY: a helper without arguments, in kernels that have it (5.11).
        let task = unsafe { bpf_get_current_task_btf() }.cast::<u8>();
        // SAFETY: the verifier knows the type of each pointer and checks what stands at the offset; a load that faults reads zero. A pointer is asked whether it is
        // null before it is followed: where the kernel marks it as one of RCU's, the verifier insists.
        unsafe {
            let files = load::<*const u8>(task, task_files);
            if files.is_null() {
                return None;
            }
            let table = load::<*const u8>(files, files_fdt);
            if table.is_null() {
                return None;
            }
            Some(Descriptors {
                files: Address(load(table, fd)),
                count: load(table, max_fds),
            })
        }
    }
}

/// A plain load, in one piece.
///
/// # Safety
/// The verifier has to know the type of what `from` points to.
#[inline(always)]
unsafe fn load<T>(from: *const u8, offset: usize) -> T {
    // SAFETY: the caller's.
    unsafe { core::ptr::read_volatile(from.add(offset).cast::<T>()) }
}

/// A `struct file`.
#[derive(Clone, Copy)]
pub struct File(Address);

const FMODE_READ: u32 = 1;
const FMODE_WRITE: u32 = 2;
const FMODE_OPENED: u32 = 0x8_0000;

impl File {
    #[inline(always)]
    pub const fn new(address: Address) -> File {
        File(address)
    }

    /// The file behind a descriptor of the task that runs; `None` where there is none.
    #[inline(always)]
    pub fn of(fd: i32) -> Result<Option<File>, Fault> {
        File::behind::<true>(fd)
    }

    /// The file behind a descriptor that the kernel has just given the task that runs: it is within the table, which never shrinks.
    #[inline(always)]
    pub fn opened(fd: i32) -> Result<Option<File>, Fault> {
        File::behind::<false>(fd)
    }

    #[inline(always)]
    fn behind<const COUNTED: bool>(fd: i32) -> Result<Option<File>, Fault> {
        let Some(descriptors) = Descriptors::own::<COUNTED>()? else {
            return Ok(None);
        };
        if fd < 0 || fd as u32 >= descriptors.count {
            return Ok(None);
        }
        let file: Address = descriptors.files.read(fd as usize * 8)?;
        Ok((!file.is_null()).then_some(File(file)))
    }

    #[inline(always)]
    pub fn inode(self) -> Result<Inode, Fault> {
        self.0.read(offset!(file_inode)).map(Inode)
    }

    #[inline(always)]
    pub fn dentry(self) -> Result<Dentry, Fault> {
        self.0.read(offset!(file_dentry)).map(Dentry)
    }

    /// (can be read, can be written) through this file.
    #[inline(always)]
    pub fn access(self) -> Result<(bool, bool), Fault> {
        let mode: u32 = self.0.read(offset!(file_mode))?;
        Ok((mode & FMODE_READ != 0, mode & FMODE_WRITE != 0))
    }

    /// Whether its open succeeded: one that did not is thrown away like one that is closed.
    #[inline(always)]
    pub fn is_opened(self) -> Result<bool, Fault> {
        let mode: u32 = self.0.read(offset!(file_mode))?;
        Ok(mode & FMODE_OPENED != 0)
    }

    /// Whether one reference is left: the next close ends the file.
    #[inline(always)]
    pub fn is_last_reference(self) -> Result<bool, Fault> {
        let references: u64 = self.0.read(offset!(file_references))?;
        Ok(references == offset!(file_last_reference) as u64)
    }
}

/// A `struct dentry`.
#[derive(Clone, Copy)]
pub struct Dentry(Address);

impl Dentry {
    #[inline(always)]
    pub const fn new(address: Address) -> Dentry {
        Dentry(address)
    }

    #[inline(always)]
    pub fn inode(self) -> Result<Inode, Fault> {
        self.0.read(offset!(dentry_inode)).map(Inode)
    }

    #[inline(always)]
    pub fn parent(self) -> Result<Dentry, Fault> {
        self.0.read(offset!(dentry_parent)).map(Dentry)
    }

    /// See [`Learned::holders`](drift_common::abi::Learned::holders).
    #[inline(always)]
    pub fn holders(self, inode: Inode) -> Result<u32, Fault> {
        let (name, file) = (offset!(dentry_count), offset!(inode_count));
        if name == ABSENT as usize || file == ABSENT as usize {
            return Ok(0);
        }
        let names: i32 = inode.0.read(file)?;
        let count: i32 = self.0.read(name)?;
        Ok(if names == 1 && count > 0 {
            count as u32
        } else {
            0
        })
    }

    /// [`name_hash`](drift_common::abi::name_hash) of the entry's name.
    ///
    /// A program on a function may be interrupted by another one on the same processor, which uses the same buffer. That is noticed: the buffer has an
    /// owner.
    #[inline(always)]
    pub fn name_hash(self) -> Result<u64, Fault> {
        let name: Address = self.0.read(offset!(dentry_name))?;
        let buffer = NAME.get_ptr_mut(0).ok_or(Fault::Kernel)?;
        let me = bpf_get_current_pid_tgid();
        // SAFETY: the pointer is into the map of this processor.
        let text = unsafe {
            core::ptr::write_volatile(&raw mut (*buffer).owner, me);
            &mut (*buffer).text
        };
        // SAFETY: the helper checks the address and writes at most the buffer's length.
        let length = unsafe { bpf_probe_read_kernel_str_bytes(name.0 as *const u8, text) }
            .map_err(|_| Fault::Kernel)?
            .len();
        let mut hash = NAME_HASH_START;
        for i in 0..NAME_MAX {
            if i >= length {
                break;
            }
            hash = name_hash_step(hash, text[i & 255]);
        }
        // SAFETY: as above; volatile, for the owner may be another by now.
        let owner = unsafe { core::ptr::read_volatile(&raw const (*buffer).owner) };
        if owner == me {
            Ok(hash)
        } else {
            Err(Fault::Interrupted)
        }
    }
}

/// Which attributes a `struct iattr` is about.
#[inline(always)]
pub fn attributes(iattr: Address) -> Result<u32, Fault> {
    iattr.read(offset!(iattr_valid))
}

/// A `struct inode`.
#[derive(Clone, Copy)]
pub struct Inode(Address);

impl Inode {
    #[inline(always)]
    pub const fn new(address: Address) -> Inode {
        Inode(address)
    }

    #[inline(always)]
    pub fn number(self) -> Result<u64, Fault> {
        self.0.read(offset!(inode_ino))
    }

    #[inline(always)]
    pub fn generation(self) -> Result<u32, Fault> {
        self.0.read(offset!(inode_generation))
    }

    /// `super_block.s_dev`.
    #[inline(always)]
    pub fn device(self) -> Result<u32, Fault> {
        let super_block: Address = self.0.read(offset!(inode_super))?;
        super_block.read(offset!(super_dev))
    }

    /// How many files have it open for writing; 0 where execution forbids writing (a negative count).
    #[inline(always)]
    pub fn writers(self) -> Result<u32, Fault> {
        let count: i32 = self.0.read(offset!(inode_writecount))?;
        Ok(if count > 0 { count as u32 } else { 0 })
    }

    /// `i_size`.
    #[inline(always)]
    pub fn size(self) -> Result<u64, Fault> {
        self.0.read(offset!(inode_size))
    }

    /// Of an overlay's inode: the one in its upper layer, which is what is written to. `None`: no overlay's, or nothing has been written to it yet.
    #[inline(always)]
    pub fn upper(self) -> Result<Option<Inode>, Fault> {
        let (inode, upper) = (offset!(overlay_inode), offset!(overlay_upper));
        if inode == ABSENT as usize || upper == ABSENT as usize {
            return Ok(None);
        }
        let super_block: Address = self.0.read(offset!(inode_super))?;
        let magic: u64 = super_block.read(offset!(super_magic))?;
        if magic != OVERLAY_MAGIC {
            return Ok(None);
        }
        let dentry: Address = Address(self.0.0.wrapping_sub(inode as u64)).read(upper)?;
        if dentry.0 == 0 {
            return Ok(None);
        }
        Dentry(dentry).inode().map(Some)
    }
}

/// `s_magic` of an overlay.
const OVERLAY_MAGIC: u64 = 0x794c_7630;

/// A `struct io_kiocb`: a request to io_uring.
#[derive(Clone, Copy)]
pub struct Request(Address);

impl Request {
    /// `None`: there is none, or this kernel's are not known (the agent does not attach what asks then).
    #[inline(always)]
    pub fn new(address: u64) -> Option<Request> {
        (address != 0 && offset!(request_opcode) != ABSENT as usize)
            .then_some(Request(Address(address)))
    }

    #[inline(always)]
    pub fn opcode(self) -> Result<u8, Fault> {
        self.0.read(offset!(request_opcode))
    }

    /// What the call returned, as a system call would.
    #[inline(always)]
    pub fn result(self) -> Result<i32, Fault> {
        self.0.read(offset!(request_result))
    }

    /// What it was about, where that is a file.
    #[inline(always)]
    pub fn file(self) -> Result<Option<File>, Fault> {
        let file: Address = self.0.read(offset!(request_file))?;
        Ok((file.0 != 0).then_some(File(file)))
    }
}
