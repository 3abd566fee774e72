//! `cargo xtask kube test`: the tests that need a cluster; and that a cluster leaves nothing, whatever ends it.

use std::{
    ffi::OsString,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Cluster, said, state};
use crate::{
    architecture::Architecture,
    build, image,
    interrupt::Interrupt,
    setup,
    step::Step,
    workspace::{Profile, Workspace},
};

/// The programs of the tests.
const PROGRAMS: [&str; 2] = ["cluster", "cluster_resources"];

/// The tag of the image that is upgraded from.
const OLD: &str = "old";

/// Run the tests that need a cluster.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The image that is upgraded from, called localhost/drift-agent:old [default: this agent's, under that name]
    #[arg(long, value_name = "FILE")]
    old_image: Option<PathBuf>,
    /// Passed on to `cargo test`.
    #[arg(last = true)]
    args: Vec<OsString>,
}

pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let toolchain = setup::ensure(workspace)?;
    build::probes(workspace, &toolchain)?;
    let agent = build::agent(workspace, Profile::Dev)?;
    let image = image::write(workspace, Architecture::here())?.file;
    let old = match &args.old_image {
        Some(old) => old.clone(),
        None => image::write_again(workspace, OLD)?.file,
    };
    let cluster = match Cluster::up(workspace, 1, &[image, old])? {
        Ok(cluster) => cluster,
        Err(reason) => bail!("{reason}"),
    };
    let start = Instant::now();
    let mut step =
        Step::cargo("test what needs a cluster").args(["test", "--package", "drift-tests"]);
    for program in PROGRAMS {
        step = step.args(["--test", program]);
    }
    if let Some(folder) = cluster.folder() {
        step = step.env("DRIFT_KUBE", folder);
    }
    step.args(&args.args)
        .env("RUST_TEST_THREADS", "1")
        .env("DRIFT_AGENT", agent)
        .env("DRIFT_PROBES", workspace.probes())
        .current_dir(&workspace.root)
        .run()?;
    said("tests", start.elapsed());
    let start = Instant::now();
    drop(cluster);
    said("down", start.elapsed());
    leaves_nothing(workspace)?;
    let start = Instant::now();
    killed(workspace)?;
    said("killed and down", start.elapsed());
    Ok(())
}

/// An `up` that is killed half way leaves daemons, and `down` finds them.
fn killed(workspace: &Workspace) -> Result<()> {
    let interrupt = Interrupt::listen().context("listening for signals")?;
    let program = std::env::current_exe().context("asking for this program's own path")?;
    let mut up = Command::new(program)
        .args(["kube", "up", "--nodes", "0"])
        .stdout(Stdio::null())
        .spawn()
        .context("starting `kube up`")?;
    let state = state::State::new(&workspace.tools());
    let started = state::wait(
        &interrupt,
        "etcd is started",
        Duration::from_secs(60),
        || state.log("etcd").exists(),
    );
    up.kill().context("killing `kube up`")?;
    up.wait().context("waiting for `kube up`")?;
    started?;
    ensure!(
        state::down(&state)?,
        "a killed `kube up` had left nothing: this shows nothing"
    );
    leaves_nothing(workspace)
}

/// No control group (and so no process), no file, no mount. Links and addresses were in namespaces of these processes.
fn leaves_nothing(workspace: &Workspace) -> Result<()> {
    let state = state::State::new(&workspace.tools());
    for hierarchy in state::hierarchies() {
        let group = hierarchy.join(state::GROUP);
        ensure!(!group.exists(), "{} is there still", group.display());
    }
    ensure!(
        !state.folder.exists(),
        "{} is there still",
        state.folder.display()
    );
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
    let folder = state.folder.to_string_lossy();
    let left = mounts.lines().find(|line| line.contains(&*folder));
    ensure!(left.is_none(), "a mount is there still: {left:?}");
    Ok(())
}
