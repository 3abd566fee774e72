//! The other end of the control socket: a command that asks.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use super::{Answering, Asking, Body, MOST_ANSWER, Refusal, Request, VERSION, socket};

/// For the agent to take the request and to send the answer, beside what it takes to find that.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody is there to answer.
    #[error("no agent is running")]
    NoAgent,
    #[error("the agent's control socket is for root and for who runs the agent")]
    Denied,
    #[error("the agent does not answer ({0})")]
    Io(#[source] io::Error),
    #[error("the agent's answer is none that this command knows: they are of different versions")]
    Unknown,
    #[error("the agent says: {}", drift_common::escape::printable(&.0.message))]
    Refused(Refusal),
}

/// Asks the agent that uses this state folder. Blocks, for a bounded time.
///
/// # Errors
/// See [`AskError`].
pub fn ask(state: &Path, request: Request) -> Result<Body, AskError> {
    let mut stream = connect(state)?;
    let exchange = || {
        stream.set_read_timeout(Some(PATIENCE + request.patience()))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let asking = Asking {
            v: VERSION,
            request,
        };
        let mut line = serde_json::to_vec(&asking)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut answer = Vec::new();
        (&mut stream).take(MOST_ANSWER).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer: Vec<u8> = exchange().map_err(AskError::Io)?;
    if answer.is_empty() {
        return Err(AskError::NoAgent); // it ended meanwhile
    }
    let answer: Answering = serde_json::from_slice(&answer).map_err(|_| AskError::Unknown)?;
    match answer.body {
        Body::Error(refusal) => Err(AskError::Refused(refusal)),
        body if answer.v == VERSION => Ok(body),
        _ => Err(AskError::Unknown),
    }
}

fn connect(state: &Path) -> Result<UnixStream, AskError> {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound, PermissionDenied};
    let connected =
        socket::folder(state).and_then(|folder| UnixStream::connect(socket::place(&folder)));
    connected.map_err(|error| match error.kind() {
        NotFound | ConnectionRefused | NotADirectory => AskError::NoAgent,
        PermissionDenied => AskError::Denied,
        _ => AskError::Io(error),
    })
}
