//! What is killed, at any system call: afterwards it has happened, or it has not.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::is_built,
    sweep::{Call, Ground, Operation, State, has_strace, points},
};

/// Kills, where not every call is tried.
const FEW: usize = 25;

fn killed_at_every_call(test: &str, operation: Operation) -> Result<()> {
    if !is_built(test) || !has_strace(test) {
        return Ok(());
    }
    let ground = Ground::new(operation)?;
    let all = ground.calls("all")?;
    let (mut kills, mut old, mut longest) = (0, 0, Duration::ZERO);
    for Call { name, number } in points(&all, FEW, 0) {
        let ended = ground.with(&format!(
            "trace={name} inject={name}:signal=KILL:when={number}"
        ))?;
        let what = || format!("{operation:?}, killed at {name} number {number}");
        if !ended.is_killed() {
            // Threads that share work do not make the same calls each time.
            ensure!(
                ended.output.status.success(),
                "{}: {}",
                what(),
                ended.said()
            );
        }
        kills += usize::from(ended.is_killed());
        let state = ground.state().with_context(what)?;
        let (recovered, took) = ground.recovered().with_context(what)?;
        longest = longest.max(took);
        let before = if operation == Operation::Heal {
            state
        } else {
            recovered
        };
        old += usize::from(before == State::Old);
    }
    eprintln!(
        "{operation:?}, {} calls: {kills} kills, {old} of them before it counted; torn 0, mixed 0; in order again after {longest:?} at most",
        all.len()
    );
    ensure!(kills >= 20, "{kills} kills only");
    Ok(())
}

#[test]
fn a_heal_that_is_killed_is_whole_or_not_at_all() -> Result<()> {
    let test = "a_heal_that_is_killed_is_whole_or_not_at_all";
    killed_at_every_call(test, Operation::Heal)
}

#[test]
fn an_activation_that_is_killed_is_whole_or_not_at_all() -> Result<()> {
    let test = "an_activation_that_is_killed_is_whole_or_not_at_all";
    killed_at_every_call(test, Operation::Activate)
}

#[test]
fn a_rollback_of_three_policies_that_is_killed_is_whole_or_not_at_all() -> Result<()> {
    let test = "a_rollback_of_three_policies_that_is_killed_is_whole_or_not_at_all";
    killed_at_every_call(test, Operation::Rollback)
}

#[test]
fn a_compaction_that_is_killed_loses_no_record() -> Result<()> {
    let test = "a_compaction_that_is_killed_loses_no_record";
    killed_at_every_call(test, Operation::Compact)
}
