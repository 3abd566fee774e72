//! The keeper: it has what the restorer needs, hears single bytes from the detector, and starts the restorer, again and again if need be.

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::Path,
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use anyhow::Result;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::AsFd,
    io::Errno,
    process::{Pid, PidfdFlags, getppid, pidfd_open},
};

use super::{
    channel,
    process::{Role, Settings, command},
};
use crate::{confine, memory, report::complain};

/// What the detector says: start a restorer, should there be none.
pub(super) const START: u8 = b'S';
/// All was looked at once: the ready file is made.
pub(super) const READY: u8 = b'R';
/// The end: it is removed.
pub(super) const UNREADY: u8 = b'U';

/// What the keeper says: a restorer has begun; its number, and its socket, with it.
pub(super) const STARTED: u8 = b'W';
/// It has ended; its number with it.
pub(super) const ENDED: u8 = b'E';
/// None can be started; a sentence with it.
pub(super) const FAILED: u8 = b'F';

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// One that has run for so long has not failed at its start.
const STEADY: Duration = Duration::from_secs(60);
/// For what is under way, when the detector has ended.
const FAREWELL: Duration = Duration::from_secs(8);

struct Keeper<'s> {
    settings: &'s Settings,
    detector: OwnedFd,
    /// Where the ready file is asked for.
    ready: OwnedFd,
    at_work: Option<AtWork>,
    /// One was asked for. Whoever asks has heard of the end of the one before, of which this process may not have heard yet.
    is_asked_for: bool,
    /// None is started before.
    not_before: Instant,
    pause: Duration,
}

struct AtWork {
    child: Child,
    ends: OwnedFd,
    since: Instant,
}

/// Until the detector has gone.
pub(super) fn keep(detector: OwnedFd, ready: OwnedFd, settings: &Settings) -> Result<()> {
    for lack in confine::keeper().lacks {
        complain(format_args!("degraded: {lack}."));
    }
    let mut keeper = Keeper {
        settings,
        detector,
        ready,
        at_work: None,
        is_asked_for: false,
        not_before: Instant::now(),
        pause: FIRST_PAUSE,
    };
    while keeper.turn()? {}
    keeper.end()
}

impl Keeper<'_> {
    /// Waits for what happens next. False: the detector has gone.
    fn turn(&mut self) -> Result<bool> {
        let due = |it: &Self| (it.is_asked_for && it.at_work.is_none()).then_some(it.not_before);
        let most = due(self).map(|due| due.saturating_duration_since(Instant::now()));
        let [said, asked, ended] = self.wait(most)?;
        if ended {
            self.ended()?;
        }
        if asked {
            self.file()?;
        }
        if said {
            match channel::receive(&self.detector)? {
                None => return Ok(false),
                Some((message, _)) => self.is_asked_for |= message == [START],
            }
        }
        if due(self).is_some_and(|due| due <= Instant::now()) {
            self.is_asked_for = false;
            self.start();
            // It has nothing to do but to wait.
            memory::give_back();
        }
        Ok(true)
    }

    /// Whether the detector has said something, whether it has asked for the ready file, and whether the restorer has ended.
    fn wait(&self, most: Option<Duration>) -> io::Result<[bool; 3]> {
        let most = most.map(|most| Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        });
        let mut sources = vec![
            PollFd::new(&self.detector, PollFlags::IN),
            PollFd::new(&self.ready, PollFlags::IN),
        ];
        if let Some(at_work) = &self.at_work {
            sources.push(PollFd::new(&at_work.ends, PollFlags::IN));
        }
        match poll(&mut sources, most.as_ref()) {
            Err(Errno::INTR) => return Ok([false; 3]),
            other => other?,
        };
        let happened =
            |source: Option<&PollFd<'_>>| source.is_some_and(|source| !source.revents().is_empty());
        Ok([0, 1, 2].map(|index| happened(sources.get(index))))
    }

    /// The ready file is to be made, or removed. The answer is an error number, 0 for none.
    fn file(&self) -> io::Result<()> {
        let Some((message, _)) = channel::receive(&self.ready)? else {
            // The other socket says so, too.
            return Ok(());
        };
        let detector = getppid().map_or(0, |pid| pid.as_raw_pid().unsigned_abs());
        let done = match (&self.settings.ready_file, message.as_slice()) {
            (Some(path), [READY]) => mark(path, Some(detector)),
            (Some(path), [UNREADY]) => mark(path, None),
            _ => Ok(()),
        };
        let error = done
            .err()
            .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        self.say(&self.ready, &error.to_le_bytes(), None);
        Ok(())
    }

    /// A detector that does not listen hears it from the end of a socket.
    fn say(&self, to: &OwnedFd, message: &[u8], descriptor: Option<&OwnedFd>) {
        if let Err(error) = channel::send(to, message, descriptor.map(AsFd::as_fd)) {
            log::debug!("the detecting process does not listen: {error}");
        }
    }

    fn start(&mut self) {
        match self.launch() {
            Ok((at_work, socket)) => {
                let mut message = vec![STARTED];
                message.extend(at_work.child.id().to_le_bytes());
                self.at_work = Some(at_work);
                self.say(&self.detector, &message, Some(&socket));
            }
            Err(error) => {
                self.not_before = Instant::now() + self.next_pause();
                let mut message = vec![FAILED];
                message.extend(format!("the restorer cannot be started ({error})").bytes());
                self.say(&self.detector, &message, None);
            }
        }
    }

    fn launch(&self) -> io::Result<(AtWork, OwnedFd)> {
        let (ours, theirs) = channel::messages()?;
        let mut child = command(Role::Restorer, self.settings, theirs)?.spawn()?;
        let ends = i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or(Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        match ends {
            Ok(ends) => Ok((
                AtWork {
                    child,
                    ends,
                    since: Instant::now(),
                },
                ours,
            )),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    fn ended(&mut self) -> io::Result<()> {
        let Some(mut at_work) = self.at_work.take() else {
            return Ok(());
        };
        let status = at_work.child.wait()?;
        if at_work.since.elapsed() > STEADY {
            self.pause = FIRST_PAUSE;
        }
        let pause = self.next_pause();
        self.not_before = Instant::now() + pause;
        let pid = at_work.child.id();
        has_ended(pid, status, pause);
        let mut message = vec![ENDED];
        message.extend(pid.to_le_bytes());
        self.say(&self.detector, &message, None);
        Ok(())
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 4).min(LAST_PAUSE);
        pause
    }

    /// The detector has gone: the restorer hears that too.
    fn end(mut self) -> Result<()> {
        let until = Instant::now() + FAREWELL;
        while let Some(at_work) = &mut self.at_work {
            if at_work.child.try_wait()?.is_some() {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // What is under way is brought to its end at the next start.
                at_work.child.kill()?;
            }
            let most = Timespec {
                tv_sec: i64::try_from(left.as_secs())?,
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(
                &mut [PollFd::new(&at_work.ends, PollFlags::IN)],
                Some(&most),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The ready file with the number of the process that is ready; or without a process none.
pub(super) fn mark(path: &Path, ready: Option<u32>) -> io::Result<()> {
    let Some(pid) = ready else {
        return match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
    };
    fs::write(path, format!("{pid}\n"))
}

/// A restorer that ends before the detector does is always worth a sentence.
fn has_ended(pid: u32, status: ExitStatus, pause: Duration) {
    complain(format_args!(
        "degraded: the restorer (process {pid}) has ended ({status}): another one is started when something is to be put back, in {} ms at the earliest, and first brings to its end what was under way.",
        pause.as_millis()
    ));
}
