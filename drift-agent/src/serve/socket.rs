//! The agent's end of the control socket. Whoever is at the other end can send anything, at any pace: it costs a bounded time and memory.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use log::{debug, warn};
use rustix::fs::{AtFlags, Mode, OFlags, chmodat, open, unlinkat};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

use super::{
    Answering, Asked, Asking, Body, MOST_REQUEST, NAME, Peer, Refusal, Request, Status,
    StoreStatus, VERSION,
};
use crate::{report::Heals, store::Store};

/// Why there may be no answer: every reason.
#[cfg(test)]
pub(super) const REFUSALS: [&str; 8] = [
    "bad-request",
    "version",
    "unknown-request",
    "forbidden",
    "too-slow",
    "busy",
    "ending",
    "failed",
];

/// Connections at once; others wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 8;

/// For the request to arrive.
const FOR_REQUEST: Duration = Duration::from_secs(2);
/// For the answer to be read.
const FOR_READING: Duration = Duration::from_secs(5);
/// After an error of the system (no descriptor is free, say).
const PAUSE: Duration = Duration::from_millis(200);

/// A socket that is being served. Gone with its value.
#[derive(Debug)]
pub struct Served {
    folder: OwnedFd,
    accepting: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.accepting.abort();
        // One that stays is replaced at the next start; who connects to it meanwhile is refused by the kernel.
        let _stays = unlinkat(&self.folder, NAME, AtFlags::empty());
    }
}

/// What answers are made of, beside the pipeline's state.
#[derive(Debug)]
pub struct Desk {
    asked: mpsc::Sender<Asked>,
    store: Arc<Store>,
    heals: Option<Heals>,
    soak: Duration,
    /// Who runs the agent.
    owner: u32,
}

/// Serves the socket in the state folder, whose lock the caller holds: what stands at its name is a dead agent's.
///
/// # Errors
/// There can be no socket. All else goes on without.
pub fn serve(state: &Path, desk: Arc<Desk>) -> io::Result<Served> {
    let folder = folder(state)?;
    match unlinkat(&folder, NAME, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let listener = UnixListener::bind(place(&folder))?;
    chmodat(&folder, NAME, Mode::from_raw_mode(0o600), AtFlags::empty())?;
    Ok(Served {
        folder,
        accepting: tokio::spawn(accept(listener, desk)),
    })
}

/// The state folder, held: the socket is in the folder that is meant, however long its path is.
pub(super) fn folder(state: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(open(state, flags, Mode::empty())?)
}

/// A path that is short enough for a socket's address.
pub(super) fn place(folder: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()).into()
}

async fn accept(listener: UnixListener, desk: Arc<Desk>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!("the control socket: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let desk = Arc::clone(&desk);
        tokio::spawn(async move {
            let _permit = permit;
            if let Err(error) = connection(stream, &desk).await {
                debug!("a connection to the control socket: {error}");
            }
        });
    }
}

async fn connection(mut stream: UnixStream, desk: &Desk) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    let peer = Peer {
        uid: peer.uid(),
        gid: peer.gid(),
        pid: peer.pid().and_then(|pid| u32::try_from(pid).ok()),
    };
    let body = if may_ask(peer.uid, desk.owner) {
        match timeout(FOR_REQUEST, request(&mut stream)).await {
            Ok(request) => match request? {
                Ok(request) => desk.answer(request, peer).await,
                Err(refusal) => Body::Error(refusal),
            },
            Err(_) => refused("too-slow", "the request did not arrive in time"),
        }
    } else {
        refused("forbidden", "only root and who runs the agent may ask")
    };
    let mut line = serde_json::to_vec(&Answering { v: VERSION, body })?;
    line.push(b'\n');
    let answer = async {
        stream.write_all(&line).await?;
        stream.shutdown().await
    };
    timeout(FOR_READING, answer).await?
}

/// Whether this user may ask an agent that runs as `owner`.
fn may_ask(user: u32, owner: u32) -> bool {
    user == 0 || user == owner
}

fn refused(reason: &'static str, message: &str) -> Body {
    Body::Error(refusal(reason, message))
}

fn refusal(reason: &'static str, message: &str) -> Refusal {
    Refusal {
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// One line, or why it is none. `Err`: the connection broke.
async fn request(stream: &mut UnixStream) -> io::Result<Result<Request, Refusal>> {
    let mut line = Vec::new();
    let mut limited = BufReader::new(stream).take(MOST_REQUEST);
    limited.read_until(b'\n', &mut line).await?;
    Ok(parse(&line))
}

/// A request, or why it is none. Of what was sent nothing is quoted.
fn parse(line: &[u8]) -> Result<Request, Refusal> {
    let Some(line) = line.strip_suffix(b"\n") else {
        return Err(refusal(
            "bad-request",
            "a request is one line of JSON, not longer than 65536 bytes",
        ));
    };
    #[derive(serde::Deserialize)]
    struct Versioned {
        v: u32,
    }
    let Ok(Versioned { v }) = serde_json::from_slice(line) else {
        return Err(refusal(
            "bad-request",
            "a request is {\"v\":1,\"request\":…}",
        ));
    };
    if v != VERSION {
        return Err(refusal(
            "version",
            &format!("this agent speaks version {VERSION} of the protocol, not {v}"),
        ));
    }
    serde_json::from_slice(line)
        .map(|asking: Asking| asking.request)
        .map_err(|_| refusal("unknown-request", "this agent knows no such request"))
}

impl Desk {
    /// `asked`: where the pipeline hears requests.
    #[must_use]
    pub fn new(
        asked: mpsc::Sender<Asked>,
        store: Arc<Store>,
        heals: Option<Heals>,
        soak: Duration,
    ) -> Self {
        Self {
            asked,
            store,
            heals,
            soak,
            owner: rustix::process::geteuid().as_raw(),
        }
    }

    /// How this node is; `None`: it cannot be said now.
    pub async fn status(&self) -> Option<Box<Status>> {
        match self.answer(Request::Status, Peer::default()).await {
            Body::Status(status) => Some(status),
            Body::Version(_) | Body::Done(_) | Body::Healed(_) | Body::Error(_) => None,
        }
    }

    async fn answer(self: &Desk, request: Request, peer: Peer) -> Body {
        let (answer, answered) = oneshot::channel();
        let patience = request.patience();
        let asked = Asked {
            request,
            peer,
            answer,
        };
        if self.asked.try_send(asked).is_err() {
            return refused("busy", "too much is being asked at once: ask again");
        }
        let body = match timeout(patience, answered).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => return refused("ending", "the agent is ending"),
            Err(_) => return refused("busy", "the agent did not answer in time: ask again"),
        };
        match body {
            Body::Status(status) => {
                let (store, heals) = (Arc::clone(&self.store), self.heals.clone());
                let soak = self.soak;
                let complete = move || complete(status, &store, heals.as_ref(), soak);
                match tokio::task::spawn_blocking(complete).await {
                    Ok(status) => Body::Status(status),
                    Err(_) => refused("failed", "the store cannot be read: see the agent's log"),
                }
            }
            body @ (Body::Version(_) | Body::Done(_) | Body::Healed(_) | Body::Error(_)) => body,
        }
    }
}

/// Adds what the store knows: the disk may be slow, and the pipeline must not wait for it.
fn complete(
    mut status: Box<Status>,
    store: &Store,
    heals: Option<&Heals>,
    soak: Duration,
) -> Box<Status> {
    let now = SystemTime::now();
    let healed = heals.map(|heals| heals.of_a_day(now));
    let good = store.state().last_good().unwrap_or_else(|error| {
        warn!("which versions are the last known good ones cannot be told: {error}");
        std::collections::BTreeMap::new()
    });
    let since = store.state().healthy_since();
    let holding = store.holding();
    for policy in &mut status.policies {
        policy.add(&holding);
        policy.healed_24h = healed
            .as_ref()
            .map(|healed| healed.get(&policy.policy).copied().unwrap_or(0));
        policy.last_known_good = good.get(&policy.policy).cloned();
        if policy.last_known_good.as_ref() != Some(&policy.version)
            && let Some((version, since)) = since.get(&policy.policy)
            && *version == policy.version
        {
            let soaked = now.duration_since(*since).unwrap_or_default();
            policy.soak_left_s = Some(soak.saturating_sub(soaked).as_secs());
        }
    }
    let usage = store.usage();
    status.store = Some(StoreStatus {
        blobs: usage.blobs,
        bytes: usage.bytes,
        quota: usage.quota,
    });
    status
}

#[cfg(test)]
mod tests;
