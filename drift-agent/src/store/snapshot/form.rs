//! How a declaration is written down. Every field of it is named here, so that a new one cannot be forgotten.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use blake3::Hash;
use serde::{Deserialize, Serialize};

use super::Saved;
use crate::{
    declare::{ActivePolicy, Backoff, Declared, Mode, Position, Snapshot},
    store::StoreError,
};

/// Contents by their digests.
type Contents = BTreeMap<[u8; 32], Arc<[u8]>>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Form {
    folder: PathForm,
    pub(super) since: SystemTime,
    /// What the command line said in place of what the policies say.
    mode: Option<ModeForm>,
    policies: Vec<PolicyForm>,
    files: Vec<FileForm>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyForm {
    name: String,
    version: String,
    mode: ModeForm,
    first: Duration,
    factor: u32,
    cap: Duration,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileForm {
    path: PathForm,
    /// Which of the policies.
    policy: usize,
    digest: String,
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    at: PositionForm,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PositionForm {
    file: PathForm,
    line: u32,
    column: u32,
}

/// A path as text, where it is one.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum PathForm {
    Text(String),
    Bytes { base64: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModeForm {
    Observe,
    Heal,
}

impl Form {
    pub(super) fn of(
        folder: &Path,
        mode: Option<Mode>,
        snapshot: &Snapshot,
        since: SystemTime,
    ) -> Self {
        let Snapshot { files, policies } = snapshot;
        let index: BTreeMap<&str, usize> = policies
            .iter()
            .enumerate()
            .map(|(index, policy)| (policy.name.as_str(), index))
            .collect();
        Self {
            folder: folder.into(),
            since,
            mode: mode.map(ModeForm::from),
            policies: policies.iter().map(|policy| policy_form(policy)).collect(),
            files: files
                .iter()
                .map(|declared| {
                    // Every file's policy is among the snapshot's; one that were not would be refused when it is read.
                    let policy = index.get(declared.policy.name.as_str()).copied();
                    file_form(declared, policy.unwrap_or(usize::MAX))
                })
                .collect(),
        }
    }

    pub(super) fn is_from(&self, folder: &Path) -> bool {
        self.folder == folder.into()
    }

    /// Whether both say the same, whenever they were declared.
    pub(super) fn is_of_the_same(&self, other: &Self) -> bool {
        let Self {
            folder,
            since: _,
            mode,
            policies,
            files,
        } = self;
        *folder == other.folder
            && *mode == other.mode
            && *policies == other.policies
            && *files == other.files
    }

    /// The digests of all contents, each once.
    pub(super) fn contents(&self) -> Result<Vec<Hash>, StoreError> {
        let mut digests: Vec<&str> = self.files.iter().map(|file| &*file.digest).collect();
        digests.sort_unstable();
        digests.dedup();
        digests.into_iter().map(hash).collect()
    }

    /// The declaration, with its `contents`.
    pub(super) fn snapshot(
        &self,
        mode: Option<Mode>,
        contents: &Contents,
    ) -> Result<Saved, StoreError> {
        // A policy that only observes must not heal because the command line once said so.
        let forced = mode.or(self.mode.map(|_| Mode::Observe));
        let note = (mode.is_none() && self.mode.is_some()).then(|| {
            "they were declared under a --mode that is not given now, so they are only observed"
                .to_owned()
        });
        let policies: Vec<_> = self
            .policies
            .iter()
            .map(|policy| Arc::new(active_policy(policy, forced)))
            .collect();
        let files: Result<_, _> = self
            .files
            .iter()
            .map(|file| declared(file, &policies, contents).map(Arc::new))
            .collect();
        Ok(Saved {
            snapshot: Snapshot {
                files: files?,
                policies,
            },
            since: self.since,
            note,
        })
    }
}

fn policy_form(policy: &ActivePolicy) -> PolicyForm {
    let ActivePolicy {
        name,
        version,
        mode,
        backoff: Backoff { first, factor, cap },
    } = policy;
    PolicyForm {
        name: name.clone(),
        version: version.clone(),
        mode: (*mode).into(),
        first: *first,
        factor: *factor,
        cap: *cap,
    }
}

fn active_policy(form: &PolicyForm, forced: Option<Mode>) -> ActivePolicy {
    let PolicyForm {
        name,
        version,
        mode,
        first,
        factor,
        cap,
    } = form;
    ActivePolicy {
        name: name.clone(),
        version: version.clone(),
        mode: forced.unwrap_or((*mode).into()),
        backoff: Backoff {
            first: *first,
            factor: *factor,
            cap: *cap,
        },
    }
}

fn file_form(declared: &Declared, policy: usize) -> FileForm {
    let Declared {
        path,
        policy: _,
        content: _, // a blob
        digest,
        mode,
        uid,
        gid,
        at: Position { file, line, column },
    } = declared;
    FileForm {
        path: path.as_path().into(),
        policy,
        digest: digest.to_hex().to_string(),
        mode: *mode,
        uid: *uid,
        gid: *gid,
        at: PositionForm {
            file: (&**file).into(),
            line: *line,
            column: *column,
        },
    }
}

fn declared(
    form: &FileForm,
    policies: &[Arc<ActivePolicy>],
    contents: &Contents,
) -> Result<Declared, StoreError> {
    let FileForm {
        path,
        policy,
        digest,
        mode,
        uid,
        gid,
        at,
    } = form;
    let digest = hash(digest)?;
    let content = contents.get(digest.as_bytes());
    Ok(Declared {
        path: path.path()?,
        policy: policies
            .get(*policy)
            .ok_or_else(|| unusable("a file is of no policy"))?
            .clone(),
        content: content.ok_or(StoreError::Missing { digest })?.clone(),
        digest,
        mode: *mode,
        uid: *uid,
        gid: *gid,
        at: Position {
            file: at.file.path()?.into(),
            line: at.line,
            column: at.column,
        },
    })
}

fn hash(hex: &str) -> Result<Hash, StoreError> {
    Hash::from_hex(hex).map_err(|_| unusable("a digest is none"))
}

fn unusable(why: &str) -> StoreError {
    StoreError::Snapshot {
        why: why.to_owned(),
    }
}

impl From<&Path> for PathForm {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes {
                base64: STANDARD.encode(path.as_os_str().as_bytes()),
            },
        }
    }
}

impl PathForm {
    fn path(&self) -> Result<PathBuf, StoreError> {
        match self {
            Self::Text(text) => Ok(text.into()),
            Self::Bytes { base64 } => STANDARD
                .decode(base64)
                .map(|bytes| OsString::from_vec(bytes).into())
                .map_err(|_| unusable("a path is none")),
        }
    }
}

impl From<Mode> for ModeForm {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Observe => Self::Observe,
            Mode::Heal => Self::Heal,
        }
    }
}

impl From<ModeForm> for Mode {
    fn from(form: ModeForm) -> Self {
        match form {
            ModeForm::Observe => Self::Observe,
            ModeForm::Heal => Self::Heal,
        }
    }
}
