//! What leaves the node, and how: a table for people or JSON lines for programs on standard output, OTLP logs to a collector, and what a cluster is told.
//!
//! The pipeline owns a [`Reporter`] and never waits in it: each way out has a bounded queue and a thread, and what does not fit is counted
//! and told. What is reported is let go when what is to be done is under way ([`Reporter::pass_on`]); what was put back is on standard output at once.

mod aside;
mod console;
mod container;
mod history;
mod line;
mod loss;
mod otlp;
mod outlet;
mod queue;
mod read;
mod record;
mod redact;
#[cfg(test)]
mod sample;
mod sentence;

use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use aside::{complain, progress};
pub use console::{Look, Watching};
pub use container::{Container, Pod};
pub use history::Heals;
pub use line::SCHEMA;
pub(crate) use line::{path_bytes, shown};
pub use otlp::{Counts, OtlpError, Settings as OtlpSettings};
pub use record::{
    Actor, AfterDone, Cause, Event, Evidence, FileType, Holder, Holders, Outcome, Record,
    SUPERSEDED, State,
};
pub use redact::{Redactable, Redactor, Shown, Why};

use history::History;
use loss::{Lost, lost};
use otlp::Exporter;
use outlet::Outlet;

use crate::{cluster::Notices, store::Bounds};

/// The form on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Table,
    /// For programs: one JSON record a line, as `docs/record.schema.json` says.
    Jsonl,
}

/// Why nothing can be reported any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Whoever read standard output has gone, or the disk behind it is full.
    #[error("cannot write to standard output")]
    Output(#[source] Arc<io::Error>),
    #[error("cannot start the thread that writes records")]
    Thread(#[source] io::Error),
    #[error("a record has no JSON form")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Otlp(#[from] OtlpError),
}

impl ReportError {
    /// The kind of error, for metrics and conditions: a closed set.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            ReportError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                "output-closed"
            }
            ReportError::Output(_) => "output-failed",
            ReportError::Thread(_) => "thread",
            ReportError::Json(_) => "json",
            ReportError::Otlp(error) => error.reason(),
        }
    }
}

/// What had not left when the time of a [`Reporter::flush`] was up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Lines on standard output.
    pub lines: usize,
    /// Records the collector has not answered for.
    pub records: usize,
    /// Records that are not in the history.
    pub unkept: usize,
}

/// Takes each record to where it belongs.
#[derive(Debug)]
pub struct Reporter {
    form: Form,
    outlet: Outlet,
    otlp: Option<Exporter>,
    history: Option<History>,
    cluster: Option<Notices>,
}

#[derive(Clone, Debug)]
struct Form {
    output: Output,
    look: Look,
    /// Which machine says so.
    node: String,
}

impl Reporter {
    /// To standard output, and to the collector `otlp` names (see [`OtlpSettings::from_env`]).
    ///
    /// # Errors
    /// No thread can be started, or the certificates for the collector are not what they should be.
    pub fn new(
        output: Output,
        node: &str,
        otlp: Option<&OtlpSettings>,
    ) -> Result<Reporter, ReportError> {
        let out = Box::new(io::stdout());
        Reporter::to(out, Look::of_stdout(), output, node, otlp)
    }

    /// As [`Reporter::new`], to any writer.
    ///
    /// # Errors
    /// As there.
    pub fn to(
        out: Box<dyn Write + Send>,
        look: Look,
        output: Output,
        node: &str,
        otlp: Option<&OtlpSettings>,
    ) -> Result<Reporter, ReportError> {
        // The schema wants a name, and a machine without one still has drifts.
        let node = if node.is_empty() { "localhost" } else { node };
        let form = Form {
            output,
            look,
            node: node.to_owned(),
        };
        let tell_loss = {
            let form = form.clone();
            Box::new(move |count| {
                let record = lost(Lost::OutputBlocked, count);
                form.line(&record).unwrap_or_else(|error| {
                    log::error!("{count} lines are lost, and the line that says so: {error}");
                    String::new()
                })
            })
        };
        Ok(Reporter {
            outlet: Outlet::start(out, tell_loss).map_err(ReportError::Thread)?,
            otlp: otlp
                .map(|settings| Exporter::start(settings, node))
                .transpose()?,
            history: None,
            cluster: None,
            form,
        })
    }

    /// From now on into the history in this state folder too. Of those that share one, only one process may.
    ///
    /// # Errors
    /// It cannot be written: all goes on without.
    pub fn keep_history(&mut self, state: &Path, bounds: Bounds) -> io::Result<()> {
        let node = self.form.node.clone();
        self.history = Some(History::start(state.to_owned(), bounds, node)?);
        Ok(())
    }

    /// From now on to a cluster too.
    pub fn tell(&mut self, cluster: Notices) {
        self.cluster = Some(cluster);
    }

    /// Says what is watched. In [`Output::Jsonl`] it says nothing: there is no such record.
    ///
    /// # Errors
    /// [`ReportError::Output`].
    pub fn watching(&mut self, watching: &Watching) -> Result<(), ReportError> {
        match self.form.output {
            Output::Jsonl => Ok(()),
            Output::Table => {
                let mut lines = self.form.look.watching(watching).join("\n");
                lines.push('\n');
                self.outlet.push(&lines).map_err(ReportError::Output)?;
                self.outlet.wake();
                Ok(())
            }
        }
    }

    /// Takes a record. Waits neither for the network nor for a reader; it goes with [`Self::pass_on`].
    ///
    /// # Errors
    /// [`ReportError::Output`] once standard output takes nothing any more; the record was handed over to the other queues all the same, and
    /// so are those after it.
    pub fn report(&mut self, record: &Record) -> Result<(), ReportError> {
        if let Some(field) = record.lacks() {
            log::error!(
                "a mistake in drift-agent: its record {} lacks `{field}`",
                record.event.name()
            );
        }
        if let Some(otlp) = &self.otlp {
            otlp.push(record);
        }
        if let Some(cluster) = &self.cluster {
            cluster.push(record);
        }
        let mut json = record.line(&self.form.node)?;
        if let Some(history) = &self.history {
            history.push(record, &json);
        }
        let line = match self.form.output {
            Output::Table => self.form.line(record)?,
            Output::Jsonl => {
                json.push('\n');
                json
            }
        };
        self.outlet.push(&line).map_err(ReportError::Output)?;
        // What has drifted is put back before that is told: its line waits for the others.
        if record.event != Event::DriftDetected {
            self.outlet.wake();
        }
        Ok(())
    }

    /// Lets all that was reported go: the threads that write and send it would take the processor from who is to put something back.
    pub fn pass_on(&self) {
        self.outlet.wake();
        if let Some(otlp) = &self.otlp {
            otlp.wake();
        }
        if let Some(history) = &self.history {
            history.wake();
        }
    }

    /// Waits until all that was reported has left, at most `within`. Blocks: for the agent's end, and for tests.
    ///
    /// # Errors
    /// [`ReportError::Output`], after the collector had its time.
    pub fn flush(&mut self, within: Duration) -> Result<Left, ReportError> {
        let end = Instant::now() + within;
        // Lines first: they need no time where someone reads them.
        let lines = self.outlet.flush(within);
        let rest = end.saturating_duration_since(Instant::now());
        let records = self.otlp.as_ref().map_or(0, |otlp| otlp.flush(rest));
        let rest = end.saturating_duration_since(Instant::now());
        let unkept = self.history.as_ref().map_or(0, |kept| kept.flush(rest));
        let lines = lines.map_err(ReportError::Output)?;
        Ok(Left {
            lines,
            records,
            unkept,
        })
    }

    /// Which machine says so.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.form.node
    }

    /// Lines that whoever reads standard output did not get.
    #[must_use]
    pub fn lines_lost(&self) -> u64 {
        self.outlet.lost()
    }

    /// Records that did not get into the history.
    #[must_use]
    pub fn unkept(&self) -> u64 {
        self.history.as_ref().map_or(0, History::lost)
    }

    /// How often policies were healed, as the history says. `None`: none is kept.
    #[must_use]
    pub fn heals(&self) -> Option<Heals> {
        self.history.as_ref().map(History::heals)
    }

    /// What became of the records for the collector. `None`: there is none.
    #[must_use]
    pub fn otlp_counts(&self) -> Option<Counts> {
        self.otlp.as_ref().map(Exporter::counts)
    }
}

impl Form {
    fn line(&self, record: &Record) -> Result<String, serde_json::Error> {
        let mut line = match self.output {
            Output::Table => self.look.line(record),
            Output::Jsonl => record.line(&self.node)?,
        };
        line.push('\n');
        Ok(line)
    }
}

#[cfg(test)]
mod tests;
