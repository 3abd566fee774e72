//! Where tracepoints get their numbers from.
//!
//! The host may not have mounted tracefs, and mounting it would leave something behind. So, where it is missing, the programs are attached by a thread with a
//! mount namespace of its own that goes away with the thread.

use std::{io, path::Path};

use rustix::{
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::{UnshareFlags, unshare_unsafe},
};

use super::refused::Refused;

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The mounted tracefs, if there is one.
pub(super) fn mounted() -> Option<&'static Path> {
    PLACES
        .iter()
        .map(Path::new)
        .find(|place| place.join("events").is_dir())
}

/// Runs `work` where tracefs can be reached, and hands it tracefs's path.
pub fn with<T: Send>(work: impl FnOnce(&Path) -> Result<T, Refused> + Send) -> Result<T, Refused> {
    if let Some(path) = mounted() {
        return work(path);
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("attach".into())
            .spawn_scoped(scope, || {
                mount_privately().map_err(Refused::NoTracefs)?;
                work(Path::new(PLACES[0]))
            })
            .map_err(Refused::NoTracefs)?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn mount_privately() -> io::Result<()> {
    // SAFETY: a new mount namespace (and, implied, an own working directory) for this thread alone, which ends soon; no other thread relies on this
    // thread's namespaces.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    // What is mounted below must not reach the host's namespace. In a chroot the root is no mount point; then it is enough to set apart what tracefs is mounted on.
    let apart = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    match mount_change("/", apart) {
        Err(Errno::INVAL) => mount_change("/sys", apart)?,
        other => other?,
    }
    mount(
        "none",
        PLACES[0],
        "tracefs",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY,
        None,
    )?;
    Ok(())
}
