//! Files that are compared by what they say: what is drift, what healing writes, and what it leaves to others.

use std::{fs, os::unix::fs::MetadataExt, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, is_built, program},
    scene::{HEAL_AT_ONCE, Scene},
};
use serde_json::{Value, json};

/// One format: what is declared, the same in another way of writing, and with another value; the key that alone is managed in a second file,
/// and what stands in that, before and after.
struct Case {
    format: &'static str,
    declared: &'static str,
    equivalent: &'static str,
    changed: &'static str,
    pointer: &'static str,
    shared: [&'static str; 2],
}

const CASES: [Case; 6] = [
    Case {
        format: "json",
        declared: "{\"listen\": 80, \"tls\": {\"cert\": \"/a\"}}\n",
        equivalent: "{\n  \"tls\": {\"cert\": \"/a\"},\n  \"listen\": 80\n}",
        changed: "{\"listen\": 81, \"tls\": {\"cert\": \"/a\"}}\n",
        pointer: "/listen",
        shared: [
            "{ \"theirs\":[1 ,2],\n\t\"listen\": 8080 }",
            "{ \"theirs\":[1 ,2],\n\t\"listen\": 80 }",
        ],
    },
    Case {
        format: "yaml",
        declared: "listen: 80\ntls: {cert: /a}\n",
        equivalent: "# why\ntls:\n    cert: \"/a\"\nlisten: 80\n",
        changed: "listen: 80\ntls: {cert: /b}\n",
        pointer: "/listen",
        shared: [
            "theirs: [1,  2]  # theirs\nlisten: 8080\n\n",
            "theirs: [1,  2]  # theirs\nlisten: 80\n\n",
        ],
    },
    Case {
        format: "toml",
        declared: "listen = 80\n[tls]\ncert = \"/a\"\n",
        equivalent: "tls = {cert = '/a'} # why\nlisten=0x50\n",
        changed: "listen = 80\n[tls]\ncert = \"/b\"\n",
        pointer: "/listen",
        shared: [
            "theirs = 1_000  # theirs\nlisten = 8080\n",
            "theirs = 1_000  # theirs\nlisten = 80\n",
        ],
    },
    Case {
        format: "ini",
        declared: "[Unit]\nAfter=a\n[Service]\nUser=app\n",
        equivalent: "; why\n[Service]\nUser = app\n[Unit]\nAfter = a\n",
        changed: "[Unit]\nAfter=a\n[Service]\nUser=root\n",
        pointer: "/Service/User",
        shared: [
            "; theirs\n[Unit]\nWants=  b\n[Service]\nUser=root\n",
            "; theirs\n[Unit]\nWants=  b\n[Service]\nUser=app\n",
        ],
    },
    Case {
        format: "env",
        declared: "LISTEN=80\nNAME='a b'\n",
        equivalent: "# why\nNAME=\"a b\"\nLISTEN=80\n",
        changed: "LISTEN=81\nNAME='a b'\n",
        pointer: "/LISTEN",
        shared: [
            "# theirs\nexport THEIRS='x  y'\nLISTEN=8080\n",
            "# theirs\nexport THEIRS='x  y'\nLISTEN=80\n",
        ],
    },
    Case {
        format: "keyvalue",
        declared: "Port 22\nUseDNS no\n",
        equivalent: "# why\nUseDNS   no\nPort 22\n",
        changed: "Port 23\nUseDNS no\n",
        pointer: "/Port",
        shared: [
            "# theirs\nX11Forwarding   no\nPort 2222\n",
            "# theirs\nX11Forwarding   no\nPort 22\n",
        ],
    },
];

impl Case {
    /// Both files of the format.
    fn declares(&self) -> String {
        let Case {
            format, pointer, ..
        } = self;
        let content = Value::from(self.declared);
        format!(
            "    - {{path: TREE/whole.{format}, content: {{inline: {content}}}, compare: {{format: {format}}}}}\n    - {{path: TREE/shared.{format}, content: {{inline: {content}}}, compare: {{format: {format}, manage: [{pointer}]}}}}\n"
        )
    }
}

#[test]
fn of_each_format_the_same_stays_the_changed_is_healed_and_the_keys_of_others_are_kept()
-> Result<()> {
    // B050, B052, B119
    if !has_probes(
        "of_each_format_the_same_stays_the_changed_is_healed_and_the_keys_of_others_are_kept",
    ) {
        return Ok(());
    }
    let scene = Scene::new()?;
    for case in &CASES {
        fs::write(scene.at(&format!("whole.{}", case.format)), case.declared)?;
        fs::write(scene.at(&format!("shared.{}", case.format)), case.shared[1])?;
    }
    let files: String = CASES.iter().map(Case::declares).collect();
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, &format!("  files:\n{files}"))?;
    let agent = Agent::start(&scene, &[])?;
    for case in &CASES {
        let whole = scene.at(&format!("whole.{}", case.format));
        let mark = agent.mark();
        fs::write(&whole, case.equivalent)?;
        let detected = agent.event(mark, "config.drift.detected", &whole)?;
        ensure!(
            detected["drift"] == json!(["content-equivalent"]) && detected["severity"] == "info",
            "{detected}"
        );
        let mark = agent.mark();
        fs::write(&whole, case.changed)?;
        let detected = agent.event(mark, "config.drift.detected", &whole)?;
        ensure!(detected["drift"] == json!(["content"]), "{detected}");
        let message = detected["message"].as_str().context("no message")?;
        ensure!(message.contains("1 value changed"), "{detected}");
        agent.event(mark, "config.drift.healed", &whole)?;
        ensure!(fs::read_to_string(&whole)? == case.declared);

        let shared = scene.at(&format!("shared.{}", case.format));
        let mark = agent.mark();
        fs::write(&shared, case.shared[0])?;
        let detected = agent.event(mark, "config.drift.detected", &shared)?;
        // Nobody has declared what all of it is.
        ensure!(
            detected["declared"].get("digest").is_none()
                && detected["observed"]["digest"].is_string(),
            "{detected}"
        );
        agent.event(mark, "config.drift.healed", &shared)?;
        let now = fs::read_to_string(&shared)?;
        ensure!(now == case.shared[1], "{now}");
    }
    // What says the same was told, and that was all.
    let healed = |record: &&Value| record["event"] == "config.drift.healed";
    let count = agent.since(0).iter().filter(healed).count();
    ensure!(count == 2 * CASES.len(), "{}", agent.all());
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn what_others_write_into_a_shared_file_is_never_told_and_another_way_of_writing_once() -> Result<()>
{
    if !has_probes(
        "what_others_write_into_a_shared_file_is_never_told_and_another_way_of_writing_once",
    ) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let [whole, shared, last] = ["whole.json", "shared.json", "last"].map(|name| scene.at(name));
    let spec = "  files:\n    - {path: TREE/whole.json, content: {inline: '{\"a\": 1}'}, compare: {format: json}}\n    - {path: TREE/shared.json, content: {inline: '{\"a\": 1}'}, compare: {format: json, manage: [/a]}}\n    - {path: TREE/last, content: {inline: x}}\n";
    for path in [&whole, &shared] {
        fs::write(path, "{\"a\": 1}")?;
    }
    fs::write(&last, "x")?;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, spec)?;
    let agent = Agent::start(&scene, &[])?;
    let begin = agent.mark();
    // At once: what is half written for a second on a busy machine is judged as it is.
    let put = |path: &Path, text: String| -> Result<()> {
        let aside = scene.elsewhere().join("new");
        fs::write(&aside, text)?;
        Ok(fs::rename(aside, path)?)
    };
    for number in 0..10 {
        put(&shared, format!("{{\"theirs\": {number}, \"a\": 1}}"))?;
        put(&whole, format!("{{{}\"a\": 1}}", " ".repeat(number + 1)))?;
        // What is looked at now is looked at after the others.
        let mark = agent.mark();
        fs::write(&last, "other")?;
        agent.event(mark, "config.drift.healed", &last)?;
    }
    // Byte for byte as declared again.
    let mark = agent.mark();
    put(&whole, "{\"a\": 1}".to_owned())?;
    agent.event(mark, "config.drift.resolved", &whole)?;
    let told = agent.since(begin);
    let about = |path: &Path| {
        let path = path.display().to_string();
        told.iter().filter(|record| record["path"] == path).count()
    };
    ensure!(about(&shared) == 0, "{}", agent.all());
    ensure!(about(&whole) == 2, "{}", agent.all());
    Ok(())
}

#[test]
fn what_does_not_parse_is_healed_where_it_is_declared_whole_and_told_where_it_is_shared()
-> Result<()> {
    if !has_probes(
        "what_does_not_parse_is_healed_where_it_is_declared_whole_and_told_where_it_is_shared",
    ) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let (whole, shared) = (scene.at("whole.json"), scene.at("shared.json"));
    let case = &CASES[0];
    fs::write(&whole, case.declared)?;
    fs::write(&shared, case.shared[1])?;
    let spec = format!("  files:\n{}", case.declares());
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, &spec)?;
    let agent = Agent::start(&scene, &[])?;
    let broken = "{\"listen\": 80,\n  \"password\": hunter2-sentinel}";
    let mark = agent.mark();
    fs::write(&whole, broken)?;
    let detected = agent.event(mark, "config.drift.detected", &whole)?;
    let message = detected["message"].as_str().context("no message")?;
    ensure!(
        message.contains("it does not parse as json: syntax at 2:"),
        "{detected}"
    );
    agent.event(mark, "config.drift.healed", &whole)?;
    ensure!(fs::read_to_string(&whole)? == case.declared);
    let mark = agent.mark();
    fs::write(&shared, broken)?;
    let failed = agent.event(mark, "config.drift.heal_failed", &shared)?;
    ensure!(failed["reason"] == "unparsable", "{failed}");
    ensure!(fs::read_to_string(&shared)? == broken);
    // Whoever writes it puts it right; then the managed key is put right too.
    let mark = agent.mark();
    fs::write(&shared, case.shared[0])?;
    agent.event(mark, "config.drift.healed", &shared)?;
    ensure!(fs::read_to_string(&shared)? == case.shared[1]);
    // B138: no record quotes a file.
    ensure!(!agent.all().contains("sentinel"), "{}", agent.all());
    Ok(())
}

#[test]
fn a_missing_shared_file_is_made_and_keeps_what_others_add() -> Result<()> {
    if !has_probes("a_missing_shared_file_is_made_and_keeps_what_others_add") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let shared = scene.at("shared.json");
    let spec = "  files:\n    - {path: TREE/shared.json, content: {inline: '{\"a\": 1}'}, mode: \"0600\", compare: {format: json, manage: [/a]}}\n";
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, spec)?;
    let agent = Agent::start(&scene, &[])?;
    agent.event(0, "config.drift.healed", &shared)?;
    ensure!(fs::read_to_string(&shared)? == "{\"a\": 1}");
    let mark = agent.mark();
    fs::write(&shared, "{\"a\": 2, \"b\": {}}")?;
    agent.event(mark, "config.drift.healed", &shared)?;
    ensure!(fs::read_to_string(&shared)? == "{\"a\": 1, \"b\": {}}");
    ensure!(fs::metadata(&shared)?.mode() & 0o7777 == 0o600);
    Ok(())
}

#[test]
fn what_is_hidden_from_people_is_what_healing_writes() -> Result<()> {
    // B134
    if !has_probes("what_is_hidden_from_people_is_what_healing_writes") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let [whole, shared, text] = ["whole.json", "shared.json", "text"].map(|name| scene.at(name));
    let secret = "{\"password\": \"sentinel\"}";
    let spec = format!(
        "  files:\n    - {{path: TREE/whole.json, content: {{inline: '{secret}'}}, compare: {{format: json}}, redact: all}}\n    - {{path: TREE/shared.json, content: {{inline: '{secret}'}}, compare: {{format: json, manage: [/password]}}}}\n    - {{path: TREE/text, content: {{inline: \"password = sentinel\\n\"}}}}\n"
    );
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, &spec)?;
    for path in [&whole, &shared] {
        fs::write(path, "{\"password\": \"other\"}")?;
    }
    fs::write(&text, "password = other\n")?;
    let shown = Command::new(program())
        .args(["diff", "--policies"])
        .arg(scene.policies())
        .output()?;
    let shown = String::from_utf8(shown.stdout)?;
    ensure!(
        shown.contains("•••") && !shown.contains("sentinel") && !shown.contains("other"),
        "{shown}"
    );
    let agent = Agent::start(&scene, &[])?;
    for path in [&whole, &shared, &text] {
        agent.event(0, "config.drift.healed", path)?;
    }
    for path in [&whole, &shared] {
        ensure!(fs::read_to_string(path)? == secret);
    }
    ensure!(fs::read_to_string(&text)? == "password = sentinel\n");
    ensure!(!agent.all().contains("sentinel"), "{}", agent.all());
    Ok(())
}

#[test]
fn a_version_that_says_the_same_in_another_way_is_acknowledged_and_changes_nothing() -> Result<()> {
    // B140, B149
    if !has_probes(
        "a_version_that_says_the_same_in_another_way_is_acknowledged_and_changes_nothing",
    ) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let spec = |content: &str| {
        format!(
            "  files:\n    - {{path: TREE/f, content: {{inline: '{content}'}}, compare: {{format: json}}}}\n"
        )
    };
    let (one, other) = ("{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1}");
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, &spec(one))?;
    let path = scene.at("f");
    fs::write(&path, one)?;
    let before = fs::metadata(&path)?.ino();
    let agent = Agent::start(&scene, &[])?;
    let mark = agent.mark();
    scene.declare_spec("1.0.1", HEAL_AT_ONCE, &spec(other))?;
    let activated = |records: &[Value]| {
        let is_it = |record: &&Value| {
            record["event"] == "config.policy.activated" && record["version"] == "1.0.1"
        };
        records.iter().find(is_it).cloned()
    };
    agent.wait(mark, "the new version", activated)?;
    let detected = agent.event(mark, "config.drift.detected", &path)?;
    ensure!(
        detected["drift"] == json!(["content-equivalent"]) && detected["cause"] == "policy",
        "{detected}"
    );
    ensure!(agent.stop()?.success());
    ensure!(fs::read_to_string(&path)? == one && fs::metadata(&path)?.ino() == before);
    Ok(())
}

#[test]
fn check_tells_another_way_of_writing_and_is_status_0() -> Result<()> {
    // B054: nothing, null and no key are different, unless the policy says otherwise.
    if !is_built("check_tells_another_way_of_writing_and_is_status_0") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let file = |rule: &str| {
        format!(
            "  files:\n    - {{path: TREE/f, content: {{inline: \"a: 1\\nb:\\n\"}}, compare: {{format: yaml{rule}}}}}\n"
        )
    };
    let check = |output: &str| -> Result<(Option<i32>, String)> {
        let said = Command::new(program())
            .args(["check", "-o", output, "--policies"])
            .arg(scene.policies())
            .env("XDG_CACHE_HOME", scene.root().join("cache"))
            .output()?;
        Ok((said.status.code(), String::from_utf8(said.stdout)?))
    };
    scene.declare_spec("1.0.0", "", &file(""))?;
    fs::write(scene.at("f"), "b: null\na: 1 # why\n")?;
    let (status, said) = check("jsonl")?;
    ensure!(
        status == Some(0) && said.contains("[\"content-equivalent\"]"),
        "{status:?} {said}"
    );
    let (_, said) = check("table")?;
    ensure!(
        said.contains("the one declared path is as declared, 1 of them written in another way"),
        "{said}"
    );
    fs::write(scene.at("f"), "a: 1\n")?;
    ensure!(check("jsonl")?.0 == Some(4));
    scene.declare_spec("1.0.1", "", &file(", absent: \"null\""))?;
    ensure!(check("jsonl")?.0 == Some(0));
    Ok(())
}
