//! Paths that are declared to be reached through links: seen by each of their names, put back where they are, and never written elsewhere.

use std::{
    fs,
    io::Write,
    os::unix::fs::{OpenOptionsExt, symlink},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, has_probes, is_built, program, tool},
    scene::{HEAL_AT_ONCE, Scene},
    wait,
};
use serde_json::{Value, json};

/// `etc/app` is a link to `srv/app`, in which `current` is a link to a release.
const SPEC: &str = r"files:
    - path: TREE/etc/app/current/app.conf
      through:
        - {path: TREE/etc/app, target: ../srv/app}
        - {path: TREE/srv/app/current, target: releases/1}
      content: {inline: declared}
      mode: '0640'
    - path: TREE/etc/app/plain.conf
      through: [{path: TREE/etc/app, target: ../srv/app}]
      content: {inline: declared}
  absent:
    - path: TREE/etc/app/current/gone
      through:
        - {path: TREE/etc/app, target: ../srv/app}
        - {path: TREE/srv/app/current, target: releases/1}
";

const NAMES: [&str; 3] = [
    "etc/app/current/app.conf",
    "etc/app/plain.conf",
    "etc/app/current/gone",
];

fn lay_out(scene: &Scene) -> Result<()> {
    for name in ["etc", "srv/app/releases/1", "srv/other/releases/1"] {
        fs::create_dir_all(scene.at(name))?;
    }
    symlink("../srv/app", scene.at("etc/app"))?;
    symlink("releases/1", scene.at("srv/app/current"))?;
    symlink("releases/1", scene.at("srv/other/current"))?;
    Ok(())
}

/// What the record says, and who it names.
fn is_by(record: &Value, kind: &str, pid: u32) -> Result<()> {
    ensure!(record["drift"] == json!([kind]), "{record}");
    ensure!(record["cause"] == "kernel", "{record}");
    ensure!(record["actor"]["pid"] == pid, "not by {pid}: {record}");
    Ok(())
}

fn drifts<A: AsRef<std::ffi::OsStr>>(
    agent: &Agent,
    path: &Path,
    kind: &str,
    program: &str,
    arguments: &[A],
) -> Result<()> {
    let mark = agent.mark();
    let pid = tool(program, arguments)?;
    let detected = agent.event(mark, "config.drift.detected", path)?;
    is_by(&detected, kind, pid)?;
    agent.event(mark, "config.drift.healed", path)?;
    Ok(())
}

/// A tool makes a link another one: everything through it is `relocated`, told with the tool, and not healed; as long as it is, and when it is put back it is
/// looked at again.
fn relocates(
    agent: &Agent,
    paths: &[std::path::PathBuf],
    away: &[String],
    back: &[String],
) -> Result<()> {
    let mark = agent.mark();
    let pid = tool(&away[0], &away[1..])?;
    for path in paths {
        let detected = agent.event(mark, "config.drift.detected", path)?;
        is_by(&detected, "relocated", pid)?;
        let refused = agent.wait(mark, "that it is not healed", |records| {
            let path = path.display().to_string();
            let about = |record: &&Value| record["path"] == path && record["reason"] == "relocated";
            records.iter().find(about).cloned()
        })?;
        ensure!(refused["event"] != "config.drift.healed", "{refused}");
    }
    let mark = agent.mark();
    let pid = tool(&back[0], &back[1..])?;
    for path in paths {
        let resolved = agent.event(mark, "config.drift.resolved", path)?;
        ensure!(resolved["actor"]["pid"] == pid, "not by {pid}: {resolved}");
    }
    Ok(())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_path_through_links_is_watched_by_each_of_its_names_and_its_links_are_too() -> Result<()> {
    let test = "a_path_through_links_is_watched_by_each_of_its_names_and_its_links_are_too";
    if !has_probes(test) {
        return Ok(());
    }
    let scene = Scene::new()?;
    lay_out(&scene)?;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, SPEC)?;
    let agent = Agent::start(&scene, &["--sensor", "tracepoint"])?;
    let at = |name: &str| scene.at(name);
    let name = |name: &str| scene.at(name).display().to_string();
    let [conf, plain, gone] = NAMES.map(at);
    // They were missing, and are made where the links lead.
    for path in [&conf, &plain] {
        agent.event(0, "config.drift.healed", path)?;
    }
    ensure!(fs::read(at("srv/app/releases/1/app.conf"))? == b"declared");

    // By the declared path, by where it is, and by the way between.
    let names = [
        "etc/app/current/app.conf",
        "srv/app/releases/1/app.conf",
        "srv/app/current/app.conf",
    ];
    for path in names.map(name) {
        let script = |script: &str| words(&["-c", &script.replace("PATH", &path)]);
        drifts(&agent, &conf, "content", "sh", &script("echo other > PATH"))?;
        drifts(&agent, &conf, "mode", "chmod", &["600", &path])?;
        drifts(&agent, &conf, "missing", "rm", &[&path])?;
        let new = scene.elsewhere().join("new");
        // Made with its mode: a change of it by a name that is nobody's has all paths looked at, and who did that is somebody else.
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).mode(0o640).open(&new)?;
        file.write_all(b"other")?;
        drop(file);
        let new = new.display().to_string();
        drifts(&agent, &conf, "content", "mv", &[&new, &path])?;
    }
    for path in ["etc/app/current/gone", "srv/app/releases/1/gone"] {
        drifts(&agent, &gone, "unexpected", "touch", &[at(path)])?;
    }

    // The first link, replaced and removed.
    let through = [conf.clone(), plain.clone()];
    let link = |target: &str, path: &str| words(&["ln", "-sfnT", target, &name(path)]);
    let right = link("../srv/app", "etc/app");
    relocates(&agent, &through, &link("../srv/other", "etc/app"), &right)?;
    let remove = words(&["rm", &name("etc/app")]);
    relocates(&agent, &through, &remove, &right)?;
    // The second: what does not go through it is none the worse.
    let mark = agent.mark();
    let other = link("../other/releases/1", "srv/app/current");
    let right = link("releases/1", "srv/app/current");
    relocates(&agent, std::slice::from_ref(&conf), &other, &right)?;
    ensure!(
        agent
            .since(mark)
            .iter()
            .all(|record| record["path"] != name(NAMES[1])),
        "{}",
        agent.all()
    );
    // One that nobody declared, planted deeper; and back. One process, so that nobody heals between its calls.
    let python = |script: &str| {
        let script = script.replace("TREE", &scene.tree().display().to_string());
        words(&["python3", "-c", &script])
    };
    let away = python(
        "import os; os.rename('TREE/srv/app/releases', 'TREE/srv/kept'); os.symlink('../other/releases', 'TREE/srv/app/releases')",
    );
    let back = python(
        "import os; os.unlink('TREE/srv/app/releases'); os.rename('TREE/srv/kept', 'TREE/srv/app/releases')",
    );
    relocates(&agent, std::slice::from_ref(&conf), &away, &back)?;
    // What changes while the way is another one is found when it is right again.
    let mark = agent.mark();
    tool("ln", &link("../srv/other", "etc/app")[1..])?;
    agent.event(mark, "config.drift.detected", &conf)?;
    fs::write(at("srv/app/releases/1/app.conf"), "other")?;
    tool("ln", &link("../srv/app", "etc/app")[1..])?;
    agent.event(mark, "config.drift.healed", &conf)?;
    ensure!(fs::read(&conf)? == b"declared");

    // Nothing was ever written where they did not lead to.
    ensure!(fs::read_dir(at("srv/other/releases/1"))?.next().is_none());
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn links_that_are_declared_themselves_are_healed_and_what_is_through_them_after() -> Result<()> {
    let test = "links_that_are_declared_themselves_are_healed_and_what_is_through_them_after";
    if !is_built(test) {
        return Ok(());
    }
    let sensors = if has_probes(test) {
        &["scan", "tracepoint"][..]
    } else {
        &["scan"][..]
    };
    for sensor in sensors {
        let scene = Scene::new()?;
        lay_out(&scene)?;
        let links = "  symlinks: [{path: TREE/etc/app, target: ../srv/app}, {path: TREE/srv/app/current, target: releases/1}]\n";
        scene.declare_spec("1.0.0", HEAL_AT_ONCE, &(SPEC.to_owned() + links))?;
        fs::remove_file(scene.at("etc/app"))?;
        fs::remove_file(scene.at("srv/app/current"))?;
        let arguments = ["--sensor", sensor, "--scan-interval", "100ms"];
        let agent = Agent::start(&scene, &arguments)?;
        let conf = scene.at(NAMES[0]);
        agent.event(0, "config.drift.healed", &conf)?;
        for link in ["etc/app", "srv/app/current"] {
            let mark = agent.mark();
            fs::remove_file(scene.at(link))?;
            symlink("../srv/other", scene.at(link))?;
            agent.event(mark, "config.drift.healed", &scene.at(link))?;
            fs::write(scene.at("srv/app/releases/1/app.conf"), "other")?;
            agent.event(mark, "config.drift.healed", &conf)?;
        }
        ensure!(fs::read(scene.at("srv/app/releases/1/app.conf"))? == b"declared");
        ensure!(
            fs::read_dir(scene.at("srv/other/releases/1"))?
                .next()
                .is_none()
        );
        ensure!(agent.stop()?.success());
    }
    Ok(())
}

#[test]
fn a_link_that_is_not_declared_is_in_the_way_at_start_and_for_check() -> Result<()> {
    if !is_built("a_link_that_is_not_declared_is_in_the_way_at_start_and_for_check") {
        return Ok(());
    }
    let scene = Scene::new()?;
    lay_out(&scene)?;
    fs::remove_file(scene.at("etc/app"))?;
    symlink("../srv/other", scene.at("etc/app"))?;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, SPEC)?;
    let scan = ["--sensor", "scan", "--scan-interval", "100ms"];
    let agent = Agent::start(&scene, &scan)?;
    for path in NAMES {
        let detected = agent.event(0, "config.drift.detected", &scene.at(path))?;
        ensure!(detected["drift"] == json!(["relocated"]), "{detected}");
    }
    fs::remove_file(scene.at("etc/app"))?;
    symlink("../srv/app", scene.at("etc/app"))?;
    for path in &NAMES[..2] {
        agent.event(0, "config.drift.healed", &scene.at(path))?;
    }
    agent.event(0, "config.drift.resolved", &scene.at(NAMES[2]))?;
    // A scan sees that a link is another one, though the file is as it was, and that where nothing may be the way leads elsewhere.
    let mark = agent.mark();
    fs::remove_file(scene.at("etc/app"))?;
    symlink("../srv/other", scene.at("etc/app"))?;
    for path in NAMES {
        agent.event(mark, "config.drift.detected", &scene.at(path))?;
    }
    ensure!(agent.stop()?.success());
    ensure!(
        fs::read_dir(scene.at("srv/other/releases/1"))?
            .next()
            .is_none()
    );
    Ok(())
}

/// Case: an attacker who owns a directory on the way retargets a link while the agent heals.
#[test]
fn a_link_that_is_swapped_while_it_heals_has_nothing_written_elsewhere() -> Result<()> {
    if !has_probes("a_link_that_is_swapped_while_it_heals_has_nothing_written_elsewhere") {
        return Ok(());
    }
    const ROUNDS: usize = 3000;
    let scene = Scene::new()?;
    lay_out(&scene)?;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, SPEC)?;
    let agent = Agent::start(&scene, &["--sensor", "tracepoint"])?;
    agent.event(0, "config.drift.healed", &scene.at(NAMES[0]))?;
    let trap = scene.at("srv/other/releases/1");
    fs::write(trap.join("app.conf"), "precious")?;
    fs::write(trap.join("gone"), "precious")?;
    let end = AtomicBool::new(false);
    let swapped = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| -> Result<()> {
            let new = scene.at("etc/new");
            for round in 0..ROUNDS {
                let target = ["../srv/other", "../srv/app"][round % 2];
                symlink(target, &new)?;
                fs::rename(&new, scene.at("etc/app"))?;
            }
            end.store(true, Ordering::Relaxed);
            Ok(())
        });
        while !end.load(Ordering::Relaxed) && !swapper.is_finished() {
            let real = scene.at("srv/app/releases/1");
            // A directory that is gone for a moment is no error here.
            let _seen = fs::write(real.join("app.conf"), "other");
            let _seen = fs::write(real.join("gone"), "other");
        }
        swapper.join()
    });
    match swapped {
        Ok(swapped) => swapped?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    // What was put back twice and stood there again at once is left alone until it is changed to something else: so it is, once the race is over.
    for name in ["app.conf", "gone"] {
        fs::write(scene.at("srv/app/releases/1").join(name), "the last")?;
    }
    // In the end the way is right, and so is the file.
    agent.wait(0, "the declared content", |_| {
        let declared = fs::read(scene.at(NAMES[0])).is_ok_and(|text| text == b"declared");
        (declared && !scene.at(NAMES[2]).exists()).then_some(())
    })?;
    // Nobody has written to this one: it was out of reach as often as the link was wrong, and what was said of it last is what is there.
    let plain = scene.at("etc/app/plain.conf").display().to_string();
    agent.wait(0, "plain.conf in reach again", |records| {
        let mut of_it = records.iter().filter(|record| record["path"] == plain);
        let last = of_it.next_back()?;
        (last["event"] == "config.drift.resolved" || last["event"] == "config.drift.healed")
            .then_some(())
    })?;
    let mut names: Vec<_> = fs::read_dir(&trap)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<std::io::Result<_>>()?;
    names.sort();
    ensure!(names == ["app.conf", "gone"], "{names:?}");
    for name in names {
        ensure!(fs::read(trap.join(name))? == b"precious");
    }
    ensure!(agent.stop()?.success());
    Ok(())
}

fn status(scene: &Scene) -> Result<Value> {
    let output = std::process::Command::new(program())
        .args(["status", "-o", "json", "--state"])
        .arg(scene.root().join("state"))
        .output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// B001, B003, B004: as the kubelet updates a ConfigMap or a Secret, `..data` is another link, and nothing else tells of it: not the files, which are links
/// through it and never touched, and not their times. The old target is removed then.
#[test]
fn each_swap_of_a_volume_is_told_once_for_each_file_also_after_the_old_target_is_gone() -> Result<()>
{
    let test = "each_swap_of_a_volume_is_told_once_for_each_file_also_after_the_old_target_is_gone";
    if !is_built(test) {
        return Ok(());
    }
    const KEYS: [&str; 3] = ["app.yaml", "more.yaml", "last.yaml"];
    let sensors = if has_probes(test) {
        &["scan", "tracepoint"][..]
    } else {
        &["scan"][..]
    };
    for sensor in sensors {
        let scene = Scene::new()?;
        let volume = scene.at("volume");
        fs::create_dir(&volume)?;
        let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let times = fs::FileTimes::new().set_modified(at).set_accessed(at);
        let fill = |version: u32| -> Result<()> {
            let folder = volume.join(format!("..{version}"));
            fs::create_dir(&folder)?;
            for key in KEYS {
                let mut file = fs::File::create(folder.join(key))?;
                writeln!(file, "version {version}")?;
                file.set_times(times)?;
            }
            Ok(fs::File::open(&folder)?.set_times(times)?)
        };
        let swap = |version: u32| -> Result<()> {
            fill(version)?;
            let new = volume.join("..data_tmp");
            symlink(format!("..{version}"), &new)?;
            Ok(fs::rename(new, volume.join("..data"))?)
        };
        let declare = |version: u32| {
            let files: String = KEYS
                .iter()
                .map(|key| {
                    format!(
                        "    - path: TREE/volume/..data/{key}\n      through: [{{path: TREE/volume/..data, target: ..{version}}}]\n      content: {{inline: \"version {version}\\n\"}}\n"
                    )
                })
                .collect();
            let links: String = KEYS
                .iter()
                .map(|key| format!("    - {{path: TREE/volume/{key}, target: ..data/{key}}}\n"))
                .collect();
            let spec = format!("files:\n{files}  symlinks:\n{links}");
            scene.declare_spec(&format!("{version}.0.0"), "", &spec)
        };
        swap(1)?;
        for key in KEYS {
            symlink(format!("..data/{key}"), volume.join(key))?;
        }
        declare(1)?;
        let arguments = ["--sensor", sensor, "--scan-interval", "100ms"];
        let agent = Agent::start(&scene, &arguments)?;
        for version in 2..=4 {
            let mark = agent.mark();
            swap(version)?;
            for key in KEYS {
                let path = volume.join("..data").join(key);
                let detected = agent.event(mark, "config.drift.detected", &path)?;
                ensure!(detected["drift"] == json!(["relocated"]), "{detected}");
                if *sensor == "tracepoint" {
                    is_by(&detected, "relocated", std::process::id())?;
                }
            }
            fs::remove_dir_all(volume.join(format!("..{}", version - 1)))?;
            // What is there is what is declared now.
            declare(version)?;
            agent.activated(mark, &format!("{version}.0.0"))?;
            wait::until(SOON, || {
                let said = status(&scene).map_err(|error| format!("{error:#}"))?;
                let policy = &said["policies"][0];
                match (&policy["as_declared"], &policy["drifting"]) {
                    (as_declared, drifting) if *as_declared == 6 && *drifting == 0 => Ok(()),
                    _ => Err(said.to_string()),
                }
            })
            .map_err(anyhow::Error::msg)?;
            // One for each file, and none for the links, which nobody has touched.
            let told = agent.since(mark);
            let detected = told
                .iter()
                .filter(|record| record["event"] == "config.drift.detected");
            ensure!(detected.count() == KEYS.len(), "{}", agent.all());
        }
        ensure!(agent.stop()?.success());
    }
    Ok(())
}
