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

/// B095, B097, B098: programs that the kernel refuses, by its age. Each is loaded here, and none is: in every kernel of `cargo xtask vmtest`, under either sensor.
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

/// Runs the agent's report where this was done first, in a mount namespace of its own.
fn probe_after(script: &str, after: &[&str]) -> Result<(Output, Value)> {
    let script = format!("{script} && exec \"$0\" \"$@\"");
    probe(&["unshare", "-m", "sh", "-c", &script], after)
}

/// With tracefs, where it is not mounted.
const TRACEFS: &str =
    "if ! test -d /sys/kernel/tracing/events; then mount -t tracefs none /sys/kernel/tracing; fi";

/// B091, B099: one program is refused, and nothing runs, or nobody is told which.
#[test]
fn a_place_that_is_refused_is_named_with_the_reason_and_takes_no_other_with_it() -> Result<()> {
    const TEST: &str =
        "a_place_that_is_refused_is_named_with_the_reason_and_takes_no_other_with_it";
    if !has_probes(TEST) {
        return Ok(());
    }
    const PLACE: &str = "syscalls/sys_exit_renameat2";
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    // A tracepoint whose number is none.
    let id = scene.elsewhere().join("id");
    fs::write(&id, "none\n")?;
    let broken = format!(
        "{TRACEFS} && mount --bind {} /sys/kernel/tracing/events/{PLACE}/id",
        id.display()
    );
    let (_, whole) = probe(&[], &["--sensor", "tracepoint"])?;
    let (output, report) = probe_after(&broken, &["--sensor", "tracepoint"])?;
    ensure!(
        output.status.success() && report["sensor"] == "tracepoint",
        "{report}"
    );
    let hooks = |report: &Value| report["hooks"].as_array().cloned().unwrap_or_default();
    ensure!(hooks(&whole).len() == hooks(&report).len(), "{report}");
    let mut missed = 0;
    for (before, now) in hooks(&whole).iter().zip(hooks(&report)) {
        if now["failed"].is_null() {
            ensure!(*before == now, "{before} {now}");
            continue;
        }
        missed += 1;
        ensure!(now["failed"][0]["place"] == PLACE, "{now}");
        ensure!(now["failed"][0]["why"].is_string(), "{now}");
        let places = |hook: &Value| hook["attached"].as_array().map_or(0, Vec::len);
        ensure!(places(before) == places(&now) + 1, "{before} {now}");
        let sees = report["not_seen"].as_array().context("no list")?;
        ensure!(sees.contains(&now["sees"]), "{report}");
    }
    ensure!(missed == 1, "{report}");
    // The agent runs with what is left, and its status says the same.
    let mut command = Command::new("unshare");
    let script = format!("{broken} && exec \"$0\" \"$@\"");
    command
        .args(["-m", "sh", "-c", &script])
        .arg(program())
        .args(["run", "--sensor", "tracepoint", "--policies"])
        .arg(scene.policies());
    let agent = Agent::start_as(command, &scene)?;
    let status = Command::new(program())
        .args(["status", "-o", "json", "--state"])
        .arg(scene.root().join("state"))
        .output()?;
    let status: Value = serde_json::from_slice(&status.stdout)?;
    ensure!(
        status["sensor"]["cannot_see"]
            .to_string()
            .contains("succeeded"),
        "{status}"
    );
    let app = scene.at("app.conf");
    let pid = drift_tests::agent::tool("sh", &["-c", &format!("echo x > {}", app.display())])?;
    let detected = agent.event(0, "config.drift.detected", &app)?;
    ensure!(detected["actor"]["pid"] == pid, "not by {pid}: {detected}");
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B101: the kernel's type information is missing, and nobody says what it is and what helps.
#[test]
fn without_type_information_it_says_so_and_goes_on_by_scanning() -> Result<()> {
    if !has_probes("without_type_information_it_says_so_and_goes_on_by_scanning") {
        return Ok(());
    }
    // With tracefs there already: a mount namespace that the agent makes for itself would not have this one.
    let hidden = format!("{TRACEFS} && mount -t tmpfs none /sys/kernel/btf");
    let (output, report) = probe_after(&hidden, &[])?;
    ensure!(output.status.code() == Some(1), "{report}");
    ensure!(report["sensor"] == "scan", "{report}");
    ensure!(report["refused"]["reason"] == "no-btf", "{report}");
    let message = report["refused"]["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains("/sys/kernel/btf/vmlinux") && message.contains("CONFIG_DEBUG_INFO_BTF"),
        "{report}"
    );
    ensure!(report["btf"]["unknown"].is_string(), "{report}");
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let mut command = Command::new("unshare");
    let script = format!("{hidden} && exec \"$0\" \"$@\"");
    command
        .args(["-m", "sh", "-c", &script])
        .arg(program())
        .args(["run", "--policies"])
        .arg(scene.policies());
    let agent = Agent::start_as(command, &scene)?;
    ensure!(
        agent.errors().contains("degraded: no probes (no-btf)"),
        "{}",
        agent.errors()
    );
    let app = scene.at("app.conf");
    fs::write(&app, "other\n")?;
    let detected = agent.event(0, "config.drift.detected", &app)?;
    ensure!(detected["cause"] == "scan", "{detected}");
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B103: the tracing file system is not mounted, or the list of security modules cannot be read or has no `bpf`.
#[test]
fn without_tracefs_and_the_list_of_security_modules_the_tracepoints_run() -> Result<()> {
    if !has_probes("without_tracefs_and_the_list_of_security_modules_the_tracepoints_run") {
        return Ok(());
    }
    let hidden = "mount -t tmpfs none /sys/kernel/tracing && if test -d /sys/kernel/security; then mount -t tmpfs none /sys/kernel/security; fi";
    let (_, whole) = probe(&[], &["--sensor", "tracepoint"])?;
    let (output, report) = probe_after(hidden, &["--sensor", "tracepoint"])?;
    ensure!(output.status.success(), "{report}");
    ensure!(report["hooks"] == whole["hooks"], "{report}");
    let said = report["tracefs"].as_str().unwrap_or_default();
    ensure!(said.starts_with("not mounted"), "{report}");
    for what in ["security_modules", "lockdown"] {
        let why = report[what]["unknown"].as_str().unwrap_or_default();
        ensure!(why.contains("mount -t securityfs"), "{what}: {report}");
    }
    Ok(())
}

/// What a file says, or nothing where it cannot be read.
fn stated(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

#[test]
fn what_it_says_of_the_machine_is_what_the_machine_says_also_in_the_table() -> Result<()> {
    const TEST: &str = "what_it_says_of_the_machine_is_what_the_machine_says_also_in_the_table";
    if !has_probes(TEST) {
        return Ok(());
    }
    let (_, report) = probe(&[], &[])?;
    let text = |name: &str| report[name].as_str().unwrap_or_default().to_owned();
    ensure!(report["architecture"] == std::env::consts::ARCH, "{report}");
    let size = fs::metadata("/sys/kernel/btf/vmlinux")?.len() / 1024;
    ensure!(
        text("btf") == format!("/sys/kernel/btf/vmlinux, {size} KiB"),
        "{report}"
    );
    // `none [integrity] confidentiality`: the one in brackets is in force.
    let lockdown = stated("/sys/kernel/security/lockdown").and_then(|all| {
        let (_, rest) = all.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    });
    for (name, known) in [
        ("security_modules", stated("/sys/kernel/security/lsm")),
        ("lockdown", lockdown),
    ] {
        match known {
            Some(known) => ensure!(text(name) == known, "{name}: {report}"),
            None => ensure!(report[name]["unknown"].is_string(), "{name}: {report}"),
        }
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = u64::from_str_radix(effective.context("no CapEff")?.trim(), 16)?;
    let missing = report["missing_capabilities"]
        .as_array()
        .context("no list")?;
    // By their numbers in capabilities(7).
    for (number, name) in [
        (21, "CAP_SYS_ADMIN"),
        (38, "CAP_PERFMON"),
        (39, "CAP_BPF"),
        (24, "CAP_SYS_RESOURCE"),
    ] {
        let has = effective & (1 << number) != 0;
        ensure!(missing.contains(&name.into()) != has, "{name}: {report}");
    }
    let table = Command::new(program()).arg("probe").output()?;
    ensure!(table.status.success());
    let table = String::from_utf8(table.stdout)?;
    let mut said: Vec<String> = ["kernel", "btf", "sensor"].map(text).into();
    for hook in report["hooks"].as_array().context("no hooks")? {
        said.extend(hook["program"].as_str().map(str::to_owned));
        said.extend(hook["sees"].as_str().map(str::to_owned));
        said.extend(hook["refused"].as_str().map(str::to_owned));
    }
    for other in report["other_sensors"].as_array().context("no list")? {
        said.extend(other["refused"]["message"].as_str().map(str::to_owned));
    }
    for phrase in report["not_seen"].as_array().context("no list")? {
        said.extend(phrase.as_str().map(str::to_owned));
    }
    for said in said {
        ensure!(table.contains(&said), "{said} is not in\n{table}");
    }
    Ok(())
}
