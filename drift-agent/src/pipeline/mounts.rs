//! Mounts: what is mounted over a declared path, or over a directory on the way to it, makes it lead elsewhere.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use drift_common::abi::MOUNT_SLOT;
use log::warn;

use crate::{
    observe::{Decoded, Host},
    probe::MountTable,
    report::Cause,
};

use super::{Pipeline, path::Why, timers::Timer};

/// The table of mounts is another a moment before the call that made it so comes back and rings.
const CALL: Duration = Duration::from_millis(20);

/// The kernel's own word that the table of mounts is another.
pub(super) struct Table(Option<MountTable>);

impl Table {
    /// Within a tokio runtime. Where it cannot be had, probes and scans tell.
    pub(super) fn of(host: &Host) -> Table {
        let opened = host
            .places()
            .map(|places| places.table().and_then(MountTable::new));
        match opened.transpose() {
            Ok(table) => Table(table),
            Err(error) => {
                warn!(
                    "what is mounted is found late: the table of mounts cannot be waited for ({error})"
                );
                Table(None)
            }
        }
    }

    /// Waits until something was mounted or unmounted; for ever, where nobody tells.
    pub(super) async fn changed(&self) {
        let Some(table) = &self.0 else {
            return std::future::pending().await;
        };
        if let Err(error) = table.changed().await {
            warn!("the table of mounts cannot be waited for any longer: {error}");
            std::future::pending::<()>().await;
        }
    }
}

/// Mounts, as far as they were looked at.
#[derive(Debug, Default)]
pub(super) struct Mounted {
    /// Calls that the kernel half had counted then.
    calls: u64,
}

impl Pipeline {
    /// The table of mounts is another. Who did that rings in a moment, where probes run.
    pub(super) fn table_changed(&mut self) {
        if self.register.is_some() {
            self.timers
                .set_no_later(Timer::Mounts, Instant::now() + CALL);
        } else {
            self.mounted(None);
        }
    }

    /// Something was mounted or unmounted, in some namespace. Where it was in the host's, what is declared beneath it is looked at.
    pub(super) fn mounted(&mut self, heard: Option<&Decoded>) {
        // Before the table is read, so that what comes after it rings.
        let calls = self.register.as_ref().and_then(|register| {
            if let Err(error) = register.watch.clear(MOUNT_SLOT) {
                warn!("a dirty mark cannot be set back: {error}");
            }
            let slot = register.watch.slot(MOUNT_SLOT).ok();
            slot.map(|slot| slot.changes)
        });
        let before = self.mounts.calls;
        self.mounts.calls = calls.unwrap_or(before);
        let host = std::sync::Arc::clone(&self.host);
        let Some(places) = host.places() else {
            return;
        };
        let changed = places.changes();
        if changed.is_empty() {
            return;
        }
        let why = match heard {
            // One call since the last look: it was that one.
            Some(heard) => Why::doorbell(heard, calls == Some(before + 1)),
            None => Why::without_doorbell(
                Cause::Kernel,
                "the kernel told that something was mounted or unmounted, not who did it",
            ),
        };
        for point in changed {
            self.look_beneath(&point, &why);
        }
    }

    fn look_beneath(&mut self, point: &Path, why: &Why) {
        let files = std::sync::Arc::clone(&self.snapshot);
        let beneath = |index: &usize| files.files[*index].real().starts_with(point);
        for index in (0..files.files.len()).filter(beneath) {
            self.look_why(index, why.clone(), true);
        }
    }

    /// Keeps the places of declared paths for the next start.
    pub(super) fn keep_places(&self) {
        let host = std::sync::Arc::clone(&self.host);
        let path = self.settings.state.join("places");
        tokio::task::spawn_blocking(move || keep(&host, &path));
    }
}

/// Keeps the places of declared paths for the next start, and for the restorer.
pub(super) fn keep(host: &Host, path: &Path) {
    if let Some(Err(error)) = host.places().map(|places| places.keep(path)) {
        warn!("where declared paths are is not kept for the next start: {error}");
    }
}
