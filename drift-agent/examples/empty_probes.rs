//! Attaches programs that do nothing to every place where drift's own are attached, and holds them until its standard input ends: what attaching alone costs.
//!
//! ```text
//! cargo run --release -p drift-agent --example empty_probes     # says `ready`, then waits
//! ```
//!
//! `cargo xtask bench overhead` measures it beside the agent. Where tracefs is not mounted: `unshare -m sh -c 'mount -t tracefs none /sys/kernel/tracing && …'`.

use std::{
    fs,
    io::{self, Read as _},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use anyhow::{Context, Result};
use drift_agent::probe::{Place, Sensor, hooks};

const TRACEFS: &str = "/sys/kernel/tracing/events";

/// `enum bpf_cmd` and `enum bpf_prog_type` in `linux/bpf.h`.
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const PROG_TYPE_TRACEPOINT: u32 = 5;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;

/// `linux/perf_event.h`.
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_EVENT_IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

fn main() -> Result<()> {
    let perf = load(PROG_TYPE_TRACEPOINT).context("loading an empty program")?;
    let raw = load(PROG_TYPE_RAW_TRACEPOINT).context("loading an empty program")?;
    let mut attached = Vec::new();
    for hook in hooks(Sensor::Tracepoint) {
        for place in hook.places {
            let link = match place {
                Place::Tracepoint(category, name) => {
                    let id = format!("{TRACEFS}/{category}/{name}/id");
                    // A call that this kernel does not have.
                    let Ok(id) = fs::read_to_string(&id) else {
                        continue;
                    };
                    attach(id.trim().parse()?, &perf)
                }
                // A tracepoint of one kernel and not of another.
                Place::Raw(name) => match attach_raw(name, &raw) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    link => link,
                },
                // The other sensor's.
                Place::Begin(_) | Place::End(_) => continue,
            };
            attached.push(link.with_context(|| format!("attaching to {place}"))?);
        }
    }
    anyhow::ensure!(attached.len() > 1, "tracefs is not mounted at {TRACEFS}");
    println!("ready {}", attached.len());
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn bpf(command: libc::c_long, attributes: &mut [u64]) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads and writes at most the given size, which is the slice's; addresses in it outlive the call, as callers hold what they point at.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_mut_ptr(),
            size_of_val(attributes),
        )
    };
    owned(fd)
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just made for this process, and nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `r0 = 0; exit`.
fn load(kind: u32) -> io::Result<OwnedFd> {
    let instructions: [u64; 2] = [0x0000_0000_0000_00b7, 0x0000_0000_0000_0095];
    let licence = c"GPL";
    // prog_type and insn_cnt, insns, license, then zeros: `union bpf_attr`.
    let mut attributes = [0u64; 6];
    attributes[0] = u64::from(kind) | (instructions.len() as u64) << 32;
    attributes[1] = instructions.as_ptr() as u64;
    attributes[2] = licence.as_ptr() as u64;
    bpf(BPF_PROG_LOAD, &mut attributes)
}

/// As aya does it: one event, for every process.
fn attach(id: u64, program: &OwnedFd) -> io::Result<OwnedFd> {
    // `struct perf_event_attr`, its first version: type and size, config.
    let mut attributes = [0u64; 8];
    attributes[0] = u64::from(PERF_TYPE_TRACEPOINT) | (size_of_val(&attributes) as u64) << 32;
    attributes[1] = id;
    // SAFETY: the kernel reads the structure, whose size it holds.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            -1,
            0,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    let event = owned(fd)?;
    for (request, argument) in [
        (PERF_EVENT_IOC_SET_BPF, program.as_raw_fd()),
        (PERF_EVENT_IOC_ENABLE, 0),
    ] {
        // SAFETY: both requests take a number, no address.
        if unsafe { libc::ioctl(event.as_raw_fd(), request, argument) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(event)
}

fn attach_raw(name: &str, program: &OwnedFd) -> io::Result<OwnedFd> {
    let name = std::ffi::CString::new(name)?;
    let mut attributes = [name.as_ptr() as u64, program.as_raw_fd() as u64];
    bpf(BPF_RAW_TRACEPOINT_OPEN, &mut attributes)
}
