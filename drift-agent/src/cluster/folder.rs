//! What a cluster has said to this node, as a policy folder: a file for each namespace, and beside the folder how far each Policy was.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use drift_common::escape;
use serde_json::Value;

use super::choose::{Share, refused};

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
    marks: PathBuf,
    /// The highest generation of each Policy that was taken, by its UID.
    generations: BTreeMap<String, i64>,
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
        let marks = policies.with_file_name("generations.json");
        fs::create_dir_all(&policies)?;
        // What cannot be read is as good as none: then nothing is known to be older.
        let generations: Option<BTreeMap<String, i64>> = fs::read(&marks)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let folder = Self {
            new: generations.is_none(),
            generations: generations.unwrap_or_default(),
            policies,
            marks,
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

    /// Makes it what `shares` say. What a namespace says is taken whole or not at all: where it is not right, or older than what was taken before, the
    /// namespace's file stays. Gives a sentence for each that is not taken, once.
    ///
    /// # Errors
    /// It cannot be written: then it is what it was, or partly new.
    pub(super) fn put(&mut self, shares: &BTreeMap<String, Share>) -> io::Result<Vec<String>> {
        let mut sentences = Vec::new();
        let mut said = BTreeMap::new();
        let mut generations = BTreeMap::new();
        for (namespace, share) in shares {
            let text = text(share);
            let path = self.file(namespace);
            let why = if let Some(why) = &share.refused {
                Some(why.clone())
            } else if let Some(uid) = self.older(share) {
                Some(format!(
                    "a Policy is older than it was ({uid}): the API server shows an earlier state. If that is meant, give it the annotation {} = true",
                    super::watch::ACCEPTS_OLDER
                ))
            } else {
                refused(namespace, &text)
            };
            match why {
                None => {
                    if fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                        replace(&path, text.as_bytes())?;
                    }
                    generations.extend(share.generations.clone());
                }
                Some(why) => {
                    let sentence = format!(
                        "what the namespace {} says is not taken, and what it said before stays: {why}",
                        escape::name(namespace)
                    );
                    if self.said.get(namespace) != Some(&sentence) {
                        sentences.push(sentence.clone());
                    }
                    said.insert(namespace.clone(), sentence);
                    for uid in share.generations.keys() {
                        let before = self.generations.get(uid);
                        generations.extend(before.map(|before| (uid.clone(), *before)));
                    }
                }
            }
        }
        self.said = said;
        self.remove_others(shares)?;
        if generations != self.generations || self.new {
            let text = serde_json::to_vec(&generations)?;
            replace(&self.marks, &text)?;
            self.generations = generations;
            self.new = false;
        }
        Ok(sentences)
    }

    /// A Policy that had a higher generation before, if there is one.
    fn older<'s>(&self, share: &'s Share) -> Option<&'s str> {
        let older = |(uid, generation): &(&String, &i64)| {
            let before = self.generations.get(*uid);
            before.is_some_and(|before| before > *generation) && !share.accepted.contains(*uid)
        };
        share
            .generations
            .iter()
            .find(older)
            .map(|(uid, _)| uid.as_str())
    }

    fn remove_others(&self, shares: &BTreeMap<String, Share>) -> io::Result<()> {
        let kept: Vec<PathBuf> = shares
            .keys()
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
    fs::File::open(folder)?.sync_all()
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
            generations: [("uid".to_owned(), generation)].into(),
            ..Share::default()
        }
    }

    fn shares(share: Share) -> BTreeMap<String, Share> {
        [("shop".to_owned(), share)].into()
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
        assert!(folder.put(&shares(share("2.0.0", 5)))?.is_empty());
        assert_eq!(active(state.path()).as_deref(), Some("2.0.0"));

        // A backup was put back, or another API server lags behind. After a restart of the agent too.
        let mut folder = Folder::open(state.path())?;
        assert!(!folder.is_new());
        let said = folder.put(&shares(share("1.0.0", 4)))?;
        assert!(
            said.len() == 1 && said[0].contains("older than it was"),
            "{said:?}"
        );
        assert_eq!(active(state.path()).as_deref(), Some("2.0.0"));
        assert!(
            folder.put(&shares(share("1.0.0", 4)))?.is_empty(),
            "said once"
        );

        // A stated rollback is a new generation; and an owner can say that older is meant.
        assert!(folder.put(&shares(share("1.0.0", 6)))?.is_empty());
        assert_eq!(active(state.path()).as_deref(), Some("1.0.0"));
        let mut older = share("2.0.0", 3);
        older.accepted.insert("uid".to_owned());
        assert!(folder.put(&shares(older))?.is_empty());
        assert_eq!(active(state.path()).as_deref(), Some("2.0.0"));
        assert!(
            folder.put(&shares(share("1.0.0", 4)))?.is_empty(),
            "from there on"
        );
        Ok(())
    }

    #[test]
    fn what_is_not_right_keeps_what_was_and_other_namespaces_go_on() -> io::Result<()> {
        let state = tempfile::tempdir()?;
        let mut folder = Folder::open(state.path())?;
        folder.put(&shares(share("1.0.0", 1)))?;
        let mut both = shares(share("3.0.0", 2));
        both.insert("team".to_owned(), {
            let mut share = share("1.0.0", 1);
            for document in &mut share.documents {
                *document = serde_json::from_str(&document.to_string().replace("shop.", "team."))?;
            }
            share.generations = [("other".to_owned(), 1)].into();
            share
        });
        let said = folder.put(&both)?;
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
        folder.put(&BTreeMap::new())?;
        assert_eq!(active(state.path()), None);
        Ok(())
    }
}
