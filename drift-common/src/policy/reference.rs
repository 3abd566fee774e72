//! Versions of a policy that cross from one namespace of a cluster to another: said in both, else nothing crosses.

use semver::Version;

use super::source::Spanned;

/// One end of the way. A policy folder has no namespaces: there it is checked, and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVersionRef {
    pub name: Spanned<String>,
    /// As it is called in the namespace in which this stands.
    pub policy: Spanned<String>,
    /// These of its versions; empty: all.
    pub versions: Vec<Spanned<Version>>,
    pub end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// This namespace takes them from that one, where the policy may be called otherwise.
    From {
        namespace: Spanned<String>,
        policy: Option<Spanned<String>>,
    },
    /// This namespace lets those take them.
    To { namespaces: Vec<Spanned<String>> },
}

impl PolicyVersionRef {
    /// Whether it is about this version of its policy.
    #[must_use]
    pub fn names(&self, version: &Version) -> bool {
        let mut versions = self.versions.iter();
        self.versions.is_empty() || versions.any(|named| named.value == *version)
    }
}
