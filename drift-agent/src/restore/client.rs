//! The detector's end: what is to be put back is asked for here, and whoever asks waits for the outcome.

mod asking;
mod at_work;
mod ready;
mod turns;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use self::{
    asking::{NONE, known},
    at_work::{Inner, Keeper, unexpected},
    ready::Ready,
    turns::Turns,
};
use super::{
    held,
    process::Settings,
    seal,
    serve::digest,
    wire::{Answer, Heal, Kind, Recovered, Request},
};
use crate::{
    declare::{AfterHeal, Declared, Mode, Snapshot},
    heal::{Action, HealError, Healed},
    observe::Places,
    probe::Watch,
    reload::{Came, ReloadError},
    report::complain,
    settings,
    store::{Holding, Moved, Store},
    switch::{SwitchError, Switched},
};
pub use turns::Turn;

/// For a restorer to begin: the keeper pauses between two.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who puts back.
pub struct Restorer {
    inner: Mutex<Inner>,
    ready: Mutex<Ready>,
    /// What was answered last to who asks how the node is: he does not wait.
    last: Mutex<Asked>,
    turns: Mutex<Turns>,
    more: Condvar,
}

/// As whoever asks how the node is wants to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing was to be put back so far.
    NotNeeded,
    /// The number of its process.
    AtWork(u32),
    /// It has ended, or cannot be started: why.
    Gone(String),
}

impl fmt::Debug for Restorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restorer").finish_non_exhaustive()
    }
}

impl Restorer {
    /// Starts the keeper, while this process may still give it what it needs. Nothing else is started before something is to be put back.
    #[must_use]
    pub fn prepare(settings: &settings::Settings) -> Self {
        let settings = Settings {
            policies: settings.policies.clone(),
            state: settings.state.clone(),
            host_root: settings.host_root.clone(),
            mode: settings.mode,
            ready_file: settings.ready_file.clone(),
            commands: settings.allowed_commands.clone(),
        };
        let (keeper, ready) = match Keeper::start(&settings) {
            Ok((keeper, ready)) => (Ok(keeper), Some(ready)),
            Err(error) => {
                let why =
                    format!("the process that starts the restorer cannot be started ({error})");
                complain(format_args!("degraded: nothing can be put back: {why}."));
                (Err(why), None)
            }
        };
        Self {
            inner: Mutex::new(Inner {
                keeper,
                at_work: None,
                count: 0,
                is_asked_for: false,
                why: None,
                wanted: None,
            }),
            ready: Mutex::new(Ready {
                path: settings.ready_file,
                keeper: ready,
                is_over: false,
            }),
            last: Mutex::new(Asked::NotNeeded),
            turns: Mutex::default(),
            more: Condvar::new(),
        }
    }

    /// What has become of a change of versions that was interrupted.
    ///
    /// # Errors
    /// There is no restorer; a sentence.
    pub fn recovered(&self) -> Result<Recovered, String> {
        match self.ask(&Request::Recovered) {
            Ok(Answer::Recovered(recovered)) => Ok(recovered),
            Ok(other) => Err(unexpected(&other)),
            Err(unable) => Err(unable.message),
        }
    }

    /// What is declared from now on. A restorer is started where something may have to be put back, or the policies have changed since the start: none has read
    /// the new ones then, and a later change of versions begins with them. Blocking, where there is one.
    pub fn declare(&self, turn: Turn, snapshot: &Snapshot) {
        let heals = snapshot
            .files
            .iter()
            .any(|declared| declared.on_drift == Mode::Heal);
        let wanted = (held(snapshot), seal(snapshot));
        let mut inner = self.inner();
        // One that was begun later may have been faster.
        if self.turns().done < turn.0 {
            let is_another = |before: &(_, _)| *before != wanted;
            let changes = inner.wanted.as_ref().is_some_and(is_another);
            inner.wanted = Some(wanted);
            if (heals || changes || inner.at_work.is_some())
                && let Err(unable) = inner.ready()
            {
                // Whoever asks for something to be put back is told again.
                log::warn!("nothing can be put back: {}", unable.message);
            }
            let mut turns = self.turns();
            turns.done = turns.done.max(turn.0);
        }
        drop(inner);
        self.more.notify_all();
    }

    /// What an interrupted heal has left beside declared paths goes.
    pub fn sweep(&self) {
        if let Err(unable) = self.ask(&Request::Sweep) {
            let why = unable.message;
            log::warn!("what an interrupted heal may have left is not looked for: {why}");
        }
    }

    /// Puts back what is declared at one path, as far as it still is not as declared. Blocking. What the restorer does is not to ring in `watch`. `forced`: although
    /// the policy only watches. `beside`: what is to be done while the restorer is at work; it is done in any case, once.
    ///
    /// # Errors
    /// As `heal::execute`; or there is no restorer.
    pub fn heal(
        &self,
        watch: Option<&Watch>,
        places: Option<&Places>,
        declared: &Declared,
        action: &Action,
        forced: bool,
        beside: impl FnOnce(),
    ) -> Result<Healed, HealError> {
        let request = Request::Heal(Box::new(Heal {
            policy: declared.policy.name.clone(),
            version: declared.policy.version.clone(),
            path: declared.path.clone(),
            action: action.name().to_owned(),
            digest: digest(declared),
            forced,
            place: places.and_then(|places| places.of_path(declared.real())),
        }));
        let failed = |reason, message| HealError::Restorer { reason, message };
        let mut beside = Some(beside);
        let mut once = || {
            if let Some(beside) = beside.take() {
                beside();
            }
        };
        let answer = self.ask_declared(watch, &request, &mut once);
        // Where there was nobody to ask.
        once();
        match answer {
            Ok(Answer::Healed { notes }) => Ok(Healed { notes }),
            Ok(Answer::Failed {
                reason, message, ..
            }) => Err(failed(known(&reason), message)),
            Ok(other) => Err(failed(NONE, unexpected(&other))),
            Err(unable) => Err(failed(unable.reason, unable.message)),
        }
    }

    /// Lets programs take in what was put back: one after the other. Blocking, for as long as they may take.
    pub fn after_heal(&self, actions: &[AfterHeal]) -> Vec<Came> {
        let one = |action: &AfterHeal| {
            let request = Request::AfterHeal {
                action: action.to_string(),
            };
            let start = Instant::now();
            let failed = |reason, message, took| Came {
                action: action.clone(),
                result: Err(ReloadError::Restorer { reason, message }),
                output: Vec::new(),
                took,
            };
            match self.ask_once(&request) {
                Ok(Answer::AfterHealed(came)) => match came.result {
                    Ok(done) => Came {
                        action: action.clone(),
                        result: Ok(done),
                        output: came.output,
                        took: came.took,
                    },
                    Err((reason, message)) => Came {
                        output: came.output,
                        ..failed(known(&reason), message, came.took)
                    },
                },
                Ok(Answer::Failed {
                    reason, message, ..
                }) => failed(known(&reason), message, start.elapsed()),
                Ok(other) => failed(NONE, unexpected(&other), start.elapsed()),
                Err(unable) => failed(unable.reason, unable.message, start.elapsed()),
            }
        };
        actions.iter().map(one).collect()
    }

    /// Makes what `new` declares of the policies that move, whole or not at all. Blocking.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn switch(
        &self,
        watch: Option<&Watch>,
        store: &Store,
        (old, new): (&Snapshot, &Snapshot),
        moves: &[Moved],
        holding: Holding,
    ) -> Result<Switched, SwitchError> {
        store.admit(new).map_err(SwitchError::Rejected)?;
        let asked = seal(new);
        let request = Request::Switch {
            seal: asked.clone(),
            moves: moves.to_vec(),
            holding,
        };
        let failed = |reason, message, is_tried| SwitchError::Restorer {
            reason,
            message,
            is_tried,
        };
        let answer = self.ask_declared(watch, &request, &mut || {});
        // What is held is written by who commits the change.
        if let Err(error) = store.read_holding_again() {
            log::warn!("which versions are held cannot be read: {error}");
        }
        match answer {
            Ok(Answer::Switched(switched)) => {
                let mut inner = self.inner();
                inner.wanted = Some((held(new), asked.clone()));
                if let Some(at_work) = &mut inner.at_work {
                    at_work.declared = Some(asked);
                }
                Ok(Switched {
                    moves: moves.to_vec(),
                    written: switched.written,
                    notes: switched.notes,
                    is_unfinished: switched.is_unfinished,
                    amiss: switched.amiss.into_iter().map(|amiss| amiss.0).collect(),
                    first: switched.first.map(|first| first.0),
                    after: after([new, old], &switched.after),
                })
            }
            Ok(Answer::Failed {
                reason,
                message,
                kind,
            }) => Err(failed(known(&reason), message, kind == Kind::Tried)),
            Ok(other) => Err(failed(NONE, unexpected(&other), false)),
            Err(unable) => Err(failed(unable.reason, unable.message, false)),
        }
    }

    /// Whether there is one. Does not wait for what is under way: then it is as it was last.
    #[must_use]
    pub fn asked(&self) -> Asked {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(mut inner) = self.inner.try_lock() {
            // What the keeper has said meanwhile.
            while inner.hear(Instant::now()).is_ok() {}
            *last = match (&inner.keeper, &inner.at_work, &inner.why) {
                (Err(why), ..) | (Ok(_), None, Some(why)) => Asked::Gone(why.clone()),
                (Ok(_), Some(at_work), _) => Asked::AtWork(at_work.pid),
                (Ok(_), None, None) => Asked::NotNeeded,
            };
        }
        last.clone()
    }

    /// The end: what is under way there comes to its end, and nothing is left of it.
    pub fn end(&self) {
        // Somebody still waits for one to begin: it ends with this process.
        let Ok(mut inner) = self.inner.try_lock() else {
            return;
        };
        inner.at_work = None;
        let keeper = std::mem::replace(&mut inner.keeper, Err("the agent is ending".to_owned()));
        let Ok(Keeper { mut child, socket }) = keeper else {
            return;
        };
        drop(socket);
        if let Err(error) = child.wait() {
            log::warn!("the restorer's keeper cannot be waited for: {error}");
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Whatever a panic has left, the next use finds out.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the restorer has named, in its order, of what is declared here.
fn after(snapshots: [&Snapshot; 2], shown: &[String]) -> Vec<AfterHeal> {
    let files = snapshots.into_iter().flat_map(|snapshot| &snapshot.files);
    let actions = files.flat_map(|declared| &declared.after_heal);
    let mut known: BTreeMap<String, &AfterHeal> = BTreeMap::new();
    for action in actions {
        known.entry(action.to_string()).or_insert(action);
    }
    let named = shown.iter().filter_map(|shown| known.get(shown.as_str()));
    named.map(|action| (*action).clone()).collect()
}
