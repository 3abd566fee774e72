//! What is taken for right: which paths, and what a version says of them then.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use drift_common::{
    escape,
    policy::{AbsentSpec, Globs, HardLinks, PolicyVersion, Source, Spanned, Through},
};

use crate::{
    capture::{self, Asked, Contents, Entry, Wanted},
    compare::{Drift, differences},
    declare::{Declared, Names, Snapshot},
    observe::{Found, Host, observe},
};

/// The links on the way to a path, as a version has them for it, or for the directory it is in.
fn through(version: &PolicyVersion, path: &Path) -> Option<Through> {
    let files = version.files.iter().map(|file| (&file.path, &file.through));
    let links = version
        .symlinks
        .iter()
        .map(|link| (&link.path, &link.through));
    let directories = version
        .directories
        .iter()
        .map(|one| (&one.path, &one.through));
    let absent = version
        .absent
        .iter()
        .map(|none| (&none.path, &none.through));
    let mut all = files.chain(links).chain(directories.clone()).chain(absent);
    if let Some((_, through)) = all.find(|(of, _)| of.value == path) {
        return through.clone();
    }
    let parent = path.parent()?;
    let (_, through) = { directories }.find(|(of, _)| of.value == parent)?;
    let name = Path::new(path.file_name()?);
    through.as_ref().map(|through| through.beneath(name))
}

/// What is taken for right.
pub(super) struct Accepted {
    pub(super) policy: String,
    /// Each with a word for it.
    pub(super) paths: BTreeMap<PathBuf, &'static str>,
    /// Where they are.
    real: BTreeMap<PathBuf, PathBuf>,
    /// Nothing is there any more.
    absent: BTreeSet<PathBuf>,
    /// In exhaustive directories, what nobody has declared.
    new: BTreeSet<PathBuf>,
    /// Kinds of drift of those that are declared.
    drifts: BTreeMap<PathBuf, Vec<Drift>>,
}

impl Accepted {
    pub(super) fn of(host: &Host, snapshot: &Snapshot, wanted: &[PathBuf]) -> Result<Self> {
        let mut policies = BTreeSet::new();
        let mut accepted = Self {
            policy: String::new(),
            paths: BTreeMap::new(),
            real: BTreeMap::new(),
            absent: BTreeSet::new(),
            new: BTreeSet::new(),
            drifts: BTreeMap::new(),
        };
        for path in wanted {
            let before = accepted.paths.len();
            let is_declared = snapshot
                .files
                .iter()
                .any(|file| file.path.starts_with(path));
            for declared in &snapshot.files {
                // Of what is not declared, the directory that it should not be in.
                if declared.path.starts_with(path) || path.parent() == Some(&declared.path) {
                    accepted.look(host, declared, path)?;
                    if accepted.paths.len() > before {
                        policies.insert(declared.policy.name.clone());
                    }
                }
            }
            if accepted.paths.len() == before {
                let shown = escape::path(path);
                if is_declared {
                    bail!("{shown} is as declared: there is nothing to accept");
                }
                bail!(
                    "{shown} is not declared, and is in no exhaustive directory: `drift-agent snapshot` declares what is there"
                );
            }
        }
        match Vec::from_iter(policies).as_slice() {
            [one] => accepted.policy.clone_from(one),
            many => bail!(
                "these paths belong to {} policies ({}): accept those of one at a time",
                many.len(),
                many.join(", ")
            ),
        }
        Ok(accepted)
    }

    fn look(&mut self, host: &Host, declared: &Declared, wanted: &Path) -> Result<()> {
        let observed = observe(host, declared, None, &mut |_| {});
        let drifts = differences(declared, &observed);
        let path = &declared.path;
        if drifts.is_empty() {
            return Ok(());
        }
        if let Found::Relocated | Found::Unreadable(_) | Found::Unstable = &observed.found {
            bail!(
                "{} cannot be read as it is now ({})",
                escape::path(path),
                drifts[0].name()
            );
        }
        if let Found::Directory(unexpected) = &observed.found {
            for name in &unexpected.names {
                let real = declared.real().join(name);
                let name = path.join(name);
                if name.starts_with(wanted) {
                    self.paths.insert(name.clone(), "declares");
                    self.real.insert(name.clone(), real);
                    self.new.insert(name);
                }
            }
        }
        let of_itself = drifts.iter().any(|drift| {
            !matches!(drift, Drift::Unexpected) || !matches!(observed.found, Found::Directory(_))
        });
        if !of_itself || !path.starts_with(wanted) {
            return Ok(());
        }
        if observed.found == Found::Absent {
            self.absent.insert(path.clone());
            self.paths.insert(path.clone(), "declares absent");
        } else {
            self.paths.insert(path.clone(), "takes");
        }
        self.real.insert(path.clone(), declared.real().to_owned());
        self.drifts.insert(path.clone(), drifts);
        Ok(())
    }

    pub(super) fn capture(
        &self,
        version: &PolicyVersion,
        (host, names): (&Host, &Names),
        policies: &Path,
        contents: &mut Contents,
        source: &Arc<Source>,
    ) -> Result<capture::Captured> {
        let paths = self
            .paths
            .keys()
            .filter(|path| !self.absent.contains(*path));
        let wanted = Wanted {
            paths: paths
                .map(|path| Asked {
                    path: path.clone(),
                    real: self.real.get(path).unwrap_or(path).clone(),
                    through: through(version, path),
                })
                .collect(),
            ignored_names: Globs::default(),
            ignored_paths: Globs::default(),
            exhaustive: false,
            one_file_system: false,
            policies: std::fs::canonicalize(policies).ok(),
            against: None,
        };
        let mut captured = capture::walk(host, &wanted, names, contents, source, |_, _| {})
            .context("cannot keep a content")?;
        captured.entries.retain(|entry| {
            let path = entry.path();
            self.paths.contains_key(path) || self.new.iter().any(|new| path.starts_with(new))
        });
        for Asked { path, .. } in wanted.paths {
            if !captured.entries.iter().any(|entry| entry.path() == path) {
                let why = captured.left.iter().find(|(left, _)| *left == path);
                let why = why.map(|(_, why)| format!(": {why}")).unwrap_or_default();
                bail!(
                    "{} cannot be declared as it is now{why}",
                    escape::path(&path)
                );
            }
        }
        Ok(captured)
    }

    /// Puts it into the draft: what was said of a path beside what is there stays said.
    pub(super) fn apply(
        &self,
        draft: &mut PolicyVersion,
        captured: capture::Captured,
        source: &Arc<Source>,
    ) -> Result<()> {
        let mut files = BTreeMap::new();
        for file in std::mem::take(&mut draft.files) {
            files.insert(file.path.value.clone(), file);
        }
        let mut links = BTreeMap::new();
        for link in std::mem::take(&mut draft.symlinks) {
            links.insert(link.path.value.clone(), link);
        }
        let mut directories = BTreeMap::new();
        for directory in std::mem::take(&mut draft.directories) {
            directories.insert(directory.path.value.clone(), directory);
        }
        let mut absent = BTreeMap::new();
        for none in std::mem::take(&mut draft.absent) {
            absent.insert(none.path.value.clone(), none);
        }
        for path in &self.absent {
            let said = files
                .get(path)
                .map(|file| (file.on_drift, file.severity))
                .or_else(|| links.get(path).map(|link| (link.on_drift, link.severity)))
                .or_else(|| {
                    directories
                        .get(path)
                        .map(|one| (one.on_drift, one.severity))
                });
            files.remove(path);
            links.remove(path);
            directories.remove(path);
            let (on_drift, severity) = said.unwrap_or_default();
            absent.insert(
                path.clone(),
                AbsentSpec {
                    path: Spanned {
                        value: path.clone(),
                        at: source.start(),
                    },
                    through: through(draft, path),
                    on_drift,
                    severity,
                },
            );
        }
        for entry in captured.entries {
            let path = entry.path().to_owned();
            absent.remove(&path);
            let has = |drift| {
                let drifts = self.drifts.get(&path);
                drifts.is_none_or(|drifts| drifts.contains(&drift))
            };
            match entry {
                Entry::File(mut new) => {
                    if let Some(old) = files.remove(&path) {
                        new.mode = old.mode.and(new.mode);
                        new.owner = old.owner.and(new.owner);
                        new.group = old.group.and(new.group);
                        if !has(Drift::Xattr) {
                            new.attributes = old.attributes;
                        }
                        if !has(Drift::Content)
                            && !has(Drift::Type)
                            && !has(Drift::ContentEquivalent)
                        {
                            new.content = old.content;
                        }
                        if !has(Drift::Hardlinked) {
                            new.hard_links = old.hard_links;
                        } else {
                            new.hard_links = HardLinks::Allow;
                        }
                        new.write = old.write;
                        new.on_drift = old.on_drift;
                        new.severity = old.severity;
                        new.redact = old.redact;
                        new.max_size = old.max_size;
                        new.final_newline = old.final_newline;
                        new.line_endings = old.line_endings;
                        new.through = old.through;
                        new.compare = old.compare;
                        new.after_heal = old.after_heal;
                    }
                    links.remove(&path);
                    directories.remove(&path);
                    files.insert(path, new);
                }
                Entry::Link(mut new) => {
                    if let Some(old) = links.remove(&path) {
                        new.through = old.through;
                        new.owner = old.owner.and(new.owner);
                        new.group = old.group.and(new.group);
                        if !has(Drift::Xattr) {
                            new.attributes = old.attributes;
                        }
                        new.on_drift = old.on_drift;
                        new.severity = old.severity;
                    }
                    files.remove(&path);
                    directories.remove(&path);
                    links.insert(path, new);
                }
                // Only a comparison with another tree finds one.
                Entry::Absent(_) => {}
                Entry::Directory(mut new) => {
                    if let Some(old) = directories.remove(&path) {
                        new.through = old.through;
                        new.mode = old.mode.and(new.mode);
                        new.owner = old.owner.and(new.owner);
                        new.group = old.group.and(new.group);
                        if !has(Drift::Xattr) {
                            new.attributes = old.attributes;
                        }
                        new.exhaustive = old.exhaustive;
                        new.on_drift = old.on_drift;
                        new.severity = old.severity;
                    }
                    files.remove(&path);
                    links.remove(&path);
                    directories.insert(path, new);
                }
            }
        }
        draft.files = files.into_values().collect();
        draft.symlinks = links.into_values().collect();
        draft.directories = directories.into_values().collect();
        draft.absent = absent.into_values().collect();
        Ok(())
    }
}
