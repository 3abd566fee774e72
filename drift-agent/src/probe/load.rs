//! Load the programs, attach them, hand out the ends.

use std::{
    fs, io,
    os::fd::{AsFd as _, AsRawFd as _, RawFd},
};

use aya::{
    Btf, Ebpf, EbpfError, EbpfLoader, Endianness,
    maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, RingBuf},
    programs::Program,
};
use aya_log::EbpfLogger;
use drift_common::abi::Knobs;
use log::{Log, debug, warn};
use zerocopy::IntoBytes;

use crate::observe::{boot_ns, start_ticks};

use super::{
    Sensor,
    attach::{Functions, Links, Tried, attach},
    counters::Counters,
    layout::layout,
    links::Standing,
    mirror::{Bits, Mirror, Single},
    refused::{Refused, not_allowed, sentence},
    tables, tracefs,
    watch::{Maps, Watch},
};

#[cfg(drift_probes)]
static PROGRAMS: Option<&[u8]> = Some(aya::include_bytes_aligned!(env!("DRIFT_PROBES")));
#[cfg(not(drift_probes))]
static PROGRAMS: Option<&[u8]> = None;

pub(super) const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Where overlay is a module, and the kernel (5.11 or newer) has what it says of its types.
const OVERLAY_BTF: &str = "/sys/kernel/btf/overlay";

/// Objects (paths, directories, names) that the kernel tables hold at most: 24 bytes of mark each, and about 100 in each table.
const MOST_OBJECTS: usize = 1 << 20;

/// How to load the kernel half.
#[derive(Clone, Copy, Debug)]
pub struct ProbeSettings {
    /// The only one that will do; `None`: the best that this kernel lets run.
    pub sensor: Option<Sensor>,
    /// Objects to have room for.
    pub objects: usize,
    /// Bytes of the ring of changes: a power of two, at least a page.
    pub ring: u32,
    /// Let the programs log what they do.
    pub debug: bool,
}

/// The loaded and attached kernel half.
pub struct Probe {
    /// Doorbells.
    pub changes: RingBuf<MapData>,
    /// Opens and reads.
    pub loads: RingBuf<MapData>,
    pub counters: Counters,
    pub watch: Watch,
    pub sensor: Sensor,
    /// Why it is not a better one.
    pub no_better: Option<Refused>,
    /// What became of each hook.
    pub tried: Vec<Tried>,
    /// Room for objects.
    pub capacity: usize,
    /// Bytes that the kernel tables take, as far as the kernel says it.
    pub table_bytes: Option<u64>,
    /// What the programs say of themselves.
    pub said: Option<Said>,
    pub attached: Attached,
}

/// What keeps the programs loaded and attached. Dropping it detaches and unloads everything.
pub struct Attached {
    _links: Links,
    _programs: Ebpf,
    standing: Standing,
}

impl Attached {
    /// The programs that are not attached any more, or not everywhere they were.
    #[must_use]
    pub fn detached(&self) -> Vec<String> {
        self.standing.detached()
    }

    /// Lets go what is left after somebody has closed descriptors of links. Where their numbers are in use by now it is kept until the end instead.
    pub fn let_go(self) {
        if !self.standing.fill_gaps() {
            warn!("kernel programs that were detached in part stay loaded until the agent ends");
            std::mem::forget(self);
        }
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe")
            .field("sensor", &self.sensor)
            .field("hooks", &self.hooks())
            .field("unseen", &self.unseen())
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl Probe {
    /// Loads and attaches. Errors: a sentence with what to do, and nothing stays attached.
    pub fn load(settings: ProbeSettings) -> Result<Probe, Refused> {
        tracefs::apart(move || Probe::load_here(settings))
            .map_err(|error| Refused::Load(error.to_string()))?
            .map_err(|refused| {
                let uname = rustix::system::uname();
                refused.in_kernel(&uname.release().to_string_lossy())
            })
    }

    fn load_here(settings: ProbeSettings) -> Result<Probe, Refused> {
        let mut follows_types = true;
        let first = Probe::load_with(settings, &mut follows_types);
        let is_refused = match &first {
            Ok(probe) => probe.tried.iter().any(|tried| tried.refused.is_some()),
            Err(refused) => matches!(refused, Refused::Program { .. }),
        };
        if !is_refused || !follows_types {
            return first;
        }
        // It may be the short way to descriptors that this kernel's verifier does not take.
        debug!("a program was refused: all of them again, without following types");
        let refusals = |probe: &Probe| {
            let tried = probe.tried.iter();
            tried.filter(|tried| tried.refused.is_some()).count()
        };
        match (first, Probe::load_with(settings, &mut false)) {
            (Ok(first), Ok(second)) if refusals(&second) < refusals(&first) => Ok(second),
            (Err(_), second) => second,
            (first, _) => first,
        }
    }

    /// `follows_types`: whether the short way to descriptors is to be taken, and, afterwards, whether it was: not every kernel has it.
    fn load_with(settings: ProbeSettings, follows_types: &mut bool) -> Result<Probe, Refused> {
        let programs = PROGRAMS.ok_or(Refused::NotBuiltIn)?;
        if settings.objects > MOST_OBJECTS {
            return Err(Refused::TooMany(settings.objects, MOST_OBJECTS));
        }
        let bytes = fs::read(BTF).map_err(|source| Refused::NoBtf {
            path: BTF.into(),
            source,
        })?;
        let overlay = match fs::read(OVERLAY_BTF) {
            Ok(overlay) => Some(overlay),
            Err(error) => {
                // Built in, not loaded, or a kernel that does not say it: the usual case.
                if error.kind() != io::ErrorKind::NotFound {
                    debug!("{OVERLAY_BTF}: {error}");
                }
                None
            }
        };
        let (offsets, known) = layout(&bytes, overlay.as_deref())?;
        *follows_types &= known.has_typed_task;
        let knobs = Knobs {
            agent_tgid: own_tgid().map_err(|error| Refused::Load(error.to_string()))?,
            follows_types: u32::from(*follows_types),
            agent_start: own_start().map_err(|error| Refused::Load(error.to_string()))?,
        };
        let capacity = (settings.objects * 2)
            .next_power_of_two()
            .clamp(1024, MOST_OBJECTS);
        let log_level: u8 = if settings.debug { 4 } else { 0 };
        #[expect(
            clippy::needless_late_init,
            reason = "the loader borrows it, and must go first"
        )]
        let whole;
        let mut loader = EbpfLoader::new();
        // It has read the same for itself: 10 MiB, which are let go before they are there twice.
        loader.btf(None);
        whole = Btf::parse(&bytes, Endianness::default()).ok();
        drop(bytes);
        loader
            .btf(whole.as_ref())
            .override_global("OFFSETS", offsets.as_bytes(), true)
            .override_global("SIGNATURES", known.signatures.as_bytes(), true)
            .override_global("KNOBS", knobs.as_bytes(), true)
            .override_global(aya_log::LEVEL, &log_level, false)
            .map_max_entries("CHANGES", settings.ring);
        for map in [
            "LEVELS",
            "SLOTS",
            "INODES",
            "DIRS",
            "NAMES",
            "NAMES_ANYWHERE",
        ] {
            loader.map_max_entries(map, capacity as u32);
        }
        let mut ebpf = loader.load(programs).map_err(|error| refusal(&error))?;
        // What is taken out below is not there to be asked any more.
        let table_bytes = tables::bytes(&ebpf)
            .inspect_err(|error| debug!("what the kernel tables take is not known: {error}"))
            .ok();
        let functions = Functions {
            btf: whole.as_ref(),
            refused: &known.refused,
            requests: offsets.has_requests(),
        };
        let mut no_better = None;
        let (sensor, (tried, links)) = match settings.sensor {
            Some(sensor) => (sensor, attach(&mut ebpf, sensor, &functions)?),
            None => match attach(&mut ebpf, Sensor::Btf, &functions) {
                Ok(attached) => (Sensor::Btf, attached),
                Err(refused) => {
                    debug!("sensor btf: {refused}");
                    let attached = attach(&mut ebpf, Sensor::Tracepoint, &functions)?;
                    no_better = Some(refused);
                    (Sensor::Tracepoint, attached)
                }
            },
        };
        let said = settings.debug.then(|| hear_programs(&mut ebpf)).flatten();
        let levels = take(&mut ebpf, "LEVELS")?;
        let levels_fd = match &levels {
            Map::Array(data) => data.fd().as_fd().try_clone_to_owned(),
            _ => Err(io::Error::other("`LEVELS` is no array")),
        }
        .map_err(|error| Refused::Load(error.to_string()))?;
        let probe = Probe {
            changes: RingBuf::try_from(take(&mut ebpf, "CHANGES")?)
                .map_err(|error| map_refusal(&error))?,
            loads: RingBuf::try_from(take(&mut ebpf, "LOADS")?)
                .map_err(|error| map_refusal(&error))?,
            counters: Counters::new(
                PerCpuArray::try_from(take(&mut ebpf, "COUNTERS")?)
                    .map_err(|error| map_refusal(&error))?,
                may_be_left_out(&ebpf),
            ),
            watch: Watch::new(Maps {
                levels_fd,
                levels: Array::try_from(levels).map_err(|error| map_refusal(&error))?,
                slots: Array::try_from(take(&mut ebpf, "SLOTS")?)
                    .map_err(|error| map_refusal(&error))?,
                maybe: Bits::new(take(&mut ebpf, "MAYBE")?).map_err(|error| map_refusal(&error))?,
                inodes: Mirror::new("INODES", take(&mut ebpf, "INODES")?)
                    .map_err(|error| map_refusal(&error))?,
                dirs: Mirror::new("DIRS", take(&mut ebpf, "DIRS")?)
                    .map_err(|error| map_refusal(&error))?,
                names: Mirror::new("NAMES", take(&mut ebpf, "NAMES")?)
                    .map_err(|error| map_refusal(&error))?,
                names_anywhere: Mirror::new("NAMES_ANYWHERE", take(&mut ebpf, "NAMES_ANYWHERE")?)
                    .map_err(|error| map_refusal(&error))?,
                learned: HashMap::try_from(take(&mut ebpf, "LEARNED")?)
                    .map_err(|error| map_refusal(&error))?,
                readers: HashMap::try_from(take(&mut ebpf, "READERS")?)
                    .map_err(|error| map_refusal(&error))?,
                read_armed: Array::try_from(take(&mut ebpf, "READ_ARMED")?)
                    .map_err(|error| map_refusal(&error))?,
                restorer: Single::new("RESTORER", take(&mut ebpf, "RESTORER")?)
                    .map_err(|error| map_refusal(&error))?,
            }),
            sensor,
            no_better,
            tried,
            capacity,
            table_bytes,
            said,
            attached: Attached {
                standing: Standing::now(&ebpf),
                _links: links,
                _programs: ebpf,
            },
        };
        probe.answers()?;
        Ok(probe)
    }

    /// Programs that are attached to at least one place.
    #[must_use]
    pub fn hooks(&self) -> usize {
        self.tried
            .iter()
            .filter(|tried| tried.is_attached())
            .count()
    }

    /// What this kernel cannot show, a phrase each.
    #[must_use]
    pub fn unseen(&self) -> Vec<&'static str> {
        let mut unseen: Vec<&str> = self
            .tried
            .iter()
            .filter(|tried| tried.is_blind())
            .map(|tried| tried.hook.sees)
            .collect();
        unseen.dedup();
        unseen
    }

    /// The first question to the kernel half: what is `/`? No answer means that it knows this process by another number.
    fn answers(&self) -> Result<(), Refused> {
        let since = boot_ns();
        let root = fs::File::open("/").map_err(|error| Refused::Load(error.to_string()))?;
        let learned = self.watch.learned_of(root.as_fd(), since);
        learned.map(|_| ()).ok_or(Refused::PidNamespace)
    }
}

/// Programs that the kernel does not begin where another task was put off in the midst of the same one; or, those of tracepoints, in the midst of any, or of a change
/// of a table.
fn may_be_left_out(ebpf: &Ebpf) -> Vec<RawFd> {
    ebpf.programs()
        .filter(|(_, program)| {
            matches!(
                program,
                Program::FEntry(_)
                    | Program::FExit(_)
                    | Program::RawTracePoint(_)
                    | Program::TracePoint(_)
            )
        })
        .filter_map(|(_, program)| program.fd().ok())
        .map(|fd| fd.as_fd().as_raw_fd())
        .collect()
}

/// The thread group's number in the initial pid namespace, as far as /proc tells it.
pub fn own_tgid() -> io::Result<u32> {
    let status = fs::read_to_string("/proc/self/status")?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))
        .and_then(|numbers| numbers.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/self/status has no NSpid line"))
}

/// When this process started, in ticks since boot.
pub fn own_start() -> io::Result<u64> {
    start_ticks(&fs::read("/proc/self/stat")?)
        .ok_or_else(|| io::Error::other("/proc/self/stat has no start time"))
}

fn take(ebpf: &mut Ebpf, name: &str) -> Result<Map, Refused> {
    ebpf.take_map(name)
        .ok_or_else(|| Refused::Load(format!("the object file has no map `{name}`")))
}

fn map_refusal(error: &MapError) -> Refused {
    Refused::Load(sentence(error))
}

fn refusal(error: &EbpfError) -> Refused {
    match not_allowed(error) {
        Some(io) => Refused::NotAllowed(io),
        None => Refused::Load(sentence(error)),
    }
}

/// The programs' own log, which goes where the agent's goes. Losing it loses nothing but the log.
pub struct Said(EbpfLogger<&'static dyn Log>);

impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Said").finish_non_exhaustive()
    }
}

fn hear_programs(ebpf: &mut Ebpf) -> Option<Said> {
    EbpfLogger::init(ebpf)
        .inspect_err(|error| warn!("the kernel programs' log cannot be read: {error}"))
        .ok()
        .map(Said)
}

impl Said {
    /// In a thread of its own, from now on.
    pub fn pass_on(mut self) {
        let pump = std::thread::Builder::new()
            .name("probe-log".into())
            .spawn(move || {
                loop {
                    self.0.flush();
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
            });
        if let Err(error) = pump {
            warn!("the kernel programs' log cannot be read: {error}");
        }
    }
}
