//! Who still has a file that was replaced: that nobody has is known from the kernel's own counts, without a look at every process; that somebody has is never
//! missed for it.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes},
    scene::{HEAL_AT_ONCE, Scene, file, lay_out_in},
    skip::skip,
    stage::{Kind, Mounts},
};
use serde_json::Value;

/// Processes that do nothing: a search reads of each of them what it has mapped.
const IDLE: usize = 100;

struct Idle(Vec<Child>);

impl Idle {
    fn start() -> Result<Idle> {
        let mut idle = Idle(Vec::new());
        for _ in 0..IDLE {
            let child = Command::new("sleep")
                .arg("600")
                .stdin(Stdio::null())
                .spawn()?;
            idle.0.push(child);
        }
        Ok(idle)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Ours, and not waited for yet: the number is nobody else's.
            let _ended = child.kill();
            let _ended = child.wait();
        }
    }
}

/// Reads that each thread of a process has made since its start (proc_pid_io(5)), but for the first one: now and then that reads what the kernel says of each of the
/// agent's programs, and it searches for nobody.
fn reads(pid: u32) -> Result<HashMap<OsString, usize>> {
    let mut all = HashMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        if thread.file_name() == *pid.to_string() {
            continue;
        }
        // Threads that have had nothing to do for long end.
        let Ok(said) = fs::read_to_string(thread.path().join("io")) else {
            continue;
        };
        let count = said.lines().find_map(|line| line.strip_prefix("syscr: "));
        let count = count.context("no count of reads")?.parse()?;
        all.insert(thread.file_name(), count);
    }
    Ok(all)
}

#[test]
fn that_nobody_has_an_old_file_is_known_without_a_search() -> Result<()> {
    const TEST: &str = "that_nobody_has_an_old_file_is_known_without_a_search";
    if !has_probes(TEST) {
        return Ok(());
    }
    for on in Kind::ALL {
        match on.lacks() {
            Some(reason) => skip(&format!("{TEST} ({})", on.name()), &reason),
            None => check(on).with_context(|| format!("on {}", on.name()))?,
        }
    }
    Ok(())
}

fn check(on: Kind) -> Result<()> {
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    let files = [file("app.conf", "declared\n")];
    on.mount(scene.root(), |place| lay_out_in(place, &files))?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let app = scene.at("app.conf");
    let agent = Agent::start(&scene, &[])?;
    let idle = Idle::start()?;
    let heal = |other: &str, held: Option<File>| -> Result<(Value, usize)> {
        let (mark, before) = (agent.mark(), reads(agent.pid())?);
        fs::write(&app, other)?;
        let healed = agent.event(mark, "config.drift.healed", &app)?;
        let after = reads(agent.pid())?;
        // A thread that was not there before has begun at nothing.
        let since = |(thread, count): (&OsString, &usize)| {
            count - before.get(thread).copied().unwrap_or_default()
        };
        let read = after.iter().map(since).sum();
        drop(held);
        Ok((healed, read))
    };
    // The first one finds out what "nobody" looks like.
    for other in ["one\n", "two\n"] {
        let (healed, read) = heal(other, None)?;
        ensure!(
            healed["holders"].is_null() && read < IDLE,
            "{read} reads: {healed}"
        );
    }

    let named = |healed: &Value, read: usize| {
        let holder = &healed["holders"]["processes"][0];
        ensure!(
            holder["pid"] == std::process::id() && holder["how"] == "open" && read >= IDLE,
            "{read} reads: {healed}"
        );
        Ok(())
    };
    let (healed, read) = heal("three\n", Some(File::open(&app)?))?;
    named(&healed, read)?;

    // By a name that is not declared: what is open leads to another entry of the directory. An overlay's hard links do not stay together.
    if on != Kind::Overlay {
        let link = app.with_file_name("link");
        fs::hard_link(&app, &link)?;
        let (healed, read) = heal("four\n", Some(File::open(&link)?))?;
        named(&healed, read)?;
        fs::remove_file(link)?;
    }

    let (healed, read) = heal("five\n", None)?;
    ensure!(
        healed["holders"].is_null() && read < IDLE,
        "{read} reads: {healed}"
    );
    drop(idle);
    ensure!(agent.stop()?.success());
    mounts.clear()
}
