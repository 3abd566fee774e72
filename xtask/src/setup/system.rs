//! The way of distributions: their own compiler with its sources, told to accept unstable options.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use super::{Lacks, Toolchain, Way, linker, rustc::Rustc};
use crate::{
    apt,
    step::Step,
    workspace::{self, Workspace},
};

/// Debian keeps these up to date within a release, for its browsers. Plain `rustc` stays as old as the release.
const PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";

pub(super) fn find(workspace: &Workspace) -> Result<Toolchain, Lacks> {
    let rustc = compiler(workspace).map_err(|what| Lacks {
        what,
        remedy: commands(None),
    })?;
    match linker::find(&workspace.tools(), rustc.llvm) {
        Ok(linker) => Ok(toolchain(&rustc, linker)),
        Err(what) => Err(Lacks {
            what: format!("{} and its sources are there, but {what}", rustc.version),
            remedy: commands(Some((workspace, rustc.llvm))),
        }),
    }
}

fn toolchain(rustc: &Rustc, linker: PathBuf) -> Toolchain {
    Toolchain {
        way: way(),
        version: rustc.version.clone(),
        linker,
    }
}

pub(super) fn way() -> Way {
    Way::System {
        rustc: RUSTC.into(),
        cargo: CARGO.into(),
    }
}

/// The system's compiler, if it is new enough, with its Cargo and its sources; else what is wrong with it.
pub(super) fn compiler(workspace: &Workspace) -> Result<Rustc, String> {
    if !Path::new(RUSTC).exists() || !Path::new(CARGO).exists() {
        return Err(format!("{RUSTC} or {CARGO} is not there"));
    }
    let rustc = Rustc::ask(|| Step::new("ask the system's Rust", RUSTC))
        .map_err(|error| format!("{error:#}"))?;
    let (major, minor) = workspace.rust;
    if rustc.release < workspace.rust {
        return Err(format!(
            "it is {}, drift needs {major}.{minor}",
            rustc.version
        ));
    }
    if !rustc.has_core_sources() {
        return Err(format!(
            "{} is there, but not its sources ({})",
            rustc.version,
            rustc.core_sources().display()
        ));
    }
    Ok(rustc)
}

/// What to type, as far as it can be known before the compiler is there.
fn commands(linker: Option<(&Workspace, u32)>) -> Vec<String> {
    let sudo = if crate::machine::is_root() {
        ""
    } else {
        "sudo "
    };
    match linker {
        _ if !apt::is_here() => vec![
            "install your distribution's Rust, its sources (rust-src) and bpf-linker, then: cargo xtask setup"
                .to_owned(),
        ],
        None => vec![
            format!("{sudo}apt-get update"),
            format!("{sudo}apt-get install {}", PACKAGES.join(" ")),
            "cargo xtask setup".to_owned(),
        ],
        Some((workspace, llvm)) => vec![
            format!("{sudo}apt-get install {}", linker::packages(llvm).join(" ")),
            match linker::install_step(&workspace.tools(), llvm) {
                Ok(step) => step.rendered(),
                Err(what) => what,
            },
        ],
    }
}

/// As root on Debian.
pub(super) fn install(workspace: &Workspace) -> Result<Toolchain> {
    if compiler(workspace).is_err() {
        let candidate = || {
            apt::candidate(PACKAGES[0]).filter(|version| {
                workspace::release(version).is_some_and(|release| release >= workspace.rust)
            })
        };
        if candidate().is_none() {
            apt::update(); // a list that was never fetched, or is older than the security updates
        }
        if candidate().is_none() {
            bail!(
                "this release of the distribution has no {} of at least {}.{} ({})",
                PACKAGES[0],
                workspace.rust.0,
                workspace.rust.1,
                apt::candidate(PACKAGES[0]).map_or_else(
                    || "none at all".to_owned(),
                    |version| format!("it has {version}")
                )
            );
        }
        apt::install(&PACKAGES)?;
    }
    let rustc = compiler(workspace).map_err(|what| anyhow!(what))?;
    let linker = match linker::find(&workspace.tools(), rustc.llvm) {
        Ok(linker) => linker,
        Err(_) => {
            let step = linker::install_step(&workspace.tools(), rustc.llvm)
                .map_err(|what| anyhow!(what))?;
            let packages = linker::packages(rustc.llvm);
            apt::install(&packages.each_ref().map(String::as_str))?;
            step.run()?;
            linker::find(&workspace.tools(), rustc.llvm).map_err(|what| anyhow!(what))?
        }
    };
    Ok(toolchain(&rustc, linker))
}
