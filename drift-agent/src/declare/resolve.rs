//! Active versions to a snapshot: names become ids, files become bytes.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use drift_common::policy::{
    self, Compare, Content as Said, DirectorySpec, FileSpec, Heed, Lineage, MAX_SIZE, Mode,
    OnUnexpected, PolicyVersion, Principal, Problems, Severity, Spanned, SymlinkSpec, order,
    without_final_newline,
};

use crate::{
    compare::structured::{Meaning, Rules},
    compare::text::{TextRules, normal},
    heal::temporary_name,
};

use super::{
    ActivePolicy, Attributes, Basis, Blobs, Content, Declared, Exhaustive, Identified, Identity,
    Keep, Snapshot, Target, Terms, Through,
    accounts::{Accounts, GROUPS, USERS},
    attribute::Names,
    content::{Bytes, Contents},
    folder::Folder,
    through::places,
};

/// What is kept of a content.
struct Held {
    bytes: Option<Arc<[u8]>>,
    size: Option<u64>,
    digest: blake3::Hash,
    /// Without its final line end, where that does not count.
    body: Option<blake3::Hash>,
    lines: Option<blake3::Hash>,
    /// What it says, where it is compared by that.
    meaning: Option<Meaning>,
}

pub(super) struct Resolve<'a> {
    users: Accounts<'a>,
    groups: Accounts<'a>,
    contents: Contents<'a>,
    keep: Keep,
    basis: &'a mut Basis,
    problems: &'a mut Problems,
}

impl<'a> Resolve<'a> {
    pub(super) fn new(
        folder: &'a Folder,
        host_root: &'a Path,
        keep: Keep,
        basis: &'a mut Basis,
        problems: &'a mut Problems,
    ) -> Self {
        Self {
            users: Accounts::new(host_root, USERS),
            groups: Accounts::new(host_root, GROUPS),
            contents: Contents::new(&folder.dir),
            keep,
            basis,
            problems,
        }
    }

    /// A content that is named by its digest may come from there too.
    pub(super) fn with_blobs(self, blobs: Blobs<'a>) -> Self {
        Self {
            contents: self.contents.with_blobs(blobs),
            ..self
        }
    }

    /// What the active versions declare, without the files that have a problem. The lineages are valid: sorted by name, and no path twice.
    pub(super) fn snapshot(&mut self, lineages: Vec<Lineage>, mode: Option<Mode>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let mut ranks = vec![0; lineages.len()];
        for (rank, index) in order(&lineages).into_iter().enumerate() {
            ranks[index] = rank;
        }
        // Each goes when its files are taken over: what is declared is large, and need not be there twice.
        for (lineage, rank) in lineages.into_iter().zip(ranks) {
            let version = lineage.active();
            let contents = self.contents(version);
            // Without one of the contents there is a problem, and no snapshot to be named.
            let digest = digests(&contents).map(|contents| version.digest(&contents));
            let policy = Arc::new(ActivePolicy {
                name: lineage.policy.name.value.clone(),
                version: version.version.value.to_string(),
                digest: digest.unwrap_or_else(|| blake3::hash(b"")),
                mode: mode.unwrap_or(lineage.policy.mode),
                guard: lineage.policy.guard,
            });
            for (file, content) in version.files.iter().zip(contents) {
                let declared = self.file(file, content, &policy, mode);
                snapshot.files.extend(declared.map(Arc::new));
            }
            let links = version.symlinks.iter();
            let links = links
                .map(|link| self.symlink(link, &policy, mode))
                .collect::<Vec<_>>();
            let directories = version.directories.iter();
            let directories = directories.map(|directory| self.directory(directory, &policy, mode));
            let directories = directories.collect::<Vec<_>>();
            let absent = version.absent.iter().map(|absent| {
                let said = (absent.on_drift, absent.severity);
                Some(Declared {
                    through: absent.through.as_ref().map(Through::new),
                    ..declared(&absent.path, &policy, Target::Absent, mode, said)
                })
            });
            let others = links.into_iter().chain(directories).chain(absent);
            snapshot.files.extend(others.flatten().map(Arc::new));
            snapshot.policies.push(policy);
            snapshot.terms.push(Terms {
                said: lineage.policy.active_version.value.to_string(),
                rank,
                on_remove: lineage.policy.on_remove,
            });
        }
        snapshot.files.sort_by(|a, b| a.path.cmp(&b.path));
        belongings(&mut snapshot.files);
        snapshot
    }

    /// What each version is. Where a content is missing there is a problem.
    pub(super) fn identities(&mut self, lineages: Vec<Lineage>) -> Vec<Identified> {
        let mut identified = Vec::with_capacity(lineages.len());
        for lineage in lineages {
            let mut versions = Vec::with_capacity(lineage.versions.len());
            for version in &lineage.versions {
                let contents = digests(&self.contents(version));
                versions.extend(contents.map(|contents| Identity {
                    digest: version.digest(&contents),
                    contents,
                }));
            }
            identified.push(Identified { lineage, versions });
        }
        identified
    }

    /// The contents of a version's files, in their order; `None` for one that has a problem.
    fn contents(&mut self, version: &PolicyVersion) -> Vec<Option<Held>> {
        let files = version.files.iter();
        files.map(|file| self.held(file)).collect()
    }

    /// What is kept of a file's content.
    fn held(&mut self, file: &FileSpec) -> Option<Held> {
        let ignores_end = file.final_newline == Heed::Ignore;
        let ignores_lines = file.line_endings == Heed::Ignore;
        let is_exact = file.compare.value == Compare::Exact;
        if self.keep == Keep::Digests
            && is_exact
            && !ignores_end
            && !ignores_lines
            && let Said::Blob(digest) = file.content.value
        {
            return Some(Held {
                bytes: None,
                size: None,
                digest,
                body: None,
                lines: None,
                meaning: None,
            });
        }
        let (bytes, digest) = self.content(&file.content)?;
        let meaning = self.meaning(file, &bytes)?;
        Some(Held {
            size: Some(bytes.len() as u64),
            digest,
            body: ignores_end.then(|| blake3::hash(without_final_newline(&bytes))),
            lines: ignores_lines.then(|| {
                let rules = TextRules {
                    final_newline: file.final_newline,
                    line_endings: file.line_endings,
                };
                blake3::hash(&normal(&bytes, rules))
            }),
            meaning,
            bytes: (self.keep == Keep::Bytes || !is_exact).then_some(bytes),
        })
    }

    /// What a file's declared content says, where it is compared by that. `None`: there is a problem.
    fn meaning(&mut self, file: &FileSpec, bytes: &[u8]) -> Option<Option<Meaning>> {
        let Compare::Structured(said) = &file.compare.value else {
            return Some(None);
        };
        let problem = match Rules::of(said, file.final_newline, file.line_endings) {
            Err(why) => file.compare.at.problem(why.to_string()),
            Ok(rules) => match Meaning::of(said.format, rules, bytes) {
                Ok(meaning) => return Some(Some(meaning)),
                Err(why) => {
                    let format = said.format.name();
                    let message = format!("the content does not parse as {format}: {why}");
                    let help = "write it as the format has it, or compare it by its bytes: remove `compare`";
                    file.content.at.problem(message).help(help)
                }
            },
        };
        self.problems.push(problem);
        None
    }

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

    fn file(
        &mut self,
        file: &FileSpec,
        held: Option<Held>,
        policy: &Arc<ActivePolicy>,
        asked: Option<Mode>,
    ) -> Option<Declared> {
        // Nobody acts on `after_heal` yet: validation refuses it.
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
            compare,
            after_heal: _,
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
            lines,
            max_size: max_size.as_ref().map_or(MAX_SIZE, |most| most.value),
            hard_links: *hard_links,
            compare: compare.value.clone(),
            meaning,
            redact: *redact,
        });
        Some(Declared {
            mode: *mode,
            uid: uid?,
            gid: gid?,
            attributes: attributes?,
            through: through.as_ref().map(Through::new),
            ..declared(path, policy, target, asked, (*on_drift, *severity))
        })
    }

    fn symlink(
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
            through: through.as_ref().map(Through::new),
            ..declared(path, policy, target, asked, (*on_drift, *severity))
        })
    }

    fn directory(
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
            through: through.as_ref().map(Through::new),
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
        at: path.at.position(),
    }
}

/// Tells each exhaustive directory what belongs into it, whichever policy declares that: declared paths, by where they really are, and the links on
/// their ways.
pub(super) fn belongings(files: &mut [Arc<Declared>]) {
    let is_exhaustive = |file: &Arc<Declared>| matches!(file.target, Target::Directory(Some(_)));
    if !files.iter().any(is_exhaustive) {
        return;
    }
    let places = places(files).into_iter().map(Path::to_owned);
    let places: Vec<PathBuf> = places.collect();
    for directory in files.iter_mut().filter_map(Arc::get_mut) {
        let real = directory.real().to_owned();
        let Target::Directory(Some(exhaustive)) = &mut directory.target else {
            continue;
        };
        // What is beneath a path comes right after it.
        let beneath = &places[places.partition_point(|place| *place <= real)..];
        for place in beneath {
            let Ok(beneath) = place.strip_prefix(&real) else {
                break;
            };
            let Some(name) = beneath.iter().next() else {
                continue;
            };
            exhaustive.declared.insert(name.to_owned());
            exhaustive.declared.insert(temporary_name(&real.join(name)));
        }
    }
}

/// The digests of contents that are all there.
fn digests(contents: &[Option<Held>]) -> Option<Vec<blake3::Hash>> {
    let digests = contents
        .iter()
        .map(|content| content.as_ref().map(|content| content.digest));
    digests.collect()
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
