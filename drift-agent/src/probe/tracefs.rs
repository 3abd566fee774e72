//! Where tracepoints get their numbers from.
//!
//! The host may not have mounted tracefs, and mounting it would leave something behind. So, where it is missing, the programs are loaded by a thread with a
//! mount namespace of its own. It stays, for they may have to be loaded anew when nobody here may mount anything any more.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, mpsc},
};

use rustix::{
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount},
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

type Work = Box<dyn FnOnce() + Send>;

/// The thread that has tracefs to itself.
static APART: Mutex<Option<mpsc::Sender<Work>>> = Mutex::new(None);

/// Runs `work` where tracefs can be reached, if that can be had. Blocks until it is done.
///
/// # Errors
/// The thread that should have done it has ended.
pub fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let mut apart = APART.lock().unwrap_or_else(PoisonError::into_inner);
    if apart.is_none() && mounted().is_none() {
        // Where it cannot be had, whoever needs it says so.
        *apart = begin()
            .inspect_err(|error| log::debug!("no thread has tracefs: {error}"))
            .ok();
    }
    match &*apart {
        Some(thread) => ask(thread, work),
        None => Ok(work()),
    }
}

/// Runs what confines this process's threads in the one that has tracefs, too. One that does not come to the same goes.
pub fn confine(work: impl FnOnce() -> bool + Send + 'static) {
    let mut apart = APART.lock().unwrap_or_else(PoisonError::into_inner);
    let is_confined = match &*apart {
        Some(thread) => ask(thread, work).unwrap_or(false),
        None => return,
    };
    if !is_confined {
        log::warn!(
            "if the kernel programs have to be loaded anew, they cannot be: mount tracefs (mount -t tracefs none {})",
            PLACES[0]
        );
        *apart = None;
    }
}

fn ask<T: Send + 'static>(
    thread: &mpsc::Sender<Work>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, came) = mpsc::sync_channel(1);
    let work = move || {
        // Whoever asks waits for it.
        let _heard = done.send(work());
    };
    let gone = || io::Error::other("the thread that loads the kernel programs has ended");
    thread.send(Box::new(work)).map_err(|_| gone())?;
    came.recv().map_err(|_| gone())
}

fn begin() -> io::Result<mpsc::Sender<Work>> {
    let (sender, works) = mpsc::channel::<Work>();
    let (said, begun) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("attach".into())
        .spawn(move || {
            let mounted = mount_privately().and_then(|is_apart| {
                if is_apart {
                    alone()
                } else {
                    Err(io::Error::other("the root is no mount point"))
                }
            });
            let goes_on = mounted.is_ok();
            // Whoever has started it waits for this.
            let _heard = said.send(mounted);
            if goes_on {
                works.iter().for_each(|work| work());
            }
        })?;
    begun
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("it has ended")))?;
    Ok(sender)
}

/// Lets go what else is mounted in this thread's namespace: nobody is to find a file system busy because of it.
fn alone() -> io::Result<()> {
    let table = fs::read_to_string("/proc/thread-self/mountinfo")?;
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let needed = |point: &Path| {
        PLACES
            .iter()
            .any(|place| Path::new(place).starts_with(point))
            || point == Path::new("/proc")
    };
    let others: Vec<PathBuf> = points
        .map(PathBuf::from)
        .filter(|point| !needed(point))
        .collect();
    for point in others.iter().rev() {
        // It may be gone with another; names with blanks are written in octal, and stay.
        if let Err(error) = unmount(point, UnmountFlags::DETACH) {
            log::debug!("{} stays mounted apart: {error}", point.display());
        }
    }
    Ok(())
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

/// Whether nothing that is unmounted here is unmounted elsewhere.
fn mount_privately() -> io::Result<bool> {
    // SAFETY: a new mount namespace (and, implied, an own working directory) for this thread alone, which ends soon; no other thread relies on this
    // thread's namespaces.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    // What is mounted below must not reach the host's namespace. In a chroot the root is no mount point; then it is enough to set apart what tracefs is mounted on.
    let apart = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    let is_apart = match mount_change("/", apart) {
        Err(Errno::INVAL) => {
            mount_change("/sys", apart)?;
            false
        }
        other => other.map(|()| true)?,
    };
    mount(
        "none",
        PLACES[0],
        "tracefs",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY,
        None,
    )?;
    Ok(is_apart)
}
