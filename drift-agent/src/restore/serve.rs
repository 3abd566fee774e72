//! The restorer: what it is asked it checks against what it has read itself, looks again, plans again, and only then writes.

mod declared;
mod refusal;

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock},
    thread::{self, JoinHandle},
};

use anyhow::{Context, Result};
use drift_common::escape;

use self::{declared::Sealed, refusal::Refusal};
use super::{
    channel, check, hold,
    process::Settings,
    wire::{
        self, AfterHealed, Amiss, Answer, Heal, Kind, MOST_ANSWER, MOST_REQUEST, Recovered,
        Request, Switched,
    },
};
use crate::{
    compare, confine,
    declare::{Declared, Mode, Snapshot, Target},
    heal::{self, TransactionError},
    observe::{Host, observe},
    probe::{self, Process},
    reload::{self, Allowed},
    store::{Holding, Moved, Store},
    switch::{self, SwitchError},
};

/// In the state folder.
const PLACES: &str = "places";

/// Connections at once. A detector has fewer.
const MOST_CONNECTIONS: usize = 32;

struct Server {
    settings: Settings,
    host: Host,
    store: Store,
    /// Written by who changes what is declared: no heal is under way meanwhile.
    declared: RwLock<Arc<Sealed>>,
    /// There is one journal.
    in_place: Mutex<()>,
    recovered: Recovered,
    _lock: File,
}

/// Until the detector has gone.
pub(super) fn serve(connections: &OwnedFd, settings: Settings) -> Result<()> {
    for lack in confine::restorer().lacks {
        // The keeper has said what is missing; here it is about this process alone.
        log::info!("{lack}");
    }
    let lock = hold(&settings.state)?;
    let host = Host::new(&settings.host_root)
        .and_then(|host| host.minding_places(&settings.host_root))
        .context("cannot open the host's root directory, or its table of mounts")?
        .silent();
    take_places(&host, &settings.state);
    let store = Store::beside(&settings.state)?.rooted(&settings.host_root);
    let mut server = Server {
        settings,
        host,
        store,
        declared: RwLock::default(),
        in_place: Mutex::default(),
        recovered: Recovered::default(),
        _lock: lock,
    };
    server.recovered = server.recover();
    let server = Arc::new(server);
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while let Some((_, connection)) = channel::receive(connections)? {
        threads.retain(|thread| !thread.is_finished());
        let Some(connection) = connection.filter(|_| threads.len() < MOST_CONNECTIONS) else {
            continue;
        };
        let server = Arc::clone(&server);
        let hear = move || {
            if let Err(error) = server.hear(UnixStream::from(connection)) {
                log::warn!("a request of the detecting process cannot be read: {error}");
            }
        };
        threads.push(
            thread::Builder::new()
                .name("restore".to_owned())
                .spawn(hear)
                .context("cannot start a thread")?,
        );
    }
    for thread in threads {
        // One that has panicked has said so.
        let _panicked = thread.join();
    }
    Ok(())
}

/// Where declared paths were when they were declared: the detector keeps that. One that lies keeps declared paths from being put back, or lets them be put back
/// where somebody has mounted something.
fn take_places(host: &Host, state: &Path) {
    let taken = host
        .places()
        .map(|places| places.resume(&state.join(PLACES)));
    if let Some(Err(error)) = taken {
        log::info!("where declared paths were is not known: {error}");
    }
}

impl Server {
    fn hear(&self, mut connection: UnixStream) -> io::Result<()> {
        while let Some(request) = wire::receive(&mut connection, MOST_REQUEST)? {
            let answer = self.answer(request).unwrap_or_else(Answer::from);
            match wire::send(&mut connection, &answer, MOST_ANSWER) {
                // The detector has gone: nobody is to be told.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                other => other?,
            }
        }
        Ok(())
    }

    fn answer(&self, request: Request) -> Result<Answer, Refusal> {
        match request {
            Request::Recovered => Ok(Answer::Recovered(self.recovered.clone())),
            Request::Declare { holds, seal } => self.declare(&holds, &seal),
            Request::Heal(heal) => self.heal(&heal),
            Request::Switch {
                seal,
                moves,
                holding,
            } => self.switch(&seal, &moves, holding),
            Request::AfterHeal { action } => self.after_heal(&action),
            Request::Sweep => {
                let declared = self.declared();
                sweep(&self.host, &declared.snapshot);
                Ok(Answer::Swept)
            }
        }
    }

    fn heal(&self, asked: &Heal) -> Result<Answer, Refusal> {
        let sealed = self.declared();
        let declared = find(&sealed.snapshot, &asked.path).ok_or_else(|| {
            Refusal::refused(format!("{} is not declared", escape::path(&asked.path)))
        })?;
        let shown = escape::path(&asked.path);
        if declared.policy.name != asked.policy || declared.policy.version != asked.version {
            return Err(Refusal::stale(format!(
                "{shown} is declared by {} {}",
                escape::name(&declared.policy.name),
                escape::printable(&declared.policy.version)
            )));
        }
        if declared.on_drift != Mode::Heal && !asked.forced {
            return Err(Refusal::refused(format!("{shown} is only watched")));
        }
        if digest(declared) != asked.digest {
            return Err(Refusal::stale(format!(
                "{shown} is declared with another content"
            )));
        }
        if let (Some(places), Some(place)) = (self.host.places(), &asked.place)
            && !places.expect(declared.real(), place.clone())
        {
            return Err(Refusal::refused(format!(
                "{shown} is said to be elsewhere than it was"
            )));
        }
        let observed = observe(&self.host, declared, None, &mut |_| {});
        let out_of_reach = compare::attribute::out_of_reach(declared, &observed);
        let drifts = compare::differences(declared, &observed);
        let drifts = heal::healable(declared, &drifts, out_of_reach);
        if drifts.is_empty() {
            // Somebody was faster: the look that follows says so.
            return Ok(Answer::Healed { notes: Vec::new() });
        }
        let changed = |message: &str| Refusal::new(Kind::Tried, "changed-meanwhile", message);
        let action = heal::plan(declared, &drifts, &observed.found)
            .map_err(|why| changed(why.sentence()))?;
        if action.name() != asked.action {
            return Err(changed(
                "it is something else now than what was judged: it is judged again",
            ));
        }
        let is_in_place = heal::is_in_place(declared, observed.stat.as_ref());
        let _one =
            is_in_place.then(|| self.in_place.lock().unwrap_or_else(PoisonError::into_inner));
        match heal::put_back(&self.host, &self.store, declared, &action, &observed) {
            Ok(healed) => Ok(Answer::Healed {
                notes: healed.notes,
            }),
            Err(error) => Err(Refusal::new(Kind::Tried, error.reason(), error.to_string())),
        }
    }

    fn switch(&self, asked: &str, moves: &[Moved], holding: Holding) -> Result<Answer, Refusal> {
        let mut declared = self
            .declared
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let new = self.read(&holding.holds(), asked)?;
        let old = &declared.snapshot;
        // What needs another comes after that in what is asked for; here by name.
        let mut asked_for = moves.to_vec();
        asked_for.sort_by(|one, other| one.policy.cmp(&other.policy));
        // After a restart it may have happened already.
        if switch::moved(old, &new.snapshot) != asked_for {
            return Err(Refusal::stale(
                "other versions would change than was asked for",
            ));
        }
        // An earlier change that is not over is brought to its end first.
        self.believe()
            .map_err(|why| Refusal::new(Kind::Tried, "earlier-unfinished", why))?;
        let store = &self.store;
        store
            .read_holding_again()
            .map_err(|error| Refusal::new(Kind::Tried, error.reason(), error.to_string()))?;
        take_places(&self.host, &self.settings.state);
        self.host.declare(&old.files);
        match switch::perform(&self.host, store, old, &new.snapshot, moves, holding) {
            Ok(switched) => {
                let before = declared.snapshot.files.clone();
                *declared = Arc::new(Sealed { before, ..new });
                self.host.declare(&declared.snapshot.files);
                Ok(Answer::Switched(Switched {
                    written: switched.written,
                    notes: switched.notes,
                    is_unfinished: switched.is_unfinished,
                    amiss: switched.amiss.into_iter().map(Amiss).collect(),
                    first: switched.first.map(Amiss),
                    after: switched.after.iter().map(ToString::to_string).collect(),
                }))
            }
            Err(error) => Err(Refusal {
                kind: match &error {
                    SwitchError::Rejected(_)
                    | SwitchError::Transaction(TransactionError::Aborted)
                    | SwitchError::Refused(_)
                    | SwitchError::NoEarlier(_)
                    | SwitchError::Store(_) => Kind::Refused,
                    SwitchError::Impossible { .. }
                    | SwitchError::Unwritable { .. }
                    | SwitchError::Transaction(_)
                    | SwitchError::Restorer { .. } => Kind::Tried,
                },
                reason: error.reason(),
                message: error.to_string(),
            }),
        }
    }

    /// What a policy that is in force says is to come after a heal. A change of versions may have come from one that is in force no more: what that says was
    /// kept with it.
    fn after_heal(&self, asked: &str) -> Result<Answer, Refusal> {
        let sealed = Arc::clone(&self.declared());
        let files = sealed.snapshot.files.iter().chain(&sealed.before);
        let mut actions = files.flat_map(|declared| &declared.after_heal);
        let action = actions.find(|action| action.to_string() == asked);
        let action = action.ok_or_else(|| {
            Refusal::refused(format!("no policy says {}", escape::printable(asked)))
        })?;
        let allowed = Allowed {
            commands: self.settings.commands.clone(),
        };
        let came = reload::perform(action, &allowed);
        Ok(Answer::AfterHealed(AfterHealed {
            result: came
                .result
                .map_err(|error| (error.reason().to_owned(), error.to_string())),
            output: came.output,
            took: came.took,
        }))
    }

    /// What a crash has left of a change of versions is dropped, or brought to its end, as far as the policy folder says that it was one.
    fn recover(&self) -> Recovered {
        let mut recovered = Recovered {
            process: itself(),
            notes: self.store.notes().to_vec(),
            ..Recovered::default()
        };
        if let Err(why) = self.believe() {
            recovered.failed = Some(why);
            return recovered;
        }
        match heal::recover(&self.host, &self.store) {
            Ok(None) => {}
            Ok(Some(finished)) => {
                recovered.notes.extend(finished.notes);
                let left = finished.left.iter();
                recovered.left = left
                    .map(|(path, error)| format!("{}: {error}", escape::path(path)))
                    .collect();
            }
            Err(error) => recovered.failed = Some(error.to_string()),
        }
        recovered
    }

    /// See [`check::believe`].
    fn believe(&self) -> Result<(), String> {
        let Settings {
            policies,
            state,
            mode,
            ..
        } = &self.settings;
        check::believe(&self.store, state, policies, *mode)
    }
}

fn itself() -> Process {
    let process = probe::own_tgid().and_then(|tgid| {
        Ok(Process {
            tgid,
            start: probe::own_start()?,
        })
    });
    process.unwrap_or_else(|error| {
        log::warn!("which process the restorer is cannot be told: {error}");
        Process::default()
    })
}

fn find<'s>(snapshot: &'s Snapshot, path: &Path) -> Option<&'s Arc<Declared>> {
    let files = &snapshot.files;
    let index = files.binary_search_by(|declared| declared.path.as_path().cmp(path));
    Some(&files[index.ok()?])
}

/// BLAKE3 of the declared content, where a file is declared.
pub(super) fn digest(declared: &Declared) -> Option<String> {
    match &declared.target {
        Target::File(content) => Some(content.digest.to_string()),
        Target::Symlink(_) | Target::Directory(_) | Target::Absent => None,
    }
}

/// What a killed heal has left beside declared paths goes.
fn sweep(host: &Host, snapshot: &Snapshot) {
    for declared in &snapshot.files {
        let path = escape::path(&declared.path);
        match heal::sweep_leftovers(host, declared) {
            Ok(true) => log::info!("removed what an interrupted heal had left beside {path}"),
            Ok(false) => {}
            Err(error) => log::warn!("beside {path}: {error}"),
        }
    }
}
