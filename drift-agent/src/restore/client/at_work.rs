//! The restorer that is at work, and the keeper that starts it.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::Child,
    time::Instant,
};

use drift_common::escape;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    PATIENCE,
    asking::{NONE, TRIES, known},
};
use crate::{
    probe::Process,
    report::complain,
    restore::{
        channel,
        keeper::{ENDED, FAILED, START, STARTED},
        process::{Role, Settings, command},
        wire::{self, Answer, Held, MOST_ANSWER, MOST_REQUEST, Recovered, Request},
    },
};

pub(super) struct Inner {
    /// `Err`: there can be none, and why.
    pub(super) keeper: Result<Keeper, String>,
    pub(super) at_work: Option<AtWork>,
    /// How many there have been.
    pub(super) count: u64,
    /// Since the last one has ended.
    pub(super) is_asked_for: bool,
    /// Why there is none.
    pub(super) why: Option<String>,
    /// What is declared.
    pub(super) wanted: Option<(Vec<Held>, String)>,
}

pub(super) struct Keeper {
    pub(super) child: Child,
    pub(super) socket: OwnedFd,
}

/// A restorer that has begun.
pub(super) struct AtWork {
    pub(super) pid: u32,
    /// `None`: it was not asked yet.
    pub(super) recovered: Option<Recovered>,
    /// Takes connections.
    pub(super) socket: OwnedFd,
    /// Those that nobody uses.
    pub(super) free: Vec<UnixStream>,
    /// The digest of what it has been told is declared.
    pub(super) declared: Option<String>,
}

/// Why nothing was asked.
pub(super) struct Unable {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Unable {
    pub(super) fn gone(message: impl Into<String>) -> Self {
        Self {
            reason: NONE,
            message: message.into(),
        }
    }
}

impl Keeper {
    /// And the socket on which the ready file is asked for.
    pub(super) fn start(settings: &Settings) -> io::Result<(Self, OwnedFd)> {
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
    /// There is one, and it has what is declared. Which process it is.
    pub(super) fn ready(&mut self) -> Result<Process, Unable> {
        for _ in 0..TRIES {
            let process = match self.begun() {
                Ok(process) => process,
                Err(Some(unable)) => return Err(unable),
                Err(None) => continue,
            };
            let Some((holds, seal)) = self.wanted.clone() else {
                return Ok(process);
            };
            let Some(at_work) = &mut self.at_work else {
                continue;
            };
            if at_work.declared.as_ref() == Some(&seal) {
                return Ok(process);
            }
            let request = Request::Declare {
                holds,
                seal: seal.clone(),
            };
            match at_work.ask(&request) {
                Ok(Answer::Declared) => {
                    at_work.declared = Some(seal);
                    return Ok(process);
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

    pub(super) fn connection(&mut self) -> Result<(UnixStream, u64), Unable> {
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

    /// The keeper says that this restorer has ended; by then another one may be at work.
    fn ended(&mut self, pid: u32) {
        let at_work = self.at_work.as_ref();
        if at_work.is_some_and(|at_work| at_work.pid == pid) {
            self.lost(&io::ErrorKind::UnexpectedEof.into());
        }
    }

    pub(super) fn lost(&mut self, error: &io::Error) {
        self.at_work = None;
        self.is_asked_for = false;
        self.why = Some(format!("the restorer has ended ({error})"));
    }

    /// There is one, and it has said what it has found: which process it is. `Err(None)`: it has ended meanwhile.
    pub(super) fn begun(&mut self) -> Result<Process, Option<Unable>> {
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
            Ok(process) => Ok(process),
            Err(error) => {
                self.lost(&error);
                Err(None)
            }
        }
    }

    pub(super) fn start(&mut self) -> io::Result<()> {
        channel::send(&self.keeper()?.socket, &[START], None)?;
        self.is_asked_for = true;
        Ok(())
    }

    pub(super) fn keeper(&self) -> io::Result<&Keeper> {
        self.keeper
            .as_ref()
            .map_err(|why| io::Error::other(why.clone()))
    }

    /// One message of the keeper.
    pub(super) fn hear(&mut self, end: Instant) -> io::Result<()> {
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
            (Some((&ENDED, pid)), _) => self.ended(number(pid)),
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
    /// A restorer has begun: what has it found? Which process it is. `is_next`: it has taken the place of another, and nobody asks for that but this.
    pub(super) fn greet(&mut self, is_next: bool) -> io::Result<Process> {
        if let Some(recovered) = &self.recovered {
            return Ok(recovered.process);
        }
        let recovered = match self.ask(&Request::Recovered)? {
            Answer::Recovered(recovered) => recovered,
            other => return Err(io::Error::other(unexpected(&other))),
        };
        let Recovered {
            process,
            notes,
            left,
            failed,
        } = &recovered;
        if is_next {
            for each in notes.iter().chain(left).chain(failed) {
                complain(format_args!(
                    "degraded: after the end of the restorer: {each}."
                ));
            }
        }
        let process = *process;
        self.recovered = Some(recovered);
        Ok(process)
    }

    pub(super) fn connection(&mut self) -> io::Result<UnixStream> {
        if let Some(free) = self.free.pop() {
            return Ok(free);
        }
        let (ours, theirs) = channel::stream()?;
        channel::send(&self.socket, b"C", Some(theirs.as_fd()))?;
        Ok(ours)
    }

    pub(super) fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        let mut connection = self.connection()?;
        let answer = exchange(&mut connection, request, &mut || {})?;
        self.free.push(connection);
        Ok(answer)
    }
}

/// `beside`: what is to be done here while the other end is at work.
pub(super) fn exchange(
    connection: &mut UnixStream,
    request: &Request,
    beside: &mut dyn FnMut(),
) -> io::Result<Answer> {
    wire::send(connection, request, MOST_REQUEST)?;
    beside();
    wire::receive(connection, MOST_ANSWER)?
        .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}

/// Waits until there is something to read.
pub(super) fn wait(socket: &OwnedFd, end: Instant) -> io::Result<()> {
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

pub(super) fn unexpected(answer: &Answer) -> String {
    let Answer::Failed { message, .. } = answer else {
        return "the restorer has answered something else than was asked".to_owned();
    };
    message.clone()
}
