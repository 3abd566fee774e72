//! Records of what the pipeline decided.

use drift_common::abi::{Kind, Slot};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    compare::Drift,
    declare::Declared,
    observe::{Decoded, Found, Observed, Stat},
    report::{Actor, Cause, Event, FileType, Record, State},
};

use super::{Pipeline, path::Why};

/// Nanoseconds since boot, on the clock of the kernel half's events.
pub fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How far two clocks that are read one after the other may be apart.
const CLOCKS: u64 = 200_000;

/// When the inode was last changed, nanoseconds since boot, as far as the wall clock has not been set since. The kernel's coarse clock makes it up to some
/// milliseconds early, never late.
fn changed_boot_ns(stat: &Stat) -> u64 {
    let wall = clock_gettime(ClockId::Realtime);
    let wall = i128::from(wall.tv_sec) * 1_000_000_000 + i128::from(wall.tv_nsec);
    let (seconds, nanoseconds) = stat.times.ctime;
    let age = wall - (i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds));
    u64::try_from(i128::from(boot_ns()) - age).unwrap_or(0)
}

/// The declared side.
pub fn declared(declared: &Declared) -> State {
    State {
        file_type: Some(FileType::File),
        digest: Some(declared.digest),
        size: Some(declared.content.len() as u64),
        mode: declared.mode,
        uid: declared.uid,
        gid: declared.gid,
    }
}

/// The observed side.
pub fn observed(observed: &Observed) -> State {
    let stat = observed.stat.as_ref();
    let file_type = match &observed.found {
        Found::Absent => Some(FileType::Absent),
        Found::Relocated => None,
        Found::Other(file_type) => Some(*file_type),
        Found::File(_) => Some(FileType::File),
        Found::Unreadable(_) | Found::Unstable => stat.map(|stat| stat.file_type),
    };
    State {
        file_type,
        digest: match observed.found {
            Found::File(digest) => digest,
            Found::Absent
            | Found::Relocated
            | Found::Unreadable(_)
            | Found::Unstable
            | Found::Other(_) => None,
        },
        size: stat.map(|stat| stat.size),
        mode: stat.map(|stat| stat.mode),
        uid: stat.map(|stat| stat.uid),
        gid: stat.map(|stat| stat.gid),
    }
}

/// Whether the newest change of an object came after this doorbell, from another process.
pub fn is_anothers(slot: &Slot, heard: &Decoded) -> bool {
    slot.changed_ns > heard.event.time_ns && slot.tgid != heard.event.tgid
}

impl Pipeline {
    /// A record about a path.
    pub(super) fn about(&self, event: Event, index: usize, cause: Cause) -> Record {
        let file = &self.snapshot.files[index];
        let mut record = Record::new(event);
        record.policy = Some(file.policy.name.clone());
        record.version = Some(file.policy.version.clone());
        record.path = Some(file.path.clone());
        record.cause = Some(cause);
        record
    }

    /// Fills in both sides.
    pub(super) fn sides(
        &self,
        record: &mut Record,
        index: usize,
        drifts: &[Drift],
        seen: &Observed,
    ) {
        record.drift = drifts.to_vec();
        record.declared = Some(declared(&self.snapshot.files[index]));
        record.observed = Some(observed(seen));
    }

    /// Who, and how long ago. Unknown is a valid answer, a wrong name is not.
    pub(super) fn who(
        &mut self,
        record: &mut Record,
        why: &Why,
        slot: Option<&Slot>,
        seen: &Observed,
    ) {
        let Some(heard) = &why.heard else {
            let reason = match &self.deaf {
                Some(deaf) => format!("found by scanning, no probes: {deaf}"),
                None => why.unheard.to_owned(),
            };
            record.actor = Some(Err(reason));
            return;
        };
        record.seen_ns = Some(boot_ns().saturating_sub(heard.event.time_ns));
        // A change that did not ring, because the mark was set already, came from somebody else.
        let later = slot.is_some_and(|slot| is_anothers(slot, heard));
        // Whatever rang comes after what it rang for: a file that was changed after that was changed by somebody else.
        // (A writer that is still there rang when it opened the file.)
        let changed_after =
            |stat: &Stat| changed_boot_ns(stat) > heard.event.time_ns.saturating_add(CLOCKS);
        let later =
            later || heard.kind != Kind::Write && seen.stat.as_ref().is_some_and(changed_after);
        record.actor = Some(if later || why.several {
            Err("more than one process changed it before it could be read".to_owned())
        } else if !why.certain {
            Err("it was changed by a name that does not tell which file was meant".to_owned())
        } else if heard.event.tgid == 0 {
            Err("changed by the kernel itself".to_owned())
        } else {
            Ok(self.identify.actor(&heard.event))
        });
    }

    /// The process behind a doorbell, in a word.
    pub(super) fn reader(actor: &Actor) -> String {
        format!(
            "{} (pid {})",
            drift_common::escape::printable(&actor.comm.to_string_lossy()),
            actor.pid
        )
    }
}
