//! `drift-agent snapshot`: what a machine has becomes a policy, in which `check` finds nothing.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, Permissions},
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{is_built, program, tool},
    command::{check, is_clean, said, snapshot},
    scene::Scene,
    skip::skip,
};

fn mode(path: &Path) -> Result<u32> {
    Ok(fs::symlink_metadata(path)?.permissions().mode() & 0o7777)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

fn names(folder: &Path) -> Result<Vec<OsString>> {
    let mut names = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// A tree of whatever can be declared.
fn lay_out(scene: &Scene) -> Result<()> {
    let at = |name: &str| scene.at(name);
    for (name, text) in [
        ("plain.conf", "listen = 80\n"),
        ("no-end", "a\nb"),
        ("empty", ""),
        ("ends", "a\n\n\n"),
        ("only-ends", "\n\n"),
        ("indented", "  a\n b\n"),
        ("blank-first", "\n\na\n"),
        ("tab", "\ta\n"),
        ("dos", "a\r\nb\r\n"),
        ("mark", "\u{feff}a\n"),
        ("yaml", "---\n- a: |\n    b\n...\n# c\n"),
        ("spaces", "a  \n   \nb\n"),
        ("turned", "a\u{202e}b\n"),
        ("unicode", "é 配 \u{85}\n"),
        ("a\nb: 'c' \"d\" \\x00", "x\n"),
        (" - {x}, [y] # z", "x\n"),
    ] {
        fs::write(at(name), text)?;
    }
    fs::write(scene.tree().join(OsStr::from_bytes(b"latin-\xe9")), "x\n")?;
    fs::write(at("binary"), b"\x7fELF\0\xff")?;
    fs::write(at("long"), "word\n".repeat(100_000))?;
    fs::create_dir_all(at("sub/deep/empty"))?;
    fs::write(at("sub/setuid"), "x")?;
    set_mode(&at("sub/setuid"), 0o6755)?;
    set_mode(&at("sub/deep"), 0o1777)?;
    symlink("nowhere/../at all", at("dangling"))?;
    symlink("/dev/null", at("masked.service"))?;
    symlink("sub", at("way"))?;
    fs::hard_link(at("plain.conf"), at("other-name.conf"))?;
    Ok(())
}

#[test]
fn whatever_can_be_declared_is_declared_as_it_is() -> Result<()> {
    if !is_built("whatever_can_be_declared_is_declared_as_it_is") {
        return Ok(());
    }
    for more in [&[][..], &["--exhaustive"][..]] {
        let scene = Scene::new()?;
        lay_out(&scene)?;
        let arguments = [&["tree", "-o", "policies/all.yaml"][..], more].concat();
        let (status, out, err) = snapshot(&scene, &arguments)?;
        ensure!(status == 0, "{out}{err}");
        ensure!(
            out.starts_with("policy tree 1.0.0 (observe) in policies/all.yaml, in "),
            "{out}"
        );
        for row in [
            " files             21   ",
            "  in blobs          2   488.29 KiB in 2 blobs\n",
            " links              2\n",
            " masks              1   links to /dev/null\n",
            " directories        4\n",
            " hard links         2   each name declared for itself\n",
            "All 28 paths are as declared.\n",
            "   sudo drift-agent run --policies policies\n",
        ] {
            ensure!(out.contains(row), "no {row:?}:\n{out}");
        }
        is_clean(&scene)?;
        ensure!(names(&scene.policies())? == ["all.yaml", "blobs"]);
        let text = fs::read_to_string(scene.policies().join("all.yaml"))?;
        for lines in [
            "inline: |\n          listen = 80\n      mode: \"0644\"",
            "inline: |2\n            a\n           b\n",
            "inline: |2\n\n\n          a\n",
            "inline: \"a\\u000d\\nb\\u000d\\n\"",
            "inline: |-\n          a\n          b\n",
            "mode: \"6755\"",
        ] {
            ensure!(text.contains(lines), "no {lines:?}:\n{text}");
        }
        // The same again is the same, byte by byte.
        let again = ["tree", "-o", "policies/all.yaml", "--force"];
        snapshot(&scene, &[&again[..], more].concat())?;
        ensure!(fs::read_to_string(scene.policies().join("all.yaml"))? == text);
        // What is new is drift only where nothing else may be.
        fs::write(scene.at("sub/new"), "")?;
        let (status, _) = check(&scene)?;
        ensure!(status == i32::from(!more.is_empty()), "{status}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_declared_is_left_out_said_and_counted() -> Result<()> {
    if !is_built("what_cannot_be_declared_is_left_out_said_and_counted") {
        return Ok(());
    }
    let scene = Scene::new()?;
    fs::write(scene.at("a.conf"), "a\n")?;
    tool("mkfifo", &[scene.at("f[if]o")])?;
    let _socket = UnixListener::bind(scene.at("socket"))?;
    fs::File::create(scene.at("large"))?.set_len((16 << 20) + 1)?;
    symlink(OsStr::from_bytes(b"latin-\xe9"), scene.at("odd"))?;
    let arguments = ["tree", "--exhaustive", "-o", "policies/all.yaml"];
    let (status, out, err) = snapshot(&scene, &arguments)?;
    ensure!(status == 16, "{status} {out}{err}");
    for line in [
        " left out           4   2 special, 1 target, 1 too-large\n",
        "/f[if]o: a FIFO; files, links and directories can be declared\n",
        "/socket: a socket; ",
        "/large: larger than the 16 MiB a content may have\n",
        "/odd: a link that holds bytes which are not UTF-8\n",
    ] {
        ensure!(out.contains(line), "no {line:?}:\n{out}");
    }
    // It may be there all the same, and nothing else.
    is_clean(&scene)?;
    fs::write(scene.at("fio"), "")?;
    let (status, records) = check(&scene)?;
    ensure!(status == 1 && records.len() == 1, "{records:?}");
    Ok(())
}

#[test]
fn a_secret_is_never_in_the_policy_but_in_a_blob_that_nobody_else_can_read() -> Result<()> {
    if !is_built("a_secret_is_never_in_the_policy_but_in_a_blob_that_nobody_else_can_read") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let key = "-----BEGIN PRIVATE KEY-----\nMIIBSECRETMIIB\n-----END PRIVATE KEY-----\n";
    let token = "ghp_SECRET6789abcdefghijABCDEFGHIJ012345";
    fs::create_dir(scene.at("closed"))?;
    for (name, text) in [
        ("tls.key", key.to_owned()),
        ("app.conf", "listen = 80\npassword = SECRET\n".to_owned()),
        ("env", format!("X={token}\n")),
        ("shadow", "root:SECRET\n".to_owned()),
        ("closed/open", "SECRET\n".to_owned()),
        ("public.conf", "listen = 80\n".to_owned()),
    ] {
        fs::write(scene.at(name), text)?;
    }
    set_mode(&scene.at("shadow"), 0o640)?;
    set_mode(&scene.at("closed"), 0o750)?;
    let (status, out, err) = snapshot(&scene, &["tree", "-o", "policies/all.yaml"])?;
    ensure!(status == 0, "{out}{err}");
    for line in [
        "in 5 blobs, 5 files may be secret\n",
        "/tree/tls.key: something in it looks like a secret\n",
        "/tree/app.conf: a key in it is called like a secret's\n",
        "/tree/env: something in it looks like a secret\n",
        "/tree/shadow: others may not read it\n",
        "/tree/closed/open: others may not read it\n",
        "may be secret, so it is in policies/blobs, which must not get into the wrong hands:\n",
    ] {
        ensure!(out.contains(line), "no {line:?}:\n{out}");
    }
    ensure!(!format!("{out}{err}").contains("SECRET"), "{out}{err}");
    let policy = scene.policies().join("all.yaml");
    let text = fs::read_to_string(&policy)?;
    ensure!(
        !text.contains("SECRET") && text.contains("listen = 80"),
        "{text}"
    );
    // A digest of a short secret can be guessed.
    ensure!(mode(&policy)? == 0o600);
    let blobs = scene.policies().join("blobs");
    ensure!(mode(&blobs)? == 0o700);
    for name in names(&blobs)? {
        ensure!(mode(&blobs.join(name))? == 0o600);
    }
    is_clean(&scene)
}

#[test]
fn nothing_is_replaced_unasked_and_nothing_wrong_is_written() -> Result<()> {
    if !is_built("nothing_is_replaced_unasked_and_nothing_wrong_is_written") {
        return Ok(());
    }
    let scene = Scene::new()?;
    fs::create_dir(scene.at("sub"))?;
    fs::write(scene.at("sub/a.conf"), "a\n")?;
    #[track_caller]
    fn refused(scene: &Scene, arguments: &[&str], sentence: &str) -> Result<()> {
        let (status, out, err) = snapshot(scene, arguments)?;
        ensure!(
            status == 1 && out.is_empty() && err.contains(sentence),
            "{status} {out}{err}"
        );
        Ok(())
    }
    refused(
        &scene,
        &["tree", "-o", "policies/all.txt"],
        "a policy file is called NAME.yaml",
    )?;
    refused(
        &scene,
        &["tree", "-o", "policies/.all.yaml"],
        "is not hidden",
    )?;
    refused(
        &scene,
        &["tree", "-o", "no/where/all.yaml"],
        "cannot make the folder",
    )?;
    refused(
        &scene,
        &["none", "-o", "policies/all.yaml"],
        "none: No such file",
    )?;
    refused(
        &scene,
        &["tree", "-o", "policies/all.yaml", "--policy", "My App"],
        "as in my-app",
    )?;
    refused(
        &scene,
        &["tree", "-o", "policies/all.yaml", "--ignore", "[a"],
        "a pattern of --ignore cannot be used",
    )?;
    ensure!(names(&scene.policies())?.is_empty());

    let (status, ..) = snapshot(&scene, &["tree/sub", "-o", "policies/sub.yaml"])?;
    ensure!(status == 0);
    let before = fs::read(scene.policies().join("sub.yaml"))?;
    refused(
        &scene,
        &["tree", "-o", "policies/sub.yaml"],
        "policies/sub.yaml is there already: --force replaces it",
    )?;
    // One path has one policy.
    refused(
        &scene,
        &["tree", "-o", "policies/all.yaml"],
        "this does not fit to the other policies in policies: ",
    )?;
    ensure!(names(&scene.policies())? == ["sub.yaml"]);
    ensure!(fs::read(scene.policies().join("sub.yaml"))? == before);

    // With another number, and more in it.
    fs::write(scene.at("sub/b.conf"), "b\n")?;
    let next = [
        "tree/sub",
        "-o",
        "policies/sub.yaml",
        "--version",
        "1.1.0",
        "--force",
    ];
    let (status, out, err) = snapshot(&scene, &next)?;
    ensure!(
        status == 0 && out.starts_with("policy sub 1.1.0 (observe)") && !out.contains("note:"),
        "{out}{err}"
    );
    fs::write(scene.at("sub/b.conf"), "c\n")?;
    let (_, out, _) = snapshot(&scene, &next)?;
    ensure!(
        out.contains("note: sub 1.1.0 was another one before: "),
        "{out}"
    );
    is_clean(&scene)
}

#[test]
fn a_snapshot_on_standard_output_is_a_policy_and_nothing_else() -> Result<()> {
    if !is_built("a_snapshot_on_standard_output_is_a_policy_and_nothing_else") {
        return Ok(());
    }
    let scene = Scene::new()?;
    fs::write(scene.at("motd"), "Welcome.\n")?;
    let (status, out, err) = snapshot(&scene, &["tree/motd", "-o", "-", "--policy", "hello"])?;
    ensure!(status == 0 && err.contains("The one path"), "{out}{err}");
    fs::write(scene.policies().join("p.yaml"), &out)?;
    ensure!(out.contains("  name: hello\n"), "{out}");
    is_clean(&scene)?;
    fs::write(scene.at("motd"), b"\0")?;
    let (status, out, err) = snapshot(&scene, &["tree/motd", "-o", "-"])?;
    ensure!(
        status == 1 && out.is_empty() && err.contains("cannot be a text in the policy"),
        "{out}{err}"
    );
    Ok(())
}

#[test]
fn what_is_asked_for_is_what_is_declared() -> Result<()> {
    if !is_built("what_is_asked_for_is_what_is_declared") {
        return Ok(());
    }
    let scene = Scene::new()?;
    for name in [
        "a.conf",
        "a.conf.bak",
        "sub/b.conf",
        "sub/b.conf.bak",
        "cache/x",
    ] {
        let path = scene.at(name);
        fs::create_dir_all(path.parent().context("in the tree")?)?;
        fs::write(path, "x\n")?;
    }
    symlink(scene.tree(), scene.elsewhere().join("link"))?;
    let cache = format!("{}/cach?", scene.tree().display());
    let (status, out, err) = snapshot(
        &scene,
        &[
            "elsewhere/link",
            "tree/sub",
            "-o",
            "tree/policies/p.yaml",
            "--exhaustive",
            "--ignore",
            "*.bak",
            "--ignore",
            &cache,
        ],
    )?;
    ensure!(status == 0, "{out}{err}");
    for line in [
        "note: elsewhere/link is reached through a link: this is a snapshot of /",
        " files              2   ",
        " directories        2\n",
        " ignored            3   as asked for\n",
        "/tree/policies: the policy folder itself\n",
    ] {
        ensure!(out.contains(line), "no {line:?}:\n{out}");
    }
    let output = Command::new(program())
        .args(["check", "--policies"])
        .arg(scene.at("policies"))
        .env("XDG_CACHE_HOME", scene.root().join("cache"))
        .output()?;
    let (status, out, err) = said(&output)?;
    ensure!(status == 0, "{out}{err}");
    Ok(())
}

#[test]
fn another_file_system_is_crossed_unless_that_is_not_wanted() -> Result<()> {
    let test = "another_file_system_is_crossed_unless_that_is_not_wanted";
    if !is_built(test) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        skip(test, "mounting needs root");
        return Ok(());
    }
    let scene = Scene::new()?;
    let point = scene.at("mounted");
    fs::create_dir(&point)?;
    tool(
        "mount",
        &["-t", "tmpfs", "none", &point.display().to_string()],
    )?;
    let result = crossed(&scene, &point);
    tool("umount", &[&point])?;
    result
}

fn crossed(scene: &Scene, point: &Path) -> Result<()> {
    fs::write(point.join("a.conf"), "a\n")?;
    let (status, out, err) = snapshot(scene, &["tree", "-o", "policies/p.yaml"])?;
    ensure!(
        status == 0 && out.contains(" mount points       1   other file systems begin there\n"),
        "{out}{err}"
    );
    is_clean(scene)?;
    let alone = [
        "tree",
        "--exhaustive",
        "--one-file-system",
        "--force",
        "-o",
        "policies/p.yaml",
    ];
    let (status, out, err) = snapshot(scene, &alone)?;
    ensure!(
        status == 0 && out.contains("/mounted: another file system, as was asked for\n"),
        "{out}{err}"
    );
    is_clean(scene)
}

#[test]
fn another_user_gets_what_that_user_can_read() -> Result<()> {
    use std::os::unix::process::CommandExt;
    let test = "another_user_gets_what_that_user_can_read";
    if !is_built(test) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        skip(test, "becoming another user needs root");
        return Ok(());
    }
    let scene = Scene::new()?;
    set_mode(scene.root(), 0o755)?;
    set_mode(&scene.policies(), 0o777)?;
    fs::write(scene.at("open"), "x\n")?;
    fs::write(scene.at("closed"), "x\n")?;
    set_mode(&scene.at("closed"), 0o600)?;
    fs::create_dir(scene.at("sub"))?;
    set_mode(&scene.at("sub"), 0o700)?;
    // The agent may stand where that user cannot go.
    let agent = scene.root().join("agent");
    fs::copy(program(), &agent)?;
    let mut command = Command::new(agent);
    command
        .current_dir(scene.root())
        .args(["snapshot", "tree", "-o", "policies/p.yaml"])
        .gid(65_534)
        .uid(65_534);
    let (status, out, err) = said(&command.output()?)?;
    ensure!(status == 16, "{out}{err}");
    for line in [
        " files              1   2 B\n",
        "/closed: not readable for this user; root can read it\n",
        "/sub: not readable for this user; root can read it\n",
    ] {
        ensure!(out.contains(line), "no {line:?}:\n{out}");
    }
    is_clean(&scene)
}

#[test]
fn what_one_file_cannot_hold_is_in_several_and_clean() -> Result<()> {
    if !is_built("what_one_file_cannot_hold_is_in_several_and_clean") {
        return Ok(());
    }
    let scene = Scene::new()?;
    const FOLDERS: usize = 20;
    const FILES: usize = 30_000;
    for number in 0..FILES {
        let folder = scene.at(&format!("d{:02}", number % FOLDERS));
        fs::create_dir_all(&folder)?;
        fs::write(
            folder.join(format!("{number:05}.conf")),
            format!("{number}\n"),
        )?;
    }
    let arguments = ["tree", "--exhaustive", "-o", "policies/many.yaml"];
    let (status, out, err) = snapshot(&scene, &arguments)?;
    ensure!(status == 0, "{out}{err}");
    ensure!(
        out.contains("and policies tree-2 to tree-2 beside it"),
        "{out}"
    );
    ensure!(names(&scene.policies())? == ["many-2.yaml", "many.yaml"]);
    is_clean(&scene)?;
    fs::remove_file(scene.at("d07/00007.conf"))?;
    fs::write(scene.at("d19/new"), "")?;
    let (status, records) = check(&scene)?;
    ensure!(status == 3 && records.len() == 2, "{status} {records:?}");
    // A smaller one does not leave half of the larger one behind.
    let less = ["tree/d00", "--force", "-o", "policies/many.yaml"];
    let (status, _, err) = snapshot(&scene, &less)?;
    ensure!(
        status == 1 && err.contains("policies/many-2.yaml is there"),
        "{err}"
    );
    Ok(())
}

#[test]
fn links_on_the_way_to_a_path_are_declared_with_it() -> Result<()> {
    if !is_built("links_on_the_way_to_a_path_are_declared_with_it") {
        return Ok(());
    }
    let scene = Scene::new()?;
    for name in ["etc", "srv/app/releases/7/conf.d"] {
        fs::create_dir_all(scene.at(name))?;
    }
    symlink("../srv/app", scene.at("etc/app"))?;
    symlink("releases/7", scene.at("srv/app/current"))?;
    for name in ["app.conf", "conf.d/one"] {
        fs::write(scene.at("srv/app/releases/7").join(name), "x\n")?;
    }
    let arguments = [
        "tree/etc/app/current/app.conf",
        "tree/etc/app/current/conf.d",
        "-o",
        "elsewhere/p/p.yaml",
        "--exhaustive",
    ];
    let (status, out, err) = snapshot(&scene, &arguments)?;
    ensure!(status == 0, "{out}{err}");
    let note = "note: tree/etc/app/current/conf.d is reached through /";
    ensure!(out.contains(note), "no {note:?}:\n{out}");
    let text = fs::read_to_string(scene.elsewhere().join("p/p.yaml"))?;
    for path in ["app.conf", "conf.d", "conf.d/one"] {
        let path = format!("{}/{path}", scene.at("etc/app/current").display());
        ensure!(text.contains(&path), "no {path}:\n{text}");
    }
    ensure!(
        text.matches("target: \"../srv/app\"").count() == 3,
        "{text}"
    );
    ensure!(text.matches("target: releases/7").count() == 3, "{text}");
    let check = || -> Result<(Option<i32>, String)> {
        let output = Command::new(program())
            .args(["check", "-o", "jsonl", "--policies"])
            .arg(scene.elsewhere().join("p"))
            .output()?;
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((output.status.code(), out))
    };
    let (status, out) = check()?;
    ensure!(status == Some(0), "{out}");
    // One of the links holds something else, and leads to the same.
    fs::remove_file(scene.at("srv/app/current"))?;
    symlink("./releases/7", scene.at("srv/app/current"))?;
    let (status, out) = check()?;
    ensure!(status == Some(4), "{status:?}: {out}");
    ensure!(out.matches("\"relocated\"").count() >= 3, "{out}");
    Ok(())
}
