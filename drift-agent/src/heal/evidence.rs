//! What a heal takes away is kept before it does: the content that stood there, and files that go because nobody has declared them.

use std::path::Path;

use log::{debug, warn};

use crate::{
    declare::{Declared, Evidence as Wanted, Redact, Target},
    observe::{Host, Whole, take},
    report::{Evidence, FileType},
    store::{MOST_EVIDENCE, Store},
};

use super::Action;

/// Names of one directory whose contents are kept, of those that go at once.
const MOST_NAMES: usize = 64;

/// Keeps it. Blocks on reading and writing, not on a sync. What cannot be kept holds no heal up: the record says so.
#[must_use]
pub fn keep(host: &Host, store: &Store, declared: &Declared, action: &Action) -> Vec<Evidence> {
    if declared.policy.evidence == Wanted::None {
        return Vec::new();
    }
    let redact = match &declared.target {
        Target::File(content) => content.redact,
        Target::Symlink(_) | Target::Absent | Target::Directory(_) => Redact::default(),
    };
    if let (Action::Replace | Action::Edit, Target::File(content)) = (action, &declared.target)
        && let Some(bytes) = content.held()
        // What it is shown against.
        && let Err(error) = store.put_evidence(bytes)
    {
        debug!("what is declared is not kept beside what is healed: {error}");
    }
    match action {
        Action::Attributes => Vec::new(),
        Action::Replace | Action::Edit | Action::Remove => {
            one(host, store, declared.real(), redact)
                .into_iter()
                .collect()
        }
        Action::Clear(names) => {
            let kept = names.iter().take(MOST_NAMES).filter_map(|name| {
                let evidence = one(host, store, &declared.real().join(name), redact)?;
                Some(Evidence {
                    name: Some(name.clone()),
                    ..evidence
                })
            });
            kept.collect()
        }
    }
}

/// `None`: there is nothing that would be lost.
fn one(host: &Host, store: &Store, path: &Path, redact: Redact) -> Option<Evidence> {
    use std::os::unix::ffi::OsStrExt;
    let taken = take(host, path, MOST_EVIDENCE);
    let stat = taken.stat?;
    let put = |bytes: &[u8]| {
        store.put_evidence(bytes).map_err(|error| {
            warn!("what is healed at {} is not kept: {error}", path.display());
            error.reason()
        })
    };
    let kept = match &taken.whole {
        Whole::File(bytes) => put(bytes),
        Whole::Link(target) => put(target.as_bytes()),
        Whole::TooLarge => Err("too-large"),
        Whole::Not(_) if stat.file_type == FileType::File => Err("unreadable"),
        Whole::Directory(_) | Whole::Special(_) | Whole::Virtual | Whole::Not(_) => return None,
    };
    Some(Evidence {
        name: None,
        kept,
        size: stat.size,
        file_type: stat.file_type,
        redact,
    })
}
