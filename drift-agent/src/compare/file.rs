//! A regular file with declared content.

use crate::{
    compare::{
        Drift,
        structured::{self, Verdict},
    },
    declare::Content,
    observe::Observed,
};

/// What differs in the content, and how by what it says. `digest` is `None` where the file is larger than is declared possible.
pub(super) fn content(
    declared: &Content,
    digest: Option<blake3::Hash>,
    observed: &Observed,
) -> (Option<Drift>, Option<Verdict>) {
    let same = digest == Some(declared.digest)
        || (declared.body.is_some() && declared.body == observed.body)
        || (declared.lines.is_some() && declared.lines.as_deref() == observed.lines.as_ref());
    if same {
        return (None, None);
    }
    // Without its bytes it is too large to be compared by structure.
    let (Some(meaning), Some(held)) = (&declared.meaning, &observed.held) else {
        return (Some(Drift::Content), None);
    };
    let verdict = meaning.verdict(held.bytes());
    let drift = match &verdict {
        Verdict::Same => None,
        Verdict::Differs(differences) if differences.is_equivalent() => {
            Some(Drift::ContentEquivalent)
        }
        Verdict::Differs(_) | Verdict::Unparsable(_) => Some(Drift::Content),
    };
    (drift, Some(verdict))
}

/// In what a file differs, as one digest: what is of no account, and how it is written, has no part in it.
pub(super) fn face(differences: &structured::Differences) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for difference in &differences.list {
        field(difference.pointer.to_string().as_bytes());
        field(difference.kind.name().as_bytes());
        for side in [&difference.declared, &difference.observed] {
            field(side.as_ref().map_or(b"", |side| side.digest.as_bytes()));
        }
    }
    field(&differences.omitted.to_le_bytes());
    hasher.finalize()
}
