//! Paths that are reached through links.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use drift_common::policy;

use super::Declared;

/// The links on the way to a path, and where it leads while they are as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    pub links: Vec<Link>,
    pub real: PathBuf,
}

/// A link, where it really stands, and exactly what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub path: PathBuf,
    pub target: OsString,
}

impl Through {
    pub(super) fn new(said: &policy::Through) -> Through {
        let links = said.links().iter().map(|link| Link {
            path: link.path.value.clone(),
            // A path is the same with and without a closing slash, and a link is not.
            target: link.target.clone().into_os_string(),
        });
        Through {
            links: links.collect(),
            real: said.real().to_owned(),
        }
    }
}

impl Declared {
    /// Where the path really is: none of its components is a link.
    #[must_use]
    pub fn real(&self) -> &Path {
        self.through
            .as_ref()
            .map_or(&self.path, |through| &through.real)
    }

    /// The same by the path where it really is, which has no links on its way.
    #[must_use]
    pub fn straight(declared: &Arc<Declared>) -> Arc<Declared> {
        if declared.through.is_none() {
            return Arc::clone(declared);
        }
        Arc::new(Declared {
            path: declared.real().to_owned(),
            through: None,
            ..Declared::clone(declared)
        })
    }

    /// The links on its way.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        self.through
            .as_ref()
            .map_or(&[], |through| &through.links[..])
    }
}

/// Where declared paths really are, and the links on their ways: sorted, each once.
#[must_use]
pub fn places(files: &[Arc<Declared>]) -> Vec<&Path> {
    let mut places: Vec<&Path> = Vec::with_capacity(files.len());
    for file in files {
        places.push(file.real());
        places.extend(file.links().iter().map(|link| link.path.as_path()));
    }
    places.sort_unstable();
    places.dedup();
    places
}
