//! Policy files of what was found, each within the bounds of the language.
//!
//! Usually it is one file with one policy. What does not fit into one is a row of policies with a file each: a version is one document, and a
//! document is in one file.

use std::{ops::Add, sync::Arc};

use drift_common::{
    policy::{
        Document, Evidence, Guard, MAX_FILE, MAX_NODES, Mode, NodeSelector, OnRemove, Policy,
        PolicyVersion, Source, Spanned, is_name, render,
    },
    yaml::{Event, Events},
};
use semver::Version;

use super::Entry;

/// What the policies are called.
#[derive(Clone, Debug)]
pub struct Title {
    pub policy: String,
    pub version: Version,
}

/// One policy file.
#[derive(Debug)]
pub struct Part {
    pub title: Title,
    pub text: String,
}

/// Bytes and nodes that the policy itself, and the beginning of its version, have at most.
const HEAD: Cost = Cost {
    bytes: 4096,
    nodes: 100,
};

/// What has to fit into a policy file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    bytes: usize,
    nodes: usize,
}

/// Policy files with all of `entries` in their order; the first has the title's name, further ones a number behind it, from 2 on.
#[must_use]
pub fn parts(entries: Vec<Entry>, title: &Title, at: &Arc<Source>) -> Vec<Part> {
    let rooms = rooms(&entries, title, at);
    let mut entries = entries.into_iter();
    let parts = rooms.iter().enumerate().map(|(index, count)| {
        let title = title.numbered(index + 1);
        let some: Vec<Entry> = entries.by_ref().take(*count).collect();
        let text = render(&documents(some, &title, at)).to_string();
        Part { title, text }
    });
    parts.collect()
}

/// How many of the entries each file has.
fn rooms(entries: &[Entry], title: &Title, at: &Arc<Source>) -> Vec<usize> {
    if (HEAD + cost(version(entries.iter().cloned(), title, at))).fits() {
        return vec![entries.len()];
    }
    let empty = cost(version([], title, at));
    let mut rooms = vec![0];
    let mut used = HEAD;
    for entry in entries {
        let with = cost(version([entry.clone()], title, at));
        let alone = Cost {
            // Where there is a file, ` []` is not.
            bytes: with.bytes + " []".len() - empty.bytes,
            nodes: with.nodes - empty.nodes,
        };
        used = used + alone;
        if !used.fits() {
            rooms.push(0);
            used = HEAD + alone;
        }
        if let Some(last) = rooms.last_mut() {
            *last += 1;
        }
    }
    rooms
}

impl Cost {
    fn fits(self) -> bool {
        self.bytes <= MAX_FILE && self.nodes <= MAX_NODES
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            nodes: self.nodes + other.nodes,
        }
    }
}

/// Counted as the reader of policies counts: keys, scalars, lists and mappings.
fn cost(version: PolicyVersion) -> Cost {
    let text = render(&[Document::Version(version)]).to_string();
    let is_node = |event: &Event<'_>| {
        matches!(
            event,
            Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..)
        )
    };
    let events = Events::new(&text).map_while(Result::ok);
    Cost {
        bytes: text.len(),
        nodes: events.filter(|(event, _)| is_node(event)).count(),
    }
}

fn documents(entries: Vec<Entry>, title: &Title, at: &Arc<Source>) -> [Document; 2] {
    let spanned = |name: &str| Spanned {
        value: name.to_owned(),
        at: at.start(),
    };
    let policy = Policy {
        name: spanned(&title.policy),
        active_version: Spanned {
            value: title.version.clone(),
            at: at.start(),
        },
        mode: Mode::Observe,
        on_remove: OnRemove::default(),
        guard: Guard::default(),
        evidence: Evidence::default(),
        node_selector: NodeSelector::new(),
        rollout: None,
    };
    [
        Document::Policy(policy),
        Document::Version(version(entries, title, at)),
    ]
}

fn version(
    entries: impl IntoIterator<Item = Entry>,
    title: &Title,
    at: &Arc<Source>,
) -> PolicyVersion {
    let spanned = |name: String| Spanned {
        value: name,
        at: at.start(),
    };
    let mut version = PolicyVersion {
        name: spanned(title.document()),
        policy: spanned(title.policy.clone()),
        version: Spanned {
            value: title.version.clone(),
            at: at.start(),
        },
        files: Vec::new(),
        symlinks: Vec::new(),
        absent: Vec::new(),
        directories: Vec::new(),
        environment: Vec::new(),
        dependencies: Vec::new(),
    };
    for entry in entries {
        match entry {
            Entry::File(file) => version.files.push(file),
            Entry::Link(link) => version.symlinks.push(link),
            Entry::Directory(directory) => version.directories.push(directory),
            Entry::Absent(absent) => version.absent.push(absent),
        }
    }
    version
}

impl Title {
    /// The name of the document that holds the version.
    #[must_use]
    pub fn document(&self) -> String {
        let number: String = self
            .version
            .to_string()
            .chars()
            .map(|c| {
                if c == '+' {
                    '-'
                } else {
                    c.to_ascii_lowercase()
                }
            })
            .collect();
        let name = format!("{}-{number}", self.policy);
        if is_name(&name) {
            return name;
        }
        self.policy.clone()
    }

    /// The title of the policy file `number`, from 1.
    #[must_use]
    pub fn numbered(&self, number: usize) -> Self {
        let mut title = self.clone();
        if number > 1 {
            title.policy = format!("{}-{number}", self.policy);
        }
        title
    }

    /// A policy's name made of a file's.
    #[must_use]
    pub fn name_of(file: &str) -> String {
        const LONGEST: usize = 200;
        let mut name = String::new();
        for c in file.chars().take(LONGEST) {
            match c.to_ascii_lowercase() {
                c if c.is_ascii_lowercase() || c.is_ascii_digit() => name.push(c),
                // Between two letters or digits, one mark at most.
                '.' if name.ends_with(|c: char| c.is_ascii_alphanumeric()) => name.push('.'),
                _ if name.ends_with(|c: char| c.is_ascii_alphanumeric()) => name.push('-'),
                _ => {}
            }
        }
        let name = name.trim_end_matches(['-', '.']);
        if is_name(name) {
            return name.to_owned();
        }
        "snapshot".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use drift_common::policy::{
        Attributes, Compare, Content, FileSpec, HardLinks, Heed, Principal, Problems, Redact,
        Severity, Writing, parse,
    };

    use super::*;

    #[test]
    fn names_of_policies() {
        #[track_caller]
        fn check(file: &str, name: &str) {
            assert_eq!(Title::name_of(file), name);
        }
        check("ssh", "ssh");
        check("NetworkManager", "networkmanager");
        check("apt.conf.d", "apt.conf.d");
        check("my app_2.d.", "my-app-2.d");
        check(".hidden", "hidden");
        check("a.-b", "a.b");
        check("", "snapshot");
        check("é", "snapshot");
        check(&"x".repeat(300), &"x".repeat(200));
    }

    fn file(path: String, text: &str, at: &Arc<Source>) -> Entry {
        let spanned = |value| Spanned {
            value,
            at: at.start(),
        };
        Entry::File(FileSpec {
            path: Spanned {
                value: path.into(),
                at: at.start(),
            },
            through: None,
            content: Spanned {
                value: Content::Inline(text.into()),
                at: at.start(),
            },
            mode: Some(0o644),
            owner: Some(spanned(Principal::Name("root".to_owned()))),
            group: Some(spanned(Principal::Id(7))),
            attributes: Attributes::default(),
            on_drift: None,
            severity: Severity::default(),
            redact: Redact::default(),
            max_size: None,
            final_newline: Heed::default(),
            line_endings: Heed::default(),
            hard_links: HardLinks::default(),
            write: Writing::default(),
            compare: Spanned {
                value: Compare::Exact,
                at: at.start(),
            },
            after_heal: Vec::new(),
        })
    }

    /// The paths in each part, as the reader of policies sees them; it takes every one.
    #[track_caller]
    fn read(parts: &[Part]) -> Vec<Vec<PathBuf>> {
        let mut all = Vec::new();
        for part in parts {
            let mut problems = Problems::default();
            let name = Path::new("p.yaml").into();
            let source = Source::new(name, part.text.clone().into_bytes()).unwrap();
            let documents = parse(&source, &mut problems);
            assert!(problems.is_empty(), "{}", problems.one_line());
            let [Document::Policy(policy), Document::Version(version)] = &documents[..] else {
                panic!("two documents");
            };
            assert_eq!(policy.name.value, part.title.policy);
            assert_eq!(version.policy.value, part.title.policy);
            all.push(
                version
                    .files
                    .iter()
                    .map(|file| file.path.value.clone())
                    .collect(),
            );
        }
        all
    }

    #[test]
    fn what_is_too_much_for_one_file_is_a_row_of_them() {
        let at = Source::new(Path::new("t").into(), Vec::new()).unwrap();
        let title = Title {
            policy: "web".to_owned(),
            version: "1.0.0".parse().unwrap(),
        };
        let long = "\u{7f}".repeat(2000);
        for (count, text, expected) in [
            (0, "", 1),
            (100, "a\nb\n", 1),
            (1000, &*long, 3),
            (25_000, "", 2),
        ] {
            let paths: Vec<String> = (0..count).map(|n| format!("/etc/{n:05}")).collect();
            let entries = paths.iter().map(|path| file(path.clone(), text, &at));
            let parts = parts(entries.collect(), &title, &at);
            let names: Vec<&str> = parts.iter().map(|part| &*part.title.policy).collect();
            assert_eq!(names, ["web", "web-2", "web-3"][..expected]);
            let all: Vec<PathBuf> = read(&parts).concat();
            let paths: Vec<PathBuf> = paths.into_iter().map(PathBuf::from).collect();
            assert_eq!(all, paths);
        }
    }

    #[test]
    fn names_of_documents() {
        let document = |version: &str| {
            let title = Title {
                policy: "web".to_owned(),
                version: version.parse().unwrap(),
            };
            title.document()
        };
        assert_eq!(document("1.0.0"), "web-1.0.0");
        assert_eq!(document("1.0.0-RC.1+Build.7"), "web-1.0.0-rc.1-build.7");
        assert_eq!(document("1.0.0-a-"), "web");
    }
}
