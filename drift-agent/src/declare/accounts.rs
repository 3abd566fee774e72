//! Users and groups by name, from the host's own files.
//!
//! The files are read here and not by the C library: a static binary has no name services, and in a container the library would look at
//! the container's users.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Read},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use drift_common::{
    escape,
    policy::{Principal, Problem, Spanned, closest},
};
use rustix::fs::{Mode, OFlags, ResolveFlags, open};

use super::{Basis, content::open_beneath};

/// Bytes of such a file that are looked at. Large enough for a million users.
const MAX_BYTES: u64 = 64 << 20;

/// One kind of account.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    what: &'static str,
    /// Relative to the root. The second is where image-based systems keep what belongs to the system; the first counts more.
    files: [&'static str; 2],
}

pub(super) const USERS: Kind = Kind {
    what: "user",
    files: ["etc/passwd", "usr/lib/passwd"],
};

pub(super) const GROUPS: Kind = Kind {
    what: "group",
    files: ["etc/group", "usr/lib/group"],
};

/// The accounts of one kind on a host. Read when a name is first looked up.
pub(super) struct Accounts<'r> {
    root: &'r Path,
    kind: Kind,
    ids: Option<HashMap<String, u32>>,
    /// What could not be read.
    trouble: Vec<String>,
}

impl<'r> Accounts<'r> {
    pub(super) fn new(root: &'r Path, kind: Kind) -> Self {
        Self {
            root,
            kind,
            ids: None,
            trouble: Vec::new(),
        }
    }

    /// The id of `principal`. `example`: how one is written where it stands.
    ///
    /// # Errors
    /// There is no such name.
    pub(super) fn id(
        &mut self,
        principal: &Spanned<Principal>,
        example: &str,
        basis: &mut Basis,
    ) -> Result<u32, Problem> {
        let name = match &principal.value {
            Principal::Id(id) => return Ok(*id),
            Principal::Name(name) => name,
        };
        let ids = match self.ids.take() {
            Some(ids) => ids,
            None => self.read(basis),
        };
        let ids = self.ids.insert(ids);
        if let Some(id) = ids.get(name) {
            return Ok(*id);
        }
        let Kind { what, files } = self.kind;
        let meant = closest(name, ids.keys().map(String::as_str));
        let meant = meant.map_or_else(String::new, |meant| {
            format!(", did you mean {}?", escape::name(meant))
        });
        let file = self.root.join(files[0]);
        let mut problem = principal
            .at
            .problem(format!("there is no {what} {}{meant}", escape::name(name)))
            .help(format!(
                "looked in {}; an id needs no name there: `{example}`",
                escape::path(&file)
            ));
        for trouble in &self.trouble {
            problem = problem.help(trouble);
        }
        Err(problem)
    }

    fn read(&mut self, basis: &mut Basis) -> HashMap<String, u32> {
        let mut ids = HashMap::new();
        for text in self.texts(basis) {
            for (name, id) in entries(&text) {
                ids.entry(name).or_insert(id);
            }
        }
        ids
    }

    fn texts(&mut self, basis: &mut Basis) -> Vec<Vec<u8>> {
        let mut texts = Vec::new();
        for (index, file) in self.kind.files.into_iter().enumerate() {
            let path = self.root.join(file);
            match self.read_file(file, path.clone(), basis) {
                Ok(text) => texts.push(text),
                // Most systems do not have the second one.
                Err(error) if index > 0 && error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self
                    .trouble
                    .push(format!("{} cannot be read: {error}", escape::path(&path))),
            }
        }
        texts
    }

    fn read_file(&self, file: &str, path: PathBuf, basis: &mut Basis) -> io::Result<Vec<u8>> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let opened = open(self.root, flags, Mode::empty())
            // Links in the host's tree mean the host's root.
            .and_then(|root| open_beneath(root, Path::new(file), ResolveFlags::IN_ROOT))
            .map_err(io::Error::from)
            .and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        let (file, metadata) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                basis.saw(path.clone(), std::fs::metadata(path).ok().as_ref());
                return Err(error);
            }
        };
        // Where links lead within the host's root may not be where they lead in ours.
        let is_same = std::fs::metadata(&path)
            .is_ok_and(|ours| (ours.dev(), ours.ino()) == (metadata.dev(), metadata.ino()));
        let real = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = if is_same {
            path
        } else {
            std::fs::read_link(real).unwrap_or(path)
        };
        basis.saw(path, Some(&metadata));
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text)?;
        Ok(text)
    }
}

/// What `text` says: lines of fields with colons between them, the first the name and the third the id. The first entry of a name counts; lines
/// that are none are passed by, as the C library does.
fn entries(text: &[u8]) -> impl Iterator<Item = (String, u32)> + '_ {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let (name, id) = (fields.next(), fields.nth(1));
        let text = |field: Option<&[u8]>| Some(std::str::from_utf8(field?).ok()?.to_owned());
        Some((text(name)?, text(id)?.parse().ok()?))
    })
}

/// How the users and groups of a host are called.
#[derive(Debug, Default)]
pub struct Names {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Names {
    /// Those of the host whose root is `root`. A file that cannot be read has none.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        let names = |kind| {
            // Nobody waits for these files to change.
            let texts = Accounts::new(root, kind).texts(&mut Basis::new(root));
            by_id(texts.iter().flat_map(|text| entries(text)))
        };
        Self {
            users: names(USERS),
            groups: names(GROUPS),
        }
    }

    /// The name that stands for just this id, or the id.
    #[must_use]
    pub fn user(&self, id: u32) -> Principal {
        principal(&self.users, id)
    }

    /// As [`Names::user`].
    #[must_use]
    pub fn group(&self, id: u32) -> Principal {
        principal(&self.groups, id)
    }

    /// [`Names::user`], for people.
    #[must_use]
    pub fn shown_user(&self, id: u32) -> String {
        shown(self.user(id))
    }

    /// [`Names::group`], for people.
    #[must_use]
    pub fn shown_group(&self, id: u32) -> String {
        shown(self.group(id))
    }
}

fn shown(principal: Principal) -> String {
    match principal {
        Principal::Id(id) => id.to_string(),
        Principal::Name(name) => name,
    }
}

fn principal(names: &HashMap<u32, String>, id: u32) -> Principal {
    let name = names.get(&id).cloned();
    name.map_or(Principal::Id(id), Principal::Name)
}

/// The first name of each id; a name's first entry counts, and names that would need care in a policy do not.
fn by_id(entries: impl Iterator<Item = (String, u32)>) -> HashMap<u32, String> {
    let is_plain = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.len() <= 256
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
    };
    let mut seen = HashSet::new();
    let mut names = HashMap::new();
    for (name, id) in entries {
        if seen.insert(name.clone()) && is_plain(&name) {
            names.entry(id).or_insert(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{by_id, entries};

    const TEXT: &[u8] = b"root:x:0:0:root:/root:/bin/sh\n\n# comment\n+::::::\nbad:x:nan:\nshort:x\nroot:x:7:\ntoor:x:0:\n\xff:x:1:\napp:x:1000:1000::/:\n\
        7up:x:9:\nlast:x:5";

    #[test]
    fn lines_that_are_no_entries_are_passed_by() {
        let found: Vec<_> = entries(TEXT).collect();
        let expected = [
            ("root", 0),
            ("root", 7),
            ("toor", 0),
            ("app", 1000),
            ("7up", 9),
            ("last", 5),
        ];
        assert_eq!(found, expected.map(|(name, id)| (name.to_owned(), id)));
    }

    #[test]
    fn an_id_has_the_first_name_that_means_it() {
        let names = by_id(entries(TEXT));
        let name = |id| names.get(&id).map(String::as_str);
        assert_eq!(
            [0, 7, 1000, 9, 5].map(name),
            [Some("root"), None, Some("app"), None, Some("last")]
        );
    }
}
