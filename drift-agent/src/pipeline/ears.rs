//! The kernel half, as the pipeline has it: loaded, waited for, and loaded anew.

use std::{sync::Arc, time::Instant};

use log::{error, warn};

use super::{Pipeline, PipelineError, Wake, timers::Timer};
use crate::{
    probe::{Attached, Counters, Doorbell, Probe, ProbeSettings, Watch},
    settings::{SCAN_ALONE, SCAN_BESIDE_PROBES},
};

/// The kernel half, taken apart: the ring is waited for apart from all other state.
pub(super) struct Ears {
    pub(super) changes: Doorbell,
    pub(super) loads: Doorbell,
    pub(super) counters: Counters,
    pub(super) watch: Arc<Watch>,
    pub(super) capacity: usize,
    pub(super) table_bytes: Option<u64>,
    /// Keeps the programs attached.
    pub(super) attached: Attached,
}

/// Waits for the kernel half; for ever, where there is none.
pub(super) async fn rung(ears: &mut Option<Ears>) -> Wake {
    let Some(ears) = ears else {
        return std::future::pending().await;
    };
    let rung = tokio::select! {
        biased;
        rung = ears.changes.rung() => rung.map(|()| Wake::Ring),
        rung = ears.loads.rung() => rung.map(|()| Wake::Loads),
    };
    match rung {
        Ok(wake) => wake,
        Err(error) => {
            error!(
                "waiting for the kernel programs failed ({error}): changes are found by scanning until the next start"
            );
            std::future::pending().await
        }
    }
}

impl Ears {
    pub(super) fn new(mut probe: Probe) -> Result<Ears, PipelineError> {
        if let Some(said) = probe.said.take() {
            said.pass_on();
        }
        Ok(Ears {
            changes: Doorbell::new(probe.changes).map_err(PipelineError::Ring)?,
            loads: Doorbell::new(probe.loads).map_err(PipelineError::Ring)?,
            counters: probe.counters,
            watch: Arc::new(probe.watch),
            capacity: probe.capacity,
            table_bytes: probe.table_bytes,
            attached: probe.attached,
        })
    }
}

impl Pipeline {
    /// The kernel tables are too small for what is declared now: load the programs anew.
    pub(super) fn larger(&mut self, objects: usize) -> Option<Ears> {
        let reason = match self.listen(objects) {
            Ok(ears) => return Some(ears),
            Err(reason) => reason,
        };
        warn!("going on by scanning: {reason}");
        let now = Instant::now();
        self.timers.set(Timer::Scan, now + SCAN_ALONE);
        self.timers.set(Timer::FullScan, now + SCAN_BESIDE_PROBES);
        self.deaf = Some(reason);
        None
    }

    /// Loads and attaches the kernel half.
    pub(super) fn listen(&mut self, objects: usize) -> Result<Ears, String> {
        let probe = Probe::load(ProbeSettings {
            // Nobody listens where nobody asked for probes.
            sensor: self.settings.sensor.probes().unwrap_or_default(),
            objects,
            ring: self.settings.ring,
            debug: self.settings.debug_probes,
        })
        .map_err(|refused| refused.to_string())?;
        let ears = Ears::new(probe).map_err(|error| error.to_string())?;
        self.losses.other_programs();
        Ok(ears)
    }
}
