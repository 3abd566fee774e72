//! Changes of versions, as a whole.

mod kept;

use std::{fs, time::SystemTime};

use tempfile::TempDir;

use super::*;
use crate::store::DEFAULT_QUOTA;

/// Three policies that need each other's versions, in a folder, with the files that they declare.
struct Place {
    dir: TempDir,
    host: Host,
    store: Store,
}

/// What the Policies say beside their version.
const HEAL: &str = "mode: heal";

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["state", "tree", "policies"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let store = Store::open(&dir.path().join("state"), DEFAULT_QUOTA).unwrap();
        let place = Self {
            dir,
            host: Host::new(Path::new("/")).unwrap(),
            store,
        };
        place.say("1.0.0", HEAL);
        let snapshot = place.look();
        for declared in &snapshot.files {
            let crate::declare::Target::File(content) = &declared.target else {
                panic!("a file")
            };
            fs::write(&declared.path, content.held().unwrap()).unwrap();
        }
        place.keep(&snapshot);
        place
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("policies")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join("tree").join(name)
    }

    /// Writes the folder: `app` needs `lib` needs `base`, in the same major version; each has three versions with two files, one of them named by
    /// the version.
    fn say(&self, active: &str, spec: &str) {
        let tree = self.dir.path().join("tree");
        let mut text = String::new();
        for (policy, needs) in [("app", "lib"), ("lib", "base"), ("base", "")] {
            text += &format!(
                "---\napiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: {policy}}}\nspec: {{activeVersion: {active}, {spec}}}\n"
            );
            for major in 1..=3 {
                let tree = tree.display();
                text += &format!(
                    "---\napiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: {policy}-{major}}}\nspec:\n  policy: {policy}\n  version: {major}.0.0\n  files:\n    - {{path: {tree}/{policy}.conf, content: {{inline: '{policy} {major}'}}}}\n    - {{path: {tree}/{policy}-{major}, content: {{inline: '{policy} {major}'}}}}\n"
                );
                if !needs.is_empty() {
                    text += &format!("  dependencies: [{{policy: {needs}, version: ^{major}}}]\n");
                }
            }
        }
        fs::write(self.folder().join("all.yaml"), text).unwrap();
    }

    fn look(&self) -> Snapshot {
        let (outcome, _) = self.store.look(&self.folder(), Path::new("/"), None);
        outcome.unwrap_or_else(|rejected| panic!("{rejected}"))
    }

    fn keep(&self, snapshot: &Snapshot) {
        let (_, mut basis) = self.store.look(&self.folder(), Path::new("/"), None);
        let sources = basis.take_sources();
        let in_force = self.store.in_force(&self.folder(), snapshot, sources);
        self.store.keep(&in_force).unwrap();
    }

    fn ask(&self, policy: &str, wish: Wish) -> Result<Switched, SwitchError> {
        let demand = Demand {
            policy: policy.into(),
            wish,
            by: "somebody".into(),
            reason: "because".into(),
        };
        let old = self.look();
        let now = SystemTime::now();
        let decision = choose(&self.store, &self.folder(), None, &demand, now)?;
        let Decision {
            moves,
            holding,
            snapshot,
            ..
        } = decision;
        let result = perform(&self.host, &self.store, &old, &snapshot, &moves, holding);
        match &result {
            Ok(_) => self.keep(&snapshot),
            Err(error) => note_failure(&self.store, &demand, &moves, error),
        }
        result
    }

    fn activate(&self, version: &str) -> Result<Switched, SwitchError> {
        self.ask("app", Wish::Activate(version.into()))
    }

    /// What the folder says now comes into force, as at a reload.
    fn follow(&self, old: &Snapshot) -> Result<Switched, SwitchError> {
        let new = self.look();
        let moves = moved(old, &new);
        let holding = self.store.holding();
        let result = perform(&self.host, &self.store, old, &new, &moves, holding);
        match &result {
            Ok(_) => self.keep(&new),
            Err(error) => hold_back(&self.store, &new, &moves, error).unwrap(),
        }
        result
    }

    /// The version of every file.
    #[track_caller]
    fn is_at(&self, major: u32) {
        for policy in ["app", "lib", "base"] {
            let text = fs::read_to_string(self.at(&format!("{policy}.conf"))).unwrap();
            assert_eq!(text, format!("{policy} {major}"));
        }
        let left = fs::read_dir(self.at("")).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.as_encoded_bytes().starts_with(b".drift-")
        });
        assert_eq!(left.count(), 0);
        let snapshot = self.look();
        for policy in &snapshot.policies {
            assert_eq!(policy.version, format!("{major}.0.0"));
        }
        assert!(self.store.journal().unwrap().is_none());
    }
}

/// B117, B142: what was rolled back does not come back, and comes back as a whole.
#[test]
fn a_closure_moves_together_forth_and_back_and_stays_there() {
    let place = Place::new();
    let switched = place.activate("2.0.0").unwrap();
    assert_eq!(
        shown(&switched.moves),
        "`base` 1.0.0 -> 2.0.0, `lib` 1.0.0 -> 2.0.0, `app` 1.0.0 -> 2.0.0"
    );
    assert_eq!(switched.written, 6);
    assert!(switched.amiss.is_empty(), "{switched:?}");
    place.is_at(2);
    let held = &place.store.holding().held["lib"];
    assert_eq!(
        (&*held.version, &*held.instead_of, &*held.by, &*held.reason),
        ("2.0.0", "1.0.0", "somebody", "because")
    );
    let switched = place.ask("lib", Wish::Back).unwrap();
    assert_eq!(switched.moves.len(), 3);
    place.is_at(1);
    // What the Policies say is held no longer.
    assert!(place.store.holding().held.is_empty());
    // An older one than the first there is not.
    let error = place.ask("lib", Wish::Back).unwrap_err();
    assert_eq!(error.reason(), "no-earlier");
    place.is_at(1);
}

#[test]
fn a_rollback_holds_over_a_restart_and_until_the_policy_says_another_version() {
    let place = Place::new();
    let one = place.look();
    place.say("2.0.0", HEAL);
    place.follow(&one).unwrap();
    place.is_at(2);
    place.ask("app", Wish::Back).unwrap();
    place.is_at(1);
    let Place { dir, host, store } = place;
    drop(store);
    let store = Store::open(&dir.path().join("state"), DEFAULT_QUOTA).unwrap();
    let place = Place { dir, host, store };
    place.is_at(1);
    // Something else that the folder says changes nothing of it.
    place.say("2.0.0", "mode: heal, guard: {backoff: {first: 1s}}");
    let held = place.look();
    assert_eq!(held.policies[0].version, "1.0.0");
    place.say("3.0.0", HEAL);
    place.follow(&held).unwrap();
    place.is_at(3);
    assert!(place.store.holding().held.is_empty());
}

/// B144, B148: a version that has failed is kept with its reason and count, and is tried again only when somebody asks for it.
#[test]
fn a_version_that_failed_is_not_tried_again_by_itself() {
    let place = Place::new();
    let one = place.look();
    // In the way of one of six files.
    fs::create_dir(place.at("lib-2")).unwrap();
    fs::write(place.at("lib-2/something"), "").unwrap();
    place.say("2.0.0", HEAL);
    let error = place.follow(&one).unwrap_err();
    assert_eq!(error.reason(), "directory-in-the-way");
    place.is_at(1);
    let holding = place.store.holding();
    let failure = holding.failure("lib", "2.0.0").unwrap();
    assert_eq!(
        (failure.count, &*failure.reason),
        (1, "directory-in-the-way")
    );
    assert!(holding.held["app"].reason.contains("failed"), "{holding:?}");
    // Looking again finds nothing to move.
    assert_eq!(moved(&one, &place.look()), []);

    assert!(place.activate("2.0.0").is_err());
    let count = |place: &Place| {
        let holding = place.store.holding();
        holding.failure("app", "2.0.0").map(|failure| failure.count)
    };
    assert_eq!(count(&place), Some(2));
    fs::remove_dir_all(place.at("lib-2")).unwrap();
    place.activate("2.0.0").unwrap();
    place.is_at(2);
    assert_eq!(count(&place), None);
    assert!(place.store.holding().held.is_empty());
}

#[test]
fn what_a_version_no_longer_declares_stays_or_goes_as_the_policy_says() {
    for (spec, stays) in [(HEAL, true), ("mode: heal, onRemove: remove", false)] {
        let place = Place::new();
        place.say("1.0.0", spec);
        place.activate("2.0.0").unwrap();
        place.is_at(2);
        assert_eq!(place.at("app-1").exists(), stays);
        assert!(place.at("app-2").exists());
        place.ask("app", Wish::Back).unwrap();
        assert_eq!(place.at("app-2").exists(), stays);
        assert!(place.at("app-1").exists());
    }
}

#[test]
fn where_a_policy_only_observes_nothing_is_written() {
    let place = Place::new();
    place.say("1.0.0", "mode: observe");
    let switched = place.activate("2.0.0").unwrap();
    assert_eq!(switched.written, 0);
    let text = fs::read_to_string(place.at("app.conf")).unwrap();
    assert_eq!(text, "app 1");
    assert_eq!(place.look().policies[0].version, "2.0.0");
}

#[test]
fn a_change_while_no_agent_ran_is_known_at_the_start() {
    let place = Place::new();
    assert!(before_the_stop(&place.store, &place.folder(), None, &place.look()).is_none());
    place.say("2.0.0", HEAL);
    let new = place.look();
    let old = before_the_stop(&place.store, &place.folder(), None, &new).unwrap();
    assert_eq!(moved(&old, &new).len(), 3);
    assert_eq!(old.policies[0].version, "1.0.0");
}

#[test]
fn what_was_only_rehearsed_has_not_happened() {
    let place = Place::new();
    let demand = Demand {
        policy: "base".into(),
        wish: Wish::Activate("3.0.0".into()),
        by: String::new(),
        reason: String::new(),
    };
    let now = SystemTime::now();
    let decision = choose(&place.store, &place.folder(), None, &demand, now).unwrap();
    let steps = steps(
        &place.host,
        &place.look(),
        &decision.snapshot,
        &decision.moves,
    );
    let answer = Answer::rehearsed(&decision.moves, steps);
    assert_eq!(answer.status, 0);
    let lines: Vec<&str> = answer.text.lines().collect();
    assert_eq!(lines[0], "`base` 1.0.0 -> 3.0.0");
    // What is needed is written before what needs it.
    assert!(
        lines[3].ends_with("/base-3") && lines[8].ends_with("/app.conf"),
        "{lines:?}"
    );
    assert_eq!(lines[9], "6 paths; nothing was changed");
    place.is_at(1);
}

/// Two versions that manage one key of a file which others write to, too, and a third that declares nothing of it.
fn shared(place: &Place, active: &str, spec: &str) {
    let path = place.at("shared.json").display().to_string();
    let head = "---\napiVersion: configdrift.io/v1alpha1\nkind:";
    let mut text = format!(
        "{head} Policy\nmetadata: {{name: shared}}\nspec: {{activeVersion: {active}, {spec}}}\n"
    );
    for major in 1..=3 {
        text += &format!(
            "{head} PolicyVersion\nmetadata: {{name: shared-{major}}}\nspec:\n  policy: shared\n  version: {major}.0.0\n  files:\n"
        );
        text += &match major {
            3 => format!("    - {{path: {path}.d, content: {{inline: ''}}}}\n"),
            _ => format!(
                "    - path: {path}\n      mode: '0{major}00'\n      content: {{inline: '{{\"a\": {major}}}'}}\n      compare: {{format: json, manage: [/a]}}\n"
            ),
        };
    }
    fs::write(place.folder().join("shared.yaml"), text).unwrap();
}

#[test]
fn a_change_of_versions_writes_only_the_managed_keys_of_a_file() {
    let place = Place::new();
    let path = place.at("shared.json");
    let holds = |text: &str| assert_eq!(fs::read_to_string(&path).unwrap(), text);
    fs::write(&path, "{ \"theirs\":7, \"a\":1 }").unwrap();
    shared(&place, "1.0.0", HEAL);
    place.keep(&place.look());
    place.ask("shared", Wish::Activate("2.0.0".into())).unwrap();
    holds("{ \"theirs\":7, \"a\":2 }");
    let mode = || std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap()) & 0o7777;
    assert_eq!(mode(), 0o200);
    place.ask("shared", Wish::Back).unwrap();
    holds("{ \"theirs\":7, \"a\":1 }");
    // Where the value is right already its attributes are set, and every byte stays.
    fs::write(&path, "{ \"theirs\":8, \"a\":2 }").unwrap();
    place.ask("shared", Wish::Activate("2.0.0".into())).unwrap();
    holds("{ \"theirs\":8, \"a\":2 }");
    assert_eq!(mode(), 0o200);
    // It is made where it is missing.
    fs::remove_file(&path).unwrap();
    place.ask("shared", Wish::Back).unwrap();
    holds("{\"a\": 1}");
    // What does not parse is not ours to replace: the version does not come.
    fs::write(&path, "{ theirs").unwrap();
    let error = place.ask("shared", Wish::Activate("2.0.0".into()));
    let error = error.unwrap_err();
    assert_eq!(error.reason(), "unparsable");
    assert!(!error.to_string().contains("theirs"), "{error}");
    holds("{ theirs");
    let holding = place.store.holding();
    assert!(holding.failure("shared", "2.0.0").is_some());
}

#[test]
fn a_file_of_which_only_keys_were_managed_stays_where_all_else_goes() {
    let place = Place::new();
    let path = place.at("shared.json");
    fs::write(&path, "{\"theirs\": 7, \"a\": 1}").unwrap();
    shared(&place, "1.0.0", "mode: heal, onRemove: remove");
    place.keep(&place.look());
    place.ask("shared", Wish::Activate("3.0.0".into())).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, "{\"theirs\": 7, \"a\": 1}");
}

/// Two versions of a file that is reached through a link, which the policy moves on from one release to the next: what is there, and what each says.
fn released(place: &Place, active: &str, spec: &str) {
    let tree = place.at("").display().to_string();
    let tree = tree.trim_end_matches('/');
    let head = "---\napiVersion: configdrift.io/v1alpha1\nkind:";
    let mut text = format!(
        "{head} Policy\nmetadata: {{name: released}}\nspec: {{activeVersion: {active}, {spec}}}\n"
    );
    for major in 1..=2 {
        text += &format!(
            "{head} PolicyVersion\nmetadata: {{name: released-{major}}}\nspec:\n  policy: released\n  version: {major}.0.0\n  files:\n    - path: {tree}/current/app.conf\n      through: [{{path: {tree}/current, target: releases/{major}}}]\n      content: {{inline: 'release {major}'}}\n  symlinks: [{{path: {tree}/current, target: releases/{major}}}]\n"
        );
    }
    fs::write(place.folder().join("released.yaml"), text).unwrap();
}

#[test]
fn a_link_moves_on_with_what_is_reached_through_it_and_back() {
    for (spec, stays) in [(HEAL, true), ("mode: heal, onRemove: remove", false)] {
        let place = Place::new();
        let at = |name: &str| place.at(name);
        fs::create_dir_all(at("releases/1")).unwrap();
        std::os::unix::fs::symlink("releases/1", at("current")).unwrap();
        fs::write(at("releases/1/app.conf"), "release 1").unwrap();
        released(&place, "1.0.0", spec);
        place.keep(&place.look());
        let ask = |wish: Wish| place.ask("released", wish);
        let to = |major: u32, written: usize, switched: Switched| {
            assert_eq!(switched.written, written, "{switched:?}");
            assert!(switched.amiss.is_empty(), "{switched:?}");
            let target = fs::read_link(at("current")).unwrap();
            assert_eq!(target, Path::new(&format!("releases/{major}")));
            let text = fs::read_to_string(at("current/app.conf")).unwrap();
            assert_eq!(text, format!("release {major}"));
            assert!(place.store.journal().unwrap().is_none());
        };
        // The file, the link, and the file of the version before where that goes.
        let written = if stays { 2 } else { 3 };
        to(2, written, ask(Wish::Activate("2.0.0".into())).unwrap());
        assert_eq!(at("releases/1/app.conf").exists(), stays);
        let written = if stays { 1 } else { 3 };
        to(1, written, ask(Wish::Back).unwrap());
        assert_eq!(at("releases/2/app.conf").exists(), stays);
    }
}

#[test]
fn a_version_does_not_come_through_a_link_that_holds_something_else() {
    let place = Place::new();
    let at = |name: &str| place.at(name);
    fs::create_dir_all(at("releases/1")).unwrap();
    fs::create_dir_all(at("trap")).unwrap();
    std::os::unix::fs::symlink("releases/1", at("current")).unwrap();
    fs::write(at("releases/1/app.conf"), "release 1").unwrap();
    released(&place, "1.0.0", HEAL);
    // The link is declared by nobody but those who go through it.
    let path = place.folder().join("released.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("  symlinks"));
    let text: String = lines.map(|line| line.to_owned() + "\n").collect();
    fs::write(&path, text.replace("releases/2", "releases/1")).unwrap();
    place.keep(&place.look());
    fs::remove_file(at("current")).unwrap();
    std::os::unix::fs::symlink("trap", at("current")).unwrap();
    let activate = || place.ask("released", Wish::Activate("2.0.0".into()));
    let error = activate().unwrap_err();
    assert_eq!(error.reason(), "relocated");
    assert!(error.to_string().contains("/current/app.conf"), "{error}");
    assert_eq!(fs::read_dir(at("trap")).unwrap().count(), 0);
    let text = || fs::read_to_string(at("releases/1/app.conf")).unwrap();
    assert_eq!(text(), "release 1");
    fs::remove_file(at("current")).unwrap();
    std::os::unix::fs::symlink("releases/1", at("current")).unwrap();
    assert_eq!(activate().unwrap().written, 1);
    assert_eq!(text(), "release 2");
}
