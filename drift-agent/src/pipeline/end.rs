//! The end: what is under way comes to its end, and nothing is left attached.

use std::time::{Duration, Instant};

use log::warn;
use tokio::sync::mpsc;

use super::{Ears, Pipeline, PipelineError, work::Done};

/// How long the end may take: jobs under way, and unsent records.
const FAREWELL: Duration = Duration::from_secs(5);

impl Pipeline {
    /// Lets what is under way come to its end, sends what is unsent, detaches.
    pub(super) async fn end(
        mut self,
        back: &mut mpsc::UnboundedReceiver<Box<Done>>,
        ears: Option<Ears>,
    ) -> Result<(), PipelineError> {
        self.tell_end();
        self.urgent.clear();
        self.patient.clear();
        let until = Instant::now() + FAREWELL;
        let mut ears = ears;
        while self.running > 0 {
            match tokio::time::timeout_at(until.into(), back.recv()).await {
                Ok(Some(done)) => {
                    if !done.is_apart() {
                        self.running -= 1;
                    }
                    self.take(*done, &mut ears)?;
                    self.urgent.clear();
                    self.patient.clear();
                }
                Ok(None) | Err(_) => break,
            }
        }
        self.release_records(None)?;
        if let Err(error) = self.store.state().write_brakes() {
            warn!("what holds healing back does not survive this end: {error}");
        }
        if let Some(register) = self.register.take() {
            drop(register);
        }
        // Detaching takes a moment: the records are on their way meanwhile.
        drop(ears);
        let left = self.reporter.flush(FAREWELL)?;
        if left.records > 0 {
            warn!("{} records did not reach the collector", left.records);
        }
        if left.unkept > 0 {
            warn!("{} records did not reach the history", left.unkept);
        }
        if let Some(path) = &self.settings.ready_file
            && let Err(error) = self.restorer.ready_file(false)
        {
            warn!("the ready file {} stays: {error}", path.display());
        }
        self.restorer.end();
        Ok(())
    }
}
