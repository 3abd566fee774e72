//! Which policy folder was read by a restorer and was good: the last good policies are kept where the detector writes too, and are believed only so.
//!
//! An attribute of the state folder itself. Where it is in the `trusted` name space, setting it takes CAP_SYS_ADMIN, which the detector does not have; where
//! the restorer does not have it either it is a `user` one, and what keeps the detector from it is the filter of its system calls.

use std::{io, path::Path};

use blake3::Hash;
use rustix::{
    fs::{XattrFlags, getxattr, setxattr},
    io::Errno,
};

use crate::{confine::sees_trusted, declare::Sources, store::identity};

fn name() -> &'static str {
    if sees_trusted() {
        "trusted.drift.vouched"
    } else {
        "user.drift.vouched"
    }
}

/// What the agent has read and found good at its start, before it gives its rights up. Where everything is only watched no restorer has read it, and the first
/// one, which is started for a change of versions, must know what was declared before.
///
/// # Errors
/// It cannot be noted.
pub fn vouch_at_start(state: &Path, policies: &Path, sources: &Sources) -> io::Result<()> {
    vouch(state, &identity(policies, sources))
}

/// From now on this is what a restorer has found good.
pub(super) fn vouch(state: &Path, identity: &Hash) -> io::Result<()> {
    if is_vouched(state, identity)? {
        return Ok(());
    }
    Ok(setxattr(
        state,
        name(),
        identity.as_bytes(),
        XattrFlags::empty(),
    )?)
}

/// Whether it is.
pub(super) fn is_vouched(state: &Path, identity: &Hash) -> io::Result<bool> {
    // One byte more: a longer value is another one.
    let mut value = [0; 33];
    match getxattr(state, name(), &mut value[..]) {
        Ok(length) => Ok(value[..length] == *identity.as_bytes()),
        Err(Errno::NODATA | Errno::RANGE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_vouched_for_is_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (good, other) = (blake3::hash(b"good"), blake3::hash(b"other"));
        assert!(!is_vouched(folder.path(), &good).expect("read"));
        vouch(folder.path(), &good).expect("written");
        vouch(folder.path(), &good).expect("again");
        assert!(is_vouched(folder.path(), &good).expect("read"));
        assert!(!is_vouched(folder.path(), &other).expect("read"));
        vouch(folder.path(), &other).expect("written");
        assert!(!is_vouched(folder.path(), &good).expect("read"));
        setxattr(folder.path(), name(), &[0; 64], XattrFlags::empty()).expect("set");
        assert!(!is_vouched(folder.path(), &other).expect("too long"));
    }
}
