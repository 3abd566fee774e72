//! `cargo xtask bench overhead`: what being watched adds to single system calls, and to a compiler.

mod table;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;

use self::table::{as_json, goals, table};
use super::{
    calls::LOOPS,
    measure,
    observer::{Declared, Observer, Ready, load},
};
use crate::{
    apt, build,
    interrupt::Interrupt,
    machine,
    step::Step,
    workspace::{Profile, Workspace},
};

const EXAMPLES: &str = "\
Examples:
  sudo -E cargo xtask bench overhead             five rounds; some minutes
  sudo -E cargo xtask bench overhead --rounds 15 more of them, on a machine that has much else to do";

/// Measure what being watched adds to system calls.
///
/// In turns: nobody watches; programs that do nothing at every place where drift's are (the floor); drift; inotify on the directory; `bpftrace` with an
/// opensnoop of one line; the kernel's audit with a rule for one file. What is not there and cannot be installed is left out, and said.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How often each is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The agent to measure [default: built here, optimised].
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Leave out others' programs.
    #[arg(long)]
    alone: bool,
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Nobody,
    Empty,
    Drift,
    Inotify,
    Audit,
    Opensnoop,
}

impl Who {
    const ALL: [Who; 6] = [
        Who::Nobody,
        Who::Empty,
        Who::Drift,
        Who::Inotify,
        Who::Audit,
        Who::Opensnoop,
    ];

    const fn name(self) -> &'static str {
        match self {
            Who::Nobody => "nobody",
            Who::Empty => "empty",
            Who::Drift => "drift",
            Who::Inotify => "inotify",
            Who::Audit => "audit",
            Who::Opensnoop => "opensnoop",
        }
    }

    /// What it needs beside drift: the program, and the package it is in.
    const fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Who::Nobody | Who::Empty | Who::Drift | Who::Inotify => None,
            Who::Audit => Some(("auditctl", "auditd")),
            Who::Opensnoop => Some(("bpftrace", "bpftrace")),
        }
    }
}

const OPENSNOOP: &str = "tracepoint:syscalls:sys_enter_openat { printf(\"%d %s %s\\n\", pid, comm, str(args->filename)); } BEGIN { printf(\"ready\\n\"); }";

/// The name of the last row: `gcc -c`, twelve times, in seconds.
const COMPILE: &str = "gcc -c, 12 times";

/// Figures of one watcher by what was measured, one for each round.
type Figures = BTreeMap<(Who, &'static str), Vec<f64>>;

struct Ground {
    folder: tempfile::TempDir,
    agent: PathBuf,
    empty: PathBuf,
    this: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<()> {
    ensure!(
        machine::is_root(),
        "loading kernel programs needs root: sudo -E cargo xtask bench overhead"
    );
    let interrupt = Interrupt::listen()?;
    let ground = Ground::new(args)?;
    let mut missing = Vec::new();
    let mut here = Vec::new();
    for who in Who::ALL {
        let Some((program, package)) = who.needs() else {
            here.push(who);
            continue;
        };
        if args.alone {
            continue;
        }
        if machine::which(program).is_none() && apt::may_install() {
            // Not being there is said below.
            if let Err(error) = apt::install(&[package]) {
                eprintln!("warning: {error:#}");
            }
        }
        if machine::which(program).is_some() {
            here.push(who);
        } else {
            missing.push(format!(
                "{package} is not installed and cannot be installed from here"
            ));
        }
    }
    let mut figures = Figures::new();
    let begun = load();
    for round in 1..=args.rounds {
        eprintln!("==> round {round} of {}", args.rounds);
        here.retain(|who| match ground.measure(*who, &mut figures, &interrupt) {
            Ok(()) => true,
            Err(error) if matches!(who, Who::Audit | Who::Opensnoop) => {
                missing.push(format!("{}: {error:#}", who.name()));
                false
            }
            Err(error) => {
                missing.push(format!("{}: {error:#}", who.name()));
                *who != Who::Drift && *who != Who::Nobody
            }
        });
        interrupt.check()?;
        ensure!(
            here.contains(&Who::Nobody) && here.contains(&Who::Drift),
            "{}",
            missing.join("\n")
        );
    }
    here.retain(|who| figures.contains_key(&(*who, LOOPS[0])));
    match args.output {
        Output::Table => print!(
            "{}\n{}",
            table(&figures, &here, args.rounds, &begun),
            goals(&figures)
        ),
        Output::Json => println!("{:#}", as_json(&figures, &here, &begun)),
    }
    for why in missing {
        eprintln!("not measured: {why}");
    }
    Ok(())
}

impl Ground {
    fn new(args: &Args) -> Result<Ground> {
        let workspace = Workspace::find()?;
        let agent = match &args.agent {
            Some(agent) => agent.clone(),
            None => build::agent(&workspace, Profile::Release)?,
        };
        // What they do in the kernel is the same, however they were built.
        Step::cargo("build what attaches the empty programs")
            .args(["build", "--package", "drift-agent"])
            .args(["--example", "empty_probes"])
            .env("DRIFT_PROBES", workspace.probes())
            .current_dir(&workspace.root)
            .run()?;
        let built = workspace.agent(Profile::Dev);
        let empty = built.with_file_name("examples").join("empty_probes");
        let folder = tempfile::tempdir().context("making a scratch folder")?;
        for name in ["watched", "other"] {
            fs::create_dir(folder.path().join(name))?;
            fs::write(folder.path().join(name).join("file.conf"), "x")?;
        }
        fs::write(folder.path().join("a.c"), source())?;
        Ok(Ground {
            agent,
            empty,
            this: env::current_exe().context("finding this program")?,
            folder,
        })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn measure(&self, who: Who, figures: &mut Figures, interrupt: &Interrupt) -> Result<()> {
        let watched = self.at("watched/file.conf");
        let _watching = self.watch(who, &watched, interrupt)?;
        let output = Command::new(&self.this)
            .args(["bench", "calls"])
            .arg(&watched)
            .arg(self.at("other/file.conf"))
            .output()?;
        ensure!(
            output.status.success(),
            "the loops ended with {}",
            output.status
        );
        let text = String::from_utf8(output.stdout)?;
        let times: Vec<f64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(times.len() == LOOPS.len(), "{text}");
        for (name, time) in LOOPS.into_iter().zip(times) {
            figures.entry((who, name)).or_default().push(time);
        }
        if matches!(who, Who::Nobody | Who::Empty | Who::Drift | Who::Audit)
            && machine::which("gcc").is_some()
        {
            let mut compile = Command::new("sh");
            compile.args([
                "-c",
                "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do gcc -c -O0 a.c -o a.o || exit 1; done",
            ]);
            compile.current_dir(self.folder.path());
            let cost = measure::once(&mut compile)?;
            figures
                .entry((who, COMPILE))
                .or_default()
                .push(cost.cpu.as_secs_f64() * 1e9);
        }
        Ok(())
    }

    fn watch(&self, who: Who, watched: &Path, interrupt: &Interrupt) -> Result<Option<Watching>> {
        let observer = match who {
            Who::Nobody => return Ok(None),
            Who::Empty => {
                let mut command = Command::new("unshare");
                command.args([
                    "--mount",
                    "sh",
                    "-c",
                    "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; exec \"$0\"",
                ]);
                command.arg(&self.empty);
                Observer::start(command, Ready::Line("ready"), interrupt)?
            }
            Who::Drift => {
                let root = self.at("drift");
                if root.exists() {
                    fs::remove_dir_all(&root)?;
                }
                let declared = Declared::new(&root, &[watched.to_owned()], "x")?;
                declared.agent(&self.agent, &[], interrupt)?
            }
            Who::Inotify => {
                let mut command = Command::new(&self.this);
                command.args(["bench", "watcher"]).arg(self.at("watched"));
                Observer::start(command, Ready::Line("ready"), interrupt)?
            }
            Who::Opensnoop => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; exec bpftrace -e \"$0\""]);
                command.arg(OPENSNOOP);
                Observer::start(command, Ready::Line("ready"), interrupt)?
            }
            Who::Audit => {
                audit(&["-e", "1"])?;
                let watching = Watching::Audit;
                let file = watched.display().to_string();
                audit(&["-w", &file, "-p", "wa"])?;
                return Ok(Some(watching));
            }
        };
        Ok(Some(Watching::Observer {
            _observer: observer,
        }))
    }
}

/// Ended when dropped.
enum Watching {
    Observer { _observer: Observer },
    Audit,
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Watching::Audit = self {
            for arguments in [&["-D"][..], &["-e", "0"]] {
                if let Err(error) = audit(arguments) {
                    eprintln!("warning: {error:#}");
                }
            }
        }
    }
}

fn audit(arguments: &[&str]) -> Result<()> {
    let output = Command::new("auditctl").args(arguments).output()?;
    ensure!(
        output.status.success(),
        "auditctl {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// A source file that takes the compiler some work and the file system some opens.
fn source() -> String {
    let mut text =
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
            .to_owned();
    for number in 0..200 {
        text += &format!(
            "int f{number}(int a) {{ char b[64]; snprintf(b, sizeof b, \"%d\", a); return atoi(b) + {number}; }}\n"
        );
    }
    text
}
