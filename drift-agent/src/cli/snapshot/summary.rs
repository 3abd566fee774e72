//! What a snapshot has done, for people.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use indicatif::HumanBytes;

use super::{Captured, Title, aim::Aim, shown};
use crate::capture::{Entry, Left};

/// Of what there may be thousands, so many are named.
const NAMED: usize = 50;

/// How many entries there are of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    files: usize,
    links: usize,
    masks: usize,
    directories: usize,
    absent: usize,
}

impl Kinds {
    pub(super) fn of(entries: &[Entry]) -> Kinds {
        let mut kinds = Kinds::default();
        for entry in entries {
            match entry {
                Entry::File(_) => kinds.files += 1,
                Entry::Link(link) if link.target == Path::new("/dev/null") => kinds.masks += 1,
                Entry::Link(_) => kinds.links += 1,
                Entry::Directory(_) => kinds.directories += 1,
                Entry::Absent(_) => kinds.absent += 1,
            }
        }
        kinds
    }

    fn all(self) -> usize {
        self.files + self.links + self.masks + self.directories + self.absent
    }
}

#[derive(Debug)]
pub(super) struct Summary<'a> {
    pub(super) aim: &'a Aim,
    pub(super) title: &'a Title,
    pub(super) names: &'a [OsString],
    pub(super) kinds: Kinds,
    pub(super) captured: &'a Captured,
    /// How many, and their bytes.
    pub(super) blobs: (usize, u64),
    pub(super) changed: &'a [PathBuf],
    pub(super) notes: &'a [String],
    pub(super) took: Duration,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.table(f)?;
        self.details(f)?;
        self.next(f)
    }
}

impl Summary<'_> {
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Title { policy, version } = self.title;
        let took = self.took.as_secs_f64();
        match (self.aim, self.names) {
            (Aim::File { folder, .. }, [first, rest @ ..]) => {
                let file = folder.join(first);
                write!(f, "policy {policy} {version} (observe) in {}", shown(&file))?;
                if !rest.is_empty() {
                    let last = rest.len() + 1;
                    write!(f, ", and policies {policy}-2 to {policy}-{last} beside it")?;
                }
            }
            _ => write!(f, "policy {policy} {version} (observe)")?,
        }
        writeln!(f, ", in {took:.2} s\n")
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Captured {
            entries: _,
            bytes,
            left,
            ignored,
            private: _,
            secrets,
            alone: _,
            blobs: in_blobs,
            mounts,
            hard_links,
            open: _,
            compared,
            weights: _,
        } = self.captured;
        let Kinds {
            files,
            links,
            masks,
            directories,
            absent,
        } = self.kinds;
        let mut row = |what: &str, count: usize, more: String| {
            if count == 0 {
                return Ok(());
            }
            writeln!(
                f,
                "{}",
                format!(" {what:<12} {count:>7}   {more}").trim_end()
            )
        };
        row("files", files, HumanBytes(*bytes).to_string())?;
        let (blobs, blob_bytes) = self.blobs;
        let secret = match secrets.len() {
            0 => String::new(),
            1 => ", 1 file may be secret".to_owned(),
            count => format!(", {count} files may be secret"),
        };
        row(
            " in blobs",
            in_blobs.len(),
            format!(
                "{} in {blobs} blob{}{secret}",
                HumanBytes(blob_bytes),
                if blobs == 1 { "" } else { "s" }
            ),
        )?;
        row("links", links, String::new())?;
        row("masks", masks, "links to /dev/null".to_owned())?;
        row("directories", directories, String::new())?;
        row("absent", absent, "deleted here".to_owned())?;
        row("equal", compared.same, "not declared".to_owned())?;
        let said = "each name declared for itself".to_owned();
        row("hard links", hard_links.len(), said)?;
        let said = "other file systems begin there".to_owned();
        row("mount points", mounts.len(), said)?;
        row("ignored", *ignored, "as asked for".to_owned())?;
        row("left out", left.len(), reasons(left))?;
        if self.kinds.all() == 0 {
            writeln!(f, " nothing to declare: the policy has no paths")?;
        }
        Ok(())
    }

    fn details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Captured {
            left,
            secrets,
            alone,
            mounts,
            open,
            compared,
            ..
        } = self.captured;
        for note in self.notes {
            writeln!(f, "\nnote: {note}")?;
        }
        for (what, paths) in [
            ("changed", &compared.changed),
            ("added", &compared.added),
            ("deleted", &compared.deleted),
        ] {
            list(f, what, paths, |f, path| write!(f, "{}", shown(path)))?;
        }
        list(f, "left out", left, |f, (path, why)| {
            write!(f, "{}: {why}", shown(path))
        })?;
        let secret = match self.aim {
            Aim::Stdout => "may be secret".to_owned(),
            Aim::File { folder, .. } => {
                format!(
                    "may be secret, so it is in {}, which must not get into the wrong hands",
                    shown(&folder.join("blobs"))
                )
            }
        };
        list(f, &secret, secrets, |f, (path, why)| {
            write!(f, "{}: {why}", shown(path))
        })?;
        list(
            f,
            "attributes that are left alone",
            alone,
            |f, (path, alone)| write!(f, "{}: {alone}", shown(path)),
        )?;
        let path = |f: &mut fmt::Formatter<'_>, path: &PathBuf| write!(f, "{}", shown(path));
        list(f, "mount points", mounts, path)?;
        let said = "not exhaustive: what is left out in them cannot be named";
        list(f, said, open, path)?;
        let said = "changed since they were read, and drift already";
        list(f, said, self.changed, path)
    }

    fn next(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.kinds.all();
        match self.changed.len() {
            0 if all == 1 => writeln!(f, "\nThe one path is as declared.")?,
            0 => writeln!(f, "\nAll {all} paths are as declared.")?,
            changed => writeln!(f, "\n{} of {all} paths are as declared.", all - changed)?,
        }
        if let Aim::File { folder, .. } = self.aim {
            let folder = shown(folder);
            writeln!(
                f,
                "\nWhat differs, now and later; and, as it happens, who did it:"
            )?;
            writeln!(f, "   drift-agent check --policies {folder}")?;
            writeln!(f, "   sudo drift-agent run --policies {folder}")?;
        }
        Ok(())
    }
}

/// How many there are of each reason.
fn reasons(left: &[(PathBuf, Left)]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, why) in left {
        *counts.entry(why.reason()).or_default() += 1;
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    counts.join(", ")
}

/// A heading and its items, the first of them.
fn list<T>(
    f: &mut fmt::Formatter<'_>,
    heading: &str,
    items: &[T],
    item: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{heading}:")?;
    for one in items.iter().take(NAMED) {
        f.write_str("   ")?;
        item(f, one)?;
        f.write_str("\n")?;
    }
    if items.len() > NAMED {
        writeln!(f, "   and {} more", items.len() - NAMED)?;
    }
    Ok(())
}
