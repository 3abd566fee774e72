//! Opening the database. It is a cache: one that cannot be used is moved aside and made anew, and that is said.

use std::io;

use redb::{
    Builder, Database, DatabaseError, ReadableTable, StorageError, TableDefinition,
    backends::{FileBackend, InMemoryBackend},
};

use super::{
    ACTIVE, GOOD, RETAINED, VERSIONS,
    brake::{ACTIVATING, BRAKES, CONTESTED, SPENT},
};
use crate::store::{StoreError, folder::Folder};

pub(super) const NAME: &str = "state.redb";

/// Holds how many times opening was begun and not ended. redb checks what it opens, but bytes that nobody has thought of could still end
/// the process, at this start and at every one after it.
const OPENING: &str = "state.redb.opening";

/// So often the end may have had another cause: a kill, a power cut.
const MOST_UNENDED: u8 = 2;

/// Databases that were moved aside and are kept.
const MOST_ASIDE: u64 = 3;

const FORMAT: u64 = 1;
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

/// Bytes of memory for pages of the database.
const CACHE: usize = 4 << 20;

/// Bytes of the file from which on it is worth the time to make it smaller.
const WORTH_COMPACTING: u64 = 32 << 20;

/// Why there is no database.
enum Refused {
    /// Its bytes are not what drift writes.
    Unusable(String),
    /// They may be, but the system does not let them be read or written.
    Failed(StoreError),
}

pub(super) fn open(folder: &Folder, notes: &mut Vec<String>) -> Result<Database, StoreError> {
    let unended = match folder.read(OPENING, 16) {
        Ok(Some(text)) => text.first().map_or(0, |digit| digit.saturating_sub(b'0')),
        Ok(None) => 0,
        Err(_) => MOST_UNENDED, // not what is written there; said below
    };
    if unended >= MOST_UNENDED {
        aside(folder, "the agent ended while it was opened", notes)?;
    }
    let count = if unended >= MOST_UNENDED {
        1
    } else {
        unended + 1
    };
    folder
        .write(OPENING, &[b'0' + count])
        .map_err(StoreError::io("write in the state folder"))?;
    let database = match attempt(folder) {
        Ok(database) => database,
        Err(Refused::Failed(error)) => return Err(error),
        Err(Refused::Unusable(why)) => {
            aside(folder, &why, notes)?;
            match attempt(folder) {
                Ok(database) => database,
                Err(Refused::Failed(error)) => return Err(error),
                Err(Refused::Unusable(why)) => return Err(StoreError::Unusable { why }),
            }
        }
    };
    folder
        .remove(OPENING)
        .map_err(StoreError::io("write in the state folder"))?;
    Ok(database)
}

pub(super) fn in_memory() -> Result<Database, StoreError> {
    let refused = |refused| match refused {
        Refused::Failed(error) => error,
        Refused::Unusable(why) => StoreError::Unusable { why },
    };
    let database = Builder::new()
        .set_cache_size(CACHE)
        .create_with_backend(InMemoryBackend::new())
        .map_err(|error| refused(of_database(error)))?;
    prepare(&database).map_err(refused)?;
    Ok(database)
}

fn attempt(folder: &Folder) -> Result<Database, Refused> {
    let file = folder.file_to_change(NAME).map_err(of_io)?;
    let size = file.metadata().map_err(of_io)?.len();
    // The name of a new database must last as long as what will be committed to it.
    folder.sync().map_err(of_io)?;
    let mut database = Builder::new()
        .set_cache_size(CACHE)
        .set_check_integrity_on_open(true)
        .create_with_backend(FileBackend::new(file).map_err(of_database)?)
        .map_err(of_database)?;
    prepare(&database)?;
    if size > WORTH_COMPACTING {
        // A database that is larger than need be is still a good one.
        if let Err(error) = database.compact() {
            log::warn!("{NAME} could not be made smaller ({error})");
        }
    }
    Ok(database)
}

/// Makes every table, and with that proves that each is of the type it should be.
fn prepare(database: &Database) -> Result<(), Refused> {
    let written = (|| -> Result<Option<u64>, redb::Error> {
        let write = database.begin_write()?;
        let format = {
            let mut meta = write.open_table(META)?;
            let format = meta.get("format")?.map(|row| row.value());
            if format.is_none() {
                meta.insert("format", FORMAT)?;
            }
            format
        };
        if format.is_some_and(|format| format != FORMAT) {
            write.abort()?;
            return Ok(format);
        }
        write.open_table(VERSIONS)?;
        write.open_table(RETAINED)?;
        write.open_table(ACTIVE)?;
        write.open_table(GOOD)?;
        write.open_table(BRAKES)?;
        write.open_table(CONTESTED)?;
        write.open_table(SPENT)?;
        write.open_table(ACTIVATING)?;
        write.commit()?;
        Ok(format)
    })();
    match written {
        Ok(None | Some(FORMAT)) => Ok(()),
        Ok(Some(format)) => Err(Refused::Unusable(format!(
            "it is of another drift-agent: format {format}, not {FORMAT}"
        ))),
        Err(redb::Error::Io(error)) => Err(of_io(error)),
        Err(error) => Err(Refused::Unusable(error.to_string())),
    }
}

/// Moves the database out of the way, and the oldest of those that were moved before out of the folder.
fn aside(folder: &Folder, why: &str, notes: &mut Vec<String>) -> Result<(), StoreError> {
    let io = StoreError::io("move a corrupt database aside");
    let prefix = format!("{NAME}.corrupt-");
    let mut numbers: Vec<u64> = folder
        .names()
        .map_err(&io)?
        .iter()
        .filter_map(|name| name.to_str()?.strip_prefix(&prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let next = numbers.last().map_or(1, |last| last.saturating_add(1));
    let name = format!("{prefix}{next}");
    let is_there = folder.stat(NAME.as_ref()).map_err(&io)?.is_some();
    if is_there {
        folder.rename(NAME, &name).map_err(&io)?;
        notes.push(format!(
            "the state database could not be used ({why}): it was moved to {name}, and a new one was begun. Forgotten: which versions were \
             seen, and back-off of heals. Nothing to do; {name} may be deleted"
        ));
    }
    let most = usize::try_from(MOST_ASIDE).unwrap_or(usize::MAX);
    let kept = most.saturating_sub(usize::from(is_there));
    for number in numbers.iter().rev().skip(kept) {
        folder.remove(&format!("{prefix}{number}")).map_err(&io)?;
    }
    Ok(())
}

fn of_database(error: DatabaseError) -> Refused {
    match error {
        DatabaseError::DatabaseAlreadyOpen => Refused::Failed(StoreError::Busy),
        DatabaseError::Storage(StorageError::Io(error)) => of_io(error),
        error => Refused::Unusable(error.to_string()),
    }
}

/// What redb and the folder say of bytes that are not as they should be, and what a broken disk says. All else is the system's.
fn of_io(error: io::Error) -> Refused {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    let is_broken = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
    match error.kind() {
        InvalidData | InvalidInput | UnexpectedEof => Refused::Unusable(error.to_string()),
        _ if is_broken => Refused::Unusable(error.to_string()),
        _ => Refused::Failed(StoreError::io("open the state database")(error)),
    }
}
