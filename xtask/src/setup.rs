//! `cargo xtask setup`: what building the kernel programs needs, found or installed.
//!
//! Kernel programs are built for `bpfel-unknown-none`, for which no toolchain ships a `core`: it is compiled along (`-Z build-std`), which needs
//! the sources of exactly that compiler, unstable options, and a linker whose LLVM is at least the compiler's. Two ways lead there; whichever
//! is complete is taken, rustup's first.

pub(crate) mod cross;
mod linker;
mod rustc;
mod rustup;
mod system;

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};

use crate::{apt, step::Step, workspace::Workspace};

const EXAMPLES: &str = "\
Examples:
  cargo xtask setup            install what is missing (as root on Debian), or say what to type
  cargo xtask setup --check    only say what is there or missing; status 1 when something is missing

The two ways to build kernel programs, the first one preferred:
  rustup   a nightly toolchain with the component rust-src, and bpf-linker (as Aya's users have)
  system   the distribution's Rust with its sources (Debian: rustc-web cargo-web rust-web-src),
           and a bpf-linker for its LLVM";

/// Find or install what building the kernel programs needs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Install nothing: only report.
    #[arg(long)]
    check: bool,
}

/// A complete set of compiler, sources and linker.
#[derive(Debug)]
pub(crate) struct Toolchain {
    way: Way,
    /// As the compiler names itself, for people.
    version: String,
    linker: PathBuf,
}

#[derive(Debug)]
enum Way {
    Rustup,
    /// The distribution's own compiler and Cargo: stable, so told to accept unstable options.
    System {
        rustc: PathBuf,
        cargo: PathBuf,
    },
}

impl Way {
    /// Its Cargo, with its compiler.
    fn cargo(&self, name: &str) -> Step {
        match self {
            Way::Rustup => Step::cargo(name),
            Way::System { rustc, cargo } => {
                let mut step = Step::new(name, cargo);
                step.without_what_cargo_run_set();
                step.env("RUSTC", rustc)
            }
        }
    }
}

/// With nothing of the host toolchain's choices left in its environment.
fn bare(step: Step) -> Step {
    [
        "RUSTUP_TOOLCHAIN",
        "RUSTDOC",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
    ]
    .into_iter()
    .fold(step, Step::env_remove)
}

impl Toolchain {
    /// This toolchain's Cargo, with nothing of the host toolchain left in its environment.
    pub(crate) fn cargo(&self, name: &str) -> Step {
        let step = match &self.way {
            Way::Rustup => self.way.cargo(name).arg("+nightly").env_remove("RUSTC"),
            Way::System { .. } => self.way.cargo(name).env("RUSTC_BOOTSTRAP", "1"),
        };
        bare(step).env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &self.linker)
    }

    fn describe(&self) -> String {
        let way = match self.way {
            Way::Rustup => "rustup's nightly",
            Way::System { .. } => "the system's Rust",
        };
        format!("{way}, {}, {}", self.version, self.linker.display())
    }
}

/// What is wrong with one of the two ways.
#[derive(Debug)]
struct Lacks {
    /// A sentence.
    what: String,
    /// What to type.
    remedy: Vec<String>,
}

/// Neither way is complete.
#[derive(Debug)]
pub(crate) struct Missing {
    rustup: Lacks,
    system: Lacks,
}

impl Missing {
    /// Everything a person needs to get on.
    fn explain(&self) -> String {
        let commands = |lacks: &Lacks| {
            lacks
                .remedy
                .iter()
                .map(|line| format!("\n       {line}"))
                .collect::<String>()
        };
        format!(
            "building the kernel programs needs one of these (all else of drift builds without):\n\
             \n  1. rustup's nightly: {}{}\n\
             \n  2. the system's Rust: {}{}",
            self.rustup.what,
            commands(&self.rustup),
            self.system.what,
            commands(&self.system),
        )
    }
}

/// What is there, without installing anything. Less than a second.
pub(crate) fn find(workspace: &Workspace) -> Result<Toolchain, Box<Missing>> {
    rustup::find(workspace).or_else(|rustup| {
        system::find(workspace).map_err(|system| Box::new(Missing { rustup, system }))
    })
}

/// What is there, after installing what was missing where that is possible.
pub(crate) fn ensure(workspace: &Workspace) -> Result<Toolchain> {
    let missing = match find(workspace) {
        Ok(toolchain) => return Ok(toolchain),
        Err(missing) => missing,
    };
    if !apt::may_install() {
        bail!(missing.explain());
    }
    eprintln!(
        "The kernel programs cannot be built yet: {}",
        missing.system.what
    );
    match system::install(workspace) {
        Ok(toolchain) => Ok(toolchain),
        Err(error) => bail!("{error:#}\n\n{}", missing.explain()),
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let toolchain = if args.check {
        find(&workspace).map_err(|missing| anyhow!(missing.explain()))?
    } else {
        ensure(&workspace)?
    };
    println!("kernel programs: {}", toolchain.describe());
    Ok(())
}
