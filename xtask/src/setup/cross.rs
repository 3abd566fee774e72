//! What building for arm64 on a machine of another architecture needs: a standard library for it, and a C compiler, which links too.
//!
//! Two ways again: rustup's target where it is installed, else the distribution's compiler with the standard library out of its package for arm64, which is
//! unpacked into the tools' folder and not installed. It must be of exactly the compiler's version.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Way, system};
use crate::{apt, architecture::Architecture, machine, step::Step, workspace::Workspace};

const ARCHITECTURE: Architecture = Architecture::Arm64;
/// The C compiler for it, and what static programs are linked with.
const PACKAGES: [&str; 2] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"];

/// Compiler, standard library and linker for arm64.
#[derive(Debug)]
pub(crate) struct Cross {
    way: Way,
    /// In which the compiler finds the standard library, where that is not its own.
    sysroot: Option<PathBuf>,
}

impl Cross {
    /// A Cargo that builds for arm64; the caller names the package, and passes [`Cross::rustflags`] on.
    pub(crate) fn cargo(&self, name: &str) -> Step {
        super::bare(self.way.cargo(name))
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", tool("gcc"))
    }

    /// Only what is built for arm64 gets them.
    pub(crate) fn rustflags(&self) -> String {
        self.sysroot.as_ref().map_or_else(String::new, |sysroot| {
            format!("--sysroot={}", sysroot.display())
        })
    }
}

/// One of GNU's programs for files of arm64: `gcc`, `strip`, `readelf`.
pub(crate) fn tool(name: &str) -> String {
    if Architecture::here() == ARCHITECTURE {
        name.to_owned()
    } else {
        format!("{}-{name}", ARCHITECTURE.gnu())
    }
}

/// What is there, after installing what was missing where that is possible.
pub(crate) fn ensure(workspace: &Workspace) -> Result<Cross> {
    ensure!(
        Architecture::here() != ARCHITECTURE,
        "this machine is arm64 itself: there is nothing to build across"
    );
    c_compiler()?;
    if has_rustups_target() {
        return Ok(Cross {
            way: Way::Rustup,
            sysroot: None,
        });
    }
    let sysroot = debians(workspace).with_context(|| {
        format!(
            "building for arm64 needs the standard library of that target. With rustup: rustup target add {}; else, on Debian: cargo xtask setup, \
             then this command again",
            ARCHITECTURE.target()
        )
    })?;
    Ok(Cross {
        way: system::way(),
        sysroot: Some(sysroot),
    })
}

/// Found, or installed as root on Debian.
fn c_compiler() -> Result<()> {
    let gcc = tool("gcc");
    // The C library is asked for by its place: the linker would name it at the very end of a build.
    let library = |name: &str| {
        Step::new("ask the C compiler for its libraries", &gcc)
            .arg(format!("-print-file-name={name}"))
            .read()
            .is_ok_and(|said| Path::new(said.trim()).is_absolute())
    };
    let is_there = || machine::which(&gcc).is_some() && library("libc.a");
    if is_there() {
        return Ok(());
    }
    if apt::may_install() {
        apt::install(&PACKAGES)?;
    }
    if !is_there() {
        bail!(
            "building for arm64 needs {gcc} and a C library for static programs (libc.a). {}",
            if apt::is_here() {
                format!("Type: sudo apt-get install {}", PACKAGES.join(" "))
            } else {
                "Install your distribution's packages with both, then run this again.".to_owned()
            }
        );
    }
    Ok(())
}

/// Whether the compiler that runs this xtask has the target's standard library. Looking installs nothing.
fn has_rustups_target() -> bool {
    Step::new("ask rustc where a target's libraries are", "rustc")
        .args([
            "--print",
            "target-libdir",
            "--target",
            ARCHITECTURE.target(),
        ])
        .env("RUSTUP_AUTO_INSTALL", "0")
        .read()
        .is_ok_and(|said| has_standard_library(Path::new(said.trim())))
}

fn has_standard_library(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("libstd-") && name.ends_with(".rlib")
        })
    })
}

/// A folder that the distribution's compiler takes for its sysroot: kept by version, fetched first if there is none.
fn debians(workspace: &Workspace) -> Result<PathBuf> {
    let rustc = match system::compiler(workspace) {
        Ok(rustc) => rustc,
        Err(what) if apt::may_install() => {
            eprintln!("The system's Rust cannot build for arm64 yet: {what}");
            system::install(workspace)?;
            system::compiler(workspace).map_err(anyhow::Error::msg)?
        }
        Err(what) => bail!(what),
    };
    let libraries =
        |architecture: Architecture| Path::new("lib/rustlib").join(architecture.target());
    let (package, version) = owner(&rustc.sysroot.join(libraries(Architecture::here())))?;
    let tools = workspace.tools();
    let kept = tools.join(format!("rust-std-{}-{version}", ARCHITECTURE.name()));
    if has_standard_library(&kept.join(libraries(ARCHITECTURE)).join("lib")) {
        return Ok(kept);
    }
    fs::create_dir_all(&tools).with_context(|| format!("making {}", tools.display()))?;
    let archive = apt::Archive::find(&tools, ARCHITECTURE, &[])
        .map_err(anyhow::Error::msg)
        .context("packages for arm64 cannot be fetched")?;
    let scratch = tempfile::Builder::new()
        .prefix(".rust-std-")
        .tempdir_in(&tools)
        .with_context(|| format!("making a folder in {}", tools.display()))?;
    archive.unpack(&[&format!("{package}={version}")], scratch.path())?;
    let unpacked = scratch.path().join("usr");
    ensure!(
        has_standard_library(&unpacked.join(libraries(ARCHITECTURE)).join("lib")),
        "{package} {version} for arm64 has no standard library in {}",
        libraries(ARCHITECTURE).display()
    );
    fs::rename(&unpacked, &kept).with_context(|| format!("keeping it as {}", kept.display()))?;
    Ok(kept)
}

/// The package that a file of this machine belongs to, and its version.
fn owner(file: &Path) -> Result<(String, String)> {
    let said = Step::new("ask dpkg whose a file is", "dpkg-query")
        .arg("--search")
        .arg(file)
        .read()?;
    let package = owner_in(&said)
        .with_context(|| format!("dpkg names no package for {}: {said}", file.display()))?;
    let version = Step::new("ask dpkg for a version", "dpkg-query")
        .args(["-W", "-f", "${Version}", package])
        .read()?;
    let package = package.split(':').next().unwrap_or(package);
    Ok((package.to_owned(), version.trim().to_owned()))
}

/// From lines `libstd-rust-web-dev:amd64, another: /usr/lib/x`: the one with the files of a developer.
fn owner_in(said: &str) -> Option<&str> {
    said.lines()
        .filter_map(|line| line.rsplit_once(": "))
        .flat_map(|(packages, _)| packages.split(", "))
        .find(|package| {
            package
                .split(':')
                .next()
                .is_some_and(|name| name.ends_with("-dev"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_with_the_standard_library_is_read_from_dpkgs_answer() {
        let said = "libstd-rust-web-1.96:amd64, libstd-rust-web-dev:amd64: /usr/lib/rustlib/x\n";
        assert_eq!(owner_in(said), Some("libstd-rust-web-dev:amd64"));
        assert_eq!(owner_in("diversion by x from: /usr/lib/y\n"), None);
        assert_eq!(owner_in(""), None);
    }

    #[test]
    fn a_folder_has_a_standard_library_when_it_can_be_linked_with() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_standard_library(folder.path()));
        fs::write(folder.path().join("libstd-1a.so"), "").unwrap();
        assert!(!has_standard_library(folder.path()), "a shared one");
        fs::write(folder.path().join("libstd-1a.rlib"), "").unwrap();
        assert!(has_standard_library(folder.path()));
        assert!(!has_standard_library(Path::new("/nowhere/at-all")));
    }
}
