//! Whether policy files that are to be written fit to those that are there.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use drift_common::policy::{self, Holds, Problems, Source};

use super::{
    Basis, Keep, Rejected,
    folder::{self, MAX_BYTES, MAX_FILES},
};

/// What becomes of a folder with new policy files.
#[derive(Debug)]
pub enum Beside {
    /// They are right together.
    Fits,
    /// What is there has problems of its own: nothing can be said.
    Broken,
    /// Together they have problems that what is there has not.
    Conflict(Problems),
    /// Together they are more than a folder may have.
    TooMuch,
}

/// Whether `new` policy files (names in the folder, and what is in them), which are right by themselves, fit to the others in `folder`. Contents are
/// not looked at.
///
/// # Errors
/// The folder cannot be read.
pub fn beside(folder: &Path, new: &[(OsString, &str)]) -> Result<Beside, Rejected> {
    let mut basis = Basis::new(folder, Keep::Digests);
    let mut problems = Problems::default();
    let mut sources = match folder::read(&mut basis, &mut problems) {
        Ok(mut there) => there.sources(&mut problems),
        Err(Rejected::NoPolicies { .. }) => Vec::new(),
        Err(other) => return Err(other),
    };
    let is_replaced = |source: &Arc<Source>| {
        let name = source.name().file_name();
        new.iter().any(|(new, _)| Some(new.as_os_str()) == name)
    };
    sources.retain(|source| !is_replaced(source));
    let mut documents = Vec::new();
    for source in &sources {
        documents.extend(policy::parse(source, &mut problems));
    }
    if !problems.is_empty()
        || policy::validate(documents.clone(), &Holds::new(), &mut problems).is_none()
    {
        return Ok(Beside::Broken);
    }
    let bytes: usize = sources.iter().map(|source| source.text().len()).sum();
    let added: usize = new.iter().map(|(_, text)| text.len()).sum();
    if sources.len() + new.len() > MAX_FILES || bytes + added > MAX_BYTES {
        return Ok(Beside::TooMuch);
    }
    if documents.is_empty() {
        return Ok(Beside::Fits); // alone, they were found to be right
    }
    for (name, text) in new {
        let name: PathBuf = folder.join(name);
        match Source::new(name.into(), text.as_bytes().to_vec()) {
            Ok(source) => documents.extend(policy::parse(&source, &mut problems)),
            Err(problem) => problems.push(problem),
        }
    }
    Ok(
        match policy::validate(documents, &Holds::new(), &mut problems) {
            Some(_) => Beside::Fits,
            None => Beside::Conflict(problems),
        },
    )
}
