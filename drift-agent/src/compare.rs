//! What differs between Declared and Observed. Pure: no I/O, no clock, not async.

pub mod attribute;
mod drift;
mod file;
pub mod structured;
pub mod text;

pub use drift::Drift;

use self::attribute::Verdict;

use crate::{
    declare::{Declared, HardLinks, Target},
    observe::{Found, Observed},
};

/// What differs, sorted, each kind once; empty: as declared.
#[must_use]
pub fn differences(declared: &Declared, observed: &Observed) -> Vec<Drift> {
    let mut drifts = match (&declared.target, &observed.found) {
        (_, Found::Relocated) => return vec![Drift::Relocated],
        (Target::Absent, Found::Absent) => return Vec::new(),
        // Whatever it is.
        (Target::Absent, _) => return vec![Drift::Unexpected],
        (_, Found::Absent) => return vec![Drift::Missing],
        (_, Found::Unreadable(_)) => return vec![Drift::Unreadable],
        (_, Found::Unstable) => return vec![Drift::Unstable],
        (Target::File(content), Found::File(digest)) => {
            file::content(content, *digest, observed.body)
        }
        (Target::Symlink(target), Found::Link(found)) if target == found => Vec::new(),
        (Target::Symlink(_), Found::Link(_)) => vec![Drift::LinkTarget],
        (Target::Directory(_), Found::Directory(unexpected)) if unexpected.count == 0 => Vec::new(),
        (Target::Directory(_), Found::Directory(_)) => vec![Drift::Unexpected],
        // What the mode of a link or a directory should be that stands where a file belongs, nobody has said.
        (Target::File(_) | Target::Symlink(_) | Target::Directory(_), _) => {
            return vec![Drift::Type];
        }
    };
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
            Verdict::Same => {}
            Verdict::Other | Verdict::Unsupported => drifts.push(Drift::Xattr),
            Verdict::Unknown(_) => drifts.push(Drift::Unreadable),
        }
    }
    drifts.sort_unstable();
    drifts.dedup();
    drifts
}

#[cfg(test)]
mod tests;
