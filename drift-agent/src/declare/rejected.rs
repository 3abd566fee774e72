//! Why there is no snapshot.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use drift_common::{escape, policy::Problems};

/// Why policies were not taken. Displayed for people, with all there is to say.
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
    #[error("{}", Invalid(.problems, *.files))]
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
            Self::Invalid { .. } => "invalid",
        }
    }

    /// On one line: the first problem as `file:line:column: message` and how many more there are, or the sentence.
    pub fn one_line(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(move |f| match self {
            Self::Invalid { problems, .. } => write!(f, "{}", problems.one_line()),
            Self::FolderUnreadable { .. } | Self::NoPolicies { .. } | Self::Changing { .. } => {
                write!(f, "{self}")
            }
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

struct Invalid<'r>(&'r Problems, usize);

/// All problems, then how many there are in how many files.
impl fmt::Display for Invalid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(problems, files) = self;
        let count = problems.len();
        let s = if count == 1 { "" } else { "s" };
        let files_s = if *files == 1 { "" } else { "s" };
        write!(
            f,
            "{problems}\n{count} problem{s} in {} of {files} file{files_s}.",
            problems.files()
        )
    }
}
