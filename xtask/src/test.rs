//! `cargo xtask test`: everything this machine can test, and in plain sight what it could not.

mod outcome;

use std::{
    ffi::OsString,
    fs,
    io::{Read as _, Write as _},
    path::Path,
    process::Stdio,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    apt, build, collector, kube, machine, setup,
    step::{Step, ended},
    vmtest,
    workspace::{Profile, Workspace},
};
pub(crate) use outcome::Counts;
use outcome::Skip;

const EXAMPLES: &str = "\
Examples:
  cargo xtask test                      all of it
  cargo xtask test -- kernel_           only the tests whose name has kernel_ in it
  cargo xtask test -p drift-common      one package (may be given several times)
  cargo xtask test --release            against the agent as it ships
  cargo xtask test -- -- --nocapture    after the second --, for the tests themselves

Without a package and without arguments, other kernels are booted too and one test is run in
each, as `cargo xtask vmtest --few` does (--no-vmtest leaves that out). `cargo xtask vmtest` runs
the whole kernel tier in each.

What the tests find in their environment:
  DRIFT_AGENT            the built agent
  DRIFT_OTELCOL          the OpenTelemetry Collector
  DRIFT_OTELCOL_MISSING  why there is none
  DRIFT_KUBE             the folder of a cluster that is up while the tests run
  DRIFT_KUBE_MISSING     why there is none
  DRIFT_SKIPS            a file: a test that cannot run here appends a line to it and returns,
                           SKIPPED <test name>: <reason>
                         A reason that begins with `not installed: <program>` is a defect where CI
                         runs as root: this command should have installed it";

/// Run all tests that this machine can run, and say which it could not.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Test the optimised agent.
    #[arg(long)]
    release: bool,
    /// Only this package's tests.
    #[arg(short, long, value_name = "NAME")]
    package: Vec<String>,
    /// Do not boot other kernels.
    #[arg(long)]
    no_vmtest: bool,
    /// Passed on to `cargo test`.
    #[arg(last = true)]
    args: Vec<OsString>,
}

/// Programs that tests run, and Debian's packages they are in.
const PROGRAMS: [(&str, &str); 7] = [
    ("strace", "strace"),
    ("python3", "python3"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let toolchain = setup::ensure(&workspace)?;
    build::probes(&workspace, &toolchain)?;
    let profile = if args.release {
        Profile::Release
    } else {
        Profile::Dev
    };
    let agent = build::agent(&workspace, profile)?;
    let missing = install_programs();
    let collector = collector(&workspace)?;

    let folder = tempfile::tempdir().context("making a folder for the tests' notes")?;
    let skips = folder.path().join("skips");
    let mut step = Step::cargo("test")
        .args(["test", "--no-fail-fast"])
        // One at a time: an agent that hears two processes change files of one name at the same moment rightly names neither, and the tests' files have the
        // same names.
        .env("RUST_TEST_THREADS", "1")
        .env("DRIFT_AGENT", &agent)
        .env("DRIFT_PROBES", workspace.probes())
        .env("DRIFT_SKIPS", &skips)
        .current_dir(&workspace.root);
    step = match &collector {
        Ok(path) => step.env("DRIFT_OTELCOL", path),
        Err(reason) => step.env("DRIFT_OTELCOL_MISSING", reason),
    };
    step = if args.package.is_empty() {
        step.args(["--workspace", "--exclude", "drift-ebpf"])
    } else {
        args.package
            .iter()
            .fold(step, |step, name| step.args(["--package", name]))
    };
    if args.release {
        step = step.arg("--release");
    }
    let cluster = cluster(&workspace);
    step = match &cluster {
        Ok((_, folder)) => step.env("DRIFT_KUBE", folder),
        Err(reason) => step.env("DRIFT_KUBE_MISSING", reason),
    };
    let (counts, failure) = run_and_count(step.args(&args.args))?;

    drop(cluster);

    let mut skips = read_skips(&skips)?;
    let mut counts = counts.without(skips.len());
    let mut kernels_failed = false;
    if args.is_everything() {
        let table = other_kernels(&workspace, &mut skips);
        if let Some(table) = table {
            println!("\n{table}");
            kernels_failed = table.has_failed();
            counts = counts.plus(table.counts());
        } else {
            counts = counts.plus(Counts::ONE_SKIPPED);
        }
    }
    conclude(counts, &skips, &missing);
    if let Some(failure) = failure {
        return Err(failure);
    }
    if kernels_failed {
        bail!("not every test passed in every kernel: see the table above, and target/vmtest");
    }
    refuse_avoidable(&skips)
}

impl Args {
    /// Nobody asked for a part.
    fn is_everything(&self) -> bool {
        self.package.is_empty() && self.args.is_empty() && !self.no_vmtest
    }
}

/// One test of the kernel tier in other kernels; `None`: not here, and the reason is among the skips.
fn other_kernels(workspace: &Workspace, skips: &mut Vec<Skip>) -> Option<vmtest::Table> {
    let reason = match vmtest::all(workspace, &vmtest::Args::few()) {
        Ok(Ok(table)) => return Some(table),
        Ok(Err(reason)) => reason,
        // No network, most likely.
        Err(error) => format!("{error:#}"),
    };
    skips.push(Skip {
        test: "vmtest".to_owned(),
        reason,
    });
    None
}

/// Installs what is missing, where that is possible; gives what is still missing.
pub(crate) fn install_programs() -> Vec<&'static str> {
    let missing = || {
        PROGRAMS
            .into_iter()
            .filter(|(program, _)| machine::which(program).is_none())
    };
    let packages: Vec<&str> = missing().map(|(_, package)| package).collect();
    if !packages.is_empty() && apt::may_install() {
        // What cannot be installed shows as skipped tests, which say what they lack.
        if let Err(error) = apt::install(&packages) {
            eprintln!("warning: {error:#}");
        }
    }
    missing().map(|(program, _)| program).collect()
}

/// Without it one test is skipped; in CI its absence where Go is there is a defect of ours.
fn collector(workspace: &Workspace) -> Result<Result<std::path::PathBuf, String>> {
    match collector::ensure(&workspace.tools()) {
        Ok(found) => Ok(found),
        Err(error) if machine::is_ci() => Err(error),
        Err(error) => {
            eprintln!("warning: {error:#}");
            Ok(Err(
                "the OpenTelemetry Collector could not be built".to_owned()
            ))
        }
    }
}

/// A control plane, where that takes seconds: its programs are not built for this, which takes minutes (`cargo xtask kube test` does).
fn cluster(workspace: &Workspace) -> Result<(kube::Cluster, std::path::PathBuf), String> {
    if !kube::Cluster::is_built(workspace) {
        return Err("the cluster's programs are not built: `cargo xtask kube test` builds them, once (4 minutes)".to_owned());
    }
    let cluster = kube::Cluster::up(workspace, 0, &[]).map_err(|error| format!("{error:#}"))??;
    let folder = cluster.folder().ok_or("it has ended")?;
    Ok((cluster, folder))
}

/// Passes the tests' output on as it comes, and adds up their closing lines.
fn run_and_count(step: Step) -> Result<(Counts, Option<anyhow::Error>)> {
    let (mut command, failure) = step.announce();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failure.because(format_args!("cannot be run: {error}")))?;
    let mut from = child.stdout.take().context("the tests have no output")?;
    let mut to = std::io::stdout().lock();
    let mut all = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let read = from.read(&mut chunk).context("reading the tests' output")?;
        if read == 0 {
            break;
        }
        all.extend_from_slice(&chunk[..read]);
        to.write_all(&chunk[..read])
            .and_then(|()| to.flush())
            .context("passing the tests' output on")?;
    }
    let status = child.wait().context("waiting for the tests")?;
    let counts = Counts::add_up(&String::from_utf8_lossy(&all));
    let failure = (!status.success()).then(|| failure.because(ended(status)));
    Ok((counts, failure))
}

fn read_skips(file: &Path) -> Result<Vec<Skip>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(outcome::skips(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(vec![]), // none was skipped
        Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
    }
}

/// The last word: what was not tested, and the line that counts.
fn conclude(counts: Counts, skips: &[Skip], missing: &[&str]) {
    if !missing.is_empty() {
        println!("\nnot on this machine: {}", missing.join(", "));
    }
    if !skips.is_empty() {
        println!("\nSKIPPED, so not tested on this machine:");
        for skip in skips {
            println!("  {}\n      {}", skip.test, skip.reason);
        }
    }
    println!("\n{counts}");
}

/// In CI, as root on Debian, nothing that this command installs can be missing.
fn refuse_avoidable(skips: &[Skip]) -> Result<()> {
    let avoidable: Vec<&str> = skips
        .iter()
        .filter(|skip| skip.is_avoidable())
        .map(|skip| skip.test.as_str())
        .collect();
    if !avoidable.is_empty() && machine::is_ci() && machine::is_root() {
        bail!(
            "skipped for want of a program that `cargo xtask test` should have installed (see PROGRAMS in xtask/src/test.rs): {}",
            avoidable.join(", ")
        );
    }
    Ok(())
}
