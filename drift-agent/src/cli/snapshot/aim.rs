//! Where a snapshot is of, and where it goes.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};

use drift_common::policy::{self, Document, Link, Problems, Source, Spanned, Through};

use super::{Asked, Beside, MAX_BYTES, MAX_FILES, Part, Stage, Title, declare, shown};

/// Ways are followed through no more links: as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// Where the paths are and how they are reached, without those that are beneath another, and what there is to say about that.
pub(super) fn resolve(paths: &[PathBuf], at: &Arc<Source>) -> Result<(Vec<Asked>, Vec<String>)> {
    let mut notes = Vec::new();
    let mut resolved: Vec<Asked> = Vec::new();
    for path in paths {
        let real = fs::canonicalize(path).with_context(|| shown(path).to_string())?;
        let said = std::path::absolute(path)?;
        let through = through(&said, &real, at);
        let asked = match through {
            Some(through) => {
                let links = through.links().iter();
                let links = links.map(|link| shown(&link.path.value).to_string());
                notes.push(format!(
                    "{} is reached through {}: declared with what that holds (`through`)",
                    shown(path),
                    links.collect::<Vec<_>>().join(", ")
                ));
                let (path, through) = (said, Some(through));
                Asked {
                    path,
                    real,
                    through,
                }
            }
            None => {
                if real != normal(&said) {
                    notes.push(format!(
                        "{} is reached through a link: this is a snapshot of {}",
                        shown(path),
                        shown(&real)
                    ));
                }
                let path = real.clone();
                Asked {
                    path,
                    real,
                    through: None,
                }
            }
        };
        resolved.push(asked);
    }
    let mut kept: Vec<Asked> = Vec::new();
    for asked in &resolved {
        let Asked { real, .. } = asked;
        let is_within = resolved
            .iter()
            .any(|other| other.real != *real && real.starts_with(&other.real));
        if !is_within && kept.iter().all(|other| other.real != *real) {
            kept.push(asked.clone());
        }
    }
    Ok((kept, notes))
}

/// The tree that the one path is compared with.
pub(super) fn against(tree: &Path, paths: &[Asked]) -> Result<PathBuf> {
    let root = fs::canonicalize(tree).with_context(|| shown(tree).to_string())?;
    let [asked] = paths else {
        bail!("--against compares one PATH, and here are {}", paths.len());
    };
    for path in [&root, &asked.real] {
        if !path.is_dir() {
            bail!(
                "--against compares directories, and {} is none",
                shown(path)
            );
        }
    }
    if root.starts_with(&asked.real) || asked.real.starts_with(&root) {
        bail!(
            "--against compares two trees, and {} and {} are one in the other",
            shown(&root),
            shown(&asked.real)
        );
    }
    Ok(root)
}

/// The links on the way to `said`, which leads to `real`, where there are some and they can be declared. A link that is the path itself is not on its way.
fn through(said: &Path, real: &Path, at: &Arc<Source>) -> Option<Through> {
    let is_plain = |component| matches!(component, Component::RootDir | Component::Normal(_));
    if !said.components().all(is_plain) {
        return None;
    }
    let mut links: Vec<Link> = Vec::new();
    let mut place = PathBuf::from("/");
    let mut names = Vec::new();
    push(&mut names, said.parent()?);
    let mut steps = 0;
    while let Some(name) = names.pop() {
        if name == ".." {
            place.pop();
            continue;
        }
        place.push(name);
        let Ok(target) = fs::read_link(&place) else {
            continue;
        };
        steps += 1;
        if steps > MOST_LINKS {
            return None;
        }
        if links.iter().all(|link| link.path.value != place) {
            links.push(Link {
                path: Spanned {
                    value: place.clone(),
                    at: at.start(),
                },
                target: target.clone(),
            });
        }
        place.pop();
        if target.is_absolute() {
            place = PathBuf::from("/");
        }
        push(&mut names, &target);
    }
    let through = Through::of(&normal(said), links)?;
    (through.real() == real).then_some(through)
}

/// Puts the names of `path` before those that are still to be walked.
fn push(names: &mut Vec<OsString>, path: &Path) {
    let said = path
        .components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        });
    names.extend(said);
}

/// Without `..`, for what has no links: it is compared with what the kernel says.
fn normal(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(whole.pop()),
            other => whole.push(other),
        }
    }
    whole
}

/// Where it goes.
#[derive(Debug)]
pub(super) enum Aim {
    Stdout,
    File {
        /// The policy folder.
        folder: PathBuf,
        /// The file's name without its ending, and that.
        stem: OsString,
        ending: &'static str,
        force: bool,
    },
}

/// How the name of a policy file that is to be written ends.
///
/// # Errors
/// Nobody would read a file of this name.
pub(in crate::cli) fn ending(output: &Path) -> Result<&'static str> {
    let name = output.file_name().unwrap_or_default().as_bytes();
    let ending = [".yaml", ".yml"]
        .into_iter()
        .find(|ending| name.ends_with(ending.as_bytes()) && name.len() > ending.len());
    ending.filter(|_| !name.starts_with(b".")).with_context(|| {
        format!(
            "-o {}: a policy file is called NAME.yaml, and is not hidden",
            shown(output)
        )
    })
}

impl Aim {
    /// Makes the policy folder if only that is missing.
    pub(super) fn of(output: &Path, force: bool) -> Result<Aim> {
        if output == Path::new("-") {
            return Ok(Aim::Stdout);
        }
        let ending = ending(output)?;
        let name = output.file_name().unwrap_or_default().as_bytes();
        let folder = match output.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error)
                    .with_context(|| format!("cannot make the folder {}", shown(&folder)));
            }
            _ => {}
        }
        let stem = &name[..name.len() - ending.len()];
        let aim = Aim::File {
            folder,
            stem: std::ffi::OsStr::from_bytes(stem).to_owned(),
            ending,
            force,
        };
        // Said before anything is read; when the file takes its name it is made sure.
        aim.free(&aim.file_name(1))?;
        Ok(aim)
    }

    /// The policy folder as the kernel spells it.
    pub(super) fn policies(&self) -> Result<Option<PathBuf>> {
        match self {
            Aim::Stdout => Ok(None),
            Aim::File { folder, .. } => Ok(Some(
                fs::canonicalize(folder).with_context(|| shown(folder).to_string())?,
            )),
        }
    }

    pub(super) fn stage(&self) -> Result<Stage> {
        let place = match self {
            Aim::Stdout => std::env::temp_dir(),
            Aim::File { folder, .. } => folder.clone(),
        };
        Stage::new(&place).with_context(|| format!("cannot write in {}", shown(&place)))
    }

    fn file_name(&self, number: usize) -> OsString {
        match self {
            Aim::Stdout => "stdout.yaml".into(),
            Aim::File { stem, ending, .. } => {
                let mut name = stem.clone();
                if number > 1 {
                    name.push(format!("-{number}"));
                }
                name.push(ending);
                name
            }
        }
    }

    /// What so many policy files are called.
    pub(super) fn names(&self, count: usize) -> Result<Vec<OsString>> {
        let names: Vec<OsString> = (1..=count).map(|number| self.file_name(number)).collect();
        let Aim::File { folder, .. } = self else {
            if count > 1 {
                bail!(
                    "this needs {count} policy files: name the first with -o FILE.yaml, or leave something out with --ignore"
                );
            }
            return Ok(names);
        };
        names.iter().try_for_each(|name| self.free(name))?;
        // What an earlier, larger snapshot left would be half a snapshot.
        let next = folder.join(self.file_name(count + 1));
        if next.symlink_metadata().is_ok() {
            bail!(
                "{} is there, and this snapshot would not replace it: it needs {count} of these files. Remove it, and those that follow it",
                shown(&next)
            );
        }
        Ok(names)
    }

    fn free(&self, name: &OsString) -> Result<()> {
        if let Aim::File { folder, force, .. } = self {
            let path = folder.join(name);
            if !force && path.symlink_metadata().is_ok() {
                bail!("{} is there already: --force replaces it", shown(&path));
            }
        }
        Ok(())
    }

    /// What there is to say where a version is replaced by another one under its number.
    pub(super) fn replaced(&self, names: &[OsString], parts: &[Part]) -> Vec<String> {
        let Aim::File { folder, .. } = self else {
            return Vec::new();
        };
        let notes = names.iter().zip(parts).filter_map(|(name, part)| {
            let path = folder.join(name);
            let before = fs::read(&path).ok()?;
            let source = Source::new(path.into(), before).ok()?;
            let Title { policy, version } = &part.title;
            let is_same = |document: &Document| {
                matches!(document, Document::Version(before)
                    if before.policy.value == *policy && before.version.value == *version)
            };
            let documents = policy::parse(&source, &mut Problems::default());
            (source.text() != part.text && documents.iter().any(is_same)).then(|| {
                format!(
                    "{policy} {version} was another one before: an agent that has seen it refuses this under its number. --version gives another"
                )
            })
        });
        notes.collect()
    }

    /// Whether the policies fit to those that are there; what there is to say where that cannot be told.
    pub(super) fn beside(&self, names: &[OsString], parts: &[Part]) -> Result<Option<String>> {
        let Aim::File { folder, .. } = self else {
            return Ok(None);
        };
        let new: Vec<(OsString, &str)> = names
            .iter()
            .cloned()
            .zip(parts.iter().map(|part| part.text.as_str()))
            .collect();
        let all = shown(folder);
        match declare::beside(folder, &new).map_err(|why| anyhow::anyhow!("{}", why.plain()))? {
            Beside::Fits => Ok(None),
            Beside::Broken => Ok(Some(format!(
                "other policies in {all} have problems: drift-agent policy validate --policies {all}"
            ))),
            Beside::Conflict(problems) => bail!(
                "this does not fit to the other policies in {all}: {}. Leave it out with --ignore, or write to another folder",
                problems.one_line()
            ),
            Beside::TooMuch => bail!(
                "with this, {all} would have more than {MAX_FILES} policy files or {} MiB of them: leave something out with --ignore",
                MAX_BYTES >> 20
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_file_is_called_so_that_it_is_read() {
        for (name, expected) in [
            ("p/web.yaml", Some(".yaml")),
            ("web.yml", Some(".yml")),
            ("p/web.txt", None),
            ("p/.web.yaml", None),
            ("p/.yaml", None),
            ("p/web.YAML", None),
            ("web.yaml.bak", None),
            ("p/", None),
        ] {
            assert_eq!(ending(Path::new(name)).ok(), expected, "{name}");
        }
    }
}
