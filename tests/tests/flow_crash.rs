//! What is killed, at any system call: afterwards it has happened, or it has not.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::is_built,
    privilege::is_root,
    sweep::{Asked, Call, Ground, Operation, Split, State, Who, has_strace, points},
};

/// Kills, where not every call is tried.
const FEW: usize = 25;
/// Of each process of a running agent: one takes a second.
const FEW_EACH: usize = 5;

fn killed_at_every_call(test: &str, operation: Operation) -> Result<()> {
    if !is_built(test) || !has_strace(test) {
        return Ok(());
    }
    let ground = Ground::new(operation)?;
    let all = ground.calls("all")?;
    let (mut kills, mut old, mut begun, mut longest) = (0, 0, 0, Duration::ZERO);
    for Call { name, number } in points(&all, FEW, 0, 1) {
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
        begun += usize::from(state == State::Mixed);
        // What is begun again, or goes on, at the next start is new then in any case.
        let before = match operation {
            Operation::Heal | Operation::Compact => state,
            Operation::InPlace | Operation::Activate | Operation::Rollback => recovered,
        };
        old += usize::from(before == State::Old);
    }
    eprintln!(
        "{operation:?}, {} calls: {kills} kills, {old} of them before it counted, {begun} in the midst of it; after the next start torn 0, mixed 0; in order again after {longest:?} at most",
        all.len()
    );
    ensure!(kills >= 20, "{kills} kills only");
    Ok(())
}

/// The same asked of a running agent: each of its processes is killed, at every call it makes meanwhile.
fn each_process_killed_at_every_call(test: &str, operation: Operation) -> Result<()> {
    if !is_built(test) || !has_strace(test) || !is_root(test) {
        return Ok(());
    }
    for who in Who::wanted() {
        let split = Split::new(operation, who)?;
        let all = split.calls("all")?;
        let (mut kills, mut done, mut old, mut longest) = (0, 0, 0, Duration::ZERO);
        let mut judge = |at: &str, asked: &Asked| -> Result<()> {
            let what = || format!("{operation:?}, {who:?} killed {at}: {}", asked.said());
            // Who asks is always answered, or told that nobody is left to answer.
            ensure!(asked.command.output.status.code().is_some(), "{}", what());
            ensure!(asked.is_alive || who == Who::Detector, "{}", what());
            let state = split.state().with_context(what)?;
            let is_true = !asked.is_done() || state == State::New;
            ensure!(is_true, "a false success: {}", what());
            let (recovered, took) = split.recovered().with_context(what)?;
            let is_true = !asked.is_done() || recovered == State::New;
            ensure!(is_true, "a false success: {}", what());
            kills += usize::from(asked.is_hit);
            done += usize::from(asked.is_done());
            old += usize::from(state == State::Old);
            longest = longest.max(took);
            Ok(())
        };
        judge("before it was asked", &split.without()?)?;
        for Call { name, number } in points(&all, FEW_EACH, 0, 1) {
            let asked = split.with(&format!(
                "trace={name} inject={name}:signal=KILL:when={number}"
            ))?;
            judge(&format!("at {name} number {number}"), &asked)?;
        }
        eprintln!(
            "{operation:?} by a running agent, {who:?}, {} calls: {kills} kills, {done} done all the same, {old} left all as it was; torn 0, mixed 0, \
             false successes 0; ready again after {longest:?} at most",
            all.len()
        );
    }
    Ok(())
}

#[test]
fn a_heal_is_whole_or_not_at_all_whichever_process_of_the_agent_is_killed() -> Result<()> {
    let test = "a_heal_is_whole_or_not_at_all_whichever_process_of_the_agent_is_killed";
    each_process_killed_at_every_call(test, Operation::Heal)
}

#[test]
fn an_activation_is_whole_or_not_at_all_whichever_process_of_the_agent_is_killed() -> Result<()> {
    let test = "an_activation_is_whole_or_not_at_all_whichever_process_of_the_agent_is_killed";
    each_process_killed_at_every_call(test, Operation::Activate)
}

#[test]
fn a_rollback_is_whole_or_not_at_all_whichever_process_of_the_agent_is_killed() -> Result<()> {
    let test = "a_rollback_is_whole_or_not_at_all_whichever_process_of_the_agent_is_killed";
    each_process_killed_at_every_call(test, Operation::Rollback)
}

#[test]
fn a_heal_that_is_killed_is_whole_or_not_at_all() -> Result<()> {
    let test = "a_heal_that_is_killed_is_whole_or_not_at_all";
    killed_at_every_call(test, Operation::Heal)
}

#[test]
fn a_heal_in_place_that_is_killed_comes_to_its_end_or_has_not_begun() -> Result<()> {
    let test = "a_heal_in_place_that_is_killed_comes_to_its_end_or_has_not_begun";
    killed_at_every_call(test, Operation::InPlace)
}

#[test]
fn a_heal_in_place_comes_to_its_end_whichever_process_of_the_agent_is_killed() -> Result<()> {
    let test = "a_heal_in_place_comes_to_its_end_whichever_process_of_the_agent_is_killed";
    each_process_killed_at_every_call(test, Operation::InPlace)
}

/// Case B128.
#[test]
fn an_activation_that_is_killed_is_whole_or_not_at_all() -> Result<()> {
    let test = "an_activation_that_is_killed_is_whole_or_not_at_all";
    killed_at_every_call(test, Operation::Activate)
}

/// Case B142.
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
