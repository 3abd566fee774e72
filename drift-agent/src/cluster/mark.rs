//! How far each Policy was that this node has taken, and what has become of it since: so that nothing goes back in time. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::seen::{Key, Seen, Stamp};

/// Policies that somebody has deleted and that are remembered.
const MOST_GONE: usize = 1024;

/// What has become of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Fate {
    /// It is there.
    #[default]
    There,
    /// Somebody has deleted it.
    Gone,
    /// It is not there, and the API server shows a state from before it was written: nobody has deleted it.
    Lost,
}

/// How far a Policy was when it was taken last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Counts changes of its spec.
    pub(super) generation: i64,
    pub(super) revision: u64,
    #[serde(default)]
    pub(super) fate: Fate,
}

impl Mark {
    pub(super) fn new(key: &Key, stamp: &Stamp, generation: i64) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            generation,
            revision: stamp.revision.unwrap_or(0),
            fate: Fate::There,
        }
    }
}

/// The marks of all Policies that were taken, by their UIDs.
pub(super) type Marks = BTreeMap<String, Mark>;

/// Which Policies a cluster has, whomever they are for.
#[derive(Clone, Debug, Default)]
pub(super) struct Present {
    /// With the revision of each.
    pub(super) uids: BTreeMap<String, Option<u64>>,
    pub(super) names: BTreeSet<(String, String)>,
    /// UIDs of those that were deleted while somebody listened.
    pub(super) gone: BTreeSet<String>,
    /// How far the API server is; `None`: it was not asked, or has not answered.
    pub(super) revision: Option<u64>,
}

impl Present {
    pub(super) fn new(seen: &Seen) -> Self {
        let mut present = Self::default();
        for (key, stamp, _) in seen.policies.iter() {
            present.uids.insert(stamp.uid.clone(), stamp.revision);
            let name = (key.namespace.clone(), key.name.clone());
            present.names.insert(name);
        }
        present.gone = seen.policies.gone().map(str::to_owned).collect();
        present
    }

    /// What has become of a Policy, as far as that can be said without knowing how far the API server is.
    fn fate(&self, uid: &str, mark: &Mark) -> Option<Fate> {
        if self.uids.contains_key(uid) {
            // One that was deleted and is there again has come out of a backup: whether that is meant is asked where it is taken.
            return Some(if mark.fate == Fate::Gone {
                Fate::Gone
            } else {
                Fate::There
            });
        }
        let name = (mark.namespace.clone(), mark.name.clone());
        // Who makes it anew says with that what is to be.
        if self.gone.contains(uid) || self.names.contains(&name) {
            return Some(Fate::Gone);
        }
        (mark.fate != Fate::There).then_some(mark.fate)
    }

    /// Whether one of them is as it was before it was taken, or deleted: all of this is from before.
    fn is_back(&self, marks: &Marks) -> bool {
        let mut known = marks
            .iter()
            .filter_map(|(uid, mark)| Some((mark, self.uids.get(uid)?)));
        known.any(|(mark, revision)| {
            mark.fate == Fate::Gone || revision.is_some_and(|revision| revision < mark.revision)
        })
    }

    /// Whether one is not there of which it must be asked how far the API server is.
    pub(super) fn lacks(&self, marks: &Marks) -> bool {
        let mut marks = marks.iter();
        marks.any(|(uid, mark)| self.fate(uid, mark).is_none())
    }
}

/// Brings marks to what is there now. Why what a namespace has said must stay, if so.
pub(super) fn look(marks: &mut Marks, present: &Present) -> BTreeMap<String, String> {
    let mut stays = BTreeMap::new();
    let is_back = present.is_back(marks);
    for (uid, mark) in marks.iter_mut() {
        let known = present.fate(uid, mark);
        let known = known.or(present.revision.map(|revision| {
            if is_back || revision < mark.revision {
                Fate::Lost
            } else {
                Fate::Gone // deleted while nobody listened
            }
        }));
        let why = match known {
            Some(Fate::Lost) => format!(
                "the Policy {} is not there any more, and nobody has deleted it: the API server shows an earlier state. Apply it again; \
                 if it is not wanted, delete it then",
                mark.name
            ),
            None => format!(
                "the Policy {} is not there any more, and the API server does not say how far it is",
                mark.name
            ),
            Some(fate) => {
                mark.fate = fate;
                continue;
            }
        };
        mark.fate = known.unwrap_or(mark.fate);
        stays.entry(mark.namespace.clone()).or_insert(why);
    }
    forget(marks);
    stays
}

/// The oldest of those that are gone.
fn forget(marks: &mut Marks) {
    let gone = marks.iter().filter(|(_, mark)| mark.fate == Fate::Gone);
    let mut gone: Vec<(u64, String)> = gone
        .map(|(uid, mark)| (mark.revision, uid.clone()))
        .collect();
    if gone.len() > MOST_GONE {
        gone.sort_unstable();
        for (_, uid) in &gone[..gone.len() - MOST_GONE] {
            marks.remove(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(fate: Fate) -> Marks {
        let mark = Mark {
            namespace: "shop".to_owned(),
            name: "app".to_owned(),
            generation: 2,
            revision: 100,
            fate,
        };
        [("uid".to_owned(), mark)].into()
    }

    fn empty(revision: Option<u64>) -> Present {
        Present {
            revision,
            ..Present::default()
        }
    }

    #[test]
    fn what_a_later_list_does_not_have_is_deleted_and_what_an_earlier_one_does_not_have_is_lost() {
        for (revision, fate, stays) in [
            (Some(100), Fate::Gone, false),
            (Some(99), Fate::Lost, true),
            (None, Fate::There, true),
        ] {
            let mut marks = marks(Fate::There);
            assert!(empty(revision).lacks(&marks));
            let said = look(&mut marks, &empty(revision));
            assert_eq!(said.contains_key("shop"), stays, "{said:?}");
            assert_eq!(marks["uid"].fate, fate);
        }
        // Somebody was heard deleting it.
        let mut present = empty(Some(1));
        present.gone.insert("uid".to_owned());
        let mut marks = marks(Fate::There);
        assert!(!present.lacks(&marks));
        assert!(look(&mut marks, &present).is_empty());
        assert_eq!(marks["uid"].fate, Fate::Gone);
    }

    #[test]
    fn what_is_lost_stays_so_however_far_the_api_server_gets_until_somebody_makes_it_anew() {
        let mut marks = marks(Fate::Lost);
        assert!(!empty(None).lacks(&marks), "it was asked before");
        assert_eq!(look(&mut marks, &empty(Some(1_000_000))).len(), 1);
        assert_eq!(marks["uid"].fate, Fate::Lost);
        let mut present = empty(None);
        present.uids.insert("another".to_owned(), Some(1));
        let name = ("shop".to_owned(), "app".to_owned());
        present.names.insert(name);
        assert!(look(&mut marks, &present).is_empty());
        assert_eq!(marks["uid"].fate, Fate::Gone);
    }

    #[test]
    fn where_one_is_as_it_was_before_what_is_missing_is_lost_however_far_the_api_server_is() {
        for (revision, fate, expected) in [
            (99, Fate::There, Fate::Lost),
            (100, Fate::There, Fate::Gone),
            (100, Fate::Gone, Fate::Lost),
        ] {
            let mut marks = marks(Fate::There);
            let mut other = marks["uid"].clone();
            (other.name, other.fate) = ("other".to_owned(), fate);
            marks.insert("other".to_owned(), other);
            let mut present = empty(Some(1_000_000));
            present.uids.insert("other".to_owned(), Some(revision));
            look(&mut marks, &present);
            assert_eq!(marks["uid"].fate, expected, "{revision} {fate:?}");
        }
    }

    #[test]
    fn so_many_deleted_ones_are_remembered() {
        let one = marks(Fate::Gone)["uid"].clone();
        let mut marks: Marks = (0..MOST_GONE as u64 + 5)
            .map(|n| {
                let mut mark = one.clone();
                mark.revision = n;
                (n.to_string(), mark)
            })
            .collect();
        look(&mut marks, &empty(None));
        assert_eq!(marks.len(), MOST_GONE);
        assert!(!marks.contains_key("4") && marks.contains_key("5"));
    }
}
