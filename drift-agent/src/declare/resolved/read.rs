//! What was kept, made a declaration again.

use std::{
    ffi::{CString, OsStr},
    num::NonZero,
    os::unix::ffi::OsStrExt,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use drift_common::policy::{Acl, FileCapabilities};

use super::{
    EVIDENCES, HARD_LINKS, MASS_DRIFTS, MODES, MOST_THREADS, ON_REMOVES, REDACTS, SEVERITIES,
};
use crate::declare::{
    ActivePolicy, Attribute, Attributes, Backoff, Compare, Content, Declared, Exhaustive, Expect,
    Fight, Flags, Globs, Guard, Link, Position, Snapshot, Target, Terms, Through, Writing,
    belongings::belongings,
};

/// The files of all sections, in their order; some threads read a share of the sections each.
fn all_files(
    sections: &[&[u8]],
    policies: &[Arc<ActivePolicy>],
    sources: &[Arc<Path>],
) -> Option<Vec<Arc<Declared>>> {
    let read = |sections: &[&[u8]]| -> Option<Vec<Arc<Declared>>> {
        let mut files = Vec::new();
        for section in sections {
            let mut rest = Rest(section);
            files.append(&mut rest.files(policies, sources)?);
            if !rest.0.is_empty() {
                return None;
            }
        }
        Some(files)
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = sections.len().div_ceil(threads.min(MOST_THREADS)).max(1);
    let mut shares = sections.chunks(share);
    let first = shares.next().unwrap_or_default();
    thread::scope(|scope| {
        let others: Vec<_> = shares
            .map(|share| {
                let work = thread::Builder::new().spawn_scoped(scope, move || read(share));
                (share, work)
            })
            .collect();
        let mut files = read(first)?;
        for (share, work) in others {
            let read = match work {
                Ok(work) => work.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // Where no thread may be started, this one reads.
                Err(_) => read(share),
            };
            files.append(&mut read?);
        }
        Some(files)
    })
}

/// Reads what [`super::write`] wrote. `None`: that is not what stands there.
pub(super) struct Rest<'b>(pub(super) &'b [u8]);

impl<'b> Rest<'b> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn hash(&mut self) -> Option<blake3::Hash> {
        self.take().map(blake3::Hash::from_bytes)
    }

    pub(super) fn number(&mut self) -> Option<usize> {
        usize::try_from(self.u64()?).ok()
    }

    /// Of things that take a byte at least: no more than there are bytes.
    fn count(&mut self) -> Option<usize> {
        self.number().filter(|count| *count <= self.0.len())
    }

    fn text(&mut self) -> Option<&'b [u8]> {
        let length = self.count()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    pub(super) fn path(&mut self) -> Option<PathBuf> {
        self.text().map(|path| OsStr::from_bytes(path).into())
    }

    fn string(&mut self) -> Option<String> {
        String::from_utf8(self.text()?.to_vec()).ok()
    }

    pub(super) fn option<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            _ => take(self).map(Some),
        }
    }

    fn place<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.number()?).cloned()
    }

    fn duration(&mut self) -> Option<Duration> {
        let (seconds, nanos) = (self.u64()?, self.u32()?);
        (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
    }

    fn list<T>(&mut self, mut take: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| take(self)).collect()
    }

    pub(super) fn snapshot(&mut self) -> Option<Snapshot> {
        let policies = self.list(|rest| {
            Some(Arc::new(ActivePolicy {
                name: rest.string()?,
                version: rest.string()?,
                digest: rest.hash()?,
                mode: rest.place(&MODES)?,
                guard: rest.guard()?,
                evidence: rest.place(&EVIDENCES)?,
            }))
        })?;
        let terms = self.list(|rest| {
            Some(Terms {
                said: rest.string()?,
                rank: rest.number()?,
                on_remove: rest.place(&ON_REMOVES)?,
            })
        })?;
        let sources = self.list(|rest| Some(Arc::<Path>::from(rest.path()?)))?;
        let sections = self.list(Self::text)?;
        let mut files = all_files(&sections, &policies, &sources)?;
        belongings(&mut files);
        Some(Snapshot {
            files,
            policies,
            terms,
        })
    }

    fn files(
        &mut self,
        policies: &[Arc<ActivePolicy>],
        sources: &[Arc<Path>],
    ) -> Option<Vec<Arc<Declared>>> {
        self.list(|rest| {
            let path = rest.path()?;
            let through = rest.option(Self::through)?.map(Box::new);
            let policy = rest.place(policies)?;
            let (mode, uid, gid) = (
                rest.option(Self::u32)?,
                rest.option(Self::u32)?,
                rest.option(Self::u32)?,
            );
            Some(Arc::new(Declared {
                path,
                through,
                policy,
                mode,
                uid,
                gid,
                attributes: rest.attributes()?,
                on_drift: rest.place(&MODES)?,
                severity: rest.place(&SEVERITIES)?,
                after_heal: Vec::new(),
                at: Position {
                    file: rest.place(sources)?,
                    line: rest.u32()?,
                    column: rest.u32()?,
                },
                target: rest.target()?,
            }))
        })
    }

    fn through(&mut self) -> Option<Through> {
        let link = |rest: &mut Self| {
            Some(Link {
                path: rest.path()?,
                target: rest.path()?.into(),
            })
        };
        Some(Through {
            links: self.list(link)?,
            real: self.path()?,
        })
    }

    fn guard(&mut self) -> Option<Guard> {
        Some(Guard {
            backoff: Backoff {
                first: self.duration()?,
                factor: self.u32()?,
                cap: self.duration()?,
            },
            per_minute: match self.option(Self::u32)? {
                None => None,
                Some(most) => Some(NonZero::new(most)?),
            },
            mass_drift: self.place(&MASS_DRIFTS)?,
            fight: self.option(|rest| {
                Some(Fight {
                    heals: rest.u32()?,
                    within: rest.duration()?,
                    hold: rest.duration()?,
                })
            })?,
            windows: Vec::new(),
        })
    }

    fn attributes(&mut self) -> Option<Attributes> {
        let named = self.list(|rest| {
            Some(Attribute {
                name: CString::new(rest.text()?).ok()?,
                expect: match rest.byte()? {
                    0 => Expect::Absent,
                    1 => Expect::Value(rest.text()?.to_vec()),
                    2 => Expect::Label(rest.string()?),
                    3 => Expect::Capabilities(FileCapabilities {
                        permitted: rest.u64()?,
                        inheritable: rest.u64()?,
                        effective: rest.byte()? != 0,
                        root: rest.u32()?,
                    }),
                    4 => Expect::Access(rest.acl()?),
                    5 => Expect::Default(rest.acl()?),
                    _ => return None,
                },
            })
        })?;
        let flags = self.option(|rest| {
            Some(Flags {
                immutable: rest.byte()? != 0,
                append: rest.byte()? != 0,
            })
        })?;
        Some(Attributes { named, flags })
    }

    fn acl(&mut self) -> Option<Acl<u32>> {
        let entry = |rest: &mut Self| Some((rest.u32()?, rest.byte()?));
        Some(Acl {
            user: self.byte()?,
            group: self.byte()?,
            other: self.byte()?,
            mask: self.option(Self::byte)?,
            users: self.list(entry)?,
            groups: self.list(entry)?,
        })
    }

    fn target(&mut self) -> Option<Target> {
        Some(match self.byte()? {
            0 => Target::File(Content {
                bytes: None,
                size: self.option(Self::u64)?,
                digest: self.hash()?,
                body: self.option(Self::hash)?,
                lines: self.option(Self::hash)?.map(Box::new),
                max_size: self.u64()?,
                hard_links: self.place(&HARD_LINKS)?,
                // How it is put back is nothing to compare.
                write: Writing::default(),
                compare: Compare::Exact,
                meaning: None,
                redact: self.place(&REDACTS)?,
            }),
            1 => Target::Symlink(self.path()?.into()),
            2 => Target::Absent,
            3 => Target::Directory(None),
            4 => Target::Directory(Some(Exhaustive {
                removes: self.byte()? != 0,
                ignore: Globs::new(self.list(Self::string)?).ok()?,
                ..Exhaustive::default()
            })),
            _ => return None,
        })
    }
}
