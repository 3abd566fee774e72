//! What became of each technique on each file system.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use anyhow::{Result, ensure};
use drift_tests::stage::Kind;

use crate::technique::{TECHNIQUES, Technique, UNSEEN};

/// An event that comes later than this after the change does not count as one that tells of it.
const IN_TIME: f64 = 100.0;
/// How many of the cells an event must tell of, in per cent.
const BY_EVENT: usize = 95;

/// One use of a technique.
#[derive(Debug)]
pub struct Run {
    /// What was last said of the path is what stands there.
    pub found: bool,
    /// The kernel half told of it, not the scan.
    pub by_event: bool,
    /// When the event rang, and when it was told: milliseconds after the change was over.
    pub rang: Option<f64>,
    pub told: Option<f64>,
    /// By whom was told.
    pub named: bool,
    /// Records that name a process which has not done it.
    pub wrong: Vec<String>,
    /// Everything that was said of the path.
    pub said: Vec<String>,
}

impl Run {
    fn in_time(&self) -> bool {
        self.by_event && self.rang.is_some_and(|rang| rang <= IN_TIME)
    }
}

#[derive(Debug, Default)]
pub struct Table {
    runs: usize,
    cells: BTreeMap<(&'static str, &'static str), Vec<Run>>,
}

/// One cell, in a word.
#[derive(Debug, PartialEq, Eq)]
enum Cell {
    /// Nothing differs in the end, and nothing is said to.
    Quiet,
    /// Told by an event in each run: the median of when, in milliseconds, and in how many runs by whom.
    Event {
        told: i64,
        named: usize,
    },
    /// By the scan, or a look after a while, in so many runs.
    Late {
        runs: usize,
    },
    Missed {
        runs: usize,
    },
}

impl Table {
    pub fn new(runs: usize) -> Table {
        Table {
            runs,
            ..Table::default()
        }
    }

    pub fn add(&mut self, kind: Kind, technique: &'static Technique, run: Run) {
        let cell = self.cells.entry((technique.function, kind.name()));
        cell.or_default().push(run);
    }

    fn cell(&self, technique: &Technique, kind: Kind) -> Option<Cell> {
        let runs = self.cells.get(&(technique.function, kind.name()))?;
        let missed = runs.iter().filter(|run| !run.found).count();
        if missed > 0 {
            return Some(Cell::Missed { runs: missed });
        }
        if technique.is_harmless() {
            return Some(Cell::Quiet);
        }
        let late = runs.iter().filter(|run| !run.in_time()).count();
        if late > 0 {
            return Some(Cell::Late { runs: late });
        }
        let mut told: Vec<f64> = runs.iter().filter_map(|run| run.told).collect();
        told.sort_by(f64::total_cmp);
        Some(Cell::Event {
            told: told
                .get(told.len() / 2)
                .map_or(0, |told| told.round() as i64)
                .max(0),
            named: runs.iter().filter(|run| run.named).count(),
        })
    }

    /// The file systems that were tried.
    fn kinds(&self) -> Vec<Kind> {
        let tried = |kind: &Kind| self.cells.keys().any(|(_, name)| *name == kind.name());
        Kind::ALL.into_iter().filter(tried).collect()
    }

    fn known(technique: &Technique, kind: Kind) -> Option<&'static str> {
        UNSEEN
            .iter()
            .find(|(function, kinds, _)| *function == technique.function && kinds.contains(&kind))
            .map(|(.., why)| *why)
    }

    /// Whether all is as it must be.
    pub fn verdict(&self) -> Result<()> {
        let mut problems = String::new();
        let (mut all, mut by_event) = (0, 0);
        for technique in TECHNIQUES {
            for kind in self.kinds() {
                let Some(cell) = self.cell(technique, kind) else {
                    continue;
                };
                let runs = &self.cells[&(technique.function, kind.name())];
                let where_ = format!("{} on {}", technique.function, kind.name());
                all += 1;
                let known = Table::known(technique, kind).is_some();
                let bad = match cell {
                    Cell::Missed { .. } => true,
                    Cell::Late { .. } => !known,
                    Cell::Event { .. } | Cell::Quiet => {
                        by_event += 1;
                        false
                    }
                };
                let odd = runs.iter().filter(|run| !run.found || !run.in_time());
                if bad && let Some(run) = odd.into_iter().next() {
                    writeln!(
                        problems,
                        "{where_}: {cell:?}, not {}\n  {}",
                        technique.drift,
                        run.said.join("\n  ")
                    )?;
                }
                if technique.names()
                    && let Some(run) = runs.iter().find(|run| !run.named)
                {
                    writeln!(
                        problems,
                        "{where_}: nobody is named\n  {}",
                        run.said.join("\n  ")
                    )?;
                }
                for wrong in runs.iter().flat_map(|run| &run.wrong) {
                    writeln!(problems, "{where_}: named wrongly: {wrong}")?;
                }
            }
        }
        ensure!(all > 0, "nothing was tried");
        if by_event * 100 < all * BY_EVENT {
            writeln!(
                problems,
                "only {by_event} of {all} told by an event within {IN_TIME} ms"
            )?;
        }
        ensure!(problems.is_empty(), "\n{problems}");
        Ok(())
    }

    /// The figures below the table.
    fn sums(&self) -> String {
        let runs = || self.cells.values().flatten();
        let cells: Vec<Cell> = TECHNIQUES
            .iter()
            .flat_map(|technique| self.kinds().into_iter().map(move |kind| (technique, kind)))
            .filter_map(|(technique, kind)| self.cell(technique, kind))
            .collect();
        let late = cells
            .iter()
            .filter(|cell| matches!(cell, Cell::Late { .. }))
            .count();
        let told = || runs().filter(|run| run.told.is_some());
        format!(
            "{} techniques, {} cells, {} runs: final state found in {} of {}, {} cells by an event within {IN_TIME} ms, {late} later; \
             told {} times, without a name {}, with a wrong one {}",
            TECHNIQUES.len(),
            cells.len(),
            runs().count(),
            runs().filter(|run| run.found).count(),
            runs().count(),
            cells.len() - late,
            told().count(),
            told().filter(|run| !run.named).count(),
            runs().filter(|run| !run.wrong.is_empty()).count(),
        )
    }

    /// The table as a page of the documentation.
    pub fn page(&self) -> Result<String> {
        let mut page =
            format!("{HEAD}\n```text\n{self}\n```\n\n## Where no event tells, or not in time\n\n");
        page.push_str("| technique | on | why, and what finds it |\n|---|---|---|\n");
        for (function, kinds, why) in UNSEEN {
            let technique = TECHNIQUES
                .iter()
                .find(|technique| technique.function == *function);
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            let title = technique.map_or(*function, |technique| technique.title);
            writeln!(page, "| {title} | {} | {why} |", kinds.join(", "))?;
        }
        Ok(page)
    }
}

const HEAD: &str = "\
# Ways of changing a file that somebody may hope nobody sees

Written by `cargo xtask sweep evasion`, which uses each of them on each file system, many times, beside one agent that watches all the files at once. What stands there
in the end must be found each time, and nobody be named who has not done it; at least 95 per cent of the cells must be told of by an event that rang within 100 ms of the change.

* `12 ms`: told by an event; the median time from the change to the record, with the agent as it ships, on a machine of two cores.
* About `1000 ms`: the event came at once, but who made the change still has the file open for writing, or mapped: it is judged when he was quiet for one second, for what
  is there before that may be half of something.
* `?`: in one run or more it is not known who did it (`actor_unknown` says why). A sweep that finds what several calls may have done names nobody.
* `quiet`: nothing differs in the end, and nothing is said to.
* `late`: in one run or more it was found by a look after a while, or by the scan (see the second table), or the machine was so slow that the close came before
  the second of quiet was over.
* `-`: the file system refuses it.
";

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds();
        write!(f, "{:<42}", "technique")?;
        for kind in &kinds {
            write!(f, " {:>9}", kind.name())?;
        }
        writeln!(f)?;
        for technique in TECHNIQUES {
            write!(f, "{:<42}", technique.title)?;
            for kind in &kinds {
                let shown = match self.cell(technique, *kind) {
                    None => "-".to_owned(),
                    Some(Cell::Quiet) => "quiet".to_owned(),
                    Some(Cell::Event { told, named }) if named == self.runs => format!("{told} ms"),
                    Some(Cell::Event { told, .. }) => format!("{told} ms ?"),
                    Some(Cell::Late { .. }) => "late".to_owned(),
                    Some(Cell::Missed { runs }) => format!("MISSED {runs}"),
                };
                write!(f, " {shown:>9}")?;
            }
            writeln!(f)?;
        }
        write!(f, "\n{}", self.sums())
    }
}
