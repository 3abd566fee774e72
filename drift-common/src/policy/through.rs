//! The links that the way to a declared path may go through. Each is declared with the text it holds, so where the way leads is known before anybody looks.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::{Problem, Spanned, path::MAX_PATH};
use crate::escape;

/// Links of one path, at most.
pub(super) const MAX_LINKS: usize = 16;
/// Times that a way goes through a link, at most: as many as the kernel follows.
const MAX_STEPS: usize = 40;

/// A link on the way, where it really stands, and exactly what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub path: Spanned<PathBuf>,
    pub target: PathBuf,
}

/// The way to a declared path through links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    links: Vec<Link>,
    real: PathBuf,
}

impl Through {
    /// As they were written. There is at least one, none twice, and all are on the way.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Where the declared path really is: no component of it is a link, as long as nothing but what is declared is in its way.
    #[must_use]
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// The way to `path` through `links`, of which there is none twice. `None`: it cannot be declared.
    #[must_use]
    pub fn of(path: &Path, links: Vec<Link>) -> Option<Self> {
        let is_text = |link: &Link| link.target.to_str().is_some();
        let fits = (1..=MAX_LINKS).contains(&links.len());
        let can_be = fits
            && links
                .iter()
                .all(|link| is_text(link) && !turns_back(&link.target));
        can_be.then(|| Self::resolve(path, links).ok()).flatten()
    }

    /// The same way, on to what is beneath the path that it leads to. That is reached without another link.
    #[must_use]
    pub fn beneath(&self, rest: &Path) -> Self {
        Self {
            links: self.links.clone(),
            real: self.real.join(rest),
        }
    }

    /// Walks to `path` through `links`, of which there is none twice.
    ///
    /// # Errors
    /// The way does not end, leads above the root, or passes one of the links by.
    pub(super) fn resolve(path: &Path, links: Vec<Link>) -> Result<Self, Vec<Problem>> {
        let mut used = vec![false; links.len()];
        let mut real = PathBuf::from("/");
        let mut steps = 0;
        // What is still to be walked, the next name at the end. What stands at the path itself is not followed.
        let mut names: Vec<OsString> = Vec::new();
        push(&mut names, path.parent().unwrap_or(Path::new("/")));
        while let Some(name) = names.pop() {
            if name == ".." {
                real.pop();
                continue;
            }
            real.push(name);
            let Some(index) = links.iter().position(|link| link.path.value == real) else {
                continue;
            };
            used[index] = true;
            let link = &links[index];
            let wrong = |message: &str, help: &str| {
                let shown = escape::path_name(&link.path.value);
                let problem = link.path.at.problem(format!("{shown} {message}"));
                Err(vec![problem.help(help)])
            };
            steps += 1;
            real.pop();
            if link.target.is_absolute() {
                real = PathBuf::from("/");
            }
            push(&mut names, &link.target);
            let ups = names.iter().rev().take_while(|name| *name == "..");
            if ups.count() > real.iter().count() - 1 {
                return wrong(
                    "leads above the root directory",
                    "write the target as `readlink` prints it",
                );
            }
            if steps > MAX_STEPS {
                return wrong(
                    "makes the way go in circles",
                    "no program could follow it either",
                );
            }
            let ahead: usize = names.iter().map(|name| name.len() + 1).sum();
            if real.as_os_str().len() + ahead > MAX_PATH {
                return wrong(
                    "makes the path too long",
                    "no program could follow it either",
                );
            }
        }
        real.extend(path.file_name());
        let beside = links.iter().zip(&used).filter(|(_, used)| !**used);
        let beside: Vec<Problem> = beside.map(|(link, _)| passed_by(path, link)).collect();
        if beside.is_empty() {
            Ok(Self { links, real })
        } else {
            Err(beside)
        }
    }
}

fn passed_by(path: &Path, link: &Link) -> Problem {
    let message = format!(
        "{} is not on the way to {}",
        escape::path_name(&link.path.value),
        escape::path_name(path)
    );
    let help = if link.path.value == path {
        "a link that stands at the path itself is declared in `symlinks`"
    } else {
        "write where the link really stands: the way to it, with each link before it replaced by what that holds"
    };
    link.path.at.problem(message).help(help)
}

/// Puts the names of `path` before those that are still to be walked.
fn push(names: &mut Vec<OsString>, path: &Path) {
    let path = path.as_os_str().as_bytes().rsplit(|byte| *byte == b'/');
    let said = path.filter(|name| !matches!(*name, b"" | b"."));
    names.extend(said.map(|name| OsStr::from_bytes(name).to_owned()));
}

/// Whether a `..` comes after a name: where that leads is known only where the name is no link itself.
pub(super) fn turns_back(target: &Path) -> bool {
    let names = target.as_os_str().as_bytes().split(|byte| *byte == b'/');
    let mut names = names.filter(|name| !matches!(*name, b"" | b"."));
    names.by_ref().any(|name| name != b"..") && names.any(|name| name == b"..")
}
