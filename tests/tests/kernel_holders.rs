//! Who still has a file that was replaced: that nobody has is known from the kernel's own counts, without a look at every process; that somebody has is never
//! missed for it.

use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes},
    scene::{HEAL_AT_ONCE, Scene, file, lay_out_in},
    skip::skip,
    stage::{Kind, Mounts},
    wait,
};
use serde_json::Value;

/// Processes that do nothing: a search reads of each of them what it has mapped.
const IDLE: usize = 100;

/// Who reads nothing for so long does nothing.
const QUIET: Duration = Duration::from_millis(200);
const MOST_WAIT: Duration = Duration::from_secs(60);

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

/// Reads that a process has made since its start (proc_pid_io(5)).
fn reads(pid: u32) -> Result<usize> {
    let said = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let reads = said
        .lines()
        .find_map(|line| line.strip_prefix("syscr: "))
        .context("no count of reads")?;
    Ok(reads.parse()?)
}

/// Waits until a process reads nothing: an agent that has just begun looks at every process itself.
fn quiet(pid: u32) -> Result<()> {
    let (mut last, mut since) = (reads(pid)?, Instant::now());
    wait::until(MOST_WAIT, || {
        let now = reads(pid).map_err(|error| error.to_string())?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        let is_quiet = since.elapsed() >= QUIET;
        is_quiet
            .then_some(())
            .ok_or(format!("{now} reads, and more"))
    })
    .map_err(Error::msg)
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
    quiet(agent.pid())?;
    let heal = |other: &str, held: Option<File>| -> Result<(Value, usize)> {
        let (mark, before) = (agent.mark(), reads(agent.pid())?);
        fs::write(&app, other)?;
        let healed = agent.event(mark, "config.drift.healed", &app)?;
        let read = reads(agent.pid())? - before;
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
