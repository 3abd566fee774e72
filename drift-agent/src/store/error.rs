//! What can go wrong with the store.

use std::{fmt, io, path::PathBuf};

use blake3::Hash;
use drift_common::escape;

use super::Seen;

/// A version that is known with another digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// As it is now.
    pub seen: Seen,
    /// The digest it had.
    pub known: Hash,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(
        "cannot use the state folder {}: {source}; make it writable, or name another with --state DIR",
        escape::path(.path)
    )]
    Folder { path: PathBuf, source: io::Error },
    #[error(
        "cannot read the history in {}: {source}{}",
        escape::path(.path),
        denied(.source)
    )]
    History { path: PathBuf, source: io::Error },
    #[error("cannot read the state folder: {source}{}", denied(.source))]
    Peek { source: io::Error },
    #[error(
        "another process has the state database open: stop it, or name another folder with --state DIR"
    )]
    Busy,
    #[error(
        "the state database cannot be used, and neither can a new one ({why}): name another folder with --state DIR"
    )]
    Unusable { why: String },
    #[error("cannot {step} in the state folder: {source}")]
    Io {
        step: &'static str,
        source: io::Error,
    },
    #[error("the state database failed: {0}")]
    Database(#[source] Box<redb::Error>),
    #[error("there is no blob {digest} in the store")]
    Missing { digest: Hash },
    #[error(
        "the blob {digest} was corrupt ({why}) and was removed: it is written again when it is declared again"
    )]
    Corrupt { digest: Hash, why: String },
    #[error("a content of {size} bytes is larger than any blob may be ({} MiB)", super::MOST_BLOB >> 20)]
    TooLarge { size: u64 },
    #[error(
        "no room in the store for {needed} bytes: {used} of its {quota} bytes are taken by what active and last good versions need; \
         allow it more, or declare less"
    )]
    Quota { needed: u64, used: u64, quota: u64 },
    #[error("{}", versions_changed(.changed))]
    VersionChanged { changed: Vec<Changed> },
    #[error("the saved last good policies cannot be used: {why}")]
    LastGood { why: String },
}

impl StoreError {
    /// One of a closed set, for records and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Folder { .. } => "state-folder",
            Self::History { .. } => "history",
            Self::Peek { .. } => "state-unreadable",
            Self::Busy => "state-busy",
            Self::Unusable { .. } => "state-unusable",
            Self::Io { .. } => "state-io",
            Self::Database(_) => "state-database",
            Self::Missing { .. } => "blob-missing",
            Self::Corrupt { .. } => "blob-corrupt",
            Self::TooLarge { .. } => "blob-too-large",
            Self::Quota { .. } => "store-quota",
            Self::VersionChanged { .. } => "version-changed",
            Self::LastGood { .. } => "last-good-unusable",
        }
    }

    /// For `map_err`: which step of ours it was.
    pub(super) fn io(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { step, source }
    }
}

macro_rules! from_redb {
    ($($error:ty),*) => {$(
        impl From<$error> for StoreError {
            fn from(error: $error) -> Self {
                Self::Database(Box::new(error.into()))
            }
        }
    )*};
}

from_redb!(
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError
);

fn denied(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; it is for root, or for who runs the agent",
        _ => "",
    }
}

fn versions_changed(changed: &[Changed]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        for (index, Changed { seen, known }) in changed.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            let (policy, version) = (escape::name(&seen.policy), escape::name(&seen.version));
            write!(
                f,
                "version {version} of the policy {policy} was {known} and is {} now",
                seen.digest
            )?;
        }
        f.write_str(
            ": a version never changes. Give what is new a new version number and make that the active one, or put the old content back",
        )
    })
}
