//! Paths that are reached through links.

use std::path::Path;

use super::{check, policy, read, version};
use crate::policy::{Document, Problems, parse, render};

/// A version with one file at `path`, and these links on its way.
fn one(path: &str, links: &str) -> String {
    version(&format!(
        "    - {{path: {path}, through: [{links}], content: {{inline: a}}}}\n"
    ))
}

/// Where the file really is.
#[track_caller]
fn real(path: &str, links: &[(&str, &str)]) -> String {
    let links: Vec<String> = links
        .iter()
        .map(|(path, target)| format!("{{path: {path}, target: '{target}'}}"))
        .collect();
    let text = one(path, &links.join(", ")) + "---\n" + &policy("");
    let (lineages, problems) = read(&text);
    assert!(problems.is_empty(), "{problems}");
    let lineages = lineages.expect("no problems");
    let through = lineages[0].active().files[0].through.as_ref();
    let through = through.expect("links");
    assert_eq!(through.links().len(), links.len());
    through.real().display().to_string()
}

#[test]
fn where_a_way_leads_is_known_from_what_its_links_hold() {
    for (path, links, expected) in [
        ("/a/l/f", &[("/a/l", "b")][..], "/a/b/f"),
        ("/a/l/f", &[("/a/l", "./b//c/.")], "/a/b/c/f"),
        ("/a/l/f", &[("/a/l", "../b")], "/b/f"),
        ("/a/b/l/d/f", &[("/a/b/l", "../..")], "/d/f"),
        ("/a/l/f", &[("/a/l", "/")], "/f"),
        ("/l/f", &[("/l", ".")], "/f"),
        ("/l/f", &[("/l", "/var//x/")], "/var/x/f"),
        // One after the other, each where it really stands.
        ("/a/l/m/f", &[("/a/l", "/b"), ("/b/m", "../c")], "/c/f"),
        ("/a/l/f", &[("/b/m", "n"), ("/a/l", "../b/m")], "/b/n/f"),
        // A link that is gone through twice has no need to be a circle.
        ("/l/l/l/f", &[("/l", "/")], "/f"),
    ] {
        assert_eq!(real(path, links), expected, "{path} {links:?}");
    }
}

#[test]
fn none_is_the_same_as_not_said() {
    let (lineages, problems) = read(&(one("/a/f", "") + "---\n" + &policy("")));
    assert!(problems.is_empty(), "{problems}");
    let lineages = lineages.expect("no problems");
    assert_eq!(lineages[0].active().files[0].through, None);
}

#[test]
fn every_kind_of_path_can_be_reached_through_links() {
    let way = "through: [{path: /l, target: d}]";
    let text = version("    []\n").replace("files:\n    []", "files: []")
        + &format!(
            "  symlinks: [{{path: /l/s, {way}, target: x}}, {{path: /l, target: d}}]\n  masks: [{{path: /l/m, {way}}}]\n  absent: [{{path: /l/a, {way}}}]\n  directories: [{{path: /l/d, {way}}}, {{path: /d}}]\n---\n"
        )
        + &policy("");
    let (lineages, problems) = read(&text);
    assert!(problems.is_empty(), "{problems}");
    let lineages = lineages.expect("no problems");
    let version = lineages[0].active();
    let through = [
        &version.symlinks[0].through,
        &version.symlinks[2].through,
        &version.absent[0].through,
        &version.directories[0].through,
    ];
    let real = through.map(|through| through.as_ref().expect("links").real());
    assert_eq!(real, ["/d/s", "/d/m", "/d/a", "/d/d"].map(Path::new));
}

#[test]
fn what_is_wrong_with_links_is_said_at_once() {
    check(
        &version(
            r#"    - path: /a/l/f
      content: {inline: a}
      through:
        - {path: /a/l}
        - {path: l, target: x}
        - {path: /x/../y, target: ''}
        - {path: /z, target: a/../b, mode: "0644"}
        - {path: /q, target: x}
        - {path: /q, target: y}
    - path: /a/l/g
      content: {inline: a}
      through:
        - {path: /a/l, target: /b}
        - {path: /a/m, target: x}
        - {path: /a/l/g, target: x}
    - {path: /a/l/h, content: {inline: a}, through: {path: /a/l, target: /b}}
    - {path: /a/l/i, content: {inline: a}, through: [{path: /a/l, target: ../../b}]}
    - {path: /a/l/j, content: {inline: a}, through: [{path: /a/l, target: m}, {path: /a/m, target: l}]}
"#,
        ),
        r#"error: missing field `target` in `spec.files[0].through[0]`
   --> p.yaml:11:11
    |
 11 |         - {path: /a/l}
    |           ^

error: `l` is not an absolute path
   --> p.yaml:12:18
    |
 12 |         - {path: l, target: x}
    |                  ^
    = write the whole path, as in `/l`

error: `/x/../y` has the component `..`
   --> p.yaml:13:18
    |
 13 |         - {path: /x/../y, target: ''}
    |                  ^^^^^^^
    = write `/y`

error: `` cannot be what a link holds
   --> p.yaml:13:35
    |
 13 |         - {path: /x/../y, target: ''}
    |                                   ^^
    = write it as `readlink` prints it

error: `a/../b` goes back by a `..`
   --> p.yaml:14:30
    |
 14 |         - {path: /z, target: a/../b, mode: "0644"}
    |                              ^^^^^^
    = where it leads depends on what else is a link: declare the path that it leads to, without
      `through`

error: unknown field `mode`
   --> p.yaml:14:38
    |
 14 |         - {path: /z, target: a/../b, mode: "0644"}
    |                                      ^^^^
    = allowed here: path, pathBytes, target

error: `/q` is named twice
   --> p.yaml:16:18
    |
 16 |         - {path: /q, target: y}
    |                  ^^
    = first named at p.yaml:15:18

error: `/a/m` is not on the way to `/a/l/g`
   --> p.yaml:21:18
    |
 21 |         - {path: /a/m, target: x}
    |                  ^^^^
    = write where the link really stands: the way to it, with each link before it replaced by what
      that holds

error: `/a/l/g` is not on the way to `/a/l/g`
   --> p.yaml:22:18
    |
 22 |         - {path: /a/l/g, target: x}
    |                  ^^^^^^
    = a link that stands at the path itself is declared in `symlinks`

error: expected a list at `spec.files[2].through`, found a mapping
   --> p.yaml:23:53
    |
 23 |     - {path: /a/l/h, content: {inline: a}, through: {path: /a/l, target: /b}}
    |                                                     ^
    = an empty list is written `[]`

error: `/a/l` leads above the root directory
   --> p.yaml:24:61
    |
 24 |     - {path: /a/l/i, content: {inline: a}, through: [{path: /a/l, target: ../../b}]}
    |                                                             ^^^^
    = write the target as `readlink` prints it

error: `/a/l` makes the way go in circles
   --> p.yaml:25:61
    |
 25 | …: /a/l/j, content: {inline: a}, through: [{path: /a/l, target: m}, {path: /a/m, target: l}]}
    |                                                   ^^^^
    = no program could follow it either"#,
    );
}

#[test]
fn links_and_the_path_are_bounded() {
    let link = |number: usize| format!("{{path: /l{number}, target: l{}}}", number + 1);
    let links = |count: usize| (0..count).map(link).collect::<Vec<_>>().join(", ");
    let (_, problems) = read(&(one("/l0/f", &links(16)) + "---\n" + &policy("")));
    assert!(problems.is_empty(), "{problems}");
    let (_, problems) = read(&one("/l0/f", &links(17)));
    let said = problems.one_line().to_string();
    assert!(said.contains("more than 16 links"), "{said}");
    let long = format!("{{path: /l, target: {}x}}", "a/".repeat(2047));
    let (_, problems) = read(&one("/l/sub/f", &long));
    let said = problems.one_line().to_string();
    assert!(said.contains("makes the path too long"), "{said}");
}

#[test]
fn paths_are_compared_by_where_they_really_are() {
    check(
        &(version(
            r"    - {path: /a/l/f, content: {inline: a}, through: [{path: /a/l, target: /b}]}
    - {path: /b/f, content: {inline: b}}
    - {path: /a/l/g, content: {inline: a}}
    - {path: /a/l/h, content: {inline: a}, through: [{path: /a/l, target: /c}]}
    - {path: /x/l/f, content: {inline: a}, through: [{path: /x/l, target: /d}]}
    - {path: /x, content: {inline: a}}
    - {path: /y/l/f, content: {inline: a}, through: [{path: /y/l, target: /e}]}
  symlinks: [{path: /y/l, target: /ee}]
  absent: [{path: /b/f/g}]
",
        ) + "---\n"
            + &policy("")),
        r"error: `/b/f` and `/a/l/f` are one path, which is declared twice by `web` 1.2.0
  --> p.yaml:9:14
   |
 9 |     - {path: /b/f, content: {inline: b}}
   |              ^^^^
   = first declared at p.yaml:8:14

error: `/a/l/g` cannot be beneath `/a/l`, which is a link on the way to another path
   --> p.yaml:10:14
    |
 10 |     - {path: /a/l/g, content: {inline: a}}
    |              ^^^^^^
    = name it in `through`, as at p.yaml:8:61, or declare the path that it leads to

error: `/a/l` cannot hold `/c`: it is declared to hold `/b`
   --> p.yaml:11:61
    |
 11 |     - {path: /a/l/h, content: {inline: a}, through: [{path: /a/l, target: /c}]}
    |                                                             ^^^^
    = first declared at p.yaml:8:61

error: `/x/l` cannot be beneath `/x`, which is declared as a file
   --> p.yaml:12:61
    |
 12 |     - {path: /x/l/f, content: {inline: a}, through: [{path: /x/l, target: /d}]}
    |                                                             ^^^^
    = declared as a file at p.yaml:13:14

error: `/y/l` cannot hold `/e`: it is declared to hold `/ee`
   --> p.yaml:14:61
    |
 14 |     - {path: /y/l/f, content: {inline: a}, through: [{path: /y/l, target: /e}]}
    |                                                             ^^^^
    = first declared at p.yaml:15:21

error: `/b/f/g` cannot be beneath `/a/l/f`, which is declared as a file
   --> p.yaml:16:19
    |
 16 |   absent: [{path: /b/f/g}]
    |                   ^^^^^^
    = declared as a file at p.yaml:8:14",
    );
}

#[test]
fn two_policies_can_go_through_one_link_to_different_paths() {
    let link = "through: [{path: /l, target: d}]";
    let of = |name: &str, file: &str| {
        let file = format!("    - {{path: {file}, {link}, content: {{inline: a}}}}\n");
        let text = version(&file) + "---\n" + &policy("") + "---\n";
        text.replace("web", name)
    };
    let (_, problems) = read(&(of("a", "/l/a") + &of("b", "/l/b")));
    assert!(problems.is_empty(), "{problems}");
    let (_, problems) = read(&(of("a", "/l/a") + &of("b", "/l/a")));
    let said = problems.one_line().to_string();
    assert!(said.contains("is declared by two policies"), "{said}");
    let (_, problems) =
        read(&(of("a", "/l/a") + &of("b", "/l/b").replace("target: d", "target: e")));
    let said = problems.one_line().to_string();
    assert!(said.contains("cannot hold `e`"), "{said}");
}

#[test]
fn links_have_a_part_in_what_a_version_is_in_any_order() {
    let digest = |text: &str| {
        let mut problems = Problems::default();
        let documents = parse(&super::source(text), &mut problems);
        assert!(problems.is_empty(), "{problems}");
        // Rendered and read again it is the same.
        let rendered = render(&documents).to_string();
        let again = parse(&super::source(&rendered), &mut problems);
        assert_eq!(again, documents, "{rendered}");
        let Some(Document::Version(version)) = documents.into_iter().next() else {
            panic!("a version")
        };
        let contents = [blake3::hash(b"a")];
        let form = crate::policy::canonical(&version, &contents);
        (form, version.digest(&contents))
    };
    let (m, l) = (
        "{path: /b/m, target: c}",
        "{pathBytes: L2EvbA==, target: /b}",
    );
    let (form, plain) = digest(&one("/a/l/m/f", &format!("{m}, {l}")));
    let part = r#""path":"/a/l/m/f","through":[{"path":"/a/l","target":"/b"},{"path":"/b/m","target":"c"}]}"#;
    assert!(form.contains(part), "{form}");
    assert_eq!(digest(&one("/a/l/m/f", &format!("{l}, {m}"))).1, plain);
    let other = one("/a/l/m/f", &format!("{l}, {m}")).replace("target: c", "target: d");
    assert_ne!(digest(&other).1, plain);
    assert_ne!(digest(&one("/a/l/m/f", "")).1, plain);
}
