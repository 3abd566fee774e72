//! An operation in which a system call fails, once or for good: it says so, and has happened or has not.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, is_built, program},
    privilege::is_root,
    scene::{DEFAULT, Scene, file},
    sweep::{Call, Ground, Operation, Split, State, Who, has_strace, is_long, points},
};

/// The calls that read or change files.
const CALLS: &str = "openat,openat2,read,pread64,write,pwrite64,fsync,fdatasync,syncfs,ftruncate,renameat,renameat2,unlinkat,linkat,symlinkat,mkdirat,mkdir,fchmod,fchown,fchownat,statx,newfstatat,fstat,flock,getdents64,flistxattr";

/// The calls through which the agent's processes speak with each other. Interrupted they are made again, all of them.
const SOCKETS: &str = "sendmsg,recvmsg,sendto,recvfrom,poll,ppoll";

/// Calls that Rust's standard library, or rustix, makes again for as long as they are interrupted: interrupted for good they have no end, and that is no fault of ours.
const MADE_AGAIN: [&str; 10] = [
    "openat",
    "read",
    "pread64",
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "ftruncate",
    "flock",
    "getdents64",
];

/// Faults of each kind, where not every call is tried.
const FEW: usize = 2;

const ERRORS: [&str; 6] = ["EIO", "ENOSPC", "EINTR", "EDQUOT", "EROFS", "EMFILE"];

/// Each of them once, and for good.
const KINDS: usize = 2 * ERRORS.len();

fn faults(test: &str, operation: Operation) -> Result<()> {
    if !is_built(test) || !has_strace(test) {
        return Ok(());
    }
    let ground = Ground::new(operation)?;
    let all = ground.calls(CALLS)?;
    let kinds = ERRORS
        .iter()
        .flat_map(|error| [(error, ""), (error, "+")])
        .enumerate();
    let (mut faults, mut failed, mut left_out) = (0, 0, 0);
    for (kind, (error, often)) in kinds {
        // Each kind at other points, where not all are tried.
        for Call { name, number } in points(&all, FEW, kind, KINDS) {
            if *error == "EINTR" && often == "+" && MADE_AGAIN.contains(&name.as_str()) {
                left_out += 1;
                continue;
            }
            let ended = ground.with(&format!(
                "trace={name} inject={name}:error={error}:when={number}{often}"
            ))?;
            let what = || {
                let said = ended.said();
                format!("{operation:?}, {error} at {name} number {number}{often}: {said}")
            };
            let status = ended.output.status.code().with_context(what)?;
            // 127: the loader found no library. Everything else ends with a status of its own, and a sentence.
            ensure!([0, 1, 10, 127].contains(&status), "{}", what());
            // Where nothing can be written, nothing can be said.
            let is_said = name == "write" || !ended.output.stderr.is_empty();
            ensure!(status == 0 || is_said, "{}", what());
            let state = ground.state().with_context(what)?;
            let is_true = status != 0 || state == State::New;
            ensure!(is_true, "a false success: {}", what());
            let (recovered, _) = ground.recovered().with_context(what)?;
            let is_true = status != 0 || recovered == State::New;
            ensure!(is_true, "a false success: {}", what());
            faults += 1;
            failed += usize::from(status != 0);
        }
    }
    eprintln!(
        "{operation:?}: {faults} faults, {failed} of them ended it; false successes 0, mixed 0, left over 0; {left_out} left out (EINTR for good \
         on {})",
        MADE_AGAIN.join(", ")
    );
    ensure!(faults >= 12 || is_long(), "{faults} faults only");
    Ok(())
}

/// The same asked of a running agent: calls of one of its processes fail.
fn faults_of_each_process(test: &str, operation: Operation) -> Result<()> {
    if !is_built(test) || !has_strace(test) || !is_root(test) {
        return Ok(());
    }
    for who in Who::wanted() {
        let split = Split::new(operation, who)?;
        let all = split.calls(&format!("{CALLS},{SOCKETS}"))?;
        let kinds = ERRORS
            .iter()
            .flat_map(|error| [(error, ""), (error, "+")])
            .enumerate();
        let (mut faults, mut failed, mut ended) = (0, 0, 0);
        for (kind, (error, often)) in kinds {
            for Call { name, number } in points(&all, 1, kind, KINDS) {
                let is_endless = MADE_AGAIN.contains(&name.as_str()) || SOCKETS.contains(name);
                if *error == "EINTR" && often == "+" && is_endless {
                    continue;
                }
                let asked = split.with(&format!(
                    "trace={name} inject={name}:error={error}:when={number}{often}"
                ))?;
                let what = || {
                    let said = asked.said();
                    format!(
                        "{operation:?}, {who:?}, {error} at {name} number {number}{often}: {said}"
                    )
                };
                ensure!(asked.command.output.status.code().is_some(), "{}", what());
                let is_said = asked.is_done()
                    || !asked.command.output.stderr.is_empty()
                    || !asked.command.output.stdout.is_empty();
                ensure!(is_said, "{}", what());
                // Where nothing can be written, nothing can be said.
                let is_said = asked.is_alive || name == "write" || !asked.agent.is_empty();
                ensure!(is_said, "it has ended without a word: {}", what());
                let state = split.state().with_context(what)?;
                let is_true = !asked.is_done() || state == State::New;
                ensure!(is_true, "a false success: {}", what());
                let (recovered, _) = split.recovered().with_context(what)?;
                let is_true = !asked.is_done() || recovered == State::New;
                ensure!(is_true, "a false success: {}", what());
                faults += usize::from(asked.is_hit);
                failed += usize::from(!asked.is_done());
                ended += usize::from(!asked.is_alive);
            }
        }
        eprintln!(
            "{operation:?} by a running agent, {who:?}: {faults} faults, {failed} of them kept it from being done, {ended} ended the agent with a \
             sentence; false successes 0, mixed 0, left over 0"
        );
    }
    Ok(())
}

#[test]
fn a_call_that_fails_in_a_process_of_the_agent_is_no_false_success_of_a_heal() -> Result<()> {
    let test = "a_call_that_fails_in_a_process_of_the_agent_is_no_false_success_of_a_heal";
    faults_of_each_process(test, Operation::Heal)
}

#[test]
fn a_call_that_fails_in_a_process_of_the_agent_is_no_false_success_of_an_activation() -> Result<()>
{
    let test = "a_call_that_fails_in_a_process_of_the_agent_is_no_false_success_of_an_activation";
    faults_of_each_process(test, Operation::Activate)
}

#[test]
fn a_call_that_fails_in_a_process_of_the_agent_is_no_false_success_of_a_rollback() -> Result<()> {
    let test = "a_call_that_fails_in_a_process_of_the_agent_is_no_false_success_of_a_rollback";
    faults_of_each_process(test, Operation::Rollback)
}

#[test]
fn a_call_that_fails_in_a_heal_is_said_and_the_file_is_whole() -> Result<()> {
    let test = "a_call_that_fails_in_a_heal_is_said_and_the_file_is_whole";
    faults(test, Operation::Heal)
}

#[test]
fn a_call_that_fails_in_a_heal_in_place_is_said_and_the_file_is_whole_in_the_end() -> Result<()> {
    let test = "a_call_that_fails_in_a_heal_in_place_is_said_and_the_file_is_whole_in_the_end";
    faults(test, Operation::InPlace)
}

#[test]
fn a_call_that_fails_in_an_activation_is_said_and_it_is_whole_or_not_at_all() -> Result<()> {
    let test = "a_call_that_fails_in_an_activation_is_said_and_it_is_whole_or_not_at_all";
    faults(test, Operation::Activate)
}

#[test]
fn a_call_that_fails_in_a_rollback_is_said_and_it_is_whole_or_not_at_all() -> Result<()> {
    let test = "a_call_that_fails_in_a_rollback_is_said_and_it_is_whole_or_not_at_all";
    faults(test, Operation::Rollback)
}

#[test]
fn a_call_that_fails_in_a_compaction_is_said_and_loses_no_record() -> Result<()> {
    let test = "a_call_that_fails_in_a_compaction_is_said_and_loses_no_record";
    faults(test, Operation::Compact)
}

/// The restorer has written which versions are held, and the detector cannot read that: it must not go by what it knew before, which would take the change back.
#[test]
fn holds_that_cannot_be_read_take_no_change_back() -> Result<()> {
    const TEST: &str = "holds_that_cannot_be_read_take_no_change_back";
    if !is_built(TEST) || !has_strace(TEST) || !is_root(TEST) {
        return Ok(());
    }
    let split = Split::new(Operation::Activate, Who::Detector)?;
    for error in ["EIO", "EROFS", "EMFILE"] {
        let asked = split.with(&format!(
            "trace=openat2 inject=openat2:error={error}:when=1+"
        ))?;
        ensure!(asked.is_hit, "{}", asked.said());
        let state = split.state().with_context(|| asked.said())?;
        ensure!(!asked.is_done() || state == State::New, "{}", asked.said());
        let (recovered, _) = split.recovered().with_context(|| asked.said())?;
        ensure!(recovered == state, "{}", asked.said());
    }
    Ok(())
}

/// What is decided is in the journal: that the file cannot say so, too, takes no change back.
#[test]
fn holds_that_cannot_be_written_take_no_change_back() -> Result<()> {
    const TEST: &str = "holds_that_cannot_be_written_take_no_change_back";
    if !is_built(TEST) || !has_strace(TEST) || !is_root(TEST) {
        return Ok(());
    }
    for operation in [Operation::Activate, Operation::Rollback] {
        let split = Split::new(operation, Who::Restorer)?;
        let Call { name, number } = split.call("renameat", "\"holds\"")?;
        for often in ["", "+"] {
            let asked = split.with(&format!(
                "trace={name} inject={name}:error=EIO:when={number}{often}"
            ))?;
            let what = || format!("{operation:?}, number {number}{often}: {}", asked.said());
            ensure!(asked.is_hit && asked.is_done(), "{}", what());
            ensure!(
                split.state().with_context(what)? == State::New,
                "{}",
                what()
            );
            let (recovered, _) = split.recovered().with_context(what)?;
            ensure!(recovered == State::New, "{}", what());
        }
    }
    Ok(())
}

/// B090: one read that fails is the last one.
#[test]
fn reads_and_waits_that_fail_now_and_then_end_nothing_and_the_end_is_told() -> Result<()> {
    const TEST: &str = "reads_and_waits_that_fail_now_and_then_end_nothing_and_the_end_is_told";
    if !has_probes(TEST) || !has_strace(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let app = scene.at("app.conf");
    let path = app.display().to_string();
    // Every third read of the file, and every second time that the ring is waited for.
    let waits = "/^epoll_p?wait";
    let faults: [(&[&str], String); 2] = [
        (&["-P", &path], "read:error=EIO:when=3+3".to_owned()),
        (&[], format!("{waits}:error=EINTR:when=2+2")),
    ];
    for (only, fault) in faults {
        let files = [file("app.conf", "declared\n")];
        scene.lay_out(&files)?;
        scene.declare("1.0.0", DEFAULT, &files)?;
        let traced = fault.split(':').next().unwrap_or_default();
        let log = scene.root().join("strace");
        let mut command = Command::new("strace");
        // The tracer is the child, so that the agent is what is started here.
        command
            .args(["-D", "-f", "-qq", "-o"])
            .arg(&log)
            .args(only)
            .args(["-e", &format!("trace={traced}")])
            .args(["-e", &format!("inject={fault}")])
            .arg(program())
            .args(["run", "--scan-interval", "1s", "--policies"])
            .arg(scene.policies());
        let agent = Agent::start_as(command, &scene)?;
        for round in 0..40 {
            let mark = agent.mark();
            let text = format!("round {round}\n");
            fs::write(&app, &text)?;
            let digest = format!("blake3:{}", blake3::hash(text.as_bytes()).to_hex());
            agent.wait(mark, &text, |records| {
                let mut records = records.iter();
                let is_told = |record: &&serde_json::Value| {
                    record["path"] == path && record["observed"]["digest"] == digest.as_str()
                };
                records.find(is_told).map(drop)
            })?;
        }
        let mark = agent.mark();
        fs::write(&app, "declared\n")?;
        agent.event(mark, "config.drift.resolved", &app)?;
        ensure!(agent.stop()?.success());
        let failed = fs::read_to_string(&log)?.matches("(INJECTED)").count();
        ensure!(failed >= 10, "{fault}: {failed} only");
    }
    Ok(())
}
