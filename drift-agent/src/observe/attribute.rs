//! What an inode has beside its content, mode and owner, as far as it is declared.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsRawFd, BorrowedFd},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use drift_common::policy::MAX_VALUE;
use rustix::{
    fs::{fgetxattr, lgetxattr},
    io::Errno,
};

use crate::{confine::sees_trusted, declare::Attribute};

/// What stands in one extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    Value(Vec<u8>),
    Absent,
    /// The file system has no attributes of this kind.
    Unsupported,
    /// It cannot be read, and why.
    Failed(io::ErrorKind),
}

/// Whose attributes.
#[derive(Clone, Copy, Debug)]
pub enum Place<'p> {
    /// Of what this descriptor has open.
    Open(BorrowedFd<'p>),
    /// Of what has this name in this directory, itself: of what cannot be opened.
    Named(BorrowedFd<'p>, &'p OsStr),
}

impl Place<'_> {
    /// The path of a name in a directory that a descriptor holds: no link can lead elsewhere, as long as the last component is not followed.
    #[must_use]
    pub fn path(directory: BorrowedFd<'_>, name: &OsStr) -> PathBuf {
        let mut path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        path.push(OsStr::from_bytes(name.as_bytes()));
        path
    }

    fn get(&self, attribute: &Attribute, value: &mut [u8]) -> Result<usize, Errno> {
        match *self {
            Self::Open(file) => fgetxattr(file, &*attribute.name, value),
            Self::Named(directory, name) => {
                lgetxattr(Self::path(directory, name), &*attribute.name, value)
            }
        }
    }
}

/// What stands in one attribute.
pub fn read(place: Place<'_>, attribute: &Attribute) -> Reading {
    /// Most values are shorter.
    const SHORT: usize = 512;
    let mut value = vec![0; SHORT];
    let mut length = place.get(attribute, &mut value);
    if length == Err(Errno::RANGE) {
        value.resize(MAX_VALUE, 0);
        length = place.get(attribute, &mut value);
    }
    match length {
        Ok(length) => {
            value.truncate(length);
            Reading::Value(value)
        }
        // To everybody else the kernel says that there is none of these.
        Err(Errno::NODATA)
            if attribute.name.as_bytes().starts_with(b"trusted.") && !sees_trusted() =>
        {
            Reading::Failed(io::ErrorKind::PermissionDenied)
        }
        Err(Errno::NODATA) => Reading::Absent,
        Err(Errno::OPNOTSUPP) => Reading::Unsupported,
        Err(error) => Reading::Failed(io::Error::from(error).kind()),
    }
}

/// What stands in each of `attributes`, in their order.
pub fn read_all(place: Place<'_>, attributes: &[Attribute]) -> Vec<Reading> {
    attributes
        .iter()
        .map(|attribute| read(place, attribute))
        .collect()
}
