//! Each hook, tried: its program loaded, then attached to each of its places. What this kernel refuses is left out by itself, with the reason.

use std::path::Path;

use aya::{
    Ebpf,
    programs::{
        ProgramError, RawTracePoint, TracePoint, raw_trace_point::RawTracePointLink,
        trace_point::TracePointLink,
    },
};
use drift_common::abi::Offsets;
use log::{debug, warn};

use super::{
    hook::{HOOKS, Hook, Place, URING},
    refused::{Refused, denied, sentence},
};

/// What became of one hook in this kernel.
#[derive(Debug)]
pub struct Tried {
    pub hook: &'static Hook,
    /// Why its program was not loaded, if it was not.
    pub refused: Option<String>,
    /// In the hook's order; empty where the program was refused.
    pub places: Vec<(Place, Fate)>,
}

/// What became of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Attached,
    /// This kernel, or this processor, does not have it: nothing can be missed there.
    Absent,
    /// It is there, and the program could not be attached to it: why.
    Refused(String),
}

impl Tried {
    /// Whether it sees anything at all.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.places.iter().any(|(_, fate)| *fate == Fate::Attached)
    }

    /// Whether it misses something that happens here.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.refused.is_some()
            || self.places.iter().any(|(place, fate)| match fate {
                Fate::Attached => false,
                Fate::Refused(_) => true,
                // A call that is not there cannot be made. What any other place sees happens all the same, unseen.
                Fate::Absent => !matches!(place, Place::Tracepoint("syscalls", _)),
            })
    }
}

/// What keeps the programs attached.
#[derive(Default)]
pub(super) struct Links {
    tracepoints: Vec<TracePointLink>,
    raw: Vec<RawTracePointLink>,
}

impl Drop for Links {
    /// The kernel waits for a grace period of some 50 ms for each perf tracepoint that is let go (`perf_event_detach_bpf_prog` since 6.13). Side by side they
    /// share it: 1 s instead of 4.
    fn drop(&mut self) {
        self.raw.clear();
        std::thread::scope(|scope| {
            for link in self.tracepoints.drain(..) {
                // Where no thread can be had the link is dropped with the closure, here.
                let _detached_here =
                    std::thread::Builder::new().spawn_scoped(scope, move || drop(link));
            }
        });
    }
}

/// Tries every hook. An error: nothing can be seen here, or something that all the rest needs cannot.
pub(super) fn attach(
    ebpf: &mut Ebpf,
    offsets: &Offsets,
    tracefs: &Path,
) -> Result<(Vec<Tried>, Links), Refused> {
    let mut links = Links::default();
    let mut all = Vec::new();
    for hook in HOOKS {
        let known = match hook.program {
            URING if !offsets.has_requests() => Err(Refused::Program {
                program: hook.program,
                reason: "this kernel does not tell which request io_uring has completed".to_owned(),
            }),
            _ => Ok(()),
        };
        let tried = match known.and_then(|()| try_hook(ebpf, hook, tracefs, &mut links)) {
            Ok(places) => Tried {
                hook,
                refused: None,
                places,
            },
            // Without the capability, or without what the others need, there is no sensor.
            Err(refused @ Refused::NotAllowed(_)) => return Err(refused),
            Err(refused) if hook.is_essential() => return Err(refused),
            Err(refused) => {
                warn!("{refused}: going on without it");
                Tried {
                    hook,
                    refused: Some(refused.to_string()),
                    places: Vec::new(),
                }
            }
        };
        if hook.is_essential() && !tried.is_attached() {
            return Err(Refused::Program {
                program: hook.program,
                reason: "none of its places is in this kernel, which must be built with CONFIG_FTRACE_SYSCALLS".to_owned(),
            });
        }
        all.push(tried);
    }
    Ok((all, links))
}

fn try_hook(
    ebpf: &mut Ebpf,
    hook: &'static Hook,
    tracefs: &Path,
    links: &mut Links,
) -> Result<Vec<(Place, Fate)>, Refused> {
    let wrong = |error: &ProgramError| Refused::Program {
        program: hook.program,
        reason: sentence(error),
    };
    let program = ebpf
        .program_mut(hook.program)
        .ok_or_else(|| Refused::Program {
            program: hook.program,
            reason: "it is not in this agent's object file".to_owned(),
        })?;
    let raw = matches!(hook.places.first(), Some(Place::Raw(_)));
    if raw {
        let program: &mut RawTracePoint = program.try_into().map_err(|error| wrong(&error))?;
        program
            .load()
            .map_err(|error| denied(&error, hook.program))?;
        let mut at = |name| {
            let link = program.attach(name)?;
            links.raw.push(program.take_link(link)?);
            Ok(())
        };
        places(hook, |place| match place {
            Place::Raw(name) => raw_fate(at(name)),
            Place::Tracepoint(..) => Ok(Fate::Absent),
        })
    } else {
        let program: &mut TracePoint = program.try_into().map_err(|error| wrong(&error))?;
        program
            .load()
            .map_err(|error| denied(&error, hook.program))?;
        let mut at = |category: &str, name: &str| {
            let link = program.attach(category, name)?;
            links.tracepoints.push(program.take_link(link)?);
            Ok(())
        };
        places(hook, |place| match place {
            Place::Tracepoint(category, name) => {
                if !tracefs.join("events").join(category).join(name).exists() {
                    return Ok(Fate::Absent);
                }
                fate(at(category, name), hook.program)
            }
            Place::Raw(_) => Ok(Fate::Absent),
        })
    }
}

fn places(
    hook: &'static Hook,
    mut each: impl FnMut(Place) -> Result<Fate, Refused>,
) -> Result<Vec<(Place, Fate)>, Refused> {
    hook.places
        .iter()
        .map(|place| {
            let fate = each(*place)?;
            debug!("{place}: {fate:?}");
            Ok((*place, fate))
        })
        .collect()
}

fn fate(attached: Result<(), ProgramError>, program: &'static str) -> Result<Fate, Refused> {
    match attached {
        Ok(()) => Ok(Fate::Attached),
        Err(error) => match denied(&error, program) {
            refused @ Refused::NotAllowed(_) => Err(refused),
            _ => Ok(Fate::Refused(sentence(&error))),
        },
    }
}

/// A raw tracepoint that this kernel does not have is told by ENOENT.
fn raw_fate(attached: Result<(), ProgramError>) -> Result<Fate, Refused> {
    Ok(match attached {
        Ok(()) => Fate::Attached,
        Err(ProgramError::SyscallError(error))
            if error.io_error.kind() == std::io::ErrorKind::NotFound =>
        {
            Fate::Absent
        }
        Err(error) => Fate::Refused(sentence(&error)),
    })
}
