//! Why there is no snapshot.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use drift_common::{escape, policy::Problems};

/// Why policies were not taken. Displayed for the people of this node, with all there is to say and the lines it is said of.
#[derive(Debug, thiserror::Error)]
pub enum Rejected {
    #[error("cannot read the policy folder {}: {source}{}", escape::path(.folder), remedy(.source))]
    FolderUnreadable { folder: PathBuf, source: io::Error },
    #[error("{}", no_policies(.folder, *.files))]
    NoPolicies {
        folder: PathBuf,
        /// Policy files that were there, all empty.
        files: usize,
    },
    #[error(
        "the policy folder {} kept changing while it was read: it will be read again when it rests",
        escape::path(.folder)
    )]
    Changing { folder: PathBuf },
    /// A version that was seen before is another one now.
    #[error("{sentence}")]
    VersionChanged { sentence: String },
    /// The folder may be good, and which of its versions are active is not known.
    #[error(
        "{sentence}: nothing changes before that is known; it is tried again every few seconds"
    )]
    HoldsUnreadable { sentence: String },
    #[error("{problems}\n{}", summary(.problems, *.files))]
    Invalid {
        problems: Problems,
        /// Policy files there are, with problems or without.
        files: usize,
    },
}

impl Rejected {
    /// One of a closed set, for records and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::FolderUnreadable { .. } => "folder-unreadable",
            Self::NoPolicies { .. } => "no-policies",
            Self::Changing { .. } => "folder-changing",
            Self::VersionChanged { .. } => "version-changed",
            Self::HoldsUnreadable { .. } => "holds-unreadable",
            // Nothing else was wrong, or it would not have been asked.
            Self::Invalid { problems, .. } if problems.is_of_closure() => "dependency",
            Self::Invalid { .. } => "invalid",
        }
    }

    /// All that is wrong without the lines it is in, which may hold secrets: for logs that may leave the node.
    pub fn plain(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(move |f| match self {
            Self::Invalid { problems, files } => {
                write!(f, "{}\n{}", problems.lines(), summary(problems, *files))
            }
            Self::FolderUnreadable { .. }
            | Self::NoPolicies { .. }
            | Self::Changing { .. }
            | Self::VersionChanged { .. }
            | Self::HoldsUnreadable { .. } => write!(f, "{self}"),
        })
    }

    /// On one line: the first problem as `file:line:column: message` and how many more there are, or the sentence.
    pub fn one_line(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(move |f| match self {
            Self::Invalid { problems, .. } => write!(f, "{}", problems.one_line()),
            Self::FolderUnreadable { .. }
            | Self::NoPolicies { .. }
            | Self::Changing { .. }
            | Self::VersionChanged { .. }
            | Self::HoldsUnreadable { .. } => write!(f, "{self}"),
        })
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => ": create it, or name another one with --policies",
        io::ErrorKind::NotADirectory => ": name the folder that the policy files are in",
        io::ErrorKind::PermissionDenied => ": run as a user who may read it",
        _ => "",
    }
}

fn no_policies(folder: &Path, files: usize) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        let folder = escape::path(folder);
        match files {
            0 => write!(f, "no policy files (*.yaml, *.yml) in {folder}")?,
            1 => write!(f, "no policies in {folder}: its only policy file is empty")?,
            files => write!(
                f,
                "no policies in {folder}: its {files} policy files are empty"
            )?,
        }
        f.write_str(": put a Policy and a PolicyVersion there")
    })
}

/// How many problems there are in how many files.
fn summary(problems: &Problems, files: usize) -> String {
    let s = |count| if count == 1 { "" } else { "s" };
    let count = problems.len();
    format!(
        "{count} problem{} in {} of {files} file{}.",
        s(count),
        problems.files(),
        s(files)
    )
}
