//! The policy folder: `*.yaml` and `*.yml` in it, not beneath it.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use drift_common::policy::{MAX_FILE, Problem, Problems, Source};
use rustix::{
    fd::OwnedFd,
    fs::{CWD, Mode, OFlags, openat},
};

use super::{Basis, Rejected};

/// Policy files in a folder, at most.
pub const MAX_FILES: usize = 4096;
/// Bytes of all policy files, at most.
pub const MAX_BYTES: usize = 64 << 20;

pub(super) struct Folder {
    /// Open, so that all is read from the same folder even when it is replaced.
    pub(super) dir: OwnedFd,
    /// By name.
    pub(super) sources: Vec<Arc<Source>>,
    /// How many policy files there are, those that could not be read included.
    pub(super) files: usize,
}

/// Reads the policy files: regular files and links to such; others are passed by. A file that cannot be read is a problem.
///
/// # Errors
/// The folder cannot be read, or has no policy files.
pub(super) fn read(basis: &mut Basis, problems: &mut Problems) -> Result<Folder, Rejected> {
    let path = basis.folder().to_owned();
    let unreadable = |source: io::Error| Rejected::FolderUnreadable {
        folder: path.clone(),
        source,
    };
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let dir = openat(CWD, &path, flags, Mode::empty()).map_err(|errno| unreadable(errno.into()));
    // Listed even so: that it cannot be is part of the basis.
    let names = basis.list().map_err(unreadable);
    let (dir, names) = (dir?, names?);
    let mut folder = Folder {
        dir,
        sources: Vec::new(),
        files: 0,
    };
    let mut bytes = 0;
    for name in &names {
        let file: Arc<Path> = path.join(name).into();
        let text = match read_file(&folder.dir, name, &file, basis) {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(error) => {
                folder.files += 1;
                problems.push(Problem::of_file(file, unreadable_file(&error)));
                continue;
            }
        };
        folder.files += 1;
        bytes += text.len();
        if folder.files > MAX_FILES || bytes > MAX_BYTES {
            let message = format!(
                "with this file, the policy folder has more than {MAX_FILES} files or {} MiB",
                MAX_BYTES >> 20
            );
            let help = "keep big contents in files of their own: `content: {file: …}`";
            problems.push(Problem::of_file(file, message).help(help));
            break;
        }
        basis.read(name.into(), text.as_slice().into());
        match Source::new(file, text) {
            Ok(source) => folder.sources.push(source),
            Err(problem) => problems.push(problem),
        }
    }
    if folder.files == 0 {
        return Err(Rejected::NoPolicies {
            folder: path,
            files: 0,
        });
    }
    Ok(folder)
}

/// `None`: neither a regular file nor a link to one.
fn read_file(
    dir: &OwnedFd,
    name: &OsStr,
    path: &Path,
    basis: &mut Basis,
) -> io::Result<Option<Vec<u8>>> {
    // Not blocking: a FIFO would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(dir, name, flags, Mode::empty())
        .map(File::from)
        .map_err(io::Error::from)
        .and_then(|file| file.metadata().map(|metadata| (file, metadata)));
    let (file, metadata) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // Looked at again by its path, which says the same or that something changed.
            basis.saw(path.to_owned(), std::fs::metadata(path).ok().as_ref());
            // A socket, or a device without a driver.
            let none = error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error());
            return if none { Ok(None) } else { Err(error) };
        }
    };
    basis.saw(path.to_owned(), Some(&metadata));
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut text)?;
    Ok(Some(text))
}

fn unreadable_file(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "this is a link to a file that is not there".to_owned(),
        _ => format!("this file cannot be read: {error}"),
    }
}
