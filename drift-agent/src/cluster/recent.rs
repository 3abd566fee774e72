//! What has happened to paths lately, from records: who had changed what was healed since, and what was lost.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use super::notice::Notice;
use crate::{report::Event, serve::ActorStatus};

/// Heals that are remembered.
const MOST_HEALED: usize = 10;
/// Drifts whose actors are remembered until they are over.
const MOST_DETECTED: usize = 1024;
/// For how long a loss is a condition of the node.
pub(super) const LOSS: Duration = Duration::from_secs(600);

/// Who it was; `Err`: why that is not known.
type Who = Result<ActorStatus, String>;

/// A path that was healed.
#[derive(Clone, Debug)]
pub(super) struct Healed {
    pub(super) path: String,
    pub(super) policy: String,
    pub(super) kinds: Vec<&'static str>,
    pub(super) severity: Option<&'static str>,
    /// When it was detected; when that is not known, when it was healed.
    pub(super) since: jiff::Timestamp,
    pub(super) actor: Option<Who>,
}

/// The last of them.
#[derive(Debug, Default)]
pub(super) struct Recent {
    detected: BTreeMap<String, (jiff::Timestamp, Option<Who>)>,
    /// The newest first; of each path the last.
    healed: VecDeque<Healed>,
    lost: Losses,
}

/// When something was lost last.
#[derive(Debug, Default)]
struct Losses {
    count: u64,
    at: Option<Instant>,
}

impl Recent {
    pub(super) fn take(&mut self, notice: &Notice) {
        let Some(path) = &notice.path else { return };
        match notice.event {
            Event::DriftDetected => {
                // What does not fit is healed without a name for who had changed it.
                if self.detected.len() < MOST_DETECTED {
                    self.detected
                        .insert(path.clone(), (notice.time, notice.actor.clone()));
                }
                self.healed.retain(|healed| healed.path != *path);
            }
            Event::DriftHealed => {
                let detected = self.detected.remove(path);
                let (since, actor) = detected.unwrap_or((notice.time, None));
                self.healed.retain(|healed| healed.path != *path);
                self.healed.push_front(Healed {
                    path: path.clone(),
                    policy: notice.policy.clone().unwrap_or_default(),
                    kinds: notice.kinds.clone(),
                    severity: notice.severity,
                    since,
                    actor,
                });
                self.healed.truncate(MOST_HEALED);
            }
            Event::DriftResolved => drop(self.detected.remove(path)),
            Event::HealFailed
            | Event::HealUnverifiable
            | Event::HealSuppressed
            | Event::Touched
            | Event::PolicyActivated
            | Event::PolicyRejected
            | Event::EventsLost => {}
        }
    }

    pub(super) fn healed(&self) -> impl Iterator<Item = &Healed> {
        self.healed.iter()
    }

    /// Whether something was lost lately, when by now it is `count` in all.
    pub(super) fn has_lost(&mut self, count: u64, now: Instant) -> bool {
        if count > self.lost.count {
            self.lost = Losses {
                count,
                at: Some(now),
            };
        }
        let at = self.lost.at;
        at.is_some_and(|at| now.saturating_duration_since(at) < LOSS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Record;

    fn notice(event: Event, path: &str) -> Notice {
        let mut record = Record::new(event);
        record.path = Some(path.into());
        record.policy = Some("web".to_owned());
        record.actor = Some(Err("nobody looked".to_owned()));
        (&record).into()
    }

    #[test]
    fn a_heal_keeps_who_it_was_until_the_path_drifts_again() {
        let mut recent = Recent::default();
        recent.take(&notice(Event::DriftDetected, "/a"));
        assert_eq!(recent.healed().count(), 0);
        recent.take(&notice(Event::DriftHealed, "/a"));
        let healed: Vec<_> = recent.healed().collect();
        assert_eq!(healed.len(), 1);
        assert!(matches!(&healed[0].actor, Some(Err(why)) if why == "nobody looked"));
        for n in 0..20 {
            recent.take(&notice(Event::DriftHealed, &format!("/{n}")));
        }
        assert_eq!(recent.healed().count(), MOST_HEALED);
        recent.take(&notice(Event::DriftDetected, "/19"));
        assert!(recent.healed().all(|healed| healed.path != "/19"));
    }

    #[test]
    fn a_loss_is_told_for_a_while() {
        let mut recent = Recent::default();
        let now = Instant::now();
        assert!(!recent.has_lost(0, now));
        assert!(recent.has_lost(2, now));
        assert!(recent.has_lost(2, now + LOSS / 2));
        assert!(!recent.has_lost(2, now + LOSS));
        assert!(recent.has_lost(3, now + LOSS));
    }
}
