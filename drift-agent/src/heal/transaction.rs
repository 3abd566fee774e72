//! A set of paths made as declared, whole or not at all.
//!
//! ```text
//! intent in the journal -> all staged beside its place and synced -> commit in the journal -> names taken, in order -> synced -> journal ended
//! ```
//!
//! Before the commit nothing has changed but directories that were missing: a failure, a kill or a power cut leaves things as they were. After
//! it all of it happens, if need be at the next start ([`recover`]). A single path needs none of this: see `replace`.

mod apply;
mod stage;

pub(super) use apply::Applied;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use drift_common::escape;
use log::warn;
use thiserror::Error;

use crate::{
    declare::{AfterHeal, Declared},
    observe::{Host, Stat},
    store::{Directory, Holding, Journal, Moved, Stage, Store, StoreError},
};

use super::{
    action::Action,
    edit::Text,
    execute::{HealError, execute},
    in_place::is_in_place,
};

/// Tries of what must happen, after the commit, and the time between them.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(20);

/// The reason of what somebody has stopped.
pub const ABORTED: &str = "aborted";

/// What is to happen at one path, where that really is: no link is on its way (see [`Declared::straight`]).
#[derive(Clone, Debug)]
pub enum Step {
    /// It gets what is declared. `like`: the regular file that is replaced.
    Put {
        declared: Arc<Declared>,
        like: Option<Stat>,
        source: Source,
    },
    /// The directory that is there gets mode and owner as declared.
    Attributes(Arc<Declared>),
    /// What is there goes; of directories, an empty one.
    Remove(PathBuf),
}

/// What a path gets, and in place of what.
#[derive(Clone, Debug)]
pub enum Source {
    /// What is declared, whatever stands there.
    Declared,
    /// What is declared, where nothing stands still: others may write to the file, too.
    Fresh,
    /// A text made of the one that stands there, where that is so still.
    There(Text),
}

impl Step {
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Put { declared, .. } | Self::Attributes(declared) => &declared.path,
            Self::Remove(path) => path,
        }
    }

    /// Whether it is written into the file that is there.
    fn is_in_place(&self) -> bool {
        match self {
            Self::Put { declared, like, .. } => is_in_place(declared, like.as_ref()),
            Self::Attributes(_) | Self::Remove(_) => false,
        }
    }
}

/// A change of versions, or of one file that is written in place.
#[derive(Debug)]
pub struct Transaction {
    /// None: nobody stops it between two steps, and what is held stays.
    pub moves: Vec<Moved>,
    /// What is held from the commit on, where versions move.
    pub holding: Holding,
    /// In the order in which they take place.
    pub steps: Vec<Step>,
    /// What comes after it: whoever has asked for it does that.
    pub after: Vec<AfterHeal>,
}

/// What has come of one.
#[derive(Debug, Default)]
pub struct Finished {
    /// Something worth telling.
    pub notes: Vec<String>,
    /// What is committed and could not be done: it is tried again at the next start, and before the next change of versions.
    pub left: Vec<(PathBuf, HealError)>,
    /// What was committed and is not tried again: somebody has come between, and what was staged is gone. The look that follows says how things are.
    pub given_up: Vec<(PathBuf, HealError)>,
}

/// Why nothing has changed.
#[derive(Debug, Error)]
pub enum TransactionError {
    #[error("{}: {source}", escape::path(.path))]
    Stage { path: PathBuf, source: HealError },
    #[error(transparent)]
    Journal(StoreError),
    /// Nothing has changed so far.
    #[error(
        "{0}; whether that is on the disk is not known: the next start finds out, and then either nothing or all of it has happened"
    )]
    Doubt(StoreError),
    /// Somebody wants it to end.
    #[error("it was aborted before it was decided")]
    Aborted,
    /// An earlier change of versions is not over.
    #[error("an earlier change of versions cannot be brought to its end ({0})")]
    Earlier(String),
}

impl TransactionError {
    /// One of a closed set, for records and metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Stage { source, .. } => source.reason(),
            Self::Journal(error) => error.reason(),
            Self::Doubt(_) => "in-doubt",
            Self::Aborted => ABORTED,
            Self::Earlier(_) => "earlier-unfinished",
        }
    }
}

/// Does it. Blocking: writes and syncs.
///
/// # Errors
/// Nothing has changed, and nothing is left.
pub fn run(
    host: &Host,
    store: &Store,
    transaction: Transaction,
) -> Result<Finished, TransactionError> {
    if let Some(earlier) =
        recover(host, store).map_err(|error| TransactionError::Earlier(error.to_string()))?
        && let Some((path, error)) = earlier.left.first()
    {
        let path = escape::path(path);
        return Err(TransactionError::Earlier(format!("{path}: {error}")));
    }
    let Transaction {
        moves,
        holding,
        steps,
        after,
    } = transaction;
    let stops = (!moves.is_empty()).then_some(store);
    if steps.is_empty() {
        may_go_on(stops)?;
        store
            .set_holding(&holding)
            .map_err(TransactionError::Journal)?;
        return Ok(Finished::default());
    }
    let directories = stage::missing(host, &steps);
    let mut journal = Journal {
        stage: Stage::Intended,
        moves,
        holding,
        directories: directories
            .into_iter()
            .map(|path| Directory { path })
            .collect(),
        entries: steps.iter().map(stage::entry).collect(),
        after: after.iter().map(ToString::to_string).collect(),
    };
    let mut finished = Finished::default();
    let mut lifted = stage::Lifted::new();
    let staged = store
        .write_journal(&journal)
        .map_err(TransactionError::Journal)
        .and_then(|()| stage::all(host, stops, &steps, &mut finished.notes, &mut lifted))
        .and_then(|()| may_go_on(stops));
    if let Err(error) = staged {
        give_up(host, store, &journal, lifted);
        return Err(error);
    }
    journal.stage = Stage::Committed;
    if let Err(error) = store.write_journal(&journal) {
        // Which of the two journals a power cut would leave is not known: only when the first is there again for certain may the stage go.
        journal.stage = Stage::Intended;
        if store.write_journal(&journal).is_err() {
            return Err(TransactionError::Doubt(error));
        }
        give_up(host, store, &journal, lifted);
        return Err(TransactionError::Journal(error));
    }
    forward(host, store, &journal, false, &mut finished);
    if finished.left.is_empty() {
        give_back(lifted);
        let given_up = &finished.given_up;
        let is_done = |step: &&Step| given_up.iter().all(|(path, _)| path != step.path());
        finish(host, steps.iter().filter(is_done));
    }
    Ok(finished)
}

/// What a crash, or a failure after the commit, has left: it is dropped, or brought to its end. `None`: nothing. For the start.
///
/// # Errors
/// It cannot be done now. A journal that cannot be believed is removed, which is said.
pub fn recover(host: &Host, store: &Store) -> Result<Option<Finished>, StoreError> {
    let journal = match store.journal() {
        Ok(None) => return Ok(None),
        Ok(Some(journal)) => journal,
        Err(error @ StoreError::Journal { .. }) => {
            store.end_journal()?;
            let note =
                format!("{error}: it was removed. What is not as declared is found by looking");
            return Ok(Some(Finished {
                notes: vec![note],
                ..Finished::default()
            }));
        }
        Err(error) => return Err(error),
    };
    // What is read here may not be what a power cut would leave.
    store.write_journal(&journal)?;
    let versions = journal
        .moves
        .iter()
        .map(|Moved { policy, from, to }| format!("{} {from} -> {to}", escape::name(policy)));
    let versions: Vec<String> = versions.collect();
    let what = if versions.is_empty() {
        let paths = journal.entries.iter();
        let paths: Vec<_> = paths
            .map(|entry| escape::path(&entry.path).to_string())
            .collect();
        format!("a heal of {}", paths.join(", "))
    } else {
        format!("a change of versions ({})", versions.join(", "))
    };
    let mut finished = Finished::default();
    match journal.stage {
        Stage::Intended => {
            stage::drop_all(host, &journal).map_err(|error| StoreError::Journal {
                why: format!("what was staged cannot be removed ({error})"),
            })?;
            store.end_journal()?;
            finished.notes.push(format!(
                "{what} was interrupted before anything had changed, and was dropped"
            ));
        }
        Stage::Committed => {
            forward(host, store, &journal, true, &mut finished);
            finished.notes.push(format!(
                "{what} was interrupted after it had been decided, and was brought to its end"
            ));
            if !journal.after.is_empty() {
                // Whether some of it was done is not known, and a restart too many is an outage.
                finished.notes.push(format!(
                    "what makes programs take that in is not done after an interruption, and left to you: {}",
                    journal.after.join(", ")
                ));
            }
            let given_up = finished.given_up.iter();
            let given_up = given_up.map(|(path, why)| format!("{}: {why}", escape::path(path)));
            finished.notes.extend(given_up);
        }
    }
    Ok(Some(finished))
}

/// Asked at each step before the commit, and not after it.
fn may_go_on(stops: Option<&Store>) -> Result<(), TransactionError> {
    if stops.is_some_and(Store::is_abort_asked) {
        return Err(TransactionError::Aborted);
    }
    Ok(())
}

/// Nothing is committed: what was staged goes.
fn give_up(host: &Host, store: &Store, journal: &Journal, lifted: stage::Lifted) {
    give_back(lifted);
    let dropped = stage::drop_all(host, journal)
        .map_err(|error| error.to_string())
        .and_then(|()| store.end_journal().map_err(|error| error.to_string()));
    if let Err(error) = dropped {
        // The journal says what to remove.
        warn!("what was staged is removed at the next start: {error}");
    }
}

fn give_back(lifted: stage::Lifted) {
    for stands in lifted {
        stands.give_back();
    }
}

/// What cannot be staged: flags, which would keep a file from taking its name, and attributes of directories beside mode and owner. After a crash the look
/// at the start finds that they are not there.
fn finish<'s>(host: &Host, steps: impl Iterator<Item = &'s Step>) {
    for step in steps {
        let declared = match step {
            Step::Put { declared, .. } if declared.attributes.flags.is_some() => declared,
            // Only owner and mode were set with its content.
            Step::Put { declared, .. } if step.is_in_place() => declared,
            Step::Attributes(declared) => declared,
            Step::Put { .. } | Step::Remove(_) => continue,
        };
        if let Err(error) = execute(host, declared, &Action::Attributes, None) {
            let path = escape::path(&declared.path);
            warn!("the attributes of {path} are left to the look that follows: {error}");
        }
    }
}

/// What is committed happens, as far as it can.
fn forward(host: &Host, store: &Store, journal: &Journal, check: bool, finished: &mut Finished) {
    let mut held = Ok(());
    for attempt in 0..TRIES {
        if attempt > 0 {
            thread::sleep(PAUSE);
        }
        let check = check || attempt > 0;
        finished.left = apply::all(host, journal, check, &mut finished.given_up);
        // A heal changes no version: what is held may be another by now.
        if !journal.moves.is_empty() {
            held = store.set_holding(&journal.holding);
        }
        if finished.left.is_empty() && held.is_ok() {
            break;
        }
    }
    if let Err(error) = &held {
        // Until then it is the journal that says so: see [`Store::holding_now`].
        warn!("which versions are held is written at the next start: {error}");
    }
    if finished.left.is_empty()
        && held.is_ok()
        && let Err(error) = store.end_journal()
    {
        // Doing it once more does no harm.
        warn!("{error}");
    }
}

#[cfg(test)]
mod tests;
