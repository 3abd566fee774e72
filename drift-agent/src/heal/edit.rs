//! Some keys of a file: the rest belongs to others, who may write to it at any time.

use crate::{
    compare::structured::EditError,
    declare::{Content, Declared},
    observe::{Found, Host, observe},
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
    let seen = observe(host, declared, None, &mut |_| {});
    let Found::File(Some(digest)) = seen.found else {
        return Err(HealError::Changed);
    };
    let now = match &seen.held {
        Some(held) => held.bytes(),
        // Only what is as declared is not held, and what is too large.
        None if digest == content.digest => &content.bytes,
        None => return Err(HealError::TooLarge),
    };
    let meaning = content.meaning.as_ref().ok_or(HealError::Changed)?;
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
        return attributes(host, declared);
    }
    let new = New {
        digest: blake3::hash(&edited),
        bytes: &edited,
        instead_of: Some(digest),
    };
    replace(host, declared, &new, seen.stat.as_ref())
}
