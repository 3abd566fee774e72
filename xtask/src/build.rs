//! `cargo xtask build`: the kernel programs, then the agent with them inside.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    architecture::Architecture,
    setup::{self, Toolchain, cross},
    step::Step,
    workspace::{Profile, Workspace},
};

const EXAMPLES: &str = "\
Examples:
  cargo xtask build --release   what ships, one binary with all inside: target/release/drift-agent
  cargo xtask build             the same, built for development: target/debug/drift-agent
  cargo xtask build --probes    only the kernel programs: target/probes/drift-ebpf
  cargo xtask build --release --arch arm64     for arm64, with the C library inside:
                                target/cross/aarch64-unknown-linux-gnu/release/drift-agent

What building the kernel programs needs is found or installed first, as `cargo xtask setup` does;
for arm64 a C compiler and the standard library of that target, too. The kernel programs are the
same for both.
A plain `cargo build` works too: it embeds the kernel programs that are there, or gives an agent
that says it has none.";

/// Build the kernel programs and the agent with them inside.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Optimised, as it ships.
    #[arg(long)]
    release: bool,
    /// Stop after the kernel programs.
    #[arg(long)]
    probes: bool,
    /// What processor it is for [default: this machine's].
    #[arg(long, value_name = "ARCH", conflicts_with = "probes")]
    arch: Option<Architecture>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let toolchain = setup::ensure(&workspace)?;
    let object = probes(&workspace, &toolchain)?;
    if args.probes {
        println!("{}", workspace.shown(&object));
        return Ok(());
    }
    let profile = if args.release {
        Profile::Release
    } else {
        Profile::Dev
    };
    let agent = match args.arch {
        Some(architecture) if architecture != Architecture::here() => {
            across(&workspace, architecture, profile)?
        }
        _ => agent(&workspace, profile)?,
    };
    println!("{}", workspace.shown(&agent));
    Ok(())
}

const TARGET: &str = "bpfel-unknown-none";

/// Builds the kernel programs and puts them where the agent's build looks for them.
pub(crate) fn probes(workspace: &Workspace, toolchain: &Toolchain) -> Result<PathBuf> {
    // Its own folder: another compiler's files beside the host's would be built anew at every change of hands.
    let folder = workspace.target.join("probes-build");
    toolchain
        .cargo("build the kernel programs")
        .args(["build", "--package", "drift-ebpf", "--bins", "--release"])
        .args(["--target", TARGET, "-Z", "build-std=core", "--target-dir"])
        .arg(&folder)
        .env(
            "RUSTFLAGS",
            format!("{} {}", rustflags(std::env::consts::ARCH), without_places(workspace)),
        )
        .current_dir(&workspace.root)
        .hint(
            "If bpf-linker complains about bitcode, its LLVM is older than the compiler's; if something it needs is missing: \
             cargo xtask setup",
        )
        .run()?;
    let built = folder.join(TARGET).join("release").join("drift-ebpf");
    let place = workspace.probes();
    copy_if_changed(&built, &place)?;
    Ok(place)
}

/// As aya-build passes them: the architecture whose registers the programs see, and debug information for the linker to make BTF of.
fn rustflags(arch: &str) -> String {
    format!("--cfg=bpf_target_arch=\"{arch}\" -Cdebuginfo=2 -Clink-arg=--btf")
}

/// No folder of the machine that builds gets into what is built: the same tree gives the same bytes in another place, too.
fn without_places(workspace: &Workspace) -> String {
    let cargo = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let places = [(cargo, "/cargo"), (Some(workspace.root.clone()), "/drift")];
    let flags: Vec<String> = places
        .into_iter()
        .filter_map(|(place, shown)| {
            Some(format!("--remap-path-prefix={}={shown}", place?.display()))
        })
        .collect();
    flags.join(" ")
}

/// Leaves the time of an unchanged copy alone, so that Cargo does not embed it again. Whole or not at all.
fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let folder = to.parent().context("the copy lies in no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let staged = to.with_extension("new");
    fs::write(&staged, &bytes).with_context(|| format!("writing {}", staged.display()))?;
    fs::rename(&staged, to).with_context(|| format!("renaming to {}", to.display()))
}

/// Builds the agent; it embeds the kernel programs that are there.
pub(crate) fn agent(workspace: &Workspace, profile: Profile) -> Result<PathBuf> {
    let name = match profile {
        Profile::Release => "build the agent (release)",
        Profile::Dev => "build the agent",
    };
    let step = Step::cargo(name)
        .args(["build", "--package", "drift-agent", "--bins"])
        .env("DRIFT_PROBES", workspace.probes())
        .current_dir(&workspace.root);
    match profile {
        Profile::Release => step.arg("--release"),
        Profile::Dev => step,
    }
    .run()?;
    Ok(workspace.agent(profile))
}

/// As it ships, with the C library inside: it runs where there is nothing else.
pub(crate) fn static_agent(workspace: &Workspace, architecture: Architecture) -> Result<PathBuf> {
    if architecture != Architecture::here() {
        return across(workspace, architecture, Profile::Release);
    }
    let target = architecture.target();
    let flags = without_places(workspace);
    Step::cargo("build the agent (release, static)")
        .args(["build", "--release", "--package", "drift-agent", "--bins"])
        // Named, the flags are the program's alone: what builds it needs the machine's libraries.
        .args(["--target", target])
        .env("RUSTFLAGS", format!("-Ctarget-feature=+crt-static {flags}"))
        .env("DRIFT_PROBES", workspace.probes())
        .current_dir(&workspace.root)
        .run()?;
    Ok(workspace.target.join(target).join("release/drift-agent"))
}

/// The agent for another architecture, always with the C library inside: there is none for it on this machine that it could be tried with.
fn across(workspace: &Workspace, architecture: Architecture, profile: Profile) -> Result<PathBuf> {
    let name = format!("build the agent for {}", architecture.name());
    let step =
        cross_step(workspace, architecture, &name)?.args(["--package", "drift-agent", "--bins"]);
    match profile {
        Profile::Release => step.arg("--release"),
        Profile::Dev => step,
    }
    .run()?;
    Ok(cross_folder(workspace)
        .join(architecture.target())
        .join(profile.folder())
        .join("drift-agent"))
}

/// Its own folder: the compiler may be another than the one for this machine.
fn cross_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("cross")
}

/// `cargo build` for another architecture, of which the caller says what.
pub(crate) fn cross_step(
    workspace: &Workspace,
    architecture: Architecture,
    name: &str,
) -> Result<Step> {
    ensure!(
        architecture == Architecture::Arm64,
        "on this machine only arm64 can be built for besides: for {} run this on a machine of that kind",
        architecture.name()
    );
    let cross = cross::ensure(workspace)?;
    let flags = [
        "-Ctarget-feature=+crt-static".to_owned(),
        cross.rustflags(),
        without_places(workspace),
    ];
    Ok(cross
        .cargo(name)
        .args(["build", "--target", architecture.target(), "--target-dir"])
        .arg(cross_folder(workspace))
        .env("RUSTFLAGS", flags.join(" "))
        .env("DRIFT_PROBES", workspace.probes())
        .current_dir(&workspace.root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_copy_keeps_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("deep/b"));
        fs::write(&from, "one").unwrap();
        copy_if_changed(&from, &to).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        fs::File::open(&to).unwrap().set_modified(old).unwrap();
        copy_if_changed(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), old);
        fs::write(&from, "two").unwrap();
        copy_if_changed(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "two");
    }
}
