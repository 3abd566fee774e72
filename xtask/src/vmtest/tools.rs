//! QEMU, and what of the guests' programs this machine may lack: unpacked, not installed.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{apt::Archive, architecture::Architecture, machine, setup::cross::tool, step::Step};

#[derive(Debug)]
pub(super) struct Tools {
    /// What the guests are.
    architecture: Architecture,
    /// QEMU and what it needs, for this machine.
    root: PathBuf,
    /// Programs and libraries of guests that cannot have this machine's.
    foreign: Option<PathBuf>,
}

/// Bookworm's own QEMU (7.2) crashes kernels newer than 6.1 without KVM, so it comes from backports.
fn packages(architecture: Architecture) -> [&'static str; 2] {
    match architecture {
        Architecture::Amd64 => ["qemu-system-x86", "kmod"],
        Architecture::Arm64 => ["qemu-system-arm", "kmod"],
    }
}

/// In which the programs of a guest are that cannot have this machine's.
const FOREIGN: [&str; 10] = [
    "btrfs-progs",
    "coreutils",
    "dash",
    "e2fsprogs",
    "grep",
    "kmod",
    "mount",
    "sed",
    "util-linux",
    "xfsprogs",
];

impl Tools {
    /// The kept ones, fetched first if there are none; `foreign` is the archive of the guests' architecture, where that is not this machine's.
    pub(super) fn ensure(
        architecture: Architecture,
        archive: &Archive,
        foreign: Option<&Archive>,
    ) -> Result<Tools> {
        let place = |name: &str| match foreign {
            Some(_) => archive.place(&format!("{name}-{}", architecture.name())),
            None => archive.place(name),
        };
        let tools = Tools {
            architecture,
            root: place("tools"),
            foreign: foreign.map(|_| place("programs")),
        };
        if !machine::is_executable(&tools.qemu()) {
            tools.fetch(archive)?;
        }
        if let (Some(folder), Some(foreign)) = (&tools.foreign, foreign)
            && !folder.is_dir()
        {
            kept(folder, |made| {
                foreign.unpack_with_needs(&FOREIGN, &foreign.release(), made)
            })?;
        }
        Ok(tools)
    }

    fn fetch(&self, archive: &Archive) -> Result<()> {
        kept(&self.root, |made| {
            archive.unpack_with_needs(&packages(self.architecture), &archive.backports(), made)?;
            let made = Tools {
                architecture: self.architecture,
                root: made.to_owned(),
                foreign: None,
            };
            Step::new("ask QEMU for its version", made.qemu())
                .arg("--version")
                .env("LD_LIBRARY_PATH", made.libraries())
                .read()
                .map(drop)
        })
    }

    pub(super) fn qemu(&self) -> PathBuf {
        self.root.join(match self.architecture {
            Architecture::Amd64 => "usr/bin/qemu-system-x86_64",
            Architecture::Arm64 => "usr/bin/qemu-system-aarch64",
        })
    }

    /// Firmware.
    pub(super) fn firmware(&self) -> [PathBuf; 2] {
        ["usr/share/qemu", "usr/share/seabios"].map(|place| self.root.join(place))
    }

    /// Where its programs find their libraries, before the machine's own.
    pub(super) fn libraries(&self) -> String {
        library_folders(&self.root, Architecture::here())
            .map(|place| place.display().to_string())
            .join(":")
    }

    /// A program of this machine, else the unpacked one.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        machine::which(name).or_else(|| unpacked(&self.root, name))
    }

    /// A program that a guest can run.
    pub(super) fn guest_program(&self, name: &str) -> Option<PathBuf> {
        match &self.foreign {
            Some(folder) => {
                // Which shell is `sh` is decided when packages are installed.
                unpacked(folder, if name == "sh" { "dash" } else { name })
            }
            None => self.program(name),
        }
    }

    /// GNU's `strip` for a guest's programs.
    pub(super) fn strip(&self) -> String {
        match self.architecture {
            architecture if architecture == Architecture::here() => "strip".to_owned(),
            _ => tool("strip"),
        }
    }

    /// The libraries a guest's program needs: the name it asks for (the loader itself: its path), and where it is here.
    pub(super) fn needed(&self, program: &Path) -> Result<BTreeSet<(String, PathBuf)>> {
        let Some(folder) = &self.foreign else {
            let said = Step::new("ask for a program's libraries", "ldd")
                .arg(program)
                .env("LD_LIBRARY_PATH", self.libraries())
                .env("LC_ALL", "C")
                .read()?;
            return libraries_in(&said).with_context(|| format!("{}: {said}", program.display()));
        };
        // No loader of this machine would answer for them.
        let mut found = BTreeSet::new();
        let mut next = vec![program.to_owned()];
        while let Some(program) = next.pop() {
            let said = Step::new("ask for a program's libraries", tool("readelf"))
                .args(["--dynamic", "--program-headers", "--wide"])
                .arg(&program)
                .env("LC_ALL", "C")
                .read()?;
            for name in asked_for(&said) {
                let place = match name.strip_prefix('/') {
                    Some(loader) => Some(folder.join(loader)),
                    None => library_folders(folder, self.architecture)
                        .map(|place| place.join(name))
                        .into_iter()
                        .find(|place| place.exists()),
                };
                let place = place.with_context(|| {
                    format!("{} needs {name}, which is not there", program.display())
                })?;
                if found.insert((name.to_owned(), place.clone())) && !name.starts_with('/') {
                    next.push(place);
                }
            }
        }
        // The loader is asked for by its name, too; it is where it is asked for by its path.
        let loaders: Vec<String> = found
            .iter()
            .filter_map(|(name, _)| Some(name.strip_prefix('/')?.rsplit('/').next()?.to_owned()))
            .collect();
        found.retain(|(name, _)| !loaders.contains(name));
        Ok(found)
    }
}

/// Fills a folder aside, which is then kept: it is there whole or not at all.
fn kept(place: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let folder = place.parent().context("tools are kept in no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let scratch = tempfile::Builder::new()
        .prefix(".tools-")
        .tempdir_in(folder)
        .with_context(|| format!("making a folder in {}", folder.display()))?;
    let made = scratch.path().join("root");
    fs::create_dir(&made).with_context(|| format!("making {}", made.display()))?;
    fill(&made)?;
    fs::rename(&made, place).with_context(|| format!("keeping them as {}", place.display()))
}

fn unpacked(root: &Path, name: &str) -> Option<PathBuf> {
    ["usr/bin", "bin", "usr/sbin", "sbin"]
        .iter()
        .map(|place| root.join(place).join(name))
        .find(|path| path.exists())
}

fn library_folders(root: &Path, architecture: Architecture) -> [PathBuf; 2] {
    ["usr/lib", "lib"].map(|place| root.join(place).join(architecture.gnu()))
}

/// From lines `libc.so.6 => /lib/libc.so.6 (0x…)` and, for the loader, `/lib64/ld-linux.so.2 (0x…)`.
fn libraries_in(said: &str) -> Result<BTreeSet<(String, PathBuf)>> {
    said.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("linux-vdso") && *line != "statically linked")
        .map(|line| {
            let without_address = line.split(" (0x").next().unwrap_or(line);
            match without_address.split_once(" => ") {
                Some((_, "not found")) => anyhow::bail!("a library is missing"),
                Some((name, path)) => Ok((name.to_owned(), path.into())),
                None => Ok((without_address.to_owned(), without_address.into())),
            }
        })
        .collect()
}

/// From readelf's lines `0x1 (NEEDED) Shared library: [libc.so.6]` and `[Requesting program interpreter: /lib/ld.so.1]`.
fn asked_for(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| {
        let (_, rest) = line
            .split_once("Shared library: [")
            .or_else(|| line.split_once("[Requesting program interpreter: "))?;
        rest.split(']').next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_ldds_answer() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found = libraries_in(said).unwrap();
        let expected = [
            ("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
            ("libc.so.6", "/lib/x/libc.so.6"),
        ];
        let expected: BTreeSet<_> = expected
            .into_iter()
            .map(|(name, path)| (name.to_owned(), PathBuf::from(path)))
            .collect();
        assert_eq!(found, expected);
        assert!(libraries_in("\tlibx.so => not found\n").is_err());
        assert!(libraries_in("\tstatically linked\n").unwrap().is_empty());
    }

    #[test]
    fn libraries_are_read_from_readelfs_answer() {
        let said = "  INTERP 0x0238\n      [Requesting program interpreter: /lib/ld-linux-aarch64.so.1]\n\
                    0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]\n\
                    0x000000000000000e (SONAME)  Library soname: [libx.so.1]\n";
        let found: Vec<&str> = asked_for(said).collect();
        assert_eq!(found, ["/lib/ld-linux-aarch64.so.1", "libc.so.6"]);
        assert_eq!(
            asked_for("There is no dynamic section in this file.\n").count(),
            0
        );
    }
}
