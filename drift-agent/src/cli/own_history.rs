//! Records of a command that does what an agent would, where none runs.

use std::{io, path::Path, time::Duration};

use anyhow::Result;

use crate::{
    report::{Look, Output, Reporter, complain},
    store::Bounds,
};

/// How long a command waits for the disk to take its records.
pub(super) const WITHIN: Duration = Duration::from_secs(5);

/// Nothing goes to standard output, and all into the history of this state folder, whose lock the caller holds. `None`: nowhere.
///
/// # Errors
/// No thread can be started.
pub(super) fn own_history(state: Option<&Path>) -> Result<Reporter> {
    let mut reporter = Reporter::to(
        Box::new(io::sink()),
        Look::of_stdout(),
        Output::Jsonl,
        &super::node(),
        None,
    )?;
    if let Some(state) = state
        && let Err(error) = reporter.keep_history(state, Bounds::default())
    {
        complain(format_args!(
            "No history is kept ({error}). All else goes on."
        ));
    }
    Ok(reporter)
}
