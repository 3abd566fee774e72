//! Something that listens on this machine, asked by HTTP. No name is looked up, no proxy is gone through, no redirection followed, and nothing is sent but the request.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use super::ReloadError;
use crate::declare::{Endpoint, Method};

/// Bytes of an answer's first line.
const MOST_LINE: usize = 1024;

pub(super) fn ask(
    method: Method,
    endpoint: &Endpoint,
    expected: Option<u16>,
    timeout: Duration,
) -> Result<String, ReloadError> {
    let until = Instant::now() + timeout;
    let slow = |error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ReloadError::NoAnswer(timeout),
        _ => ReloadError::io("ask it")(error),
    };
    let mut stream = TcpStream::connect_timeout(&endpoint.address, timeout).map_err(slow)?;
    let request = format!(
        "{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: drift-agent/{}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        method.name(),
        endpoint.target,
        endpoint.address,
        env!("CARGO_PKG_VERSION"),
    );
    stream.set_write_timeout(Some(timeout)).map_err(slow)?;
    stream.write_all(request.as_bytes()).map_err(slow)?;
    let line = first_line(&mut stream, until, timeout)?;
    let code = status(&line).ok_or_else(|| ReloadError::Answer("none of HTTP".to_owned()))?;
    let is_right = match expected {
        Some(expected) => code == expected,
        None => (200..300).contains(&code),
    };
    if is_right {
        Ok(format!("status {code}"))
    } else {
        Err(ReloadError::Answer(format!("status {code}")))
    }
}

/// A byte at a time may come, at any pace: it ends when the time is up all the same.
fn first_line(
    stream: &mut TcpStream,
    until: Instant,
    timeout: Duration,
) -> Result<Vec<u8>, ReloadError> {
    let mut line = Vec::new();
    let mut buffer = [0; 256];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ReloadError::NoAnswer(timeout));
        }
        stream
            .set_read_timeout(Some(left))
            .map_err(ReloadError::io("wait for its answer"))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ReloadError::Answer("cut off".to_owned())),
            Ok(length) => line.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
                ) =>
            {
                return Err(ReloadError::NoAnswer(timeout));
            }
            Err(error) => return Err(ReloadError::io("wait for its answer")(error)),
        }
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok(line);
        }
        if line.len() > MOST_LINE {
            return Err(ReloadError::Answer("none of HTTP".to_owned()));
        }
    }
}

fn status(line: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.split_ascii_whitespace();
    let version = words.next()?;
    let code = words.next()?;
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    (version.starts_with("HTTP/1.") && is_code).then(|| code.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    /// Something real that listens, answers once with this and keeps the connection; what it was asked.
    fn listener(answer: &'static [u8]) -> (Endpoint, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/reload?x=1", listener.local_addr().unwrap());
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut buffer = [0; 1024];
            while !asked.ends_with(b"\r\n\r\n") {
                let length = stream.read(&mut buffer).unwrap();
                asked.extend_from_slice(&buffer[..length]);
            }
            stream.write_all(answer).unwrap();
            // Until the other end has gone.
            let _gone = stream.read(&mut buffer);
            String::from_utf8(asked).unwrap()
        });
        (Endpoint::parse(&url).unwrap(), served)
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn the_status_is_the_answer() {
        for (answer, expected, is_right) in [
            (&b"HTTP/1.1 200 OK\r\n\r\n"[..], None, true),
            (b"HTTP/1.0 204\r\n", None, true),
            (b"HTTP/1.1 200 OK\r\n\r\n", Some(202), false),
            (b"HTTP/1.1 202 Accepted\r\n\r\n", Some(202), true),
            (b"HTTP/1.1 500 No\r\n\r\n", None, false),
            (
                b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\n\r\n",
                None,
                false,
            ),
            (b"SSH-2.0-OpenSSH\r\n", None, false),
        ] {
            let (endpoint, served) = listener(answer);
            let came = ask(Method::Post, &endpoint, expected, LONG);
            assert_eq!(came.is_ok(), is_right, "{came:?}");
            let asked = served.join().unwrap();
            assert!(
                asked.starts_with("POST /reload?x=1 HTTP/1.1\r\nHost: 127.0.0.1:"),
                "{asked}"
            );
        }
    }

    #[test]
    fn what_does_not_answer_is_not_waited_for() {
        let (endpoint, served) = listener(b"HTTP/1.1 2");
        let came = ask(Method::Get, &endpoint, None, Duration::from_millis(200));
        assert!(matches!(came, Err(ReloadError::NoAnswer(_))), "{came:?}");
        assert!(served.join().unwrap().starts_with("GET /"));
        let came = ask(Method::Get, &endpoint, None, LONG);
        assert!(
            matches!(came, Err(ReloadError::Io { .. })),
            "nobody listens: {came:?}"
        );
    }
}
