//! Whether a journal says nothing but what the policy folder says. It stands where the detector writes too, and what is committed in it happens.

use std::{collections::HashMap, path::Path};

use drift_common::{escape, policy::Holds};

use super::{Held, holds};
use crate::{
    declare::{Declared, HardLinks, Mode, Snapshot, Target},
    store::{Change, Directory, Entry, Journal, Moved, Over, Store},
};

/// What a snapshot declares, by the places where that really is; and by the declared path, which it is where a link on the way holds something else.
struct Places<'s>(HashMap<&'s Path, &'s Declared>);

impl<'s> Places<'s> {
    fn of(snapshot: Option<&'s Snapshot>) -> Self {
        let files = snapshot.into_iter().flat_map(|snapshot| &snapshot.files);
        let both = files.flat_map(|declared| {
            [declared.real(), declared.path.as_path()].map(|path| (path, &**declared))
        });
        Self(both.collect())
    }

    fn find(&self, path: &Path) -> Option<&'s Declared> {
        self.0.get(path).copied()
    }
}

/// Whether the journal, if there is one, says nothing but what the policy folder says.
///
/// # Errors
/// It does, a sentence: what it says is not to be done.
pub fn believe(
    store: &Store,
    state: &Path,
    policies: &Path,
    mode: Option<Mode>,
) -> Result<(), String> {
    // One that is not whole is removed by the recovery, and nothing happens.
    let Ok(Some(journal)) = store.journal() else {
        return Ok(());
    };
    let versions = |version: fn(&Moved) -> &String| {
        // Policies that have not moved are where they are held, or where the folder says.
        let mut all = store.holds();
        let folder = |holds: &Holds| {
            let look = store.look_with(policies, store.host_root(), mode, holds);
            look.0.ok()
        };
        let said = folder(&Holds::new());
        for moved in &journal.moves {
            let terms = said.as_ref().and_then(|said| said.policy(&moved.policy));
            let Some((_, terms)) = terms else { continue };
            let each = Held {
                policy: moved.policy.clone(),
                version: version(moved).clone(),
                instead_of: terms.said.clone(),
            };
            all.extend(holds(&[each]));
        }
        folder(&all)
    };
    let from = versions(|moved| &moved.from);
    let to = versions(|moved| &moved.to);
    explains(from.as_ref(), to.as_ref(), &journal).map_err(|path| {
        format!(
            "the journal names {}, of which no version in the policy folder says that: it is left alone. Put the policies back that were active, or remove {}",
            escape::path(path),
            escape::path(&state.join("journal"))
        )
    })
}

/// `from` and `to`: what the versions declare that the journal comes from and goes to, as far as the folder has them.
///
/// # Errors
/// The first path of which the folder does not say what the journal says.
fn explains<'j>(
    from: Option<&Snapshot>,
    to: Option<&Snapshot>,
    journal: &'j Journal,
) -> Result<(), &'j Path> {
    let (from, to) = (Places::of(from), Places::of(to));
    for Directory { path } in &journal.directories {
        // Made for something that is declared in it, or itself.
        if !to.0.keys().any(|declared| declared.starts_with(path)) {
            return Err(path);
        }
    }
    for Entry { path, change } in &journal.entries {
        if !one(&from, &to, path, change) {
            return Err(path);
        }
    }
    Ok(())
}

fn one(from: &Places<'_>, to: &Places<'_>, path: &Path, change: &Change) -> bool {
    let declared = to.find(path);
    match change {
        Change::Into {
            digest,
            seen,
            alone,
        } => declared.is_some_and(|declared| match &declared.target {
            Target::File(content) => {
                declared.target.is_in_place()
                    && (*alone || content.hard_links == HardLinks::Allow)
                    && (seen.is_some() || content.digest.to_string() == *digest)
            }
            Target::Symlink(_) | Target::Directory(_) | Target::Absent => false,
        }),
        Change::File { digest, over } => declared.is_some_and(|declared| match &declared.target {
            // The text of a file with keys of others is known when it is made: it stands beside the file, where the restorer alone can put it.
            Target::File(content) => match over {
                Over::Text { .. } => true,
                Over::Anything | Over::Nothing => content.digest.to_string() == *digest,
            },
            Target::Symlink(_) | Target::Directory(_) | Target::Absent => false,
        }),
        Change::Link => declared.is_some_and(|it| matches!(it.target, Target::Symlink(_))),
        Change::Directory => declared.is_some_and(|it| matches!(it.target, Target::Directory(_))),
        Change::Attributes { mode, uid, gid } => declared.is_some_and(|it| {
            matches!(it.target, Target::Directory(_))
                && (it.mode, it.uid, it.gid) == (*mode, *uid, *gid)
        }),
        Change::Remove => match declared {
            Some(declared) => declared.target == Target::Absent,
            // No version declares it any more, or it is one name too many in a directory that says which may be there.
            None => from.find(path).is_some() || is_cleared(to, path),
        },
    }
}

fn is_cleared(to: &Places<'_>, path: &Path) -> bool {
    let directory = path.parent().and_then(|parent| to.find(parent));
    match (directory.map(|it| &it.target), path.file_name()) {
        (Some(Target::Directory(Some(exhaustive))), Some(name)) => {
            exhaustive.removes && !exhaustive.allows(name)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        declare::{Exhaustive, sample},
        store::{Holding, Stage},
    };

    fn snapshot(files: Vec<Declared>) -> Snapshot {
        Snapshot {
            files: files.into_iter().map(Arc::new).collect(),
            ..Snapshot::default()
        }
    }

    fn journal(path: &str, change: Change) -> Journal {
        Journal {
            stage: Stage::Committed,
            moves: Vec::new(),
            holding: Holding::default(),
            directories: Vec::new(),
            entries: vec![Entry {
                path: path.into(),
                change,
            }],
            after: Vec::new(),
        }
    }

    #[test]
    fn a_journal_is_believed_as_far_as_the_folder_goes() {
        let exhaustive = Exhaustive {
            removes: true,
            ..Exhaustive::default()
        };
        let from = snapshot(vec![sample::declared("/etc/old", sample::file(b"old"))]);
        let to = snapshot(vec![
            sample::declared("/etc/d", Target::Directory(Some(exhaustive))),
            sample::declared("/etc/f", sample::file(b"new")),
            sample::declared("/etc/gone", Target::Absent),
            sample::declared("/etc/l", Target::Symlink("f".into())),
        ]);
        let file = |bytes: &[u8]| Change::File {
            digest: blake3::hash(bytes).to_string(),
            over: Over::Anything,
        };
        let attributes = |mode| Change::Attributes {
            mode,
            uid: None,
            gid: None,
        };
        let declared_mode = to.files[0].mode;
        for (path, change, expected) in [
            ("/etc/f", file(b"new"), true),
            ("/etc/f", file(b"evil"), false),
            ("/etc/g", file(b"new"), false),
            ("/etc/l", Change::Link, true),
            ("/etc/f", Change::Link, false),
            ("/etc/d", Change::Directory, true),
            ("/etc/d", attributes(declared_mode), true),
            ("/etc/d", attributes(Some(0o777)), false),
            ("/etc/shadow", attributes(Some(0o777)), false),
            ("/etc/old", Change::Remove, true),
            ("/etc/gone", Change::Remove, true),
            ("/etc/d/stranger", Change::Remove, true),
            ("/etc/d/deep/er", Change::Remove, false),
            ("/etc/f", Change::Remove, false),
            ("/etc/passwd", Change::Remove, false),
        ] {
            let journal = journal(path, change.clone());
            let found = explains(Some(&from), Some(&to), &journal);
            assert_eq!(found.is_ok(), expected, "{path} {change:?}");
        }
        let old = journal("/etc/old", Change::Remove);
        assert_eq!(
            explains(None, Some(&to), &old),
            Err(Path::new("/etc/old")),
            "what it came from is in the folder no more"
        );
        let mut made = journal("/etc/f", file(b"new"));
        made.directories = vec![Directory {
            path: "/etc".into(),
        }];
        assert_eq!(explains(None, Some(&to), &made), Ok(()));
        made.directories = vec![Directory {
            path: "/srv".into(),
        }];
        assert_eq!(explains(None, Some(&to), &made), Err(Path::new("/srv")));
    }
}
