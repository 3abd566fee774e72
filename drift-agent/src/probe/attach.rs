//! Each hook, tried: its program loaded, then attached to each of its places. What this kernel refuses is left out by itself, with the reason; where something
//! else sees the same, that takes its place.

use std::{collections::HashMap, path::Path};

use aya::{
    Btf, Ebpf,
    programs::{
        FEntry, FExit, ProgramError, RawTracePoint, TracePoint, fentry::FEntryLink,
        fexit::FExitLink, raw_trace_point::RawTracePointLink, trace_point::TracePointLink,
    },
};
use drift_common::abi::Function;
use log::{debug, warn};

use super::{
    Sensor,
    btf::BtfError,
    hook::{Hook, Place, hooks, named},
    refused::{Refused, denied, sentence},
    support, tracefs,
};

/// What became of one hook in this kernel.
#[derive(Debug)]
pub struct Tried {
    pub hook: &'static Hook,
    /// Why its program was not loaded, if it was not.
    pub refused: Option<String>,
    /// In the hook's order; empty where the program was refused.
    pub places: Vec<(Place, Fate)>,
    /// The programs that see in another way what this one does not.
    pub instead: &'static [&'static str],
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

    /// Whether something happens here unseen.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.misses() && self.instead.is_empty()
    }

    /// Whether it misses something that happens here.
    fn misses(&self) -> bool {
        self.refused.is_some()
            || self.places.iter().any(|(place, fate)| match fate {
                Fate::Attached => false,
                Fate::Refused(_) => true,
                // A call that is not there cannot be made. What any other place sees happens all the same, unseen.
                Fate::Absent => {
                    !matches!(place, Place::Tracepoint("syscalls", _)) && !self.hook.may_be_absent
                }
            })
    }
}

/// What keeps the programs attached.
#[derive(Default)]
pub(super) struct Links {
    tracepoints: Vec<TracePointLink>,
    raw: Vec<RawTracePointLink>,
    begins: Vec<FEntryLink>,
    ends: Vec<FExitLink>,
}

impl Drop for Links {
    /// The kernel waits for a grace period of some 50 ms for each perf tracepoint that is let go (`perf_event_detach_bpf_prog` since 6.13). Side by side they
    /// share it: 1 s instead of 4.
    fn drop(&mut self) {
        self.raw.clear();
        self.begins.clear();
        self.ends.clear();
        std::thread::scope(|scope| {
            for link in self.tracepoints.drain(..) {
                // Where no thread can be had the link is dropped with the closure, here.
                let _detached_here =
                    std::thread::Builder::new().spawn_scoped(scope, move || drop(link));
            }
        });
    }
}

/// What programs on functions are attached by.
pub(super) struct Functions<'a> {
    /// `None`: it cannot be read, and no function has a number.
    pub btf: Option<&'a Btf>,
    /// Functions whose parameters are not understood.
    pub refused: &'a HashMap<Function, BtfError>,
}

/// Tries every hook of a sensor. An error: nothing can be seen in that way, or something that all the rest needs cannot.
pub(super) fn attach(
    ebpf: &mut Ebpf,
    sensor: Sensor,
    functions: &Functions<'_>,
) -> Result<(Vec<Tried>, Links), Refused> {
    let mut attaching = Attaching {
        ebpf,
        functions,
        links: Links::default(),
        all: Vec::new(),
    };
    match sensor {
        Sensor::Tracepoint => tracefs::with(|tracefs| attaching.table(sensor, Some(tracefs)))?,
        Sensor::Btf => {
            attaching
                .table(sensor, None)
                .map_err(|refused| refused.on_functions(support::may_load()))?;
            attaching.stand_in(None);
            if attaching.all.iter().any(Tried::is_blind) {
                let stood_in = tracefs::with(|tracefs| {
                    attaching.stand_in(Some(tracefs));
                    Ok(())
                });
                // Then it stays unseen, and that is said.
                if let Err(refused) = stood_in {
                    warn!("{refused}");
                }
            }
        }
    }
    Ok((attaching.all, attaching.links))
}

struct Attaching<'a> {
    ebpf: &'a mut Ebpf,
    functions: &'a Functions<'a>,
    links: Links,
    all: Vec<Tried>,
}

impl Attaching<'_> {
    /// Tries a sensor's hooks.
    fn table(&mut self, sensor: Sensor, tracefs: Option<&Path>) -> Result<(), Refused> {
        for hook in hooks(sensor) {
            let tried = self.hook(hook, tracefs)?;
            if hook.is_essential() && !tried.is_attached() {
                return Err(Refused::Program {
                    program: hook.program,
                    reason: nowhere(&tried),
                });
            }
            self.all.push(tried);
        }
        Ok(())
    }

    /// Tries what sees in another way what could not be attached. Tracepoints only where tracefs is at hand.
    fn stand_in(&mut self, tracefs: Option<&Path>) {
        // What stands in may be stood in for itself: behind the end of the list.
        let mut index = 0;
        while index < self.all.len() {
            if self.all[index].is_blind() {
                let hook = self.all[index].hook;
                if self.all_see(hook.instead, tracefs) {
                    self.all[index].instead = hook.instead;
                }
            }
            index += 1;
        }
    }

    /// Whether all of these programs see what they should, attached now if they are not yet.
    fn all_see(&mut self, programs: &'static [&'static str], tracefs: Option<&Path>) -> bool {
        let mut all_see = !programs.is_empty();
        for program in programs {
            if !self.all.iter().any(|tried| tried.hook.program == *program) {
                let Some(hook) = named(program) else {
                    all_see = false;
                    continue;
                };
                if tracefs.is_none() && !hook.is_on_function() {
                    return false;
                }
                match self.hook(hook, tracefs) {
                    Ok(tried) => self.all.push(tried),
                    Err(refused) => {
                        warn!("{refused}: going on without it");
                        all_see = false;
                        continue;
                    }
                }
            }
            let position = self
                .all
                .iter()
                .position(|tried| tried.hook.program == *program);
            let Some(position) = position else {
                return false;
            };
            if self.all[position].is_blind() {
                let instead = self.all[position].hook.instead;
                if self.all_see(instead, tracefs) {
                    self.all[position].instead = instead;
                } else {
                    all_see = false;
                }
            }
        }
        all_see
    }

    /// Tries one hook. An error: without it, or without the capability that is missing, there is no sensor.
    fn hook(&mut self, hook: &'static Hook, tracefs: Option<&Path>) -> Result<Tried, Refused> {
        let (refused, places) = match self.places(hook, tracefs) {
            Ok(places) => (None, places),
            Err(refused) if hook.is_essential() => return Err(refused),
            Err(refused @ Refused::NotAllowed(_)) if !hook.is_on_function() => return Err(refused),
            Err(refused) => {
                warn!("{refused}: going on without it");
                (Some(refused.to_string()), Vec::new())
            }
        };
        Ok(Tried {
            hook,
            refused,
            places,
            instead: &[],
        })
    }

    fn places(
        &mut self,
        hook: &'static Hook,
        tracefs: Option<&Path>,
    ) -> Result<Vec<(Place, Fate)>, Refused> {
        let mut loaded = false;
        let mut places = Vec::with_capacity(hook.places.len());
        for place in hook.places {
            let fate = match *place {
                Place::Begin(function) | Place::End(function) => {
                    self.function(hook, *place, function)?
                }
                Place::Raw(name) => self.raw(hook, name)?,
                Place::Tracepoint(category, name) => {
                    let Some(tracefs) = tracefs else {
                        return Err(Refused::Program {
                            program: hook.program,
                            reason: "the tracing file system is not at hand".to_owned(),
                        });
                    };
                    if !loaded {
                        self.program::<TracePoint>(hook)?
                            .load()
                            .map_err(|error| denied(&error, hook.program))?;
                        loaded = true;
                    }
                    if tracefs.join("events").join(category).join(name).exists() {
                        fate(self.tracepoint(hook, category, name), hook.program)?
                    } else {
                        Fate::Absent
                    }
                }
            };
            debug!("{place}: {fate:?}");
            places.push((*place, fate));
        }
        Ok(places)
    }

    /// The program of a hook, of the type it must have.
    fn program<'p, P>(&'p mut self, hook: &Hook) -> Result<&'p mut P, Refused>
    where
        &'p mut P: TryFrom<&'p mut aya::programs::Program, Error = ProgramError>,
    {
        let program = hook.program;
        self.ebpf
            .program_mut(program)
            .ok_or_else(|| Refused::Program {
                program,
                reason: "it is not in this agent's object file".to_owned(),
            })?
            .try_into()
            .map_err(|error: ProgramError| Refused::Program {
                program,
                reason: sentence(&error),
            })
    }

    fn tracepoint(&mut self, hook: &Hook, category: &str, name: &str) -> Result<(), ProgramError> {
        // It was there, and of this type, when it was loaded.
        let program: &mut TracePoint = self
            .ebpf
            .program_mut(hook.program)
            .ok_or(ProgramError::NotLoaded)?
            .try_into()?;
        let link = program.attach(category, name)?;
        self.links.tracepoints.push(program.take_link(link)?);
        Ok(())
    }

    fn raw(&mut self, hook: &Hook, name: &str) -> Result<Fate, Refused> {
        let program = self.program::<RawTracePoint>(hook)?;
        program
            .load()
            .map_err(|error| denied(&error, hook.program))?;
        let link = program
            .attach(name)
            .and_then(|link| program.take_link(link));
        raw_fate(link.map(|link| self.links.raw.push(link)))
    }

    /// Each program is loaded for its one function.
    fn function(
        &mut self,
        hook: &'static Hook,
        place: Place,
        function: Function,
    ) -> Result<Fate, Refused> {
        match self.functions.refused.get(&function) {
            Some(BtfError::NoFunction { .. }) => return Ok(Fate::Absent),
            Some(other) => return Ok(Fate::Refused(other.to_string())),
            None => {}
        }
        let Some(btf) = self.functions.btf else {
            return Ok(Fate::Refused(
                "the kernel's BTF cannot be read as a whole".to_owned(),
            ));
        };
        let wrong = |error: ProgramError| denied(&error, hook.program);
        // Tracing may be switched off for this function, or there be no way to it on this processor (arm64 before 6.4).
        let at = |error: ProgramError| Refused::Program {
            program: hook.program,
            reason: sentence(&error),
        };
        if let Place::Begin(_) = place {
            let program = self.program::<FEntry>(hook)?;
            program.load(function.name(), btf).map_err(wrong)?;
            let link = program
                .attach()
                .and_then(|link| program.take_link(link))
                .map_err(at)?;
            self.links.begins.push(link);
        } else {
            let program = self.program::<FExit>(hook)?;
            program.load(function.name(), btf).map_err(wrong)?;
            let link = program
                .attach()
                .and_then(|link| program.take_link(link))
                .map_err(at)?;
            self.links.ends.push(link);
        }
        Ok(Fate::Attached)
    }
}

/// Why something that all the rest needs is attached to nothing.
fn nowhere(tried: &Tried) -> String {
    let refused = tried.places.iter().find_map(|(place, fate)| match fate {
        Fate::Refused(why) => Some(format!("not at {place}: {why}")),
        Fate::Absent | Fate::Attached => None,
    });
    match refused {
        Some(why) => why,
        None if tried.hook.is_on_function() => "its function is not in this kernel".to_owned(),
        None => {
            "none of its places is in this kernel, which must be built with CONFIG_FTRACE_SYSCALLS"
                .to_owned()
        }
    }
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
