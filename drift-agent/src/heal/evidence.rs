//! What a heal takes away is kept before it does: the content that stood there, and files that go because nobody has declared them.

use std::path::Path;

use log::{debug, warn};

use crate::{
    declare::{Declared, Evidence as Wanted, Redact, Target},
    observe::{Host, Leaving, Taken, Whole, take},
    report::{Evidence, FileType},
    store::{MOST_EVIDENCE, Store},
};

use super::Action;

/// Names of one directory whose contents are kept, of those that go at once.
const MOST_NAMES: usize = 64;

/// What an action takes away, and is not kept yet.
#[derive(Debug)]
pub struct Doomed<'a> {
    declared: &'a Declared,
    replaces: bool,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Healing puts another file in its place, and does not write into it: it is read when there is time.
    Leaving(Leaving),
    /// It was read.
    Taken(Taken),
    /// It is kept already: of a whole directory, not all is held in memory. Or nothing is to be.
    Kept(Vec<Evidence>),
}

/// Takes hold of it, before the action is carried out. Blocks on reading what is no file.
#[must_use]
pub fn doomed<'a>(
    host: &Host,
    store: &Store,
    declared: &'a Declared,
    action: &Action,
) -> Doomed<'a> {
    let mut doomed = Doomed {
        declared,
        replaces: matches!(action, Action::Replace | Action::Edit),
        what: What::Kept(Vec::new()),
    };
    if declared.policy.evidence == Wanted::None {
        return doomed;
    }
    match action {
        Action::Attributes => {}
        Action::Replace | Action::Edit | Action::Remove => {
            let leaving =
                (!declared.target.is_in_place()).then(|| Leaving::at(host, declared.real()));
            doomed.what = match leaving.flatten() {
                Some(leaving) => What::Leaving(leaving),
                None => What::Taken(take(host, declared.real(), MOST_EVIDENCE)),
            };
        }
        Action::Clear(names) => {
            let kept = names.iter().take(MOST_NAMES).filter_map(|name| {
                let path = declared.real().join(name);
                let taken = take(host, &path, MOST_EVIDENCE);
                let evidence = one(store, &path, &taken, doomed.redact())?;
                Some(Evidence {
                    name: Some(name.clone()),
                    ..evidence
                })
            });
            doomed.what = What::Kept(kept.collect());
        }
    }
    doomed
}

impl Doomed<'_> {
    fn redact(&self) -> Redact {
        match &self.declared.target {
            Target::File(content) => content.redact,
            Target::Symlink(_) | Target::Absent | Target::Directory(_) => Redact::default(),
        }
    }

    /// Keeps it. Blocks on reading and writing, not on a sync. What cannot be kept holds no heal up: the record says so.
    #[must_use]
    pub fn keep(self, store: &Store) -> Vec<Evidence> {
        let redact = self.redact();
        let taken = match self.what {
            What::Leaving(leaving) => leaving.take(MOST_EVIDENCE),
            What::Taken(taken) => taken,
            What::Kept(kept) => return kept,
        };
        if let (true, Target::File(content)) = (self.replaces, &self.declared.target)
            && let Some(bytes) = content.held()
            // What it is shown against.
            && let Err(error) = store.put_evidence(bytes)
        {
            debug!("what is declared is not kept beside what is healed: {error}");
        }
        let one = one(store, self.declared.real(), &taken, redact);
        one.into_iter().collect()
    }
}

/// `None`: there is nothing that would be lost.
fn one(store: &Store, path: &Path, taken: &Taken, redact: Redact) -> Option<Evidence> {
    use std::os::unix::ffi::OsStrExt;
    let stat = taken.stat.as_ref()?;
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
