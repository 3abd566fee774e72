//! One path of a version, made what this node must have there.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use drift_common::policy::{
    self, AbsentSpec, DirectorySpec, FileSpec, LARGEST_CONTENT, MAX_SIZE, Mode, OnUnexpected,
    Principal, Problems, Severity, Spanned, SymlinkSpec,
};

use super::{Held, Resolve};
use crate::declare::{
    ActivePolicy, Attributes, Basis, Content, Declared, Exhaustive, Keep, Target, Through,
    accounts::Accounts, attribute::Names,
};

impl Resolve<'_> {
    /// The ids of an owner and a group; each `None` where it has a problem.
    fn ids(
        &mut self,
        owner: &Option<Spanned<Principal>>,
        group: &Option<Spanned<Principal>>,
    ) -> (Option<Option<u32>>, Option<Option<u32>>) {
        let (basis, problems) = (&mut *self.basis, &mut *self.problems);
        let uid = id(&mut self.users, owner, "owner: 1000", basis, problems);
        let gid = id(&mut self.groups, group, "group: 1000", basis, problems);
        (uid, gid)
    }

    pub(super) fn file(
        &mut self,
        file: &FileSpec,
        held: Option<Held>,
        policy: &Arc<ActivePolicy>,
        asked: Option<Mode>,
    ) -> Option<Declared> {
        let FileSpec {
            path,
            through,
            content: _,
            mode,
            owner,
            group,
            attributes,
            on_drift,
            severity,
            redact,
            max_size,
            final_newline: _,
            line_endings: _,
            hard_links,
            write,
            compare,
            after_heal,
        } = file;
        // All of them, so that all problems are said.
        let (uid, gid) = self.ids(owner, group);
        let attributes = self.attributes(attributes);
        let Held {
            bytes,
            size,
            digest,
            body,
            lines,
            meaning,
        } = held?;
        if let (Some(most), Some(size)) = (max_size, size)
            && size > most.value
        {
            let message = format!("the content is larger than this: {size} bytes");
            let problem = most.at.problem(message).help("raise it, or remove it");
            self.problems.push(problem);
            return None;
        }
        let target = Target::File(Content {
            bytes,
            size,
            digest,
            body,
            lines: lines.map(Box::new),
            max_size: match (max_size, size) {
                (Some(most), _) => most.value,
                (None, Some(size)) => size.max(MAX_SIZE),
                // Of a content of which only the digest is known.
                (None, None) => LARGEST_CONTENT,
            },
            hard_links: *hard_links,
            write: *write,
            compare: compare.value.clone(),
            meaning,
            redact: *redact,
        });
        Some(Declared {
            mode: *mode,
            uid: uid?,
            gid: gid?,
            attributes: attributes?,
            after_heal: match self.keep {
                Keep::Bytes => after_heal.iter().map(|one| one.value.clone()).collect(),
                Keep::Digests => Vec::new(),
            },
            through: through.as_ref().map(Through::new).map(Box::new),
            ..declared(path, policy, target, asked, (*on_drift, *severity))
        })
    }

    pub(super) fn symlink(
        &mut self,
        link: &SymlinkSpec,
        policy: &Arc<ActivePolicy>,
        asked: Option<Mode>,
    ) -> Option<Declared> {
        let SymlinkSpec {
            path,
            through,
            target,
            owner,
            group,
            attributes,
            on_drift,
            severity,
        } = link;
        let (uid, gid) = self.ids(owner, group);
        let attributes = self.attributes(attributes);
        let target = Target::Symlink(target.clone().into_os_string());
        Some(Declared {
            uid: uid?,
            gid: gid?,
            attributes: attributes?,
            through: through.as_ref().map(Through::new).map(Box::new),
            ..declared(path, policy, target, asked, (*on_drift, *severity))
        })
    }

    pub(super) fn directory(
        &mut self,
        directory: &DirectorySpec,
        policy: &Arc<ActivePolicy>,
        asked: Option<Mode>,
    ) -> Option<Declared> {
        let DirectorySpec {
            path,
            through,
            mode,
            owner,
            group,
            attributes,
            exhaustive,
            on_drift,
            severity,
        } = directory;
        let (uid, gid) = self.ids(owner, group);
        let attributes = self.attributes(attributes);
        let exhaustive = exhaustive.as_ref().map(|said| Exhaustive {
            declared: BTreeSet::new(),
            ignore: said.ignore.clone(),
            removes: said.on_unexpected == OnUnexpected::Remove,
        });
        let target = Target::Directory(exhaustive);
        Some(Declared {
            mode: *mode,
            uid: uid?,
            gid: gid?,
            attributes: attributes?,
            through: through.as_ref().map(Through::new).map(Box::new),
            ..declared(path, policy, target, asked, (*on_drift, *severity))
        })
    }

    fn attributes(&mut self, said: &policy::Attributes) -> Option<Attributes> {
        let mut names = Names {
            users: &mut self.users,
            groups: &mut self.groups,
            basis: self.basis,
            problems: self.problems,
        };
        names.attributes(said)
    }
}

/// A path at which nothing may be.
pub(super) fn absent(
    absent: &AbsentSpec,
    policy: &Arc<ActivePolicy>,
    asked: Option<Mode>,
) -> Declared {
    let said = (absent.on_drift, absent.severity);
    Declared {
        through: absent.through.as_ref().map(Through::new).map(Box::new),
        ..declared(&absent.path, policy, Target::Absent, asked, said)
    }
}

/// A path of which nothing but its target is declared. `said`: what its own fields say of drifts.
fn declared(
    path: &Spanned<PathBuf>,
    policy: &Arc<ActivePolicy>,
    target: Target,
    asked: Option<Mode>,
    said: (Option<Mode>, Severity),
) -> Declared {
    Declared {
        path: path.value.clone(),
        through: None,
        policy: policy.clone(),
        target,
        mode: None,
        uid: None,
        gid: None,
        attributes: Attributes::default(),
        // The command line counts more than the path's own word, that more than its policy's.
        on_drift: asked.or(said.0).unwrap_or(policy.mode),
        severity: said.1,
        after_heal: Vec::new(),
        at: path.at.position(),
    }
}

/// The id, if there is a principal; `None` where it has a problem.
fn id(
    accounts: &mut Accounts<'_>,
    principal: &Option<Spanned<Principal>>,
    example: &str,
    basis: &mut Basis,
    problems: &mut Problems,
) -> Option<Option<u32>> {
    match principal
        .as_ref()
        .map(|principal| accounts.id(principal, example, basis))
    {
        None => Some(None),
        Some(Ok(id)) => Some(Some(id)),
        Some(Err(problem)) => {
            problems.push(problem);
            None
        }
    }
}
