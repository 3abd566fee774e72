//! `cargo xtask ci`: what `.ci/run` ends up running. Every step is run, whatever became of the one before, and the closing table tells.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{build, demo, generate, machine, setup, step::Step, test, tidy, workspace::Workspace};

const EXAMPLES: &str = "\
Examples:
  cargo xtask ci                  all steps
  cargo xtask ci fmt tidy clippy  some of them";

/// Run all that continuous integration checks.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only these steps, in their usual order.
    #[arg(value_name = "STEP")]
    steps: Vec<Check>,
}

/// The steps, in the order they are run: what answers fast comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Check {
    /// The code is formatted.
    Fmt,
    /// Documents, names and tree fit together.
    Tidy,
    /// What is made from the code is as it would be made now.
    Generated,
    /// The kernel programs can be built: what that needs is there, or is installed now.
    Probes,
    /// Licences, sources and duplicates of the dependencies are as deny.toml has them.
    Deny,
    /// No lint of the host crates and of their tests has anything to say.
    Clippy,
    /// Nor any about the kernel programs.
    ClippyKernel,
    /// The README's test command.
    Test,
    /// The README's first command.
    Demo,
}

impl Check {
    const ALL: [Check; 9] = [
        Check::Fmt,
        Check::Tidy,
        Check::Generated,
        Check::Probes,
        Check::Deny,
        Check::Clippy,
        Check::ClippyKernel,
        Check::Test,
        Check::Demo,
    ];

    fn name(self) -> &'static str {
        match self {
            Check::Fmt => "fmt",
            Check::Tidy => "tidy",
            Check::Generated => "generated",
            Check::Probes => "probes",
            Check::Deny => "deny",
            Check::Clippy => "clippy",
            Check::ClippyKernel => "clippy-kernel",
            Check::Test => "test",
            Check::Demo => "demo",
        }
    }

    fn run(self, workspace: &Workspace) -> Result<()> {
        let cargo = |name: &str| Step::cargo(name).current_dir(&workspace.root);
        match self {
            Check::Fmt => cargo("check the format")
                .args(["fmt", "--all", "--check"])
                .hint("Type `cargo fmt --all`.")
                .run(),
            Check::Tidy => tidy::run(&tidy::Args {}),
            Check::Generated => generate::check(workspace),
            Check::Probes => build::probes(workspace, &setup::ensure(workspace)?).map(drop),
            Check::Deny => deny(workspace),
            Check::Clippy => cargo("lint the host crates")
                .args(["clippy", "--workspace", "--exclude", "drift-ebpf"])
                .args(["--all-targets", "--", "-D", "warnings"])
                .env("DRIFT_PROBES", workspace.probes())
                .run(),
            // For the host: a lint needs no BPF code, and so any stable toolchain can run it.
            Check::ClippyKernel => cargo("lint the kernel programs")
                .args(["clippy", "--package", "drift-ebpf", "--", "-D", "warnings"])
                .run(),
            Check::Test => test::run(&test::Args::default()),
            Check::Demo => demo::run(&demo::Args::for_ci()),
        }
    }
}

const DENY_VERSION: &str = "0.20.2";

/// Where this command keeps a cargo-deny of its own.
fn deny_in(tools: &Path) -> PathBuf {
    tools.join(format!("cargo-deny-{DENY_VERSION}/bin/cargo-deny"))
}

fn deny(workspace: &Workspace) -> Result<()> {
    let tools = workspace.tools();
    let kept = deny_in(&tools);
    let program = match machine::which("cargo-deny") {
        Some(own) => own,
        None => {
            if !machine::is_executable(&kept) {
                Step::cargo(format!("build cargo-deny {DENY_VERSION} (once; 3 minutes)"))
                    .args([
                        "install",
                        "--locked",
                        "cargo-deny",
                        "--version",
                        DENY_VERSION,
                    ])
                    .arg("--root")
                    .arg(tools.join(format!("cargo-deny-{DENY_VERSION}")))
                    .env_remove("CARGO_TARGET_DIR")
                    .run()?;
            }
            kept
        }
    };
    let mut step = Step::new("check the dependencies", program);
    step.without_what_cargo_run_set();
    step.args(["check", "bans", "licenses", "sources"]) // deny.toml says why not advisories
        .current_dir(&workspace.root)
        .run()
}

/// What became of one step.
struct Outcome {
    check: Check,
    took: Duration,
    error: Option<anyhow::Error>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let mut outcomes = Vec::new();
    for check in Check::ALL {
        if !args.steps.is_empty() && !args.steps.contains(&check) {
            continue;
        }
        eprintln!("\n==== {}", check.name());
        let start = Instant::now();
        let error = check.run(&workspace).err();
        let took = start.elapsed();
        match &error {
            Some(error) => eprintln!("==== {} FAILED: {error:#}", check.name()),
            None => eprintln!("==== {} ok ({})", check.name(), seconds(took)),
        }
        outcomes.push(Outcome { check, took, error });
    }
    println!("\n{}", table(&outcomes));
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| outcome.error.is_some())
        .map(|outcome| outcome.check.name())
        .collect();
    if !failed.is_empty() {
        for outcome in &outcomes {
            if let Some(error) = &outcome.error {
                eprintln!("{}: {error:#}", outcome.check.name());
            }
        }
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!(" {:<15}{:<8}{:>10}\n", "step", "result", "time");
    let mut row = |step: &str, result: &str, took: Duration| {
        // Writing into a String cannot fail.
        writeln!(text, " {step:<15}{result:<8}{:>10}", seconds(took)).ok();
    };
    for outcome in outcomes {
        let result = if outcome.error.is_some() {
            "FAILED"
        } else {
            "ok"
        };
        row(outcome.check.name(), result, outcome.took);
    }
    row("all", "", outcomes.iter().map(|outcome| outcome.took).sum());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_table_has_a_line_for_each_step_and_their_sum() {
        let outcomes = [
            Outcome {
                check: Check::Fmt,
                took: Duration::from_millis(1_250),
                error: None,
            },
            Outcome {
                check: Check::ClippyKernel,
                took: Duration::from_secs(60),
                error: Some(anyhow::anyhow!("no")),
            },
        ];
        assert_eq!(
            table(&outcomes),
            " step           result        time\n fmt            ok           1.2 s\n \
             clippy-kernel  FAILED      60.0 s\n all                        61.2 s\n"
        );
    }
}
