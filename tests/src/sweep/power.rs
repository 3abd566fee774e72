//! A file system whose power can be cut: what was not on the disk is lost then, as it is when a machine goes dark.
//!
//! `FS_IOC_SHUTDOWN` without a flush of the log, as `xfs_io` asks for it, on a loop device: ext4 and xfs know it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{Ended, Ground};
use crate::{skip::skip, wait};

/// A file system that can be cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ext4,
    Xfs,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Ext4, Kind::Xfs];

    const fn maker(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Kind::Ext4 => ("mkfs.ext4", &["-q", "-F"]),
            Kind::Xfs => ("mkfs.xfs", &["-q"]),
        }
    }
}

/// Whether power can be cut here; where not, the test is skipped with the reason.
#[must_use]
pub fn has_power(test: &str) -> bool {
    let lacks = if rustix::process::geteuid().is_root() {
        ["xfs_io", "mkfs.ext4", "mkfs.xfs"]
            .into_iter()
            .find(|program| Command::new(program).arg("-V").output().is_err())
            .map(|program| format!("not installed: {program}"))
    } else {
        Some("mounting needs root".to_owned())
    };
    if let Some(reason) = &lacks {
        skip(test, reason);
    }
    lacks.is_none()
}

/// One of its own, mounted; gone with its value.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    place: PathBuf,
}

impl Disk {
    /// In a folder, which it needs for itself.
    ///
    /// # Errors
    /// It cannot be made or mounted.
    pub fn new(kind: Kind, folder: &Path) -> Result<Disk> {
        let disk = Disk {
            image: folder.join("image"),
            place: folder.join("place"),
        };
        fs::create_dir_all(&disk.place)?;
        File::create(&disk.image)?.set_len(320 << 20)?;
        let (program, arguments) = kind.maker();
        run(Command::new(program).args(arguments).arg(&disk.image))?;
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is mounted.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    fn mount(&self) -> Result<()> {
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(&self.image)
            .arg(&self.place))
    }

    /// All that was written is on it.
    ///
    /// # Errors
    /// The file system's.
    pub fn sync(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.place)?)?)
    }

    /// Cuts its power.
    ///
    /// # Errors
    /// It cannot be cut.
    pub fn cut(&self) -> Result<()> {
        run(Command::new("xfs_io")
            .args(["-x", "-c", "shutdown"])
            .arg(&self.place))
    }

    /// The machine starts again. Nobody uses it any more.
    ///
    /// # Errors
    /// It cannot be mounted.
    pub fn start_again(&self) -> Result<()> {
        // The kernel may hold on to it for a moment after the last program has ended.
        wait::until(Duration::from_secs(20), || {
            run(Command::new("umount").arg(&self.place))
        })?;
        self.mount()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let gone = wait::until(Duration::from_secs(20), || {
            run(Command::new("umount").arg(&self.place))
        });
        if let Err(error) = gone {
            eprintln!("{} stays mounted: {error:#}", self.place.display());
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(())
}

impl Ground {
    /// Begins the operation.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self) -> Result<Child> {
        let mut command = self.command();
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().with_context(|| format!("{command:?}"))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn end(child: Child) -> Result<Ended> {
        let output = child.wait_with_output()?;
        Ok(Ended { output })
    }
}

/// The control: the path gets `text` by a program that leaves out the sync of the directory. It ends well.
///
/// # Errors
/// It does not.
pub fn without_sync(path: &Path, text: &str) -> Result<()> {
    run(Command::new(super::operation::worker())
        .arg("heal-without-sync")
        .arg(path)
        .arg(text))
}
