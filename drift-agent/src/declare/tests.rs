mod contents;

use std::{
    fs,
    os::unix::fs::{FileTypeExt, symlink},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::*;

/// A policy folder and a host's root.
pub(super) struct Place {
    dir: TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        let place = Self {
            dir: TempDir::new().expect("a temporary directory"),
        };
        place.write("root/etc/passwd", "root:x:0:0::/:\napp:x:1000:1001::/:\n");
        place.write("root/etc/group", "root:x:0:\nweb:x:1002:app\n");
        fs::create_dir(place.policies()).expect("policies");
        place
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn policies(&self) -> PathBuf {
        self.path("policies")
    }

    pub(super) fn root(&self) -> PathBuf {
        self.path("root")
    }

    #[track_caller]
    pub(super) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        let parent = path.parent().expect("a parent");
        fs::create_dir_all(parent).expect("its folder");
        fs::write(path, text).expect("written");
    }

    #[track_caller]
    pub(super) fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).expect("linked");
    }

    fn load(&self) -> Result<Snapshot, Rejected> {
        load(&self.policies(), &self.root(), None, &Holds::new())
    }

    #[track_caller]
    fn loaded(&self) -> Snapshot {
        self.load().unwrap_or_else(|why| panic!("{why}"))
    }

    /// Loading must be refused, and say so.
    #[track_caller]
    fn refused(&self, reason: &str, expected: &str) {
        let why = self.load().expect_err("refused");
        let here = format!("{}/", self.dir.path().display());
        assert_eq!(why.to_string().replace(&here, ""), expected);
        assert_eq!(why.reason(), reason);
    }
}

/// The bytes that a content was read as.
#[track_caller]
fn bytes(content: &Content) -> &Arc<[u8]> {
    content.held().expect("its bytes")
}

/// What a file must hold.
pub(super) fn content(declared: &Declared) -> &Content {
    let Target::File(content) = &declared.target else {
        panic!("no file")
    };
    content
}

pub(super) const POLICY: &str = "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {name: web}\nspec: {activeVersion: 1.2.0, mode: heal}\n";

/// A version of the policy `web` with these files.
pub(super) fn version(files: &str) -> String {
    format!(
        "apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: web-1.2.0}}\nspec:\n  policy: web\n  version: 1.2.0\n  files:\n{files}"
    )
}

pub(super) const ONE: &str = "    - {path: /etc/a, content: {inline: a}}\n";

#[test]
fn a_folder_becomes_a_snapshot() {
    let place = Place::new();
    place.write("policies/web.yaml", POLICY);
    place.write(
        "policies/web-1.2.0.yml",
        version(
            "    - path: /etc/z\n      content: {inline: z}\n    - path: /etc/a\n      content: {file: blobs/a.conf}\n      mode: 0640\n      owner: app\n      group: web\n    - path: /etc/b\n      content: {file: blobs/a.conf}\n      owner: 7\n",
        ),
    );
    place.write("policies/blobs/a.conf", b"\xff\x00a");
    place.write("policies/.hidden.yaml", "not a policy");
    place.write("policies/notes.txt", "not a policy");
    place.write("policies/deeper/more.yaml", "not a policy");
    fs::create_dir(place.path("policies/folder.yaml")).expect("a folder");

    let Snapshot {
        files, policies, ..
    } = place.loaded();
    let [policy] = &policies[..] else {
        panic!("one policy")
    };
    assert_eq!(
        **policy,
        ActivePolicy {
            name: "web".into(),
            version: "1.2.0".into(),
            digest: policy.digest,
            mode: Mode::Heal,
            guard: Guard::default(),
            evidence: Evidence::default(),
        }
    );
    let paths: Vec<&Path> = files.iter().map(|file| &*file.path).collect();
    assert_eq!(paths, ["/etc/a", "/etc/b", "/etc/z"].map(Path::new));
    let [a, b, z] = &files[..] else {
        panic!("three files")
    };
    let [a_content, b_content, z_content] = [a, b, z].map(|file| content(file));
    assert_eq!(a_content.held().unwrap()[..], *b"\xff\x00a");
    assert_eq!(a_content.digest, blake3::hash(b"\xff\x00a"));
    assert_eq!(
        (a.mode, a.uid, a.gid),
        (Some(0o640), Some(1000), Some(1002))
    );
    assert!(Arc::ptr_eq(bytes(a_content), bytes(b_content)), "read once");
    assert_eq!((b.mode, b.uid, b.gid), (None, Some(7), None));
    assert_eq!(*z_content, Content::exact(Arc::from(&b"z"[..])));
    let at = place.path("policies/web-1.2.0.yml");
    assert_eq!(a.at.to_string(), format!("{}:10:13", at.display()));
}

#[test]
fn the_mode_can_be_overridden() {
    let place = Place::new();
    place.write(
        "policies/web.yaml",
        POLICY.to_owned() + "---\n" + &version(ONE),
    );
    let observe = load(
        &place.policies(),
        &place.root(),
        Some(Mode::Observe),
        &Holds::new(),
    );
    let snapshot = observe.expect("a snapshot");
    assert_eq!(snapshot.policies[0].mode, Mode::Observe);
    assert_eq!(snapshot.files[0].policy.mode, Mode::Observe);
}

#[test]
fn problems_are_counted_by_file() {
    let place = Place::new();
    place.write("policies/a.yaml", POLICY);
    place.write("policies/b.yaml", version(ONE));
    place.write(
        "policies/c.yaml",
        POLICY.replace("web", "ssh").replace("mode", "modde"),
    );
    place.refused(
        "invalid",
        "error: unknown field `modde`, did you mean `mode`?
  --> policies/c.yaml:4:30
   |
 4 | spec: {activeVersion: 1.2.0, modde: heal}
   |                              ^^^^^
   = allowed here: activeVersion, mode, onRemove, guard, evidence, nodeSelector, rollout
1 problem in 1 of 3 files.",
    );
    let why = place.load().expect_err("refused");
    let at = place.path("policies/c.yaml");
    assert_eq!(
        why.plain().to_string(),
        format!(
            "{}\n  = allowed here: activeVersion, mode, onRemove, guard, evidence, nodeSelector, rollout\n1 problem in 1 of 3 files.",
            why.one_line()
        )
    );
    assert_eq!(
        why.one_line().to_string(),
        format!(
            "{}:4:30: unknown field `modde`, did you mean `mode`?",
            at.display()
        )
    );
}

#[test]
fn a_folder_that_is_not_there_or_has_no_policies() {
    let place = Place::new();
    let sentence =
        "no policy files (*.yaml, *.yml) in policies: put a Policy and a PolicyVersion there";
    let refused = |reason: &str, expected: &str| {
        let why = place.load().expect_err("refused");
        let here = format!("{}/", place.dir.path().display());
        assert_eq!(why.to_string().replace(&here, ""), expected);
        assert_eq!(why.one_line().to_string(), why.to_string());
        assert_eq!(why.reason(), reason);
    };
    refused("no-policies", sentence);
    place.write("policies/README.md", "");
    place.write("policies/.hidden.yaml", "");
    refused("no-policies", sentence);
    place.write("policies/a.yaml", "# nothing yet\n");
    refused(
        "no-policies",
        "no policies in policies: its only policy file is empty: put a Policy and a PolicyVersion there",
    );
    place.write("policies/b.yaml", "---\n---\n");
    refused(
        "no-policies",
        "no policies in policies: its 2 policy files are empty: put a Policy and a PolicyVersion there",
    );
    fs::remove_dir_all(place.policies()).expect("removed");
    refused(
        "folder-unreadable",
        "cannot read the policy folder policies: No such file or directory (os error 2): create it, or name another one with --policies",
    );
    place.write("policies", "");
    refused(
        "folder-unreadable",
        "cannot read the policy folder policies: Not a directory (os error 20): name the folder that the policy files are in",
    );
}

#[test]
fn what_is_no_file_is_passed_by() {
    let place = Place::new();
    place.write(
        "policies/web.yaml",
        POLICY.to_owned() + "---\n" + &version(ONE),
    );
    let fifo = place.path("policies/fifo.yaml");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO");
    let socket = std::os::unix::net::UnixListener::bind(place.path("policies/socket.yaml"));
    let kind = fs::metadata(&fifo).expect("there").file_type();
    assert!(socket.is_ok() && kind.is_fifo());
    assert_eq!(place.loaded().files.len(), 1);
}

#[test]
fn links_to_files_are_policy_files() {
    let place = Place::new();
    place.write("elsewhere/web", POLICY.to_owned() + "---\n" + &version(ONE));
    place.link("../elsewhere/web", "policies/web.yaml");
    assert_eq!(place.loaded().files.len(), 1);
    place.link("nowhere", "policies/more.yaml");
    place.refused(
        "invalid",
        "error: this is a link to a file that is not there
  --> policies/more.yaml:1:1
1 problem in 1 of 2 files.",
    );
}

#[test]
fn a_mounted_config_map_is_a_policy_folder() {
    let place = Place::new();
    place.write(
        "policies/..1/web.yaml",
        POLICY.to_owned() + "---\n" + &version("    - {path: /etc/a, content: {file: a.conf}}\n"),
    );
    place.write("policies/..1/a.conf", "a");
    place.link("..1", "policies/..data");
    place.link("..data/web.yaml", "policies/web.yaml");
    place.link("..data/a.conf", "policies/a.conf");
    assert_eq!(&**bytes(content(&place.loaded().files[0])), b"a");
}

#[test]
fn names_in_access_lists_become_ids_and_each_is_named_once() {
    let place = Place::new();
    let declare = |acl: &str| {
        place.write(
            "policies/web.yaml",
            POLICY.to_owned()
                + "---\n"
                + &version(&format!(
                    "    - path: /etc/a\n      content: {{inline: a}}\n      acl: [user::rw-, group::r--, mask::r--, other::---, {acl}]\n"
                )),
        );
    };
    declare("user:app:r--, 'user:7:-', group:web:r--");
    let snapshot = place.loaded();
    let [Attribute { name, expect }] = &snapshot.files[0].attributes.named[..] else {
        panic!("one attribute")
    };
    assert_eq!(name.to_bytes(), b"system.posix_acl_access");
    let Expect::Access(acl) = expect else {
        panic!("an access list")
    };
    assert_eq!(acl.users, [(7, 0), (1000, 4)]);
    assert_eq!(acl.groups, [(1002, 4)]);
    declare("user:app:r--, 'user:1000:r--', group:wen:r--");
    place.refused(
        "invalid",
        "error: two entries of the access list are about user 1000
   --> policies/web.yaml:15:59
    |
 15 | …[user::rw-, group::r--, mask::r--, other::---, user:app:r--, 'user:1000:r--', group:wen:r--]
    |                                                 ^^^^^^^^^^^^
    = remove one of them

error: there is no group `wen`, did you mean `web`?
   --> policies/web.yaml:15:90
    |
 15 | …[user::rw-, group::r--, mask::r--, other::---, user:app:r--, 'user:1000:r--', group:wen:r--]
    |                                                                                ^^^^^^^^^^^^^
    = looked in root/etc/group; an id needs no name there: `group:1000:r--`
2 problems in 1 of 1 file.",
    );
}

#[test]
fn names_are_those_of_the_host() {
    let place = Place::new();
    place.write(
        "policies/web.yaml",
        POLICY.to_owned()
            + "---\n"
            + &version("    - path: /etc/a\n      content: {inline: a}\n      owner: ap\n      group: nobody-here\n"),
    );
    place.refused(
        "invalid",
        "error: there is no user `ap`, did you mean `app`?
   --> policies/web.yaml:15:14
    |
 15 |       owner: ap
    |              ^^
    = looked in root/etc/passwd; an id needs no name there: `owner: 1000`

error: there is no group `nobody-here`
   --> policies/web.yaml:16:14
    |
 16 |       group: nobody-here
    |              ^^^^^^^^^^^
    = looked in root/etc/group; an id needs no name there: `group: 1000`
2 problems in 1 of 1 file.",
    );
    // As image-based systems have it.
    place.write("root/usr/lib/passwd", "ap:x:5:5:::\napp:x:6:6:::\n");
    place.write("root/usr/lib/group", "nobody-here:x:8:\n");
    let file = &place.loaded().files[0];
    assert_eq!((file.uid, file.gid), (Some(5), Some(8)));
    // Links in the host's tree mean the host's root.
    place.write("root/static/passwd", "ap:x:9:9:::\n");
    fs::remove_file(place.path("root/etc/passwd")).expect("removed");
    place.link("/static/passwd", "root/etc/passwd");
    assert_eq!(place.loaded().files[0].uid, Some(9));
    fs::remove_dir_all(place.root()).expect("removed");
    let why = place.load().expect_err("refused").to_string();
    assert!(
        why.contains("passwd cannot be read: No such file or directory"),
        "{why}"
    );
}

/// What is said of a file with the content `{file: PATH}`.
#[track_caller]
fn content_problem(place: &Place, path: &str, expected: &str) {
    let file = format!("    - {{path: /etc/a, content: {{file: {path}}}}}\n");
    place.write(
        "policies/web.yaml",
        POLICY.to_owned() + "---\n" + &version(&file),
    );
    let why = place.load().expect_err("refused").one_line().to_string();
    let here = format!("{}/", place.dir.path().display());
    assert_eq!(
        why.replace(&here, ""),
        format!("policies/web.yaml:13:38: {expected}")
    );
}

#[test]
fn content_that_cannot_be_read() {
    let place = Place::new();
    place.write("policies/blobs/there", "a");
    place.write("secret", "s");
    content_problem(
        &place,
        "blobs/a",
        "there is no file `blobs/a` in the policy folder",
    );
    content_problem(&place, "blobs", "`blobs` is not a regular file");
    content_problem(
        &place,
        "blobs/there/x",
        "`blobs/there/x` cannot be read: Not a directory (os error 20)",
    );
    let outside = "a link makes `blobs/link` lead out of the policy folder";
    for target in [
        "../../secret",
        "/etc/passwd",
        "../../policies/blobs/there",
        "/proc/self/environ",
    ] {
        place.link(target, "policies/blobs/link");
        content_problem(&place, "blobs/link", outside);
        fs::remove_file(place.path("policies/blobs/link")).expect("removed");
    }
    place.link("link", "policies/blobs/link");
    content_problem(
        &place,
        "blobs/link",
        "`blobs/link` cannot be read: Too many levels of symbolic links (os error 40)",
    );
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = place.path("policies/blobs/fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO");
    content_problem(&place, "blobs/fifo", "`blobs/fifo` is not a regular file");
    let large = fs::File::create(place.path("policies/blobs/large")).expect("created");
    large.set_len((1 << 30) + 1).expect("sparse");
    content_problem(
        &place,
        "blobs/large",
        "`blobs/large` is larger than the 1024 MiB a content may have",
    );
    place.link("there", "policies/blobs/good");
    let file = "    - {path: /etc/a, content: {file: blobs/good}}\n";
    place.write(
        "policies/web.yaml",
        POLICY.to_owned() + "---\n" + &version(file),
    );
    assert_eq!(&**bytes(content(&place.loaded().files[0])), b"a");
}

#[test]
fn a_basis_holds_until_something_changes() {
    let place = Place::new();
    let file = "    - {path: /etc/a, content: {file: blobs/a}, owner: app}\n";
    place.write(
        "policies/web.yaml",
        POLICY.to_owned() + "---\n" + &version(file),
    );
    let basis = || look(&place.policies(), &place.root(), None, &Holds::new()).1;
    let missing = basis();
    place.write("policies/blobs/a", "a");
    assert!(!missing.holds(), "the content is there now");
    let whole = basis();
    assert!(whole.holds());
    place.write("policies/notes.txt", "");
    assert!(whole.holds(), "no concern of policies");
    place.write("policies/more.yaml", "");
    assert!(!whole.holds(), "a new file");
    fs::remove_file(place.path("policies/more.yaml")).expect("removed");
    assert!(whole.holds());
    place.write("new", "a");
    fs::rename(place.path("new"), place.path("policies/blobs/a")).expect("renamed");
    assert!(!whole.holds(), "another inode with the same content");
    let whole = basis();
    place.write("root/etc/passwd", "app:x:2000:2000:::\n");
    assert!(!whole.holds(), "another id");
    let whole = basis();
    fs::rename(place.policies(), place.path("old")).expect("renamed");
    assert!(!whole.holds(), "no folder");
    let gone = basis();
    assert!(gone.holds());
    fs::rename(place.path("old"), place.policies()).expect("renamed");
    assert!(!gone.holds(), "a folder again");
}

#[test]
fn half_of_one_state_and_half_of_another_is_never_taken() {
    let place = Place::new();
    let write = |n: usize| {
        let file = format!(
            "    - {{path: /etc/a, content: {{file: a}}}}\n    - {{path: /etc/b, content: {{inline: \"{n}\"}}}}\n"
        );
        place.write(
            &format!("policies/..{n}/web.yaml"),
            POLICY.to_owned() + "---\n" + &version(&file),
        );
        place.write(&format!("policies/..{n}/a"), n.to_string());
        symlink(format!("..{n}"), place.path("policies/..tmp")).expect("linked");
        fs::rename(place.path("policies/..tmp"), place.path("policies/..data")).expect("swapped");
    };
    write(0);
    place.link("..data/web.yaml", "policies/web.yaml");
    place.link("..data/a", "policies/a");
    thread::scope(|scope| {
        let writer = scope.spawn(|| (1..300).for_each(write));
        let mut taken = 0;
        while !writer.is_finished() || taken == 0 {
            match place.load() {
                Ok(snapshot) => {
                    assert_eq!(snapshot.files[0].target, snapshot.files[1].target);
                    taken += 1;
                }
                Err(why) => assert_eq!(why.reason(), "folder-changing", "{why}"),
            }
        }
    });
}

/// Two policies of the same path, for two kinds of nodes, and a rollout to all.
#[test]
fn a_host_has_what_is_for_it() {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .to_lowercase();
    let policy = |name: &str, selector: &str, rollout: &str| {
        format!(
            "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: {name}}}\nspec: {{activeVersion: 1.0.0, nodeSelector: {selector}{rollout}}}\n---\n"
        )
    };
    let version = |name: &str, version: &str| {
        format!(
            "apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: {name}-{version}}}\n\
             spec: {{policy: {name}, version: {version}, files: [{{path: /etc/x, content: {{inline: {name}-{version}}}}}]}}\n---\n"
        )
    };
    let place = Place::new();
    let selector = format!("{{kubernetes.io/hostname: \"{name}\"}}");
    let canary = |weight: u32| {
        let rollout = format!(", rollout: {{canary: {{version: 2.0.0, weight: {weight}}}}}");
        place.write(
            "policies/p.yaml",
            policy("mine", &selector, &rollout)
                + &policy("others", "{kubernetes.io/hostname: no.such}", "")
                + &version("mine", "1.0.0")
                + &version("mine", "2.0.0")
                + &version("others", "1.0.0"),
        );
    };
    let active = || {
        let snapshot = place.loaded();
        let policies = snapshot.policies.iter();
        policies
            .map(|policy| format!("{} {}", policy.name, policy.version))
            .collect::<Vec<_>>()
    };
    canary(100);
    assert_eq!(active(), ["mine 2.0.0"]);
    canary(0);
    assert_eq!(active(), ["mine 1.0.0"]);
    // The machine's own number says where it stands. (Of this one: see the places in drift-common's tests.)
    place.write("root/etc/machine-id", "6a1c0e58000040008000000000000000\n");
    let least = (0..=100).find(|weight| {
        canary(*weight);
        active() == ["mine 2.0.0"]
    });
    place.write("root/etc/machine-id", "6a1c0e58000040008000000000000001\n");
    let other = (0..=100).find(|weight| {
        canary(*weight);
        active() == ["mine 2.0.0"]
    });
    assert_ne!(least, other);
    let (_, basis) = look(&place.policies(), &place.root(), None, &Holds::new());
    assert!(basis.files().any(|file| file.ends_with("etc/machine-id")));
    // On any machine it can be said that all of it is right.
    assert!(identify(&place.policies()).is_ok());
}

#[test]
fn a_policy_for_all_asks_for_no_machine_id() {
    let place = Place::new();
    place.write(
        "policies/p.yaml",
        "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {activeVersion: 1.0.0}\n---\n\
         apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {name: p-1.0.0}\nspec: {policy: p, version: 1.0.0}\n",
    );
    place.write("root/etc/machine-id", "6a1c0e58000040008000000000000000\n");
    let (outcome, basis) = look(&place.policies(), &place.root(), None, &Holds::new());
    assert!(outcome.is_ok());
    assert!(!basis.files().any(|file| file.ends_with("etc/machine-id")));
}
