//! Active versions to a snapshot: names become ids, files become bytes.

use std::{path::Path, sync::Arc};

use drift_common::policy::{Content, FileSpec, Lineage, Mode, Principal, Problems, Spanned};

use super::{
    ActivePolicy, Basis, Declared, Snapshot,
    accounts::{Accounts, GROUPS, USERS},
    content::{Bytes, Contents},
    folder::Folder,
};

pub(super) struct Resolve<'a> {
    users: Accounts<'a>,
    groups: Accounts<'a>,
    contents: Contents<'a>,
    basis: &'a mut Basis,
    problems: &'a mut Problems,
}

impl<'a> Resolve<'a> {
    pub(super) fn new(
        folder: &'a Folder,
        host_root: &'a Path,
        basis: &'a mut Basis,
        problems: &'a mut Problems,
    ) -> Self {
        Self {
            users: Accounts::new(host_root, USERS),
            groups: Accounts::new(host_root, GROUPS),
            contents: Contents::new(&folder.dir),
            basis,
            problems,
        }
    }

    /// What the active versions declare, without the files that have a problem. The lineages are valid: sorted by name, and no path twice.
    pub(super) fn snapshot(&mut self, lineages: &[Lineage], mode: Option<Mode>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for lineage in lineages {
            let version = lineage.active();
            let policy = Arc::new(ActivePolicy {
                name: lineage.policy.name.value.clone(),
                version: version.version.value.to_string(),
                mode: mode.unwrap_or(lineage.policy.mode),
                backoff: lineage.policy.guard.backoff,
            });
            for file in &version.files {
                let declared = self.file(file, &policy);
                snapshot.files.extend(declared.map(Arc::new));
            }
            snapshot.policies.push(policy);
        }
        snapshot.files.sort_by(|a, b| a.path.cmp(&b.path));
        snapshot
    }

    fn file(&mut self, file: &FileSpec, policy: &Arc<ActivePolicy>) -> Option<Declared> {
        let FileSpec {
            path,
            content,
            mode,
            owner,
            group,
        } = file;
        // All of them, so that all problems are said.
        let bytes = self.content(content);
        let uid = id(&mut self.users, owner, self.basis, self.problems);
        let gid = id(&mut self.groups, group, self.basis, self.problems);
        let (content, digest) = bytes?;
        Some(Declared {
            path: path.value.clone(),
            policy: policy.clone(),
            content,
            digest,
            mode: *mode,
            uid: uid?,
            gid: gid?,
            at: path.at.position(),
        })
    }

    fn content(&mut self, content: &Spanned<Content>) -> Option<Bytes> {
        match &content.value {
            Content::Inline(text) => Some((text.clone().into(), blake3::hash(text.as_bytes()))),
            Content::File(path) => match self.contents.get(path, self.basis) {
                Ok(bytes) => Some(bytes),
                Err(why) => {
                    self.problems.push(content.at.problem(why));
                    None
                }
            },
        }
    }
}

/// The id, if there is a principal; `None` where it has a problem.
fn id(
    accounts: &mut Accounts<'_>,
    principal: &Option<Spanned<Principal>>,
    basis: &mut Basis,
    problems: &mut Problems,
) -> Option<Option<u32>> {
    match principal
        .as_ref()
        .map(|principal| accounts.id(principal, basis))
    {
        None => Some(None),
        Some(Ok(id)) => Some(Some(id)),
        Some(Err(problem)) => {
            problems.push(problem);
            None
        }
    }
}
