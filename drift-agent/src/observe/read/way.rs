//! The way to a declared path: through the links that are declared on it and no others.
//!
//! Where the way leads is known from the declaration. So no link is ever followed: what is declared of each is compared with what it holds, and the
//! directory at the end is reached as any other, straight.

use std::{os::fd::OwnedFd, os::unix::ffi::OsStrExt, path::Path};

use rustix::{
    fs::{OFlags, readlinkat},
    io::Errno,
};

use super::Host;
use crate::declare::{Declared, Link, Target};

impl Host {
    /// The directory that a declared path is in. [`Errno::LOOP`]: a link stands in its way that is not declared, or a declared one is not as it must be.
    pub fn parent(&self, declared: &Declared, flags: OFlags) -> Result<OwnedFd, Errno> {
        let real = declared.real();
        self.reach(declared, real.parent().unwrap_or(real), flags)
    }

    /// What stands at a declared path, where that is a directory.
    pub fn inside(&self, declared: &Declared, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.reach(declared, declared.real(), flags)
    }

    fn reach(&self, declared: &Declared, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.links_hold(declared)?;
        // The last to be opened: the kernel half tells what was opened last.
        self.directory(path, flags)
    }

    /// Whether each declared link on the way holds what it must.
    pub fn links_hold(&self, declared: &Declared) -> Result<(), Errno> {
        let mut links = declared.links().iter();
        links.try_for_each(|link| self.link_holds(link, declared))
    }

    /// Whether one of the declared links on the way holds what it must.
    pub fn link_holds(&self, link: &Link, declared: &Declared) -> Result<(), Errno> {
        let (Some(parent), Some(name)) = (link.path.parent(), link.path.file_name()) else {
            return Err(Errno::LOOP); // the root directory is no link
        };
        let found = self
            .directory(parent, OFlags::PATH)
            .and_then(|parent| readlinkat(&parent, name, Vec::new()));
        match found {
            Ok(found) if found.as_bytes() == link.target.as_bytes() => Ok(()),
            // Another one, or no link.
            Ok(_) | Err(Errno::INVAL) => Err(Errno::LOOP),
            // Without it there is no way to the path, which healing cannot make. Where nothing may be, nothing is.
            Err(Errno::NOENT) if declared.target != Target::Absent => Err(Errno::LOOP),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
