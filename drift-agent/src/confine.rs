//! What each of the agent's processes may still do once it has begun: docs/security.md.
//!
//! All of it is about the calling thread and what that starts, so it comes before there is another thread.

mod capability;
mod fence;
mod filter;
mod owner;

pub use capability::{CAPABILITIES, Capability, Part, of, sees_trusted};
pub use owner::{give, is_own};

use std::path::Path;

use log::warn;
use rustix::{
    process::{DumpableBehavior, geteuid, set_dumpable_behavior},
    thread::{
        CapabilitySet, capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    },
};

/// The user and the group that the detector becomes: in a range that nobody gives to users, services or containers. It owns the state folder, and nothing else.
pub const DETECTOR: u32 = 60_700;

/// What has come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Who the process is now.
    pub user: u32,
    /// Landlock's version; or why it is not in force.
    pub landlock: Result<String, String>,
    /// Whether the filter of system calls is in force; why not.
    pub filter: Result<(), String>,
    /// What is missing, and what that means: a sentence each.
    pub lacks: Vec<String>,
}

/// Before [`detector`]: whether this process can become one that owns nothing.
#[must_use]
pub fn can_change_user() -> bool {
    // Without the right to read everything it would see less than root does; and without the right to write, the restorer could not write to its folder.
    let needed = CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::CHOWN
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::DAC_OVERRIDE;
    geteuid().is_root() && capability::effective().contains(needed)
}

/// What the process that looks keeps. `state`: where it may write. `sees_trusted`: it keeps CAP_SYS_ADMIN. `heals`: something may be put back by itself.
#[must_use]
pub fn detector(state: &Path, sees_trusted: bool, heals: bool) -> Confined {
    let mut kept = of(Part::Detector);
    if sees_trusted {
        kept |= CapabilitySet::SYS_ADMIN;
    }
    // Nobody misses what is of use after heals alone.
    let needed = if heals {
        kept
    } else {
        kept - CapabilitySet::CHECKPOINT_RESTORE
    };
    let mut confined = Confined::new(Part::Detector, needed);
    capability::bound(kept);
    let other_user = can_change_user() && become_nobody(&mut confined);
    confined.finish(kept, false, Part::Detector);
    // A process with Landlock is not told of others what they run and have open. So where another user keeps it from writing, it goes without.
    confined.landlock = if other_user {
        Err("not needed: the user that it is now owns nothing but the state folder".to_owned())
    } else {
        fence::detector(state)
    };
    if confined.landlock.is_ok() {
        confined.lacks.push(
            "the detecting process cannot become another user, so Landlock keeps it from writing, and records name who made a change without the executable, and nobody who still has a file that was replaced"
                .to_owned(),
        );
    }
    if let (false, Err(why)) = (other_user, &confined.landlock) {
        let user = confined.user;
        confined.lacks.push(format!(
            "the detecting process stays user {user}, and nothing but its missing capabilities keeps it from writing what that user may write: no Landlock ({why})"
        ));
    }
    confined.filter(Part::Detector)
}

/// What the process that starts the restorer keeps: what that needs.
#[must_use]
pub fn keeper() -> Confined {
    let kept = of(Part::Restorer);
    let mut confined = Confined::new(Part::Restorer, kept);
    capability::bound(kept);
    confined.finish(kept, true, Part::Restorer);
    confined.filter(Part::Restorer)
}

/// What the process that writes keeps: what the keeper has left it, and what it starts itself has less.
#[must_use]
pub fn restorer() -> Confined {
    let kept = of(Part::Restorer);
    let mut confined = Confined::new(Part::Restorer, kept);
    confined.finish(kept, false, Part::Restorer);
    confined
}

impl Confined {
    fn new(part: Part, needed: CapabilitySet) -> Self {
        Self {
            user: geteuid().as_raw(),
            landlock: Err("not asked for".to_owned()),
            filter: Ok(()),
            lacks: missing(part, needed),
        }
    }

    fn finish(&mut self, kept: CapabilitySet, inherited: bool, part: Part) {
        let mut failed = |what: &str, error: rustix::io::Errno| {
            self.lacks
                .push(format!("{what}: {}", std::io::Error::from(error)));
        };
        if let Err(error) = capability::keep(kept, inherited) {
            failed("capabilities cannot be given up", error);
        }
        if let Err(error) = set_no_new_privs(true) {
            failed("what it executes may gain privileges", error);
        }
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            failed("others may read its memory", error);
        }
        self.user = geteuid().as_raw();
        log::debug!("{part:?}: user {}, capabilities {kept:?}", self.user);
    }

    fn filter(mut self, part: Part) -> Self {
        self.filter = filter::apply(part);
        if let Err(why) = &self.filter {
            self.lacks
                .push(format!("no filter of system calls is in force ({why})"));
        }
        self
    }
}

/// Becomes [`DETECTOR`], and keeps what it may do.
fn become_nobody(confined: &mut Confined) -> bool {
    let (user, group) = (
        rustix::process::Uid::from_raw(DETECTOR),
        rustix::process::Gid::from_raw(DETECTOR),
    );
    let become_it = || {
        set_keep_capabilities(true)?;
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)
    };
    match become_it() {
        Ok(()) => true,
        Err(error) => {
            let error = std::io::Error::from(error);
            confined.lacks.push(format!(
                "the detecting process cannot become user {DETECTOR} ({error})"
            ));
            false
        }
    }
}

/// What a part of the agent needs and has not, a sentence each; one for all, where it has nothing.
fn missing(part: Part, needed: CapabilitySet) -> Vec<String> {
    let has = match capabilities(None) {
        Ok(sets) => sets.permitted,
        Err(error) => {
            warn!("which capabilities there are cannot be told: {error}");
            return Vec::new();
        }
    };
    let wanted = CAPABILITIES
        .iter()
        .filter(|each| each.part == part && needed.contains(each.set));
    if !has.intersects(of(part)) {
        let names: Vec<&str> = wanted.map(|each| each.name).collect();
        let user = geteuid().as_raw();
        return vec![match part {
            Part::Restorer => format!(
                "without capabilities ({}) only what user {user} may write is put back",
                names.join(", ")
            ),
            Part::Detector | Part::Start => format!(
                "without capabilities ({}) only what user {user} may read is seen",
                names.join(", ")
            ),
        }];
    }
    wanted
        .filter(|each| !has.contains(each.set))
        .map(|each| format!("without {} {}", each.name, each.without))
        .collect()
}
