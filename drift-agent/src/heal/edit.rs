//! Files that are not written from the declared content alone: some of their keys belong to others, who may write to them at any time.

use crate::{
    compare::structured::{EditError, Meaning},
    declare::{Content, Declared},
    observe::{Found, Host, Observed, observe},
};

use super::{
    execute::{HealError, Healed, attributes},
    replace::{New, replace},
};

/// Puts the managed keys of what stands there to their declared values. What that is is read again: it is not what was judged any more where
/// somebody was faster.
pub(super) fn edit(
    host: &Host,
    declared: &Declared,
    content: &Content,
) -> Result<Healed, HealError> {
    let meaning = meaning(content)?;
    let seen = observe(host, declared, None, &mut |_| {});
    let (now, digest) = bytes(&seen, content)?;
    let edited = meaning.edit(now).map_err(|error| match error {
        // The parser's own words may have a word of the file in them.
        EditError::Observed(error) => HealError::Unparsable {
            format: meaning.format().name(),
            line: error.line,
            column: error.column,
        },
        other => HealError::Edit(other),
    })?;
    if edited == now {
        return attributes(host, declared, seen.stat.as_ref());
    }
    let new = New {
        digest: blake3::hash(&edited),
        bytes: &edited,
        instead_of: Some(digest),
    };
    replace(host, declared, &new, seen.stat.as_ref())
}

/// Puts a file with these very bytes, and the declared attributes, in the place of one that has other names.
pub(super) fn apart(
    host: &Host,
    declared: &Declared,
    content: &Content,
) -> Result<Healed, HealError> {
    let seen = observe(host, declared, None, &mut |_| {});
    let (bytes, digest) = bytes(&seen, content)?;
    let new = New {
        bytes,
        digest,
        instead_of: Some(digest),
    };
    replace(host, declared, &new, seen.stat.as_ref())
}

fn meaning(content: &Content) -> Result<&Meaning, HealError> {
    content.meaning.as_ref().ok_or(HealError::Changed)
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
            let bytes = content.bytes.as_deref().ok_or(HealError::NoContent)?;
            Ok((bytes, digest))
        }
        None => Err(HealError::TooLarge),
    }
}
