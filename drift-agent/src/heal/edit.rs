//! Files that are not written from the declared content alone: some of their keys belong to others, who may write to them at any time.

use std::fmt;

use crate::{
    compare::structured::EditError,
    declare::{Content, Declared},
    observe::{Found, Host, Observed, observe},
    store::Store,
};

use super::{
    execute::{HealError, Healed, attributes},
    replace::{Bytes, New, replace},
};

/// Puts the managed keys of what stands there to their declared values. What that is is read again: it is not what was judged any more where
/// somebody was faster.
pub(super) fn edit(
    host: &Host,
    declared: &Declared,
    content: &Content,
    keep: Option<&Store>,
) -> Result<Healed, HealError> {
    let seen = observe(host, declared, None, &mut |_| {});
    let text = edited(&seen, content)?;
    if text.digest == text.instead_of {
        return attributes(host, declared, seen.stat.as_ref());
    }
    replace(host, declared, &text.as_new(), seen.stat.as_ref(), keep)
}

/// Puts a file with these very bytes, and the declared attributes, in the place of one that has other names.
pub(super) fn apart(
    host: &Host,
    declared: &Declared,
    content: &Content,
) -> Result<Healed, HealError> {
    let seen = observe(host, declared, None, &mut |_| {});
    let text = kept(&seen, content)?;
    replace(host, declared, &text.as_new(), seen.stat.as_ref(), None)
}

/// The text of a file that is made from what stands there.
#[derive(Clone)]
pub struct Text {
    bytes: Vec<u8>,
    digest: blake3::Hash,
    /// What it was made from.
    instead_of: blake3::Hash,
}

/// Content is never in logs.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            bytes,
            digest,
            instead_of,
        } = self;
        let bytes = bytes.len();
        write!(f, "{bytes} bytes, {digest} instead of {instead_of}")
    }
}

impl Text {
    pub(super) fn as_new(&self) -> New<'_> {
        New {
            bytes: Bytes::Held(&self.bytes),
            digest: self.digest,
            instead_of: Some(self.instead_of),
        }
    }
}

/// What stands there with the managed keys as declared.
pub fn edited(seen: &Observed, content: &Content) -> Result<Text, HealError> {
    let meaning = content.meaning.as_ref().ok_or(HealError::Changed)?;
    let (now, digest) = bytes(seen, content)?;
    let bytes = meaning.edit(now).map_err(|error| match error {
        // The parser's own words may have a word of the file in them.
        EditError::Observed(error) => HealError::Unparsable {
            format: meaning.format().name(),
            line: error.line,
            column: error.column,
        },
        other => HealError::Edit(other),
    })?;
    Ok(Text {
        digest: blake3::hash(&bytes),
        bytes,
        instead_of: digest,
    })
}

/// What stands there, as it is.
pub fn kept(seen: &Observed, content: &Content) -> Result<Text, HealError> {
    let (bytes, digest) = bytes(seen, content)?;
    Ok(Text {
        bytes: bytes.to_vec(),
        digest,
        instead_of: digest,
    })
}

/// What stands there, and its digest.
fn bytes<'s>(
    seen: &'s Observed,
    content: &'s Content,
) -> Result<(&'s [u8], blake3::Hash), HealError> {
    let Found::File(Some(digest)) = seen.found else {
        return Err(HealError::Changed);
    };
    match &seen.held {
        Some(held) => Ok((held.bytes(), digest)),
        // Only what is as declared is not held, and what is too large.
        None if digest == content.digest => {
            let bytes = content.held().ok_or(HealError::NoContent)?;
            Ok((bytes, digest))
        }
        None => Err(HealError::TooLarge),
    }
}
