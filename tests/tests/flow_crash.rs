//! A change of versions that is killed, at any system call: afterwards it has happened, or it has not.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::is_built,
    sweep::{Call, Change, Ground, has_strace, points},
};

/// Kills, where not every call is tried.
const FEW: usize = 25;

fn killed_at_every_call(change: Change) -> Result<()> {
    let ground = Ground::new(change)?;
    let (before, after) = change.versions();
    let all = ground.calls("all")?;
    let (mut kills, mut old, mut longest) = (0, 0, Duration::ZERO);
    for Call { name, number } in points(&all, FEW, 0) {
        let ended = ground.change(&format!(
            "trace={name} inject={name}:signal=KILL:when={number}"
        ))?;
        let what = || format!("{change:?}, killed at {name} number {number}");
        if !ended.is_killed() {
            // The number of calls is not the same each time.
            ensure!(
                ended.output.status.success(),
                "{}: {}",
                what(),
                ended.said()
            );
        }
        kills += usize::from(ended.is_killed());
        ground.version().with_context(what)?;
        let (version, took) = ground.recovered().with_context(what)?;
        longest = longest.max(took);
        ensure!([before, after].contains(&version), "{}", what());
        old += usize::from(version == before);
    }
    eprintln!(
        "{change:?}, {} calls: {kills} kills, {old} of them before the commit; torn 0, mixed 0; in order again after {longest:?} at most",
        all.len()
    );
    ensure!(kills >= 20, "{kills} kills only");
    Ok(())
}

#[test]
fn an_activation_that_is_killed_is_whole_or_not_at_all() -> Result<()> {
    let test = "an_activation_that_is_killed_is_whole_or_not_at_all";
    if !is_built(test) || !has_strace(test) {
        return Ok(());
    }
    killed_at_every_call(Change::Activate)
}

#[test]
fn a_rollback_of_three_policies_that_is_killed_is_whole_or_not_at_all() -> Result<()> {
    let test = "a_rollback_of_three_policies_that_is_killed_is_whole_or_not_at_all";
    if !is_built(test) || !has_strace(test) {
        return Ok(());
    }
    killed_at_every_call(Change::Rollback)
}
