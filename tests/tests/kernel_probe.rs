//! `drift-agent probe` tells the truth about the kernel it runs on, and `run` does what it says.

use std::{
    fs,
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, is_built, program},
    scene::{DEFAULT, Scene, file},
};
use serde_json::Value;

fn probe(before: &[&str], after: &[&str]) -> Result<(Output, Value)> {
    let program = program();
    let mut words: Vec<&std::ffi::OsStr> = before.iter().map(std::ffi::OsStr::new).collect();
    words.push(program.as_os_str());
    let output = Command::new(words[0])
        .args(&words[1..])
        .args(["probe", "-o", "json"])
        .args(after)
        .output()
        .with_context(|| format!("running {words:?}"))?;
    let report = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok((output, report))
}

/// The sensor that this run is about: `cargo xtask vmtest` names one, else it is the one that is taken here.
fn sensor(taken: &Value) -> Result<String> {
    match std::env::var("DRIFT_TEST_SENSOR") {
        Ok(sensor) => Ok(sensor),
        Err(_) => Ok(taken["sensor"].as_str().context("no sensor")?.to_owned()),
    }
}

fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[test]
fn the_report_names_this_kernel_and_every_place_that_it_has() -> Result<()> {
    if !has_probes("the_report_names_this_kernel_and_every_place_that_it_has") {
        return Ok(());
    }
    let (output, taken) = probe(&[], &[])?;
    ensure!(output.status.success(), "{taken}");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    ensure!(taken["kernel"] == release.trim(), "{taken}");
    ensure!(taken["missing_capabilities"].is_array(), "{taken}");
    let version = numbers(&release).context(release.clone())?;
    let other = &taken["other_sensors"][0];
    if taken["sensor"] == "btf" {
        ensure!(
            other["sensor"] == "tracepoint" && other["refused"].is_null(),
            "{taken}"
        );
    } else {
        ensure!(taken["sensor"] == "tracepoint", "{taken}");
        ensure!(other["refused"]["reason"] == "no-functions", "{taken}");
    }
    // In a guest nothing forbids what the kernel can do: there it is known what must run.
    if std::env::var_os("DRIFT_TEST_SENSOR").is_some() {
        let can = std::env::consts::ARCH == "x86_64" || version >= (6, 4);
        ensure!((taken["sensor"] == "btf") == can, "{taken}");
    }
    let sensor = sensor(&taken)?;
    let (output, report) = probe(&[], &["--sensor", &sensor])?;
    ensure!(output.status.success(), "{report}");
    ensure!(report["sensor"] == sensor, "{report}");
    let hooks = report["hooks"].as_array().context("no hooks")?;
    let all = |what: &str| -> Vec<&str> {
        hooks
            .iter()
            .filter_map(|hook| hook[what].as_array())
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    // Before 6.0 io_uring does not tell which request it has completed. That is said, and is all that may be.
    let mut not_seen = Vec::new();
    for hook in hooks {
        if hook["program"] == "uring_complete" && version < (6, 0) {
            ensure!(hook["refused"].is_string(), "{hook}");
            not_seen.push(hook["sees"].clone());
            continue;
        }
        ensure!(
            hook["refused"].is_null() && hook["failed"].is_null(),
            "{hook}"
        );
    }
    let (attached, absent) = (all("attached"), all("absent"));
    // What came later than the oldest kernel: there or not there as the kernel's age says, and in both cases nothing is missed.
    let came: &[(&str, (u32, u32))] = if sensor == "btf" {
        ensure!(
            !attached.iter().any(|place| place.starts_with("syscalls/")),
            "on the way of system calls: {attached:?}"
        );
        &[
            ("fexit vfs_open", (5, 10)),
            ("fexit vfs_fileattr_set", (5, 13)),
            ("fexit vfs_set_acl", (6, 2)),
        ]
    } else {
        &[
            ("syscalls/sys_exit_openat", (5, 10)),
            ("syscalls/sys_enter_fchmodat2", (6, 6)),
        ]
    };
    for (place, since) in came {
        let is_there = version >= *since;
        ensure!(
            attached.contains(place) == is_there,
            "{place}: {attached:?}"
        );
        ensure!(absent.contains(place) != is_there, "{place}: {absent:?}");
    }
    ensure!(
        attached.contains(&"writeback_mark_inode_dirty"),
        "{attached:?}"
    );
    ensure!(report["not_seen"] == Value::Array(not_seen), "{report}");
    Ok(())
}

#[test]
fn an_agent_that_runs_says_the_same_of_its_hooks() -> Result<()> {
    if !has_probes("an_agent_that_runs_says_the_same_of_its_hooks") {
        return Ok(());
    }
    let (_, taken) = probe(&[], &[])?;
    let sensor = sensor(&taken)?;
    let (_, report) = probe(&[], &["--sensor", &sensor])?;
    let attached = report["hooks"]
        .as_array()
        .context("no hooks")?
        .iter()
        .filter(|hook| {
            hook["attached"]
                .as_array()
                .is_some_and(|places| !places.is_empty())
        })
        .count();
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    // Probe while another agent runs: neither is in the other's way.
    let agent = Agent::start(&scene, &[])?;
    let (output, again) = probe(&[], &["--sensor", &sensor])?;
    ensure!(
        output.status.success() && again["hooks"] == report["hooks"],
        "{again}"
    );
    let mut command = Command::new(program());
    command
        .args(["run", "--sensor", &sensor, "--policies"])
        .arg(scene.policies())
        .arg("--state")
        .arg(scene.root().join("other-state"));
    let mut second = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()?;
    let said = first_lines(&mut second, &format!("{sensor} probes ({attached} hooks)"));
    second.kill()?;
    second.wait()?;
    drop(agent);
    said
}

/// Waits until a process has said this on standard output.
fn first_lines(process: &mut std::process::Child, what: &str) -> Result<()> {
    use std::io::BufRead;
    let out = process.stdout.take().context("no standard output")?;
    let mut said = String::new();
    for line in std::io::BufReader::new(out).lines().take(10) {
        let line = line?;
        if line.contains(what) {
            return Ok(());
        }
        said.push_str(&line);
        said.push('\n');
    }
    anyhow::bail!("no sign of {what}: {said}")
}

#[test]
fn capabilities_that_do_not_count_are_not_believed() -> Result<()> {
    // Root of a user namespace has every capability in its status, and may load nothing: only trying tells.
    const TEST: &str = "capabilities_that_do_not_count_are_not_believed";
    if !is_built(TEST) {
        return Ok(());
    }
    if !Command::new("unshare")
        .args(["--user", "--map-root-user", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        drift_tests::skip::skip(TEST, "this machine makes no user namespaces");
        return Ok(());
    }
    let (output, report) = probe(&["unshare", "--user", "--map-root-user"], &[])?;
    ensure!(output.status.code() == Some(1), "{report}");
    ensure!(
        report["missing_capabilities"] == serde_json::json!([]),
        "{report}"
    );
    ensure!(report["sensor"] == "scan", "{report}");
    ensure!(report["refused"]["reason"] == "not-allowed", "{report}");
    ensure!(report["hooks"] == serde_json::json!([]), "{report}");
    Ok(())
}

#[test]
fn in_a_pid_namespace_of_its_own_it_says_that_probes_do_not_help() -> Result<()> {
    if !has_probes("in_a_pid_namespace_of_its_own_it_says_that_probes_do_not_help") {
        return Ok(());
    }
    let (output, report) = probe(&["unshare", "--pid", "--fork", "--mount-proc"], &[])?;
    ensure!(output.status.code() == Some(1), "{report}");
    ensure!(report["refused"]["reason"] == "pid-namespace", "{report}");
    Ok(())
}
