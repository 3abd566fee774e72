//! The detector's end: what is to be put back is asked for here, and whoever asks waits for the outcome.

use std::{
    collections::BTreeSet,
    fmt, io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::Child,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use drift_common::escape;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    channel, held,
    keeper::{DONE, FAILED, READY, START, STARTED, UNREADY},
    process::{Role, Settings, command},
    seal,
    serve::digest,
    wire::{self, Answer, Heal, Held, Kind, MOST_ANSWER, MOST_REQUEST, Recovered, Request},
};
use crate::{
    declare::{Declared, Mode, Snapshot},
    heal::{Action, HealError, Healed},
    probe::Watch,
    settings,
    store::{Holding, Moved, Store},
    switch::{SwitchError, Switched},
};

/// For a restorer to begin: the keeper pauses between two.
const PATIENCE: Duration = Duration::from_secs(30);
/// For the keeper to do what it does at once.
const SOON: Duration = Duration::from_secs(5);
/// Kinds of reasons that are told apart.
const MOST_REASONS: usize = 256;

/// Who puts back.
pub struct Restorer {
    inner: Mutex<Inner>,
    /// What was answered last to who asks how the node is: he does not wait.
    last: Mutex<Asked>,
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

struct Inner {
    /// `Err`: there can be none, and why.
    keeper: Result<Keeper, String>,
    at_work: Option<AtWork>,
    /// How many there have been.
    turn: u64,
    is_asked_for: bool,
    /// Why there was none when one was last looked for.
    why: Option<String>,
    /// What is declared.
    wanted: Option<(Vec<Held>, String)>,
}

struct Keeper {
    child: Child,
    socket: OwnedFd,
}

/// A restorer that has begun.
struct AtWork {
    pid: u32,
    recovered: Recovered,
    /// Takes connections.
    socket: OwnedFd,
    /// Those that nobody uses.
    free: Vec<UnixStream>,
    /// The digest of what it has been told is declared.
    declared: Option<String>,
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
            mode: settings.mode,
            ready_file: settings.ready_file.clone(),
        };
        let keeper = Keeper::start(&settings).map_err(|error| {
            let why = format!("the process that starts the restorer cannot be started ({error})");
            eprintln!("degraded: nothing can be put back: {why}.");
            why
        });
        Self {
            inner: Mutex::new(Inner {
                keeper,
                at_work: None,
                turn: 0,
                is_asked_for: false,
                why: None,
                wanted: None,
            }),
            last: Mutex::new(Asked::NotNeeded),
        }
    }

    /// What has become of a change of versions that was interrupted.
    ///
    /// # Errors
    /// There is no restorer; a sentence.
    pub fn recovered(&self) -> Result<Recovered, String> {
        match self.ask(&Request::Recovered)? {
            Answer::Recovered(recovered) => Ok(recovered),
            other => Err(unexpected(&other)),
        }
    }

    /// What is declared from now on. A restorer is started where something may have to be put back. Blocking, where there is one.
    pub fn declare(&self, snapshot: &Snapshot) {
        let heals = snapshot
            .files
            .iter()
            .any(|declared| declared.on_drift == Mode::Heal);
        let mut inner = self.inner();
        inner.wanted = Some((held(snapshot), seal(snapshot)));
        if !heals && inner.at_work.is_none() {
            return;
        }
        // What it says of it is said again to who asks for something to be put back.
        if let Err(why) = inner.ready() {
            log::warn!("nothing can be put back: {why}");
        }
    }

    /// What an interrupted heal has left beside declared paths goes.
    pub fn sweep(&self) {
        if let Err(why) = self.ask(&Request::Sweep) {
            log::warn!("what an interrupted heal may have left is not looked for: {why}");
        }
    }

    /// Puts back what is declared at one path, as far as it still is not as declared. Blocking. What the restorer does is not to ring in `watch`.
    ///
    /// # Errors
    /// As `heal::execute`; or there is no restorer.
    pub fn heal(
        &self,
        watch: Option<&Watch>,
        declared: &Declared,
        action: &Action,
    ) -> Result<Healed, HealError> {
        let request = Request::Heal(Heal {
            policy: declared.policy.name.clone(),
            version: declared.policy.version.clone(),
            path: declared.path.clone(),
            action: action.name().to_owned(),
            digest: digest(declared),
        });
        let failed = |reason, message| HealError::Restorer { reason, message };
        match self.ask_declared(watch, &request) {
            Ok(Answer::Healed { notes }) => Ok(Healed { notes }),
            Ok(Answer::Failed {
                reason, message, ..
            }) => Err(failed(known(&reason), message)),
            Ok(other) => Err(failed(NONE, unexpected(&other))),
            Err(why) => Err(failed(NONE, why)),
        }
    }

    /// Makes what `new` declares of the policies that move, whole or not at all. Blocking.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn switch(
        &self,
        watch: Option<&Watch>,
        store: &Store,
        new: &Snapshot,
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
        let answer = self.ask_declared(watch, &request);
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
                })
            }
            Ok(Answer::Failed {
                reason,
                message,
                kind,
            }) => Err(failed(known(&reason), message, kind == Kind::Tried)),
            Ok(other) => Err(failed(NONE, unexpected(&other), false)),
            Err(why) => Err(failed(NONE, why, false)),
        }
    }

    /// All was looked at once, or the end has come: the ready file is there, or not.
    ///
    /// # Errors
    /// It cannot be made, or removed.
    pub fn ready_file(&self, is_ready: bool) -> io::Result<()> {
        let mut inner = self.inner();
        let said = if is_ready { READY } else { UNREADY };
        channel::send(&inner.keeper()?.socket, &[said], None)?;
        let end = Instant::now() + SOON;
        loop {
            match inner.hear(end)? {
                Some(0) => return Ok(()),
                Some(error) => return Err(io::Error::from_raw_os_error(error)),
                None => {}
            }
        }
    }

    /// Whether there is one. Does not wait for what is under way: then it is as it was last.
    #[must_use]
    pub fn asked(&self) -> Asked {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(inner) = self.inner.try_lock() {
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
        let mut inner = self.inner();
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

    /// As [`Self::ask`], of one that has what is declared.
    fn ask_declared(&self, watch: Option<&Watch>, request: &Request) -> Result<Answer, String> {
        for is_last in [false, true] {
            {
                let mut inner = self.inner();
                inner.ready()?;
                if let (Some(watch), Some(at_work)) = (watch, &inner.at_work)
                    && let Err(error) = watch.restorer(at_work.recovered.tgid)
                {
                    log::warn!("what the restorer does will be looked at as if somebody else did it: {error}");
                }
            }
            let answer = self.ask(request)?;
            match &answer {
                Answer::Failed {
                    kind: Kind::Stale, ..
                } if !is_last => {
                    if let Some(at_work) = &mut self.inner().at_work {
                        at_work.declared = None;
                    }
                }
                _ => return Ok(answer),
            }
        }
        Err("the restorer has not what is declared".to_owned())
    }

    /// One question, one answer. Asked again of the next restorer, where one ends meanwhile: each can be done twice without harm.
    fn ask(&self, request: &Request) -> Result<Answer, String> {
        let mut why = String::new();
        for _ in 0..3 {
            let (mut connection, turn) = self.inner().connection()?;
            match exchange(&mut connection, request) {
                Ok(answer) => {
                    let mut inner = self.inner();
                    if inner.turn == turn
                        && let Some(at_work) = &mut inner.at_work
                    {
                        at_work.free.push(connection);
                    }
                    return Ok(answer);
                }
                Err(error) => {
                    why = format!("the restorer has ended before it answered ({error})");
                    let mut inner = self.inner();
                    if inner.turn == turn {
                        inner.at_work = None;
                        inner.why = Some(why.clone());
                    }
                }
            }
        }
        Err(why)
    }
}

/// Of what comes back without a restorer.
const NONE: &str = "no-restorer";

impl Keeper {
    fn start(settings: &Settings) -> io::Result<Self> {
        let (ours, theirs) = channel::messages()?;
        Ok(Self {
            child: command(Role::Keeper, settings, theirs)?.spawn()?,
            socket: ours,
        })
    }
}

impl Inner {
    fn keeper(&self) -> io::Result<&Keeper> {
        self.keeper
            .as_ref()
            .map_err(|why| io::Error::other(why.clone()))
    }

    /// There is one, and it has what is declared.
    fn ready(&mut self) -> Result<(), String> {
        for _ in 0..3 {
            self.begun()?;
            let (Some((holds, seal)), Some(at_work)) = (self.wanted.clone(), &mut self.at_work)
            else {
                return Ok(());
            };
            if at_work.declared.as_ref() == Some(&seal) {
                return Ok(());
            }
            let request = Request::Declare {
                holds,
                seal: seal.clone(),
            };
            match at_work.ask(&request) {
                Ok(Answer::Declared) => {
                    at_work.declared = Some(seal);
                    return Ok(());
                }
                Ok(Answer::Failed { message, .. }) => return Err(message),
                Ok(other) => return Err(unexpected(&other)),
                Err(error) => self.lost(&error),
            }
        }
        Err(self.why.clone().unwrap_or_default())
    }

    fn connection(&mut self) -> Result<(UnixStream, u64), String> {
        for _ in 0..3 {
            self.begun()?;
            let turn = self.turn;
            let connection = self.at_work.as_mut().map(AtWork::connection);
            match connection {
                Some(Ok(connection)) => return Ok((connection, turn)),
                Some(Err(error)) => self.lost(&error),
                None => {}
            }
        }
        Err(self.why.clone().unwrap_or_default())
    }

    fn lost(&mut self, error: &io::Error) {
        self.at_work = None;
        self.why = Some(format!("the restorer has ended ({error})"));
    }

    /// There is one.
    fn begun(&mut self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        // One that has begun after the last has ended may have said so.
        while self.at_work.is_none() {
            if !self.is_asked_for {
                let asked = self
                    .keeper()
                    .and_then(|keeper| channel::send(&keeper.socket, &[START], None));
                asked.map_err(|error| error.to_string())?;
                self.is_asked_for = true;
            }
            if let Err(error) = self.hear(end) {
                let why = self.why.take();
                let why = why.unwrap_or_else(|| format!("the restorer has not begun ({error})"));
                self.why = Some(why.clone());
                return Err(why);
            }
        }
        Ok(())
    }

    /// One message of the keeper. `Some`: an error number, 0 for none, of what was to be done for the ready file.
    fn hear(&mut self, end: Instant) -> io::Result<Option<i32>> {
        let socket = &self.keeper()?.socket;
        wait(socket, end)?;
        let Some((message, descriptor)) = channel::receive(socket)? else {
            let why = "the process that starts the restorer has ended".to_owned();
            self.at_work = None;
            self.keeper = Err(why.clone());
            return Err(io::Error::other(why));
        };
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        match (message.split_first(), descriptor) {
            (Some((&STARTED, pid)), Some(socket)) => {
                self.turn += 1;
                match AtWork::greet(number(pid), socket) {
                    Ok(at_work) => {
                        if self.turn > 1 {
                            at_work.say();
                        }
                        self.at_work = Some(at_work);
                        self.why = None;
                    }
                    Err(error) => self.lost(&error),
                }
                Ok(None)
            }
            (Some((&FAILED, why)), _) => {
                self.why = Some(escape::printable(&String::from_utf8_lossy(why)).into_owned());
                Ok(None)
            }
            (Some((&DONE, error)), _) => Ok(Some(number(error).cast_signed())),
            _ => Ok(None),
        }
    }
}

impl AtWork {
    /// A restorer has begun: what has it found?
    fn greet(pid: u32, socket: OwnedFd) -> io::Result<Self> {
        let mut at_work = Self {
            pid,
            recovered: Recovered::default(),
            socket,
            free: Vec::new(),
            declared: None,
        };
        match at_work.ask(&Request::Recovered)? {
            Answer::Recovered(recovered) => at_work.recovered = recovered,
            other => return Err(io::Error::other(unexpected(&other))),
        }
        Ok(at_work)
    }

    /// What one has found that has taken the place of another.
    fn say(&self) {
        let Recovered {
            tgid: _,
            notes,
            left,
            failed,
        } = &self.recovered;
        for each in notes.iter().chain(left).chain(failed) {
            eprintln!("degraded: after the end of the restorer: {each}.");
        }
    }

    fn connection(&mut self) -> io::Result<UnixStream> {
        if let Some(free) = self.free.pop() {
            return Ok(free);
        }
        let (ours, theirs) = channel::stream()?;
        channel::send(&self.socket, b"C", Some(std::os::fd::AsFd::as_fd(&theirs)))?;
        Ok(ours)
    }

    fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        let mut connection = self.connection()?;
        let answer = exchange(&mut connection, request)?;
        self.free.push(connection);
        Ok(answer)
    }
}

fn exchange(connection: &mut UnixStream, request: &Request) -> io::Result<Answer> {
    wire::send(connection, request, MOST_REQUEST)?;
    wire::receive(connection, MOST_ANSWER)?
        .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}

/// Waits until there is something to read.
fn wait(socket: &OwnedFd, end: Instant) -> io::Result<()> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let most = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&most)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn unexpected(answer: &Answer) -> String {
    let Answer::Failed { message, .. } = answer else {
        return "the restorer has answered something else than was asked".to_owned();
    };
    message.clone()
}

/// A reason as records have it: one of a set that is closed, for both ends are the same program.
fn known(reason: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let is_one = !reason.is_empty()
        && reason.len() < 64
        && reason
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte.is_ascii_digit());
    if !is_one {
        return NONE;
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(reason) {
        return known;
    }
    if known.len() >= MOST_REASONS {
        return NONE;
    }
    // As many as there are reasons, once each.
    let reason: &'static str = Box::leak(reason.to_owned().into_boxed_str());
    known.insert(reason);
    reason
}
