//! The ready file: the keeper makes it, for who looks may write nothing.

use std::{
    io,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::PoisonError,
    time::{Duration, Instant},
};

use super::{Restorer, at_work::wait};
use crate::restore::{
    channel,
    keeper::{READY, UNREADY, mark},
};

/// For the keeper to do what it does at once.
const SOON: Duration = Duration::from_secs(5);

/// The ready file.
pub(super) struct Ready {
    pub(super) path: Option<PathBuf>,
    /// Where it is asked for; nobody: this process does what it can.
    pub(super) keeper: Option<OwnedFd>,
    /// It was removed, and is made no more.
    pub(super) is_over: bool,
}

impl Restorer {
    /// All was looked at once, or the end has come: the ready file is there, or not.
    ///
    /// # Errors
    /// It cannot be made, or removed.
    pub fn ready_file(&self, is_ready: bool) -> io::Result<()> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.is_over {
            return Ok(());
        }
        ready.is_over = !is_ready;
        let Some(socket) = &ready.keeper else {
            let path = ready.path.as_deref();
            return path.map_or(Ok(()), |path| mark(path, is_ready.then(std::process::id)));
        };
        let said = if is_ready { READY } else { UNREADY };
        channel::send(socket, &[said], None)?;
        wait(socket, Instant::now() + SOON)?;
        let error = channel::receive(socket)?
            .and_then(|(message, _)| message.try_into().ok().map(i32::from_le_bytes));
        match error {
            Some(0) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(error)),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
