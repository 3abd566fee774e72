//! Kubernetes Events: what of the records people of the cluster should see at a Policy or at the Node. Many records of one kind are one Event.

mod post;

use std::collections::BTreeMap;

use semver::Version;

use super::{notice::Notice, view::View};
use crate::{report::Event, serve::ActorStatus};

pub(crate) use post::CONTROLLER;
pub(super) use post::Post;

/// Kinds of Events of all objects that wait to be told; of more only their number is.
const MOST_WAITING: usize = 64;
/// Characters of a note. The API server takes 1024, and how many more there were is said behind it.
const LONGEST_NOTE: usize = 960;

/// What an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum About {
    Node,
    /// A Policy of this namespace and name, and its UID.
    Policy(String, String, String),
}

/// A closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Reason {
    DriftDetected,
    DriftHealed,
    HealSuppressed,
    HealFailed,
    HealUnverifiable,
    RolledBack,
    PolicyRejected,
    EventsLost,
}

impl Reason {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::DriftDetected => "DriftDetected",
            Self::DriftHealed => "DriftHealed",
            Self::HealSuppressed => "HealSuppressed",
            Self::HealFailed => "HealFailed",
            Self::HealUnverifiable => "HealUnverifiable",
            Self::RolledBack => "RolledBack",
            Self::PolicyRejected => "PolicyRejected",
            Self::EventsLost => "EventsLost",
        }
    }

    /// What the agent was doing.
    pub(super) const fn action(self) -> &'static str {
        match self {
            Self::DriftDetected => "Compare",
            Self::DriftHealed
            | Self::HealSuppressed
            | Self::HealFailed
            | Self::HealUnverifiable => "Heal",
            Self::RolledBack => "Activate",
            Self::PolicyRejected => "Declare",
            Self::EventsLost => "Report",
        }
    }

    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::DriftHealed => "Normal",
            Self::DriftDetected
            | Self::HealSuppressed
            | Self::HealFailed
            | Self::HealUnverifiable
            | Self::RolledBack
            | Self::PolicyRejected
            | Self::EventsLost => "Warning",
        }
    }
}

/// An Event to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Telling {
    pub(super) about: About,
    pub(super) reason: Reason,
    /// Of the first.
    pub(super) note: String,
    /// How many more there were.
    pub(super) more: u64,
}

/// What was heard since Events were told last.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The first note of each, and how many more there were.
    told: BTreeMap<(About, Reason), (String, u64)>,
    /// What did not fit.
    more: u64,
    /// The version of each policy, to know one that goes back.
    versions: BTreeMap<String, String>,
    /// Of each namespace why it is not taken, as it was told.
    refused: BTreeMap<String, String>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    pub(super) fn take(&mut self, notice: &Notice, view: &View) {
        let Some((reason, note)) = self.said(notice) else {
            return;
        };
        let about = notice
            .policy
            .as_ref()
            .and_then(|policy| view.policies.get(policy))
            .map_or(About::Node, |(key, uid)| {
                About::Policy(key.namespace.clone(), key.name.clone(), uid.clone())
            });
        self.add(about, reason, note);
    }

    /// What is refused of a namespace is told at its policies.
    pub(super) fn look(&mut self, view: &View) {
        let before = std::mem::replace(&mut self.refused, view.refused.clone());
        let new = view
            .refused
            .iter()
            .filter(|(namespace, why)| before.get(*namespace) != Some(*why));
        for (namespace, why) in new {
            let mut policies = view.policies.values();
            if let Some((key, uid)) = policies.find(|(key, _)| key.namespace == *namespace) {
                let about = About::Policy(namespace.clone(), key.name.clone(), uid.clone());
                self.add(about, Reason::PolicyRejected, why.clone());
            }
        }
    }

    fn add(&mut self, about: About, reason: Reason, note: String) {
        let is_full = self.told.len() >= MOST_WAITING;
        match self.told.entry((about, reason)) {
            std::collections::btree_map::Entry::Occupied(mut told) => told.get_mut().1 += 1,
            std::collections::btree_map::Entry::Vacant(_) if is_full => self.more += 1,
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert((note, 0));
            }
        }
    }

    /// All of it, taken out.
    pub(super) fn tellings(&mut self) -> Vec<Telling> {
        let more = std::mem::take(&mut self.more);
        let mut tellings: Vec<Telling> = std::mem::take(&mut self.told)
            .into_iter()
            .map(|((about, reason), (note, more))| Telling {
                about,
                reason,
                note: clip(&note, LONGEST_NOTE),
                more,
            })
            .collect();
        if more > 0 {
            tellings.push(Telling {
                about: About::Node,
                reason: Reason::EventsLost,
                note: format!("{more} more things have happened than are told at their policies"),
                more: 0,
            });
        }
        tellings
    }

    /// What could not be told waits again, after what has come since.
    pub(super) fn put_back(&mut self, tellings: impl IntoIterator<Item = Telling>) {
        for telling in tellings {
            self.add(telling.about.clone(), telling.reason, telling.note);
            if let Some(told) = self.told.get_mut(&(telling.about, telling.reason)) {
                told.1 += telling.more;
            }
        }
    }

    /// The sentence for a record; `None`: it is not for people of the cluster.
    fn said(&mut self, notice: &Notice) -> Option<(Reason, String)> {
        let reason = match notice.event {
            Event::DriftDetected => Reason::DriftDetected,
            Event::DriftHealed => Reason::DriftHealed,
            Event::HealSuppressed => Reason::HealSuppressed,
            Event::HealFailed => Reason::HealFailed,
            Event::HealUnverifiable => Reason::HealUnverifiable,
            Event::PolicyRejected => Reason::PolicyRejected,
            Event::EventsLost => Reason::EventsLost,
            Event::PolicyActivated => return self.rolled_back(notice),
            Event::DriftResolved | Event::Touched => return None,
        };
        let mut note = notice.path.clone().unwrap_or_default();
        if !notice.kinds.is_empty() {
            note = format!("{note}: {}", notice.kinds.join(", "));
        }
        match &notice.actor {
            Some(Ok(actor)) => note = format!("{note}, by {}", who(actor)),
            Some(Err(why)) => note = format!("{note}, by an unknown process ({why})"),
            None => {}
        }
        if let Some(why) = notice.reason {
            note = format!("{note} ({why})");
        }
        let message = notice.message.as_ref().filter(|_| notice.reason.is_some());
        if let Some(message) = message {
            note = format!("{note}: {message}");
        }
        Some((reason, note.trim_start().to_owned()))
    }

    /// A version that is lower than the one before.
    fn rolled_back(&mut self, notice: &Notice) -> Option<(Reason, String)> {
        let (policy, version) = (notice.policy.as_ref()?, notice.version.as_ref()?);
        let before = self.versions.insert(policy.clone(), version.clone())?;
        let parsed = |version: &str| Version::parse(version).ok();
        (parsed(version)? < parsed(&before)?).then(|| {
            let note = format!("{policy} is at {version} again, and was at {before}");
            (Reason::RolledBack, note)
        })
    }
}

/// Without its number: what happens again is told as the same.
fn who(actor: &ActorStatus) -> &str {
    actor.exe.as_deref().unwrap_or(&actor.comm)
}

fn clip(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::seen::Key, report::Record};

    fn view() -> View {
        let key = Key {
            namespace: "shop".to_owned(),
            name: "app".to_owned(),
        };
        View {
            policies: [("shop.app".to_owned(), (key, "uid".to_owned()))].into(),
            ..View::default()
        }
    }

    fn notice(event: Event, policy: &str, path: &str) -> Notice {
        let mut record = Record::new(event);
        record.policy = Some(policy.to_owned());
        record.path = Some(path.into());
        record.actor = Some(Err("nobody looked".to_owned()));
        (&record).into()
    }

    fn app() -> About {
        About::Policy("shop".to_owned(), "app".to_owned(), "uid".to_owned())
    }

    #[test]
    fn many_records_of_one_kind_are_one_event_at_their_policy() {
        let mut waiting = Waiting::default();
        for n in 0..10_000 {
            waiting.take(
                &notice(Event::DriftDetected, "shop.app", &format!("/etc/{n}")),
                &view(),
            );
        }
        waiting.take(&notice(Event::DriftHealed, "mine", "/etc/x"), &view());
        waiting.take(&notice(Event::Touched, "shop.app", "/etc/x"), &view());
        let tellings = waiting.tellings();
        assert_eq!(tellings.len(), 2, "{tellings:?}");
        assert_eq!(tellings[0].about, About::Node, "a policy of a file");
        assert_eq!(tellings[0].reason, Reason::DriftHealed);
        assert_eq!(tellings[1].about, app());
        assert_eq!(
            tellings[1].note,
            "/etc/0, by an unknown process (nobody looked)"
        );
        assert_eq!(tellings[1].more, 9999);
        assert!(waiting.is_empty());
    }

    #[test]
    fn however_much_happens_so_many_wait_and_that_there_was_more_is_told() {
        let mut waiting = Waiting::default();
        let mut view = view();
        for n in 0..200 {
            let key = Key {
                namespace: "n".to_owned(),
                name: n.to_string(),
            };
            view.policies.insert(format!("n.{n}"), (key, n.to_string()));
            waiting.take(
                &notice(Event::DriftDetected, &format!("n.{n}"), "/etc/x"),
                &view,
            );
        }
        let tellings = waiting.tellings();
        assert_eq!(tellings.len(), MOST_WAITING + 1);
        let last = tellings.last().expect("one");
        assert_eq!(last.reason, Reason::EventsLost);
        assert!(last.note.starts_with("136 more"), "{}", last.note);
    }

    #[test]
    fn a_lower_version_is_told_and_a_higher_one_is_not() {
        let mut waiting = Waiting::default();
        let mut activate = |version: &str| {
            let mut record = Record::new(Event::PolicyActivated);
            record.policy = Some("shop.app".to_owned());
            record.version = Some(version.to_owned());
            waiting.take(&(&record).into(), &view());
            waiting.tellings()
        };
        assert_eq!(activate("1.9.0"), []);
        assert_eq!(activate("1.10.0"), []);
        let tellings = activate("1.9.0");
        assert_eq!(tellings.len(), 1);
        assert_eq!(tellings[0].reason, Reason::RolledBack);
        assert_eq!(
            tellings[0].note,
            "shop.app is at 1.9.0 again, and was at 1.10.0"
        );
    }

    #[test]
    fn what_a_namespace_says_in_vain_is_told_once() {
        let mut waiting = Waiting::default();
        let mut view = view();
        view.refused.insert("shop".to_owned(), "no".to_owned());
        waiting.look(&view);
        waiting.look(&view);
        let told = waiting.tellings();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].about, app());
        assert_eq!(told[0].reason, Reason::PolicyRejected);
        waiting.look(&view);
        assert!(waiting.is_empty());
        view.refused.insert("shop".to_owned(), "another".to_owned());
        waiting.look(&view);
        assert!(!waiting.is_empty());
        let told = waiting.tellings();
        waiting.put_back(told.clone());
        assert_eq!(waiting.tellings(), told);
    }
}
