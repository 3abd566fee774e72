//! What somebody with all rights can do to a running agent's kernel half.

use std::{
    collections::BTreeSet,
    fs,
    os::fd::{AsFd as _, AsRawFd as _},
};

use anyhow::{Context, Result, bail};
use aya::maps::{HashMap, Map, MapData, MapInfo};

/// The kernel tables that a process holds, by name.
///
/// # Errors
/// It holds none of this name, or it cannot be opened.
fn table(pid: u32, name: &str) -> Result<MapData> {
    let mut ids = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // A descriptor that was closed meanwhile is none.
        let Ok(text) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        let id = text.lines().find_map(|line| line.strip_prefix("map_id:"));
        ids.extend(id.and_then(|id| id.trim().parse::<u32>().ok()));
    }
    for id in ids {
        if MapInfo::from_id(id)?.name_as_str() == Some(name) {
            return Ok(MapData::from_id(id)?);
        }
    }
    bail!("process {pid} has no kernel table {name}")
}

/// Takes every entry out of the table of watched inodes.
///
/// # Errors
/// The kernel's.
pub fn forget_inodes(pid: u32) -> Result<usize> {
    let mut map: HashMap<MapData, [u8; 16], u32> =
        HashMap::try_from(Map::HashMap(table(pid, "INODES")?))?;
    let keys: Vec<[u8; 16]> = map.keys().collect::<Result<_, _>>()?;
    for key in &keys {
        map.remove(key)?;
    }
    Ok(keys.len())
}

/// Makes the table of dirty marks one that no process can write to any more: a mark that is up stays up, and what it stands for rings no more.
///
/// # Errors
/// The kernel's.
pub fn freeze_marks(pid: u32) -> Result<()> {
    /// `enum bpf_cmd` in `linux/bpf.h`.
    const BPF_MAP_FREEZE: libc::c_long = 22;
    let map = table(pid, "LEVELS")?;
    let attributes = [map.fd().as_fd().as_raw_fd()];
    // SAFETY: the kernel reads the four bytes of the array, which outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_FREEZE,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    if result < 0 {
        bail!("BPF_MAP_FREEZE: {}", std::io::Error::last_os_error());
    }
    Ok(())
}

/// The descriptors that keep a process's programs attached.
///
/// # Errors
/// It is gone.
pub fn links(pid: u32) -> Result<Vec<u64>> {
    let mut links = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        let target = fs::read_link(entry.path()).unwrap_or_default();
        if target.to_string_lossy().contains("bpf_link") {
            let number = entry.file_name();
            links.push(number.to_string_lossy().parse()?);
        }
    }
    links.sort_unstable();
    Ok(links)
}

/// How a system call is made on this processor by a thread that is stopped.
#[cfg(target_arch = "x86_64")]
mod call {
    use libc::user_regs_struct;

    const SYSCALL: i64 = 0x050f;

    /// Where the instruction is by which it last entered the kernel.
    pub(super) fn entered(
        registers: &user_regs_struct,
        read: impl Fn(u64) -> nix::Result<i64>,
    ) -> nix::Result<Option<u64>> {
        let before = registers.rip - 2;
        Ok((read(before)? & 0xffff == SYSCALL).then_some(before))
    }

    pub(super) fn close(registers: &mut user_regs_struct, instruction: u64, descriptor: u64) {
        registers.rip = instruction;
        registers.rax = libc::SYS_close.cast_unsigned();
        registers.orig_rax = u64::MAX;
        registers.rdi = descriptor;
    }

    pub(super) fn result(registers: &user_regs_struct) -> i64 {
        registers.rax.cast_signed()
    }
}

/// How a system call is made on this processor by a thread that is stopped.
#[cfg(target_arch = "aarch64")]
mod call {
    use libc::user_regs_struct;

    const SVC: i64 = 0xd400_0001;

    /// Where the instruction is by which it last entered the kernel: the kernel has gone back to it where the call is to be made once more.
    pub(super) fn entered(
        registers: &user_regs_struct,
        read: impl Fn(u64) -> nix::Result<i64>,
    ) -> nix::Result<Option<u64>> {
        for place in [registers.pc - 4, registers.pc] {
            if read(place)? & 0xffff_ffff == SVC {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    pub(super) fn close(registers: &mut user_regs_struct, instruction: u64, descriptor: u64) {
        registers.pc = instruction;
        registers.regs[8] = libc::SYS_close.cast_unsigned();
        registers.regs[0] = descriptor;
    }

    pub(super) fn result(registers: &user_regs_struct) -> i64 {
        registers.regs[0].cast_signed()
    }
}

/// Makes a process close descriptors, as a debugger would: its main thread is stopped, and runs `close` from the instruction it last entered the kernel by.
///
/// # Errors
/// It cannot be traced.
pub fn close(pid: u32, descriptors: &[u64]) -> Result<()> {
    use nix::{
        sys::{
            ptrace,
            wait::{WaitStatus, waitpid},
        },
        unistd::Pid,
    };
    let process = Pid::from_raw(i32::try_from(pid)?);
    let read = |place: u64| ptrace::read(process, place as ptrace::AddressType);
    let stop = || -> Result<Option<(libc::user_regs_struct, u64)>> {
        ptrace::attach(process).context("PTRACE_ATTACH")?;
        waitpid(process, None)?;
        let registers = ptrace::getregs(process)?;
        if let Some(instruction) = call::entered(&registers, read)? {
            return Ok(Some((registers, instruction)));
        }
        ptrace::detach(process, None)?;
        Ok(None)
    };
    // A thread that is running at this moment is let go, and stopped again when it waits.
    let (saved, instruction) = crate::wait::until(crate::agent::SOON, || match stop() {
        Ok(Some(stopped)) => Ok(Ok(stopped)),
        Ok(None) => Err("the main thread is not in a system call"),
        Err(error) => Ok(Err(error)),
    })
    .map_err(anyhow::Error::msg)??;
    let work = || -> Result<()> {
        for descriptor in descriptors {
            let mut registers = saved;
            call::close(&mut registers, instruction, *descriptor);
            ptrace::setregs(process, registers)?;
            ptrace::step(process, None)?;
            match waitpid(process, None)? {
                WaitStatus::Stopped(..) => {}
                other => bail!("{other:?} instead of one step"),
            }
            let result = call::result(&ptrace::getregs(process)?);
            if result != 0 {
                bail!("close({descriptor}) gave {result}");
            }
        }
        Ok(())
    };
    let result = work();
    ptrace::setregs(process, saved)?;
    ptrace::detach(process, None)?;
    result
}
