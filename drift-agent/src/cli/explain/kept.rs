//! What the agent's state folder says of a path: what holds its healing back just now, and who changed it last. Nothing is locked or changed.

use std::{path::Path, time::SystemTime};

use drift_common::escape;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    declare::{Declared, Holds},
    report::shown,
    store::{Held, HeldBrake, Known, Store, read_history},
};

/// What is known, and what of it cannot be told.
#[derive(Debug, Default)]
pub(super) struct Kept {
    known: Known,
    /// Why there is none.
    trouble: Option<String>,
}

/// Of one path.
#[derive(Debug)]
pub(super) struct OfPath<'k> {
    brake: Option<HeldBrake>,
    /// Its policy has another version than the folder says.
    held: Option<&'k Held>,
    /// The last record in the history that names somebody.
    last: Option<Value>,
    trouble: Option<&'k str>,
}

impl Kept {
    pub(super) fn of(state: &Path) -> Self {
        match Store::peek(state) {
            Ok(known) => Self {
                known,
                trouble: None,
            },
            Err(error) => Self {
                known: Known::default(),
                trouble: Some(error.to_string()),
            },
        }
    }

    /// The versions that are held.
    pub(super) fn holds(&self) -> Holds {
        self.known.holding.holds()
    }

    pub(super) fn of_path(&self, state: &Path, declared: &Declared) -> OfPath<'_> {
        OfPath {
            brake: self.known.brakes.get(&declared.path).copied(),
            held: self.known.holding.held.get(&declared.policy.name),
            last: last_actor(state, &declared.path),
            trouble: self.trouble.as_deref(),
        }
    }
}

/// The last record of a path that says who. What cannot be read has nothing to say.
fn last_actor(state: &Path, path: &Path) -> Option<Value> {
    let path = shown(path).into_owned();
    // In the text of a record a path stands as JSON has it.
    let quoted = Value::from(path.as_str()).to_string();
    let mut last = None;
    let read = read_history(state, None, |line| {
        if line.contains(&quoted)
            && let Ok(record) = serde_json::from_str::<Value>(line)
            && record["path"] == path.as_str()
            && record["actor"].is_object()
        {
            last = Some(record);
        }
    });
    read.ok().and(last)
}

fn time(at: SystemTime) -> String {
    Timestamp::try_from(at).map_or_else(|_| "-".to_owned(), |at| format!("{at:.0}"))
}

impl OfPath<'_> {
    /// Until when it is left alone, and why.
    fn until(&self, now: SystemTime) -> Option<(SystemTime, &'static str)> {
        let brake = self.brake?;
        let contested = brake.contested.filter(|until| *until > now);
        let backoff = Some(brake.not_before).filter(|until| *until > now);
        contested
            .map(|until| (until, "fight"))
            .or(backoff.map(|until| (until, "backoff")))
    }

    pub(super) fn value(&self, now: SystemTime) -> Value {
        let healing = self.until(now).map(|(until, why)| {
            json!({"until": time(until), "guard": why, "heals_in_a_row": self.brake.map(|brake| brake.row)})
        });
        let version = self.held.map(|held| {
            json!({
                "version": held.version, "instead_of": held.instead_of, "since": time(held.since),
                "by": escape::printable(&held.by), "reason": escape::printable(&held.reason),
            })
        });
        let last = self.last.as_ref().map(
            |record| json!({"time": record["time"], "id": record["id"], "actor": record["actor"]}),
        );
        json!({"healing": healing, "version": version, "last_changed_by": last, "unknown": self.trouble})
    }

    /// Lines for people, each with what it is of.
    pub(super) fn lines(&self, now: SystemTime) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if let Some(held) = self.held {
            let by = escape::printable(&held.by);
            lines.push((
                "held",
                format!(
                    "its policy has {} instead of {} since {}, by {by}: {}",
                    escape::printable(&held.version),
                    escape::printable(&held.instead_of),
                    time(held.since),
                    escape::printable(&held.reason)
                ),
            ));
        }
        if let Some((until, why)) = self.until(now) {
            let heals = match self.brake.map_or(0, |brake| brake.row) {
                1 => "1 heal".to_owned(),
                row => format!("{row} heals"),
            };
            let until = time(until);
            let words = format!("until {until}, after {heals} in a row (guard.{why})");
            lines.push(("held back", words));
        }
        if let Some(record) = &self.last {
            let actor = &record["actor"];
            let comm = escape::printable(actor["comm"].as_str().unwrap_or("?"));
            let user = match actor["uid"].as_u64() {
                Some(0) => "root".to_owned(),
                uid => format!("uid {}", uid.unwrap_or_default()),
            };
            let pid = actor["pid"].as_u64().unwrap_or_default();
            let time = record["time"].as_str().unwrap_or("-");
            let time = escape::printable(time);
            lines.push(("changed by", format!("{comm} (pid {pid}, {user}), {time}")));
        }
        if let Some(trouble) = self.trouble {
            lines.push((
                "not known",
                format!(
                    "what holds it back just now: {}",
                    escape::printable(trouble)
                ),
            ));
        }
        lines
    }
}
