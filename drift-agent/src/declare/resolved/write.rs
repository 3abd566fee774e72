//! A declaration as it is kept.

use std::{
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
    time::Duration,
};

use drift_common::policy::{Acl, FileCapabilities};

use super::{EVIDENCES, HARD_LINKS, MASS_DRIFTS, MODES, ON_REMOVES, REDACTS, SECTION, SEVERITIES};
use crate::declare::{
    ActivePolicy, Attribute, Attributes, Backoff, Content, Declared, Exhaustive, Expect, Fight,
    Flags, Guard, Link, Position, Snapshot, Target, Terms, Through,
};

/// Writes values one after the other.
pub(super) struct Out<'w>(pub(super) &'w mut dyn Write);

impl Out<'_> {
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.bytes(&[byte])
    }

    fn u32(&mut self, number: u32) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    fn u64(&mut self, number: u64) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    pub(super) fn number(&mut self, number: usize) -> io::Result<()> {
        self.u64(number as u64)
    }

    fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.number(text.len())?;
        self.bytes(text)
    }

    pub(super) fn path(&mut self, path: &Path) -> io::Result<()> {
        self.text(path.as_os_str().as_bytes())
    }

    pub(super) fn option<T>(
        &mut self,
        value: Option<T>,
        put: impl FnOnce(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.byte(value.is_some().into())?;
        value.map_or(Ok(()), |value| put(self, value))
    }

    /// The place of a value in a list.
    fn place<T: PartialEq>(&mut self, list: &[T], value: &T) -> io::Result<()> {
        let place = list.iter().position(|one| one == value);
        self.number(place.unwrap_or(usize::MAX))
    }

    fn duration(&mut self, duration: Duration) -> io::Result<()> {
        self.u64(duration.as_secs())?;
        self.u32(duration.subsec_nanos())
    }

    // All fields by name: one that is new must be written too.

    pub(super) fn snapshot(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let Snapshot {
            files,
            policies,
            terms,
        } = snapshot;
        self.number(policies.len())?;
        for policy in policies {
            let ActivePolicy {
                name,
                version,
                digest,
                mode,
                guard,
                evidence,
            } = &**policy;
            self.text(name.as_bytes())?;
            self.text(version.as_bytes())?;
            self.bytes(digest.as_bytes())?;
            self.place(&MODES, mode)?;
            self.guard(guard)?;
            self.place(&EVIDENCES, evidence)?;
        }
        self.number(terms.len())?;
        for term in terms {
            let Terms {
                said,
                rank,
                on_remove,
            } = term;
            self.text(said.as_bytes())?;
            self.number(*rank)?;
            self.place(&ON_REMOVES, on_remove)?;
        }
        let mut sources: Vec<Arc<Path>> = files.iter().map(|file| file.at.file.clone()).collect();
        sources.sort();
        sources.dedup();
        self.number(sources.len())?;
        for source in &sources {
            self.path(source)?;
        }
        self.number(files.len().div_ceil(SECTION))?;
        let mut section = Vec::new();
        for files in files.chunks(SECTION) {
            section.clear();
            let mut out = Out(&mut section);
            out.number(files.len())?;
            for file in files {
                out.declared(file, policies, &sources)?;
            }
            self.text(&section)?;
        }
        Ok(())
    }

    fn guard(&mut self, guard: &Guard) -> io::Result<()> {
        let Guard {
            backoff: Backoff { first, factor, cap },
            per_minute,
            mass_drift,
            fight,
            // Who reads this writes nothing: see `Keep::Digests`.
            windows: _,
        } = guard;
        self.duration(*first)?;
        self.u32(*factor)?;
        self.duration(*cap)?;
        self.option(*per_minute, |out, most| out.u32(most.get()))?;
        self.place(&MASS_DRIFTS, mass_drift)?;
        self.option(fight.as_ref(), |out, fight| {
            let Fight {
                heals,
                within,
                hold,
            } = fight;
            out.u32(*heals)?;
            out.duration(*within)?;
            out.duration(*hold)
        })
    }

    fn declared(
        &mut self,
        declared: &Declared,
        policies: &[Arc<ActivePolicy>],
        sources: &[Arc<Path>],
    ) -> io::Result<()> {
        let Declared {
            path,
            through,
            policy,
            target,
            mode,
            uid,
            gid,
            attributes,
            on_drift,
            severity,
            after_heal: _, // as windows
            at,
        } = declared;
        self.path(path)?;
        self.option(through.as_ref(), |out, through| {
            let Through { links, real } = &**through;
            out.number(links.len())?;
            for Link { path, target } in links {
                out.path(path)?;
                out.path(Path::new(target))?;
            }
            out.path(real)
        })?;
        let policy = policies.iter().position(|one| Arc::ptr_eq(one, policy));
        self.number(policy.unwrap_or(usize::MAX))?;
        for id in [mode, uid, gid] {
            self.option(*id, Self::u32)?;
        }
        self.attributes(attributes)?;
        self.place(&MODES, on_drift)?;
        self.place(&SEVERITIES, severity)?;
        let Position { file, line, column } = at;
        self.place(sources, file)?;
        self.u32(*line)?;
        self.u32(*column)?;
        self.target(target)
    }

    fn attributes(&mut self, attributes: &Attributes) -> io::Result<()> {
        let Attributes { named, flags } = attributes;
        self.number(named.len())?;
        for Attribute { name, expect } in named {
            self.text(name.to_bytes())?;
            match expect {
                Expect::Absent => self.byte(0)?,
                Expect::Value(value) => {
                    self.byte(1)?;
                    self.text(value)?;
                }
                Expect::Label(label) => {
                    self.byte(2)?;
                    self.text(label.as_bytes())?;
                }
                Expect::Capabilities(capabilities) => {
                    let FileCapabilities {
                        permitted,
                        inheritable,
                        effective,
                        root,
                    } = capabilities;
                    self.byte(3)?;
                    self.u64(*permitted)?;
                    self.u64(*inheritable)?;
                    self.byte((*effective).into())?;
                    self.u32(*root)?;
                }
                Expect::Access(acl) => {
                    self.byte(4)?;
                    self.acl(acl)?;
                }
                Expect::Default(acl) => {
                    self.byte(5)?;
                    self.acl(acl)?;
                }
            }
        }
        self.option(*flags, |out, Flags { immutable, append }| {
            out.bytes(&[immutable.into(), append.into()])
        })
    }

    fn acl(&mut self, acl: &Acl<u32>) -> io::Result<()> {
        let Acl {
            user,
            group,
            other,
            mask,
            users,
            groups,
        } = acl;
        self.bytes(&[*user, *group, *other])?;
        self.option(*mask, Self::byte)?;
        for entries in [users, groups] {
            self.number(entries.len())?;
            for (id, permissions) in entries {
                self.u32(*id)?;
                self.byte(*permissions)?;
            }
        }
        Ok(())
    }

    fn target(&mut self, target: &Target) -> io::Result<()> {
        match target {
            Target::File(content) => {
                let Content {
                    bytes: _,
                    size,
                    digest,
                    body,
                    lines,
                    max_size,
                    hard_links,
                    write: _,
                    compare: _,
                    meaning: _,
                    redact,
                } = content;
                self.byte(0)?;
                self.option(*size, Self::u64)?;
                self.bytes(digest.as_bytes())?;
                for digest in [body.as_ref(), lines.as_deref()] {
                    self.option(digest, |out, digest| out.bytes(digest.as_bytes()))?;
                }
                self.u64(*max_size)?;
                self.place(&HARD_LINKS, hard_links)?;
                self.place(&REDACTS, redact)
            }
            Target::Symlink(target) => {
                self.byte(1)?;
                self.path(Path::new(target))
            }
            Target::Absent => self.byte(2),
            Target::Directory(None) => self.byte(3),
            Target::Directory(Some(exhaustive)) => {
                let Exhaustive {
                    declared: _, // from the paths
                    ignore,
                    removes,
                } = exhaustive;
                self.byte(4)?;
                self.byte((*removes).into())?;
                self.number(ignore.patterns().len())?;
                let mut patterns = ignore.patterns().iter();
                patterns.try_for_each(|pattern| self.text(pattern.as_bytes()))
            }
        }
    }
}
