//! Who the agent's processes are, as the kernel has it.

use std::{fs, process::Command};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    agent::{SOON, program},
    scene::Scene,
    skip::skip,
    wait::until,
};

/// Scanning fast: where who made a change does not matter.
pub const SCAN: [&str; 4] = ["--sensor", "scan", "--scan-interval", "100ms"];

/// Somebody who is not root, and has no name.
pub const SOMEBODY: u32 = 12_345;

/// Whether there is something to give up; where not, the test is skipped with the reason.
#[must_use]
pub fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(test, "only root has capabilities to give up");
    }
    is_root
}

/// What `drift-agent status` says of who may do what.
///
/// # Errors
/// There is no answer.
pub fn privilege(scene: &Scene) -> Result<Value> {
    let output = Command::new(program())
        .args(["status", "-o", "json", "--state"])
        .arg(scene.root().join("state"))
        .output()?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(said["privilege"].clone())
}

/// The restorer's number, when it is at work.
///
/// # Errors
/// It is not.
pub fn restorer(scene: &Scene) -> Result<i32> {
    until(SOON, || {
        let said = privilege(scene).map_err(|error| format!("{error:#}"))?;
        said["restorer_pid"]
            .as_i64()
            .ok_or_else(|| said.to_string())
    })
    .map_err(anyhow::Error::msg)
    .and_then(|pid| Ok(i32::try_from(pid)?))
}

/// A line of `/proc/PID/status`.
///
/// # Errors
/// It is gone.
pub fn line(pid: i32, name: &str) -> Result<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line
        .with_context(|| format!("no {name}"))?
        .trim()
        .to_owned())
}

/// Whether it has ended.
#[must_use]
pub fn is_gone(pid: i32) -> bool {
    // One that has ended and was not waited for is a zombie of whoever adopts it.
    line(pid, "State").map_or(true, |state| state.starts_with(['Z', 'X']))
}
