//! The host's directories as a pod has them: mounted one by one beneath a directory of the pod's own (`--host-root /host`).
//!
//! What lies between the mounts is the container's. A declared path there is not the host's: it is never read, compared or written to, and which
//! directory of the host has to be mounted is said.

use std::{
    ffi::OsStr,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use drift_common::escape;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};

/// Every container of a pod has it.
const POD: &str = "KUBERNETES_SERVICE_HOST";

/// A root that is a directory of this container, and holds nothing of the host but what is mounted beneath it.
#[derive(Debug)]
pub(super) struct Frame {
    root: PathBuf,
    own: Mounted,
}

/// What something is, and which mount it is in.
#[derive(Clone, Copy, Debug)]
struct Mounted {
    /// Linux 5.8 or newer says it.
    id: Option<u64>,
    dev: (u32, u32),
    ino: u64,
}

impl Frame {
    /// `None`: the root is a file tree of the host (`/` of one, `/proc/1/root`, the host's root directory mounted somewhere).
    pub(super) fn of(root: &Path, opened: impl AsFd) -> Option<Frame> {
        let above = openat(&opened, "..", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let (own, above) = (Mounted::of(opened)?, Mounted::of(above)?);
        // What is mounted there by itself is the host's, and nothing is above a root directory.
        let is_own = own.is_same(&above) && own.ino != above.ino;
        (is_own && (is_a_pod() || is_a_container())).then(|| Frame {
            root: root.to_owned(),
            own,
        })
    }

    /// Whether this is the container's own.
    pub(super) fn has(&self, opened: impl AsFd) -> bool {
        // What cannot be told is not the host's.
        Mounted::of(opened).is_none_or(|mounted| mounted.is_same(&self.own))
    }

    /// Which mount is missing for what is in a directory of the host.
    pub(super) fn told(&self, directory: &Path) -> String {
        let beneath = directory.strip_prefix("/").unwrap_or(directory);
        format!(
            "it is not on a mounted directory of the host: mount the host's {} (or a directory above it) at {} in this pod",
            escape::path(directory),
            escape::path(&self.root.join(beneath))
        )
    }
}

impl Mounted {
    fn of(opened: impl AsFd) -> Option<Mounted> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
        let statx = statx(
            opened,
            OsStr::new(""),
            flags,
            StatxFlags::MNT_ID | StatxFlags::INO,
        )
        .ok()?;
        let says = statx.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        Some(Mounted {
            id: says.then_some(statx.stx_mnt_id),
            dev: (statx.stx_dev_major, statx.stx_dev_minor),
            ino: statx.stx_ino,
        })
    }

    fn is_same(&self, other: &Mounted) -> bool {
        match (self.id, other.id) {
            (Some(one), Some(other)) => one == other,
            _ => self.dev == other.dev,
        }
    }
}

/// Why `root` cannot be the host's: a pod that sees the host's processes, and not its files.
pub(super) fn refused(root: &Path) -> Option<&'static str> {
    let is_own = root == Path::new("/") && is_a_pod() && is_a_container();
    is_own.then_some(
        "this is a pod's own root directory, and not the host's: name the folder beneath which the host's directories are mounted, or /proc/1/root",
    )
}

fn is_a_pod() -> bool {
    std::env::var_os(POD).is_some()
}

/// Whether the first process has another root directory. In a process name space of one's own it has the same.
fn is_a_container() -> bool {
    let root = |path| std::fs::metadata(path).map(|root| (root.dev(), root.ino()));
    matches!((root("/"), root("/proc/1/root/")), (Ok(own), Ok(first)) if own != first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_mount_is_named_as_the_host_and_as_the_pod_has_it() {
        let frame = Frame {
            root: "/host".into(),
            own: Mounted {
                id: Some(1),
                dev: (0, 1),
                ino: 1,
            },
        };
        let told = frame.told(Path::new("/etc/app"));
        assert!(told.contains("the host's /etc/app "), "{told}");
        assert!(told.contains(" at /host/etc/app "), "{told}");
    }

    #[test]
    fn mounts_are_told_apart_by_their_numbers_and_by_their_devices_where_there_are_none() {
        let mounted = |id, dev| Mounted { id, dev, ino: 1 };
        assert!(mounted(Some(1), (0, 1)).is_same(&mounted(Some(1), (0, 1))));
        assert!(!mounted(Some(1), (0, 1)).is_same(&mounted(Some(2), (0, 1))));
        assert!(mounted(None, (0, 1)).is_same(&mounted(Some(2), (0, 1))));
        assert!(!mounted(None, (0, 1)).is_same(&mounted(None, (0, 2))));
    }

    #[test]
    fn the_root_of_a_machine_is_no_frame() {
        let root = std::fs::File::open("/").unwrap();
        assert!(Frame::of(Path::new("/"), &root).is_none());
    }
}
