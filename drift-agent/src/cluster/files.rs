//! With `--source both`: the node's own policy folder, beside what the cluster says. Its files are taken into the folder that the cluster fills, whole or not at all.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use drift_common::policy::MAX_CONTENT;
use tokio::sync::watch;

use super::{
    folder::{NEW, is_namespaces, replace_by},
    view::View,
};
use crate::{
    declare::{self, Basis, Body, Changes, Form, Rejected, Sources},
    report::complain,
};

/// Before the name of a policy file. No namespace has a dot, so no namespace's file is called so.
const PREFIX: &str = "files.";

/// Takes in what `own` has, from now on; `into` is the folder that the cluster fills. Comes back when it is taken in for the first time.
///
/// # Errors
/// It cannot be written.
pub(super) async fn follow(
    own: PathBuf,
    into: PathBuf,
    view: watch::Sender<View>,
) -> io::Result<()> {
    let (outcome, basis) = look(own.clone()).await;
    let mut said = None;
    tell(take(&into, outcome)?, &mut said, &view);
    tokio::spawn(async move {
        let mut changes = Changes::since(basis);
        loop {
            changes.changed().await;
            let (outcome, basis) = look(own.clone()).await;
            changes.rebase(basis);
            match take(&into, outcome) {
                Ok(refused) => tell(refused, &mut said, &view),
                Err(error) => complain(format_args!(
                    "degraded: what the policy folder says cannot be written down: {error}"
                )),
            }
        }
    });
    Ok(())
}

async fn look(own: PathBuf) -> (Result<Sources, Rejected>, Basis) {
    match tokio::task::spawn_blocking(move || declare::sources(&own)).await {
        Ok(looked) => looked,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// Says why it is not taken, once.
fn tell(refused: Option<String>, said: &mut Option<String>, view: &watch::Sender<View>) {
    if let Some(why) = &refused
        && refused != *said
    {
        complain(format_args!("degraded: {why}."));
    }
    view.send_if_modified(|view| {
        let is_new = view.files != refused;
        view.files.clone_from(&refused);
        is_new
    });
    *said = refused;
}

/// Makes the files in `into` what was read; where that is not right they stay, and it gives the reason.
fn take(into: &Path, outcome: Result<Sources, Rejected>) -> io::Result<Option<String>> {
    match outcome {
        Ok(sources) => put(into, &sources).map(|()| None),
        Err(rejected) => Ok(Some(format!(
            "what the policy folder says is not taken, and what it said before stays: {}",
            rejected.one_line()
        ))),
    }
}

/// Makes the files that are not the cluster's what `sources` say.
///
/// # Errors
/// The file system's.
pub(super) fn put(into: &Path, sources: &Sources) -> io::Result<()> {
    let mut kept = BTreeSet::new();
    for (path, body) in sources {
        let path = into.join(named(path));
        let there = fs::File::open(&path);
        let there = there.and_then(|file| Body::read(file, Form::Plain, MAX_CONTENT));
        if !there.is_ok_and(|(there, _)| there == *body) {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            replace_by(&path, |file| body.each(&mut |part| file.write_all(part)))?;
        }
        kept.insert(path);
    }
    remove_others(into, into, &kept)
}

/// A policy file gets another name, a content keeps the one that policies know it by.
fn named(path: &Path) -> PathBuf {
    let is_policy = path
        .parent()
        .is_some_and(|parent| parent.as_os_str().is_empty())
        && path
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml");
    if is_policy {
        let mut name = OsString::from(PREFIX);
        name.push(path);
        name.into()
    } else {
        path.to_owned()
    }
}

fn remove_others(top: &Path, folder: &Path, kept: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(top, &path, kept)?;
            if fs::read_dir(&path)?.next().is_none() {
                fs::remove_dir(&path)?;
            }
        } else if !(kept.contains(&path) || folder == top && is_others(&path)) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// What the cluster has said, and what is being written of it.
fn is_others(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    is_namespaces(path) || name.starts_with(NEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| {
                let entry = entry.expect("an entry");
                entry.file_name().to_string_lossy().into_owned()
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_of_the_node_and_of_the_cluster_leave_each_other_alone() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let into = folder.path();
        fs::write(into.join("shop.yaml"), "the cluster's")?;
        fs::write(into.join("files.yaml"), "of the namespace files")?;
        fs::write(into.join("no.policies.yaml"), "nobody's")?;
        let sources = |files: &[(&str, &str)]| -> Sources {
            files
                .iter()
                .map(|(path, text)| (PathBuf::from(path), text.as_bytes().into()))
                .collect()
        };
        put(
            into,
            &sources(&[("shop.yaml", "mine"), ("p.yml", "p"), ("d/e/app.conf", "x")]),
        )?;
        assert_eq!(
            names(into),
            [
                "d",
                "files.p.yml",
                "files.shop.yaml",
                "files.yaml",
                "no.policies.yaml",
                "shop.yaml"
            ]
        );
        assert_eq!(fs::read_to_string(into.join("shop.yaml"))?, "the cluster's");
        assert_eq!(fs::read_to_string(into.join("files.shop.yaml"))?, "mine");
        assert_eq!(fs::read_to_string(into.join("d/e/app.conf"))?, "x");
        put(into, &sources(&[("p.yml", "q")]))?;
        assert_eq!(
            names(into),
            ["files.p.yml", "files.yaml", "no.policies.yaml", "shop.yaml"]
        );
        assert_eq!(fs::read_to_string(into.join("files.p.yml"))?, "q");
        put(into, &Sources::new())?;
        assert_eq!(names(into), ["files.yaml", "no.policies.yaml", "shop.yaml"]);
        Ok(())
    }

    #[test]
    fn a_folder_that_is_not_right_leaves_what_it_said_before() -> io::Result<()> {
        let (own, into) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let policy = "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {name: web}\nspec: {activeVersion: 1.0.0}\n---\n\
                      apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {name: web-1}\n\
                      spec: {policy: web, version: 1.0.0, files: [{path: /etc/x, content: {file: c/x}}]}\n";
        fs::create_dir(own.path().join("c"))?;
        fs::write(own.path().join("c/x"), "x")?;
        fs::write(own.path().join("web.yaml"), policy)?;
        let look = || declare::sources(own.path()).0;
        assert_eq!(take(into.path(), look())?, None);
        assert_eq!(names(into.path()), ["c", "files.web.yaml"]);
        fs::write(own.path().join("web.yaml"), "kind: [")?;
        let why = take(into.path(), look())?.unwrap_or_default();
        assert!(why.contains("web.yaml"), "{why}");
        assert_eq!(names(into.path()), ["c", "files.web.yaml"]);
        assert_eq!(
            fs::read_to_string(into.path().join("files.web.yaml"))?,
            policy
        );
        Ok(())
    }
}
