//! Somebody writes another thing to a file ten times a second: heals stay within their budget, the agent costs little, and there is one alert.

use std::{
    env, fs, thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes},
    privilege::restorer,
    scene::{HEAL, Scene, file},
};

/// How long: `cargo xtask sweep rival --seconds`.
const SECONDS: &str = "DRIFT_RIVAL_SECONDS";
const FEW: u64 = 20;

const EVERY: Duration = Duration::from_millis(100);

/// Of one processor.
const MOST: f64 = 0.05;

/// What its threads have used so far.
fn used(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the name, which may hold anything: state is the first, user and system time the 12th and 13th.
    let rest = stat.rsplit_once(')').context("no name")?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks =
        |field: usize| -> Result<u64> { Ok(fields.get(field).context("a field")?.parse()?) };
    let ticks = ticks(11)? + ticks(12)?;
    let second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_millis(ticks * 1000 / second))
}

/// Case B114.
#[test]
fn a_rival_ten_times_a_second_is_healed_within_bounds_and_told_once() -> Result<()> {
    let test = "a_rival_ten_times_a_second_is_healed_within_bounds_and_told_once";
    if !has_probes(test) {
        return Ok(());
    }
    let seconds = match env::var(SECONDS) {
        Ok(seconds) => seconds.parse()?,
        Err(_) => FEW,
    };
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    // Four heals against the same program, and then none. With the default waits it takes a minute to come to that.
    let quick = "  mode: heal\n  guard: {backoff: {first: 1s, factor: 2, cap: 300s}, fight: {heals: 4, within: 5m, hold: 1h}}\n";
    let is_long = seconds >= 120;
    scene.declare("1.0.0", if is_long { HEAL } else { quick }, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    // Who looks, and who writes.
    let processes = [agent.pid(), u32::try_from(restorer(&scene)?)?];
    let all = || processes.into_iter().map(used).sum::<Result<Duration>>();
    let (start, before) = (Instant::now(), all()?);
    let mut flips = 0u32;
    // One process: the same rival each time.
    while start.elapsed() < Duration::from_secs(seconds) {
        fs::write(&app, format!("rival {flips}\n"))?;
        flips += 1;
        thread::sleep((EVERY * flips).saturating_sub(start.elapsed()));
    }
    let cpu = (all()? - before).as_secs_f64() / start.elapsed().as_secs_f64();
    // Its last change is seen before it is counted.
    let last = format!("blake3:{}", blake3::hash(&fs::read(&app)?).to_hex());
    agent.wait(0, "its last change", |records| {
        let mut records = records.iter().rev();
        records.find(|record| {
            record["observed"]["digest"] == last.as_str()
                || record["event"] == "config.drift.healed"
        })?;
        Some(())
    })?;
    let records = agent.since(0);
    let of = |event: &'static str| {
        records
            .iter()
            .filter(move |record| record["event"] == event)
    };
    let healed = of("config.drift.healed").count();
    let alerts = of("config.drift.heal_suppressed")
        .filter(|record| record["reason"] == "contested")
        .count();
    eprintln!(
        "{flips} changes in {seconds} s: {healed} heals, {alerts} alert, {} records in all, {:.1} % of a processor",
        records.len(),
        cpu * 100.0
    );
    ensure!((1..=5).contains(&healed), "{healed} heals\n{}", agent.all());
    ensure!(alerts == 1, "{alerts} alerts\n{}", agent.all());
    // The agent of a short run is one that is built for development.
    ensure!(
        cpu < MOST || !is_long,
        "{:.1} % of a processor",
        cpu * 100.0
    );
    Ok(())
}
