//! From settings to an agent at work.

use std::{
    io::{self, IsTerminal},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc;

use crate::{
    cluster::{self, Link},
    confine::{self, Confined},
    declare::{self, Basis, Mode, Rejected, Snapshot},
    heal,
    kept::Unusable,
    observe::{Host, Objects},
    pipeline::{self, Parts},
    probe::{Probe, ProbeSettings, Refused, confine_loader},
    report::{OtlpSettings, Reporter, complain},
    restore::{self, Recovered, Restorer},
    serve::{self, Desk},
    settings::{Sensor, Settings},
    stop::{Files, Stops},
    store::{Bounds, Store},
    switch::{self, Changed},
};

/// Requests that wait for the pipeline.
const REQUESTS: usize = 8;

/// Starts all there is, in the order in which it may give its rights up, and goes on until told to stop.
pub(super) fn start(settings: Settings, host: Host) -> Result<()> {
    let otlp = OtlpSettings::from_env()?;
    // One agent for a state folder: two would heal against each other.
    let _lock = super::lock(&settings.state)?;
    let restorer = Restorer::prepare(&settings);
    let store = Store::open(&settings.state, settings.store_quota)?.rooted(&settings.host_root);
    for note in store.notes() {
        complain(format_args!("{note}."));
    }
    let host = mind_places(host, &settings)?;
    if let Some(source) = &settings.source {
        cluster::hear_first(source.clone(), &settings.state)
            .context("cannot keep what the cluster says")?;
    }
    let recovered = recover(&restorer, &store);
    let (outcome, basis, waits, switched) = look(&restorer, &store, &host, &settings);
    let (snapshot, rejected) = match outcome {
        Ok(snapshot) => (snapshot, None),
        Err(rejected) => (last_good(&store, &settings, &rejected)?, Some(rejected)),
    };
    // What waits is not what is in force, and what was good last is vouched for already.
    if rejected.is_none()
        && !waits
        && let Err(error) =
            restore::vouch_at_start(&settings.state, &settings.policies, basis.sources())
    {
        complain(format_args!(
            "degraded: that these policies are good cannot be noted ({error}): after a start with policies that are not valid these would not be put back."
        ));
    }
    // What is staged still is not left over.
    restorer.declare(restorer.turn(), &snapshot);
    let mut files = snapshot.files.iter();
    if recovered && files.any(|declared| heal::has_leftovers(&host, declared)) {
        restorer.sweep();
    }
    let probe = sense(&settings, &snapshot)?;
    let heals = settings.mode != Some(Mode::Observe);
    let confined = confine(&settings.state, &snapshot, heals);
    // What talks with others has a thread of its own: the pipeline is woken by the kernel on the thread on which it goes on.
    let beside = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(8)
        .thread_name("drift-beside")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(32)
        .thread_name("drift")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let link = settings
        .source
        .clone()
        .map(|source| beside.block_on(cluster::follow(source, &settings.state)))
        .transpose()
        .context("cannot keep what the cluster says")?;
    // A pod's own name is not that of its node.
    let named = settings.source.as_ref().map(|source| source.node.clone());
    let node = named.unwrap_or_else(crate::cli::node);
    let mut reporter = Reporter::new(settings.output, &node, otlp.as_ref())?;
    if let Err(error) = reporter.keep_history(&settings.state, Bounds::default()) {
        complain(format_args!(
            "degraded: no history is kept ({error}). All else goes on."
        ));
    }
    let store = Arc::new(store);
    let (ask, asked) = mpsc::channel(REQUESTS);
    let desk = Arc::new(Desk::new(
        ask,
        Arc::clone(&store),
        reporter.heals(),
        settings.soak,
    ));
    let pods = link.as_ref().map(Link::pods);
    let _served = beside.block_on(async {
        if let Some(link) = link {
            reporter.tell(link.notices());
            link.publish(Arc::clone(&desk));
        }
        serve::serve(&settings.state, desk)
            .inspect_err(|error| {
                complain(format_args!("degraded: no control socket ({error}): `drift-agent status` cannot ask this agent. All else goes on."));
            })
            .ok()
    });
    runtime
        .block_on(pipeline::run(Parts {
            settings,
            store,
            restorer,
            confined,
            reporter,
            host,
            snapshot,
            basis,
            rejected,
            waits,
            switched,
            probe,
            pods,
            asked,
        }))
        .map_err(anyhow::Error::from)
}

/// Takes up where declared paths were when they were declared.
fn mind_places(host: Host, settings: &Settings) -> Result<Host> {
    let host = host
        .minding_places(&settings.host_root)
        .context("cannot read the table of mounts of the host's root directory")?;
    if let Some(Err(error)) = host
        .places()
        .map(|places| places.resume(&settings.state.join("places")))
        && !matches!(error, Unusable::Absent)
    {
        complain(format_args!(
            "degraded: where declared paths were is not known ({error}): what is mounted over them now counts as declared."
        ));
    }
    Ok(host)
}

/// From here on this process only looks, and writes its own state. Before there is another thread.
fn confine(state: &Path, snapshot: &Snapshot, heals: bool) -> Confined {
    if confine::can_change_user()
        && let Err(error) = confine::give(state, confine::DETECTOR)
    {
        complain(format_args!(
            "degraded: what is in the state folder cannot be given to who writes there ({error})."
        ));
    }
    let mut named = snapshot
        .files
        .iter()
        .flat_map(|declared| &declared.attributes.named);
    let sees_trusted = named.any(|attribute| attribute.name.as_bytes().starts_with(b"trusted."));
    let confined = confine::detector(state, sees_trusted, heals);
    let (expected, folder) = (confined.clone(), state.to_owned());
    confine_loader(move || confine::detector(&folder, sees_trusted, heals) == expected);
    for lack in &confined.lacks {
        complain(format_args!("degraded: {lack}."));
    }
    confined
}

/// What a crash has left of a change of versions is dropped, or brought to its end. False: something is left to do.
fn recover(restorer: &Restorer, store: &Store) -> bool {
    if matches!(store.journal(), Ok(None)) {
        return true;
    }
    let recovered = match restorer.recovered() {
        Ok(recovered) => recovered,
        Err(why) => Recovered {
            failed: Some(why),
            ..Recovered::default()
        },
    };
    if let Err(error) = store.read_holding_again() {
        complain(format_args!(
            "degraded: which versions are held cannot be read: {error}."
        ));
    }
    for note in &recovered.notes {
        complain(format_args!("{note}."));
    }
    for left in &recovered.left {
        complain(format_args!("degraded: left to do: {left}"));
    }
    if let Some(error) = &recovered.failed {
        complain(format_args!(
            "degraded: an interrupted change of versions cannot be brought to its end ({error}): it is tried again before the next one."
        ));
    }
    recovered.left.is_empty() && recovered.failed.is_none()
}

/// What the policy folder declares now. Versions that it has changed while no agent ran are changed first, whole or not at all, and what has come of that is
/// the last of the answer; `true`: they wait, and what was active before still is.
fn look(
    restorer: &Restorer,
    store: &Store,
    host: &Host,
    settings: &Settings,
) -> (Result<Snapshot, Rejected>, Basis, bool, Option<Changed>) {
    let (policies, mode) = (&settings.policies, settings.mode);
    let (outcome, basis) = store.look(policies, store.host_root(), mode);
    let Ok(snapshot) = &outcome else {
        return (outcome, basis, false, None);
    };
    let Some(before) = switch::before_the_stop(store, policies, mode, snapshot) else {
        return (outcome, basis, false, None);
    };
    let moves = switch::moved(&before, snapshot);
    let versions = switch::shown(&moves);
    let stops = Stops {
        files: Files::of(&settings.state, &settings.break_glass).look(),
        pauses: store.pauses(),
    };
    let now = SystemTime::now();
    let moved = |policy: &str| moves.iter().any(|moved| moved.policy == policy);
    let mut policies_moved = snapshot
        .policies
        .iter()
        .filter(|policy| moved(&policy.name));
    if let Some(stop) = policies_moved.find_map(|policy| stops.of(policy, now)) {
        complain(format_args!(
            "{versions}, changed while no agent ran, waits: {}.",
            stop.message
        ));
        return (Ok(before), basis, true, None);
    }
    restorer.declare(restorer.turn(), &before);
    let taken = switch::keep_evidence(host, store, &before, snapshot, &moves, &|_| false);
    match restorer.switch(None, store, (&before, snapshot), &moves, store.holding()) {
        Ok(switched) => {
            let came = switched.sentence();
            complain(format_args!(
                "Changed while no agent ran: {versions} ({came})."
            ));
            (outcome, basis, false, Some(Changed { switched, taken }))
        }
        Err(error) => {
            complain(format_args!(
                "degraded: {versions}, changed while no agent ran, failed, nothing has changed, and it is not tried again by itself: {error}"
            ));
            if let Err(error) = switch::hold_back(store, snapshot, &moves, &error) {
                complain(format_args!("degraded: that is not kept: {error}"));
                return (outcome, basis, false, None);
            }
            let (outcome, basis) = store.look(policies, store.host_root(), mode);
            (outcome, basis, false, None)
        }
    }
}

/// What was declared by the same policy folder when it was good last. Without that the agent does not start.
fn last_good(store: &Store, settings: &Settings, rejected: &Rejected) -> Result<Snapshot> {
    let rejected = if io::stderr().is_terminal() {
        rejected.to_string()
    } else {
        rejected.plain().to_string()
    };
    let restored = match store.last_good(&settings.policies) {
        Ok(Some(restored)) => restored,
        Ok(None) => bail!("{rejected}"),
        Err(error) => bail!("{rejected}\nThe last good policies are no help: {error}"),
    };
    let holds = match store.holding_now() {
        Ok(holding) => holding.holds(),
        Err(error) => bail!("{rejected}\nThe last good policies are no help: {error}"),
    };
    let shown = restored.folder.display();
    match declare::load(&restored.folder, store.host_root(), settings.mode, &holds) {
        Ok(snapshot) => {
            let since = jiff::Timestamp::try_from(restored.since).unwrap_or_default();
            complain(format_args!(
                "degraded: the policy folder was rejected. Going on with its last good policies, in force since {since:.0}: {shown} shows them. \
                 To start without them, remove {}.",
                settings.state.join("last-good").display()
            ));
            Ok(snapshot)
        }
        Err(again) => bail!(
            "{rejected}\nThe last good policies ({shown}) are no help: {}",
            again.plain()
        ),
    }
}

/// Loads the probes, as far as the sensor that was asked for wants them. `Ok(Err(_))`: going on by scanning, and why.
fn sense(settings: &Settings, snapshot: &Snapshot) -> Result<Result<Probe, String>> {
    let Ok(sensor) = settings.sensor.probes() else {
        return Ok(Err("asked for with --sensor scan".to_owned()));
    };
    let loaded = Probe::load(ProbeSettings {
        sensor,
        objects: Objects::new(&snapshot.files).count(),
        ring: settings.ring,
        debug: settings.debug_probes,
    });
    match loaded {
        Ok(probe) => Ok(Ok(probe)),
        Err(refused) if settings.sensor != Sensor::Auto => {
            bail!(
                "no probes ({}): {refused}. What runs here: drift-agent probe. Without probes: --sensor scan",
                refused.reason()
            )
        }
        Err(refused) => {
            complain(format_args!(
                "degraded: no probes ({}): {refused}. Going on by scanning: changes are found late, and nobody can say who made them.",
                refused.reason()
            ));
            Ok(Err(short(&refused)))
        }
    }
}

fn short(refused: &Refused) -> String {
    refused.to_string()
}
