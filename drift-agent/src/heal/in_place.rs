//! Written into the file that is there, where a policy says so: one that is mounted by itself has no place that another could take, and who has it open keeps it.
//!
//! Who reads meanwhile may see some of each. That it does not stay so is the journal's: all that is to be written is staged beside the file, and on the disk, before
//! the first byte changes; after a kill or a power cut it is written once more.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use rustix::{
    fs::{
        AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, ResolveFlags, fallocate, fchmod,
        flock, fstat, fsync, openat2, unlinkat,
    },
    io::Errno,
};

use crate::{
    declare::{Content, Declared, Evidence, HardLinks, Target},
    observe::{Host, Observed, Stat},
    report::FileType,
    store::{Holding, Store},
};

use super::{
    action::Action,
    edit,
    execute::{HealError, Healed, carry_out, is_here_alone, set_owner},
    replace,
    transaction::{self, Applied, Source, Step, Transaction, TransactionError},
};

/// Whether what is declared goes into the file that stands there.
#[must_use]
pub fn is_in_place(declared: &Declared, stands: Option<&Stat>) -> bool {
    declared.target.is_in_place() && stands.is_some_and(|stat| stat.file_type == FileType::File)
}

/// Does what an action says, in the way that the policy says, and moves files that give way to where they are kept, where it says that. Blocking: writes and
/// syncs. Of those that share a state folder, one at a time writes in place.
///
/// # Errors
/// As [`super::execute`].
pub fn put_back(
    host: &Host,
    store: &Store,
    declared: &Arc<Declared>,
    action: &Action,
    observed: &Observed,
) -> Result<Healed, HealError> {
    let source = match (action, &declared.target) {
        _ if !is_in_place(declared, observed.stat.as_ref()) => None,
        (Action::Replace, _) => Some(Source::Declared),
        (Action::Edit, Target::File(content)) => {
            Some(Source::There(edit::edited(observed, content)?))
        }
        _ => None,
    };
    let Some(source) = source else {
        let keep = (declared.policy.evidence == Evidence::Inode).then_some(store);
        return carry_out(host, declared, action, observed.stat.as_ref(), keep);
    };
    let journal = |source: io::Error| HealError::Io {
        step: "write the journal",
        source,
    };
    let transaction = Transaction {
        moves: Vec::new(),
        holding: Holding::default(),
        steps: vec![Step::Put {
            declared: Declared::straight(declared),
            like: observed.stat,
            source,
        }],
        after: Vec::new(),
    };
    let finished = transaction::run(host, store, transaction).map_err(|error| match error {
        TransactionError::Stage { source, .. } => source,
        TransactionError::Earlier(why) => HealError::Earlier(why),
        error @ (TransactionError::Journal(_)
        | TransactionError::Doubt(_)
        | TransactionError::Aborted) => journal(io::Error::other(error.to_string())),
    })?;
    match finished.left.into_iter().chain(finished.given_up).next() {
        Some((_, error)) => Err(error),
        None => Ok(Healed {
            notes: finished.notes,
        }),
    }
}

/// Before the commit: the file that is there can be written to, and has room for so many bytes. Nothing is written.
pub(super) fn can_take_in(
    dir: &OwnedFd,
    name: &OsString,
    content: &Content,
    length: u64,
) -> Result<(), HealError> {
    let file = open(dir, name, OFlags::RDWR).map_err(HealError::at("open the file"))?;
    if is_alone(content) && !is_here_alone(dir, name, file.as_fd())? {
        return Err(HealError::OtherNames);
    }
    if length == 0 {
        return Ok(());
    }
    match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, length) {
        // Not every file system can promise it.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(HealError::at("make room in the file")(error)),
    }
}

/// Whether it may have no other name: what is written would be there under that, too.
pub(super) fn is_alone(content: &Content) -> bool {
    content.hard_links == HardLinks::Report
}

/// Into what alone it is written.
#[derive(Clone, Copy)]
pub(super) struct Only<'j> {
    /// A file that holds this. Not asked where it may have been begun before, and some of it stands there.
    pub(super) seen: Option<&'j str>,
    /// See [`is_alone`].
    pub(super) alone: bool,
}

/// After the commit: what is staged is written into the file that has the name, and goes.
pub(super) fn take_in(
    dir: &OwnedFd,
    temporary: &OsString,
    name: &OsString,
    digest: &str,
    only: Only<'_>,
) -> Result<Applied, HealError> {
    let mut staged = open(dir, temporary, OFlags::RDONLY).map_err(HealError::at(STAGED))?;
    if hash(&mut staged, STAGED)? != digest {
        // Whoever put it there does not decide what is declared.
        return Applied::given_up(dir, temporary, HealError::ReadBack);
    }
    let mut file = match open(dir, name, OFlags::RDWR) {
        Ok(file) => file,
        // Gone meanwhile: a new file takes nobody's place.
        Err(Errno::NOENT) => {
            return replace::take_name(dir, temporary, name).map(|()| Applied::All);
        }
        // Something else has come there: the look that follows says so.
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {
            return replace::remove_stale(dir, temporary).map(|()| Applied::All);
        }
        Err(error) => return Err(HealError::at("open the file")(error)),
    };
    // For those who ask for one. Whoever holds it does not keep what is declared away.
    let _locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
    if only.alone && !is_here_alone(dir, name, file.as_fd())? {
        return Applied::given_up(dir, temporary, HealError::OtherNames);
    }
    if let Some(seen) = only.seen
        && hash(&mut file, "read the file")? != seen
    {
        // Somebody has written to it since: the look that follows sees what.
        return replace::remove_stale(dir, temporary).map(|()| Applied::All);
    }
    // What is secret is not there before it is kept from others.
    let like = fstat(&staged).map_err(HealError::at(STAGED))?;
    set_owner(file.as_fd(), Some(like.st_uid), Some(like.st_gid))?;
    let mode = Mode::from_raw_mode(like.st_mode & 0o7777);
    fchmod(&file, mode).map_err(HealError::at("set the mode"))?;
    let failed = replace::io("write");
    copy(&mut staged, &mut file).map_err(&failed)?;
    // A write takes setuid and setgid away.
    fchmod(&file, mode).map_err(HealError::at("set the mode"))?;
    fsync(&file).map_err(HealError::at("sync the file"))?;
    if hash(&mut file, "read back")? != digest {
        return Err(HealError::ReadBack);
    }
    unlinkat(dir, temporary, AtFlags::empty()).map_err(HealError::at("remove what was staged"))?;
    Ok(Applied::All)
}

const STAGED: &str = "read what was staged";

/// A regular file; `LOOP` or `NXIO`: something else.
fn open(dir: &OwnedFd, name: &OsString, flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat2(dir, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let kind = rustix::fs::FileType::from_raw_mode(fstat(&file)?.st_mode);
    if kind != rustix::fs::FileType::RegularFile {
        return Err(Errno::NXIO);
    }
    Ok(File::from(file))
}

/// BLAKE3, from the beginning.
fn hash(file: &mut File, step: &'static str) -> Result<String, HealError> {
    let mut hasher = blake3::Hasher::new();
    file.rewind()
        .and_then(|()| hasher.update_reader(file).map(drop))
        .map_err(replace::io(step))?;
    Ok(hasher.finalize().to_string())
}

/// All of one file over the other, and no more.
fn copy(from: &mut File, to: &mut File) -> io::Result<()> {
    from.rewind()?;
    to.rewind()?;
    let mut part = vec![0; 64 << 10];
    let mut length = 0;
    loop {
        match from.read(&mut part) {
            Ok(0) => break,
            Ok(read) => {
                to.write_all(&part[..read])?;
                length += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    to.set_len(length)
}
