//! The way of Aya's users: rustup's nightly with rust-src, and bpf-linker.

use super::{Lacks, Toolchain, Way, linker, rustc::Rustc};
use crate::{machine, step::Step, workspace::Workspace};

pub(super) fn find(workspace: &Workspace) -> Result<Toolchain, Lacks> {
    if machine::which("rustup").is_none() {
        return Err(Lacks {
            what: "rustup is not on the PATH".to_owned(),
            remedy: install_commands(true),
        });
    }
    let nightly = || {
        Step::new("ask rustup's nightly", "rustc")
            .arg("+nightly")
            .env("RUSTUP_AUTO_INSTALL", "0") // looking must not install
            .env_remove("RUSTUP_TOOLCHAIN")
    };
    let Ok(rustc) = Rustc::ask(nightly) else {
        return Err(Lacks {
            what: "there is no nightly toolchain".to_owned(),
            remedy: install_commands(true),
        });
    };
    let (major, minor) = workspace.rust;
    if rustc.release < workspace.rust {
        return Err(Lacks {
            what: format!("nightly is {}, drift needs {major}.{minor}", rustc.version),
            remedy: install_commands(true),
        });
    }
    if !rustc.has_core_sources() {
        return Err(Lacks {
            what: "nightly is there, but not its component rust-src".to_owned(),
            remedy: install_commands(machine::which("bpf-linker").is_none()),
        });
    }
    match linker::on_path(rustc.llvm) {
        Ok(linker) => Ok(Toolchain {
            way: Way::Rustup,
            version: rustc.version,
            linker,
        }),
        Err(what) => Err(Lacks {
            what: format!("nightly and rust-src are there, but {what}"),
            remedy: install_commands(true),
        }),
    }
}

/// The linker's makers advise against building it from source with rustup's toolchain: its LLVM has to be at least the compiler's.
fn install_commands(linker_too: bool) -> Vec<String> {
    let mut commands =
        vec!["rustup toolchain install nightly --profile minimal --component rust-src".to_owned()];
    if linker_too {
        commands.push("cargo install cargo-binstall && cargo binstall bpf-linker".to_owned());
    }
    commands
}
