//! `cargo xtask sweep fuzz`: any bytes for what reads bytes of strangers, for as long as somebody has time.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, PoisonError},
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    step::{self, Step},
    workspace::Workspace,
};

/// What counts edges and comparisons for libFuzzer: all of it is in the stable compiler.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// Seconds that one input may take, and MiB that a target may have.
const MOST_SECONDS: u32 = 10;
const MOST_MIB: u32 = 512;

/// Give the policy parser, each structured format, the decoder of events, the reader of BTF and redaction any bytes (libFuzzer; fuzz/README.md).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these targets [default: all].
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// How long each target runs.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    seconds: u32,
    /// How many run at a time.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    jobs: usize,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let fuzz = workspace.root.join("fuzz");
    let targets = chosen(&all(&fuzz)?, &args.targets)?;
    let programs = build(&workspace, &fuzz)?;
    let kept = workspace.target.join("fuzz");
    let left = Mutex::new(targets.iter().rev().collect::<Vec<_>>());
    let results = Mutex::new(Vec::new());
    println!(
        "\n {:<10} {:>6} {:>12} {:>7} {:>9} {:>9}  result",
        "target", "time", "inputs", "edges", "slowest", "memory"
    );
    thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some(target) = next else { return };
                    let one = one(&programs.join(target), &fuzz, &kept, target, args.seconds);
                    if let Ok(one) = &one {
                        println!("{}", one.row(target));
                    }
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push((target, one));
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut bad = Vec::new();
    for (target, one) in results {
        match one {
            Ok(one) if one.crash.is_none() => {}
            Ok(one) => bad.push(format!("{target}: {}", one.crash.unwrap_or_default())),
            Err(error) => bad.push(format!("{target}: {error:#}")),
        }
    }
    ensure!(bad.is_empty(), "{}", bad.join("\n"));
    println!("\n{} targets, 0 crashes, 0 time-outs.", targets.len());
    Ok(())
}

/// The targets that there are.
fn all(fuzz: &Path) -> Result<Vec<String>> {
    let folder = fuzz.join("fuzz_targets");
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
            all.push(name.to_owned());
        }
    }
    all.sort();
    Ok(all)
}

fn chosen(all: &[String], asked: &[String]) -> Result<Vec<String>> {
    for target in asked {
        if !all.contains(target) {
            bail!(
                "there is no target `{target}`; there are {}",
                all.join(", ")
            );
        }
    }
    Ok(if asked.is_empty() { all } else { asked }.to_vec())
}

/// Builds all targets and says where they are.
fn build(workspace: &Workspace, fuzz: &Path) -> Result<PathBuf> {
    let about = Step::new("ask the compiler about its host", "rustc")
        .arg("-vV")
        .read()?;
    let host = about
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("`rustc -vV` names no host")?;
    let target = workspace.target.join("fuzz-build");
    // With `--target` the flags are not those of build scripts.
    Step::cargo("build the fuzz targets")
        .args(["build", "--release", "--bins", "--target", host])
        .env("RUSTFLAGS", INSTRUMENTED)
        .env("CARGO_TARGET_DIR", &target)
        .hint("libFuzzer is C++: a C++ compiler is needed.")
        .current_dir(fuzz)
        .run()?;
    Ok(target.join(host).join("release"))
}

/// What one target came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Run {
    seconds: u32,
    inputs: u64,
    edges: u64,
    slowest: u64,
    mib: u64,
    crash: Option<String>,
}

impl Run {
    fn row(&self, target: &str) -> String {
        format!(
            " {target:<10} {:>4} s {:>12} {:>7} {:>7} s {:>5} MiB  {}",
            self.seconds,
            self.inputs,
            self.edges,
            self.slowest,
            self.mib,
            if self.crash.is_some() { "FAILED" } else { "ok" }
        )
    }
}

fn one(program: &Path, fuzz: &Path, kept: &Path, target: &str, seconds: u32) -> Result<Run> {
    // What was found before is gone on with, and what crashed stays.
    let corpus = kept.join("corpus").join(target);
    let crashes = kept.join("crashes").join(target);
    for folder in [&corpus, &crashes] {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let mut step = Step::new(format!("fuzz {target}"), program).arg(&corpus);
    let seeds = fuzz.join("seeds").join(target);
    if seeds.is_dir() {
        step = step.arg(seeds);
    }
    let (mut command, failure) = step
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={MOST_SECONDS}"))
        .arg(format!("-rss_limit_mb={MOST_MIB}"))
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .args(["-print_final_stats=1", "-verbosity=1"])
        .announce();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failure.because(format_args!("cannot be run: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let mut run = read(&said, seconds);
    if !output.status.success() {
        run.crash = Some(
            failure
                .because(format_args!(
                    "{}; the input is in {}",
                    step::ended(output.status),
                    crashes.display()
                ))
                .to_string()
                + "\n"
                + &last_lines(&said, 30),
        );
        return Ok(run);
    }
    // A fuzzer that did nothing has found nothing either.
    ensure!(
        run.inputs > 0 && run.edges > 0,
        "it tried nothing:\n{}",
        last_lines(&said, 30)
    );
    Ok(run)
}

/// What libFuzzer says at its end.
fn read(said: &str, seconds: u32) -> Run {
    let number = |name: &str| {
        said.lines()
            .filter_map(|line| line.trim().strip_prefix(name))
            .filter_map(|rest| rest.trim_start_matches(':').trim().parse().ok())
            .next_back()
            .unwrap_or(0)
    };
    let edges = said
        .lines()
        .filter_map(|line| line.split_once("cov: ")?.1.split(' ').next()?.parse().ok())
        .max()
        .unwrap_or(0);
    Run {
        seconds,
        inputs: number("stat::number_of_executed_units"),
        edges,
        slowest: number("stat::slowest_unit_time_sec"),
        mib: number("stat::peak_rss_mb"),
        crash: None,
    }
}

fn last_lines(said: &str, count: usize) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_is_read() {
        let said = "#2\tINITED cov: 71 ft: 72 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                    #128\tNEW    cov: 1071 ft: 90 corp: 2/3b lim: 4 exec/s: 0 rss: 31Mb\n\
                    Done 1000 runs in 2 second(s)\n\
                    stat::number_of_executed_units: 1000\n\
                    stat::average_exec_per_sec:     500\n\
                    stat::slowest_unit_time_sec:    3\n\
                    stat::peak_rss_mb:              44\n";
        assert_eq!(
            read(said, 2),
            Run {
                seconds: 2,
                inputs: 1000,
                edges: 1071,
                slowest: 3,
                mib: 44,
                crash: None
            }
        );
        assert_eq!(read("", 2).inputs, 0);
    }

    #[test]
    fn a_target_that_is_not_there_is_refused_with_those_that_are() {
        let all = ["ini".to_owned(), "yaml".to_owned()];
        assert_eq!(chosen(&all, &[]).unwrap(), all);
        let error = chosen(&all, &["yml".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("there are ini, yaml"), "{error}");
    }

    #[test]
    fn each_target_has_a_program() {
        let fuzz = Workspace::find().unwrap().root.join("fuzz");
        let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
        let all = all(&fuzz).unwrap();
        assert!(all.len() >= 11, "{all:?}");
        for target in all {
            let path = format!("path = \"fuzz_targets/{target}.rs\"");
            assert!(manifest.contains(&path), "{target}");
        }
    }
}
