//! `drift-agent check`: one look, and a status that says what was found.

use std::{
    fs::{self, File},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{is_built, program},
    scene::{DEFAULT, Declared, Scene, file},
    skip::skip,
    wait,
};
use rustix::{
    fs::{XattrFlags, setxattr},
    io::Errno,
};
use serde_json::Value;

/// Status, records, and what was said to people.
fn check(scene: &Scene, arguments: &[&str]) -> Result<(i32, String, String)> {
    let output = Command::new(program())
        .arg("check")
        .arg("--policies")
        .arg(scene.policies())
        .args(arguments)
        .env("XDG_CACHE_HOME", scene.root().join("cache"))
        .output()?;
    Ok((
        output.status.code().context("ended by a signal")?,
        String::from_utf8(output.stdout)?,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

fn scene() -> Result<(Scene, [Declared; 3])> {
    let scene = Scene::new()?;
    let mut moded = file("c.conf", "c\n");
    moded.mode = Some("0600");
    let files = [file("a.conf", "a\n"), file("sub/b.conf", "b\n"), moded];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    Ok((scene, files))
}

#[test]
fn a_clean_tree_is_status_0_and_a_sentence() -> Result<()> {
    if !is_built("a_clean_tree_is_status_0_and_a_sentence") {
        return Ok(());
    }
    let (scene, _) = scene()?;
    let (status, out, err) = check(&scene, &[])?;
    ensure!(
        status == 0 && out.starts_with("all 3 paths are as declared"),
        "{status} {out} {err}"
    );
    let (status, out, _) = check(&scene, &["--full", "-o", "jsonl"])?;
    ensure!(status == 0 && out.is_empty(), "{out}");
    let (status, out, _) = check(&scene, &["-o", "json"])?;
    ensure!(
        status == 0 && serde_json::from_str::<Value>(&out)? == serde_json::json!([]),
        "{out}"
    );
    Ok(())
}

#[test]
fn each_kind_of_drift_sets_its_bit_and_is_told_once() -> Result<()> {
    if !is_built("each_kind_of_drift_sets_its_bit_and_is_told_once") {
        return Ok(());
    }
    let (scene, files) = scene()?;
    fs::write(scene.at("a.conf"), "other\n")?;
    let (status, out, _) = check(&scene, &["-o", "jsonl"])?;
    ensure!(status == 4, "changed: {status} {out}");
    fs::remove_dir_all(scene.at("sub"))?;
    let (status, out, _) = check(&scene, &["-o", "jsonl"])?;
    ensure!(status == 6, "changed and missing: {status} {out}");
    scene.lay_out(&files[..1])?;
    let (status, out, _) = check(&scene, &["-o", "json"])?;
    ensure!(status == 2, "missing: {status} {out}");
    let records: Vec<Value> = serde_json::from_str(&out)?;
    ensure!(
        records.len() == 1 && records[0]["drift"] == serde_json::json!(["missing"]),
        "{out}"
    );
    ensure!(
        records[0]["actor"].is_null() && records[0]["cause"] == "scan",
        "{out}"
    );
    // A person sees each in a line, and the sum.
    let (_, out, _) = check(&scene, &[])?;
    ensure!(
        out.contains("2 of 3 paths are as declared, 1 is not"),
        "{out}"
    );
    Ok(())
}

#[test]
fn policies_with_problems_are_status_10() -> Result<()> {
    if !is_built("policies_with_problems_are_status_10") {
        return Ok(());
    }
    let (scene, _) = scene()?;
    fs::write(scene.policies().join("policy.yaml"), "kind: Polizy\n")?;
    let (status, _, err) = check(&scene, &[])?;
    ensure!(
        status == 10 && err.contains("policy.yaml:1:"),
        "{status} {err}"
    );
    Ok(())
}

const UNREAD: &str = "3 files are as last seen and were not read again";

/// Checks until files are old enough for their times to tell a change.
fn check_until_nothing_is_read(scene: &Scene) -> Result<()> {
    wait::until(Duration::from_secs(30), || {
        let (_, out, err) = check(scene, &[])?;
        ensure!(out.contains(UNREAD), "{out} {err}");
        Ok(())
    })
}

#[test]
fn an_unchanged_file_is_not_read_again_and_every_change_is_seen() -> Result<()> {
    if !is_built("an_unchanged_file_is_not_read_again_and_every_change_is_seen") {
        return Ok(());
    }
    let (scene, _) = scene()?;
    check_until_nothing_is_read(&scene)?;
    let (status, out, _) = check(&scene, &["--full"])?;
    ensure!(status == 0 && !out.contains("not read"), "{status} {out}");
    // B004: in place and by another file, with the size and the time of before.
    let before = File::open(scene.at("a.conf"))?.metadata()?.modified()?;
    fs::write(scene.at("a.conf"), "x\n")?;
    File::options()
        .write(true)
        .open(scene.at("a.conf"))?
        .set_modified(before)?;
    let (status, out, _) = check(&scene, &["-o", "jsonl"])?;
    ensure!(status == 4 && out.lines().count() == 1, "{status} {out}");
    fs::write(scene.at("new"), "a\n")?;
    File::options()
        .write(true)
        .open(scene.at("new"))?
        .set_modified(before)?;
    fs::rename(scene.at("new"), scene.at("a.conf"))?;
    let (status, out, _) = check(&scene, &["-o", "jsonl"])?;
    ensure!(status == 0, "{status} {out}");
    // A drift that is known is told again, whether the file is read or not.
    fs::write(scene.at("sub/b.conf"), "other\n")?;
    check_until_nothing_is_read(&scene)?;
    let (status, out, _) = check(&scene, &[])?;
    ensure!(
        status == 4 && out.contains("b.conf") && out.contains(UNREAD),
        "{status} {out}"
    );
    // What is declared now counts, whatever was declared when it was seen.
    let files = [
        file("a.conf", "a\n"),
        file("sub/b.conf", "other\n"),
        file("c.conf", "not c\n"),
    ];
    scene.declare("2.0.0", DEFAULT, &files)?;
    let (status, out, _) = check(&scene, &["-o", "jsonl"])?;
    ensure!(
        status == 4 && out.lines().count() == 1 && out.contains("c.conf"),
        "{status} {out}"
    );
    Ok(())
}

#[test]
fn a_quick_check_sees_attributes_keys_and_names() -> Result<()> {
    let test = "a_quick_check_sees_attributes_keys_and_names";
    if !is_built(test) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let at = |name: &str| scene.at(name);
    for (name, text) in [
        ("plain", "x\n"),
        ("linked", "x\n"),
        ("marked", "x\n"),
        ("whole.json", "{\"a\": 1}"),
        ("part.json", "{\"a\": 1, \"others\": 1}"),
    ] {
        fs::write(at(name), text)?;
    }
    let set = |value: &[u8]| setxattr(at("marked"), "user.origin", value, XattrFlags::empty());
    if set(b"web") == Err(Errno::OPNOTSUPP) {
        skip(test, "the file system has no user attributes");
        return Ok(());
    }
    let inline = |text: &str| format!("content: {{inline: '{text}'}}");
    let (x, json) = ("content: {inline: \"x\\n\"}", inline("{\"a\": 1}"));
    let spec = format!(
        "  files:\n\
         \x20   - {{path: TREE/plain, {x}}}\n\
         \x20   - {{path: TREE/linked, {x}}}\n\
         \x20   - {{path: TREE/marked, {x}, xattrs: {{user.origin: web}}}}\n\
         \x20   - {{path: TREE/whole.json, {json}, compare: {{format: json}}}}\n\
         \x20   - {{path: TREE/part.json, {json}, compare: {{format: json, manage: [/a]}}}}\n"
    );
    scene.declare_spec("1.0.0", DEFAULT, &spec)?;
    // Plain files alone are not read again: of the others more is compared than is kept of them.
    let unread = "2 files are as last seen and were not read again";
    wait::until(Duration::from_secs(30), || {
        let (status, out, err) = check(&scene, &[])?;
        ensure!(status == 0 && out.contains(unread), "{out} {err}");
        Ok(())
    })?;
    let drifting = |arguments: &[&str]| -> Result<(i32, Vec<(String, Value)>)> {
        let (status, out, err) = check(&scene, &[&["-o", "json"], arguments].concat())?;
        let records: Vec<Value> = serde_json::from_str(&out).with_context(|| err)?;
        let tree = format!("{}/", scene.tree().display());
        let name = |record: &Value| record["path"].as_str().map(|path| path.replace(&tree, ""));
        let drifts = records.iter().map(|record| {
            let name = name(record).context("a path")?;
            Ok((name, record["drift"].clone()))
        });
        Ok((status, drifts.collect::<Result<_>>()?))
    };
    let is = |name: &str, drift: &str| (name.to_owned(), serde_json::json!([drift]));
    // What others own is no drift, and another way of writing is none that counts.
    fs::write(at("part.json"), "{\"a\": 1, \"others\": 2}")?;
    fs::write(at("whole.json"), "{\"a\":   1}")?;
    let found = drifting(&[])?;
    ensure!(
        found == (0, vec![is("whole.json", "content-equivalent")]),
        "{found:?}"
    );
    set(b"others")?;
    fs::hard_link(at("linked"), at("another"))?;
    fs::write(at("part.json"), "{\"a\": 2, \"others\": 2}")?;
    fs::write(at("whole.json"), "{\"a\": 3}")?;
    let all = vec![
        is("linked", "hardlinked"),
        is("marked", "xattr"),
        is("part.json", "content"),
        is("whole.json", "content"),
    ];
    let found = drifting(&[])?;
    ensure!(found == (4, all.clone()), "{found:?}");
    // All of them again, when what is kept is of those files.
    wait::until(Duration::from_secs(30), || {
        let (status, out, err) = check(&scene, &[])?;
        ensure!(status == 4 && out.contains(unread), "{out} {err}");
        Ok(())
    })?;
    for arguments in [&[][..], &["--full"]] {
        let found = drifting(arguments)?;
        ensure!(found == (4, all.clone()), "{found:?}");
    }
    Ok(())
}

#[test]
fn what_a_check_left_is_believed_only_when_nobody_else_touched_it() -> Result<()> {
    if !is_built("what_a_check_left_is_believed_only_when_nobody_else_touched_it") {
        return Ok(());
    }
    let (scene, _) = scene()?;
    check_until_nothing_is_read(&scene)?;
    let folder = scene.root().join("cache/drift-agent");
    ensure!(fs::metadata(&folder)?.mode() & 0o777 == 0o700);
    let left: Vec<PathBuf> = fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    for path in &left {
        ensure!(fs::metadata(path)?.mode() & 0o777 == 0o600, "{left:?}");
    }
    // What is declared may be kept beside what was seen.
    let is_seen = |path: &&PathBuf| path.extension().is_some_and(|is| is == "seen");
    let seen = left.iter().find(is_seen).context("what was seen")?;
    ensure!(left.len() <= 2, "{left:?}");
    let good = fs::read(seen)?;
    let reads_all = || {
        let (status, out, err) = check(&scene, &[])?;
        ensure!(
            status == 0 && !out.contains("not read") && err.is_empty(),
            "{out} {err}"
        );
        Ok(())
    };
    for damaged in [&good[..good.len() / 2], b"", b"something else"] {
        fs::write(seen, damaged)?;
        reads_all()?;
        // And it is as it was.
        ensure!(check(&scene, &[])?.1.contains(UNREAD));
    }
    fs::set_permissions(seen, fs::Permissions::from_mode(0o666))?;
    reads_all()?;
    // Where nothing can be kept, everything is read.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    reads_all()?;
    reads_all()?;
    Ok(())
}

#[test]
fn a_content_declared_by_its_digest_needs_no_blob_to_be_checked() -> Result<()> {
    if !is_built("a_content_declared_by_its_digest_needs_no_blob_to_be_checked") {
        return Ok(());
    }
    let scene = Scene::new()?;
    fs::write(scene.at("a"), "a")?;
    // `b3sum` of `a`.
    let digest = "17762fddd969a453925d65717ac3eea21320b66b54342fde15128d6caf21215f";
    let spec = format!("  files: [{{path: TREE/a, content: {{digest: 'blake3:{digest}'}}}}]\n");
    scene.declare_spec("1.0.0", DEFAULT, &spec)?;
    let (status, out, err) = check(&scene, &["--idle", "--rate", "1000"])?;
    ensure!(status == 0, "{status} {out} {err}");
    fs::write(scene.at("a"), "b")?;
    let (status, out, err) = check(&scene, &[])?;
    ensure!(status == 4, "{status} {out} {err}");
    Ok(())
}

#[test]
fn any_user_checks_what_that_user_can_read() -> Result<()> {
    if !is_built("any_user_checks_what_that_user_can_read") {
        return Ok(());
    }
    let (scene, _) = scene()?;
    fs::set_permissions(scene.at("a.conf"), fs::Permissions::from_mode(0o600))?;
    let mut command = Command::new(program());
    if rustix::process::geteuid().is_root() {
        // Nobody, who may come as far as to the files, and keeps nothing.
        fs::set_permissions(scene.root(), fs::Permissions::from_mode(0o755))?;
        fs::set_permissions(scene.at("c.conf"), fs::Permissions::from_mode(0o644))?;
        command.uid(65534).gid(65534);
    } else {
        fs::set_permissions(scene.at("a.conf"), fs::Permissions::from_mode(0o0))?;
        fs::set_permissions(scene.at("c.conf"), fs::Permissions::from_mode(0o644))?;
    }
    let output = command
        .arg("check")
        .arg("--policies")
        .arg(scene.policies())
        .args(["-o", "json"])
        .env("XDG_CACHE_HOME", scene.root().join("cache"))
        .output()?;
    let out = String::from_utf8_lossy(&output.stdout);
    let records: Vec<Value> = serde_json::from_str(&out)?;
    let drifts: Vec<_> = records.iter().map(|record| &record["drift"]).collect();
    ensure!(
        output.status.code() == Some(16 + 4)
            && drifts
                == [
                    &serde_json::json!(["unreadable"]),
                    &serde_json::json!(["mode"])
                ],
        "{:?} {out}",
        output.status
    );
    Ok(())
}

#[test]
fn no_answer_is_never_taken_for_a_finding() -> Result<()> {
    if !is_built("no_answer_is_never_taken_for_a_finding") {
        return Ok(());
    }
    let (scene, _) = scene()?;
    let text = |path: PathBuf| path.display().to_string();
    let policies = text(scene.policies());
    let nowhere = text(scene.root().join("nowhere"));
    let path = text(scene.at("a.conf"));
    for command in ["check", "diff", "explain"] {
        for (arguments, is_full, expected) in [
            (vec!["--policies", &*policies], false, 0),
            (vec!["--help"], false, 0),
            (vec!["--policies", &policies, "--fulll"], false, 64),
            (vec!["--policies", &policies, "-o", "xml"], false, 64),
            (vec!["--policies", &nowhere], false, 64),
            (
                vec!["--policies", &policies, "--host-root", &nowhere],
                false,
                64,
            ),
            (vec!["--policies", &policies, "-o", "yaml"], true, 64),
        ] {
            // Nobody hears what is said of it.
            let full = || File::options().write(true).open("/dev/full");
            let mut asked = Command::new(program());
            asked.arg(command).args(&arguments).stderr(full()?);
            asked.env("XDG_CACHE_HOME", scene.root().join("cache"));
            if command == "explain" {
                asked.arg(&path);
            }
            asked.stdout(if is_full {
                full()?.into()
            } else {
                Stdio::null()
            });
            let status = asked.status()?;
            ensure!(
                status.code() == Some(expected),
                "{command} {arguments:?}: {status:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_command_whose_words_nobody_hears_ends_as_it_would() -> Result<()> {
    if !is_built("a_command_whose_words_nobody_hears_ends_as_it_would") {
        return Ok(());
    }
    let scene = Scene::new()?;
    fs::create_dir_all(scene.policies())?;
    fs::write(scene.policies().join("p.yaml"), "kind: [\n")?;
    for command in [
        &["check"][..],
        &["diff"],
        &["policy", "validate"],
        &["policy", "list"],
    ] {
        let status = Command::new(program())
            .args(command)
            .arg("--policies")
            .arg(scene.policies())
            .stderr(File::options().write(true).open("/dev/full")?)
            .status()?;
        ensure!(status.code() == Some(10), "{command:?}: {status:?}");
    }
    Ok(())
}

#[test]
fn a_path_may_be_said_as_people_say_it() -> Result<()> {
    if !is_built("a_path_may_be_said_as_people_say_it") {
        return Ok(());
    }
    let (scene, _) = scene()?;
    fs::write(scene.at("a.conf"), "other\n")?;
    for said in ["../a.conf", "./../sub/../a.conf", "..//a.conf"] {
        for command in ["diff", "explain"] {
            let output = Command::new(program())
                .current_dir(scene.at("sub"))
                .args([command, said, "--policies"])
                .arg(fs::canonicalize(scene.policies())?)
                .output()?;
            let out = String::from_utf8_lossy(&output.stdout);
            ensure!(output.status.code() == Some(4), "{command} {said}: {out}");
        }
    }
    Ok(())
}

#[test]
fn where_no_more_threads_may_be_one_looks_at_everything() -> Result<()> {
    const TEST: &str = "where_no_more_threads_may_be_one_looks_at_everything";
    /// Nobody's, so that no other process counts.
    const SOMEBODY: &str = "64321";
    if !is_built(TEST) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        skip(TEST, "giving up root needs root");
        return Ok(());
    }
    let (scene, _) = scene()?;
    fs::set_permissions(scene.root(), fs::Permissions::from_mode(0o755))?;
    fs::write(scene.at("a.conf"), "other\n")?;
    // Where others can reach it.
    let agent = scene.root().join("agent");
    fs::copy(program(), &agent)?;
    let output = Command::new("prlimit")
        .args(["--nproc=1", "setpriv", "--clear-groups"])
        .args(["--reuid", SOMEBODY, "--regid", SOMEBODY])
        .arg(&agent)
        .args(["check", "-o", "json", "--policies"])
        .arg(scene.policies())
        .output()?;
    let out = String::from_utf8_lossy(&output.stdout);
    let records: Vec<Value> = serde_json::from_str(&out)
        .with_context(|| format!("{out} {}", String::from_utf8_lossy(&output.stderr)))?;
    ensure!(
        records
            .iter()
            .any(|record| record["drift"] == serde_json::json!(["content"])),
        "{out}"
    );
    Ok(())
}
