//! `drift-agent check`: look at everything once, say what is not as declared, end.

use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::{
    compare::{self, Drift},
    declare::{self, Holds, Severity},
    observe::{Host, scan},
    pipeline::{also_declared, declared_side, detail, observed_side},
    report::{Cause, Event, Output, Record, Reporter},
};

/// Look at every declared path once and say what is not as declared.
///
/// Needs no probes and no running agent, changes nothing, and works as any user for what that user can read.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// Folder of policy files (*.yaml, *.yml).
    #[arg(long, value_name = "DIR")]
    policies: PathBuf,
    /// Read every file whatever its times say. So far that is what every check does: none keeps what an earlier one saw.
    #[arg(long)]
    full: bool,
    /// A table for people, one JSON record a line (docs/record.schema.json), or one JSON array of records.
    #[arg(short, long, value_enum, default_value_t = OutputArg::Table)]
    output: OutputArg,
}

const EXAMPLES: &str = "\
Status:
  0   everything is as declared, or says what is declared in another way
  1   a bit: something is there that was not declared
  2   a bit: something declared is missing
  4   a bit: something is there and differs
  16  a bit: something could not be looked at
  10  the policies have problems: nothing was looked at

Examples:
  drift-agent check --policies policies
  drift-agent check --policies policies -o json | jq '.[].path'";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputArg {
    Table,
    Jsonl,
    Json,
}

/// Threads that look: reading small files is waiting for the kernel, and more than this waits for its locks.
pub(super) const MOST_THREADS: usize = 8;

/// A scan that takes longer than this shows how far it is, on a terminal.
const LONG: Duration = Duration::from_secs(1);

/// Records handed over before what was handed over is waited for.
const AT_ONCE: usize = 64;

/// For whoever reads standard output: a pager may be left alone for long.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

const NOBODY: &str = "a check sees what is there, not who did it";

impl Check {
    /// Runs the command.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn run(self) -> Result<ExitCode> {
        let Check {
            policies,
            // Nothing is skipped, so there is nothing to ask for.
            full: _,
            output,
        } = self;
        let snapshot = match declare::load(&policies, Path::new("/"), None, &Holds::new()) {
            Ok(snapshot) => snapshot,
            Err(why) => return Ok(super::policy::refused(&why)),
        };
        let host = Host::new(Path::new("/")).context("cannot open the root directory")?;
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let start = Instant::now();
        let mut shown = false;
        let found = scan(
            &host,
            &snapshot.files,
            threads.min(MOST_THREADS),
            |declared, observed| {
                let compared = compare::compare(declared, &observed);
                if compared.drifts.is_empty() {
                    return None;
                }
                let mut record = Record::new(Event::DriftDetected);
                record.policy = Some(declared.policy.name.clone());
                record.version = Some(declared.policy.version.clone());
                record.path = Some(declared.path.clone());
                record.declared = Some(declared_side(declared));
                record.observed = Some(observed_side(&observed));
                record.message = detail(declared, &observed, &compared);
                record.severity = Some(declared.severity);
                if compared.drifts == [Drift::ContentEquivalent] {
                    record.severity = Some(Severity::Info);
                }
                record.cause = Some(Cause::Scan);
                record.actor = Some(Err(NOBODY.to_owned()));
                record.drift = compared.drifts;
                let inode = observed.stat.map(|stat| (stat.ino, stat.dev));
                Some((record, inode))
            },
            |done| {
                if start.elapsed() > LONG && io::stderr().is_terminal() {
                    eprint!("\r{done} of {} looked at ", snapshot.files.len());
                    shown = true;
                }
            },
        );
        if shown {
            eprintln!();
        }
        let took = start.elapsed();
        let records = with_same_inodes(found);
        match output {
            OutputArg::Json => json(&records)?,
            OutputArg::Jsonl => say(&records, Output::Jsonl)?,
            OutputArg::Table => {
                say(&records, Output::Table)?;
                super::policy::print(&summary(snapshot.files.len(), &records, took))?;
            }
        }
        Ok(ExitCode::from(status(
            records.iter().flat_map(|record| &record.drift),
        )))
    }
}

/// Which inode an observed path has.
type Inode = (u64, (u32, u32));

/// Tells of files with other names which of these are declared, too.
fn with_same_inodes(found: Vec<(Record, Option<Inode>)>) -> Vec<Record> {
    let is_linked = |record: &Record| record.drift.contains(&Drift::Hardlinked);
    let mut paths: HashMap<Inode, Vec<PathBuf>> = HashMap::new();
    for (record, inode) in &found {
        if let (true, Some(inode), Some(path)) = (is_linked(record), inode, &record.path) {
            paths.entry(*inode).or_default().push(path.clone());
        }
    }
    let with = |(mut record, inode): (Record, Option<Inode>)| {
        let others = inode.and_then(|inode| paths.get(&inode));
        let others = others.into_iter().flatten();
        let others = others.filter(|path| record.path.as_ref() != Some(path));
        if let (true, Some(also)) = (is_linked(&record), also_declared(others)) {
            let message = record.message.take();
            record.message =
                Some(message.map_or(also.clone(), |message| format!("{message}; {also}")));
        }
        record
    };
    found.into_iter().map(with).collect()
}

fn node() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

fn say(records: &[Record], output: Output) -> Result<()> {
    let mut reporter = Reporter::new(output, &node(), None)?;
    for some in records.chunks(AT_ONCE) {
        for record in some {
            reporter.report(record)?;
        }
        // Nothing is gained here by dropping what a slow reader has not taken: it is waited for.
        reporter.flush(PATIENCE)?;
    }
    Ok(())
}

fn json(records: &[Record]) -> Result<()> {
    let node = node();
    let mut out = io::stdout().lock();
    let mut text = String::from("[");
    for (index, record) in records.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(record.line(&node)?.trim_end());
    }
    text.push_str("\n]\n");
    match out.write_all(text.as_bytes()) {
        // That nobody reads on is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn summary(files: usize, records: &[Record], took: Duration) -> String {
    let took = took.as_secs_f64();
    // Of no account to the status, and to the sum neither.
    let is_other = |record: &&Record| record.drift == [Drift::ContentEquivalent];
    let others = records.iter().filter(is_other).count();
    let note = match others {
        0 => String::new(),
        others => format!(", {others} of them written in another way"),
    };
    match (files, records.len() - others) {
        (0, _) => "the policies declare no paths: nothing to look at\n".to_owned(),
        (files, 0) => format!("all {files} paths are as declared{note} ({took:.2} s)\n"),
        (files, drifting) => {
            let right = files - drifting;
            format!(
                "{right} of {files} paths are as declared{note}, {drifting} are not ({took:.2} s)\n"
            )
        }
    }
}

/// The status that these kinds of drift come to.
pub(super) fn status<'d>(drifts: impl Iterator<Item = &'d Drift>) -> u8 {
    drifts.fold(0, |status, drift| status | bit(*drift))
}

/// What a kind of drift adds to the status.
const fn bit(drift: Drift) -> u8 {
    match drift {
        // It says what is declared.
        Drift::ContentEquivalent => 0,
        Drift::Unexpected => 1,
        Drift::Missing => 2,
        Drift::Content
        | Drift::Type
        | Drift::Mode
        | Drift::Owner
        | Drift::Xattr
        | Drift::LinkTarget
        | Drift::Relocated
        | Drift::Hardlinked => 4,
        Drift::Unreadable | Drift::Unstable => 16,
    }
}
