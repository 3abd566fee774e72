//! What can be held back with a file alone, by hands that have no drift-agent at hand.
//!
//! * The kill switch: anything at all with the name `kill-switch` in the state folder. It holds until it is removed.
//! * The break-glass file: `/run/drift/break-glass`, or `break-glass` in the state folder. It holds for an hour from its last change, or for what it says itself
//!   (`for 2h`, `until 2026-11-29T22:00:00Z` in its first line), at most a day. The rest of it says why. One that others than root and who runs the agent could
//!   have made or changed holds nothing, which is said.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use drift_common::escape::{self, printable};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{Kind, Stop};
use crate::{confine, serve::rfc3339};

/// Where the break-glass file is looked for beside the state folder.
pub const BREAK_GLASS: &str = "/run/drift/break-glass";

const KILL_SWITCH: &str = "kill-switch";
const GLASS: &str = "break-glass";

/// Bytes of such a file that are read.
const MOST_READ: u64 = 4096;
/// Characters of a reason that are shown.
const MOST_REASON: usize = 200;
/// How long a break-glass file holds that says nothing.
const USUAL: Duration = Duration::from_hours(1);
/// How long one holds at most.
const LONGEST: Duration = Duration::from_hours(24);

/// Where to look.
#[derive(Clone, Debug)]
pub struct Files {
    kill_switch: PathBuf,
    /// The one that holds longest counts.
    glass: [PathBuf; 2],
    /// Beside root, who may hold healing back so.
    owner: u32,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    kill_switch: Option<KillSwitch>,
    glass: Option<Glass>,
    /// Files that hold nothing, and why: a sentence each.
    pub refused: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KillSwitch {
    path: PathBuf,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Glass {
    path: PathBuf,
    until: SystemTime,
    by: u32,
    reason: String,
}

impl Files {
    /// Those of a state folder; `glass`: the break-glass file outside of it.
    #[must_use]
    pub fn of(state: &Path, glass: &Path) -> Self {
        Self {
            kill_switch: state.join(KILL_SWITCH),
            glass: [glass.to_owned(), state.join(GLASS)],
            owner: rustix::process::geteuid().as_raw(),
        }
    }

    /// Looks at them. Three calls of the system where there are none.
    #[must_use]
    pub fn look(&self) -> Found {
        let mut found = Found::default();
        // What cannot be told is taken for switched off: healing less is what it is for.
        if let Some(reason) = present(&self.kill_switch) {
            found.kill_switch = Some(KillSwitch {
                path: self.kill_switch.clone(),
                reason,
            });
        }
        for path in &self.glass {
            match self.glass(path) {
                Ok(Some(glass)) => {
                    if found
                        .glass
                        .as_ref()
                        .is_none_or(|other| other.until < glass.until)
                    {
                        found.glass = Some(glass);
                    }
                }
                Ok(None) => {}
                Err(why) => found.refused.push(format!(
                    "the break-glass file {} holds nothing: {why}",
                    escape::path(path)
                )),
            }
        }
        found
    }

    fn glass(&self, path: &Path) -> Result<Option<Glass>, String> {
        let file = match open(path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            Err(Errno::LOOP) => return Err("it is a symbolic link".to_owned()),
            Err(error) => return Err(format!("it cannot be opened ({error})")),
        };
        let meta = file.metadata().map_err(|error| error.to_string())?;
        let trusted = |uid: u32| uid == 0 || uid == self.owner || confine::is_own(uid);
        if !meta.is_file() {
            return Err("it is no regular file".to_owned());
        }
        if !trusted(meta.uid()) {
            return Err(format!("it belongs to uid {}, not to root", meta.uid()));
        }
        if meta.mode() & 0o022 != 0 {
            return Err(
                "its group or others may write to it: chmod 0644, and look at what it says"
                    .to_owned(),
            );
        }
        if meta.nlink() > 1 {
            return Err("it has another name".to_owned());
        }
        let mut bytes = Vec::new();
        // Not blocking: it is a regular file.
        (&file)
            .take(MOST_READ)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("it cannot be read ({error})"))?;
        let text = String::from_utf8_lossy(&bytes);
        // `touch -d` can say any time; nobody sets this one.
        let changed =
            time(meta.mtime(), meta.mtime_nsec()).min(time(meta.ctime(), meta.ctime_nsec()));
        let (until, reason) = said(&text, changed)?;
        Ok(Some(Glass {
            path: path.to_owned(),
            until,
            by: meta.uid(),
            reason,
        }))
    }
}

impl Found {
    /// What stops healing now.
    #[must_use]
    pub fn stop(&self, now: SystemTime) -> Option<Stop> {
        if let Some(KillSwitch { path, reason }) = &self.kill_switch {
            return Some(Stop {
                kind: Kind::KillSwitch,
                message: format!(
                    "all healing is switched off until {} is removed{reason}",
                    escape::path(path)
                ),
                until: None,
            });
        }
        let glass = self.glass.as_ref()?;
        let left = glass.until.duration_since(now).ok()?;
        // A clock that was set back makes none longer.
        (!left.is_zero() && left <= LONGEST).then(|| Stop {
            kind: Kind::BreakGlass,
            message: format!(
                "all healing is stopped until {} by {}, which belongs to uid {}{}",
                rfc3339(glass.until),
                escape::path(&glass.path),
                glass.by,
                glass.reason
            ),
            until: Some(glass.until),
        })
    }

    /// The file that stops healing now.
    #[must_use]
    pub fn path(&self, now: SystemTime) -> Option<&Path> {
        match self.stop(now)?.kind {
            Kind::KillSwitch => self.kill_switch.as_ref().map(|switch| &*switch.path),
            _ => self.glass.as_ref().map(|glass| &*glass.path),
        }
    }
}

/// Without following a link there (`/run` and `/var` may be links), without waiting for anybody. `None`: there is nothing.
fn open(path: &Path) -> Result<Option<File>, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether anything has this name; what it says, behind a colon.
fn present(path: &Path) -> Option<String> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => {}
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return None;
        }
        Err(_) => return Some(String::new()),
    }
    let mut bytes = Vec::new();
    if let Ok(Some(file)) = open(path)
        && file.metadata().is_ok_and(|meta| meta.is_file())
    {
        // What cannot be read says nothing, and switches off all the same.
        let _said = file.take(MOST_READ).read_to_end(&mut bytes);
    }
    Some(reason(String::from_utf8_lossy(&bytes).lines()))
}

/// Until when, and why.
fn said(text: &str, changed: SystemTime) -> Result<(SystemTime, String), String> {
    let mut lines = text.lines();
    let first = lines
        .clone()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("")
        .trim();
    let asked = if let Some(rest) = first.strip_prefix("for ") {
        let asked = crate::cli::duration(rest.trim())
            .map_err(|why| format!("its first line says for how long, and that is none: {why}"))?;
        Some(changed + asked.min(LONGEST))
    } else if let Some(rest) = first.strip_prefix("until ") {
        let until: jiff::Timestamp = rest.trim().parse().map_err(|_| {
            "its first line says until when, and that is no time: write it as in `until 2026-11-29T22:00:00Z`"
                .to_owned()
        })?;
        Some(SystemTime::from(until))
    } else {
        None
    };
    if asked.is_some() {
        lines.by_ref().find(|line| !line.trim().is_empty());
    }
    let until = asked.unwrap_or(changed + USUAL).min(changed + LONGEST);
    Ok((until, reason(lines)))
}

/// The first line that says something.
fn reason<'a>(mut lines: impl Iterator<Item = &'a str>) -> String {
    match lines.find(|line| !line.trim().is_empty()) {
        None => String::new(),
        Some(line) => {
            let line: String = line.trim().chars().take(MOST_REASON).collect();
            format!(": {}", printable(&line))
        }
    }
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let part = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
    match u64::try_from(seconds) {
        Ok(seconds) => SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(seconds) + part)
            .unwrap_or(SystemTime::UNIX_EPOCH),
        Err(_) => SystemTime::UNIX_EPOCH,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("state")).unwrap();
            Self { dir }
        }

        fn glass(&self) -> PathBuf {
            self.dir.path().join("glass")
        }

        fn look(&self) -> Found {
            Files::of(&self.dir.path().join("state"), &self.glass()).look()
        }

        /// What stops now, and until how many seconds from now.
        fn stop(&self) -> Option<(Kind, u64, String)> {
            let now = SystemTime::now();
            let stop = self.look().stop(now)?;
            let left = stop.until.map_or(0, |until| {
                until.duration_since(now).unwrap_or_default().as_secs()
            });
            Some((stop.kind, left, stop.message))
        }
    }

    #[test]
    fn a_break_glass_file_holds_for_an_hour_or_for_what_it_says_and_never_for_more_than_a_day() {
        let place = Place::new();
        assert_eq!(place.stop(), None);
        let until = |hours: u64| rfc3339(SystemTime::now() + Duration::from_hours(hours));
        for (text, seconds, reason) in [
            (String::new(), 3600, ""),
            ("ticket 4711\n".to_owned(), 3600, ": ticket 4711"),
            (
                "for 2h\nwhy\x1b[31m not\n".to_owned(),
                7200,
                ": why\\x1b[31m not",
            ),
            (
                format!("until {}\n\n  because\n", until(3)),
                10_800,
                ": because",
            ),
            ("for 9000h\n".to_owned(), 86_400, ""),
            (format!("until {}", until(999)), 86_400, ""),
        ] {
            fs::write(place.glass(), &text).unwrap();
            let (kind, left, message) = place.stop().expect(&text);
            assert_eq!(kind, Kind::BreakGlass);
            assert!(left.abs_diff(seconds) <= 5, "{text}: {left}");
            assert!(
                message.ends_with(&format!("uid 0{reason}")) || reason.is_empty(),
                "{message}"
            );
        }
        // Over: it is there still, and holds nothing.
        for text in ["until 2001-01-01T00:00:00Z\n", "for 0s"] {
            fs::write(place.glass(), text).unwrap();
            assert_eq!(place.stop(), None, "{text}");
        }
        // In the state folder too.
        fs::write(place.dir.path().join("state/break-glass"), "here").unwrap();
        assert!(
            place
                .stop()
                .is_some_and(|(_, _, message)| message.contains("state/break-glass"))
        );
    }

    #[test]
    fn a_time_in_the_future_makes_it_no_longer_and_one_in_the_past_ends_it() {
        let place = Place::new();
        fs::write(place.glass(), "").unwrap();
        let file = File::options().write(true).open(place.glass()).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_hours(9))
            .unwrap();
        assert!(place.stop().is_some_and(|(_, left, _)| left <= 3600));
        file.set_modified(SystemTime::now() - Duration::from_hours(2))
            .unwrap();
        assert_eq!(place.stop(), None);
    }

    #[test]
    fn what_others_could_have_made_holds_nothing_and_that_is_said() {
        #[track_caller]
        fn refused(place: &Place, why: &str) {
            let found = place.look();
            assert_eq!(found.stop(SystemTime::now()), None);
            assert!(found.refused.concat().contains(why), "{:?}", found.refused);
        }
        let place = Place::new();
        let glass = place.glass();
        fs::write(&glass, "").unwrap();
        fs::set_permissions(&glass, fs::Permissions::from_mode(0o664)).unwrap();
        refused(&place, "may write to it");
        fs::set_permissions(&glass, fs::Permissions::from_mode(0o644)).unwrap();
        fs::hard_link(&glass, place.dir.path().join("other")).unwrap();
        refused(&place, "another name");
        fs::remove_file(&glass).unwrap();
        symlink("other", &glass).unwrap();
        refused(&place, "symbolic link");
        fs::remove_file(&glass).unwrap();
        fs::create_dir(&glass).unwrap();
        refused(&place, "no regular file");
        fs::remove_dir(&glass).unwrap();
        fs::write(&glass, "until tomorrow").unwrap();
        refused(&place, "no time");
        fs::write(&glass, "for ever").unwrap();
        refused(&place, "that is none");
        fs::write(&glass, [0xff; 100_000]).unwrap();
        assert!(
            place.stop().is_some(),
            "bytes that say nothing are a reason that says nothing"
        );
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&glass, Some(1234), None).unwrap();
            refused(&place, "uid 1234");
        } else {
            eprintln!("SKIPPED: giving a file away needs root");
        }
    }

    #[test]
    fn anything_with_its_name_is_a_kill_switch() {
        let place = Place::new();
        let switch = place.dir.path().join("state/kill-switch");
        let stops = || place.stop().map(|(kind, ..)| kind);
        fs::write(&switch, "the plant is on fire\n").unwrap();
        fs::write(place.glass(), "").unwrap();
        let (kind, _, message) = place.stop().unwrap();
        assert_eq!(kind, Kind::KillSwitch, "it is asked first");
        assert!(
            message.contains("removed: the plant is on fire"),
            "{message}"
        );
        fs::remove_file(&switch).unwrap();
        fs::remove_file(place.glass()).unwrap();
        fs::create_dir(&switch).unwrap();
        assert_eq!(stops(), Some(Kind::KillSwitch));
        fs::remove_dir(&switch).unwrap();
        symlink("nowhere", &switch).unwrap();
        assert_eq!(stops(), Some(Kind::KillSwitch));
        fs::remove_file(&switch).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &switch, Mode::from_raw_mode(0o600)).unwrap();
        assert_eq!(stops(), Some(Kind::KillSwitch), "and nobody waits for it");
        fs::remove_file(&switch).unwrap();
        assert_eq!(stops(), None);
    }
}
