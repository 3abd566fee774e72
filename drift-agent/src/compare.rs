//! What differs between Declared and Observed. Pure: no I/O, no clock, not async.

pub mod attribute;
mod drift;
mod file;
pub mod structured;
pub mod text;

pub use drift::Drift;

use structured::Verdict;

use crate::{
    declare::{Declared, HardLinks, Target},
    observe::{Found, Observed},
};

/// What differs at a path.
#[derive(Debug, Default)]
pub struct Compared {
    /// Sorted, each kind once; empty: as declared.
    pub drifts: Vec<Drift>,
    /// Of a file that is compared by what it says, and does not hold what is declared byte for byte.
    pub content: Option<Verdict>,
}

impl Compared {
    fn of(drift: Drift) -> Self {
        Self {
            drifts: vec![drift],
            content: None,
        }
    }

    /// In what a file differs by what it says, as one digest: two looks that see the same have the same.
    #[must_use]
    pub fn face(&self) -> Option<blake3::Hash> {
        match &self.content {
            Some(Verdict::Differs(differences)) => Some(file::face(differences)),
            Some(Verdict::Same | Verdict::Unparsable(_)) | None => None,
        }
    }
}

/// What differs.
#[must_use]
pub fn compare(declared: &Declared, observed: &Observed) -> Compared {
    let mut compared = Compared::default();
    match (&declared.target, &observed.found) {
        (_, Found::Relocated) => return Compared::of(Drift::Relocated),
        (Target::Absent, Found::Absent) => return compared,
        // Nobody could say whether anything is there.
        (Target::Absent, Found::Unreadable(_)) if observed.stat.is_none() => {
            return Compared::of(Drift::Unreadable);
        }
        // Whatever it is.
        (Target::Absent, _) => return Compared::of(Drift::Unexpected),
        (_, Found::Absent) => return Compared::of(Drift::Missing),
        // Its attributes may be known all the same.
        (_, Found::Unreadable(_)) => compared.drifts.push(Drift::Unreadable),
        (_, Found::Unstable) => return Compared::of(Drift::Unstable),
        (Target::File(content), Found::File(digest)) => {
            let (drift, verdict) = file::content(content, *digest, observed);
            compared.drifts.extend(drift);
            compared.content = verdict;
        }
        (Target::Symlink(target), Found::Link(found)) if target == found => {}
        (Target::Symlink(_), Found::Link(_)) => compared.drifts.push(Drift::LinkTarget),
        (Target::Directory(_), Found::Directory(unexpected)) if unexpected.count == 0 => {}
        (Target::Directory(_), Found::Directory(_)) => compared.drifts.push(Drift::Unexpected),
        // What the mode of a link or a directory should be that stands where a file belongs, nobody has said.
        (Target::File(_) | Target::Symlink(_) | Target::Directory(_), _) => {
            return Compared::of(Drift::Type);
        }
    }
    let drifts = &mut compared.drifts;
    if let Some(stat) = &observed.stat {
        if declared.mode.is_some_and(|mode| mode != stat.mode) {
            drifts.push(Drift::Mode);
        }
        let other = |declared: Option<u32>, id| declared.is_some_and(|declared| declared != id);
        if other(declared.uid, stat.uid) || other(declared.gid, stat.gid) {
            drifts.push(Drift::Owner);
        }
    }
    if let (Target::File(content), Some(stat)) = (&declared.target, &observed.stat)
        && content.hard_links == HardLinks::Report
        && stat.links > 1
    {
        drifts.push(Drift::Hardlinked);
    }
    for (_, verdict) in attribute::verdicts(declared, observed) {
        match verdict {
            attribute::Verdict::Same => {}
            attribute::Verdict::Other | attribute::Verdict::Unsupported => {
                drifts.push(Drift::Xattr);
            }
            attribute::Verdict::Unknown(_) => drifts.push(Drift::Unreadable),
        }
    }
    drifts.sort_unstable();
    drifts.dedup();
    compared
}

/// The kinds of what differs, sorted, each once.
#[must_use]
pub fn differences(declared: &Declared, observed: &Observed) -> Vec<Drift> {
    compare(declared, observed).drifts
}

#[cfg(test)]
mod tests;
