//! `heal` and `accept` on the built agent, evidence of what was healed, and who still has the old file.

use std::{
    fs,
    io::{Read, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, is_built},
    command::{is_clean, run, says},
    privilege::is_root,
    scene::{DEFAULT, HEAL_AT_ONCE, Scene, file},
};
use serde_json::Value;

const SCAN: [&str; 4] = ["--sensor", "scan", "--scan-interval", "100ms"];

fn rows(text: &str) -> Result<Vec<Value>> {
    serde_json::from_str(text).with_context(|| text.to_owned())
}

/// Cases B118, B123: by hand what is held is said with its reason, and healed with --force alone.
#[test]
fn a_heal_by_hand_says_what_holds_and_passes_it_with_force() -> Result<()> {
    if !is_built("a_heal_by_hand_says_what_holds_and_passes_it_with_force") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = ["a.conf", "b.conf", "c.conf"].map(|name| file(name, "declared\n"));
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &SCAN)?;
    let (a, b) = (scene.at("a.conf"), scene.at("b.conf"));
    fs::write(&a, "by hand\n")?;
    agent.event(0, "config.drift.detected", &a)?;
    let held = rows(&says(&scene, &["heal", "-o", "json"], 4)?)?;
    ensure!(
        held.len() == 1 && held[0]["outcome"] == "held" && held[0]["reason"] == "observe",
        "{held:?}"
    );
    let dry = says(&scene, &["heal", "--dry-run", "--force"], 0)?;
    ensure!(
        dry.contains("would heal") && dry.contains("nothing was changed"),
        "{dry}"
    );
    ensure!(
        dry.contains("write a new file of 9 bytes") && dry.contains("2 paths as declared"),
        "{dry}"
    );
    ensure!(fs::read_to_string(&a)? == "by hand\n");
    fs::write(&b, "by hand\n")?;
    agent.event(0, "config.drift.detected", &b)?;
    let path = a.display().to_string();
    let healed = rows(&says(&scene, &["heal", &path, "--force", "-o", "json"], 0)?)?;
    ensure!(
        healed.len() == 1 && healed[0]["outcome"] == "healed" && healed[0]["action"] == "replace",
        "{healed:?}"
    );
    ensure!(fs::read_to_string(&a)? == "declared\n" && fs::read_to_string(&b)? == "by hand\n");
    agent.event(0, "config.drift.healed", &a)?;
    let (status, _, err) = run(&scene, &["heal", "/nowhere"])?;
    ensure!(
        status == 1 && err.contains("/nowhere is not declared"),
        "{status} {err}"
    );
    // In back-off.
    agent.stop()?;
    scene.declare(
        "1.0.0",
        "  mode: heal\n  guard: {backoff: {first: 1m}}\n",
        &files,
    )?;
    let agent = Agent::start(&scene, &SCAN)?;
    agent.event(0, "config.drift.healed", &b)?;
    let mark = agent.mark();
    fs::write(&b, "at once again\n")?;
    let held = agent.event(mark, "config.drift.heal_suppressed", &b)?;
    ensure!(held["reason"] == "backoff", "{held}");
    let healed = rows(&says(
        &scene,
        &["heal", "--policy", "p", "--force", "-o", "json"],
        0,
    )?)?;
    ensure!(healed[0]["outcome"] == "healed", "{healed:?}");
    ensure!(fs::read_to_string(&b)? == "declared\n");
    agent.stop()?;

    // Without an agent: told where the policies are, the command does it itself, under the same lock and the same brakes.
    let (c, path) = (scene.at("c.conf"), scene.at("c.conf").display().to_string());
    fs::write(&c, "by hand\n")?;
    let (status, _, err) = run(&scene, &["heal"])?;
    ensure!(status == 1 && err.contains("--policies"), "{status} {err}");
    let policies = scene.policies().display().to_string();
    let healed = says(&scene, &["heal", &path, "--policies", &policies], 0)?;
    ensure!(healed.contains("healed"), "{healed}");
    ensure!(fs::read_to_string(&c)? == "declared\n");
    fs::write(&c, "by hand\n")?;
    let held = says(&scene, &["heal", &path, "--policies", &policies], 4)?;
    ensure!(held.contains("backoff"), "{held}");
    says(&scene, &["pause", "--reason", "x"], 0)?;
    let held = says(&scene, &["heal", &path, "--policies", &policies], 4)?;
    ensure!(held.contains("paused"), "{held}");
    let history = says(
        &scene,
        &["history", &path, "--event", "healed", "-o", "jsonl"],
        0,
    )?;
    ensure!(history.lines().count() == 1, "{history}");
    Ok(())
}

/// Case B118: what is there is accepted as the next version, and then everything is as declared.
#[test]
fn what_is_accepted_is_declared_by_the_next_version() -> Result<()> {
    if !is_built("what_is_accepted_is_declared_by_the_next_version") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [
        file("d/a.conf", "declared\n"),
        file("d/gone.conf", "x\n"),
        file("d/key.conf", "y\n"),
    ];
    scene.lay_out(&files)?;
    let tree = scene.tree().display().to_string();
    let mut text = scene.policy("1.0.0", HEAL_AT_ONCE, &files);
    text += &format!("  directories:\n    - {{path: {tree}/d, exhaustive: true}}\n");
    fs::write(scene.policies().join("policy.yaml"), text)?;
    is_clean(&scene)?;
    fs::write(scene.at("d/a.conf"), "by hand\n")?;
    fs::remove_file(scene.at("d/gone.conf"))?;
    fs::write(scene.at("d/key.conf"), "password: hunter2hunter2\n")?;
    fs::write(scene.at("d/new.conf"), "new\n")?;
    let policies = scene.policies().display().to_string();
    let accept = |path: &str| -> Result<(i32, String, String)> {
        drift_tests::command::said(
            &Command::new(drift_tests::agent::program())
                .args(["accept", path, "--policies", &policies])
                .output()?,
        )
    };
    let (status, out, err) = accept(&format!("{tree}/d"))?;
    ensure!(status == 0, "{out}{err}");
    ensure!(
        out.contains("p 1.0.1") && out.contains("drift-agent activate p 1.0.1"),
        "{out}"
    );
    ensure!(
        out.contains("may hold a secret") && !out.contains("hunter2"),
        "{out}"
    );
    let draft = fs::read_to_string(scene.policies().join("p-1.0.1.yaml"))?;
    ensure!(
        !draft.contains("hunter2") && draft.contains("by hand"),
        "{draft}"
    );
    // Nothing is in force yet; then it is, without a byte written.
    ensure!(is_clean(&scene).is_err());
    says(
        &scene,
        &["activate", "p", "1.0.1", "--policies", &policies],
        0,
    )?;
    let said = says(
        &scene,
        &[
            "explain",
            "--policies",
            &policies,
            &format!("{tree}/d/a.conf"),
        ],
        0,
    )?;
    ensure!(said.contains("1.0.1"), "{said}");
    let agent = Agent::start(&scene, &SCAN)?;
    let status = says(&scene, &["status"], 0)?;
    ensure!(status.contains("healthy"), "{status}");
    let touched = agent
        .since(0)
        .iter()
        .any(|record| record["event"] == "config.drift.detected");
    ensure!(!touched, "{}", agent.all());
    agent.stop()?;
    ensure!(fs::read_to_string(scene.at("d/a.conf"))? == "by hand\n");
    ensure!(!scene.at("d/gone.conf").exists());
    Ok(())
}

/// The id of a record, as `history --show` takes it.
fn id(record: &Value) -> Result<String> {
    Ok(record["id"].as_str().context("an id")?.to_owned())
}

/// The file itself is kept where the policy says so: as it was, and for who has it open.
#[test]
fn a_file_that_was_healed_is_kept_itself_where_the_policy_says_so() -> Result<()> {
    const TEST: &str = "a_file_that_was_healed_is_kept_itself_where_the_policy_says_so";
    if !is_built(TEST) || !is_root(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let app = scene.at("app.conf");
    scene.declare_spec(
        "1.0.0",
        &format!("{HEAL_AT_ONCE}  evidence: inode\n"),
        "files:\n    - {path: TREE/app.conf, content: {inline: \"declared\\n\"}, mode: \"0644\"}\n  absent:\n    - {path: TREE/gone}\n",
    )?;
    fs::write(&app, "declared\n")?;
    fs::set_permissions(&app, fs::Permissions::from_mode(0o644))?;
    let agent = Agent::start(&scene, &SCAN)?;
    let kept = |mark, path: &Path, before: &fs::Metadata| -> Result<PathBuf> {
        let healed = agent.event(mark, "config.drift.healed", path)?;
        let message = healed["message"].as_str().unwrap_or_default();
        let place = message
            .split("; ")
            .find_map(|note| note.strip_prefix("the file itself is in "));
        let place = PathBuf::from(place.with_context(|| healed.to_string())?);
        let now = fs::symlink_metadata(&place)?;
        let face = |stat: &fs::Metadata| (stat.ino(), stat.mode(), stat.uid(), stat.mtime_nsec());
        ensure!(face(&now) == face(before), "{healed}");
        ensure!(healed["evidence"][0]["digest"].is_string(), "{healed}");
        Ok(place)
    };
    let mark = agent.mark();
    let new = scene.elsewhere().join("new");
    fs::write(&new, "drifted\n")?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o4755))?;
    chown(&new, Some(7), Some(8))?;
    let mut writer = fs::File::options().append(true).open(&new)?;
    let before = fs::metadata(&new)?;
    fs::rename(&new, &app)?;
    let place = kept(mark, &app, &before)?;
    // Who has it open writes to what is kept.
    writer.write_all(b"more\n")?;
    ensure!(fs::read_to_string(&place)? == "drifted\nmore\n");
    ensure!(fs::read_to_string(&app)? == "declared\n");
    // What may not be there goes there, too.
    let mark = agent.mark();
    let gone = scene.at("gone");
    fs::write(&new, "planted\n")?;
    let before = fs::metadata(&new)?;
    fs::rename(&new, &gone)?;
    ensure!(fs::read_to_string(kept(mark, &gone, &before)?)? == "planted\n");
    agent.stop()?;
    // The next start leaves them whose they were.
    let agent = Agent::start(&scene, &SCAN)?;
    let stat = fs::metadata(&place)?;
    ensure!((stat.uid(), stat.gid()) == (7, 8), "{stat:?}");
    agent.stop()?;
    Ok(())
}

/// Case B138: what was healed is kept with who and when, shown as the policy says, and is in no record.
#[test]
fn what_was_healed_is_kept_and_shown_with_secrets_hidden() -> Result<()> {
    if !is_built("what_was_healed_is_kept_and_shown_with_secrets_hidden") {
        return Ok(());
    }
    const SENTINEL: &str = "s3ntinel-of-the-evil-one";
    let scene = Scene::new()?;
    let files = [file("d/app.conf", "listen = 80\npassword = declared\n")];
    scene.lay_out(&files)?;
    let tree = scene.tree().display().to_string();
    let mut text = scene.policy("1.0.0", HEAL_AT_ONCE, &files);
    text += &format!(
        "  directories:\n    - {{path: {tree}/d, exhaustive: true, onUnexpected: remove}}\n"
    );
    fs::write(scene.policies().join("policy.yaml"), text)?;
    let agent = Agent::start(&scene, &SCAN)?;
    let app = scene.at("d/app.conf");
    fs::write(&app, format!("listen = 8080\npassword = {SENTINEL}\n"))?;
    let healed = agent.event(0, "config.drift.healed", &app)?;
    ensure!(
        healed["evidence"][0]["type"] == "file" && healed["evidence"][0]["digest"].is_string(),
        "{healed}"
    );
    fs::write(scene.at("d/planted.conf"), "planted by hand\n")?;
    let cleared = agent.event(0, "config.drift.healed", &scene.at("d"))?;
    ensure!(
        cleared["evidence"][0]["name"] == "planted.conf",
        "{cleared}"
    );
    ensure!(!scene.at("d/planted.conf").exists());
    agent.stop()?;
    let shown = says(&scene, &["history", "--show", &id(&healed)?], 0)?;
    ensure!(
        shown.contains("-listen = 80") && shown.contains("+listen = 8080"),
        "{shown}"
    );
    ensure!(
        !shown.contains(SENTINEL) && shown.contains("password"),
        "{shown}"
    );
    let shown = says(&scene, &["history", "--show", &id(&cleared)?], 0)?;
    ensure!(
        shown.contains("planted.conf") && shown.contains("+planted by hand"),
        "{shown}"
    );
    let history = says(&scene, &["history", "-o", "jsonl"], 0)?;
    ensure!(
        !history.contains(SENTINEL) && !history.contains("planted by hand"),
        "{history}"
    );

    // A policy that wants none has none.
    scene.declare(
        "1.0.1",
        &format!("{HEAL_AT_ONCE}  evidence: none\n"),
        &[file("d/app.conf", "listen = 80\n")],
    )?;
    let agent = Agent::start(&scene, &SCAN)?;
    let mark = agent.mark();
    fs::write(&app, "not kept\n")?;
    let healed = agent.event(mark, "config.drift.healed", &app)?;
    ensure!(healed["evidence"].is_null(), "{healed}");
    agent.stop()?;
    Ok(())
}

/// Waits at the file until it is told to go on.
struct User {
    child: Child,
}

impl User {
    fn new(script: &str, path: &Path) -> Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut ready = [0; 6];
        child
            .stdout
            .as_mut()
            .context("its output")?
            .read_exact(&mut ready)?;
        Ok(Self { child })
    }
}

impl Drop for User {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends when its input does.
        let _ended = self.child.wait();
    }
}

/// Cases B006, B028: who still has the file that was replaced is named with the heal.
#[test]
fn who_still_has_the_old_file_is_named_with_the_heal() -> Result<()> {
    if !is_built("who_still_has_the_old_file_is_named_with_the_heal") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let app = scene.at("app.conf");
    let agent = Agent::start(&scene, &SCAN)?;
    // Open for writing when it is changed, so the agent waits with its verdict until it has been quiet for a second.
    let writer = User::new("exec 9>>\"$0\"; echo more >&9; echo ready; read x", &app)?;
    let healed = agent.event(0, "config.drift.healed", &app)?;
    let holder = &healed["holders"]["processes"][0];
    ensure!(
        holder["pid"] == writer.child.id() && holder["how"] == "writing",
        "{healed}"
    );
    ensure!(holder["exe"].is_string(), "{healed}");
    let message = healed["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains("still open for writing by sh"),
        "{message}"
    );
    drop(writer);
    let mark = agent.mark();
    fs::write(&app, "again\n")?;
    let healed = agent.event(mark, "config.drift.healed", &app)?;
    ensure!(healed["holders"].is_null(), "{healed}");

    // A container has the single file mounted, as with subPath: it keeps what it had.
    if !rustix::process::geteuid().is_root() {
        drift_tests::skip::skip(
            "who_still_has_the_old_file_is_named_with_the_heal",
            "mounting needs root",
        );
        return Ok(());
    }
    let mark = agent.mark();
    says(&scene, &["pause", "--reason", "until it is mounted"], 0)?;
    fs::write(&app, "drifted\n")?;
    let seen = scene.elsewhere().join("seen.conf");
    fs::write(&seen, "")?;
    let script = format!(
        "mount --bind \"$0\" {} && echo ready && read x",
        seen.display()
    );
    let container = Command::new("unshare")
        .args(["-m", "/bin/sh", "-c", &script])
        .arg(&app)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut container = User { child: container? };
    let mut ready = [0; 6];
    container
        .child
        .stdout
        .as_mut()
        .context("its output")?
        .read_exact(&mut ready)?;
    says(&scene, &["resume"], 0)?;
    let healed = agent.event(mark, "config.drift.healed", &app)?;
    let holder = &healed["holders"]["processes"][0];
    ensure!(
        holder["how"] == "mounted" && holder["at"] == seen.display().to_string(),
        "{healed}"
    );
    drop(container);
    agent.stop()?;
    Ok(())
}
