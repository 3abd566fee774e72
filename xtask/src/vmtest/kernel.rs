//! The kernels that are booted: Debian's, as they come out of their packages.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::tools::Tools;
use crate::{apt::Archive, architecture::Architecture, step::Step};

/// One line of kernels, of which the newest is taken.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) architecture: Architecture,
    /// The suite it is in.
    pub(super) suite: &'static str,
    /// Sensors that cannot run in it.
    pub(super) without: &'static [&'static str],
}

/// Oldest first, for each architecture. The oldest is the oldest that drift supports.
pub(super) const KERNELS: [Series; 6] = [
    Series {
        name: "5.10",
        architecture: Architecture::Amd64,
        suite: "bullseye",
        without: &[],
    },
    Series {
        name: "6.1",
        architecture: Architecture::Amd64,
        suite: "bookworm",
        without: &[],
    },
    Series {
        name: "6.12",
        architecture: Architecture::Amd64,
        suite: "bookworm-backports",
        without: &[],
    },
    Series {
        name: "7.3",
        architecture: Architecture::Amd64,
        suite: "trixie-backports",
        without: &[],
    },
    Series {
        name: "6.1-arm64",
        architecture: Architecture::Arm64,
        suite: "bookworm",
        // There are no trampolines for arm64 before 6.4.
        without: &["btf"],
    },
    Series {
        name: "6.12-arm64",
        architecture: Architecture::Arm64,
        suite: "bookworm-backports",
        without: &[],
    },
];

/// For the command line.
pub(super) fn names() -> [&'static str; KERNELS.len()] {
    KERNELS.each_ref().map(|series| series.name)
}

/// What the guests need, and what that needs in turn is found out. A module, or a part of the kernel.
const MODULES: [&str; 6] = ["overlay", "loop", "ext4", "xfs", "btrfs", "fuse"];
/// What some of them ask for by the name of an algorithm. Newer kernels have it built in.
const ALGORITHMS: [&str; 3] = ["crc32c_generic", "xxhash_generic", "blake2b_generic"];
/// The modules that are kept, in the order they must be loaded in.
const ORDER: &str = "modules";
/// What was asked for when a kernel was kept: one that lacks what is asked for now is fetched again.
const WANTED: &str = "wanted";
/// A kernel that is kept.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) name: &'static str,
    pub(super) architecture: Architecture,
    pub(super) package: String,
    pub(super) image: PathBuf,
    pub(super) modules: Vec<PathBuf>,
}

impl Series {
    /// As the kernel's own people number it.
    fn version(&self) -> &'static str {
        self.name.split('-').next().unwrap_or(self.name)
    }

    /// Debian's flavour for virtual machines: the smallest.
    fn flavour(&self) -> String {
        format!("-cloud-{}", self.architecture.name())
    }
}

impl Kernel {
    /// The kept one, fetched first if there is none. `Err(reason)`: it is not to be had.
    pub(super) fn ensure(
        series: &'static Series,
        archive: &Archive,
        tools: &Tools,
    ) -> Result<Result<Kernel, String>> {
        let kept = archive.place(&format!("kernel-{}", series.name));
        if !fs::read_to_string(kept.join(WANTED)).is_ok_and(|kept| kept == wanted()) {
            let Some(package) = newest(series, archive)? else {
                return Ok(Err(format!(
                    "{} has no kernel {}",
                    series.suite,
                    series.version()
                )));
            };
            fetch(&package, archive, tools, &kept)?;
        }
        let read = || format!("reading {}", kept.display());
        let order = fs::read_to_string(kept.join(ORDER)).with_context(read)?;
        let modules = order.lines().map(|name| kept.join(name)).collect();
        Ok(Ok(Kernel {
            name: series.name,
            architecture: series.architecture,
            package: fs::read_to_string(kept.join("package")).with_context(read)?,
            image: kept.join("vmlinuz"),
            modules,
        }))
    }
}

fn wanted() -> String {
    let mut all: Vec<&str> = ALGORITHMS.to_vec();
    all.extend(MODULES);
    all.join(" ")
}

/// The newest package of a line that is really there.
fn newest(series: &Series, archive: &Archive) -> Result<Option<String>> {
    let mut names = archive.names(&format!("linux-image-{}.", series.version()))?;
    let flavour = series.flavour();
    names.retain(|name| name.ends_with(&flavour));
    names.sort_by_key(|name| std::cmp::Reverse(numbers(name)));
    Ok(names.into_iter().find(|name| archive.has(name)))
}

/// The numbers in a name, to compare versions by.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

/// Unpacks the image and the modules aside and keeps what is needed: it is there whole or not at all.
fn fetch(package: &str, archive: &Archive, tools: &Tools, kept: &Path) -> Result<()> {
    let folder = kept.parent().context("kernels are kept in no folder")?;
    let scratch = tempfile::Builder::new()
        .prefix(".kernel-")
        .tempdir_in(folder)
        .with_context(|| format!("making a folder in {}", folder.display()))?;
    let (unpacked, keep) = (scratch.path().join("unpacked"), scratch.path().join("keep"));
    for folder in [&unpacked, &keep] {
        fs::create_dir(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    // Since 7.2 Debian's image package only asks for those with the image and the modules.
    let version = package.trim_start_matches("linux-image-");
    let parts = ["binary", "modules"].map(|part| format!("linux-{part}-{version}"));
    if archive.has(&parts[0]) {
        archive.unpack(&[&parts[0], &parts[1]], &unpacked)?;
    } else {
        archive.unpack(&[package], &unpacked)?;
    }
    let mut files = Vec::new();
    walk(&unpacked, &mut files)?;
    let image = files
        .iter()
        .find(|file| name_of(file).starts_with("vmlinuz"))
        .with_context(|| format!("{package} has no vmlinuz"))?;
    copy(image, &keep.join("vmlinuz"))?;
    // It is told by its name what it is to do, and the links to it in its package lead to places of a machine on which it is installed.
    let modinfo = scratch.path().join("modinfo");
    let kmod = tools.program("kmod").context("there is no kmod")?;
    std::os::unix::fs::symlink(kmod, &modinfo).context("giving kmod another name")?;
    let mut modules = Modules {
        files: &files,
        modinfo: &modinfo,
        libraries: tools.libraries(),
        found: Vec::new(),
    };
    for module in ALGORITHMS.into_iter().chain(MODULES) {
        // What no file is there for is a part of the kernel; were it not, the tests that need it would say so.
        modules.add(module)?;
    }
    let mut order = String::new();
    for module in &modules.found {
        let name = name_of(module);
        copy(module, &keep.join(&name))?;
        order.push_str(&name);
        order.push('\n');
    }
    fs::write(keep.join(ORDER), order).context("noting the order of the modules")?;
    fs::write(keep.join("package"), package).context("noting the package's name")?;
    fs::write(keep.join(WANTED), wanted()).context("noting what was asked for")?;
    match fs::remove_dir_all(kept) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing {}", kept.display()));
        }
        _ => {}
    }
    fs::rename(&keep, kept).with_context(|| format!("keeping it as {}", kept.display()))
}

/// Modules of one package, each behind those that it needs.
struct Modules<'a> {
    files: &'a [PathBuf],
    modinfo: &'a Path,
    libraries: String,
    found: Vec<PathBuf>,
}

impl Modules<'_> {
    /// Adds a module and what it needs; false where the package has none of that name.
    fn add(&mut self, name: &str) -> Result<bool> {
        let plain = |name: &str| name.replace('-', "_");
        let Some(file) = self.files.iter().find(|file| {
            name_of(file)
                .split_once(".ko")
                .is_some_and(|(found, _)| plain(found) == plain(name))
        }) else {
            return Ok(false);
        };
        if self.found.contains(file) {
            return Ok(true);
        }
        let needs = Step::new("ask what a module needs", self.modinfo)
            .args(["-F", "depends"])
            .arg(file)
            .env("LD_LIBRARY_PATH", &self.libraries)
            .read()?;
        for need in needs.trim().split(',').filter(|need| !need.is_empty()) {
            anyhow::ensure!(self.add(need)?, "{name} needs {need}, which is not there");
        }
        self.found.push(file.clone());
        Ok(true)
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_named_after_its_version_and_another_architecture() {
        for series in &KERNELS {
            let named = match series.architecture {
                Architecture::Amd64 => series.version().to_owned(),
                Architecture::Arm64 => format!("{}-arm64", series.version()),
            };
            assert_eq!(series.name, named);
        }
        assert_eq!(KERNELS[0].flavour(), "-cloud-amd64");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let mut names = [
            "linux-image-6.12.9+deb12-cloud-amd64",
            "linux-image-6.12.90+deb12.1-cloud-amd64",
            "linux-image-6.12.90+deb12-cloud-amd64",
        ];
        names.sort_by_key(|name| numbers(name));
        assert_eq!(names[0], "linux-image-6.12.9+deb12-cloud-amd64");
    }
}
