//! Changes of versions that somebody stops by hand, in each of their phases, and what is kept of what they take away: on the built agent.

use std::{fs, path::PathBuf, thread};

use anyhow::{Context, Result, anyhow, bail, ensure};
use drift_tests::{
    agent::{Agent, SOON, is_built},
    command::says,
    privilege::{SCAN, restorer},
    scene::{HEAL_AT_ONCE, Scene},
    wait::until,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Enough to be met while they are staged.
const FILES: usize = 300;

/// What the name of a staged file begins with.
const STAGED: &str = ".drift-";

struct Place {
    scene: Scene,
}

impl Place {
    fn new() -> Result<Self> {
        let place = Self {
            scene: Scene::new()?,
        };
        for file in 0..FILES {
            fs::write(place.file(file), "1")?;
        }
        place.say(1)?;
        Ok(place)
    }

    fn file(&self, number: usize) -> PathBuf {
        self.scene.at(&format!("file-{number}"))
    }

    /// The policy with two versions, this one active.
    fn say(&self, active: u32) -> Result<()> {
        let head = "---\napiVersion: configdrift.io/v1alpha1\n";
        let mut text = format!(
            "{head}kind: Policy\nmetadata: {{name: p}}\nspec:\n  activeVersion: {active}.0.0\n{HEAL_AT_ONCE}"
        );
        for version in 1..=3 {
            text += &format!(
                "{head}kind: PolicyVersion\nmetadata: {{name: p-{version}}}\nspec:\n  policy: p\n  version: {version}.0.0\n  files:\n"
            );
            for file in 0..FILES {
                text += &format!(
                    "    - {{path: {}, content: {{inline: '{version}'}}}}\n",
                    self.file(file).display()
                );
            }
        }
        let aside = self.scene.root().join("policy.new");
        fs::write(&aside, text)?;
        fs::rename(aside, self.scene.policies().join("policy.yaml"))?;
        Ok(())
    }

    fn is_at(&self, version: &str) -> Result<()> {
        for file in 0..FILES {
            let text = fs::read_to_string(self.file(file))?;
            ensure!(text == version, "file {file}: {text}");
        }
        ensure!(!self.is_staging()?, "something staged is left");
        Ok(())
    }

    fn is_staging(&self) -> Result<bool> {
        for entry in fs::read_dir(self.scene.tree())? {
            if entry?.file_name().to_string_lossy().starts_with(STAGED) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn state(&self, name: &str) -> PathBuf {
        self.scene.root().join("state").join(name)
    }

    /// What `status` says of the policy.
    fn policy(&self) -> Result<Value> {
        let (_, out, err) = drift_tests::command::run(&self.scene, &["status", "-o", "json"])?;
        let status: Value = serde_json::from_str(&out).context(err)?;
        Ok(status["policies"][0].clone())
    }

    fn is_held(&self, at: &str, instead_of: &str, why: &str) -> Result<()> {
        let policy = self.policy()?;
        let hold = &policy["hold"];
        ensure!(
            policy["version"] == at && hold["instead_of"] == instead_of,
            "{policy}"
        );
        ensure!(
            hold["reason"]
                .as_str()
                .is_some_and(|reason| reason.contains(why)),
            "{policy}"
        );
        ensure!(
            policy["failed"].as_array().is_none_or(Vec::is_empty),
            "{policy}"
        );
        Ok(())
    }

    /// The folder is read again, and the version that it says does not come.
    fn stays(&self, agent: &Agent) -> Result<()> {
        let mark = agent.mark();
        agent.signal(Signal::HUP)?;
        fs::write(self.file(0), "by hand")?;
        agent.event(mark, "config.drift.healed", &self.file(0))?;
        self.is_at("1")
    }
}

fn aborted(agent: &Agent, mark: usize) -> Result<Value> {
    agent.wait(mark, "what was aborted", |records| {
        let mut records = records.iter();
        records
            .find(|record| record["reason"] == "aborted")
            .cloned()
    })
}

/// B145: a change that waits for a pause is aborted, held, and told; the end of the pause does not bring it; `activate` does.
#[test]
fn b145_a_change_that_waits_is_aborted_and_does_not_come_after_the_pause() -> Result<()> {
    if !is_built("b145_a_change_that_waits_is_aborted_and_does_not_come_after_the_pause") {
        return Ok(());
    }
    let place = Place::new()?;
    let agent = Agent::start(&place.scene, &SCAN)?;
    let said = says(&place.scene, &["abort", "p"], 10)?;
    ensure!(said.contains("no change of `p` is under way"), "{said}");
    let said = says(&place.scene, &["abort", "q"], 10)?;
    ensure!(said.contains("there is no policy `q`"), "{said}");
    says(&place.scene, &["pause", "--reason", "freeze"], 0)?;
    let mark = agent.mark();
    place.say(2)?;
    agent.wait(mark, "a version that waits", |records| {
        let mut records = records.iter();
        records
            .any(|record| record["version"] == "2.0.0" && record["reason"] == "paused")
            .then_some(())
    })?;
    let mark = agent.mark();
    let said = says(&place.scene, &["abort", "p", "--reason", "not today"], 0)?;
    ensure!(
        said.contains("`p` 1.0.0 -> 2.0.0 was aborted by uid 0")
            && said.contains("not today")
            && said.contains("holds `p` at 1.0.0"),
        "{said}"
    );
    let record = aborted(&agent, mark)?;
    ensure!(
        record["event"] == "config.policy.rejected" && record["version"] == "2.0.0",
        "{record}"
    );
    place.is_held("1.0.0", "2.0.0", "not today")?;
    says(&place.scene, &["resume"], 0)?;
    place.stays(&agent)?;
    ensure!(agent.stop()?.success());
    // Nor does a start.
    let agent = Agent::start(&place.scene, &SCAN)?;
    place.stays(&agent)?;
    let mark = agent.mark();
    says(&place.scene, &["activate", "p", "2.0.0"], 0)?;
    agent.activated(mark, "2.0.0")?;
    place.is_at("2")?;
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B145: a change is aborted before its first step and half-way, by the folder's word and by somebody's: nothing has changed. What is decided
/// comes, and that is said.
#[test]
fn b145_a_change_is_aborted_until_it_is_decided_and_not_after() -> Result<()> {
    if !is_built("b145_a_change_is_aborted_until_it_is_decided_and_not_after") {
        return Ok(());
    }
    let place = Place::new()?;
    let agent = Agent::start(&place.scene, &SCAN)?;
    let pid = Pid::from_raw(restorer(&place.scene)?).context("a process")?;
    let stop = || kill_process(pid, Signal::STOP);
    let go_on = || kill_process(pid, Signal::CONT);
    // Asks while the restorer stands still, which then goes on; what the command said, and what the other one did.
    let abort = |expected: i32| -> Result<String> {
        // What was left of the last time is no answer.
        fs::remove_file(place.state("abort")).ok();
        thread::scope(|scope| {
            let scene = &place.scene;
            let asking =
                scope.spawn(move || says(scene, &["abort", "p", "--reason", "stop"], expected));
            let is_asked = until(SOON, || {
                let is_there = place.state("abort").exists();
                (is_there || asking.is_finished())
                    .then_some(is_there)
                    .ok_or(())
            });
            // Where nothing is under way yet the restorer stands still, for the next try.
            if is_asked != Ok(false) {
                go_on()?;
            }
            asking.join().map_err(|_| anyhow!("a panic"))?
        })
    };

    // 0 %: nothing is staged.
    stop()?;
    let mark = agent.mark();
    place.say(2)?;
    // It is under way when the folder was read.
    let said = until(SOON, || abort(0)).or_else(|error| {
        go_on()?;
        Err(error)
    })?;
    ensure!(said.contains("was aborted"), "{said}");
    aborted(&agent, mark)?;
    place.is_at("1")?;
    place.is_held("1.0.0", "2.0.0", "stop")?;
    place.stays(&agent)?;

    // Half-way: some of it is staged, and it is not decided.
    let mut caught = false;
    for attempt in 0..20 {
        let (from, to) = if attempt % 2 == 0 { ("1", 3) } else { ("1", 2) };
        place.say(to)?;
        until(SOON, || match place.is_staging() {
            Ok(true) => Ok(()),
            other => Err(other),
        })
        .map_err(|seen| anyhow!("nothing was staged: {seen:?}"))?;
        stop()?;
        let journal = fs::read_to_string(place.state("journal")).unwrap_or_default();
        if journal.contains("Intended") {
            abort(0)?;
            place.is_at(from)?;
            place.is_held("1.0.0", &format!("{to}.0.0"), "stop")?;
            caught = true;
            break;
        }
        // Too late: it comes.
        let mark = agent.mark();
        go_on()?;
        agent.activated(mark, &format!("{to}.0.0"))?;
        says(&place.scene, &["rollback", "p", "--to", "1.0.0"], 0)?;
    }
    ensure!(caught, "never met between its first step and its commit");

    // What somebody asked for is answered, and nothing is held of it.
    stop()?;
    let said = thread::scope(|scope| -> Result<String> {
        let asked = scope.spawn(|| says(&place.scene, &["activate", "p", "2.0.0"], 1));
        let stopped = until(SOON, || abort(0)).or_else(|error| {
            go_on()?;
            Err(error)
        });
        stopped?;
        asked.join().map_err(|_| anyhow!("a panic"))?
    })?;
    ensure!(
        said.contains("was aborted by uid 0") && said.contains("Nothing was changed"),
        "{said}"
    );
    place.is_at("1")?;

    // Decided: it comes, and how to go back is said.
    let mut told = None;
    for _ in 0..20 {
        let said = thread::scope(|scope| -> Result<Option<String>> {
            let asked = scope.spawn(|| says(&place.scene, &["activate", "p", "2.0.0"], 0));
            let met = until(SOON, || {
                let journal = fs::read_to_string(place.state("journal")).unwrap_or_default();
                (journal.contains("Committed") || asked.is_finished())
                    .then(|| journal.contains("Committed"))
                    .ok_or(())
            });
            stop()?;
            let is_committed = met == Ok(true)
                && fs::read_to_string(place.state("journal"))
                    .is_ok_and(|journal| journal.contains("Committed"));
            let said = if is_committed {
                Some(abort(10)?)
            } else {
                go_on()?;
                None
            };
            asked.join().map_err(|_| anyhow!("a panic"))??;
            Ok(said)
        })?;
        place.is_at("2")?;
        if said.is_some() {
            told = said;
            break;
        }
        says(&place.scene, &["rollback", "p", "--to", "1.0.0"], 0)?;
    }
    let Some(told) = told else {
        bail!("never met after its commit")
    };
    ensure!(
        told.contains("was decided already") && told.contains("rollback `p` --to 1.0.0"),
        "{told}"
    );
    says(&place.scene, &["rollback", "p", "--to", "1.0.0"], 0)?;
    place.is_at("1")?;
    ensure!(agent.stop()?.success());
    Ok(())
}

/// What had drifted when the versions changed is kept, told at its path, and shown; what was as declared is not.
#[test]
fn what_a_change_of_versions_takes_away_is_kept_and_shown() -> Result<()> {
    if !is_built("what_a_change_of_versions_takes_away_is_kept_and_shown") {
        return Ok(());
    }
    let place = Place::new()?;
    let agent = Agent::start(&place.scene, &SCAN)?;
    says(&place.scene, &["pause", "--reason", "by hand"], 0)?;
    let mark = agent.mark();
    fs::write(place.file(7), "what somebody had to have")?;
    agent.event(mark, "config.drift.detected", &place.file(7))?;
    let mark = agent.mark();
    says(&place.scene, &["activate", "p", "2.0.0"], 0)?;
    place.is_at("2")?;
    let kept = agent.event(mark, "config.policy.activated", &place.file(7))?;
    ensure!(
        kept["reason"] == "replaced"
            && kept["version"] == "2.0.0"
            && kept["drift"] == serde_json::json!(["content"])
            && kept["evidence"][0]["digest"] == kept["observed"]["digest"],
        "{kept}"
    );
    let records = agent.since(mark);
    ensure!(
        records
            .iter()
            .filter(|record| record["reason"] == "replaced")
            .count()
            == 1
    );
    let path = place.file(7).display().to_string();
    let lines = until(SOON, || {
        let said = says(&place.scene, &["history", &path, "-o", "jsonl"], 0)?;
        let found = said.contains("replaced");
        found
            .then_some(said)
            .ok_or_else(|| anyhow!("not there yet"))
    })?;
    ensure!(!lines.contains("what somebody had"), "{lines}");
    let table = says(&place.scene, &["history", &path], 0)?;
    ensure!(table.contains("replaced"), "{table}");
    let id = kept["id"].as_str().context("an id")?;
    let shown = says(&place.scene, &["history", "--show", id], 0)?;
    ensure!(
        shown.contains("+++ replaced")
            && shown.contains("-1")
            && shown.contains("+what somebody had to have"),
        "{shown}"
    );
    ensure!(agent.stop()?.success());
    Ok(())
}
