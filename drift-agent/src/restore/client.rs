//! The detector's end: what is to be put back is asked for here, and whoever asks waits for the outcome.

use std::{
    collections::BTreeSet,
    fmt, io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::Child,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use drift_common::escape;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    channel, held,
    keeper::{ENDED, FAILED, READY, START, STARTED, UNREADY},
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
    /// Where the ready file is asked for.
    ready: Option<Mutex<OwnedFd>>,
    /// What was answered last to who asks how the node is: he does not wait.
    last: Mutex<Asked>,
    turns: Mutex<Turns>,
    more: Condvar,
}

/// Declarations that were begun, and how far they are.
#[derive(Debug, Default)]
struct Turns {
    begun: u64,
    done: u64,
}

/// The place of a declaration among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(u64);

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
    count: u64,
    /// Since the last one has ended.
    is_asked_for: bool,
    /// Why there is none.
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
    /// `None`: it was not asked yet.
    recovered: Option<Recovered>,
    /// Takes connections.
    socket: OwnedFd,
    /// Those that nobody uses.
    free: Vec<UnixStream>,
    /// The digest of what it has been told is declared.
    declared: Option<String>,
}

/// Why nothing was asked.
struct Unable {
    reason: &'static str,
    message: String,
}

impl Unable {
    fn gone(message: impl Into<String>) -> Self {
        Self {
            reason: NONE,
            message: message.into(),
        }
    }
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
        let (keeper, ready) = match Keeper::start(&settings) {
            Ok((keeper, ready)) => (Ok(keeper), Some(Mutex::new(ready))),
            Err(error) => {
                let why =
                    format!("the process that starts the restorer cannot be started ({error})");
                eprintln!("degraded: nothing can be put back: {why}.");
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
            ready,
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

    /// A declaration begins, for [`Self::declare`]: nothing is put back before it has come to its end.
    pub fn turn(&self) -> Turn {
        let mut turns = self.turns();
        turns.begun += 1;
        Turn(turns.begun)
    }

    /// What is declared from now on. A restorer is started where something may have to be put back. Blocking, where there is one.
    pub fn declare(&self, turn: Turn, snapshot: &Snapshot) {
        let heals = snapshot
            .files
            .iter()
            .any(|declared| declared.on_drift == Mode::Heal);
        let wanted = (held(snapshot), seal(snapshot));
        let mut inner = self.inner();
        // One that was begun later may have been faster.
        if self.turns().done < turn.0 {
            inner.wanted = Some(wanted);
            if (heals || inner.at_work.is_some())
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

    /// Waits for declarations that have begun.
    fn declared(&self) {
        let turns = self.turns();
        let begun = turns.begun;
        let waiting = self
            .more
            .wait_timeout_while(turns, PATIENCE, |turns| turns.done < begun);
        // Without it the answer is that of something else declared: said by who asks.
        drop(waiting);
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an interrupted heal has left beside declared paths goes.
    pub fn sweep(&self) {
        if let Err(unable) = self.ask(&Request::Sweep) {
            let why = unable.message;
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
            Err(unable) => Err(failed(unable.reason, unable.message)),
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
            Err(unable) => Err(failed(unable.reason, unable.message, false)),
        }
    }

    /// All was looked at once, or the end has come: the ready file is there, or not.
    ///
    /// # Errors
    /// It cannot be made, or removed.
    pub fn ready_file(&self, is_ready: bool) -> io::Result<()> {
        let ready = self.ready.as_ref();
        let ready = ready.ok_or_else(|| io::Error::other("nobody is there to make it"))?;
        let socket = ready.lock().unwrap_or_else(PoisonError::into_inner);
        let said = if is_ready { READY } else { UNREADY };
        channel::send(&*socket, &[said], None)?;
        wait(&socket, Instant::now() + SOON)?;
        let error = channel::receive(&*socket)?
            .and_then(|(message, _)| message.try_into().ok().map(i32::from_le_bytes));
        match error {
            Some(0) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(error)),
            None => Err(io::ErrorKind::BrokenPipe.into()),
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

    /// As [`Self::ask`], of one that has what is declared.
    fn ask_declared(&self, watch: Option<&Watch>, request: &Request) -> Result<Answer, Unable> {
        self.declared();
        let mut is_last = false;
        loop {
            let tgid = self.inner().ready()?;
            if let Some(watch) = watch
                && let Err(error) = watch.restorer(tgid)
            {
                log::warn!(
                    "what the restorer does will be looked at as if somebody else did it: {error}"
                );
            }
            let answer = self.ask(request)?;
            let is_stale = matches!(
                &answer,
                Answer::Failed {
                    kind: Kind::Stale,
                    ..
                }
            );
            if is_last || !is_stale {
                return Ok(answer);
            }
            is_last = true;
            if let Some(at_work) = &mut self.inner().at_work {
                at_work.declared = None;
            }
        }
    }

    /// One question, one answer. Asked again of the next restorer, where one ends meanwhile: each can be done twice without harm.
    fn ask(&self, request: &Request) -> Result<Answer, Unable> {
        let mut why = String::new();
        for _ in 0..TRIES {
            let (mut connection, count) = {
                let mut inner = self.inner();
                // What a restorer is asked that has taken the place of another.
                inner.ready()?;
                inner.connection()?
            };
            let answer = exchange(&mut connection, request);
            let mut inner = self.inner();
            if inner.count == count {
                match (&answer, &mut inner.at_work) {
                    (Ok(_), Some(at_work)) => at_work.free.push(connection),
                    (Ok(_), None) => {}
                    (Err(error), _) => inner.lost(error),
                }
            }
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => why = format!("the restorer has ended before it answered ({error})"),
            }
        }
        Err(Unable::gone(why))
    }
}

/// Restorers that are asked the same, one after the other.
const TRIES: u32 = 3;

/// Of what comes back without a restorer.
const NONE: &str = "no-restorer";

impl Keeper {
    /// And the socket on which the ready file is asked for.
    fn start(settings: &Settings) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = channel::messages()?;
        let (ready, asked) = channel::messages()?;
        let mut command = command(Role::Keeper, settings, theirs)?;
        let keeper = Self {
            child: command.stdout(asked).spawn()?,
            socket: ours,
        };
        Ok((keeper, ready))
    }
}

impl Inner {
    /// There is one, and it has what is declared. Its thread group, in the initial pid name space.
    fn ready(&mut self) -> Result<u32, Unable> {
        for _ in 0..TRIES {
            let tgid = match self.begun() {
                Ok(tgid) => tgid,
                Err(Some(unable)) => return Err(unable),
                Err(None) => continue,
            };
            let Some((holds, seal)) = self.wanted.clone() else {
                return Ok(tgid);
            };
            let Some(at_work) = &mut self.at_work else {
                continue;
            };
            if at_work.declared.as_ref() == Some(&seal) {
                return Ok(tgid);
            }
            let request = Request::Declare {
                holds,
                seal: seal.clone(),
            };
            match at_work.ask(&request) {
                Ok(Answer::Declared) => {
                    at_work.declared = Some(seal);
                    return Ok(tgid);
                }
                Ok(Answer::Failed {
                    reason, message, ..
                }) => {
                    return Err(Unable {
                        reason: known(&reason),
                        message,
                    });
                }
                Ok(other) => return Err(Unable::gone(unexpected(&other))),
                Err(error) => self.lost(&error),
            }
        }
        Err(Unable::gone(self.why.clone().unwrap_or_default()))
    }

    fn connection(&mut self) -> Result<(UnixStream, u64), Unable> {
        let connection = match &mut self.at_work {
            Some(at_work) => at_work.connection(),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        connection
            .map(|connection| (connection, self.count))
            .map_err(|error| {
                self.lost(&error);
                Unable::gone(self.why.clone().unwrap_or_default())
            })
    }

    fn lost(&mut self, error: &io::Error) {
        self.at_work = None;
        self.is_asked_for = false;
        self.why = Some(format!("the restorer has ended ({error})"));
    }

    /// There is one, and it has said what it has found: its thread group. `Err(None)`: it has ended meanwhile.
    fn begun(&mut self) -> Result<u32, Option<Unable>> {
        let end = Instant::now() + PATIENCE;
        while self.at_work.is_none() {
            if !self.is_asked_for {
                self.start()
                    .map_err(|error| Some(Unable::gone(error.to_string())))?;
            }
            if let Err(error) = self.hear(end) {
                let why = self.why.take();
                let why = why.unwrap_or_else(|| format!("the restorer has not begun ({error})"));
                self.why = Some(why.clone());
                return Err(Some(Unable::gone(why)));
            }
        }
        let is_next = self.count > 1;
        let Some(at_work) = &mut self.at_work else {
            return Err(None);
        };
        match at_work.greet(is_next) {
            Ok(tgid) => Ok(tgid),
            Err(error) => {
                self.lost(&error);
                Err(None)
            }
        }
    }

    fn start(&mut self) -> io::Result<()> {
        channel::send(&self.keeper()?.socket, &[START], None)?;
        self.is_asked_for = true;
        Ok(())
    }

    fn keeper(&self) -> io::Result<&Keeper> {
        self.keeper
            .as_ref()
            .map_err(|why| io::Error::other(why.clone()))
    }

    /// One message of the keeper.
    fn hear(&mut self, end: Instant) -> io::Result<()> {
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
                self.count += 1;
                self.why = None;
                self.at_work = Some(AtWork {
                    pid: number(pid),
                    recovered: None,
                    socket,
                    free: Vec::new(),
                    declared: None,
                });
            }
            (Some((&ENDED, pid)), _) => {
                if self
                    .at_work
                    .as_ref()
                    .is_some_and(|it| it.pid == number(pid))
                {
                    self.lost(&io::ErrorKind::UnexpectedEof.into());
                }
            }
            (Some((&FAILED, why)), _) => {
                self.is_asked_for = false;
                let why = escape::printable(&String::from_utf8_lossy(why)).into_owned();
                self.why = Some(why.clone());
                return Err(io::Error::other(why));
            }
            _ => {}
        }
        Ok(())
    }
}

impl AtWork {
    /// A restorer has begun: what has it found? Its thread group. `is_next`: it has taken the place of another, and nobody asks for that but this.
    fn greet(&mut self, is_next: bool) -> io::Result<u32> {
        if let Some(recovered) = &self.recovered {
            return Ok(recovered.tgid);
        }
        let recovered = match self.ask(&Request::Recovered)? {
            Answer::Recovered(recovered) => recovered,
            other => return Err(io::Error::other(unexpected(&other))),
        };
        let Recovered {
            tgid,
            notes,
            left,
            failed,
        } = &recovered;
        if is_next {
            for each in notes.iter().chain(left).chain(failed) {
                eprintln!("degraded: after the end of the restorer: {each}.");
            }
        }
        let tgid = *tgid;
        self.recovered = Some(recovered);
        Ok(tgid)
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
