//! File systems on which tests are played, each a mount of the test's own.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::{agent::tool, scene::Scene};

/// Takes away all that is mounted in a scene: what the stages mounted, and what the mutations did.
#[derive(Debug)]
pub struct Mounts(PathBuf);

impl Mounts {
    #[must_use]
    pub fn of(scene: &Scene) -> Mounts {
        Mounts(scene.root().to_owned())
    }

    /// What is mounted there now, the last first.
    fn all(&self) -> std::io::Result<Vec<PathBuf>> {
        let table = fs::read_to_string("/proc/self/mountinfo")?;
        let places = table.lines().filter_map(|line| line.split(' ').nth(4));
        let mut places: Vec<PathBuf> = places
            .map(PathBuf::from)
            .filter(|place| place.starts_with(&self.0))
            .collect();
        places.reverse();
        Ok(places)
    }

    /// Takes them away.
    ///
    /// # Errors
    /// One of them stays.
    pub fn clear(&self) -> Result<()> {
        for place in self.all()? {
            unmount(&place, UnmountFlags::DETACH).with_context(|| place.display().to_string())?;
        }
        let left = self.all()?;
        ensure!(left.is_empty(), "still mounted: {left:?}");
        Ok(())
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        // The test has failed already, or has cleared them itself.
        let _told_by_what_is_left = self.clear();
    }
}

/// One file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
    /// Everything is laid out in the lower layer: each change is a copy-up.
    Overlay,
}

impl Kind {
    pub const ALL: [Kind; 5] = [
        Kind::Ext4,
        Kind::Xfs,
        Kind::Btrfs,
        Kind::Tmpfs,
        Kind::Overlay,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
            Kind::Btrfs => "btrfs",
            Kind::Tmpfs => "tmpfs",
            Kind::Overlay => "overlay",
        }
    }

    /// What keeps it from being mounted here.
    #[must_use]
    pub fn lacks(self) -> Option<String> {
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !known
            .lines()
            .any(|line| line.trim_start_matches("nodev").trim() == self.name())
        {
            return Some(format!("this kernel has no {}", self.name()));
        }
        let (program, _) = self.maker()?;
        let there = Command::new(program).arg("-V").output().is_ok();
        (!there).then(|| format!("not installed: {program}"))
    }

    const fn maker(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Kind::Ext4 => Some(("mkfs.ext4", &["-q", "-F"])),
            Kind::Xfs => Some(("mkfs.xfs", &["-q"])),
            Kind::Btrfs => Some(("mkfs.btrfs", &["-q"])),
            // An overlay's layers are on one of its own.
            Kind::Overlay => Kind::Ext4.maker(),
            Kind::Tmpfs => None,
        }
    }

    /// Makes it in a folder, and fills it with what `lay_out` puts into the place it is given. Gives where that is seen then.
    ///
    /// # Errors
    /// It cannot be made or mounted.
    pub fn mount(
        self,
        folder: &Path,
        lay_out: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let tree = folder.join("tree");
        fs::create_dir_all(&tree)?;
        let text = |path: &Path| path.display().to_string();
        match self {
            Kind::Ext4 | Kind::Xfs | Kind::Btrfs => {
                self.mount_image(folder, &tree)?;
                lay_out(&tree)?;
            }
            Kind::Tmpfs => {
                mount("none", &tree, "tmpfs", MountFlags::empty(), None)?;
                lay_out(&tree)?;
            }
            Kind::Overlay => {
                // Layers on a file system of their own: the machine's root may be an overlay itself, and those do not stack for ever.
                let layers = folder.join("layers");
                fs::create_dir(&layers)?;
                Kind::Ext4.mount_image(folder, &layers)?;
                for layer in ["lower", "upper", "work"] {
                    fs::create_dir(layers.join(layer))?;
                }
                lay_out(&layers.join("lower"))?;
                // Directories of the lower layer can be renamed then, as the mutations do.
                let options = format!(
                    "redirect_dir=on,lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work",
                    text(&layers)
                );
                tool(
                    "mount",
                    &["-t", "overlay", "overlay", "-o", &options, &text(&tree)],
                )?;
            }
        }
        Ok(tree)
    }

    /// Makes an image beside the place and mounts it there.
    fn mount_image(self, folder: &Path, place: &Path) -> Result<()> {
        let text = |path: &Path| path.display().to_string();
        let image = folder.join("image");
        File::create(&image)?.set_len(512 << 20)?;
        let (program, arguments) = self.maker().context("no maker")?;
        let mut arguments: Vec<String> = arguments
            .iter()
            .map(|argument| (*argument).into())
            .collect();
        arguments.push(text(&image));
        // What it has to say is of interest only when it fails.
        let made = Command::new(program).args(&arguments).output()?;
        let said = String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "{program}: {said}");
        tool("mount", &["-o", "loop", &text(&image), &text(place)])?;
        Ok(())
    }
}
