//! Ways of changing a file that somebody may hope nobody sees, on five file systems: what stands there in the end is found each time, and nobody is named who has
//! not done it.

mod run;
mod table;
mod technique;

use std::{env, fs};

use anyhow::{Context, Result, ensure};
use drift_tests::{agent::has_probes, skip::skip, stage::Kind};

use run::Ground;
use table::Table;
use technique::TECHNIQUES;

/// How many folders each technique is used in, where `DRIFT_EVASION_RUNS` does not say.
const RUNS: usize = 1;

/// B034: stores through a mapping are no event. B035: what io_uring does is no system call; who did it is named. B036: another thread changes the path while
/// the call reads it. B037: the path is in a page that is not there when the call begins.
#[test]
fn what_stands_there_in_the_end_is_found_and_nobody_is_named_wrongly() -> Result<()> {
    const TEST: &str = "what_stands_there_in_the_end_is_found_and_nobody_is_named_wrongly";
    if !has_probes(TEST) {
        return Ok(());
    }
    ensure!(TECHNIQUES.len() >= 40);
    let runs = match env::var("DRIFT_EVASION_RUNS") {
        Ok(runs) => runs.parse().context("DRIFT_EVASION_RUNS")?,
        Err(_) => RUNS,
    };
    let only = env::var("DRIFT_EVASION_ONLY").ok();
    let mut table = Table::new(runs);
    for kind in Kind::ALL {
        let wanted = |name: &str| name == kind.name();
        if only
            .as_deref()
            .is_some_and(|only| !only.split(',').any(wanted))
        {
            continue;
        }
        if let Some(lacks) = kind.lacks() {
            skip(&format!("{TEST} ({})", kind.name()), &lacks);
            continue;
        }
        Ground::lay_out(kind, runs)
            .and_then(|ground| ground.play(&mut table))
            .with_context(|| kind.name())?;
    }
    println!("{table}");
    if let Some(page) = env::var_os("DRIFT_EVASION_PAGE") {
        fs::write(page, table.page()?)?;
    }
    table.verdict()
}
