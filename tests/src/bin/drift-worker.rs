//! One thing that the agent does, in a process of its own: what a test kills, lets fail, or cuts the power of.
//!
//! It ends with 0 where it was done, and says `done` before that; else with 1 and a sentence.

use std::{
    env, fs,
    io::{self, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail, ensure};
use drift_agent::{
    compare::differences,
    declare::Declared,
    heal,
    observe::{Host, observe},
    store::{Bounds, DEFAULT_QUOTA, HistoryWriter, Store},
};

fn main() -> ExitCode {
    let done = run().and_then(|()| Ok(writeln!(io::stdout(), "done")?));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where nothing can be written, the status says it alone.
            let _unheard = writeln!(io::stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    match &arguments[..] {
        [what, policies, state, path] if what == Path::new("heal") => {
            one_heal(policies, state, path)
        }
        [what, policies, state, path] if what == Path::new("recover") => {
            begun(policies, state, path).map(drop)
        }
        [what, path, new] if what == Path::new("heal-without-sync") => without_sync(path, new),
        [what, state, last] if what == Path::new("compact") => {
            compact(state, last.to_str().context("a number")?.parse()?)
        }
        other => bail!("nothing to do: {other:?}"),
    }
}

/// What the agent does at its start.
fn begun(policies: &Path, state: &Path, path: &Path) -> Result<(Host, Store, Arc<Declared>)> {
    let store = Store::open(state, DEFAULT_QUOTA)?;
    let host = Host::new(Path::new("/"))?;
    heal::recover(&host, &store)?;
    let (snapshot, _) = store.look(policies, Path::new("/"), None);
    let snapshot = snapshot.map_err(|rejected| anyhow::anyhow!("{}", rejected.plain()))?;
    let mut files = snapshot.files.iter();
    let declared = files
        .find(|declared| declared.path == path)
        .context("nobody declares it")?;
    heal::sweep_leftovers(&host, declared)?;
    let declared = Arc::clone(declared);
    Ok((host, store, declared))
}

/// What the agent does from its start to the end of one heal.
fn one_heal(policies: &Path, state: &Path, path: &Path) -> Result<()> {
    let (host, store, declared) = begun(policies, state, path)?;
    let declared = &declared;
    let observed = observe(&host, declared, None, &mut |_| {});
    let drifts = differences(declared, &observed);
    if !drifts.is_empty() {
        let action = heal::plan(declared, &drifts, &observed.found)
            .map_err(|why| anyhow::anyhow!(why.sentence()))?;
        heal::put_back(&host, &store, declared, &action, &observed)?;
        let observed = observe(&host, declared, None, &mut |_| {});
        let left = differences(declared, &observed);
        ensure!(
            left.is_empty(),
            "it was written, and still differs: {left:?}"
        );
    }
    let now = SystemTime::now();
    let mut history = HistoryWriter::open(state, Bounds::default(), now)?;
    history.append(["healed"].into_iter(), now)?;
    history.sync(now)?;
    Ok(())
}

/// The same without the sync of the directory: what a test of power cuts must find out.
fn without_sync(path: &Path, new: &Path) -> Result<()> {
    let temporary = path.with_extension("temporary");
    let mut file = fs::File::create(&temporary)?;
    file.write_all(new.as_os_str().as_bytes())?;
    file.sync_all()?;
    Ok(fs::rename(&temporary, path)?)
}

/// Appends numbers up to `last` to a history that has room for some of them: segments are begun, and the oldest go.
fn compact(state: &Path, last: u32) -> Result<()> {
    let bounds = Bounds {
        bytes: 4096,
        age: Duration::from_secs(3600),
    };
    let now = SystemTime::now();
    let first = {
        let mut known = 0;
        drift_agent::store::read_history(state, None, |record| {
            known = record.trim_end_matches('.').parse().unwrap_or(known);
        })?;
        known + 1
    };
    let mut history = HistoryWriter::open(state, bounds, now)?;
    for number in first..=last {
        // Padded: a segment is soon full.
        let record = format!("{number:.<100}");
        history.append([&*record].into_iter(), now)?;
        history.sync(now)?;
    }
    Ok(())
}
