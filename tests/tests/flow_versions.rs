//! Changes of versions on a running agent: whole or not at all, held, and told.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, is_built, program},
    command::says,
    privilege::SCAN,
    scene::{DEFAULT, HEAL_AT_ONCE, Scene, file},
    wait,
};
use serde_json::Value;

/// Files of the policy in each version, beside the one that only that version has.
const FILES: usize = 20;

fn content(file: usize, version: u32) -> String {
    format!("file {file} of version {version}\n")
}

struct Place {
    scene: Scene,
}

impl Place {
    fn new(active: u32) -> Result<Self> {
        let place = Self {
            scene: Scene::new()?,
        };
        for file in 0..FILES {
            fs::write(place.file(file), content(file, 1))?;
        }
        fs::write(place.scene.at("only-1"), "1")?;
        place.say(active, "")?;
        Ok(place)
    }

    fn file(&self, number: usize) -> PathBuf {
        self.scene.at(&format!("file-{number}"))
    }

    /// Writes the policy, with three versions.
    fn say(&self, active: u32, spec: &str) -> Result<()> {
        let head = "---\napiVersion: configdrift.io/v1alpha1\n";
        let mut text = format!(
            "{head}kind: Policy\nmetadata: {{name: p}}\nspec:\n  activeVersion: {active}.0.0\n  onRemove: remove\n{HEAL_AT_ONCE}{spec}"
        );
        for version in 1..=3 {
            text += &format!(
                "{head}kind: PolicyVersion\nmetadata: {{name: p-{version}}}\nspec:\n  policy: p\n  version: {version}.0.0\n  files:\n    - {{path: {}, content: {{inline: '{version}'}}}}\n",
                self.scene.at(&format!("only-{version}")).display()
            );
            for file in 0..FILES {
                let content = Value::from(content(file, version));
                text += &format!(
                    "    - {{path: {}, content: {{inline: {content}}}}}\n",
                    self.file(file).display()
                );
            }
        }
        let aside = self.scene.root().join("policy.new");
        fs::write(&aside, text)?;
        fs::rename(aside, self.scene.policies().join("policy.yaml"))?;
        Ok(())
    }

    fn command(&self, arguments: &[&str]) -> Result<Output> {
        Ok(Command::new(program())
            .args(arguments)
            .arg("--state")
            .arg(self.scene.root().join("state"))
            .output()?)
    }

    /// Runs a command that must come to an end with this status, and returns all it said.
    fn says(&self, arguments: &[&str], status: i32) -> Result<String> {
        let output = self.command(arguments)?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        ensure!(
            output.status.code() == Some(status),
            "{}: {said}",
            output.status
        );
        Ok(said)
    }

    fn is_at(&self, version: u32) -> Result<()> {
        for file in 0..FILES {
            let text = fs::read_to_string(self.file(file))?;
            ensure!(text == content(file, version), "file {file}: {text}");
        }
        let mut names: Vec<_> = fs::read_dir(self.scene.tree())?
            .map(|entry| Ok(entry?.file_name().display().to_string()))
            .collect::<Result<_>>()?;
        names.retain(|name| !name.starts_with("file-"));
        ensure!(names == [format!("only-{version}")], "{names:?}");
        Ok(())
    }
}

/// No path was healed on its own, and none is told to drift.
fn is_quiet(records: &[Value]) -> Result<()> {
    for record in records {
        let event = record["event"].as_str().context("an event")?;
        ensure!(!event.starts_with("config.drift"), "{record}");
    }
    Ok(())
}

/// B117, B142, B146: rolled back at once, as a whole, and nothing brings it back but another word of the Policy.
#[test]
fn what_was_rolled_back_never_comes_back_by_itself() -> Result<()> {
    if !is_built("what_was_rolled_back_never_comes_back_by_itself") {
        return Ok(());
    }
    let place = Place::new(1)?;
    let agent = Agent::start(
        &place.scene,
        &["--sensor", "scan", "--scan-interval", "100ms"],
    )?;
    let mark = agent.mark();
    place.say(2, "")?;
    let record = agent.activated(mark, "2.0.0")?;
    let message = record["message"].as_str().context("a message")?;
    ensure!(message == "it was 1.0.0; 22 paths written", "{message}");
    place.is_at(2)?;

    let rehearsed = place.says(&["rollback", "p", "--dry-run"], 0)?;
    ensure!(rehearsed.starts_with("`p` 2.0.0 -> 1.0.0\n"), "{rehearsed}");
    ensure!(rehearsed.contains(&format!(
        "would remove {}",
        place.scene.at("only-2").display()
    )));
    place.is_at(2)?;

    let mark_back = agent.mark();
    let said = place.says(&["rollback", "p", "--reason", "it was slow"], 0)?;
    ensure!(said == "`p` 2.0.0 -> 1.0.0\n22 paths written\n", "{said}");
    place.is_at(1)?;
    let record = agent.activated(mark_back, "1.0.0")?;
    let message = record["message"].as_str().context("a message")?;
    ensure!(
        message.contains("held instead of 2.0.0 by uid 0: it was slow")
            || message.contains("it was slow"),
        "{message}"
    );
    // Many scans, a reload, and a drift that is healed: to the version that is held.
    place.say(2, "  # nothing else\n")?;
    agent.signal(rustix::process::Signal::HUP)?;
    let mark_drift = agent.mark();
    is_quiet(&agent.since(mark)[..mark_drift - mark])?;
    fs::write(place.file(3), content(3, 2))?;
    agent.event(mark_drift, "config.drift.healed", &place.file(3))?;
    place.is_at(1)?;
    ensure!(agent.stop()?.success());

    // Nor does a restart.
    let agent = Agent::start(
        &place.scene,
        &["--sensor", "scan", "--scan-interval", "100ms"],
    )?;
    is_quiet(&agent.since(0))?;
    place.is_at(1)?;
    let mark = agent.mark();
    place.say(3, "")?;
    agent.activated(mark, "3.0.0")?;
    place.is_at(3)?;
    is_quiet(&agent.since(mark))?;
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B144, B148: a version that fails is told, kept out, and tried again when somebody asks.
#[test]
fn a_version_that_fails_changes_nothing_and_is_not_tried_again() -> Result<()> {
    if !is_built("a_version_that_fails_changes_nothing_and_is_not_tried_again") {
        return Ok(());
    }
    let place = Place::new(1)?;
    let agent = Agent::start(
        &place.scene,
        &["--sensor", "scan", "--scan-interval", "100ms"],
    )?;
    let in_the_way = place.scene.at("only-2");
    fs::create_dir(&in_the_way)?;
    fs::write(in_the_way.join("something"), "")?;
    let mark = agent.mark();
    place.say(2, "")?;
    let failed = agent.wait(mark, "a failure", |records| {
        let mut records = records.iter();
        records
            .find(|record| record["event"] == "config.policy.rejected")
            .cloned()
    })?;
    ensure!(failed["reason"] == "activation-failed", "{failed}");
    ensure!(failed["version"] == "2.0.0", "{failed}");
    let one = || {
        for file in 0..FILES {
            let text = fs::read_to_string(place.file(file)).map_err(|error| error.to_string())?;
            if text != content(file, 1) {
                return Err(text);
            }
        }
        Ok(())
    };
    one().map_err(anyhow::Error::msg)?;
    agent.signal(rustix::process::Signal::HUP)?;
    // Asked for, it is tried, and fails again.
    let said = place.says(&["activate", "p", "2.0.0"], 1)?;
    ensure!(
        said.contains("a directory that is not empty stands there"),
        "{said}"
    );
    // The answer may be there before the record. One failure came from the folder, one from whoever asked; none from the reload between them.
    let rejected = |records: &[Value]| {
        let of = |record: &&Value| record["event"] == "config.policy.rejected";
        records.iter().filter(of).count()
    };
    agent.wait(mark, "the second failure", |records| {
        (rejected(records) >= 2).then_some(())
    })?;
    ensure!(rejected(&agent.since(mark)) == 2);
    fs::remove_dir_all(&in_the_way)?;
    place.says(&["activate", "p", "2.0.0"], 0)?;
    place.is_at(2)?;
    let said = place.says(&["activate", "p", "2.0.0"], 0)?;
    ensure!(said == "`p` has the version 2.0.0 already\n", "{said}");
    for (arguments, expected) in [
        (
            ["activate", "p", "9.0.0"],
            "`p` has no version 9.0.0 in the policy folder",
        ),
        (["activate", "q", "1.0.0"], "there is no policy named `q`"),
        (["activate", "p", "new"], "`new` is not a version"),
    ] {
        let said = place.says(&arguments, 10)?;
        ensure!(said.contains(expected), "{said}");
    }
    ensure!(agent.stop()?.success());
    Ok(())
}

/// What changed while no agent ran is changed as a whole too, before anything is healed on its own.
#[test]
fn a_version_that_changed_while_no_agent_ran_comes_as_a_whole() -> Result<()> {
    if !is_built("a_version_that_changed_while_no_agent_ran_comes_as_a_whole") {
        return Ok(());
    }
    let place = Place::new(1)?;
    let scan = ["--sensor", "scan", "--scan-interval", "100ms"];
    let agent = Agent::start(&place.scene, &scan)?;
    // The state is written in the background.
    let kept = place.scene.root().join("state/last-good");
    let is_kept = || kept.exists().then_some(()).ok_or("not kept");
    wait::until(SOON, is_kept).map_err(anyhow::Error::msg)?;
    ensure!(agent.stop()?.success());
    place.say(2, "")?;
    // What somebody has done meanwhile goes with the version, and is kept.
    let edited = place.file(0);
    fs::write(&edited, "by hand, before 2\n")?;
    let agent = Agent::start(&place.scene, &scan)?;
    place.is_at(2)?;
    let records = agent.since(0);
    let (replaced, rest): (Vec<Value>, Vec<Value>) = records
        .into_iter()
        .partition(|record| record["reason"] == "replaced");
    let digest = |text: &str| format!("blake3:{}", blake3::hash(text.as_bytes()));
    ensure!(
        replaced.len() == 1
            && replaced[0]["path"] == edited.display().to_string()
            && replaced[0]["evidence"][0]["digest"] == digest("by hand, before 2\n"),
        "{replaced:?}"
    );
    is_quiet(&rest)?;
    ensure!(
        agent
            .errors()
            .contains("Changed while no agent ran: `p` 1.0.0 -> 2.0.0 (22 paths written)"),
        "{}",
        agent.errors()
    );
    ensure!(agent.stop()?.success());
    // And without an agent the command does it itself, if it is told where the policies are.
    let said = place.says(&["rollback", "p"], 1)?;
    ensure!(said.contains("--policies DIR"), "{said}");
    let policies = place.scene.policies().display().to_string();
    fs::write(&edited, "by hand, before 1\n")?;
    place.says(&["rollback", "p", "--policies", &policies], 0)?;
    place.is_at(1)?;
    let history = place.says(&["history", "-o", "jsonl"], 0)?;
    let kept = history
        .lines()
        .filter(|line| line.contains(&digest("by hand, before 1\n")));
    ensure!(kept.count() == 1, "{history}");
    Ok(())
}

/// Policies that need each other move together, though the first by name comes last: by a running agent, there and back.
#[test]
fn a_closure_moves_together_by_a_running_agent_whatever_its_names() -> Result<()> {
    if !is_built("a_closure_moves_together_by_a_running_agent_whatever_its_names") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let tree = scene.tree().display().to_string();
    let head = "---\napiVersion: configdrift.io/v1alpha1\n";
    let mut text = String::new();
    for (policy, needs) in [("app", Some("lib")), ("lib", Some("base")), ("base", None)] {
        text += &format!(
            "{head}kind: Policy\nmetadata: {{name: {policy}}}\nspec: {{activeVersion: 1.0.0, mode: heal}}\n"
        );
        for version in 1..=2 {
            let needs = needs.map_or(String::new(), |needs| {
                format!("  dependencies: [{{policy: {needs}, version: ^{version}}}]\n")
            });
            text += &format!(
                "{head}kind: PolicyVersion\nmetadata: {{name: {policy}-{version}}}\nspec:\n  policy: {policy}\n  version: {version}.0.0\n{needs}  files:\n    \
                 - {{path: {tree}/{policy}, content: {{inline: '{version}'}}}}\n"
            );
        }
        fs::write(scene.at(policy), "1")?;
    }
    fs::write(scene.policies().join("all.yaml"), text)?;
    let agent = Agent::start(&scene, &SCAN)?;
    let are = |version: &str| -> Result<()> {
        for policy in ["app", "lib", "base"] {
            let there = fs::read_to_string(scene.at(policy))?;
            ensure!(there == version, "{policy} has {there}");
        }
        Ok(())
    };
    says(&scene, &["activate", "app", "2.0.0"], 0)?;
    are("2")?;
    says(&scene, &["rollback", "app"], 0)?;
    are("1")?;
    agent.stop()?;
    Ok(())
}

/// Policies with a version each for 1 and 2, `app` needs the same one of `lib`; these are active.
fn two_policies(scene: &Scene, app: u32, lib: u32) -> Result<()> {
    let tree = scene.tree().display().to_string();
    let head = "---\napiVersion: configdrift.io/v1alpha1\n";
    let mut text = String::new();
    for (policy, active) in [("app", app), ("lib", lib)] {
        text += &format!(
            "{head}kind: Policy\nmetadata: {{name: {policy}}}\nspec: {{activeVersion: {active}.0.0, mode: heal}}\n"
        );
        for version in 1..=2 {
            let needs = match policy {
                "app" => format!("  dependencies: [{{policy: lib, version: ^{version}}}]\n"),
                _ => String::new(),
            };
            text += &format!(
                "{head}kind: PolicyVersion\nmetadata: {{name: {policy}-{version}}}\nspec:\n  policy: {policy}\n  version: {version}.0.0\n{needs}  files:\n    \
                 - {{path: {tree}/{policy}, content: {{inline: '{version}'}}}}\n"
            );
        }
    }
    let aside = scene.root().join("policy.new");
    fs::write(&aside, text)?;
    fs::rename(aside, scene.policies().join("all.yaml"))?;
    Ok(())
}

/// Versions that do not fit each other are never active: told with both policies, the versions and the range, over a start and against a hold
/// too.
#[test]
fn versions_that_do_not_fit_are_told_and_never_become_active() -> Result<()> {
    if !is_built("versions_that_do_not_fit_are_told_and_never_become_active") {
        return Ok(());
    }
    const UNFIT: &str = "`app` 1.0.0 needs `lib` ^1, and 2.0.0 is active";
    let scene = Scene::new()?;
    for policy in ["app", "lib"] {
        fs::write(scene.at(policy), "1")?;
    }
    let are = |app: &str, lib: &str| -> Result<()> {
        for (policy, version) in [("app", app), ("lib", lib)] {
            let there = fs::read_to_string(scene.at(policy))?;
            ensure!(there == version, "{policy} has {there}");
        }
        Ok(())
    };
    let is_told = |agent: &Agent, mark: usize, what: &str| -> Result<()> {
        let told = agent.wait(mark, "versions that do not fit", |records| {
            let mut records = records.iter();
            records
                .find(|record| {
                    record["event"] == "config.policy.rejected" && record["reason"] == "dependency"
                })
                .cloned()
        })?;
        let message = told["message"].as_str().context("a message")?;
        ensure!(message.contains(what), "{message}");
        Ok(())
    };
    two_policies(&scene, 1, 1)?;
    let agent = Agent::start(&scene, &SCAN)?;
    let mark = agent.mark();
    two_policies(&scene, 1, 2)?;
    is_told(&agent, mark, UNFIT)?;
    are("1", "1")?;
    // It is written in the background, and is what a start without good policies goes on with.
    let kept = scene.root().join("state/last-good");
    wait::until(SOON, || kept.exists().then_some(()).ok_or("not kept"))
        .map_err(anyhow::Error::msg)?;
    agent.kill()?;
    let agent = Agent::start(&scene, &SCAN)?;
    is_told(&agent, 0, UNFIT)?;
    are("1", "1")?;
    let mark = agent.mark();
    two_policies(&scene, 2, 2)?;
    agent.activated(mark, "2.0.0")?;
    wait::until(SOON, || are("2", "2"))?;
    // Both are held at 1. What app says next ends its hold alone, and what it says then does not fit what is held.
    let mark = agent.mark();
    says(&scene, &["rollback", "app", "--to", "1.0.0"], 0)?;
    agent.activated(mark, "1.0.0")?;
    are("1", "1")?;
    let mark = agent.mark();
    two_policies(&scene, 1, 2)?;
    let holds = scene.root().join("state/holds");
    wait::until(SOON, || match fs::read_to_string(&holds) {
        Ok(held) if held.contains("\"app\"") => Err(held),
        other => other.map(drop).map_err(|error| error.to_string()),
    })
    .map_err(|held| anyhow::anyhow!("app is held still: {held}"))?;
    two_policies(&scene, 2, 2)?;
    is_told(
        &agent,
        mark,
        "`app` 2.0.0 needs `lib` ^2, and 1.0.0 is active",
    )?;
    are("1", "1")?;
    agent.stop()?;
    Ok(())
}

/// Where a policy only watches there is no restorer, and none has read what was declared before.
#[test]
fn a_policy_that_only_watches_changes_its_version_beside_a_running_agent() -> Result<()> {
    if !is_built("a_policy_that_only_watches_changes_its_version_beside_a_running_agent") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let path = scene.at("app.conf");
    let declare = |version: &str, spec: &str| {
        scene.declare(version, spec, &[file("app.conf", &format!("{version}\n"))])
    };
    declare("1.0.0", DEFAULT)?;
    fs::write(&path, "1.0.0\n")?;
    let agent = Agent::start(&scene, &SCAN)?;
    let restorer = |wanted: &str| {
        wait::until(SOON, || {
            let output = Command::new(program())
                .args(["status", "-o", "json", "--state"])
                .arg(scene.root().join("state"))
                .output()
                .map_err(|error| error.to_string())?;
            let said: Value =
                serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
            if said["privilege"]["restorer"] == wanted {
                Ok(())
            } else {
                Err(said.to_string())
            }
        })
        .map_err(anyhow::Error::msg)
    };
    restorer("not-needed")?;
    // The same version under other terms, and then another one.
    declare("1.0.0", "  guard: {backoff: {first: 3s}}\n")?;
    restorer("at-work")?;
    for version in ["1.1.0", "1.2.0"] {
        let mark = agent.mark();
        declare(version, DEFAULT)?;
        agent.activated(mark, version)?;
        agent.event(mark, "config.drift.detected", &path)?;
        ensure!(fs::read_to_string(&path)? == "1.0.0\n");
    }
    let mark = agent.mark();
    declare("1.3.0", HEAL_AT_ONCE)?;
    agent.activated(mark, "1.3.0")?;
    wait::until(SOON, || match fs::read_to_string(&path) {
        Ok(text) if text == "1.3.0\n" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .map_err(anyhow::Error::msg)?;
    ensure!(agent.stop()?.success());

    // The first change that there is, beside an agent that has only watched so far.
    declare("1.3.0", DEFAULT)?;
    let agent = Agent::start(&scene, &SCAN)?;
    restorer("not-needed")?;
    let mark = agent.mark();
    declare("1.4.0", DEFAULT)?;
    agent.activated(mark, "1.4.0")?;
    agent.event(mark, "config.drift.detected", &path)?;
    ensure!(agent.stop()?.success());
    Ok(())
}
