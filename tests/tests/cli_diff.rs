//! `drift-agent diff` and `explain`: what people and programs are shown, and what nobody is.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{is_built, program},
    scene::Scene,
    skip::skip,
};
use serde_json::{Value, json};

/// Status, what was said, and what was said to people beside it. Where the scene is, is `ROOT` in both.
fn run(scene: &Scene, command: &str, arguments: &[&str]) -> Result<(i32, String, String)> {
    let output = Command::new(program())
        .current_dir(scene.root())
        .args([command, "--policies", "policies"])
        .args(arguments)
        // Not what an agent of this machine has kept.
        .args(if command == "explain" {
            &["--state", "state"][..]
        } else {
            &[]
        })
        .env("XDG_CACHE_HOME", scene.root().join("cache"))
        .output()?;
    let root = scene.root().display().to_string();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map(|text| text.replace(&root, "ROOT"));
    Ok((
        output.status.code().context("ended by a signal")?,
        text(output.stdout)?,
        text(output.stderr)?,
    ))
}

#[track_caller]
fn check(scene: &Scene, command: &str, arguments: &[&str], status: i32, said: &str) -> Result<()> {
    let (found, out, err) = run(scene, command, arguments)?;
    assert_eq!(out, said.trim_start_matches('\n'), "{err}");
    ensure!(found == status, "{found} {err}");
    Ok(())
}

const SPEC: &str = r##"  files:
    - {path: TREE/a.conf, content: {inline: "# app\nlisten = 80\npassword = one\nlast = 1\n"}, mode: "0644"}
    - path: TREE/b.json
      content: {inline: '{"listen": 80, "tls": {"password": "a", "cert": "/x"}, "gone": 1}'}
      compare: {format: json, ignore: [/since], sets: [/peers]}
    - {path: TREE/bin, content: {base64: AAEC}}
    - {path: TREE/broken.json, content: {inline: '{"a": 1}'}, compare: {format: json}}
    - {path: TREE/crlf, content: {inline: "a\nb\n"}}
    - {path: TREE/end, content: {inline: "a"}}
    - {path: TREE/missing, content: {inline: "a\n"}}
    - {path: TREE/same.yaml, content: {inline: "a: 1\n"}, compare: {format: yaml}}
    - {path: TREE/shared.json, content: {inline: '{"a": 1}'}, compare: {format: json, manage: [/a]}, onDrift: observe}
    - {path: TREE/type, content: {inline: "a\n"}}
  symlinks:
    - {path: TREE/link, target: /a}
  absent:
    - {path: TREE/nothing}
  directories:
    - {path: TREE/only, exhaustive: true, ignore: ["*.bak", "[0-9]*"]}
"##;

fn scene() -> Result<Scene> {
    let scene = Scene::new()?;
    scene.declare_spec("1.2.0", "  mode: heal\n", SPEC)?;
    for (name, content) in [
        (
            "a.conf",
            "# app\nlisten = 8080\npassword = two\nlast = 1\nnew = \u{1b}[2J\u{202e}\n",
        ),
        (
            "b.json",
            "{\"listen\": 8080, \"tls\": {\"password\": \"b\", \"cert\": \"/x\"}, \"since\": 3, \"a\u{202e}\": [1,2]}",
        ),
        ("bin", "\0\u{1}"),
        ("broken.json", "{\"a\": 1,\n \"token\": hunter2 }"),
        ("crlf", "a\r\nb\r\n"),
        ("end", "a\n"),
        ("same.yaml", "# x\na:   1\n"),
        ("shared.json", "{\"a\": 2, \"theirs\": 3}"),
        ("nothing", ""),
    ] {
        fs::write(scene.at(name), content)?;
    }
    fs::set_permissions(scene.at("a.conf"), fs::Permissions::from_mode(0o666))?;
    for name in ["type", "only"] {
        fs::create_dir(scene.at(name))?;
    }
    for name in ["x.bak", "stray", "ev\u{1b}il"] {
        fs::write(scene.at("only").join(name), "")?;
    }
    symlink("/b", scene.at("link"))?;
    Ok(scene)
}

#[test]
fn whatever_differs_is_shown_and_neither_secrets_nor_what_drives_a_terminal() -> Result<()> {
    // B049, B073, B122, B138
    if !is_built("whatever_differs_is_shown_and_neither_secrets_nor_what_drives_a_terminal") {
        return Ok(());
    }
    let scene = scene()?;
    let said = r#"
ROOT/tree/a.conf: content, mode   (p 1.2.0, policies/policy.yaml:15:14)
  mode  0644 -> 0666
--- declared  blake3:93c48d7e0463…  42 bytes
+++ on disk   blake3:f065e320f1f5…  58 bytes
@@ -1,4 +1,5 @@
 # app
-listen = 80
-password = •••
+listen = 8080
+password = •••
 last = 1
+new = \x1b[2J\xe2\x80\xae

ROOT/tree/b.json: content (2 values changed, 1 added, 1 removed)   (p 1.2.0, policies/policy.yaml:16:13)
  listen        80  ->  8080
  tls.password  •••  ->  •••   (changed; redacted by key name)
  gone          1  ->  -   (removed)
  a\u{202e}     -  ->  [1, 2]   (added)

ROOT/tree/bin: content   (p 1.2.0, policies/policy.yaml:19:14)
  content  blake3:e1be4d7a8ab5…  3 bytes -> blake3:7b7015bb92cf…  2 bytes

ROOT/tree/broken.json: content (does not parse, syntax at 2:11)   (p 1.2.0, policies/policy.yaml:20:14)
  it does not parse as json, at 2:11: expected a value
--- declared  blake3:6bd7a293e37b…  8 bytes
+++ on disk   blake3:f5881a9d914c…  28 bytes
@@ -1,1 +1,2 @@
-{"a": 1}
+{"a": 1,
+ "token": •••

ROOT/tree/crlf: content   (p 1.2.0, policies/policy.yaml:21:14)
  only the line ends differ
--- declared  blake3:41153ec5e22e…  4 bytes
+++ on disk   blake3:e17e2ed2d9c3…  6 bytes
@@ -1,2 +1,2 @@
-a
-b
+a\x0d
+b\x0d

ROOT/tree/end: content   (p 1.2.0, policies/policy.yaml:22:14)
  only the line end at the end of the file differs
--- declared  blake3:17762fddd969…  1 byte
+++ on disk   blake3:81c4b7f7e054…  2 bytes
@@ -1,1 +1,1 @@
-a
+a

ROOT/tree/link: link-target   (p 1.2.0, policies/policy.yaml:28:14)
  link  /a -> /b

ROOT/tree/missing: missing   (p 1.2.0, policies/policy.yaml:23:14)
  type  file -> absent

ROOT/tree/nothing: unexpected   (p 1.2.0, policies/policy.yaml:30:14)
  type  absent -> file

ROOT/tree/only: unexpected   (p 1.2.0, policies/policy.yaml:32:14)
  unexpected  ev\x1bil
  unexpected  stray

ROOT/tree/same.yaml: content-equivalent   (p 1.2.0, policies/policy.yaml:24:14)
  written in another way; the values are the same

ROOT/tree/shared.json: content (1 value changed)   (p 1.2.0, policies/policy.yaml:25:14)
  a  1  ->  2

ROOT/tree/type: type   (p 1.2.0, policies/policy.yaml:26:14)
  type  file -> directory
"#;
    check(&scene, "diff", &[], 7, said)
}

#[test]
fn only_the_paths_that_are_asked_for_are_shown_and_undeclared_ones_are_told() -> Result<()> {
    if !is_built("only_the_paths_that_are_asked_for_are_shown_and_undeclared_ones_are_told") {
        return Ok(());
    }
    let scene = scene()?;
    check(
        &scene,
        "diff",
        &["tree/same.yaml", "-o", "table"],
        0,
        "ROOT/tree/same.yaml: content-equivalent   (p 1.2.0, policies/policy.yaml:24:14)\n  written in another way; the values are the same\n",
    )?;
    fs::remove_file(scene.at("nothing"))?;
    check(
        &scene,
        "diff",
        &["tree/nothing"],
        0,
        "nothing differs in 1 paths\n",
    )?;
    check(&scene, "diff", &["tree/nothing", "-o", "json"], 0, "[]\n")?;
    let (status, out, err) = run(&scene, "diff", &["tree/nothing", "tree/nobody"])?;
    ensure!(
        status == 16 && out == "nothing differs in 1 paths\n",
        "{status} {out}"
    );
    ensure!(
        err == "no policy declares `ROOT/tree/nobody`, or anything beneath it\n",
        "{err}"
    );
    // Everything beneath a directory.
    let (status, out, _) = run(&scene, "diff", &["tree", "-o", "jsonl"])?;
    ensure!(status == 7 && out.lines().count() == 12, "{status} {out}");
    fs::write(scene.policies().join("policy.yaml"), "kind: Polizy\n")?;
    let (status, _, err) = run(&scene, "diff", &[])?;
    ensure!(
        status == 10 && err.contains("policy.yaml:1:"),
        "{status} {err}"
    );
    Ok(())
}

#[test]
fn programs_are_told_each_value_and_what_was_hidden_of_it() -> Result<()> {
    if !is_built("programs_are_told_each_value_and_what_was_hidden_of_it") {
        return Ok(());
    }
    let scene = scene()?;
    let (_, out, _) = run(&scene, "diff", &["tree/b.json", "-o", "json"])?;
    let all: Value = serde_json::from_str(&out)?;
    let one = &all[0];
    ensure!(
        one["path"] == "ROOT/tree/b.json" && one["drift"] == json!(["content"]),
        "{one}"
    );
    ensure!(one["content"]["format"] == "json", "{one}");
    let values = one["content"]["values"].as_array().context("no values")?;
    let pointers: Vec<_> = values.iter().map(|value| &value["pointer"]).collect();
    ensure!(
        pointers == ["/listen", "/tls/password", "/gone", "/a\\u{202e}"],
        "{one}"
    );
    ensure!(
        values[0]["declared"]["text"] == "80" && values[0]["observed"]["text"] == "8080",
        "{one}"
    );
    // The digest of a secret could be guessed.
    ensure!(
        values[1]["observed"] == json!({"text": "•••", "redacted": "by key name"}),
        "{one}"
    );
    let (_, yaml, _) = run(&scene, "diff", &["tree/b.json", "-o", "yaml"])?;
    ensure!(yaml.contains("pointer: \"/tls/password\""), "{yaml}");
    Ok(())
}

#[test]
fn no_secret_leaves_by_any_way() -> Result<()> {
    // B138, B139
    if !is_built("no_secret_leaves_by_any_way") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let spec = "  files:\n    - {path: TREE/a.json, content: {inline: '{\"password\": \"sentinel-1\", \"delivery\": \"LIVE\"}'}, compare: {format: json}}\n    - {path: TREE/b.conf, content: {inline: \"api_key = sentinel-2\\nDELIVERY = LIVE\\n\"}}\n    - {path: TREE/c.conf, content: {inline: \"plain = sentinel-3\\n\"}, redact: all}\n    - {path: TREE/d.json, content: {inline: '{\"plain\": \"sentinel-4\"}'}, redact: all, compare: {format: json}}\n    - {path: TREE/e.conf, content: {inline: \"password = shown-5\\n\"}, redact: none}\n";
    scene.declare_spec("1.0.0", "  mode: heal\n", spec)?;
    for (name, content) in [
        (
            "a.json",
            "{\"password\": \"sentinel-6\", \"delivery\": \"DEAD\"}",
        ),
        ("b.conf", "api_key = sentinel-7\nDELIVERY = DEAD\n"),
        ("c.conf", "plain = sentinel-8\n"),
        ("d.json", "{\"plain\": \"sentinel-9\"}"),
        ("e.conf", "password = other\n"),
    ] {
        fs::write(scene.at(name), content)?;
    }
    let mut all = String::new();
    for output in ["table", "json", "jsonl", "yaml"] {
        let (_, out, err) = run(&scene, "diff", &["-o", output])?;
        all = all + &out + &err;
        for name in ["a.json", "b.conf", "c.conf", "d.json"] {
            let (_, out, err) = run(&scene, "explain", &[&format!("tree/{name}"), "-o", output])?;
            all = all + &out + &err;
        }
    }
    let (_, out, err) = run(&scene, "check", &["-o", "jsonl"])?;
    all = all + &out + &err;
    ensure!(!all.contains("sentinel"), "{all}");
    // And not too much is hidden.
    for shown in ["DELIVERY = LIVE", "DELIVERY = DEAD", "shown-5", "•••"] {
        ensure!(all.contains(shown), "{shown}: {all}");
    }
    Ok(())
}

/// Whether files that are made here are root's, as the expected texts have it.
fn is_root(test: &str) -> bool {
    if !is_built(test) {
        return false;
    }
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(test, "the expected texts are of root's files");
    }
    root
}

#[test]
fn a_declared_path_is_explained_from_its_place_to_what_healing_would_do() -> Result<()> {
    if !is_root("a_declared_path_is_explained_from_its_place_to_what_healing_would_do") {
        return Ok(());
    }
    let scene = scene()?;
    for name in ["b.json", "shared.json"] {
        fs::set_permissions(scene.at(name), fs::Permissions::from_mode(0o640))?;
    }
    check(
        &scene,
        "explain",
        &["tree/b.json"],
        4,
        r#"
ROOT/tree/b.json is NOT as declared: content (2 values changed, 1 added, 1 removed)

  declared   by p 1.2.0, path 2 of 13 (policies/policy.yaml:16:13)
             file  blake3:d968e616e7dc…  65 bytes
  on disk    file  blake3:f63c18c3a141…  83 bytes  0640  root:root
  compared   as json, by what it says
             without `/since`
             in any order: `/peers`
  on drift   heal, as its policy says
             after a heal it is left alone for 2s, after each in a row 3 times longer, at most 300s
             (guard.backoff)
             after 4 heals within 60s against one program it is left alone for 3600s (guard.fight)
             at most 1000 heals of its policy in any minute (guard.perMinute)
             not where the first look finds most of its policy drifted (guard.massDrift)
  would do   write a new file of 65 bytes, sync it, read it back, and put it in the place of what is
             there

  listen        80  ->  8080
  tls.password  •••  ->  •••   (changed; redacted by key name)
  gone          1  ->  -   (removed)
  a\u{202e}     -  ->  [1, 2]   (added)

Heal: sudo drift-agent run --policies policies
"#,
    )?;
    check(
        &scene,
        "explain",
        &["tree/shared.json"],
        4,
        r#"
ROOT/tree/shared.json is NOT as declared: content (1 value changed)

  declared   by p 1.2.0, path 9 of 13 (policies/policy.yaml:25:14)
             file
  on disk    file  blake3:1bbf2a9bfad9…  21 bytes  0640  root:root
  compared   as json, by what it says
             only these, the rest belongs to others: `/a`
  on drift   observe, as its own `onDrift` says
  would do   write a new file with the managed keys as declared and every other byte as it is, sync
             it, read it back, and put it in the place of what is there
             but watches only: `onDrift: heal`, or `mode: heal` in its policy, would have it done

  a  1  ->  2

Heal all the same: sudo drift-agent run --policies policies --mode heal
"#,
    )?;
    // What cannot be edited is said before anybody tries.
    fs::write(scene.at("shared.json"), "{\"a\": 2")?;
    let (status, out, _) = run(&scene, "explain", &["tree/shared.json"])?;
    ensure!(
        status == 4
            && out.contains("  cannot     what is there does not parse, and only its other writers can put it right (unparsable)\n"),
        "{status} {out}"
    );
    let (status, out, _) = run(&scene, "explain", &["tree/only", "-o", "json"])?;
    let only: Value = serde_json::from_str(&out)?;
    ensure!(
        status == 1
            && only["plan"]["action"] == "none"
            && only["number"] == 13
            && only["of"] == 13
            && only["unexpected"] == json!(["ev\\x1bil", "stray"]),
        "{only}"
    );
    fs::remove_file(scene.at("nothing"))?;
    let (status, out, _) = run(&scene, "explain", &["tree/nothing"])?;
    ensure!(
        status == 0 && out.starts_with("ROOT/tree/nothing is as declared\n"),
        "{out}"
    );
    Ok(())
}

#[test]
fn of_an_undeclared_path_the_rule_that_holds_for_it_is_told() -> Result<()> {
    // B073
    if !is_built("of_an_undeclared_path_the_rule_that_holds_for_it_is_told") {
        return Ok(());
    }
    let scene = scene()?;
    let only = "  ROOT/tree/only is exhaustive (p 1.2.0, policies/policy.yaml:32:14)\n";
    for (path, said) in [
        (
            "tree/only/x.bak",
            format!("{only}  x.bak may be in it: the pattern `*.bak` of its `ignore` matches\n"),
        ),
        (
            "tree/only/1/deep",
            format!(
                "{only}  1 may be in it: the pattern `[0-9]*` of its `ignore` matches; of what is in that nothing is said\n"
            ),
        ),
        (
            "tree/only/stray",
            format!(
                "{only}  stray may not be in it: if it is there it is reported as unexpected, and stays (`onUnexpected: report`)\n"
            ),
        ),
        (
            "tree/type/x",
            "  ROOT/tree/type is declared as something that is no directory (p 1.2.0, policies/policy.yaml:26:14): nothing can be beneath it\n".to_owned(),
        ),
        (
            "tree/shared.jsn",
            "  nothing above it is declared either: it is never looked at\n  did you mean ROOT/tree/shared.json?\n".to_owned(),
        ),
        (
            "tree/zzz",
            "  nothing above it is declared either: it is never looked at\n  nearest:\n    ROOT/tree/a.conf   (p 1.2.0, policies/policy.yaml:15:14)\n    ROOT/tree/b.json   (p 1.2.0, policies/policy.yaml:16:13)\n    ROOT/tree/bin   (p 1.2.0, policies/policy.yaml:19:14)\n".to_owned(),
        ),
    ] {
        let expected = format!("no policy declares ROOT/{path}\n\n{said}");
        check(&scene, "explain", &[path], 0, &expected)?;
    }
    let (_, out, _) = run(&scene, "explain", &["tree/only/x.bak", "-o", "json"])?;
    let value: Value = serde_json::from_str(&out)?;
    ensure!(
        value["covered_by"]["rule"] == "ignored" && value["covered_by"]["pattern"] == "*.bak",
        "{value}"
    );
    // A name that nobody can read is shown so that it can be told from others.
    let (_, out, _) = run(&scene, "explain", &["tree/ev\u{1b}il"])?;
    ensure!(
        out.starts_with("no policy declares ROOT/tree/ev\\x1bil\n"),
        "{out}"
    );
    Ok(())
}
