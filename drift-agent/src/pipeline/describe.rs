//! Records of what the pipeline decided.

use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use drift_common::{
    abi::{Event as Doorbell, Kind, SWEEP_SLOT, Slot},
    escape,
};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    compare::{
        Compared, Drift,
        structured::{MAX_SIZE, Verdict},
    },
    declare::{Content, Declared, HardLinks, Target},
    observe::{Decoded, Found, Observed, Stat, Unexpected, boot_ns},
    report::{Actor, Cause, Event, FileType, Holders, Record, State},
};

use super::{Pipeline, attribute, path::Why};

/// How long a call takes at most from its change to its event, as far as a sweep blames it: with the kernel's coarse clock.
const CALL: u64 = 20_000_000;

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
    let (file_type, content) = match &declared.target {
        Target::File(content) => (FileType::File, Some(content)),
        Target::Symlink(_) => (FileType::Symlink, None),
        Target::Absent => (FileType::Absent, None),
        Target::Directory(_) => (FileType::Directory, None),
    };
    // Where only some keys are declared, nobody has said what all of the file is.
    let whole = content.filter(|content| content.is_whole());
    State {
        file_type: Some(file_type),
        digest: whole.map(|content| content.digest),
        size: whole.and_then(|content| content.size),
        mode: declared.mode,
        uid: declared.uid,
        gid: declared.gid,
    }
}

/// What the two sides do not say of what was found.
pub fn detail(declared: &Declared, observed: &Observed, compared: &Compared) -> Option<String> {
    /// Names that are told.
    const TOLD: usize = 5;
    let found = match (&declared.target, &observed.found) {
        (Target::Symlink(target), Found::Link(found)) if target != found => {
            let [declared, found] = [target, found].map(|text| escape::bytes(text.as_bytes()));
            Some(format!("it leads to {found}, not to {declared}"))
        }
        (_, Found::Directory(Unexpected { names, count })) if *count > 0 => {
            let told: Vec<_> = names
                .iter()
                .take(TOLD)
                .map(|name| escape::bytes(name.as_bytes()))
                .collect();
            let more = match count - told.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Some(format!("nobody declared {}{more} in it", told.join(", ")))
        }
        (_, Found::Relocated) => observed.on_top.clone(),
        (Target::File(content), Found::File(digest)) => content_detail(content, *digest, compared),
        _ => None,
    };
    let mut all: Vec<String> = found.into_iter().collect();
    if let (Target::File(content), Some(stat)) = (&declared.target, &observed.stat)
        && content.hard_links == HardLinks::Report
        && stat.file_type == FileType::File
        && stat.links > 1
    {
        all.push(match stat.links {
            2 => "it has another name".to_owned(),
            links => format!("it has {} other names", links - 1),
        });
    }
    all.extend(attribute::differences(declared, observed));
    (!all.is_empty()).then(|| all.join("; "))
}

/// Of a file with other names: those that are declared, too.
pub fn also_declared<'p>(others: impl Iterator<Item = &'p PathBuf>) -> Option<String> {
    /// Paths that are told.
    const TOLD: usize = 5;
    let others: Vec<_> = others
        .take(TOLD)
        .map(|path| escape::bytes(path.as_os_str().as_bytes()))
        .collect();
    (!others.is_empty()).then(|| format!("it is {} too, which is declared", others.join(", ")))
}

/// Who still has the file that was replaced, in a sentence.
pub(super) fn still_held(holders: &Holders) -> Option<String> {
    /// Processes that are told.
    const TOLD: usize = 3;
    let named = holders.processes.iter().take(TOLD).map(|holder| {
        let comm = escape::bytes(holder.comm.as_bytes());
        let how = match holder.how {
            "writing" => "open for writing",
            other => other,
        };
        let at = holder
            .at
            .as_ref()
            .map(|at| format!(" at {}", escape::path(at)));
        format!(
            "{how} by {comm} (pid {}){}",
            holder.pid,
            at.unwrap_or_default()
        )
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        return None;
    }
    let more = match holders.count - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "the file that stood there, which has no name any more, is still {}{more}",
        named.join(", ")
    ))
}

/// How the content differs, without a word of it.
fn content_detail(
    content: &Content,
    digest: Option<blake3::Hash>,
    compared: &Compared,
) -> Option<String> {
    let format = content.meaning.as_ref()?.format().name();
    match &compared.content {
        Some(Verdict::Differs(differences)) if differences.is_equivalent() => {
            Some("it says what is declared, written in another way".to_owned())
        }
        Some(Verdict::Differs(differences)) => Some(differences.count()),
        // The parser's own words may have a word of the file in them.
        Some(Verdict::Unparsable(error)) => Some(format!(
            "it does not parse as {format}: {} at {}:{}",
            error.reason(),
            error.line,
            error.column
        )),
        Some(Verdict::Same) => None,
        None if compared.drifts.contains(&Drift::Content) && digest.is_some() => Some(format!(
            "it is larger than the {} MiB that are compared as {format}",
            MAX_SIZE >> 20
        )),
        None => None,
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
        Found::Link(_) => Some(FileType::Symlink),
        Found::Directory(_) => Some(FileType::Directory),
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
            | Found::Link(_)
            | Found::Directory(_)
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
        record.severity = Some(file.severity);
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
        // (A writer that is still there rang when it opened the file.) What the same process has done after it rang has left its time in the slot.
        let own = slot.filter(|slot| slot.tgid == heard.event.tgid);
        let newest = own
            .map_or(0, |slot| slot.changed_ns)
            .max(heard.event.time_ns);
        let changed_after = |stat: &Stat| changed_boot_ns(stat) > newest.saturating_add(CLOCKS);
        let later =
            later || heard.kind != Kind::Write && seen.stat.as_ref().is_some_and(changed_after);
        // A sweep finds whatever has changed: that it was this call is said where the times agree.
        let by_sweep = heard.event.slot == SWEEP_SLOT;
        let at_that_time = seen
            .stat
            .as_ref()
            .is_some_and(|stat| changed_boot_ns(stat).saturating_add(CALL) >= heard.event.time_ns);
        let is_drift = record.event != Event::Touched;
        record.actor = Some(if heard.kind == Kind::Times && is_drift {
            Err("the call that rang set times, and nothing else".to_owned())
        } else if heard.kind == Kind::Mount && !why.certain {
            Err("more than one call has mounted something before it could be looked at".to_owned())
        } else if by_sweep && !at_that_time {
            Err("it was changed by something that did not ring".to_owned())
        } else if later || why.several {
            Err("more than one process changed it before it could be read".to_owned())
        } else if !why.certain {
            Err("it was changed by a name that does not tell which file was meant".to_owned())
        } else if heard.event.tgid == 0 {
            Err("changed by the kernel itself".to_owned())
        } else {
            Ok(self.actor(&heard.event))
        });
    }

    /// The process behind a doorbell, and whose its container is.
    fn actor(&mut self, event: &Doorbell) -> Actor {
        let mut actor = self.identify.actor(event);
        if let Some(pods) = &self.pods {
            pods.tell(&mut actor);
        }
        actor
    }

    /// The process behind a doorbell, in a word.
    pub(super) fn reader(actor: &Actor) -> String {
        format!(
            "{} (pid {})",
            escape::printable(&actor.comm.to_string_lossy()),
            actor.pid
        )
    }
}
