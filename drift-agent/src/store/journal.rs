//! The journal: a change of versions that is under way, so that after a crash it is dropped or brought to its end.
//!
//! One file. It is there from the intent to the end; that it says [`Stage::Committed`] is the one point at which everything changes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Holding, Store, StoreError, folder::Folder, sealed, sealed::path_form};

const NAME: &str = "journal";
const MAGIC: &str = "drift-journal-1";

/// Bytes of the file, at most.
const MOST: u64 = 256 << 20;

/// What is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    pub stage: Stage,
    pub moves: Vec<Moved>,
    /// What is held from the commit on.
    pub holding: Holding,
    /// Directories that are made for it, each after the one it is in.
    pub directories: Vec<Directory>,
    /// In the order in which they take place.
    pub entries: Vec<Entry>,
    /// What makes programs take it in, as it is shown. Done after all of it, by who has begun it.
    #[serde(default)]
    pub after: Vec<String>,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Nothing has changed: what is staged is dropped.
    Intended,
    /// All is staged and on the disk: it is brought to its end.
    Committed,
}

/// One policy's change of versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub policy: String,
    pub from: String,
    pub to: String,
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    #[serde(with = "path_form")]
    pub path: PathBuf,
}

/// What takes place at one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(with = "path_form")]
    pub path: PathBuf,
    pub change: Change,
}

/// Each of these can be done again without harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// What is staged under the temporary name takes the path's: a file with this digest.
    File { digest: String, over: Over },
    /// What is staged under the temporary name, with this digest, is written into the file that is there. `seen`: only where that has this digest. `alone`: only
    /// where it has no other name.
    Into {
        digest: String,
        seen: Option<String>,
        alone: bool,
    },
    /// A symbolic link.
    Link,
    /// A directory, in place of something that is none.
    Directory,
    /// A directory that is there gets these attributes.
    Attributes {
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    /// What is there goes; of directories, an empty one.
    Remove,
}

/// What a file takes the place of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Over {
    /// Whatever stands there.
    Anything,
    /// Nothing: what somebody else has put there meanwhile stays.
    Nothing,
    /// A file with this digest, of which it was made: what somebody else has written to it meanwhile stays.
    Text { digest: String },
}

fn read(folder: &Folder) -> Result<Option<Journal>, StoreError> {
    let unusable = |why| StoreError::Journal { why };
    match folder.read(NAME, MOST) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => sealed::open(MAGIC, &bytes).map(Some).map_err(unusable),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(unusable(error.to_string()))
        }
        Err(error) => Err(StoreError::io("read the journal")(error)),
    }
}

/// What is held by a change of versions that is decided, and not at its end. One that cannot be believed decides nothing.
pub(super) fn decided(folder: &Folder) -> Result<Option<Holding>, StoreError> {
    match read(folder) {
        Ok(Some(Journal {
            stage: Stage::Committed,
            moves,
            holding,
            ..
        })) if !moves.is_empty() => Ok(Some(holding)),
        Ok(_) | Err(StoreError::Journal { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Store {
    /// What is under way, if anything is.
    ///
    /// # Errors
    /// [`StoreError::Journal`]: it cannot be believed.
    pub fn journal(&self) -> Result<Option<Journal>, StoreError> {
        read(&self.folder)
    }

    /// Writes it: it lasts when it returns. Where it fails nobody knows which of the two a power cut would leave.
    pub fn write_journal(&self, journal: &Journal) -> Result<(), StoreError> {
        let io = StoreError::io("write the journal");
        let bytes = sealed::seal(MAGIC, journal).map_err(|error| io(error.into()))?;
        self.folder.write(NAME, &bytes).map_err(io)
    }

    /// Nothing is under way any more.
    pub fn end_journal(&self) -> Result<(), StoreError> {
        let end = || {
            self.folder.remove(NAME)?;
            self.folder.sync()
        };
        end().map_err(StoreError::io("remove the journal"))
    }
}
