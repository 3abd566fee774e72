//! The ring of changes, and the table of mounts, waited for.

use std::{fs::File, io};

use aya::maps::{MapData, RingBuf, ring_buf::RingBufItem};
use tokio::io::{Interest, unix::AsyncFd};

/// Rings when the kernel half wants to be heard.
pub struct Doorbell {
    ring: AsyncFd<RingBuf<MapData>>,
}

impl std::fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Doorbell").finish_non_exhaustive()
    }
}

impl Doorbell {
    /// Within a tokio runtime.
    pub fn new(ring: RingBuf<MapData>) -> io::Result<Doorbell> {
        // SAFETY: the ring owns its map's descriptor, gives it out unchanged and keeps it until it is dropped, with this.
        let ring = unsafe { AsyncFd::register(ring) }.map_err(io::Error::from)?;
        Ok(Doorbell { ring })
    }

    /// Waits until it rings. What lies in the ring must then be taken out to the end: the next ring is a new edge.
    pub async fn rung(&mut self) -> io::Result<()> {
        let mut ready = self.ring.readable_mut().await?;
        ready.clear_ready();
        Ok(())
    }

    /// The next record, if there is one.
    pub fn take(&mut self) -> Option<RingBufItem<'_>> {
        self.ring.get_mut().next()
    }
}

/// A table of mounts, which raises a condition when it is another.
#[derive(Debug)]
pub struct MountTable(AsyncFd<File>);

impl MountTable {
    /// Within a tokio runtime. `table`: a process's `mountinfo`.
    pub fn new(table: File) -> io::Result<MountTable> {
        // SAFETY: a file owns its descriptor and keeps it until it is dropped, with this.
        let table = unsafe { AsyncFd::register_with_interest(table, Interest::PRIORITY) };
        Ok(MountTable(table.map_err(io::Error::from)?))
    }

    /// Waits until something was mounted or unmounted.
    pub async fn changed(&self) -> io::Result<()> {
        self.0.ready(Interest::PRIORITY).await?.clear_ready();
        Ok(())
    }
}
