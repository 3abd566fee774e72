//! The restorer: the one process that may write to the host, and how it is asked to (docs/security.md, ADR 0013).
//!
//! ```text
//! drift-agent run          hears, looks, compares, decides, reports          the detector
//!   keeper                 starts the restorer, and starts it again          one byte in, a socket out
//!     restorer             heals and changes versions, checks all of it      requests in, outcomes out
//! ```
//!
//! The detector says which declared path is to be put back, never with what. The restorer has read the policy folder itself.

mod channel;
mod check;
mod client;
mod keeper;
mod process;
mod serve;
mod vouch;
mod wire;

pub use check::believe;
pub use client::{Asked, Restorer, Turn};
pub use process::{hold, main};
pub use vouch::vouch_at_start;
pub use wire::{Answer, Heal, Held, Kind, Recovered, Request, request};

use std::{fs::File, io, path::Path};

use drift_common::policy::{Hold, Holds};

use crate::declare::Snapshot;

/// What a snapshot is: two processes that have read the same policies have the same.
#[must_use]
pub fn seal(snapshot: &Snapshot) -> String {
    let mut hasher = blake3::Hasher::new();
    for (policy, terms) in snapshot.policies.iter().zip(&snapshot.terms) {
        // The digest in it is that of all that the version declares.
        hasher.update(format!("{policy:?} {terms:?}\n").as_bytes());
    }
    for declared in &snapshot.files {
        // Names of users and groups are numbers here: they may be other ones meanwhile.
        hasher.update(
            format!(
                "{:?} {:?} {:?}\n",
                declared.path, declared.uid, declared.gid
            )
            .as_bytes(),
        );
    }
    hasher.finalize().to_string()
}

/// The versions that a snapshot has instead of those that its Policies say.
#[must_use]
pub fn held(snapshot: &Snapshot) -> Vec<Held> {
    let both = snapshot.policies.iter().zip(&snapshot.terms);
    both.filter(|(policy, terms)| policy.version != terms.said)
        .map(|(policy, terms)| Held {
            policy: policy.name.clone(),
            version: policy.version.clone(),
            instead_of: terms.said.clone(),
        })
        .collect()
}

/// As the reader of policies takes them. What is no version holds nothing.
fn holds(held: &[Held]) -> Holds {
    let each = held.iter().filter_map(|held| {
        let hold = Hold {
            version: held.version.parse().ok()?,
            instead_of: held.instead_of.parse().ok()?,
        };
        Some((held.policy.clone(), hold))
    });
    each.collect()
}

/// Where the restorer says that it is at work.
fn lock(state: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(state.join("restorer.lock"))
}
