//! What a version is, in one spelling: the same for the same meaning, whoever wrote it, and however.

mod path;

use std::path::PathBuf;

use serde::Serialize;

use self::path::Path;
use super::{Dependency, Environment, FileSpec, PolicyVersion, Spanned};

/// Raised when the canonical form of the same version becomes another.
const FORM: u32 = 1;

impl PolicyVersion {
    /// What this version is: BLAKE3 of its canonical form. `contents` are the digests of its files' contents, in the order of `files`.
    #[must_use]
    pub fn digest(&self, contents: &[blake3::Hash]) -> blake3::Hash {
        blake3::hash(canonical(self, contents).as_bytes())
    }
}

/// The canonical form of a version: JSON on one line without white space, keys sorted, what has its default left out, files by their
/// path, contents by their digest. `contents` are those digests, in the order of `files`.
#[must_use]
pub fn canonical(version: &PolicyVersion, contents: &[blake3::Hash]) -> String {
    debug_assert_eq!(version.files.len(), contents.len());
    let mut files: Vec<(&FileSpec, &blake3::Hash)> = version.files.iter().zip(contents).collect();
    files.sort_by(|(a, _), (b, _)| a.path.value.as_os_str().cmp(b.path.value.as_os_str()));
    // Build metadata has no part in what a version is.
    let mut number = version.version.value.clone();
    number.build = semver::BuildMetadata::EMPTY;
    let mut dependencies: Vec<Needed<'_>> = version.dependencies.iter().map(dependency).collect();
    dependencies.sort_by(|a, b| a.policy.cmp(b.policy));
    let mut environment: Vec<Process<'_>> =
        version.environment.iter().map(environment_of).collect();
    environment.sort_by(|a, b| a.process.cmp(&b.process));
    let absent = by_path(&version.absent, |absent| &absent.path).into_iter();
    let directories = by_path(&version.directories, |directory| &directory.path).into_iter();
    let symlinks = by_path(&version.symlinks, |link| &link.path).into_iter();
    let form = Version {
        absent: absent.map(Path::absent).collect(),
        directories: directories.map(Path::directory).collect(),
        symlinks: symlinks.map(Path::symlink).collect(),
        dependencies,
        environment,
        files: files
            .into_iter()
            .map(|(spec, digest)| Path::file(spec, digest))
            .collect(),
        form: FORM,
        policy: &version.policy.value,
        version: number.to_string(),
    };
    // Texts, numbers and lists of them: there is nothing that has no JSON form.
    serde_json::to_string(&form).unwrap_or_default()
}

// The fields of all of these are in the order of their names.

#[derive(Serialize)]
struct Version<'v> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    absent: Vec<Path<'v>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dependencies: Vec<Needed<'v>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    directories: Vec<Path<'v>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    environment: Vec<Process<'v>>,
    files: Vec<Path<'v>>,
    form: u32,
    policy: &'v str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    symlinks: Vec<Path<'v>>,
    version: String,
}

/// `specs` by their paths.
fn by_path<T>(specs: &[T], path: impl Fn(&T) -> &Spanned<PathBuf>) -> Vec<&T> {
    let mut specs: Vec<&T> = specs.iter().collect();
    specs.sort_by(|a, b| path(a).value.as_os_str().cmp(path(b).value.as_os_str()));
    specs
}

#[derive(Serialize)]
struct Process<'v> {
    process: String,
    variables: Vec<Variable<'v>>,
}

#[derive(Serialize)]
struct Variable<'v> {
    name: &'v str,
    /// `null`: it must not be set.
    value: Option<&'v str>,
}

#[derive(Serialize)]
struct Needed<'v> {
    policy: &'v str,
    version: String,
}

fn environment_of(environment: &Environment) -> Process<'_> {
    let variables = environment.variables.iter().map(|variable| Variable {
        name: &variable.name.value,
        value: variable.value.as_deref(),
    });
    let mut variables: Vec<Variable<'_>> = variables.collect();
    variables.sort_by_key(|variable| variable.name);
    Process {
        process: environment.process.value.to_string_lossy().into_owned(),
        variables,
    }
}

fn dependency(dependency: &Dependency) -> Needed<'_> {
    Needed {
        policy: &dependency.policy.value,
        version: dependency.version.to_string(),
    }
}
