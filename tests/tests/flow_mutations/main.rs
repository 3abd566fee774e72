//! Every mutation of every kind of target, on five file systems: each has exactly the drift that is in the table.

mod cell;
mod mutation;
mod stage;
mod table;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use drift_tests::{
    agent::{Agent, has_probes, is_built, program},
    scene::{DEFAULT, Scene},
    skip::skip,
};
use serde_json::{Value, json};

use cell::{CHILD, Cell, MANAGED, WAY, declared, make_directory, make_file, make_link};
use stage::{Kind, Mounts};
use table::{Column, Row, rows};

/// Where a row's target of that column is.
fn folder(tree: &Path, number: usize, column: Column) -> PathBuf {
    tree.join(format!("{number:03}")).join(column.name())
}

/// The cells of a row that apply, but for those that are in another's.
fn cells(tree: &Path, number: usize, row: &Row, file_system: &str) -> Vec<Cell> {
    let columns = Column::ALL.into_iter();
    columns
        .filter(|column| *column != Column::Child)
        .filter(|column| row.expected(file_system, *column).is_some())
        .map(|column| Cell {
            folder: folder(tree, number, column),
            column,
        })
        .collect()
}

/// The declared path of a cell.
fn path(tree: &Path, number: usize, column: Column) -> PathBuf {
    let of = |column| Cell {
        folder: folder(tree, number, column),
        column,
    };
    match column {
        Column::Child => of(Column::Exhaustive).inside("child"),
        Column::Through => of(column).way().join("p"),
        other => of(other).path(),
    }
}

/// The file with what is declared of the column's files.
fn content(column: Column) -> &'static str {
    match column {
        Column::Yaml => "declared-yaml",
        Column::Json => "declared-json",
        _ => "declared",
    }
}

/// A version that declares every cell of the table.
fn version(kind: Kind, rows: &[Row], tree: &Path) -> Value {
    let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (number, row) in rows.iter().enumerate() {
        for column in Column::ALL {
            if row.expected(kind.name(), column).is_none() {
                continue;
            }
            let path = path(tree, number, column).display().to_string();
            let content = json!({"file": content(column)});
            let (list, spec) = match column {
                Column::File => (
                    "files",
                    json!({"content": content, "mode": "0640", "owner": "0", "group": "0"}),
                ),
                Column::Through => (
                    "files",
                    json!({
                        "content": content, "mode": "0640", "owner": "0", "group": "0",
                        "through": [{"path": folder(tree, number, column).join("way"), "target": WAY}],
                    }),
                ),
                Column::Bare => ("files", json!({"content": content})),
                Column::Yaml => (
                    "files",
                    json!({"content": content, "compare": {"format": "yaml"}}),
                ),
                Column::Json => (
                    "files",
                    json!({"content": content, "compare": {"format": "json"}}),
                ),
                Column::Managed => (
                    "files",
                    json!({"content": content, "compare": {"format": "keyvalue", "manage": [MANAGED]}}),
                ),
                Column::Attributed => (
                    "files",
                    json!({
                        "content": content,
                        "xattrs": {"user.drift": "declared"},
                        "acl": ["user::rw-", "user:2:r--", "group::r--", "mask::r--", "other::---"],
                        "capabilities": "none",
                        "flags": [],
                    }),
                ),
                Column::Child => ("files", json!({"content": {"inline": CHILD}})),
                Column::Dir => (
                    "directories",
                    json!({"mode": "0750", "owner": "0", "group": "0"}),
                ),
                Column::Exhaustive => (
                    "directories",
                    json!({"mode": "0750", "owner": "0", "group": "0", "exhaustive": true, "ignore": ["*.bak"]}),
                ),
                Column::Link => (
                    "symlinks",
                    json!({"target": "target", "owner": "0", "group": "0"}),
                ),
                Column::Absent => ("absent", json!({})),
                Column::Mask => ("masks", json!({})),
            };
            let mut spec = spec;
            spec["path"] = path.into();
            lists.entry(list).or_default().push(spec);
        }
    }
    let name = kind.name();
    let mut spec = json!({"policy": name, "version": "1.0.0"});
    for (list, specs) in lists {
        spec[list] = specs.into();
    }
    json!({
        "apiVersion": "configdrift.io/v1alpha1",
        "kind": "PolicyVersion",
        "metadata": {"name": format!("{name}-1.0.0")},
        "spec": spec,
    })
}

/// Writes the policy of one file system.
fn declare(scene: &Scene, kind: Kind, rows: &[Row], tree: &Path) -> Result<()> {
    let policy = json!({
        "apiVersion": "configdrift.io/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": kind.name()},
        "spec": {"activeVersion": "1.0.0"},
    });
    let version = version(kind, rows, tree);
    let file = scene.policies().join(format!("{}.yaml", kind.name()));
    fs::write(file, format!("{policy}\n---\n{version}\n"))?;
    Ok(())
}

/// What one check found: the kinds of each path that has any, and the status.
fn check(scene: &Scene) -> Result<(i32, BTreeMap<PathBuf, String>)> {
    check_with(Command::new(program()), scene)
}

fn check_with(mut agent: Command, scene: &Scene) -> Result<(i32, BTreeMap<PathBuf, String>)> {
    let output = agent
        .arg("check")
        .arg("--policies")
        .arg(scene.policies())
        .args(["-o", "jsonl"])
        .output()?;
    let status = output.status.code().context("ended by a signal")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(status != 10, "{errors}");
    let mut found = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let record: Value = serde_json::from_str(line)?;
        let path = record["path"].as_str().context("no path")?;
        let kinds = record["drift"].as_array().context("no drift")?;
        let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
        let before = found.insert(PathBuf::from(path), kinds.join("+"));
        ensure!(before.is_none(), "{path} is told twice");
    }
    Ok((status, found))
}

/// The cells that are not as the table says, and how many there are in all.
fn wrong(
    kind: Kind,
    rows: &[Row],
    tree: &Path,
    found: &mut BTreeMap<PathBuf, String>,
) -> (usize, String) {
    let mut text = String::new();
    let mut cells = 0;
    for (number, row) in rows.iter().enumerate() {
        for column in Column::ALL {
            let Some(expected) = row.expected(kind.name(), column) else {
                continue;
            };
            cells += 1;
            let found = found.remove(&path(tree, number, column));
            let found = found.as_deref().unwrap_or("ok");
            if found != expected {
                // Writing into a String cannot fail.
                let (file_system, column) = (kind.name(), column.name());
                writeln!(
                    text,
                    "{file_system:<8}{:<46}{column:<12}{expected:<20}{found}",
                    row.mutation
                )
                .ok();
            }
        }
    }
    (cells, text)
}

/// The table, laid out on every file system that this machine has.
#[derive(Debug)]
struct Play {
    rows: Vec<Row>,
    stages: Vec<(Kind, PathBuf)>,
    // Before the scene: what is mounted in it goes first.
    mounts: Mounts,
    scene: Scene,
}

impl Play {
    fn lay_out(test: &str) -> Result<Play> {
        let scene = Scene::new()?;
        let mut play = Play {
            rows: rows()?,
            stages: Vec::new(),
            mounts: Mounts::of(&scene),
            scene,
        };
        for column in [Column::File, Column::Yaml, Column::Json] {
            fs::write(
                play.scene.policies().join(content(column)),
                declared(column),
            )?;
        }
        for kind in Kind::ALL {
            if let Some(lacks) = kind.lacks() {
                skip(&format!("{test} ({})", kind.name()), &lacks);
                continue;
            }
            let lay_out = |place: &Path| -> Result<()> {
                for (number, row) in play.rows.iter().enumerate() {
                    for cell in cells(place, number, row, kind.name()) {
                        cell.prepare()?;
                    }
                }
                Ok(())
            };
            let tree = kind.mount(&play.scene.elsewhere().join(kind.name()), lay_out);
            let tree = tree.with_context(|| kind.name())?;
            declare(&play.scene, kind, &play.rows, &tree)?;
            play.stages.push((kind, tree));
        }
        Ok(play)
    }

    fn mutate(&self) -> Result<()> {
        for (kind, tree) in &self.stages {
            for (number, row) in self.rows.iter().enumerate() {
                let mutate = mutation::find(row.mutation)
                    .with_context(|| format!("nobody knows how: {}", row.mutation))?;
                for cell in cells(tree, number, row, kind.name()) {
                    mutate(&cell).with_context(|| {
                        format!("{}: {}: {}", kind.name(), row.mutation, cell.column.name())
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Holds what was found against the table: how many cells that were.
    fn judge(&self, mut found: BTreeMap<PathBuf, String>) -> Result<usize> {
        let mut all = 0;
        let mut text = String::new();
        for (kind, tree) in &self.stages {
            let (cells, wrong) = wrong(*kind, &self.rows, tree, &mut found);
            all += cells;
            text.push_str(&wrong);
        }
        if !text.is_empty() {
            let [of, mutation, target, expected, found] =
                ["of", "mutation", "target", "expected", "found"];
            bail!("wrong:\n{of:<8}{mutation:<46}{target:<12}{expected:<20}{found}\n{text}");
        }
        ensure!(found.is_empty(), "paths that nobody asked about: {found:?}");
        Ok(all)
    }

    fn end(self, cells: usize) -> Result<()> {
        println!(
            "{} mutations, {} targets, {} file systems: {cells} cells, all right",
            self.rows.len(),
            Column::ALL.len(),
            self.stages.len()
        );
        self.mounts.clear()
    }
}

fn may_mount(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(test, "mounting file systems and making devices need root");
    }
    root
}

#[test]
fn every_mutation_of_every_target_has_exactly_its_kinds_of_drift() -> Result<()> {
    const TEST: &str = "every_mutation_of_every_target_has_exactly_its_kinds_of_drift";
    if !is_built(TEST) || !may_mount(TEST) {
        return Ok(());
    }
    let play = Play::lay_out(TEST)?;
    let (status, found) = check(&play.scene)?;
    ensure!(
        status == 0 && found.is_empty(),
        "laid out, and not as declared: {found:?}"
    );
    play.mutate()?;
    let (status, found) = check(&play.scene)?;
    let cells = play.judge(found)?;
    ensure!(status == 7, "unexpected, missing and changed: {status}");
    play.end(cells)
}

/// What was last said of each path that is not as declared.
fn verdicts(records: &[Value]) -> BTreeMap<PathBuf, String> {
    let mut verdicts = BTreeMap::new();
    for record in records {
        let Some(path) = record["path"].as_str().map(PathBuf::from) else {
            continue;
        };
        if record["event"] == "config.drift.detected" {
            let kinds = record["drift"].as_array().into_iter().flatten();
            let kinds: Vec<&str> = kinds.filter_map(Value::as_str).collect();
            verdicts.insert(path, kinds.join("+"));
        } else if record["event"] == "config.drift.resolved" {
            verdicts.remove(&path);
        }
    }
    verdicts
}

#[test]
fn the_kernel_tells_of_every_mutation_that_counts() -> Result<()> {
    const TEST: &str = "the_kernel_tells_of_every_mutation_that_counts";
    if !has_probes(TEST) || !may_mount(TEST) {
        return Ok(());
    }
    let play = Play::lay_out(TEST)?;
    let agent = Agent::start(&play.scene, &["--sensor", "tracepoint"])?;
    let mark = agent.mark();
    play.mutate()?;
    // Whatever is told in between, in the end each path is judged as it is then.
    let settled = agent.wait(mark, "the table", |records| {
        play.judge(verdicts(records)).ok()
    });
    let cells = match settled {
        Ok(cells) => cells,
        Err(_) => play.judge(verdicts(&agent.since(mark)))?,
    };
    // None by looking at everything after a while. (A mount rings nobody: it is found in the sweep that all the changes beside it ask for.)
    let said = agent.since(mark);
    let other = said
        .iter()
        .find(|record| record["event"] == "config.drift.detected" && record["cause"] != "kernel");
    ensure!(other.is_none(), "not from the kernel: {other:?}");
    ensure!(agent.stop()?.success());
    play.end(cells)
}

#[test]
fn what_may_not_be_read_is_unreadable_and_the_rest_is_judged() -> Result<()> {
    const TEST: &str = "what_may_not_be_read_is_unreadable_and_the_rest_is_judged";
    if !is_built(TEST) || !may_mount(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    fs::set_permissions(scene.root(), fs::Permissions::from_mode(0o755))?;
    scene.declare_spec(
        "1.0.0",
        DEFAULT,
        r"files:
    - {path: TREE/closed, content: {inline: x}}
    - {path: TREE/closed-mode, content: {inline: x}, mode: '0600'}
    - {path: TREE/open, content: {inline: x}}
    - {path: TREE/other, content: {inline: x}}
    - {path: TREE/closed.d/below, content: {inline: x}}
  directories:
    - {path: TREE/closed.d}
    - {path: TREE/closed-exhaustive.d, exhaustive: true}
    - {path: TREE/listed.d, exhaustive: true}
  symlinks:
    - {path: TREE/closed-link, target: closed}
  absent:
    - {path: TREE/closed.d/nothing}
    - {path: TREE/nothing}
",
    )?;
    for (name, content, mode) in [
        ("closed", "x", 0o600),
        ("closed-mode", "x", 0o600),
        ("open", "x", 0o644),
        ("other", "y", 0o644),
    ] {
        make_file(&scene.at(name), content.as_bytes(), mode)?;
    }
    for (name, mode) in [
        ("closed.d", 0o700),
        ("closed-exhaustive.d", 0o711),
        ("listed.d", 0o755),
    ] {
        make_directory(&scene.at(name), mode)?;
    }
    make_link(&scene.at("closed-link"), "closed")?;
    // Where others can reach it.
    let agent = scene.root().join("agent");
    fs::copy(program(), &agent)?;
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&agent);
    let (status, found) = check_with(command, &scene)?;
    let expected = [
        ("closed", "unreadable"),
        ("closed-mode", "unreadable"),
        ("other", "content"),
        ("closed.d", "unreadable"),
        ("closed.d/below", "unreadable"),
        ("closed.d/nothing", "unreadable"),
        ("closed-exhaustive.d", "unreadable"),
    ];
    let expected: BTreeMap<PathBuf, String> = expected
        .map(|(name, kind)| (scene.at(name), kind.to_owned()))
        .into();
    ensure!(found == expected, "{found:#?}");
    ensure!(status == 16 | 4, "{status}");
    Ok(())
}
