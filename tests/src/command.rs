//! Commands of the built agent that end by themselves.

use std::{
    ffi::OsStr,
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{agent::program, scene::Scene};

/// Status, standard output, standard error.
pub type Said = (i32, String, String);

/// What a command said that has ended.
///
/// # Errors
/// A signal ended it.
pub fn said(output: &Output) -> Result<Said> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((
        output.status.code().context("ended by a signal")?,
        text(&output.stdout),
        text(&output.stderr),
    ))
}

/// `drift-agent snapshot`, in the scene's folder.
///
/// # Errors
/// It cannot be run, or says what is not expected.
pub fn snapshot<A: AsRef<OsStr>>(scene: &Scene, arguments: &[A]) -> Result<Said> {
    let mut command = Command::new(program());
    command
        .current_dir(scene.root())
        .arg("snapshot")
        .args(arguments);
    said(&command.output()?)
}

/// The status of `drift-agent check`, and its records.
///
/// # Errors
/// It cannot be run, or says what is not expected.
pub fn check(scene: &Scene) -> Result<(i32, Vec<Value>)> {
    let output = Command::new(program())
        .args(["check", "-o", "json", "--policies"])
        .arg(scene.policies())
        .env("XDG_CACHE_HOME", scene.root().join("cache"))
        .output()?;
    let status = output.status.code().context("ended by a signal")?;
    let records = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok((status, records))
}

/// Everything is as declared.
///
/// # Errors
/// It is not: with all that drifts.
pub fn is_clean(scene: &Scene) -> Result<()> {
    let (status, records) = check(scene)?;
    ensure!(status == 0 && records.is_empty(), "{status} {records:?}");
    Ok(())
}

/// Any command of the agent that goes by the scene's state folder.
///
/// # Errors
/// It cannot be run.
pub fn run<A: AsRef<OsStr>>(scene: &Scene, arguments: &[A]) -> Result<Said> {
    let output = Command::new(program())
        .args(arguments)
        .arg("--state")
        .arg(scene.root().join("state"))
        .output()?;
    said(&output)
}

/// [`run`], which must end with this status: all that it said.
///
/// # Errors
/// It does not: with what it said.
pub fn says<A: AsRef<OsStr>>(scene: &Scene, arguments: &[A], expected: i32) -> Result<String> {
    let (status, out, err) = run(scene, arguments)?;
    ensure!(status == expected, "{status}, not {expected}: {out}{err}");
    Ok(out + &err)
}
