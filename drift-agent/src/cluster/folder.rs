//! What a cluster has said to this node, as a policy folder: a file for each namespace, and beside the folder how far each Policy was.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use drift_common::escape;
use serde_json::Value;

use crate::sync::sync_directory;

use super::{
    choose::{Share, refused},
    mark::{self, Fate, Mark, Marks, Present},
};

/// A policy folder may not be empty, and a node may have no policies: a policy that is for no node.
const NOBODYS: &str =
    "# Made by drift-agent. Keeps this folder a policy folder while no policy is for this node.
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: none}
spec: {activeVersion: 0.0.0, nodeSelector: {kubernetes.io/hostname: \"\"}}
";
/// How the name of a file begins that is not whole yet.
pub(super) const NEW: &str = ".new-";
/// No namespace has a dot.
const NOBODYS_NAME: &str = "no.policies";

/// The folder. This process alone writes to it.
#[derive(Debug)]
pub(super) struct Folder {
    policies: PathBuf,
    /// Where marks are kept.
    kept: PathBuf,
    marks: Marks,
    new: bool,
    /// What was last said of each namespace, so that it is said once.
    said: BTreeMap<String, String>,
}

impl Folder {
    /// The one beneath `state`, made where there is none.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn open(state: &Path) -> io::Result<Self> {
        let policies = super::policies(state);
        let kept = policies.with_file_name("marks.json");
        fs::create_dir_all(&policies)?;
        // What cannot be read is as good as none: then nothing is known to be older.
        let marks: Option<Marks> = fs::read(&kept)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let folder = Self {
            new: marks.is_none(),
            marks: marks.unwrap_or_default(),
            policies,
            kept,
            said: BTreeMap::new(),
        };
        replace(&folder.file(NOBODYS_NAME), NOBODYS.as_bytes())?;
        Ok(folder)
    }

    /// Whether no API server has filled it yet.
    pub(super) fn is_new(&self) -> bool {
        self.new
    }

    /// A sentence for each namespace whose word was not taken last.
    pub(super) fn refused(&self) -> &BTreeMap<String, String> {
        &self.said
    }

    fn file(&self, namespace: &str) -> PathBuf {
        self.policies.join(format!("{namespace}.yaml"))
    }

    /// Whether a Policy is not there any more of which it is not known whether somebody has deleted it.
    pub(super) fn lacks(&self, present: &Present) -> bool {
        present.lacks(&self.marks)
    }

    /// Makes it what `shares` say. What a namespace says is taken whole or not at all: where it is not right, or older than what was taken before, or lacks
    /// what nobody has deleted, the namespace's file stays. Gives a sentence for each that is not taken, once.
    ///
    /// # Errors
    /// It cannot be written: then it is what it was, or partly new.
    pub(super) fn put(
        &mut self,
        shares: &BTreeMap<String, Share>,
        present: &Present,
    ) -> io::Result<Vec<String>> {
        let mut marks = self.marks.clone();
        let mut why_not = mark::look(&mut marks, present);
        for (namespace, share) in shares {
            let text = text(share);
            let why = share
                .refused
                .clone()
                .or_else(|| older(&marks, share))
                .or_else(|| why_not.remove(namespace))
                .or_else(|| refused(namespace, &text));
            if let Some(why) = why {
                why_not.insert(namespace.clone(), why);
                continue;
            }
            let path = self.file(namespace);
            if fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                replace(&path, text.as_bytes())?;
            }
            marks.extend(share.marks.clone());
        }
        let said: BTreeMap<String, String> = why_not
            .into_iter()
            .map(|(namespace, why)| {
                let sentence = format!(
                    "what the namespace {} says is not taken, and what it said before stays: {why}",
                    escape::name(&namespace)
                );
                (namespace, sentence)
            })
            .collect();
        let new = |(namespace, sentence): &(&String, &String)| {
            self.said.get(*namespace) != Some(*sentence)
        };
        let sentences = said
            .iter()
            .filter(new)
            .map(|(_, sentence)| sentence.clone())
            .collect();
        self.said = said;
        self.remove_others(shares)?;
        if marks != self.marks || self.new {
            let text = serde_json::to_vec(&marks)?;
            replace(&self.kept, &text)?;
            self.marks = marks;
            self.new = false;
        }
        Ok(sentences)
    }

    fn remove_others(&self, shares: &BTreeMap<String, Share>) -> io::Result<()> {
        let kept: Vec<PathBuf> = shares
            .keys()
            .chain(self.said.keys())
            .map(String::as_str)
            .chain([NOBODYS_NAME])
            .map(|namespace| self.file(namespace))
            .collect();
        for entry in fs::read_dir(&self.policies)? {
            let path = entry?.path();
            if !kept.contains(&path) && is_namespaces(&path) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Why a share is older than what was taken before, if it is.
fn older(marks: &Marks, share: &Share) -> Option<String> {
    let older = |(uid, new): (&String, &Mark)| {
        let before = marks.get(uid).filter(|_| !share.accepted.contains(uid))?;
        let what = if before.fate == Fate::Gone {
            "was deleted and is there again"
        } else if before.generation > new.generation {
            "is older than it was"
        } else {
            return None;
        };
        Some(format!(
            "the Policy {} {what}: the API server shows an earlier state. If that is meant, give it the annotation {} = true",
            new.name,
            super::watch::ACCEPTS_OLDER
        ))
    };
    share.marks.iter().find_map(older)
}

/// Whether this is the file of a namespace, or nobody's: what the cluster has said, and not the node's own policy folder.
pub(super) fn is_namespaces(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let name = name.as_deref().and_then(|name| name.strip_suffix(".yaml"));
    name.is_some_and(|name| name == NOBODYS_NAME || !name.contains('.'))
}

/// A document on each line, which is YAML too.
fn text(share: &Share) -> String {
    let documents: Vec<String> = share.documents.iter().map(Value::to_string).collect();
    documents.join("\n---\n") + "\n"
}

/// Whole, or as it was; and there after a power cut.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_by(path, |file| file.write_all(bytes))
}

/// The same, with what `write` writes.
pub(super) fn replace_by(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(NEW).tempfile_in(folder)?;
    write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(sync_directory(fs::File::open(folder)?)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn share(active: &str, generation: i64) -> Share {
        let document = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "configdrift.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        Share {
            documents: vec![
                document("Policy", "shop.app", json!({"activeVersion": active})),
                document(
                    "PolicyVersion",
                    "shop.app-1",
                    json!({"policy": "shop.app", "version": "1.0.0"}),
                ),
                document(
                    "PolicyVersion",
                    "shop.app-2",
                    json!({"policy": "shop.app", "version": "2.0.0"}),
                ),
            ],
            marks: [("uid".to_owned(), mark("shop", generation))].into(),
            ..Share::default()
        }
    }

    fn mark(namespace: &str, generation: i64) -> Mark {
        Mark {
            namespace: namespace.to_owned(),
            name: "app".to_owned(),
            generation,
            revision: 100,
            fate: Fate::There,
        }
    }

    fn shares(share: Share) -> BTreeMap<String, Share> {
        [("shop".to_owned(), share)].into()
    }

    /// With what is there being what `shares` say, and an API server that is where it should be.
    fn put(folder: &mut Folder, shares: &BTreeMap<String, Share>) -> io::Result<Vec<String>> {
        let marks = shares.values().flat_map(|share| &share.marks);
        let present = Present {
            uids: marks
                .map(|(uid, mark)| (uid.clone(), Some(mark.revision)))
                .collect(),
            revision: Some(1000),
            ..Present::default()
        };
        folder.put(shares, &present)
    }

    /// The active version that the folder at `state` declares; `None`: no policy.
    fn active(state: &Path) -> Option<String> {
        let folder = super::super::policies(state);
        let snapshot =
            crate::declare::load(&folder, Path::new("/"), None, &crate::declare::Holds::new())
                .unwrap_or_else(|why| panic!("{}", why.plain()));
        snapshot
            .policies
            .first()
            .map(|policy| policy.version.clone())
    }

    #[test]
    fn the_folder_is_a_policy_folder_from_the_start_and_never_goes_back_in_time() -> io::Result<()>
    {
        let state = tempfile::tempdir()?;
        let mut folder = Folder::open(state.path())?;
        assert!(folder.is_new());
        assert_eq!(active(state.path()), None);
        assert!(put(&mut folder, &shares(share("2.0.0", 5)))?.is_empty());
        assert_eq!(active(state.path()).as_deref(), Some("2.0.0"));

        // A backup was put back, or another API server lags behind. After a restart of the agent too.
        let mut folder = Folder::open(state.path())?;
        assert!(!folder.is_new());
        let said = put(&mut folder, &shares(share("1.0.0", 4)))?;
        assert!(
            said.len() == 1 && said[0].contains("older than it was"),
            "{said:?}"
        );
        assert_eq!(active(state.path()).as_deref(), Some("2.0.0"));
        assert!(
            put(&mut folder, &shares(share("1.0.0", 4)))?.is_empty(),
            "said once"
        );

        // A stated rollback is a new generation; and an owner can say that older is meant.
        assert!(put(&mut folder, &shares(share("1.0.0", 6)))?.is_empty());
        assert_eq!(active(state.path()).as_deref(), Some("1.0.0"));
        let mut older = share("2.0.0", 3);
        older.accepted.insert("uid".to_owned());
        assert!(put(&mut folder, &shares(older))?.is_empty());
        assert_eq!(active(state.path()).as_deref(), Some("2.0.0"));
        assert!(
            put(&mut folder, &shares(share("1.0.0", 4)))?.is_empty(),
            "from there on"
        );
        Ok(())
    }

    #[test]
    fn what_is_not_right_keeps_what_was_and_other_namespaces_go_on() -> io::Result<()> {
        let state = tempfile::tempdir()?;
        let mut folder = Folder::open(state.path())?;
        put(&mut folder, &shares(share("1.0.0", 1)))?;
        let mut both = shares(share("3.0.0", 2));
        both.insert("team".to_owned(), {
            let mut share = share("1.0.0", 1);
            for document in &mut share.documents {
                *document = serde_json::from_str(&document.to_string().replace("shop.", "team."))?;
            }
            share.marks = [("other".to_owned(), mark("team", 1))].into();
            share
        });
        let said = put(&mut folder, &both)?;
        assert!(
            said.len() == 1 && said[0].contains("has no version 3.0.0"),
            "{said:?}"
        );
        let folder_of = super::super::policies(state.path());
        let there = crate::declare::load(
            &folder_of,
            Path::new("/"),
            None,
            &crate::declare::Holds::new(),
        );
        let there: Vec<String> = there
            .unwrap_or_else(|why| panic!("{}", why.plain()))
            .policies
            .iter()
            .map(|policy| format!("{} {}", policy.name, policy.version))
            .collect();
        assert_eq!(there, ["shop.app 1.0.0", "team.app 1.0.0"]);
        // A namespace that is gone takes its file along.
        put(&mut folder, &BTreeMap::new())?;
        assert_eq!(active(state.path()), None);
        Ok(())
    }

    #[test]
    fn a_policy_that_a_backup_does_not_know_stays_and_one_that_was_deleted_does_not_come_again()
    -> io::Result<()> {
        let state = tempfile::tempdir()?;
        let mut folder = Folder::open(state.path())?;
        put(&mut folder, &shares(share("2.0.0", 5)))?;
        let earlier = Present {
            revision: Some(99),
            ..Present::default()
        };
        assert!(folder.lacks(&earlier));
        let said = folder.put(&BTreeMap::new(), &earlier)?;
        assert!(
            said.len() == 1 && said[0].contains("nobody has deleted it"),
            "{said:?}"
        );
        // After a restart too, however far the API server is by then.
        let mut folder = Folder::open(state.path())?;
        assert!(!folder.lacks(&Present::default()));
        put(&mut folder, &BTreeMap::new())?;
        assert_eq!(active(state.path()).as_deref(), Some("2.0.0"));
        // Somebody makes it anew, and deletes it.
        let mut anew = share("1.0.0", 1);
        anew.marks = [("new".to_owned(), mark("shop", 1))].into();
        let mut present = Present::default();
        present.uids.insert("new".to_owned(), Some(100));
        present.names.insert(("shop".to_owned(), "app".to_owned()));
        assert!(folder.put(&shares(anew.clone()), &present)?.is_empty());
        assert_eq!(active(state.path()).as_deref(), Some("1.0.0"));
        put(&mut folder, &BTreeMap::new())?;
        assert_eq!(active(state.path()), None);
        // A backup has it.
        let said = folder.put(&shares(anew.clone()), &present)?;
        assert!(
            said.len() == 1 && said[0].contains("was deleted and is there again"),
            "{said:?}"
        );
        assert_eq!(active(state.path()), None);
        anew.accepted.insert("new".to_owned());
        assert!(folder.put(&shares(anew), &present)?.is_empty());
        assert_eq!(active(state.path()).as_deref(), Some("1.0.0"));
        Ok(())
    }
}
