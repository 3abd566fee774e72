//! `drift-agent policy …`, as a user would run it.

use std::{fs, process::Command};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{is_built, program},
    scene::{HEAL, Scene, file},
};
use serde_json::Value;

/// Status, standard output, standard error.
type Said = (Option<i32>, String, String);

fn policy(scene: &Scene, command: &str, arguments: &[&str]) -> Result<Said> {
    let output = Command::new(program())
        .args(["policy", command, "--policies"])
        .arg(scene.policies())
        .args(arguments)
        .output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    ))
}

#[test]
fn what_is_wrong_is_said_and_the_status_tells_that_the_policies_are_at_fault() -> Result<()> {
    if !is_built("what_is_wrong_is_said_and_the_status_tells_that_the_policies_are_at_fault") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare("1.0.0", HEAL, &[file("a", "a")])?;
    let (code, said, _) = policy(&scene, "validate", &[])?;
    ensure!(
        code == Some(0) && said == "1 policy with 1 version: no problems\n",
        "{said}"
    );

    fs::write(scene.policies().join("more.yaml"), "kind: Polizy\n")?;
    for command in ["validate", "digest", "list", "render"] {
        let (code, said, why) = policy(&scene, command, &[])?;
        ensure!(
            code == Some(10) && said.is_empty(),
            "{command}: {code:?} {said}"
        );
        ensure!(
            why.contains("more.yaml:1:7") && why.contains("did you mean `Policy`?"),
            "{why}"
        );
    }
    fs::remove_dir_all(scene.policies())?;
    let (code, _, why) = policy(&scene, "validate", &[])?;
    ensure!(
        code == Some(1) && why.contains("cannot read the policy folder"),
        "{why}"
    );
    Ok(())
}

#[test]
fn users_are_looked_up_only_when_asked() -> Result<()> {
    if !is_built("users_are_looked_up_only_when_asked") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mut declared = file("a", "a");
    declared.owner = Some("no-such-user");
    scene.declare("1.0.0", HEAL, &[declared])?;
    ensure!(policy(&scene, "validate", &[])?.0 == Some(0));
    let (code, _, why) = policy(&scene, "validate", &["--host"])?;
    ensure!(
        code == Some(10)
            && why.contains("there is no user `no-such-user`\n  = looked in /etc/passwd"),
        "{why}"
    );
    Ok(())
}

#[test]
fn a_version_has_one_digest_however_it_is_written() -> Result<()> {
    if !is_built("a_version_has_one_digest_however_it_is_written") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare("1.0.0", HEAL, &[file("b", "b\n"), file("a", "a")])?;
    let digest = |arguments: &[&str]| -> Result<String> {
        let (code, said, why) = policy(&scene, "digest", arguments)?;
        ensure!(code == Some(0), "{why}");
        Ok(said)
    };
    let table = digest(&[])?;
    let first = table
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned();
    ensure!(table.ends_with("p  1.0.0  active\n"), "{table}");

    let form = digest(&["--canonical"])?;
    let made = format!("blake3:{}", blake3::hash(form.trim_end().as_bytes()));
    ensure!(made == first, "{form}");

    let json: Value = serde_json::from_str(&digest(&["-o", "json"])?)?;
    ensure!(
        json[0]["digest"] == first && json[0]["active"] == true,
        "{json}"
    );
    ensure!(digest(&["-o", "yaml"])?.contains(&first));

    // What drift prints of its policies is the same policies.
    let (_, rendered, _) = policy(&scene, "render", &[])?;
    fs::write(scene.policies().join("policy.yaml"), rendered)?;
    ensure!(digest(&[])? == table);
    // A content is the same from a file.
    scene.declare_spec(
        "1.0.0",
        HEAL,
        "files:\n    - {path: TREE/a, content: {file: here}}\n    - {path: TREE/b, content: {base64: Ygo=}}\n",
    )?;
    fs::write(scene.policies().join("here"), "a")?;
    ensure!(digest(&[])? == table);
    fs::write(scene.policies().join("here"), "A")?;
    ensure!(digest(&[])? != table);
    Ok(())
}

#[test]
fn the_list_and_the_schema() -> Result<()> {
    if !is_built("the_list_and_the_schema") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare("1.0.0", HEAL, &[file("a", "a")])?;
    let (_, table, _) = policy(&scene, "list", &[])?;
    let expected = "policy  active  mode  files  versions\np       1.0.0   heal  1      1\n";
    ensure!(table == expected, "{table}");
    let (_, yaml, _) = policy(&scene, "list", &["-o", "yaml"])?;
    ensure!(yaml.contains("policy: p\n"), "{yaml}");

    let output = Command::new(program())
        .args(["policy", "schema"])
        .output()?;
    let schema: Value = serde_json::from_slice(&output.stdout)?;
    let kinds = schema["oneOf"].as_array().map(Vec::len);
    ensure!(kinds == Some(3), "{kinds:?}");
    Ok(())
}
