//! Active versions to a snapshot: names become ids, files become bytes.

use std::{path::Path, sync::Arc};

use drift_common::policy::{
    Content as Said, FileSpec, FinalNewline, Lineage, MAX_SIZE, Mode, Principal, Problems, Spanned,
    without_final_newline,
};

use super::{
    ActivePolicy, Basis, Content, Declared, Snapshot, Target,
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
                let declared = self.file(file, &policy, mode);
                snapshot.files.extend(declared.map(Arc::new));
            }
            snapshot.policies.push(policy);
        }
        snapshot.files.sort_by(|a, b| a.path.cmp(&b.path));
        snapshot
    }

    fn file(
        &mut self,
        file: &FileSpec,
        policy: &Arc<ActivePolicy>,
        asked: Option<Mode>,
    ) -> Option<Declared> {
        // Nobody acts on `after_heal` yet: validation refuses it.
        let FileSpec {
            path,
            content,
            mode,
            owner,
            group,
            on_drift,
            severity,
            redact,
            max_size,
            final_newline,
            compare,
            after_heal: _,
        } = file;
        // All of them, so that all problems are said.
        let bytes = self.content(content);
        let uid = id(&mut self.users, owner, self.basis, self.problems);
        let gid = id(&mut self.groups, group, self.basis, self.problems);
        let (bytes, digest) = bytes?;
        if let Some(most) = max_size
            && bytes.len() as u64 > most.value
        {
            let message = format!("the content is larger than this: {} bytes", bytes.len());
            let problem = most.at.problem(message).help("raise it, or remove it");
            self.problems.push(problem);
            return None;
        }
        let body = (*final_newline == FinalNewline::Ignore)
            .then(|| blake3::hash(without_final_newline(&bytes)));
        Some(Declared {
            path: path.value.clone(),
            policy: policy.clone(),
            target: Target::File(Content {
                bytes,
                digest,
                body,
                max_size: max_size.as_ref().map_or(MAX_SIZE, |most| most.value),
                compare: compare.value.clone(),
                redact: *redact,
            }),
            mode: *mode,
            uid: uid?,
            gid: gid?,
            // The command line counts more than the file, the file more than its policy.
            on_drift: asked.or(*on_drift).unwrap_or(policy.mode),
            severity: *severity,
            at: path.at.position(),
        })
    }

    fn content(&mut self, content: &Spanned<Said>) -> Option<Bytes> {
        let bytes = match &content.value {
            Said::Inline(text) => Ok((text.clone().into(), blake3::hash(text.as_bytes()))),
            Said::Packed(packed) => self.contents.unpacked(packed),
            Said::File(path) => self.contents.get(path, self.basis),
            Said::Blob(digest) => self.contents.blob(digest, self.basis),
        };
        match bytes {
            Ok(bytes) => Some(bytes),
            Err(why) => {
                self.problems.push(content.at.problem(why));
                None
            }
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
