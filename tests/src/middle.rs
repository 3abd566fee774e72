//! Who stands between an agent and its API server: passes on what they say to each other, counts it, and does to it what goes wrong on the way.

pub mod http;
mod mangle;
mod target;

use std::{
    collections::HashMap,
    io::{self, BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use http::{Head, chunk, send_chunk};
use mangle::Mangle;
pub use target::Target;

/// What is done to all that comes from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Each request is answered with this status, and the API server hears nothing of it.
    Answer(u16),
    /// Each request and each event takes so much longer.
    Slow(Duration),
    /// Of two events the later comes first.
    Late,
    /// Each event comes twice, and what was said before once more after it.
    Twice,
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub at: Instant,
    /// Method and path, without what is asked for in detail.
    pub what: String,
    pub is_watch: bool,
}

/// A connection of the agent's.
struct Open {
    client: Arc<TcpStream>,
    server: Option<TcpStream>,
    /// Whether it is a watch now. Whoever tells the agent an event holds it meanwhile.
    watch: Arc<Mutex<bool>>,
}

struct Inner {
    target: Target,
    fault: Mutex<Fault>,
    asked: Mutex<Vec<Asked>>,
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
    has_ended: AtomicBool,
}

/// It ends with this value, and every connection with it.
pub struct Middle {
    port: u16,
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Middle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Middle({})", self.port)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Middle {
    /// In front of `target`, on a port of loopback.
    ///
    /// # Errors
    /// There is no port.
    pub fn start(target: Target) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a port on loopback")?;
        let port = listener.local_addr()?.port();
        let inner = Arc::new(Inner {
            target,
            fault: Mutex::new(Fault::None),
            asked: Mutex::default(),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        });
        let own = Arc::clone(&inner);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if own.has_ended.load(Ordering::Acquire) {
                    return;
                }
                let inner = Arc::clone(&own);
                let thread = thread::Builder::new().stack_size(256 << 10);
                // A connection that nobody serves ends with its socket.
                drop(thread.spawn(move || inner.serve(client)));
            }
        });
        Ok(Self { port, inner })
    }

    /// Writes a kubeconfig that leads here.
    ///
    /// # Errors
    /// The file system's.
    pub fn kubeconfig(&self, path: &Path) -> Result<()> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "drift",
            "clusters": [{"name": "drift", "cluster": {"server": format!("http://127.0.0.1:{}", self.port)}}],
            "users": [{"name": "agent", "user": {}}],
            "contexts": [{"name": "drift", "context": {"cluster": "drift", "user": "agent"}}],
        });
        std::fs::write(path, config.to_string()).with_context(|| path.display().to_string())
    }

    /// From now on.
    pub fn set(&self, fault: Fault) {
        *locked(&self.inner.fault) = fault;
    }

    /// Ends every connection in the middle of whatever it says.
    pub fn cut(&self) {
        for open in locked(&self.inner.open).values() {
            open.end();
        }
    }

    /// Tells every watch that what it goes on from is too old.
    pub fn expire(&self) {
        let event = json!({"type": "ERROR", "object": status(410)}).to_string() + "\n";
        for open in locked(&self.inner.open).values() {
            let is_watch = locked(&open.watch);
            if *is_watch {
                // One that is gone hears nothing more.
                let _gone = send_chunk(&mut &*open.client, event.as_bytes())
                    .and_then(|()| send_chunk(&mut &*open.client, b""));
                open.end();
            }
        }
    }

    /// All requests from `since` on.
    #[must_use]
    pub fn asked(&self, since: Instant) -> Vec<Asked> {
        let asked = locked(&self.inner.asked);
        let from = asked.partition_point(|asked| asked.at < since);
        asked[from..].to_vec()
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.inner.has_ended.store(true, Ordering::Release);
        // The thread that waits for connections hears of it by one.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        self.cut();
    }
}

/// The most of them within any second.
#[must_use]
pub fn peak(asked: &[Asked]) -> usize {
    let within = |from: usize| {
        let end = asked[from].at + Duration::from_secs(1);
        asked[from..].partition_point(|asked| asked.at < end)
    };
    (0..asked.len()).map(within).max().unwrap_or(0)
}

impl Open {
    fn end(&self) {
        for stream in [Some(&*self.client), self.server.as_ref()]
            .into_iter()
            .flatten()
        {
            // One that has ended by itself need not be ended.
            let _gone = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Inner {
    fn serve(&self, client: TcpStream) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let client = Arc::new(client);
        let watch = Arc::new(Mutex::new(false));
        let open = Open {
            client: Arc::clone(&client),
            server: None,
            watch: Arc::clone(&watch),
        };
        locked(&self.open).insert(number, open);
        // Where it ends does not matter to who has sent it: both ends are closed.
        let _ended = self.exchange(number, &client, &watch);
        if let Some(open) = locked(&self.open).remove(&number) {
            open.end();
        }
    }

    fn exchange(&self, number: u64, mut client: &TcpStream, watch: &Mutex<bool>) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut from = BufReader::new(client);
        let mut server = None;
        while let Some(mut request) = Head::read(&mut from)? {
            let body = request.body(&mut from)?;
            let (path, query) = request.second().split_once('?').unwrap_or_else(|| {
                let all = request.second();
                (all, "")
            });
            let is_watch = query.split('&').any(|word| word == "watch=true");
            let method = request.first.split(' ').next().unwrap_or_default();
            let what = format!("{method} {path}");
            let at = Instant::now();
            locked(&self.asked).push(Asked { at, what, is_watch });
            match self.fault() {
                Fault::Answer(code) => {
                    refuse(&mut client, code)?;
                    continue;
                }
                Fault::Slow(time) => thread::sleep(time),
                Fault::None | Fault::Late | Fault::Twice => {}
            }
            request.fields.retain(|(name, _)| name != "accept-encoding");
            let line = match &mut server {
                Some(line) => line,
                none => {
                    let (line, end) = self.target.connect()?;
                    if let Some(open) = locked(&self.open).get_mut(&number) {
                        open.server = Some(end);
                    }
                    none.insert(line)
                }
            };
            let to = line.get_mut();
            request.write(to)?;
            to.write_all(&body)?;
            to.flush()?;
            let Some(answer) = Head::read(line)? else {
                return Ok(());
            };
            if is_watch && answer.is_chunked() {
                self.watch(client, watch, &answer, line)?;
            } else {
                let body = answer.body(line)?;
                whole(&mut client, answer, &body)?;
            }
        }
        Ok(())
    }

    fn fault(&self) -> Fault {
        *locked(&self.fault)
    }

    /// Event by event, until one side ends it.
    fn watch(
        &self,
        mut client: &TcpStream,
        is_watch: &Mutex<bool>,
        answer: &Head,
        from: &mut impl io::BufRead,
    ) -> io::Result<()> {
        answer.write(&mut client)?;
        *locked(is_watch) = true;
        let mut watch = Mangle::default();
        let mut rest = Vec::new();
        while let Some(part) = chunk(from)? {
            rest.extend(part);
            let mut whole = &rest[..];
            while whole.contains(&b'\n') {
                let mut event = Vec::new();
                whole.read_until(b'\n', &mut event)?;
                let fault = self.fault();
                if let Fault::Slow(time) = fault {
                    thread::sleep(time);
                }
                for event in watch.pass(fault, event) {
                    let _alone = locked(is_watch);
                    send_chunk(&mut client, &event)?;
                }
            }
            rest = whole.to_vec();
        }
        *locked(is_watch) = false;
        send_chunk(&mut client, b"")
    }
}

fn status(code: u16) -> Value {
    let (reason, message) = match code {
        410 => ("Expired", "too old resource version"),
        429 => ("TooManyRequests", "too many requests"),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        _ => ("InternalError", "something went wrong"),
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code})
}

fn refuse(to: &mut impl io::Write, code: u16) -> io::Result<()> {
    let mut head = Head {
        first: format!("HTTP/1.1 {code} No"),
        fields: vec![("content-type".to_owned(), "application/json".to_owned())],
    };
    if code == 429 {
        head.fields.push(("retry-after".to_owned(), "1".to_owned()));
    }
    whole(to, head, status(code).to_string().as_bytes())
}

/// An answer with its length.
fn whole(to: &mut impl io::Write, mut head: Head, body: &[u8]) -> io::Result<()> {
    head.fields
        .retain(|(name, _)| name != "transfer-encoding" && name != "content-length");
    head.fields
        .push(("content-length".to_owned(), body.len().to_string()));
    head.write(to)?;
    to.write_all(body)
}
