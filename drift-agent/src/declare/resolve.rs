//! Active versions to a snapshot: names become ids, files become bytes.

mod path;

use std::{path::Path, sync::Arc};

use drift_common::{
    escape,
    policy::{
        Compare, Content as Said, FileSpec, Guard, Heed, Lineage, MAX_CONTENT, Mode, PolicyVersion,
        Problems, Spanned, order, without_final_newline,
    },
};
use jiff::tz::TimeZone;

use super::{
    ActivePolicy, Basis, Blobs, Body, Identified, Identity, Keep, Snapshot, Terms,
    accounts::{Accounts, GROUPS, USERS},
    belongings::belongings,
    content::{Bytes, Contents},
    folder::Folder,
};
use crate::compare::{
    structured::{Meaning, Rules},
    text::{TextRules, normal},
};

/// What is kept of a content.
struct Held {
    bytes: Option<Body>,
    size: Option<u64>,
    digest: blake3::Hash,
    /// Without its final line end, where that does not count.
    body: Option<blake3::Hash>,
    lines: Option<blake3::Hash>,
    /// What it says, where it is compared by that.
    meaning: Option<Box<Meaning>>,
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
                guard: self.guard(lineage.policy.guard.clone()),
                evidence: lineage.policy.evidence,
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
            let absent = version.absent.iter();
            let absent = absent.map(|absent| Some(path::absent(absent, &policy, mode)));
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

    /// What is said of healing is of no use to who writes nothing.
    fn guard(&mut self, mut guard: Guard) -> Guard {
        for window in &guard.windows {
            let zone = &window.zone;
            if let Err(error) = TimeZone::get(&zone.value) {
                let message = format!(
                    "this node does not know the time zone {}",
                    escape::name(&zone.value)
                );
                log::debug!("{error}");
                self.problems.push(zone.at.problem(message).help(
                    "see `timedatectl list-timezones`; time zones are in /usr/share/zoneinfo (Debian's package tzdata), and UTC is known everywhere",
                ));
            }
        }
        if self.keep == Keep::Digests {
            guard.windows.clear();
        }
        guard
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
        let (body, digest) = self.content(&file.content)?;
        let (keeps, size) = (self.keep == Keep::Bytes || !is_exact, body.size());
        let Some(bytes) = body.held() else {
            if !is_exact || ignores_end || ignores_lines {
                let message = format!(
                    "the content has {size} bytes; what is larger than {} MiB can only be compared byte for byte",
                    MAX_CONTENT >> 20
                );
                let help = "remove `compare`, `finalNewline` and `lineEndings`";
                let problem = file.content.at.problem(message).help(help);
                self.problems.push(problem);
                return None;
            }
            return Some(Held {
                size: Some(size),
                digest,
                body: None,
                lines: None,
                meaning: None,
                bytes: keeps.then_some(body),
            });
        };
        let meaning = self.meaning(file, bytes)?;
        Some(Held {
            size: Some(size),
            digest,
            body: ignores_end.then(|| blake3::hash(without_final_newline(bytes))),
            lines: ignores_lines.then(|| {
                let rules = TextRules {
                    final_newline: file.final_newline,
                    line_endings: file.line_endings,
                };
                blake3::hash(&normal(bytes, rules))
            }),
            meaning,
            bytes: keeps.then_some(body),
        })
    }

    /// What a file's declared content says, where it is compared by that. `None`: there is a problem.
    fn meaning(&mut self, file: &FileSpec, bytes: &[u8]) -> Option<Option<Box<Meaning>>> {
        let Compare::Structured(said) = &file.compare.value else {
            return Some(None);
        };
        let problem = match Rules::of(said, file.final_newline, file.line_endings) {
            Err(why) => file.compare.at.problem(why.to_string()),
            Ok(rules) => match Meaning::of(said.format, rules, bytes) {
                Ok(meaning) => return Some(Some(Box::new(meaning))),
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

    fn content(&mut self, content: &Spanned<Said>) -> Option<Bytes> {
        let bytes = match &content.value {
            Said::Inline(text) => Ok((
                Body::Held(text.clone().into()),
                blake3::hash(text.as_bytes()),
            )),
            Said::Packed(packed) => self.contents.unpacked(packed),
            Said::File(path) => self.contents.get(path, self.basis),
            Said::Blob(digest) => self.contents.blob(digest, self.basis),
            Said::Kept(kept) => Err(format!(
                "a {} is in a cluster, and this is a file: write the content here, or name a `file`",
                kept.by.kind()
            )),
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

/// The digests of contents that are all there.
fn digests(contents: &[Option<Held>]) -> Option<Vec<blake3::Hash>> {
    let digests = contents
        .iter()
        .map(|content| content.as_ref().map(|content| content.digest));
    digests.collect()
}
