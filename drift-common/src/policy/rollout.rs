//! Which nodes a policy is for, and which of its versions each of them has.

use std::collections::BTreeMap;

use semver::Version;

use super::{Document, Policy, source::Spanned};

/// Labels that a node must have, each with this value.
pub type NodeSelector = BTreeMap<String, String>;

/// How many labels a selector names, at most.
pub(super) const MAX_LABELS: usize = 16;
/// How many arms a rollout has, at most.
pub(super) const MAX_ARMS: usize = 16;
/// All nodes.
pub(super) const WHOLE: u32 = 100;

/// Versions for a part of the nodes. The others have the `activeVersion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// One, to be seen before all have it.
    Canary(Share),
    /// Several side by side, each with a name.
    Arms(Vec<(String, Share)>),
}

/// A version, and how many in a hundred nodes have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub version: Spanned<Version>,
    /// 0 to 100. All of a rollout come to 100 at most.
    pub weight: u32,
}

impl Rollout {
    /// What it gives to nodes, in its order.
    pub fn shares(&self) -> impl Iterator<Item = &Share> {
        let (one, several) = match self {
            Self::Canary(share) => (Some(share), &[][..]),
            Self::Arms(arms) => (None, &arms[..]),
        };
        one.into_iter()
            .chain(several.iter().map(|(_, share)| share))
    }
}

/// What of a node decides which versions it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Never two nodes have the same, and no node ever another one.
    pub uid: String,
    pub labels: BTreeMap<String, String>,
}

impl Node {
    fn is_selected(&self, selector: &NodeSelector) -> bool {
        selector
            .iter()
            .all(|(label, value)| self.labels.get(label) == Some(value))
    }
}

/// The version that a node has of a policy; `None`: the policy is not for it.
///
/// Nothing but the two arguments decides, so whoever asks, on the node or elsewhere, gets the same answer. A rollout's shares lie one after the other on a
/// line, the rest of which has the `activeVersion`, and each node has its place there: a share that grows takes in more nodes and gives none away.
#[must_use]
pub fn assign<'p>(policy: &'p Policy, node: &Node) -> Option<&'p Spanned<Version>> {
    if !node.is_selected(&policy.node_selector) {
        return None;
    }
    let place = place(&policy.name.value, &node.uid);
    let mut end = 0;
    let shares = policy.rollout.iter().flat_map(Rollout::shares);
    for share in shares {
        end += u64::from(share.weight);
        if place < end * (PLACES / u64::from(WHOLE)) {
            return Some(&share.version);
        }
    }
    Some(&policy.active_version)
}

/// A multiple of 100, so that a hundredth is a whole number of places; so many that no two shares differ by less.
const PLACES: u64 = 100 << 32;

/// Where on the line a node stands: another place for each policy, so that not the same nodes are the first every time.
fn place(policy: &str, uid: &str) -> u64 {
    let mut hasher = blake3::Hasher::new_derive_key("configdrift.io rollout place v1");
    for text in [policy, uid] {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes) % PLACES
}

/// What `documents` say to one node: policies that are not for it are left out with their versions, and the others' `activeVersion` is the one that the node
/// has.
#[must_use]
pub fn assigned(documents: Vec<Document>, node: &Node) -> Vec<Document> {
    let mut others: Vec<String> = Vec::new();
    let mut kept: Vec<Document> = Vec::with_capacity(documents.len());
    for document in documents {
        match document {
            Document::Policy(mut policy) => match assign(&policy, node).cloned() {
                Some(version) => {
                    policy.active_version = version;
                    kept.push(Document::Policy(policy));
                }
                None => others.push(policy.name.value),
            },
            Document::Version(_) | Document::Reference(_) => kept.push(document),
        }
    }
    if !others.is_empty() {
        others.sort_unstable();
        kept.retain(|document| match document {
            Document::Policy(_) | Document::Reference(_) => true,
            Document::Version(version) => others.binary_search(&version.policy.value).is_err(),
        });
    }
    kept
}

/// Whether no node can be selected by both.
pub(super) fn exclude(one: &NodeSelector, other: &NodeSelector) -> bool {
    one.iter()
        .any(|(label, value)| other.get(label).is_some_and(|other| other != value))
}
