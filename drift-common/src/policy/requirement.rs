//! What must hold beside files: the environment of processes, and versions of other policies.

use std::{path::PathBuf, sync::Arc};

use semver::VersionReq;

use super::source::Spanned;

/// What the environment of the processes of a program must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The program's absolute path.
    pub process: Spanned<PathBuf>,
    pub variables: Vec<Variable>,
}

/// One variable of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: Spanned<String>,
    /// `None`: it must not be set.
    pub value: Option<Arc<str>>,
}

/// A policy whose active version this one needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub policy: Spanned<String>,
    pub version: VersionReq,
}
