//! QEMU, and what of the guests' programs this machine may lack: unpacked, not installed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::archive::Archive;
use crate::{machine, step::Step};

/// Bookworm's own QEMU (7.2) crashes kernels newer than 6.1 without KVM, so it comes from backports.
const PACKAGES: [&str; 2] = ["qemu-system-x86", "kmod"];

#[derive(Debug)]
pub(super) struct Tools {
    root: PathBuf,
}

impl Tools {
    /// The kept ones, fetched first if there are none.
    pub(super) fn ensure(archive: &Archive) -> Result<Tools> {
        let tools = Tools {
            root: archive.place("tools"),
        };
        if !machine::is_executable(&tools.qemu()) {
            tools.fetch(archive)?;
        }
        Ok(tools)
    }

    fn fetch(&self, archive: &Archive) -> Result<()> {
        let folder = self.root.parent().context("tools are kept in no folder")?;
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let scratch = tempfile::Builder::new()
            .prefix(".tools-")
            .tempdir_in(folder)
            .with_context(|| format!("making a folder in {}", folder.display()))?;
        let made = Tools {
            root: scratch.path().join("root"),
        };
        fs::create_dir(&made.root).with_context(|| format!("making {}", made.root.display()))?;
        archive.unpack_with_needs(&PACKAGES, &archive.backports(), &made.root)?;
        Step::new("ask QEMU for its version", made.qemu())
            .arg("--version")
            .env("LD_LIBRARY_PATH", made.libraries())
            .read()?;
        fs::rename(&made.root, &self.root)
            .with_context(|| format!("keeping them as {}", self.root.display()))
    }

    pub(super) fn qemu(&self) -> PathBuf {
        self.root.join("usr/bin/qemu-system-x86_64")
    }

    /// Firmware.
    pub(super) fn firmware(&self) -> [PathBuf; 2] {
        ["usr/share/qemu", "usr/share/seabios"].map(|place| self.root.join(place))
    }

    /// Where its programs find their libraries, before the machine's own.
    pub(super) fn libraries(&self) -> String {
        ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"]
            .map(|place| self.root.join(place).display().to_string())
            .join(":")
    }

    /// A program: this machine's, else the unpacked one.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let unpacked = ["usr/bin", "bin", "usr/sbin", "sbin"]
            .iter()
            .map(|place| self.root.join(place).join(name));
        machine::which(name).or_else(|| unpacked.into_iter().find(|path| Path::exists(path)))
    }
}
