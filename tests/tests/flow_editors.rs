//! How editors and tools save: by names as much as by writes. Nothing is lost after the first time.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, tool},
    scene::{DEFAULT, HEAL_AT_ONCE, Scene, file},
};

const DECLARED: &str = "listen = 80\n";

/// Runs a tool `times` times; each time the file is seen to be what the tool made of it, by the kernel, and nobody else is named.
fn seen_each_time(
    agent: &Agent,
    path: &Path,
    times: usize,
    mut run: impl FnMut(usize) -> Result<u32>,
) -> Result<()> {
    for time in 0..times {
        let mark = agent.mark();
        let pid = run(time)?;
        let digest = format!("blake3:{}", blake3::hash(&fs::read(path)?).to_hex());
        let shown = path.display().to_string();
        let detected = agent.wait(mark, &format!("time {time}"), |records| {
            let it = records.iter().find(|record| {
                record["event"] == "config.drift.detected"
                    && record["path"] == shown
                    && record["observed"]["digest"] == digest
            });
            it.cloned()
        })?;
        // This process writes beside it, too: on a busy machine the one is looked at with the other, and then nobody is named.
        let is_right = detected["actor"]["pid"] == pid || detected["actor_unknown"].is_string();
        ensure!(
            detected["cause"] == "kernel" && is_right,
            "not by {pid}: {detected}"
        );
    }
    Ok(())
}

/// What vim does with `backupcopy=no`: the old file moves away, a new one is written, the old one goes. (And it tries whether the directory takes
/// files at all.)
const VIM: &str = "
import os, sys
path, text = sys.argv[1], sys.argv[2]
probe = os.path.join(os.path.dirname(path), '4913')
os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o100644)); os.unlink(probe)
os.rename(path, path + '~')
new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
os.write(new, text.encode()); os.fsync(new); os.close(new)
os.unlink(path + '~')
";

/// A nameless file, which gets its name when it is complete.
const NAMELESS: &str = "
import ctypes, os, sys
path, text = sys.argv[1], sys.argv[2]
new = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY, 0o644)
os.write(new, text.encode())
here = os.path.join(os.path.dirname(path), 'named')
libc = ctypes.CDLL(None, use_errno=True)
assert libc.linkat(-100, f'/proc/self/fd/{new}'.encode(), -100, here.encode(), 0x400) == 0, ctypes.get_errno()
os.rename(here, path)
";

#[test]
fn every_save_of_every_editor_is_seen_also_the_second_and_the_third() -> Result<()> {
    if !has_probes("every_save_of_every_editor_is_seen_also_the_second_and_the_third") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", DECLARED)];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &["--sensor", "tracepoint"])?;
    let app = scene.at("app.conf");
    let name = app.display().to_string();
    // B009, B010: the inode changes with each save.
    seen_each_time(&agent, &app, 3, |time| {
        tool("sed", &["-i", &format!("s/=.*/= {time}/"), &name])
    })?;
    // B010: through a link that stands elsewhere.
    let link = scene.elsewhere().join("link");
    std::os::unix::fs::symlink(&app, &link)?;
    let link = link.display().to_string();
    seen_each_time(&agent, &app, 2, |time| {
        let script = format!("s/=.*/= link {time}/");
        tool("sed", &["-i", "--follow-symlinks", &script, &link])
    })?;
    // B011.
    seen_each_time(&agent, &app, 3, |time| {
        tool("python3", &["-c", VIM, &name, &format!("vim {time}\n")])
    })?;
    // B017, B018: what is written has another name until it is complete, or none.
    seen_each_time(&agent, &app, 2, |time| {
        let new = scene.elsewhere().join("new");
        fs::write(&new, format!("moved {time}\n"))?;
        tool("mv", &[&new, &app])
    })?;
    seen_each_time(&agent, &app, 2, |time| {
        tool(
            "python3",
            &["-c", NAMELESS, &name, &format!("named {time}\n")],
        )
    })?;
    // B013: an ordinary write after all that, three times.
    seen_each_time(&agent, &app, 3, |time| {
        tool("sh", &["-c", &format!("echo {time} >> {name}")])
    })?;
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn a_file_that_goes_or_is_moved_over_comes_back_with_all_that_is_declared() -> Result<()> {
    if !has_probes("a_file_that_goes_or_is_moved_over_comes_back_with_all_that_is_declared") {
        return Ok(());
    }
    use std::os::unix::fs::MetadataExt;
    // B014.
    let scene = Scene::new()?;
    let mut declared = file("app.conf", DECLARED);
    declared.mode = Some("0640");
    declared.owner = Some("1");
    scene.declare("1.0.0", HEAL_AT_ONCE, &[declared])?;
    let agent = Agent::start(&scene, &["--sensor", "tracepoint"])?;
    let app = scene.at("app.conf");
    agent.event(0, "config.drift.healed", &app)?;
    let backup = scene.at("app.conf.bak");
    for (program, arguments, kind) in [
        ("mv", vec![app.clone(), backup.clone()], "missing"),
        ("rm", vec![app.clone()], "missing"),
        ("mv", vec![backup, app.clone()], "content"),
    ] {
        if kind == "content" {
            fs::write(&arguments[0], "other\n")?;
        }
        let mark = agent.mark();
        let pid = tool(program, &arguments)?;
        let detected = agent.event(mark, "config.drift.detected", &app)?;
        ensure!(detected["drift"][0] == kind, "{detected}");
        let is_right = detected["actor"]["pid"] == pid || detected["actor_unknown"].is_string();
        ensure!(is_right, "not by {pid}: {detected}");
        agent.event(mark, "config.drift.healed", &app)?;
        let meta = fs::metadata(&app)?;
        ensure!(fs::read_to_string(&app)? == DECLARED);
        ensure!((meta.mode() & 0o7777, meta.uid()) == (0o640, 1), "{meta:?}");
    }
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn what_is_in_a_directory_that_is_renamed_or_exchanged_is_looked_at_again() -> Result<()> {
    if !has_probes("what_is_in_a_directory_that_is_renamed_or_exchanged_is_looked_at_again") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [
        file("app/a.conf", DECLARED),
        file("app/deep/er/b.conf", DECLARED),
    ];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    // Another folder, in which one of the two is as declared.
    let new = scene.at("app.new");
    fs::create_dir_all(new.join("deep/er"))?;
    fs::write(new.join("a.conf"), "other\n")?;
    fs::write(new.join("deep/er/b.conf"), DECLARED)?;
    let agent = Agent::start(&scene, &["--sensor", "tracepoint"])?;
    let (a, b) = (scene.at("app/a.conf"), scene.at("app/deep/er/b.conf"));
    // B019: both names in one process, as a deployment does it.
    let script = "import os, sys; os.chdir(sys.argv[1]); os.rename('app', 'app.off'); os.rename('app.new', 'app')";
    let tree = scene.tree().display().to_string();
    let mark = agent.mark();
    tool("python3", &["-c", script, &tree])?;
    let content = |path: &Path| path.display().to_string();
    let (shown_a, shown_b) = (content(&a), content(&b));
    agent.wait(mark, "the other content", |records| {
        let it = records.iter().find(|record| {
            record["event"] == "config.drift.detected"
                && record["path"] == shown_a
                && record["drift"][0] == "content"
        });
        it.map(drop)
    })?;
    // B020: there and back by exchange.
    let exchange = "import ctypes, os, sys; os.chdir(sys.argv[1]); libc = ctypes.CDLL(None, use_errno=True); assert libc.renameat2(-100, b'app', -100, b'app.off', 2) == 0, ctypes.get_errno()";
    let mark = agent.mark();
    tool("python3", &["-c", exchange, &tree])?;
    agent.event(mark, "config.drift.resolved", &a)?;
    // The one that is equal in both is at rest as declared.
    agent.wait(0, "rest", |records| {
        let last = records.iter().rfind(|record| record["path"] == shown_b);
        let rests = last.is_none_or(|record| record["event"] != "config.drift.detected");
        rests.then_some(())
    })?;
    let mark = agent.mark();
    tool("python3", &["-c", exchange, &tree])?;
    agent.event(mark, "config.drift.detected", &a)?;
    // What is in the folder that came is watched, and what went away is not.
    let mark = agent.mark();
    fs::write(scene.at("app.off/deep/er/b.conf"), "nobody's\n")?;
    tool("sh", &["-c", &format!("echo more >> {shown_b}")])?;
    let detected = agent.event(mark, "config.drift.detected", &b)?;
    ensure!(detected["observed"]["size"] == 17, "{detected}");
    ensure!(agent.stop()?.success());
    Ok(())
}
