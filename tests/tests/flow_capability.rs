//! Capabilities: what each is there for, by what fails without it.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use drift_agent::confine::{CAPABILITIES, Part};
use drift_tests::{
    agent::{Agent, SOON, has_probes, is_built, program},
    privilege::{SCAN, SOMEBODY, is_root},
    scene::{HEAL_AT_ONCE, Scene, file},
    skip::skip,
    wait::until,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The agent as it runs where a capability may not be had.
fn without(scene: &Scene, names: &[&str], arguments: &[&str]) -> Result<Agent> {
    let minus: Vec<String> = names
        .iter()
        .map(|name| format!("-{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let minus = minus.join(",");
    let ready = scene.root().join("ready");
    let mut command = Command::new("setpriv");
    if !names.is_empty() {
        command.args(["--bounding-set", &minus, "--inh-caps", &minus]);
    }
    command
        .arg("--")
        .arg(program())
        .args(["run", "-o", "jsonl", "--policies"])
        .arg(scene.policies())
        .arg("--state")
        .arg(scene.root().join("state"))
        .arg("--ready-file")
        .arg(&ready)
        .args(arguments);
    let agent = Agent::spawn(command)?;
    until(SOON, || {
        if ready.exists() {
            Ok(())
        } else {
            Err("not ready")
        }
    })
    .map_err(|why| anyhow::Error::msg(format!("{why}\n{}", agent.all())))?;
    Ok(agent)
}

/// What fails without a capability: a drift that stays, made by `spoil`, of what is declared with `spec`.
struct Loss {
    name: &'static str,
    spec: &'static str,
    spoil: fn(&Scene) -> Result<()>,
    path: &'static str,
}

const LOSSES: [Loss; 9] = [
    Loss {
        name: "CAP_CHOWN",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, owner: 12345}\n",
        spoil: |scene| Ok(fs::write(scene.at("f"), "x")?),
        path: "f",
    },
    Loss {
        name: "CAP_DAC_OVERRIDE",
        spec: "files:\n    - {path: TREE/theirs/f, content: {inline: x}}\n",
        spoil: |scene| {
            fs::create_dir(scene.at("theirs"))?;
            Ok(chown(scene.at("theirs"), Some(SOMEBODY), None)?)
        },
        path: "theirs/f",
    },
    Loss {
        name: "CAP_FOWNER",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, mode: \"0640\"}\n",
        spoil: |scene| {
            fs::write(scene.at("f"), "x")?;
            Ok(chown(scene.at("f"), Some(SOMEBODY), None)?)
        },
        path: "f",
    },
    Loss {
        name: "CAP_FSETID",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, mode: \"2755\", group: 12345}\n",
        spoil: |scene| {
            fs::write(scene.at("f"), "x")?;
            Ok(chown(scene.at("f"), None, Some(SOMEBODY))?)
        },
        path: "f",
    },
    Loss {
        name: "CAP_SETFCAP",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, capabilities: cap_net_raw=ep}\n",
        spoil: |scene| Ok(fs::write(scene.at("f"), "x")?),
        path: "f",
    },
    Loss {
        name: "CAP_LINUX_IMMUTABLE",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, flags: [append]}\n",
        spoil: |scene| Ok(fs::write(scene.at("f"), "x")?),
        path: "f",
    },
    Loss {
        name: "CAP_SYS_ADMIN",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, xattrs: {security.drift: v}}\n",
        spoil: |scene| Ok(fs::write(scene.at("f"), "x")?),
        path: "f",
    },
    Loss {
        name: "CAP_KILL",
        spec: SIGNAL,
        spoil: daemon,
        path: "f",
    },
    Loss {
        name: "CAP_SYS_PTRACE",
        spec: SIGNAL,
        spoil: daemon,
        path: "f",
    },
];

const SIGNAL: &str = "files:\n    - {path: TREE/f, content: {inline: x}, afterHeal: [{signal: HUP, process: TREE/daemon}]}\n";

/// A program of somebody else, that gets a signal; its number is kept.
fn daemon(scene: &Scene) -> Result<()> {
    use std::os::unix::process::CommandExt;
    fs::set_permissions(scene.root(), fs::Permissions::from_mode(0o755))?;
    fs::copy("/bin/sleep", scene.at("daemon"))?;
    let child = Command::new(scene.at("daemon"))
        .arg("60")
        .uid(SOMEBODY)
        .gid(SOMEBODY)
        .spawn()?;
    Ok(fs::write(
        scene.root().join("daemon.pid"),
        child.id().to_string(),
    )?)
}

/// It goes.
fn end_daemon(scene: &Scene) -> Result<()> {
    let Ok(pid) = fs::read_to_string(scene.root().join("daemon.pid")) else {
        return Ok(());
    };
    let pid = Pid::from_raw(pid.parse()?).context("no number")?;
    // It may have ended by the signal.
    if kill_process(pid, Signal::KILL).is_ok() {
        waitpid(Some(pid), WaitOptions::empty())?;
    }
    Ok(())
}

/// Each line of the table of docs/security.md.
#[test]
fn without_a_capability_what_it_is_for_fails_and_says_so() -> Result<()> {
    let test = "without_a_capability_what_it_is_for_fails_and_says_so";
    if !is_built(test) || !is_root(test) {
        return Ok(());
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        skip(test, "setpriv (util-linux) is not there");
        return Ok(());
    }
    let restorers = CAPABILITIES
        .iter()
        .filter(|each| each.part == Part::Restorer);
    let names: Vec<&str> = restorers.map(|each| each.name).collect();
    let mut shown: Vec<&str> = LOSSES.iter().map(|loss| loss.name).collect();
    ensure!(names.len() == shown.len() && names.iter().all(|name| shown.contains(name)));
    shown.sort_unstable();
    for loss in LOSSES {
        let declared = || -> Result<Scene> {
            let scene = Scene::new()?;
            scene.declare_spec("1.0.0", HEAL_AT_ONCE, loss.spec)?;
            (loss.spoil)(&scene)?;
            Ok(scene)
        };
        let what = |agent: &Agent| format!("{}\n{}", loss.name, agent.all());
        let scene = declared()?;
        let path = scene.at(loss.path);
        let agent = without(&scene, &[loss.name], &SCAN)?;
        let failed = agent.event(0, "config.drift.heal_failed", &path);
        let failed = failed.with_context(|| what(&agent))?;
        let row = CAPABILITIES.iter().find(|each| each.name == loss.name);
        let sentence = format!(
            "degraded: without {} {}.",
            loss.name,
            row.context("no row")?.without
        );
        ensure!(agent.errors().contains(&sentence), "{}", what(&agent));
        eprintln!(
            "without {}: {} ({})",
            loss.name, failed["message"], failed["reason"]
        );
        ensure!(agent.stop()?.success());
        end_daemon(&scene)?;
        // With it, the same is put back.
        let scene = declared()?;
        let path = scene.at(loss.path);
        let agent = Agent::start(&scene, &SCAN)?;
        agent
            .event(0, "config.drift.healed", &path)
            .with_context(|| what(&agent))?;
        ensure!(agent.stop()?.success());
        unflag(&path)?;
        end_daemon(&scene)?;
    }
    Ok(())
}

fn unflag(path: &Path) -> Result<()> {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let file = fs::File::open(path)?;
    let flags = ioctl_getflags(&file)?;
    if flags.intersects(IFlags::APPEND) {
        ioctl_setflags(&file, flags - IFlags::APPEND)?;
    }
    Ok(())
}

/// The detector's lines of the table.
#[test]
fn without_what_the_detector_holds_it_sees_less_and_says_so() -> Result<()> {
    let test = "without_what_the_detector_holds_it_sees_less_and_says_so";
    if !has_probes(test) || !is_root(test) {
        return Ok(());
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        skip(test, "setpriv (util-linux) is not there");
        return Ok(());
    }
    let scene = |mode| -> Result<Scene> {
        let scene = Scene::new()?;
        let files = [file("f", "declared\n")];
        scene.lay_out(&files)?;
        scene.declare("1.0.0", "  mode: observe\n", &files)?;
        chown(scene.at("f"), Some(SOMEBODY), None)?;
        fs::set_permissions(scene.at("f"), fs::Permissions::from_mode(mode))?;
        Ok(scene)
    };
    for name in ["CAP_BPF", "CAP_PERFMON"] {
        let scene = scene(0o644)?;
        // CAP_SYS_ADMIN would do at the start, and is gone when they are needed again.
        let agent = without(&scene, &[name, "CAP_SYS_ADMIN"], &[])?;
        let errors = agent.errors();
        ensure!(errors.contains("degraded: no probes"), "{name}: {errors}");
        ensure!(
            errors.contains(&format!("degraded: without {name} no probes")),
            "{errors}"
        );
        ensure!(agent.stop()?.success());
    }
    let open = scene(0o600)?;
    let agent = without(&open, &["CAP_DAC_READ_SEARCH", "CAP_DAC_OVERRIDE"], &SCAN)?;
    let seen = agent.event(0, "config.drift.detected", &open.at("f"))?;
    ensure!(seen["drift"] == serde_json::json!(["unreadable"]), "{seen}");
    ensure!(
        agent
            .errors()
            .contains("degraded: without CAP_DAC_READ_SEARCH"),
        "{}",
        agent.errors()
    );
    ensure!(agent.stop()?.success());

    for (names, expected) in [(&["CAP_SYS_PTRACE"][..], false), (&[], true)] {
        let scene = scene(0o644)?;
        let agent = without(&scene, names, &[])?;
        let mark = agent.mark();
        fs::write(scene.at("f"), "evil\n")?;
        let seen = agent.event(mark, "config.drift.detected", &scene.at("f"))?;
        ensure!(seen["actor"]["pid"] == std::process::id(), "{seen}");
        ensure!(
            seen["actor"]["exe"].is_string() == expected,
            "{names:?}: {seen}"
        );
        ensure!(agent.stop()?.success());
    }
    Ok(())
}

/// The last of the detector's lines.
#[test]
fn without_the_right_to_see_what_others_map_nobody_is_named_for_it() -> Result<()> {
    let test = "without_the_right_to_see_what_others_map_nobody_is_named_for_it";
    if !is_built(test) || !is_root(test) {
        return Ok(());
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        skip(test, "setpriv (util-linux) is not there");
        return Ok(());
    }
    for (names, expected) in [(&["CAP_CHECKPOINT_RESTORE"][..], false), (&[], true)] {
        let scene = Scene::new()?;
        let files = [file("f", "declared\n")];
        scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
        let path = scene.at("f");
        // A program that runs has its file mapped, and not open.
        fs::copy("/bin/sleep", &path)?;
        let mut running = Command::new(&path).arg("60").spawn()?;
        let ended = (|| -> Result<()> {
            let agent = without(&scene, names, &SCAN)?;
            let healed = agent.event(0, "config.drift.healed", &path)?;
            let holder = &healed["holders"]["processes"][0];
            let is_named = holder["pid"] == running.id() && holder["how"] == "mapped";
            ensure!(is_named == expected, "{names:?}: {healed}");
            let said = agent.errors().contains(
                "degraded: without CAP_CHECKPOINT_RESTORE records of heals do not name who still has the old file mapped.",
            );
            ensure!(said != expected, "{}", agent.errors());
            ensure!(agent.stop()?.success());
            Ok(())
        })();
        running.kill()?;
        running.wait()?;
        ended?;
    }
    Ok(())
}
