//! What is declared as it should not be: a file that somebody may write who is not root. Who decides what is in it decides what a process of
//! root does that reads it. Warnings only: whether one does is not known from a declaration.

use std::{
    fs,
    path::{Path, PathBuf},
};

use drift_common::escape;

use crate::{
    declare::{Declared, Names, Target},
    observe::{Host, OldFile, Search},
    report::{FileType, shown},
};

/// The bits of a mode.
const GROUP_MAY_WRITE: u32 = 0o020;
const ALL_MAY_WRITE: u32 = 0o002;
/// Who does not own a name in such a directory may not take it away.
const STICKY: u32 = 0o1000;

/// Somebody who may write, and is not root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Writer {
    /// Whatever the mode says: an owner may change it.
    Owner(u32),
    /// Or whom an access list names.
    Group(u32),
    Everybody,
}

/// Of a path: the file itself, or a directory on the way to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Weakness {
    declared: PathBuf,
    /// `None`: the file itself.
    directory: Option<PathBuf>,
    writers: Vec<Writer>,
}

/// Who may write something with this mode and owner, as far as they are known, and is not root.
fn writers(mode: Option<u32>, uid: Option<u32>, gid: Option<u32>) -> Vec<Writer> {
    let mode = mode.unwrap_or(0);
    let owner = uid.filter(|uid| *uid != 0).map(Writer::Owner);
    let group = gid.filter(|gid| *gid != 0 && mode & GROUP_MAY_WRITE != 0);
    let all = (mode & ALL_MAY_WRITE != 0).then_some(Writer::Everybody);
    owner
        .into_iter()
        .chain(group.map(Writer::Group))
        .chain(all)
        .collect()
}

/// What the declaration says of the file, and what the directories on its way are like now. Of a file that may be anybody's nothing is said.
#[must_use]
pub fn weaknesses(host: &Host, declared: &Declared) -> Vec<Weakness> {
    let Target::File(_) = declared.target else {
        return Vec::new();
    };
    let of = |directory: Option<&Path>, writers: Vec<Writer>| {
        (!writers.is_empty()).then(|| Weakness {
            declared: declared.path.clone(),
            directory: directory.map(Path::to_owned),
            writers,
        })
    };
    let own = of(None, writers(declared.mode, declared.uid, declared.gid));
    let way = declared.real().ancestors().skip(1).filter_map(|directory| {
        let stat = host
            .stat(directory)
            .filter(|stat| stat.file_type == FileType::Directory)?;
        let writers = writers(Some(stat.mode), Some(stat.uid), Some(stat.gid))
            .into_iter()
            .filter(|writer| matches!(writer, Writer::Owner(_)) || stat.mode & STICKY == 0);
        of(Some(directory), writers.collect())
    });
    own.into_iter().chain(way).collect()
}

/// Processes of root that have the file open or mapped now, each in a word. Looked for in `/proc`, for a second at most.
#[must_use]
pub fn readers_of_root(host: &Host, declared: &Declared) -> Vec<String> {
    let found = OldFile::at(host, declared.real(), None);
    let found = found.and_then(|file| Search::default().holders(&file, None));
    let processes = found.into_iter().flat_map(|found| found.processes);
    processes
        .filter(|process| effective_user(process.pid) == Some(0))
        .map(|process| {
            let name = process.comm.to_string_lossy();
            format!("{} (pid {})", escape::printable(&name), process.pid)
        })
        .collect()
}

fn effective_user(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

impl Weakness {
    /// A sentence without a full stop. `readers`: who of root has it.
    #[must_use]
    pub fn sentence(&self, names: &Names, readers: &[String]) -> String {
        let writers: Vec<String> = self
            .writers
            .iter()
            .map(|writer| match writer {
                Writer::Owner(uid) => format!("{} (uid {uid})", names.shown_user(*uid)),
                Writer::Group(gid) => format!("group {} (gid {gid})", names.shown_group(*gid)),
                Writer::Everybody => "everybody".to_owned(),
            })
            .collect();
        let what = match &self.directory {
            None => format!("{} may be written", shown(&self.declared)),
            Some(directory) => format!(
                "{} may be replaced in {}",
                shown(&self.declared),
                shown(directory)
            ),
        };
        let by = writers.join(", ");
        match readers {
            [] => format!("{what} by {by}: what reads it as root does what they want"),
            readers => format!(
                "{what} by {by}, and root reads it: {} has it open",
                readers.join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_write_is_an_owner_a_group_or_everybody_and_never_root() {
        assert_eq!(writers(Some(0o644), Some(0), Some(0)), []);
        assert_eq!(writers(Some(0o664), Some(0), Some(0)), []);
        assert_eq!(writers(None, None, None), []);
        // Of what is not declared nothing is known.
        assert_eq!(writers(None, Some(0), Some(7)), []);
        assert_eq!(
            writers(Some(0o444), Some(1000), Some(1000)),
            [Writer::Owner(1000)]
        );
        assert_eq!(writers(Some(0o664), Some(0), Some(7)), [Writer::Group(7)]);
        assert_eq!(
            writers(Some(0o666), Some(1000), Some(7)),
            [Writer::Owner(1000), Writer::Group(7), Writer::Everybody]
        );
    }
}
