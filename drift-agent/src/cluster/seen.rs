//! What the API server has said is there, kind by kind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use drift_common::policy::Node;
use serde_json::Value;

/// Which object of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Which object it is, and which of its states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) uid: String,
    /// Its `resourceVersion`: a number of etcd's that only grows, until a backup is put back.
    pub(super) revision: Option<u64>,
}

/// A resource as it is in the cluster, without what nobody here asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// Counts changes of the spec.
    pub(super) generation: i64,
    /// Its owner says that it may be older than what was seen before.
    pub(super) accepts_older: bool,
    pub(super) spec: Value,
}

/// Objects that were deleted and are remembered, so that old news of them is known as such.
const MOST_GONE: usize = 1024;

/// The objects of one kind. Within a watch older news than is known changes nothing. A list that is being read takes the place of the one before when it is complete.
#[derive(Debug)]
pub(super) struct Kind<T> {
    there: BTreeMap<Key, (Stamp, T)>,
    list: Option<BTreeMap<Key, (Stamp, T)>>,
    complete: bool,
    /// UIDs of those that somebody has deleted, the last of them at the end.
    gone: VecDeque<String>,
    /// The highest revision since the last list began.
    revision: Option<u64>,
}

impl<T> Default for Kind<T> {
    fn default() -> Self {
        Self {
            there: BTreeMap::new(),
            list: None,
            complete: false,
            gone: VecDeque::new(),
            revision: None,
        }
    }
}

/// What a watch says.
#[derive(Debug)]
pub(super) enum News<T> {
    /// A new list begins.
    Begin,
    /// One of that list.
    Listed(Key, Stamp, T),
    /// The list is complete.
    End,
    Changed(Key, Stamp, T),
    Gone(Key, Stamp),
}

impl<T> Kind<T> {
    /// Whether something may be other than it was.
    pub(super) fn take(&mut self, news: News<T>) -> bool {
        match news {
            News::Begin => {
                self.list = Some(BTreeMap::new());
                self.revision = None;
                false
            }
            News::Listed(key, stamp, object) => {
                self.revision = self.revision.max(stamp.revision);
                let list = self.list.get_or_insert_with(BTreeMap::new);
                list.insert(key, (stamp, object));
                false
            }
            News::End => {
                self.there = self.list.take().unwrap_or_default();
                // A backup was put back in which they are: news of them are news.
                let there = self.there.values();
                let there: BTreeSet<&str> = there.map(|(stamp, _)| &*stamp.uid).collect();
                self.gone.retain(|uid| !there.contains(&**uid));
                self.complete = true;
                true
            }
            News::Changed(key, stamp, object) => {
                let is_new = !self.knows_newer(&key, &stamp);
                if is_new {
                    self.revision = self.revision.max(stamp.revision);
                    self.there.insert(key, (stamp, object));
                }
                is_new
            }
            News::Gone(key, stamp) => {
                let before = self.there.get(&key);
                let is_it = before.is_some_and(|(before, _)| before.uid == stamp.uid);
                if is_it {
                    self.there.remove(&key);
                    self.gone.push_back(stamp.uid);
                    while self.gone.len() > MOST_GONE {
                        self.gone.pop_front();
                    }
                }
                is_it
            }
        }
    }

    /// Whether this is news that came before what is known, or that too: it was overtaken on its way, or told again.
    fn knows_newer(&self, key: &Key, stamp: &Stamp) -> bool {
        if self.gone.contains(&stamp.uid) {
            return true;
        }
        let before = self.there.get(key).map(|(before, _)| before);
        let before = before.filter(|before| before.uid == stamp.uid);
        let before = before.and_then(|before| before.revision);
        before.is_some_and(|before| stamp.revision.is_some_and(|new| new <= before))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Stamp, &T)> {
        self.there
            .iter()
            .map(|(key, (stamp, object))| (key, stamp, object))
    }

    /// UIDs of objects that were deleted while somebody listened.
    pub(super) fn gone(&self) -> impl Iterator<Item = &str> {
        self.gone.iter().map(String::as_str)
    }

    /// The highest revision since the last list began.
    pub(super) fn revision(&self) -> Option<u64> {
        self.revision
    }

    /// What was heard until now says nothing of how far the API server is.
    pub(super) fn begins_anew(&mut self) {
        self.revision = None;
    }
}

/// All that matters to a node.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) policies: Kind<Object>,
    pub(super) versions: Kind<Object>,
    /// One at most.
    pub(super) nodes: Kind<Node>,
}

impl Seen {
    /// Whether every kind was listed, so that what is not here is not there.
    pub(super) fn is_complete(&self) -> bool {
        self.policies.complete && self.versions.complete && self.nodes.complete
    }

    pub(super) fn node(&self) -> Option<&Node> {
        self.nodes.iter().map(|(_, _, node)| node).next()
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
        kind.iter().map(|(key, _, _)| key.name.as_str()).collect()
    }

    fn stamp(uid: &str, revision: u64) -> Stamp {
        Stamp {
            uid: uid.to_owned(),
            revision: Some(revision),
        }
    }

    #[test]
    fn a_list_counts_when_it_is_complete_and_what_is_not_in_it_is_gone() {
        let mut kind = Kind::default();
        assert!(!kind.complete);
        for news in [
            News::Begin,
            News::Listed(key("a"), stamp("a", 1), 1),
            News::Listed(key("b"), stamp("b", 2), 1),
        ] {
            assert!(!kind.take(news));
            assert!(names(&kind).is_empty() && !kind.complete);
        }
        assert!(kind.take(News::End));
        assert_eq!(names(&kind), ["a", "b"]);
        assert!(kind.take(News::Changed(key("c"), stamp("c", 3), 1)));
        assert!(kind.take(News::Gone(key("a"), stamp("a", 4))));
        assert!(!kind.take(News::Gone(key("a"), stamp("a", 4))));
        assert_eq!(names(&kind), ["b", "c"]);
        // A watch that was cut begins again: until the list is there the old one counts.
        kind.take(News::Begin);
        kind.take(News::Listed(key("d"), stamp("d", 5), 1));
        assert_eq!(names(&kind), ["b", "c"]);
        // And may be cut again.
        kind.take(News::Begin);
        kind.take(News::Listed(key("e"), stamp("e", 6), 1));
        kind.take(News::End);
        assert_eq!(names(&kind), ["e"]);
        assert!(kind.complete);
    }

    #[test]
    fn news_that_is_late_or_told_again_changes_nothing() {
        let mut kind = Kind::default();
        let value = |kind: &Kind<u32>| kind.iter().map(|(_, _, value)| *value).next();
        kind.take(News::End);
        assert!(kind.take(News::Changed(key("a"), stamp("1", 7), 7)));
        assert!(!kind.take(News::Changed(key("a"), stamp("1", 6), 6)));
        assert!(!kind.take(News::Changed(key("a"), stamp("1", 7), 7)));
        assert_eq!(value(&kind), Some(7));
        assert!(kind.take(News::Changed(key("a"), stamp("1", 8), 8)));
        assert!(kind.take(News::Gone(key("a"), stamp("1", 9))));
        assert!(!kind.take(News::Changed(key("a"), stamp("1", 8), 8)));
        // Another object of that name.
        assert!(kind.take(News::Changed(key("a"), stamp("2", 10), 10)));
        assert!(!kind.take(News::Gone(key("a"), stamp("1", 9))));
        assert_eq!(value(&kind), Some(10));
        // A list says how it is now, also where that is earlier: a backup was put back.
        kind.take(News::Begin);
        kind.take(News::Listed(key("a"), stamp("1", 4), 4));
        assert!(kind.take(News::End));
        assert_eq!(value(&kind), Some(4));
        assert!(kind.take(News::Changed(key("a"), stamp("1", 5), 5)));
        assert_eq!(kind.revision(), Some(5));
    }
}
