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

fn probe(before: &[&str]) -> Result<(Output, Value)> {
    let program = program();
    let mut words: Vec<&std::ffi::OsStr> = before.iter().map(std::ffi::OsStr::new).collect();
    words.push(program.as_os_str());
    let output = Command::new(words[0])
        .args(&words[1..])
        .args(["probe", "-o", "json"])
        .output()
        .with_context(|| format!("running {words:?}"))?;
    let report = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok((output, report))
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
    let (output, report) = probe(&[])?;
    ensure!(output.status.success(), "{report}");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    ensure!(report["kernel"] == release.trim(), "{report}");
    ensure!(report["sensor"] == "tracepoint", "{report}");
    ensure!(report["missing_capabilities"].is_array(), "{report}");
    let hooks = report["hooks"].as_array().context("no hooks")?;
    let all = |what: &str| -> Vec<&str> {
        hooks
            .iter()
            .filter_map(|hook| hook[what].as_array())
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    for hook in hooks {
        ensure!(
            hook["refused"].is_null() && hook["failed"].is_null(),
            "{hook}"
        );
    }
    // A call that came in 6.6: there or not there as the kernel's age says, and in both cases nothing is missed.
    let (attached, absent) = (all("attached"), all("absent"));
    let newer = numbers(&release).context(release.clone())? >= (6, 6);
    let place = "syscalls/sys_enter_fchmodat2";
    ensure!(attached.contains(&place) == newer, "{attached:?}");
    ensure!(absent.contains(&place) != newer, "{absent:?}");
    ensure!(
        attached.contains(&"writeback_mark_inode_dirty"),
        "{attached:?}"
    );
    ensure!(report["not_seen"] == serde_json::json!([]), "{report}");
    Ok(())
}

#[test]
fn an_agent_that_runs_says_the_same_of_its_hooks() -> Result<()> {
    if !has_probes("an_agent_that_runs_says_the_same_of_its_hooks") {
        return Ok(());
    }
    let (_, report) = probe(&[])?;
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
    let (output, again) = probe(&[])?;
    ensure!(
        output.status.success() && again["hooks"] == report["hooks"],
        "{again}"
    );
    let mut command = Command::new(program());
    command
        .arg("run")
        .arg("--policies")
        .arg(scene.policies())
        .arg("--state")
        .arg(scene.root().join("other-state"));
    let mut second = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()?;
    let said = first_lines(&mut second, &format!("({attached} hooks)"));
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
    let (output, report) = probe(&["unshare", "--user", "--map-root-user"])?;
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
    let (output, report) = probe(&["unshare", "--pid", "--fork", "--mount-proc"])?;
    ensure!(output.status.code() == Some(1), "{report}");
    ensure!(report["refused"]["reason"] == "pid-namespace", "{report}");
    Ok(())
}
