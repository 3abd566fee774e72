//! Paths that are reached through links.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
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

    /// The links on its way.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        self.through
            .as_ref()
            .map_or(&[], |through| &through.links[..])
    }
}
