//! Heals while eight attackers swap links, mounts, parents and names: nothing outside the declared paths is ever written, and nobody sees a healed file with
//! another owner or mode.

mod field;

use std::{
    env, fs,
    os::fd::AsFd as _,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use drift_agent::{
    compare::differences,
    declare::{Declared, load},
    heal::{self, Action},
    observe::{Host, observe},
};
use drift_tests::skip::skip;

use field::{ATTACKERS, Field};

/// Heals: `cargo xtask sweep race --heals`.
const HEALS: &str = "DRIFT_HEALS";
const FEW: u64 = 3000;

/// What a heal would do that nobody keeps from it: what is planned, where something is; else each in its turn.
fn heal(host: &Host, declared: &Declared, turn: u64) -> bool {
    let observed = observe(host, declared, None, &mut |_| {});
    let drifts = differences(declared, &observed);
    let in_turn = || {
        if turn % 2 == 0 {
            Action::Replace
        } else {
            Action::Attributes
        }
    };
    let action = if drifts.is_empty() {
        in_turn()
    } else {
        // Also where the look says that it cannot be: whoever plans may have looked a moment earlier.
        heal::plan(declared, &drifts, &observed.found).unwrap_or_else(|_| in_turn())
    };
    heal::execute(host, declared, &action, observed.stat.as_ref()).is_ok()
}

#[test]
fn heals_among_attackers_write_nothing_else_and_follow_no_link() -> Result<()> {
    let test = "heals_among_attackers_write_nothing_else_and_follow_no_link";
    if !rustix::process::geteuid().is_root() {
        skip(test, "mounting, and giving files away, needs root");
        return Ok(());
    }
    let wanted: u64 = match env::var(HEALS) {
        Ok(heals) => heals.parse()?,
        Err(_) => FEW,
    };
    let field = Field::new()?;
    let snapshot = load(&field.policies(), Path::new("/"), None, &Default::default())
        .map_err(|rejected| anyhow::anyhow!("{}", rejected.plain()))?;
    ensure!(snapshot.files.len() == 2, "{:?}", snapshot.files);
    let host = Host::new(Path::new("/"))?;
    let (is_over, done, well) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let seen = AtomicU64::new(0);
    let attacks: [AtomicU64; ATTACKERS] = Default::default();
    let wrong: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let report = |error: anyhow::Error| {
        if let Ok(mut wrong) = wrong.lock() {
            wrong.get_or_insert(error);
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let start = Instant::now();
    thread::scope(|scope| {
        for (number, attacks) in attacks.iter().enumerate() {
            let (field, is_over, report) = (&field, &is_over, &report);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    match field.attack(number) {
                        Ok(true) => drop(attacks.fetch_add(1, Ordering::Relaxed)),
                        // Another attacker was faster.
                        Ok(false) => {}
                        Err(error) => report(error.context(format!("attacker {number}"))),
                    }
                    // Without a pause eight of them leave the healers nothing of two processors.
                    thread::sleep(Duration::from_micros(200));
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                match field.look() {
                    Ok(looks) => drop(seen.fetch_add(looks, Ordering::Relaxed)),
                    Err(error) => report(error),
                }
            }
        });
        for declared in &snapshot.files {
            let (host, done, well, is_over) = (&host, &done, &well, &is_over);
            let (field, report) = (&field, &report);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let turn = done.fetch_add(1, Ordering::Relaxed);
                    if turn >= wanted {
                        is_over.store(true, Ordering::Relaxed);
                        break;
                    }
                    well.fetch_add(u64::from(heal(host, declared, turn)), Ordering::Relaxed);
                    if turn % 500 == 0
                        && let Err(error) = field.check()
                    {
                        report(error);
                    }
                }
            });
        }
    });
    if let Ok(mut wrong) = wrong.lock()
        && let Some(error) = wrong.take()
    {
        return Err(error);
    }
    field.check()?;
    let attacks: Vec<u64> = attacks
        .iter()
        .map(|count| count.load(Ordering::Relaxed))
        .collect();
    eprintln!(
        "{wanted} heals in {:.0?}, {} of them found their place; attacks {attacks:?}; {} looks at healed files: written elsewhere 0, links followed 0, wrong owner \
         or mode seen 0",
        start.elapsed(),
        well.load(Ordering::Relaxed),
        seen.load(Ordering::Relaxed),
    );
    // An attacker that never gets through proves nothing.
    ensure!(attacks.iter().all(|count| *count > 0), "{attacks:?}");
    ensure!(well.load(Ordering::Relaxed) > 0 && seen.load(Ordering::Relaxed) > 0);
    // Left alone, each is healed.
    field.make_peace()?;
    for declared in &snapshot.files {
        let observed = observe(&host, declared, None, &mut |_| {});
        let drifts = differences(declared, &observed);
        if !drifts.is_empty() {
            heal::execute(&host, declared, &Action::Replace, observed.stat.as_ref())
                .with_context(|| declared.path.display().to_string())?;
        }
        let observed = observe(&host, declared, None, &mut |_| {});
        let drifts = differences(declared, &observed);
        ensure!(drifts.is_empty(), "{}: {drifts:?}", declared.path.display());
    }
    Ok(())
}

/// The check itself finds out what it is for.
#[test]
fn a_write_through_a_link_would_be_found() -> Result<()> {
    let field = Field::new()?;
    field.check()?;
    fs::write(field.victim(), "written through a link")?;
    let Err(found) = field.check() else {
        bail!("nothing was found")
    };
    ensure!(found.to_string().contains("was changed"), "{found:#}");
    let field = Field::new()?;
    rustix::fs::fchmod(
        std::fs::File::open(field.victim())?.as_fd(),
        rustix::fs::Mode::from_raw_mode(0o640),
    )?;
    ensure!(field.check().is_err(), "nothing was found");
    Ok(())
}
