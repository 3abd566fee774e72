//! What the API server has said is there, kind by kind.

use std::collections::BTreeMap;

use drift_common::policy::Node;
use serde_json::Value;

/// Which object of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A resource as it is in the cluster, without what nobody here asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) uid: String,
    /// Counts changes of the spec.
    pub(super) generation: i64,
    /// Its owner says that it may be older than what was seen before.
    pub(super) accepts_older: bool,
    pub(super) spec: Value,
}

/// The objects of one kind. A list that is being read takes the place of the one before when it is complete.
#[derive(Debug)]
pub(crate) struct Kind<T> {
    there: BTreeMap<Key, T>,
    list: Option<BTreeMap<Key, T>>,
    complete: bool,
}

impl<T> Default for Kind<T> {
    fn default() -> Self {
        Self {
            there: BTreeMap::new(),
            list: None,
            complete: false,
        }
    }
}

/// What a watch says.
#[derive(Debug)]
pub(crate) enum News<T> {
    /// A new list begins.
    Begin,
    /// One of that list.
    Listed(Key, T),
    /// The list is complete.
    End,
    Changed(Key, T),
    Gone(Key),
}

impl<T> Kind<T> {
    pub(crate) fn take(&mut self, news: News<T>) {
        match news {
            News::Begin => self.list = Some(BTreeMap::new()),
            News::Listed(key, object) => {
                self.list
                    .get_or_insert_with(BTreeMap::new)
                    .insert(key, object);
            }
            News::End => {
                self.there = self.list.take().unwrap_or_default();
                self.complete = true;
            }
            News::Changed(key, object) => drop(self.there.insert(key, object)),
            News::Gone(key) => drop(self.there.remove(&key)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.there.iter()
    }

    /// Whether it was listed at least once.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&T> {
        self.there.get(key)
    }
}

/// All that matters to a node.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) policies: Kind<Object>,
    pub(super) versions: Kind<Object>,
    /// Which versions may cross from one namespace to another.
    pub(super) references: Kind<Object>,
    /// One at most.
    pub(super) nodes: Kind<Node>,
}

impl Seen {
    /// Whether every kind was listed, so that what is not here is not there.
    pub(super) fn is_complete(&self) -> bool {
        self.policies.complete
            && self.versions.complete
            && self.references.complete
            && self.nodes.complete
    }

    pub(super) fn node(&self) -> Option<&Node> {
        self.nodes.iter().map(|(_, node)| node).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key {
            namespace: "n".to_owned(),
            name: name.to_owned(),
        }
    }

    fn names<T>(kind: &Kind<T>) -> Vec<&str> {
        kind.iter().map(|(key, _)| key.name.as_str()).collect()
    }

    #[test]
    fn a_list_counts_when_it_is_complete_and_what_is_not_in_it_is_gone() {
        let mut kind = Kind::default();
        assert!(!kind.complete);
        for news in [
            News::Begin,
            News::Listed(key("a"), 1),
            News::Listed(key("b"), 1),
        ] {
            kind.take(news);
            assert!(names(&kind).is_empty() && !kind.complete);
        }
        kind.take(News::End);
        assert_eq!(names(&kind), ["a", "b"]);
        kind.take(News::Changed(key("c"), 1));
        kind.take(News::Gone(key("a")));
        kind.take(News::Gone(key("a")));
        assert_eq!(names(&kind), ["b", "c"]);
        // A watch that was cut begins again: until the list is there the old one counts.
        kind.take(News::Begin);
        kind.take(News::Listed(key("d"), 1));
        assert_eq!(names(&kind), ["b", "c"]);
        // And may be cut again.
        kind.take(News::Begin);
        kind.take(News::Listed(key("e"), 1));
        kind.take(News::End);
        assert_eq!(names(&kind), ["e"]);
        assert!(kind.complete);
    }
}
