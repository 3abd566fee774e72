//! Everything was looked at once: whoever waits for that is told.

use std::{io, path::Path, sync::Arc};

use super::{Pipeline, PipelineError, work::Done};
use crate::memory;

impl Pipeline {
    /// Says "ready" once the first scan is over.
    pub(super) fn ready(&mut self) -> Result<(), PipelineError> {
        if self.first != Some(0) {
            return Ok(());
        }
        self.first = None;
        self.keep_places();
        self.tell_ready();
        tokio::task::spawn_blocking(memory::give_back);
        if self.settings.ready_file.is_some() {
            let restorer = Arc::clone(&self.restorer);
            self.run_apart(move || Done::Ready(restorer.ready_file(true)));
        }
        Ok(())
    }

    /// It is made, or cannot be.
    pub(super) fn made_ready(&self, made: io::Result<()>) -> Result<(), PipelineError> {
        let path = self.settings.ready_file.as_deref();
        made.map_err(|source| PipelineError::Ready {
            path: path.unwrap_or(Path::new("")).display().to_string(),
            source,
        })
    }
}
