//! `cargo xtask vmtest`: the kernel tier of the tests, run in other kernels than this machine's.
//!
//! Debian's kernels are booted in QEMU without KVM, from an image in memory that holds the agent, the tests in one program, the programs and
//! libraries of this machine that these need, and nothing else. For arm64 all of it is built or fetched for that. Nothing is installed but what
//! builds for arm64: kernels, QEMU and programs are unpacked in the user's cache folder.

mod boot;
mod guest;
mod image;
mod kernel;
mod tools;
mod verdict;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    apt::Archive,
    architecture::Architecture,
    build, setup,
    step::Step,
    test,
    workspace::{Profile, Workspace},
};
use guest::{Guest, Tests};
use kernel::{KERNELS, Kernel, Series};
use tools::Tools;
use verdict::Run;
pub(crate) use verdict::Table;

const EXAMPLES: &str = "\
Examples:
  cargo xtask vmtest                               each kernel for amd64, under each sensor
  cargo xtask vmtest --kernel 6.12                 one kernel (may be given several times)
  cargo xtask vmtest --arch arm64                  each kernel for arm64, with its image's agent
  cargo xtask vmtest --sensor tracepoint           one sensor (may be given several times)
  cargo xtask vmtest link                          only the tests whose name has link in it
  cargo xtask vmtest --few                         one test in each, as `cargo xtask test` does
  cargo xtask vmtest --fetch                       with the newest kernels, fetched now
  cargo xtask vmtest -- drift-agent --version      a command instead of the tests: what it says

What each guest said is kept in target/vmtest: <kernel>.tests and <kernel>.console.";

/// Run the kernel tier of the tests in other kernels, in QEMU.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only this kernel.
    #[arg(long, value_name = "SERIES", value_parser = kernel::names())]
    kernel: Vec<String>,
    /// All kernels for this kind of processor [default: amd64].
    #[arg(long, value_name = "ARCH", conflicts_with = "kernel")]
    arch: Option<Architecture>,
    /// Only this sensor.
    #[arg(long, value_name = "SENSOR", value_parser = SENSORS)]
    sensor: Vec<String>,
    /// Only one test, of each kind of change, with the agent as it is built for development: what `cargo xtask test` runs.
    #[arg(long, conflicts_with_all = ["filter", "command"])]
    few: bool,
    /// Fetch the newest kernels and QEMU, whatever is kept.
    #[arg(long)]
    fetch: bool,
    /// Only tests whose name has this in it.
    #[arg(value_name = "NAME")]
    filter: Option<String>,
    /// Run this in each guest instead of the tests, and show what it says.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "filter")]
    command: Vec<OsString>,
}

/// The test that says most of a kernel in the least time: all programs are loaded, and each kind of change is seen with its process.
const FEW: &str = "each_kind_of_change_is_seen_with_its_process_and_healed";

impl Args {
    /// A few minutes for all kernels.
    pub(crate) fn few() -> Self {
        Self {
            few: true,
            ..Self::default()
        }
    }

    fn filter(&self) -> Option<&str> {
        if self.few {
            Some(FEW)
        } else {
            self.filter.as_deref()
        }
    }
}

/// As `drift-agent run --sensor` takes them.
const SENSORS: [&str; 2] = ["btf", "tracepoint"];

/// Guests that run at a time: each keeps one processor busy.
fn guests() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Which tests are run in a guest: the files of that prefix.
const TIER: &str = "kernel_";
/// The one program that has them all (tests/tests/kernel.rs).
const PROGRAM: &str = "kernel";

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    // Guests have this machine's programs; a test says what is missing still.
    let _missing = test::install_programs();
    match all(&workspace, args)? {
        // What the command said was shown.
        Ok(_) if !args.command.is_empty() => Ok(()),
        Ok(table) => conclude(&table),
        Err(reason) => bail!("no kernel can be booted here: {reason}"),
    }
}

/// The end of a run: the table, and whether it is good.
fn conclude(table: &Table) -> Result<()> {
    println!("\n{table}");
    if table.has_failed() {
        bail!("not every test passed in every kernel (target/vmtest has what each guest said)");
    }
    Ok(())
}

/// Boots what was asked for. `Err(reason)`: this machine cannot.
pub(crate) fn all(workspace: &Workspace, args: &Args) -> Result<Result<Table, String>> {
    if Architecture::here() != Architecture::Amd64 {
        return Ok(Err("guests are booted on amd64 machines only".to_owned()));
    }
    let archive = match archive(workspace, Architecture::here()) {
        Ok(archive) => archive,
        Err(reason) => return Ok(Err(reason)),
    };
    if args.fetch {
        archive.forget()?;
    }
    let mut table = Table::default();
    for architecture in Architecture::ALL {
        let wanted: Vec<&Series> = kernels(&args.kernel, args.arch)
            .filter(|series| series.architecture == architecture)
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let foreign = if architecture == Architecture::here() {
            None
        } else {
            match self::archive(workspace, architecture) {
                Ok(foreign) => Some(foreign),
                Err(reason) => return Ok(Err(reason)),
            }
        };
        let tools = Tools::ensure(architecture, &archive, foreign.as_ref())?;
        let kernels = Kernels {
            architecture,
            archive: foreign.as_ref().unwrap_or(&archive),
            tools: &tools,
            wanted: &wanted,
        };
        kernels.run(workspace, args, &mut table)?;
    }
    Ok(Ok(table))
}

fn archive(workspace: &Workspace, architecture: Architecture) -> Result<Archive, String> {
    let suites: Vec<&str> = KERNELS
        .iter()
        .filter(|series| series.architecture == architecture)
        .map(|series| series.suite)
        .collect();
    Archive::find(&vmtest_folder(workspace), architecture, &suites)
}

/// Those of one architecture that were asked for, and what booting them takes.
struct Kernels<'a> {
    architecture: Architecture,
    archive: &'a Archive,
    tools: &'a Tools,
    wanted: &'a [&'static Series],
}

impl Kernels<'_> {
    fn run(&self, workspace: &Workspace, args: &Args, table: &mut Table) -> Result<()> {
        let toolchain = setup::ensure(workspace)?;
        build::probes(workspace, &toolchain)?;
        // As it ships: a guest's processor is some ten times slower than the machine's, and each test starts an agent that reads megabytes of type
        // information.
        let agent = if self.architecture != Architecture::here() {
            build::static_agent(workspace, self.architecture)?
        } else if args.few {
            // One start is not worth the minutes that building another agent takes.
            build::agent(workspace, Profile::Dev)?
        } else {
            build::agent(workspace, Profile::Release)?
        };
        let tests = if args.command.is_empty() {
            Some(build_tests(workspace, self.architecture)?)
        } else {
            None
        };
        let sensors: Vec<&str> = sensors(&args.sensor);
        let guest = Guest {
            architecture: self.architecture,
            agent: &agent,
            tests: tests.as_ref(),
            sensors: &sensors,
            filter: args.filter(),
            command: &args.command,
        };
        let folder = tempfile::tempdir().context("making a folder for the guests' image")?;
        let base = guest.image(self.tools, folder.path())?;
        let logs = workspace.target.join("vmtest");
        fs::create_dir_all(&logs).with_context(|| format!("making {}", logs.display()))?;
        let mut to_boot = Vec::new();
        for series in self.wanted {
            match Kernel::ensure(series, self.archive, self.tools)? {
                Ok(kernel) => to_boot.push((*series, kernel)),
                Err(reason) => table.add(Run::not_booted(series.name, &sensors, &reason)),
            }
        }
        let boot = |kernel: &Kernel| {
            let start = Instant::now();
            eprintln!("==> boot {} ({})", kernel.name, kernel.package);
            let said = boot::boot(self.tools, kernel, &base, folder.path(), &logs);
            if let Ok(said) = &said {
                eprintln!(
                    "    {}: {:.0} s, {:.0} s of a processor",
                    kernel.name,
                    start.elapsed().as_secs_f64(),
                    said.worked.as_secs_f64()
                );
            }
            said
        };
        for ((series, _), said) in to_boot
            .iter()
            .zip(side_by_side(&to_boot, |(_, kernel)| boot(kernel)))
        {
            let said = said?;
            if args.command.is_empty() {
                table.add(Run::read(series, &sensors, &said));
            } else {
                println!("{}: {}", series.name, said.tests);
            }
        }
        Ok(())
    }
}

/// Does all of it, [`guests`] at a time; what comes out is in the order of what went in.
fn side_by_side<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..guests() {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(index) else {
                        break;
                    };
                    let result = work(one);
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Those that are named, else those of an architecture.
fn kernels(
    names: &[String],
    architecture: Option<Architecture>,
) -> impl Iterator<Item = &'static Series> {
    KERNELS.iter().filter(move |series| {
        if names.is_empty() {
            series.architecture == architecture.unwrap_or(Architecture::Amd64)
        } else {
            names.iter().any(|name| name == series.name)
        }
    })
}

fn sensors(names: &[String]) -> Vec<&'static str> {
    SENSORS
        .into_iter()
        .filter(|sensor| names.is_empty() || names.iter().any(|name| name == sensor))
        .collect()
}

/// Beside the other tools that are kept.
fn vmtest_folder(workspace: &Workspace) -> PathBuf {
    let tools = workspace.tools();
    tools.parent().unwrap_or(&tools).join("vmtest")
}

/// Builds the tier's program.
fn build_tests(workspace: &Workspace, architecture: Architecture) -> Result<Tests> {
    let tier = tier(&workspace.root.join("tests/tests"))?;
    let step = if architecture == Architecture::here() {
        Step::cargo("build the tests")
            .args(["test", "--no-run"])
            .env("DRIFT_PROBES", workspace.probes())
            .current_dir(&workspace.root)
    } else {
        // Optimised, as the agent is: what both need is compiled once.
        let name = format!("build the tests for {}", architecture.name());
        build::cross_step(workspace, architecture, &name)?.arg("--release")
    };
    let said = step
        .args(["--package", "drift-tests", "--test", PROGRAM])
        .args(["--message-format", "json-render-diagnostics"])
        .read()?;
    let program = program(&said).with_context(|| format!("cargo named no test {PROGRAM}"))?;
    Ok(Tests { program, tier })
}

/// The names of the tier's files.
fn tier(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .filter(|name| name.starts_with(TIER))
        .collect();
    names.sort();
    Ok(names)
}

/// From Cargo's messages, one JSON value a line.
fn program(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == PROGRAM)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiers_program_is_read_from_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"kernel_alias"},"executable":"/t/kernel_alias-1"}
{"reason":"compiler-artifact","target":{"name":"kernel"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"kernel"},"executable":"/t/kernel-2"}
not json
"#;
        assert_eq!(program(messages), Some(PathBuf::from("/t/kernel-2")));
        assert_eq!(program("not json"), None);
    }

    #[test]
    fn the_tiers_program_has_every_file_of_the_tier() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tests");
        let program = fs::read_to_string(folder.join(format!("{PROGRAM}.rs"))).unwrap();
        let named: Vec<&str> = program
            .lines()
            .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
            .collect();
        assert_eq!(named, tier(&folder).unwrap());
    }

    #[test]
    fn the_test_that_stands_for_all_is_one_of_the_tier() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tests");
        let named = format!("fn {FEW}()");
        let holds = |name: &String| {
            let text = fs::read_to_string(folder.join(format!("{name}.rs"))).unwrap();
            text.contains(&named)
        };
        assert!(tier(&folder).unwrap().iter().any(holds));
    }

    #[test]
    fn guests_run_side_by_side_and_answer_in_their_order() {
        let all: Vec<u64> = (0..7).collect();
        assert_eq!(
            side_by_side(&all, |number| number * 2),
            [0, 2, 4, 6, 8, 10, 12]
        );
    }

    #[test]
    fn no_name_means_all_and_each_name_means_itself() {
        assert_eq!(sensors(&[]), SENSORS);
        let named = |names: &[&str], architecture| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            kernels(&names, architecture)
                .map(|series| series.name)
                .collect()
        };
        assert_eq!(named(&[], None), ["5.10", "6.1", "6.12", "7.3"]);
        assert_eq!(
            named(&[], Some(Architecture::Arm64)),
            ["6.1-arm64", "6.12-arm64"]
        );
        assert_eq!(named(&["6.1"], None), ["6.1"]);
        assert_eq!(named(&["6.1-arm64"], None), ["6.1-arm64"]);
    }
}
