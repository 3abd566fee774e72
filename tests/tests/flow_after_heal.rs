//! Actions after heals and changes of versions, on the built agent and with real programs.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, is_built},
    command::says,
    scene::{HEAL_AT_ONCE, Scene},
    wait,
};

const SCAN: [&str; 4] = ["--sensor", "scan", "--scan-interval", "100ms"];

/// Two files of a policy with the same actions.
fn declare(scene: &Scene, version: &str, content: &str, actions: &str) -> Result<()> {
    scene.declare_spec(version, HEAL_AT_ONCE, &spec(content, actions))
}

fn spec(content: &str, actions: &str) -> String {
    let file = |name: &str| {
        format!(
            "    - {{path: TREE/{name}, content: {{inline: \"{content}\"}}, afterHeal: [{actions}]}}\n"
        )
    };
    format!("files:\n{}{}", file("a.conf"), file("b.conf"))
}

/// Counts how often it is asked, and answers with this status.
fn listen(status: &'static str) -> Result<(String, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/reload", listener.local_addr()?);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut buffer = [0; 1024];
            if stream.read(&mut buffer).is_ok_and(|length| length > 0) {
                count.fetch_add(1, Ordering::SeqCst);
                // Whoever asked may have gone.
                let _gone = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            }
        }
    });
    Ok((url, asked))
}

/// A program of the scene that others may not write.
fn program(scene: &Scene, name: &str, script: &str) -> Result<PathBuf> {
    let path = scene.root().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Files that are healed together are one reason to act: each action happens once, after all of them, and its end is told with each heal.
#[test]
fn what_is_healed_together_is_followed_by_each_action_once() -> Result<()> {
    if !is_built("what_is_healed_together_is_followed_by_each_action_once") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let (url, asked) = listen("204 No Content")?;
    let log = scene.root().join("log");
    let tree = scene.tree();
    let command = program(
        &scene,
        "reload",
        &format!(
            "cat {0}/a.conf {0}/b.conf >> {1}; echo \"$1\" >> {1}; echo password=hunter2hunter2",
            tree.display(),
            log.display()
        ),
    )?;
    let actions = format!(
        "{{command: [{}, done]}}, {{http: \"{url}\", status: 204}}",
        command.display()
    );
    declare(&scene, "1.0.0", "declared\\n", &actions)?;
    for name in ["a.conf", "b.conf"] {
        fs::write(scene.at(name), "declared\n")?;
    }
    let allow = command.display().to_string();
    let agent = Agent::start(&scene, &[&SCAN[..], &["--allow-command", &allow]].concat())?;
    // Changed where nobody heals yet, so that both are healed together.
    says(&scene, &["pause", "--reason", "x"], 0)?;
    let mark = agent.mark();
    for name in ["a.conf", "b.conf"] {
        fs::write(scene.at(name), "evil\n")?;
        agent.event(mark, "config.drift.detected", &scene.at(name))?;
    }
    says(&scene, &["resume"], 0)?;
    let mut records = Vec::new();
    for name in ["a.conf", "b.conf"] {
        records.push(agent.event(mark, "config.drift.healed", &scene.at(name))?);
    }
    for record in &records {
        let done = record["after_heal"].as_array().context("actions")?;
        ensure!(
            done.len() == 2 && done.iter().all(|done| done["outcome"] == "done"),
            "{record}"
        );
        ensure!(
            done[0]["output"].is_string() && !record.to_string().contains("hunter2"),
            "{record}"
        );
    }
    ensure!(
        fs::read_to_string(&log)? == "declared\ndeclared\ndone\n",
        "{:?}",
        fs::read_to_string(&log)
    );
    ensure!(asked.load(Ordering::SeqCst) == 1);
    let id = records[0]["id"].as_str().context("an id")?;
    let shown = says(&scene, &["history", "--show", id], 0)?;
    ensure!(
        shown.contains("Printed by command") && !shown.contains("hunter2"),
        "{shown}"
    );
    agent.stop()?;
    Ok(())
}

/// A command that hangs is killed, what fails is told once with its reason, and healing goes on meanwhile.
#[test]
fn an_action_that_fails_is_told_once_and_holds_nothing_up() -> Result<()> {
    if !is_built("an_action_that_fails_is_told_once_and_holds_nothing_up") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let (url, asked) = listen("500 Internal Server Error")?;
    let begun = scene.root().join("begun");
    let hangs = program(
        &scene,
        "hangs",
        &format!("echo x >> {}; exec sleep 600", begun.display()),
    )?;
    let other = program(&scene, "other", "exit 0")?;
    let actions = format!(
        "{{command: [{}], timeout: 5s}}, {{command: [{}]}}, {{http: \"{url}\"}}, {{reload: none.service}}, {{signal: HUP, process: /no/such/program}}",
        hangs.display(),
        other.display()
    );
    declare(&scene, "1.0.0", "declared\\n", &actions)?;
    for name in ["a.conf", "b.conf"] {
        fs::write(scene.at(name), "declared\n")?;
    }
    let allow = hangs.display().to_string();
    let agent = Agent::start(&scene, &[&SCAN[..], &["--allow-command", &allow]].concat())?;
    let start = Instant::now();
    fs::write(scene.at("a.conf"), "evil\n")?;
    wait::until(SOON, || {
        begun.exists().then_some(()).ok_or("not begun".to_owned())
    })
    .map_err(anyhow::Error::msg)?;
    // Meanwhile.
    fs::write(scene.at("b.conf"), "evil\n")?;
    let b = scene.at("b.conf");
    wait::until(SOON, || match fs::read_to_string(&b) {
        Ok(text) if text == "declared\n" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .map_err(anyhow::Error::msg)?;
    ensure!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    let a = scene.at("a.conf");
    let healed = agent.event(0, "config.drift.healed", &a)?;
    let reasons: Vec<&str> = healed["after_heal"]
        .as_array()
        .context("actions")?
        .iter()
        .map(|done| done["reason"].as_str().unwrap_or("none"))
        .collect();
    let unit = if std::path::Path::new("/run/systemd/system").is_dir() {
        "status"
    } else {
        "no-systemd"
    };
    ensure!(
        reasons == ["timed-out", "not-allowed", "answer", unit, "no-process"],
        "{healed}"
    );
    let failed = agent.event(0, "config.drift.heal_failed", &a)?;
    ensure!(failed["reason"] == "after-heal", "{failed}");
    let message = failed["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains("was killed with all it had started"),
        "{message}"
    );
    // Those of the second heal come after those of the first.
    agent.event(0, "config.drift.healed", &b)?;
    agent.wait(0, "ten failures", |records| {
        let failed = records
            .iter()
            .filter(|record| record["reason"] == "after-heal");
        (failed.count() == 10).then_some(())
    })?;
    ensure!(
        asked.load(Ordering::SeqCst) == 2,
        "no action is tried again"
    );
    ensure!(fs::read_to_string(&begun)? == "x\nx\n");
    agent.stop()?;
    Ok(())
}

/// The same for a change of versions and its way back: after all files, and told to who has asked.
#[test]
fn a_change_of_versions_is_followed_by_each_action_once() -> Result<()> {
    if !is_built("a_change_of_versions_is_followed_by_each_action_once") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let (url, asked) = listen("200 OK")?;
    let actions = format!("{{http: \"{url}\", method: GET}}");
    declare(&scene, "1.0.0", "one\\n", &actions)?;
    let tree = scene.tree().display().to_string();
    let two = format!(
        "---\napiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: p-2}}\nspec:\n  policy: p\n  version: 2.0.0\n  {}",
        spec("two\\n", &actions).replace("TREE", &tree)
    );
    fs::write(scene.policies().join("two.yaml"), two)?;
    for name in ["a.conf", "b.conf"] {
        fs::write(scene.at(name), "one\n")?;
    }
    let agent = Agent::start(&scene, &SCAN)?;
    let said = says(&scene, &["activate", "p", "2.0.0"], 0)?;
    ensure!(
        said.contains("then: GET http://127.0.0.1") && said.contains("status 200"),
        "{said}"
    );
    ensure!(asked.load(Ordering::SeqCst) == 1);
    says(&scene, &["rollback", "p", "--to", "1.0.0"], 0)?;
    ensure!(asked.load(Ordering::SeqCst) == 2);
    agent.stop()?;
    // Without an agent.
    let policies = scene.policies().display().to_string();
    let said = says(
        &scene,
        &["activate", "p", "2.0.0", "--policies", &policies],
        0,
    )?;
    ensure!(said.contains("status 200"), "{said}");
    ensure!(asked.load(Ordering::SeqCst) == 3);
    // Changed in the folder while no agent ran.
    declare(&scene, "3.0.0", "three\\n", &actions)?;
    let agent = Agent::start(&scene, &SCAN)?;
    let seen = wait::until(SOON, || match asked.load(Ordering::SeqCst) {
        4 => Ok(()),
        other => Err(other),
    });
    ensure!(seen == Ok(()), "{seen:?}: {}", agent.all());
    ensure!(fs::read_to_string(scene.at("a.conf"))? == "three\n");
    ensure!(
        !agent.all().contains("config.drift.detected"),
        "{}",
        agent.all()
    );
    Ok(())
}
