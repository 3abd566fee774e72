//! `cargo xtask demo`: real drifts on real files, made by ordinary tools, and what the agent makes of each.
//!
//! The agent is started as a user would start it. What it says is not taken on trust: the demo knows which process it ran, and reads each file
//! back itself.

mod agent;
mod drifts;
mod incident;
mod interrupt;
mod record;
mod residue;
mod scene;
mod table;

use std::{
    io::{self, IsTerminal as _, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    build, machine, setup,
    workspace::{Profile, Workspace},
};
use agent::Agent;
use drifts::{Ran, Tool};
use incident::{Incident, Verdict};
use interrupt::Interrupt;
pub(crate) use interrupt::Interrupted;
use scene::Scene;
use table::{Row, Style};

const EXAMPLES: &str = "\
Examples:
  cargo xtask demo                       build, show, leave nothing behind
  cargo xtask demo --agent PATH          with an agent that is built already
  cargo xtask demo --sensor tracepoint   fail where the kernel takes no probes
  sudo -E cargo xtask demo               as root, which probes need; without, the same by scans

Status 0: every drift was seen, attributed, healed and verified, and nothing was left behind.";

/// See real drifts being seen, attributed, healed and verified.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Use this agent instead of building one.
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Go on after a drift that was not handled as it should be.
    #[arg(long)]
    keep_going: bool,
    /// What the agent looks with.
    #[arg(long, value_name = "SENSOR", default_value = "auto", value_parser = ["auto", "tracepoint", "scan"])]
    sensor: String,
    /// Write every record of the agent to this file too, one a line.
    #[arg(long, value_name = "PATH")]
    records: Option<PathBuf>,
}

impl Args {
    /// In CI falling back to scans is a defect where the kernel would take probes.
    pub(crate) fn for_ci() -> Args {
        let sensor = if machine::expects_probes() {
            "tracepoint"
        } else {
            "auto"
        };
        Args {
            agent: None,
            keep_going: true,
            sensor: sensor.to_owned(),
            records: None,
        }
    }
}

/// How the agent found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sensor {
    /// So many kernel programs.
    Probes(usize),
    Scan,
}

/// How long a drift may take from the tool's end to its healed record.
const PATIENCE: Duration = Duration::from_secs(15);
/// The promise: at least so many ways of drifting are shown.
const LEAST_SHOWN: usize = 6;

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let program = match &args.agent {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("finding the agent {}", path.display()))?,
        None => build_agent(&workspace, args)?,
    };
    let interrupt = Interrupt::listen()?;
    let scene = Scene::set()?;
    let mounts = residue::Mounts::now()?;
    let mut out = Printer::new();

    let mut agent = Agent::start(&program, &scene, &args.sensor, args.records.as_deref())?;
    agent.wait_until_ready(&scene.ready_file(), &interrupt)?;
    let programs = residue::programs_of(agent.pid());
    let sensor = match programs.len() {
        0 => Sensor::Scan,
        count => Sensor::Probes(count),
    };
    out.header(&scene, sensor, &agent)?;

    let mut tally = Tally::default();
    for tool in drifts::all(&scene) {
        interrupt.check()?;
        let row = show_one(&tool, &scene, sensor, &mut agent, &interrupt)?;
        tally.count(&row);
        out.row(&row)?;
        if !row.complaints.is_empty() && !args.keep_going {
            break;
        }
    }
    out.line("")?;
    if sensor == Sensor::Scan
        && let Some(reason) = &tally.unknown
    {
        out.wrapped(&format!("By whom is unknown: {reason}."))?;
    }

    let mut left = scene.undeclared_files();
    agent.stop(&interrupt)?;
    left.extend(residue::programs_still_there(&programs));
    left.extend(mounts.added(scene.root())?);
    left.extend(scene.clear());
    tally.conclude(&mut out, sensor, &left)?;
    out.next_steps(&workspace.shown(&program).to_string())
}

/// Without the kernel toolchain there is still an agent, which scans.
fn build_agent(workspace: &Workspace, args: &Args) -> Result<PathBuf> {
    match setup::ensure(workspace) {
        Ok(toolchain) => {
            build::probes(workspace, &toolchain)?;
        }
        Err(error) if args.sensor == "tracepoint" => return Err(error),
        Err(error) => {
            eprintln!(
                "{error:#}\n\nWithout kernel programs the agent scans; the demo goes on with that."
            );
        }
    }
    build::agent(workspace, Profile::Release)
}

/// One tool, one drift, one line.
fn show_one(
    tool: &Tool,
    scene: &Scene,
    sensor: Sensor,
    agent: &mut Agent,
    interrupt: &Interrupt,
) -> Result<Row> {
    agent.forget_earlier_records();
    let pid = match tool.run(&scene.folder())? {
        Ran::Done { pid } => pid,
        Ran::Not { reason } if tool.may_be_missing => return Ok(Row::skipped(&tool.shown, reason)),
        Ran::Not { reason } => return Ok(Row::failed(&tool.shown, reason)),
    };
    let ended = Instant::now();
    let file = scene.file(tool.target);
    let mut incident = Incident::new(&file.path);
    while !incident.is_over() {
        interrupt.check()?;
        let Some((record, at)) = agent.next_record()? else {
            if ended.elapsed() > PATIENCE {
                break;
            }
            continue;
        };
        incident.feed(record, at.saturating_duration_since(ended));
    }
    let mut verdict = Verdict::of(&incident, sensor);
    verdict.hold_against(tool, pid);
    if let Err(difference) = file.compare() {
        verdict.complain(difference);
    }
    Ok(verdict.into_row(&tool.shown))
}

/// What the rows add up to.
#[derive(Debug, Default)]
struct Tally {
    shown: usize,
    good: usize,
    skipped: usize,
    seen_ns: Vec<u64>,
    heal_ns: Vec<u64>,
    /// Why no actor was named, as the agent says.
    unknown: Option<String>,
}

impl Tally {
    fn count(&mut self, row: &Row) {
        if row.skipped {
            self.skipped += 1;
            return;
        }
        self.shown += 1;
        self.good += usize::from(row.complaints.is_empty());
        self.seen_ns.extend(row.seen_ns);
        self.heal_ns.extend(row.heal_ns);
        if self.unknown.is_none() {
            self.unknown.clone_from(&row.unknown);
        }
    }

    fn conclude(&self, out: &mut Printer, sensor: Sensor, left: &[String]) -> Result<()> {
        let Tally { shown, good, .. } = self;
        out.wrapped(&match sensor {
            Sensor::Probes(_) => format!(
                "{good} of {shown} drifts seen by the kernel, attributed, healed, verified."
            ),
            Sensor::Scan => format!("{good} of {shown} drifts found by scans, healed, verified."),
        })?;
        if let (Some(seen), Some(healed)) =
            (table::median(&self.seen_ns), table::median(&self.heal_ns))
        {
            out.wrapped(&format!(
                "Median: seen {} after the change, healed {} after that.",
                table::time(seen),
                table::time(healed)
            ))?;
        }
        for thing in left {
            out.wrapped(&format!("LEFT BEHIND: {thing}"))?;
        }
        if left.is_empty() {
            out.wrapped("Nothing was left behind.")?;
        }
        if good < shown || !left.is_empty() {
            bail!("the agent did not do all that it should; see above");
        }
        if *shown < LEAST_SHOWN {
            bail!("only {shown} ways of drifting could be shown here, {LEAST_SHOWN} are needed");
        }
        Ok(())
    }
}

/// The screen. An error here (a closed pipe) ends the demo like any other: everything is put away first.
struct Printer {
    out: io::Stdout,
    style: Style,
}

impl Printer {
    fn new() -> Printer {
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Printer {
            out: io::stdout(),
            style: Style { colour },
        }
    }

    fn line(&mut self, text: &str) -> Result<()> {
        writeln!(self.out, "{text}").context("writing to the terminal")
    }

    fn wrapped(&mut self, text: &str) -> Result<()> {
        for line in table::wrap(text, table::WIDTH, "  ") {
            self.line(&line)?;
        }
        Ok(())
    }

    fn header(&mut self, scene: &Scene, sensor: Sensor, agent: &Agent) -> Result<()> {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel = table::major_minor(&kernel);
        let eyes = match sensor {
            Sensor::Probes(1) => "probes tracepoint (1 kernel program)".to_owned(),
            Sensor::Probes(count) => format!("probes tracepoint ({count} kernel programs)"),
            Sensor::Scan => "no probes, so by scans".to_owned(),
        };
        self.line(&format!("drift demo: kernel {kernel}, {eyes}"))?;
        self.line(&format!("            {}\n", scene.describe()))?;
        if sensor == Sensor::Scan {
            for line in agent.said() {
                self.wrapped(&format!("  the agent says: {line}"))?;
            }
            self.line("")?;
        }
        let heading = table::heading();
        self.line(&heading)
    }

    fn row(&mut self, row: &Row) -> Result<()> {
        for line in self.style.lines(row) {
            self.line(&line)?;
        }
        self.out.flush().context("writing to the terminal")
    }

    fn next_steps(&mut self, agent: &str) -> Result<()> {
        self.line("")?;
        self.line("Try it on a folder of yours, watching only:")?;
        self.line(&format!(
            "   sudo {agent} snapshot /etc/ssh -o policies/ssh.yaml"
        ))?;
        self.line(&format!("   sudo {agent} run --policies policies"))
    }
}
