//! One file system, one agent, every technique in folders of its own.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::Agent,
    scene::Scene,
    stage::{Kind, Mounts},
};
use rustix::fs::{XattrFlags, setxattr};
use serde_json::{Value, json};

use crate::{
    table::{Run, Table},
    technique::{Declares, TECHNIQUES, Technique},
};

const EVADE: &str = include_str!("evade.py");

/// What no event tells is found by then.
const SCAN: Duration = Duration::from_secs(45);

/// What is declared of each file, as `evade.py` has it.
fn declared() -> String {
    (0..400)
        .map(|n| format!("setting_{n:04} = value\n"))
        .collect()
}

/// A process that waits to use a technique.
struct Player {
    technique: &'static Technique,
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Player {
    fn ready(technique: &'static Technique, folders: &[PathBuf]) -> Result<Player> {
        let mut child = Command::new("python3")
            .args(["-c", EVADE, technique.function])
            .args(folders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting python3")?;
        let out = child.stdout.take().context("no standard output")?;
        let mut player = Player {
            technique,
            child,
            out: BufReader::new(out),
        };
        let mut line = String::new();
        player.out.read_line(&mut line)?;
        ensure!(line == "ready\n", "{}: {line:?}", technique.function);
        Ok(player)
    }

    fn go(&mut self) -> Result<()> {
        let mut to = self.child.stdin.take().context("gone already")?;
        Ok(to.write_all(b"\n")?)
    }

    /// What it says of each folder.
    fn end(mut self) -> Result<Vec<Value>> {
        let lines: Vec<String> = self.out.by_ref().lines().collect::<std::io::Result<_>>()?;
        let status = self.child.wait()?;
        ensure!(
            status.success(),
            "{} ended with {status}",
            self.technique.function
        );
        let values = lines.iter().map(|line| Ok(serde_json::from_str(line)?));
        values.collect()
    }
}

/// The file system, laid out and declared.
pub struct Ground {
    kind: Kind,
    runs: usize,
    tree: PathBuf,
    // Before the scene: what is mounted in it goes first.
    mounts: Mounts,
    scene: Scene,
}

impl Ground {
    pub fn lay_out(kind: Kind, runs: usize) -> Result<Ground> {
        let scene = Scene::new()?;
        let mounts = Mounts::of(&scene);
        let tree = kind.mount(&scene.elsewhere(), |place| {
            for technique in techniques(kind) {
                for folder in folders(place, technique, runs) {
                    lay_out(&folder, technique.declared)?;
                }
            }
            Ok(())
        })?;
        let ground = Ground {
            kind,
            runs,
            tree,
            mounts,
            scene,
        };
        ground.declare()?;
        Ok(ground)
    }

    fn declare(&self) -> Result<()> {
        let mut files = Vec::new();
        let mut links = Vec::new();
        for technique in techniques(self.kind) {
            for folder in folders(&self.tree, technique, self.runs) {
                let path = folder.join("g/p/f").display().to_string();
                let mut file = json!({
                    "path": path, "content": {"file": "declared"}, "mode": "0640", "owner": "0", "group": "0",
                });
                match technique.declared {
                    Declares::File => files.push(file),
                    Declares::Attributes => {
                        file["xattrs"] = json!({"user.drift": "declared"});
                        file["acl"] = json!(["user::rw-", "group::r--", "other::---"]);
                        file["capabilities"] = "none".into();
                        file["flags"] = json!([]);
                        files.push(file);
                    }
                    Declares::Link => links.push(json!({"path": path, "target": "..v1"})),
                    Declares::Through => {
                        let link = folder.join("g").display().to_string();
                        file["through"] = json!([{"path": link, "target": "real"}]);
                        files.push(file);
                    }
                }
            }
        }
        let policy = json!({
            "apiVersion": "configdrift.io/v1alpha1",
            "kind": "Policy",
            "metadata": {"name": "evasion"},
            "spec": {"activeVersion": "1.0.0"},
        });
        let version = json!({
            "apiVersion": "configdrift.io/v1alpha1",
            "kind": "PolicyVersion",
            "metadata": {"name": "evasion-1.0.0"},
            "spec": {"policy": "evasion", "version": "1.0.0", "files": files, "symlinks": links},
        });
        fs::write(self.scene.policies().join("declared"), declared())?;
        let file = self.scene.policies().join("evasion.yaml");
        fs::write(file, format!("{policy}\n---\n{version}\n"))?;
        Ok(())
    }

    /// Uses every technique beside a running agent, and notes what it made of them.
    pub fn play(self, table: &mut Table) -> Result<()> {
        let ready = |technique: &&'static Technique| {
            let folders: Vec<PathBuf> = folders(&self.tree, technique, self.runs).collect();
            Player::ready(technique, &folders)
        };
        let all = || techniques(self.kind);
        let mut slow = all()
            .filter(|technique| technique.is_before())
            .map(|technique| ready(&technique))
            .collect::<Result<Vec<_>>>()?;
        let seconds = format!("{}s", SCAN.as_secs());
        let agent = Agent::start(
            &self.scene,
            &["--sensor", "tracepoint", "--scan-interval", &seconds],
        )?;
        let start = Instant::now();
        let mark = agent.mark();
        for technique in all().filter(|technique| technique.is_slow() && !technique.is_before()) {
            slow.push(ready(&technique)?);
        }
        for player in &mut slow {
            player.go()?;
        }
        let mut said = Vec::new();
        for technique in all().filter(|technique| !technique.is_slow()) {
            let mut player = ready(&technique)?;
            player.go()?;
            said.push((technique, player.end()?));
        }
        for player in slow {
            said.push((player.technique, player.end()?));
        }
        let mut played = Vec::new();
        for (technique, values) in said {
            ensure!(values.len() == self.runs, "{}", technique.function);
            for value in values {
                played.push(Played::new(technique, &value)?);
            }
        }
        let end = start + SCAN + Duration::from_secs(20);
        loop {
            let records = agent.since(mark);
            let verdicts = verdicts(&records);
            let open = played.iter().filter(|played| !played.is_found(&verdicts));
            if open.count() == 0 || Instant::now() > end {
                break;
            }
            // The next record, or the end.
            let count = records.len();
            let more = |records: &[Value]| (records.len() > count).then_some(());
            if agent.wait(mark, "another record", more).is_err() && Instant::now() > end {
                break;
            }
        }
        let records = agent.since(mark);
        let verdicts = verdicts(&records);
        if env::var_os("DRIFT_EVASION_SAID").is_some() {
            eprintln!("{}", agent.all());
        }
        for played in &played {
            let run = played.judge(&records, &verdicts);
            table.add(self.kind, played.technique, run);
        }
        ensure!(agent.stop()?.success());
        self.mounts.clear()
    }
}

/// Those that the file system does not refuse.
fn techniques(kind: Kind) -> impl Iterator<Item = &'static Technique> {
    TECHNIQUES
        .iter()
        .filter(move |technique| !technique.refused_by.contains(&kind))
        .filter(|technique| is_wanted(technique))
}

/// Whether `DRIFT_EVASION_TECHNIQUES` names it, or nothing.
fn is_wanted(technique: &Technique) -> bool {
    let Ok(wanted) = env::var("DRIFT_EVASION_TECHNIQUES") else {
        return true;
    };
    wanted.split(',').any(|name| name == technique.function)
}

fn folders(tree: &Path, technique: &Technique, runs: usize) -> impl Iterator<Item = PathBuf> {
    let folder = tree.join(technique.function);
    (0..runs).map(move |run| folder.join(format!("{run:02}")))
}

fn lay_out(folder: &Path, declares: Declares) -> Result<()> {
    let parent = folder.join("g/p");
    if declares == Declares::Through {
        fs::create_dir_all(folder.join("real/p"))?;
        symlink("real", folder.join("g"))?;
    }
    fs::create_dir_all(&parent)?;
    let path = parent.join("f");
    if declares == Declares::Link {
        return Ok(symlink("..v1", path)?);
    }
    fs::write(&path, declared())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640))?;
    if declares == Declares::Attributes {
        setxattr(&path, "user.drift", b"declared", XattrFlags::empty())?;
    }
    Ok(())
}

/// What was done in one folder.
struct Played {
    technique: &'static Technique,
    path: PathBuf,
    /// Nanoseconds of the wall clock.
    began: i128,
    ended: i128,
    pids: Vec<u64>,
}

/// What was last said of a path that is not as declared.
type Verdicts<'r> = BTreeMap<&'r str, &'r Value>;

fn verdicts(records: &[Value]) -> Verdicts<'_> {
    let mut verdicts = Verdicts::new();
    for record in records {
        let Some(path) = record["path"].as_str() else {
            continue;
        };
        if record["event"] == "config.drift.detected" {
            verdicts.insert(path, record);
        } else if record["event"] == "config.drift.resolved" {
            verdicts.remove(path);
        }
    }
    verdicts
}

fn kinds(record: &Value) -> String {
    let kinds = record["drift"].as_array().into_iter().flatten();
    let kinds: Vec<&str> = kinds.filter_map(Value::as_str).collect();
    kinds.join("+")
}

/// When it was said, and when the change it tells of rang: nanoseconds of the wall clock.
fn moments(record: &Value) -> Option<(i128, Option<i128>)> {
    let told: jiff::Timestamp = record["time"].as_str()?.parse().ok()?;
    let told = told.as_nanosecond();
    let rang = record["seen_ns"].as_u64().map(|ago| told - i128::from(ago));
    Some((told, rang))
}

impl Played {
    fn new(technique: &'static Technique, value: &Value) -> Result<Played> {
        let number = |name: &str| value[name].as_u64().context("a number").map(i128::from);
        let folder = value["folder"].as_str().context("a folder")?;
        let pids = value["pids"].as_array().context("numbers")?;
        Ok(Played {
            technique,
            path: Path::new(folder).join("g/p/f"),
            began: number("began")?,
            ended: number("ended")?,
            pids: pids.iter().filter_map(Value::as_u64).collect(),
        })
    }

    /// Whether a record says what stands there now.
    fn is_right(&self, record: &Value) -> bool {
        if kinds(record) != self.technique.drift {
            return false;
        }
        if !self.technique.drift.starts_with("content") {
            return true;
        }
        let Ok(bytes) = fs::read(&self.path) else {
            return false;
        };
        let digest = format!("blake3:{}", blake3::hash(&bytes).to_hex());
        record["observed"]["digest"] == digest.as_str()
    }

    fn is_found(&self, verdicts: &Verdicts<'_>) -> bool {
        let verdict = verdicts.get(self.path.to_str().unwrap_or_default());
        match verdict {
            Some(record) => !self.technique.is_harmless() && self.is_right(record),
            None => self.technique.is_harmless(),
        }
    }

    fn judge(&self, records: &[Value], verdicts: &Verdicts<'_>) -> Run {
        let own = records
            .iter()
            .filter(|record| record["path"].as_str() == self.path.to_str())
            .filter(|record| moments(record).is_some_and(|(told, _)| told >= self.began));
        let found = self.is_found(verdicts);
        let wrong = own.clone().filter(|record| {
            let pid = record["actor"]["pid"].as_u64();
            pid.is_some_and(|pid| !self.pids.contains(&pid))
        });
        let wrong: Vec<String> = wrong.map(Value::to_string).collect();
        let told = own
            .clone()
            .find(|record| record["event"] == "config.drift.detected" && self.is_right(record));
        let late = |moment: i128| (moment - self.ended) as f64 / 1e6;
        let times = told.and_then(moments);
        Run {
            found,
            by_event: told.is_some_and(|record| record["cause"] == "kernel"),
            rang: times.and_then(|(_, rang)| rang).map(late),
            told: times.map(|(told, _)| late(told)),
            named: told.is_some_and(|record| record["actor"]["pid"].is_u64()),
            wrong,
            said: own.map(Value::to_string).collect(),
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // A failing test must not leave it behind.
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}
