//! The agent as a service: what it tells the manager that has started it, and what an orchestrator's probes are answered.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixDatagram},
    process::Command,
    time::Duration,
};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, is_built, program},
    scene::{DEFAULT, Scene, file},
};

#[test]
fn a_service_manager_hears_that_it_is_ready_goes_on_and_ends() -> Result<()> {
    if !is_built("a_service_manager_hears_that_it_is_ready_goes_on_and_ends") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "a\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let named = scene.root().join("notify");
    let manager = UnixDatagram::bind(&named)?;
    // As systemd's: the process that looks is another user.
    fs::set_permissions(&named, fs::Permissions::from_mode(0o666))?;
    manager.set_read_timeout(Some(SOON))?;
    let heard = || -> Result<String> {
        let mut bytes = [0; 64];
        let length = manager.recv(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    };
    let stage = |stage: &str| -> Result<Option<i32>> {
        let asked = Command::new(program())
            .args(["status", "--is", stage, "--state"])
            .arg(scene.root().join("state"))
            .output()?;
        Ok(asked.status.code())
    };
    ensure!(stage("ready")? == Some(3), "there is no agent");
    let mut command = Command::new(program());
    command
        .args(["run", "--sensor", "scan", "--policies"])
        .arg(scene.policies())
        .env("NOTIFY_SOCKET", &named)
        .env(
            "WATCHDOG_USEC",
            Duration::from_millis(400).as_micros().to_string(),
        );
    let agent = Agent::start_as(command, &scene)?;
    ensure!(heard()? == "READY=1");
    ensure!(stage("ready")? == Some(0) && stage("alive")? == Some(0));
    // A drift is no reason to be replaced.
    fs::write(scene.at("a.conf"), "b\n")?;
    for _ in 0..3 {
        ensure!(heard()? == "WATCHDOG=1");
    }
    ensure!(
        stage("ready")? == Some(0),
        "it has looked at everything once"
    );
    agent.stop()?;
    while heard()? != "STOPPING=1" {}
    ensure!(stage("alive")? == Some(3), "it has ended");
    Ok(())
}
