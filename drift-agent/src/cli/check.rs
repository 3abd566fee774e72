//! `drift-agent check`: look at everything once, say what is not as declared, end.

mod cache;

use std::{
    collections::HashMap,
    io::{self, IsTerminal},
    mem,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use self::cache::Cache;
use super::{format::Format, root::HostRoot};
use crate::{
    compare::{self, Drift},
    declare::{self, Declared, Severity},
    observe::{Look, Pace, Row, Seen, scan},
    pipeline::{also_declared, declared_side, detail, observed_side},
    report::{Cause, Event, Output, Record, Reporter, complain, progress},
};

/// Look at every declared path once and say what is not as declared.
///
/// Needs no probes and no running agent, changes nothing that is declared, and works as any user for what that user can read. A content that is declared by its digest
/// need not be there. What is seen is kept for the next check, in a file of the user's cache folder (docs/limits.md).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// Folder of policy files (*.yaml, *.yml).
    #[arg(long, value_name = "DIR")]
    policies: PathBuf,
    #[command(flatten)]
    root: HostRoot,
    /// Read every file. Otherwise those whose inode, owner, mode, size and times are all as an earlier check has seen them are not read again.
    #[arg(long)]
    full: bool,
    /// Folder for what is seen [default: $XDG_CACHE_HOME/drift-agent or ~/.cache/drift-agent; for root /var/cache/drift-agent].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Look at no more than this many paths a second.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Run only when nobody else wants the processors, and come last at the disk (nice 19).
    #[arg(long)]
    idle: bool,
    /// A table for people; records (docs/record.schema.json) for programs.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "\
Status:
  0   everything is as declared, or says what is declared in another way
  1   a bit: something is there that was not declared
  2   a bit: something declared is missing
  4   a bit: something is there and differs
  16  a bit: something could not be looked at
  10  the policies have problems: nothing was looked at
  64  no answer: a wrong command line, something that cannot be read or written

Examples:
  drift-agent check --policies policies
  drift-agent check --policies policies --full --idle --rate 2000
  drift-agent check --policies policies -o json | jq '.[].path'";

/// A scan that takes longer than this shows how far it is, on a terminal.
const LONG: Duration = Duration::from_secs(1);

/// Records handed over before what was handed over is waited for.
const AT_ONCE: usize = 64;

/// For whoever reads standard output: a pager may be left alone for long.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// What a terminal is taken to have.
const COLUMNS: usize = 100;

const NOBODY: &str = "a check sees what is there, not who did it";

impl Check {
    /// Runs the command.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn run(self) -> Result<ExitCode> {
        let Check {
            policies,
            root,
            full,
            cache,
            rate,
            idle,
            output,
        } = self;
        if idle {
            rustix::process::setpriority_process(None, 19).context("cannot lower the priority")?;
        }
        let host = root.host()?;
        let cache = Cache::of(&policies, cache);
        let kept = cache.declared();
        let snapshot = match declare::load_digests(&policies, &root.host_root, kept.as_deref()) {
            Ok(snapshot) => snapshot,
            Err(why) => return Ok(super::policy::refused(&why)),
        };
        let seen = if full { Seen::default() } else { cache.seen() };
        let began = SystemTime::now();
        let start = Instant::now();
        let mut shown = false;
        let told = scan(
            &host,
            &snapshot.files,
            Pace::of(rate),
            &seen,
            |declared, look| tell(declared, &look, began),
            |done| {
                if start.elapsed() > LONG && io::stderr().is_terminal() {
                    progress(format_args!(
                        "\r{done} of {} looked at ",
                        snapshot.files.len()
                    ));
                    shown = true;
                }
            },
        );
        if shown {
            complain("");
        }
        let took = start.elapsed();
        cache.keep(&snapshot.files, &seen, &told);
        let is_read = |(_, told): &&(usize, Told)| !matches!(told.fate, Fate::AsSeen);
        let unread = snapshot.files.len() - told.iter().filter(is_read).count();
        let found = told
            .into_iter()
            .filter_map(|(_, told)| Some((*told.record?, told.inode)));
        let records = with_same_inodes(found.collect());
        match output {
            Format::Json | Format::Yaml => {
                let values = values(&records)?;
                super::policy::print(&output.print(values, String::new))?;
            }
            Format::Jsonl => say(&records, Output::Jsonl)?,
            Format::Table => {
                say(&records, Output::Table)?;
                let summary = summary(snapshot.files.len(), &records, unread, took);
                super::policy::print(&summary)?;
            }
        }
        // The process ends: of many files, freeing them one by one would take as long as a tenth of the look.
        mem::forget((snapshot, seen));
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

/// What there is to say of a path.
struct Told {
    record: Option<Box<Record>>,
    /// Of what stands there.
    inode: Option<Inode>,
    fate: Fate,
}

/// What is known of a path for the next check.
enum Fate {
    /// What was known before.
    AsSeen,
    Known(Row),
    /// It must be read again.
    Unknown,
}

/// `None`: it is as declared, and as it was seen before.
fn tell(declared: &Declared, look: &Look, began: SystemTime) -> Option<Told> {
    let Look { observed, is_fresh } = look;
    let fate = match is_fresh {
        false => Fate::AsSeen,
        true => Row::of(observed, began).map_or(Fate::Unknown, Fate::Known),
    };
    let inode = observed.stat.map(|stat| (stat.ino, stat.dev));
    let compared = compare::compare(declared, observed);
    if compared.drifts.is_empty() {
        return is_fresh.then_some(Told {
            record: None,
            inode,
            fate,
        });
    }
    let mut record = Record::new(Event::DriftDetected);
    record.policy = Some(declared.policy.name.clone());
    record.version = Some(declared.policy.version.clone());
    record.path = Some(declared.path.clone());
    record.declared = Some(declared_side(declared));
    record.observed = Some(observed_side(observed));
    record.message = detail(declared, observed, &compared);
    record.severity = Some(declared.severity);
    if compared.drifts == [Drift::ContentEquivalent] {
        record.severity = Some(Severity::Info);
    }
    record.cause = Some(Cause::Scan);
    record.actor = Some(Err(NOBODY.to_owned()));
    record.drift = compared.drifts;
    let record = Some(Box::new(record));
    Some(Told {
        record,
        inode,
        fate,
    })
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

fn values(records: &[Record]) -> Result<Vec<Value>> {
    let node = node();
    let lines = records.iter().map(|record| record.line(&node));
    lines
        .map(|line| Ok(serde_json::from_str(&line?)?))
        .collect()
}

fn summary(files: usize, records: &[Record], unread: usize, took: Duration) -> String {
    let took = match (took.as_secs_f64(), unread) {
        (took, 0) => format!("{took:.2} s"),
        (took, unread) => {
            format!("{took:.2} s; {unread} files are as last seen and were not read again")
        }
    };
    // Of no account to the status, and to the sum neither.
    let is_other = |record: &&Record| record.drift == [Drift::ContentEquivalent];
    let others = records.iter().filter(is_other).count();
    let note = match others {
        0 => String::new(),
        others => format!(", {others} of them written in another way"),
    };
    let said = match (files, records.len() - others) {
        (0, _) => return "the policies declare no paths: nothing to look at\n".to_owned(),
        (1, 0) => format!("the one declared path is as declared{note}"),
        (files, 0) => format!("all {files} paths are as declared{note}"),
        (files, drifting) => {
            let right = files - drifting;
            let (is, is_not) = (are(right), are(drifting));
            format!("{right} of {files} paths {is} as declared{note}, {drifting} {is_not} not")
        }
    };
    let is_long = said.len() + took.len() + " ()".len() > COLUMNS;
    let gap = if is_long { '\n' } else { ' ' };
    format!("{said}{gap}({took})\n")
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_it_fits_a_terminal() {
        let record = |kind| {
            let mut record = Record::new(Event::DriftDetected);
            record.drift = vec![kind];
            record
        };
        let mut records = vec![record(Drift::Content)];
        let sum = |records: &[Record], unread| summary(25, records, unread, Duration::ZERO);
        assert_eq!(
            sum(&records, 0),
            "24 of 25 paths are as declared, 1 is not (0.00 s)\n"
        );
        records.push(record(Drift::ContentEquivalent));
        let long = sum(&records, 11);
        assert_eq!(
            long,
            "24 of 25 paths are as declared, 1 of them written in another way, 1 is not\n\
             (0.00 s; 11 files are as last seen and were not read again)\n"
        );
        assert!(long.lines().all(|line| line.len() <= COLUMNS));
    }
}
