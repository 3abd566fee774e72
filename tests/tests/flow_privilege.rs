//! The processes of the agent: what each of them may do, and that one follows another.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    process::Command,
    thread,
};

use anyhow::{Context, Result, ensure};
use drift_agent::confine::{self, Part};
use drift_tests::{
    agent::{Agent, SOON, has_probes, is_built},
    privilege::{SCAN, SOMEBODY, is_gone, is_root, line, privilege, restorer},
    scene::{HEAL_AT_ONCE, Scene, file},
    wait::until,
};
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
    thread::{CapabilitySet, capabilities, set_capabilities},
};
use serde_json::Value;

fn set(pid: i32, name: &str) -> Result<CapabilitySet> {
    Ok(CapabilitySet::from_bits_retain(u64::from_str_radix(
        &line(pid, name)?,
        16,
    )?))
}

#[test]
fn each_process_has_what_the_table_says_and_nothing_else() -> Result<()> {
    let test = "each_process_has_what_the_table_says_and_nothing_else";
    if !has_probes(test) || !is_root(test) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let detector = i32::try_from(agent.pid())?;
    let restorer = restorer(&scene)?;
    let keeper: i32 = line(restorer, "PPid")?.parse()?;
    ensure!(line(keeper, "PPid")?.parse() == Ok(detector));
    let has = capabilities(None)?.permitted;
    for (pid, part, user, inherited) in [
        (detector, Part::Detector, confine::DETECTOR, false),
        (keeper, Part::Restorer, 0, true),
        (restorer, Part::Restorer, 0, false),
    ] {
        let expected = confine::of(part) & has;
        let none = CapabilitySet::empty();
        let all = |pid: i32| -> Result<BTreeMap<&str, CapabilitySet>> {
            ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
                .into_iter()
                .map(|name| Ok((name, set(pid, name)?)))
                .collect()
        };
        let inherits = if inherited { expected } else { none };
        ensure!(
            all(pid)?
                == BTreeMap::from([
                    ("CapInh", inherits),
                    ("CapPrm", expected),
                    ("CapEff", expected),
                    ("CapBnd", expected),
                    ("CapAmb", inherits),
                ]),
            "{part:?}: {:?}",
            all(pid)?
        );
        ensure!(line(pid, "NoNewPrivs")? == "1" && line(pid, "Seccomp")? == "2");
        let users = format!("{user}\t{user}\t{user}\t{user}");
        ensure!(line(pid, "Uid")? == users, "{}", line(pid, "Uid")?);
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let status = fs::read_to_string(thread?.path().join("status"))?;
            ensure!(status.contains(&format!("CapEff:\t{:016x}", expected.bits())));
            ensure!(status.contains("Seccomp:\t2") && status.contains(&users));
        }
    }
    // What cannot be dumped belongs to root in /proc, whoever it is.
    use std::os::unix::fs::MetadataExt;
    ensure!(fs::metadata(format!("/proc/{detector}/environ"))?.uid() == 0);
    let said = privilege(&scene)?;
    ensure!(
        said["user"] == confine::DETECTOR
            && said["restorer"] == "at-work"
            && said["syscall_filter"] == "in force"
            && said["lacks"] == Value::Array(Vec::new()),
        "{said}"
    );
    ensure!(agent.stop()?.success());
    until(SOON, || {
        if is_gone(keeper) && is_gone(restorer) {
            Ok(())
        } else {
            Err("still there")
        }
    })
    .map_err(anyhow::Error::msg)
}

#[test]
fn who_only_watches_has_no_restorer_until_something_is_to_be_put_back() -> Result<()> {
    let test = "who_only_watches_has_no_restorer_until_something_is_to_be_put_back";
    if !is_built(test) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "declared\n")];
    scene.declare("1.0.0", "  mode: observe\n", &files)?;
    let agent = Agent::start(&scene, &SCAN)?;
    agent.event(0, "config.drift.detected", &scene.at("a.conf"))?;
    let said = privilege(&scene)?;
    ensure!(said["restorer"] == "not-needed", "{said}");
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    agent.event(0, "config.drift.healed", &scene.at("a.conf"))?;
    restorer(&scene)?;
    Ok(())
}

/// What a process in the detector's place could try, and how the kernel answers.
fn attempts(scene: &Scene) -> Vec<(&'static str, std::io::Result<()>)> {
    let declared = scene.at("a.conf");
    let tree = scene.tree();
    vec![
        (
            "open for writing",
            fs::OpenOptions::new().write(true).open(&declared).map(drop),
        ),
        ("truncate", fs::File::create(&declared).map(drop)),
        ("remove", fs::remove_file(&declared)),
        ("rename", fs::rename(&declared, tree.join("b.conf"))),
        ("make beside", fs::write(tree.join("new.conf"), "x")),
        ("make a directory", fs::create_dir(tree.join("new.d"))),
        (
            "chmod",
            fs::set_permissions(&declared, fs::Permissions::from_mode(0o777)),
        ),
        ("chown", chown(&declared, Some(SOMEBODY), None)),
        ("link", fs::hard_link(&declared, tree.join("link"))),
        (
            "symlink",
            std::os::unix::fs::symlink("x", tree.join("link")),
        ),
        (
            "setxattr",
            rustix::fs::setxattr(&declared, "user.x", b"x", rustix::fs::XattrFlags::empty())
                .map_err(Into::into),
        ),
        (
            "utimes",
            fs::File::open(&declared).and_then(|file| file.set_modified(std::time::UNIX_EPOCH)),
        ),
        (
            "mount",
            rustix::mount::mount_bind(scene.elsewhere(), &tree).map_err(Into::into),
        ),
        ("run a program", Command::new("true").status().map(drop)),
        (
            "become root",
            rustix::thread::set_thread_uid(rustix::process::Uid::ROOT).map_err(Into::into),
        ),
        (
            "write to the memory of its parent",
            fs::OpenOptions::new()
                .write(true)
                .open(format!("/proc/{}/mem", std::os::unix::process::parent_id()))
                .map(drop),
        ),
    ]
}

/// For this thread.
fn give_up(one: CapabilitySet) -> Result<()> {
    let mut sets = capabilities(None)?;
    sets.effective -= one;
    sets.permitted -= one;
    Ok(set_capabilities(None, sets)?)
}

/// In a thread of its own: what is given up is the thread's alone.
#[test]
fn the_process_that_looks_cannot_write_what_is_declared() -> Result<()> {
    if !is_root("the_process_that_looks_cannot_write_what_is_declared") {
        return Ok(());
    }
    for changes_user in [true, false] {
        let scene = Scene::new()?;
        scene.lay_out(&[file("a.conf", "declared\n"), file("secret", "declared\n")])?;
        fs::set_permissions(scene.at("secret"), fs::Permissions::from_mode(0o600))?;
        let state = scene.root().join("state");
        fs::create_dir(&state)?;
        if changes_user {
            confine::give(&state, confine::DETECTOR)?;
        }
        let inside = || -> Result<()> {
            if !changes_user {
                give_up(CapabilitySet::SETUID)?;
            }
            let confined = confine::detector(&state, false, true);
            ensure!(
                changes_user == confined.lacks.is_empty(),
                "{:?}",
                confined.lacks
            );
            ensure!(changes_user == confined.landlock.is_err(), "{confined:?}");
            // Of its own files root may change modes and times, whatever Landlock says.
            let not_by_landlock = ["chmod", "utimes"];
            let tried = attempts(&scene).into_iter();
            for (what, result) in
                tried.filter(|(what, _)| changes_user || !not_by_landlock.contains(what))
            {
                let error = result.err().with_context(|| format!("it can {what}"))?;
                let refused = [Errno::PERM, Errno::ACCESS, Errno::XDEV].map(Errno::raw_os_error);
                ensure!(
                    error.raw_os_error().is_some_and(|it| refused.contains(&it)),
                    "{what}: {error}"
                );
            }
            // It still does what it is there for.
            ensure!(fs::read(scene.at("secret"))? == b"declared\n");
            fs::write(state.join("own"), "x")?;
            fs::rename(state.join("own"), state.join("owned"))?;
            Ok(())
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .map_err(|_| anyhow::Error::msg("panicked"))??;
        ensure!(fs::read(scene.at("a.conf"))? == b"declared\n");
        ensure!(fs::read_dir(scene.tree())?.count() == 2);
    }
    Ok(())
}

#[test]
fn a_restorer_that_is_killed_is_followed_by_another() -> Result<()> {
    if !is_built("a_restorer_that_is_killed_is_followed_by_another") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"]
        .into_iter()
        .map(|name| file(name, &format!("{name} declared\n").repeat(20_000)))
        .collect();
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &SCAN)?;
    let mut before = restorer(&scene)?;
    for round in 0..3u32 {
        for file in &files {
            fs::write(scene.at(file.path), format!("evil {round}\n"))?;
        }
        // In the midst of it, or before or after: what comes of it is the same.
        let first = scene.at("a");
        let declared = files[0].content.as_bytes();
        until(SOON, || match fs::read(&first) {
            Ok(now) if now == declared => Ok(()),
            other => Err(format!("{:?}", other.map(|bytes| bytes.len()))),
        })
        .map_err(anyhow::Error::msg)?;
        let pid = Pid::from_raw(before).context("no number")?;
        kill_process(pid, Signal::KILL)?;
        until(SOON, || {
            let all = files.iter().all(|file| {
                fs::read(scene.at(file.path)).is_ok_and(|now| now == file.content.as_bytes())
            });
            if all { Ok(()) } else { Err("not all healed") }
        })
        .map_err(|why| anyhow::Error::msg(format!("{why}\n{}", agent.all())))?;
        fs::write(scene.at("b"), "evil again\n")?;
        until(SOON, || match fs::read(scene.at("b")) {
            Ok(now) if now == files[1].content.as_bytes() => Ok(()),
            _ => Err("not healed by the next"),
        })
        .map_err(|why| anyhow::Error::msg(format!("{why}\n{}", agent.all())))?;
        let after = restorer(&scene)?;
        ensure!(after != before);
        before = after;
    }
    ensure!(
        agent.errors().contains("has ended (signal: 9 (SIGKILL)): another one is started when something is to be put back"),
        "{}",
        agent.errors()
    );
    let left = fs::read_dir(scene.tree())?.count();
    ensure!(left == files.len(), "{left} names: something is left over");
    Ok(())
}

#[test]
fn an_agent_that_is_killed_takes_its_restorer_along() -> Result<()> {
    if !is_built("an_agent_that_is_killed_takes_its_restorer_along") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "declared\n")];
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &SCAN)?;
    let restorer = restorer(&scene)?;
    let keeper: i32 = line(restorer, "PPid")?.parse()?;
    agent.kill()?;
    until(SOON, || {
        if is_gone(restorer) && is_gone(keeper) {
            Ok(())
        } else {
            Err("still there")
        }
    })
    .map_err(anyhow::Error::msg)?;
    // And the next one begins as if nothing had been.
    let agent = Agent::start(&scene, &SCAN)?;
    fs::write(scene.at("a.conf"), "evil\n")?;
    agent.event(0, "config.drift.healed", &scene.at("a.conf"))?;
    Ok(())
}
