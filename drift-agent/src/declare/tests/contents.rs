//! Contents that are not written as texts, and what a file's own words change.

use std::sync::Arc;

use super::{Content, Holds, Mode, POLICY, Place, Target, content, load, load_digests, version};

fn declares(files: &str) -> Place {
    let place = Place::new();
    place.write(
        "policies/web.yaml",
        POLICY.to_owned() + "---\n" + &version(files),
    );
    place
}

/// `b3sum` of `a`.
const A: &str = "17762fddd969a453925d65717ac3eea21320b66b54342fde15128d6caf21215f";

#[test]
fn one_content_however_it_is_written() {
    let place = declares(&format!(
        "    - {{path: /1, content: {{inline: a}}}}\n    - {{path: /2, content: {{base64: YQ==}}}}\n    - {{path: /3, content: {{dataUrl: \"data:,%61\"}}}}\n    - {{path: /4, content: {{gzip: H4sIAAAAAAACA0sEAEO+t+gBAAAA}}}}\n    - {{path: /5, content: {{gzip: H4sIAAAAAAAEA0sEAEO+t+gBAAAA}}}}\n    - {{path: /6, content: {{file: a}}}}\n    - {{path: /7, content: {{digest: \"blake3:{A}\"}}}}\n"
    ));
    place.write("policies/a", "a");
    place.write(&format!("policies/blobs/{A}"), "a");
    let snapshot = place.loaded();
    assert_eq!(snapshot.files.len(), 7);
    for file in &snapshot.files {
        let expected = Content::exact(Arc::from(&b"a"[..]));
        assert_eq!(*content(file), expected, "{}", file.path.display());
    }
}

#[test]
fn a_blob_must_be_there_and_hold_what_its_name_says() {
    let file = format!("    - {{path: /1, content: {{digest: \"blake3:{A}\"}}}}\n");
    let place = declares(&file);
    let why = place.load().expect_err("refused").to_string();
    assert!(why.contains("there is no file `blobs/17762f"), "{why}");
    place.write(&format!("policies/blobs/{A}"), "b");
    let why = place.load().expect_err("refused").to_string();
    assert!(why.contains("does not hold what its name"), "{why}");
}

#[test]
fn a_file_may_say_otherwise_than_its_policy_and_the_command_line_than_both() {
    let place = declares(
        "    - {path: /1, content: {inline: a}, onDrift: observe}\n    - {path: /2, content: {inline: a}}\n",
    );
    let modes = |asked| {
        let snapshot =
            load(&place.policies(), &place.root(), asked, &Holds::new()).expect("a snapshot");
        [snapshot.files[0].on_drift, snapshot.files[1].on_drift]
    };
    assert_eq!(modes(None), [Mode::Observe, Mode::Heal]);
    assert_eq!(modes(Some(Mode::Heal)), [Mode::Heal; 2]);
    assert_eq!(modes(Some(Mode::Observe)), [Mode::Observe; 2]);
}

#[test]
fn a_content_must_fit_its_bound() {
    declares("    - {path: /1, content: {inline: abc}, maxSize: 2}\n").refused(
        "invalid",
        "error: the content is larger than this: 3 bytes
   --> policies/web.yaml:13:51
    |
 13 |     - {path: /1, content: {inline: abc}, maxSize: 2}
    |                                                   ^
    = raise it, or remove it
1 problem in 1 of 1 file.",
    );
}

#[test]
fn what_belongs_into_a_directory_is_what_any_policy_declares_there() {
    let place = declares(
        "    - {path: /d/a, content: {inline: a}}\n    - {path: /d/sub/b, content: {inline: a}}\n    - {path: /d-not, content: {inline: a}}\n",
    );
    let other = "---\n".to_owned() + POLICY + "---\n" + &version("    []\n");
    let other = other.replace("web", "other").replace(
        "files:\n    []",
        "directories: [{path: /d, exhaustive: true, ignore: ['*.bak']}]",
    );
    place.write("policies/other.yaml", other);
    let snapshot = place.loaded();
    let paths: Vec<_> = snapshot
        .files
        .iter()
        .map(|file| file.path.to_str())
        .collect();
    assert_eq!(
        paths,
        [Some("/d"), Some("/d/a"), Some("/d/sub/b"), Some("/d-not")]
    );
    let Target::Directory(Some(exhaustive)) = &snapshot.files[0].target else {
        panic!("exhaustive")
    };
    let temporary = crate::heal::temporary_name(std::path::Path::new("/d/a"));
    for (name, allowed) in [
        ("a", true),
        ("sub", true),
        ("x.bak", true),
        ("b", false),
        ("not", false),
        (".drift-0000000000000000.tmp", false),
    ] {
        assert_eq!(exhaustive.allows(name.as_ref()), allowed, "{name}");
    }
    assert!(exhaustive.allows(&temporary));
}

#[test]
fn what_is_reached_through_links_belongs_where_it_really_is_and_so_do_the_links() {
    let files =
        "    - {path: /a/l/f, content: {inline: a}, through: [{path: /a/l, target: ../b}]}\n";
    let directories = "  directories: [{path: /a, exhaustive: true}, {path: /a/l/d, exhaustive: true, through: [{path: /a/l, target: ../b}]}, {path: /b, exhaustive: true}, {path: /b/d/g}]\n";
    let place = declares(&(files.to_owned() + directories));
    let snapshot = place.loaded();
    let allows = |path: &str, name: &str| {
        let mut files = snapshot.files.iter();
        let directory = files.find(|file| file.path == std::path::Path::new(path));
        match &directory.expect("declared").target {
            Target::Directory(Some(exhaustive)) => exhaustive.allows(name.as_ref()),
            other => panic!("{other:?}"),
        }
    };
    for (path, name, allowed) in [
        ("/a", "l", true),
        ("/a", "f", false),
        ("/b", "f", true),
        ("/b", "d", true),
        ("/b", "l", false),
        ("/a/l/d", "g", true),
        ("/a/l/d", "f", false),
    ] {
        assert_eq!(allows(path, name), allowed, "{name} in {path}");
    }
    let f = snapshot.files.iter().find(|file| file.path.ends_with("f"));
    let f = f.expect("declared");
    assert_eq!(f.real(), std::path::Path::new("/b/f"));
    let temporary = crate::heal::temporary_name(f.real());
    assert!(allows("/b", temporary.to_str().expect("text")));
}

#[test]
fn what_is_compared_by_what_it_says_must_say_something() {
    let file = |compare: &str, content: &str| {
        format!(
            "    - path: /1\n      content: {{inline: \"{content}\"}}\n      compare: {compare}\n"
        )
    };
    let place = declares(&file("{format: json}", "{\\\"a\\\": 1}"));
    let snapshot = place.loaded();
    assert!(content(&snapshot.files[0]).meaning.is_some());
    assert_eq!(snapshot, place.loaded());
    for (compare, said, expected) in [
        (
            "{format: json}",
            "{\\\"a\\\": ",
            "web.yaml:14:25: the content does not parse as json: 1:7: ",
        ),
        (
            "{format: yaml, manage: [\"#/a\"]}",
            "a: 1",
            "web.yaml:15:16: `#/a` is no pattern of places: a pointer begins with",
        ),
    ] {
        let place = declares(&file(compare, said));
        let why = place.load().expect_err("refused").plain().to_string();
        assert!(why.contains(expected), "{why}");
        // `policy validate` sees it too, of every version.
        let why = super::super::identify(&place.policies()).expect_err("refused");
        assert!(why.plain().to_string().contains(expected));
    }
}

#[test]
fn who_only_compares_keeps_digests_and_needs_no_blobs() {
    let place = declares(&format!(
        "    - {{path: /1, content: {{inline: a}}}}\n    - {{path: /2, content: {{digest: \"blake3:{A}\"}}}}\n    - {{path: /3, content: {{inline: \"a\\n\"}}, finalNewline: ignore}}\n"
    ));
    let snapshot = load_digests(&place.policies(), &place.root(), None).expect("a snapshot");
    let contents: Vec<_> = snapshot.files.iter().map(|file| content(file)).collect();
    let a = blake3::hash(b"a");
    assert_eq!(a.to_hex().as_str(), A);
    let sizes = contents.iter().map(|content| content.size);
    assert!(sizes.eq([Some(1), None, Some(2)]));
    let digests = contents.iter().map(|content| content.digest);
    assert!(digests.eq([a, a, blake3::hash(b"a\n")]));
    assert_eq!(contents[2].body, Some(a));
    assert!(contents.iter().all(|content| content.bytes.is_none()));
}

#[test]
fn problems_of_many_files_are_all_said_and_documents_keep_their_order() {
    let place = declares("    - {path: /0, content: {inline: a}}\n");
    for number in 1..40 {
        let text = POLICY.to_owned()
            + "---\n"
            + &version(&format!(
                "    - {{path: /{number:02}, content: {{inline: a}}}}\n"
            ));
        place.write(
            &format!("policies/{number:02}.yaml"),
            text.replace("web", &format!("p{number:02}")),
        );
    }
    let snapshot = place.loaded();
    assert_eq!(snapshot.files.len(), 40);
    assert_eq!(snapshot.policies.len(), 40);
    for number in (1..40).step_by(3) {
        place.write(&format!("policies/{number:02}.yaml"), "a: [\n");
    }
    let why = place.load().expect_err("refused").to_string();
    assert!(why.contains("13 problems in 13 of 40 files"), "{why}");
}
