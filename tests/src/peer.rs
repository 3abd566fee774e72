//! An HTTP peer that answers as a test tells it to: for what a real collector cannot be made to say.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `POST /v1/logs HTTP/1.1`
    pub line: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// What to say to it: a status line's end (`503 Service Unavailable`), headers, a body.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: &'static str,
    pub headers: &'static [(&'static str, &'static str)],
    pub body: Vec<u8>,
}

impl Answer {
    /// Nothing but a status.
    #[must_use]
    pub fn plain(status: &'static str) -> Answer {
        Answer {
            status,
            headers: &[],
            body: Vec::new(),
        }
    }
}

/// Ends when it is dropped.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    /// Answers the nth request (from 0) with `answer(n)`, one connection after the other.
    ///
    /// # Errors
    /// No port.
    pub fn start(answer: impl Fn(usize) -> Answer + Send + 'static) -> io::Result<Peer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let thread = thread::spawn({
            let asked = Arc::clone(&asked);
            move || {
                for connection in listener.incoming() {
                    // A connection without a request is how it is told to end.
                    let Some((connection, request)) = connection.ok().and_then(read) else {
                        return;
                    };
                    let number = {
                        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
                        asked.push(request);
                        asked.len() - 1
                    };
                    if let Err(error) = write(connection, &answer(number)) {
                        eprintln!("the peer could not answer: {error}");
                    }
                }
            }
        });
        Ok(Peer {
            address,
            asked,
            thread: Some(thread),
        })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let told = TcpStream::connect(self.address);
        drop(told);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the peer has panicked");
        }
    }
}

fn read(connection: TcpStream) -> Option<(TcpStream, Asked)> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(Some(0), |length| length.parse().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let asked = Asked {
        line: line.trim_end().to_owned(),
        headers,
        body,
    };
    Some((reader.into_inner(), asked))
}

fn write(mut connection: TcpStream, answer: &Answer) -> io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {}\r\nconnection: close\r\ncontent-length: {}\r\n",
        answer.status,
        answer.body.len()
    );
    for (name, value) in answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    connection.write_all(head.as_bytes())?;
    connection.write_all(&answer.body)
}
