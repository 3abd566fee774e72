//! A regular file with declared content.

use crate::{compare::Drift, declare::Content};

/// What differs in the content. `digest` is `None` where the file is larger than is declared possible; `body` is that of the content without
/// its final line end.
pub(super) fn content(
    declared: &Content,
    digest: Option<blake3::Hash>,
    body: Option<blake3::Hash>,
) -> Vec<Drift> {
    let same =
        digest == Some(declared.digest) || (declared.body.is_some() && declared.body == body);
    if same {
        Vec::new()
    } else {
        vec![Drift::Content]
    }
}
