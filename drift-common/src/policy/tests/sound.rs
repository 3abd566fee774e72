//! Policies that are right, and what they mean.

use std::{ffi::OsStr, num::NonZero, os::unix::ffi::OsStrExt, path::Path, time::Duration};

use super::*;

/// The sample of the language's documentation.
const SAMPLE: &str = r#"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0                     # semantic version
  files:
    - path: /etc/app/app.conf
      content: {inline: "listen = 80\n"}
      mode: "0644"
      owner: root
      group: 0
    - path: /etc/app/other.conf
      content: {file: blobs/other.conf}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec:
  activeVersion: 1.2.0
  mode: heal
  guard: {backoff: {first: 0s, factor: 5, cap: 1m}}
"#;

#[track_caller]
fn sound(text: &str) -> Vec<Lineage> {
    let (lineages, problems) = read(text);
    assert!(problems.is_empty(), "{problems}");
    lineages.expect("no problems")
}

#[track_caller]
fn files(text: &str) -> Vec<FileSpec> {
    let policy = "---\n".to_owned() + &policy("");
    let [lineage] = &sound(&(text.to_owned() + &policy))[..] else {
        panic!("one policy")
    };
    lineage.active().files.clone()
}

/// The files that PolicyVersions with these items declare are all the same.
#[track_caller]
fn same(items: &[&str]) {
    let first = files(&version(items[0]));
    for item in items {
        assert_eq!(files(&version(item)), first, "{item}");
    }
}

#[test]
fn the_sample_means_what_it_says() {
    let [lineage] = &sound(SAMPLE)[..] else {
        panic!("one policy")
    };
    assert_eq!(lineage.policy.name.value, "web");
    assert_eq!(lineage.policy.mode, Mode::Heal);
    assert_eq!(
        lineage.policy.guard.backoff,
        Backoff {
            first: Duration::ZERO,
            factor: 5,
            cap: Duration::from_secs(60),
        }
    );
    let version = lineage.active();
    assert_eq!(version.version.value, Version::new(1, 2, 0));
    let [app, other] = &version.files[..] else {
        panic!("two files")
    };
    assert_eq!(app.path.value, Path::new("/etc/app/app.conf"));
    assert_eq!(app.path.at.position().to_string(), "p.yaml:8:13");
    assert_eq!(app.content.value, Content::Inline("listen = 80\n".into()));
    assert_eq!(app.mode, Some(0o644));
    let principal = |spec: &Option<Spanned<Principal>>| spec.as_ref().map(|p| p.value.clone());
    assert_eq!(principal(&app.owner), Some(Principal::Name("root".into())));
    assert_eq!(principal(&app.group), Some(Principal::Id(0)));
    assert_eq!(
        other.content.value,
        Content::File("blobs/other.conf".into())
    );
    assert_eq!(
        (other.mode, &other.owner, &other.group),
        (None, &None, &None)
    );
}

#[test]
fn what_is_not_said_has_a_default() {
    let lineages = sound(&(version("    []\n") + "---\n" + &policy("")));
    let Policy { mode, guard, .. } = &lineages[0].policy;
    assert_eq!(*mode, Mode::Observe);
    let Backoff { first, factor, cap } = guard.backoff;
    assert_eq!((first.as_secs(), factor, cap.as_secs()), (2, 3, 300));
    assert!(lineages[0].active().files.is_empty());
    assert_eq!(guard.per_minute.map(NonZero::get), Some(1000));
    assert_eq!(guard.mass_drift, MassDrift::Hold);
    let fight = guard.fight.expect("a fight ends");
    assert_eq!((fight.heals, fight.within.as_secs()), (4, 60));
    assert_eq!(fight.hold.as_secs(), 3600);
    let short =
        sound(&(version("    []\n") + "---\n" + &policy("  guard: {backoff: {cap: 1s}}\n")));
    assert_eq!(short[0].policy.guard.backoff.first, Duration::from_secs(1));
}

#[test]
fn what_holds_healing_back_can_be_said() {
    let guard = |text: &str| {
        let lineages = sound(&(version("    []\n") + "---\n" + &policy(text)));
        lineages[0].policy.guard.clone()
    };
    let said = guard("  guard: {perMinute: 0, massDrift: heal, fight: {heals: 2, hold: 5m}}\n");
    assert_eq!((said.per_minute, said.mass_drift), (None, MassDrift::Heal));
    let fight = said.fight.expect("it was said");
    assert_eq!((fight.heals, fight.hold.as_secs()), (2, 300));
    assert_eq!(fight.within.as_secs(), 60);
    // Who never waits has no fights, but where it is said what one is.
    assert_eq!(guard("  guard: {backoff: {first: 0s}}\n").fight, None);
    assert!(
        guard("  guard: {backoff: {first: 0s}, fight: {}}\n")
            .fight
            .is_some()
    );
}

#[test]
fn the_active_version_is_found_by_number_and_not_by_order() {
    let old = version("    - path: /etc/old\n      content: {inline: a}\n");
    let numbers = ["1.10.0", "1.9.0", "1.10.0-rc.1", "0.9.0"];
    let mut text: String = numbers
        .iter()
        .map(|number| old.replace("1.2.0", number) + "---\n")
        .collect();
    text += &policy("").replace("1.2.0", "1.9.0");
    let [lineage] = &sound(&text)[..] else {
        panic!("one policy")
    };
    let numbers: Vec<String> = lineage
        .versions
        .iter()
        .map(|version| version.version.value.to_string())
        .collect();
    assert_eq!(numbers, ["0.9.0", "1.9.0", "1.10.0-rc.1", "1.10.0"]);
    assert_eq!(lineage.active().name.value, "web-1.9.0");
}

#[test]
fn versions_that_are_not_active_may_declare_what_others_do() {
    let file = version("    - path: /etc/a\n      content: {inline: a}\n");
    let text = [
        file.clone(),
        file.replace("1.2.0", "1.3.0"),
        policy(""),
        file.replace("web", "ssh"),
        version("    []\n")
            .replace("web", "ssh")
            .replace("1.2.0", "2.0.0"),
        policy("").replace("web", "ssh").replace("1.2.0", "2.0.0"),
    ];
    assert_eq!(sound(&text.join("---\n")).len(), 2);
}

#[test]
fn json_is_yaml() {
    let json = r#"{
  "apiVersion": "configdrift.io/v1alpha1", "kind": "PolicyVersion",
  "metadata": {"name": "web-1.2.0"},
  "spec": {"policy": "web", "version": "1.2.0", "files": [
    {"path": "/etc/app/app.conf", "content": {"inline": "listen = 80\n"}, "mode": "0644", "owner": "root", "group": "0"},
    {"path": "/etc/app/other.conf", "content": {"file": "blobs\/other.conf"}}
  ]}
}
"#;
    let end = SAMPLE.find("---").expect("two documents");
    assert_eq!(files(json), files(&SAMPLE[..end]));
}

#[test]
fn what_kubectl_gives_is_a_policy_file() {
    let of_kubernetes = r#"  namespace: default
  uid: 6f8b1c1e-0000-4000-8000-000000000000
  resourceVersion: "4711"
  generation: 3
  creationTimestamp: null
  labels: {app: web}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}\n"}
  ownerReferences: []
  finalizers: [configdrift.io/keep]
  managedFields:
  - apiVersion: configdrift.io/v1alpha1
    fieldsV1: {f:spec: {.: {}, f:mode: {}}}
"#;
    let full = SAMPLE
        .replace(
            "metadata: {name: web-1.2.0}",
            "metadata:\n  name: web-1.2.0\nSYSTEM",
        )
        .replace("metadata: {name: web}", "metadata:\n  name: web\nSYSTEM")
        .replace("SYSTEM\n", of_kubernetes)
        .replace("---", "status: {conditions: [{type: Ready}]}\n---");
    assert_eq!(sound(&full), sound(SAMPLE));
    let (version, policy) = SAMPLE.split_once("---\n").expect("two documents");
    let item = |text: &str| {
        let lines: String = text.lines().map(|line| format!("    {line}\n")).collect();
        format!("  -\n{lines}")
    };
    let list = format!(
        "apiVersion: v1\nkind: List\nmetadata: {{resourceVersion: \"\"}}\nitems:\n{}{}",
        item(version),
        item(policy)
    );
    assert_eq!(sound(&list), sound(SAMPLE));
}

#[test]
fn file_modes_are_octal_however_they_are_written() {
    let file =
        |mode: &str| format!("    - {{path: /etc/a, content: {{inline: a}}, mode: {mode}}}\n");
    for (mode, bits) in [
        ("\"0644\"", 0o644),
        ("0644", 0o644),
        ("644", 0o644),
        ("'644'", 0o644),
        ("0o644", 0o644),
        ("4755", 0o4755),
        ("\"07777\"", 0o7777),
        ("\"0000\"", 0),
        ("000", 0),
    ] {
        assert_eq!(files(&version(&file(mode)))[0].mode, Some(bits), "{mode}");
    }
}

#[test]
fn one_thing_can_be_written_in_many_ways() {
    same(&[
        "    - path: /etc/a\n      content: {inline: \"a\\nb\\n\"}\n      owner: 7\n",
        "    - path: \"/etc/a\"\n      content:\n        inline: |\n          a\n          b\n      owner: \"7\"\n",
        "    - path: !!str /etc/a\n      content: {inline: !!str \"a\\nb\\n\"}\n      owner: !!int 7\n",
        "    - {owner: 007, content: {inline: 'a\n\n          b\n\n          '}, path: '/etc/a'}\n",
        "    - pathBytes: L2V0Yy9h\n      content: {inline: \"a\\nb\\n\"}\n      owner: 7\n",
        "    # a comment\n    - path:\n        /etc/a   # another\n\n      content:\n        {inline: \"a\\n\\\n        b\\n\"}\n      owner:   7\n",
    ]);
}

#[test]
fn numbers_and_words_in_quotes_are_texts() {
    for text in [
        "80", "true", "null", "~", "0644", "", "- a", "{", "&a", "1.2.0", "yes",
    ] {
        let item = format!("    - {{path: /etc/a, content: {{inline: \"{text}\"}}}}\n");
        let files = files(&version(&item));
        assert_eq!(files[0].content.value, Content::Inline(text.into()));
    }
}

#[test]
fn a_path_can_have_any_bytes() {
    let files = files(&version(
        "    - {pathBytes: L2V0Yy9jYWbpLmNvbmY=, content: {inline: a}}\n    - {path: \"/etc/a\\nb\", content: {inline: a}}\n",
    ));
    assert_eq!(
        files[0].path.value.as_os_str().as_bytes(),
        b"/etc/caf\xe9.conf"
    );
    assert_eq!(files[1].path.value, Path::new(OsStr::new("/etc/a\nb")));
}

#[test]
fn anchors_are_followed_within_their_document() {
    let text = version(
        "    - &first\n      path: &path /etc/a\n      content: &content {inline: a}\n      mode: \"0600\"\n    - {path: /etc/b, content: *content}\n",
    );
    let files = files(&text);
    assert_eq!(files[0].content, files[1].content);
    let (_, problems) = read(&(text + "---\n" + &policy("").replace("1.2.0", "*path")));
    assert_eq!(
        problems.one_line().to_string(),
        "p.yaml:18:18: an alias without an anchor"
    );
}

#[test]
fn empty_documents_are_no_documents() {
    assert_eq!(sound(""), []);
    assert_eq!(sound("\u{feff}"), []);
    assert_eq!(sound("# nothing\n---\n---\n# nothing\n...\n---\n~\n"), []);
    let text = format!(
        "---\n{}\n---\n---\n",
        SAMPLE.replace("---", "...\n---\n---\n")
    );
    assert_eq!(sound(&text), sound(SAMPLE));
}

#[test]
fn line_ends_do_not_matter() {
    assert_eq!(sound(&SAMPLE.replace('\n', "\r\n")), sound(SAMPLE));
    let lineages = sound(&SAMPLE.replace('\n', "\r"));
    assert_eq!(lineages, sound(SAMPLE));
    let place = &lineages[0].active().files[0].path.at;
    assert_eq!(place.position().to_string(), "p.yaml:8:13");
}
