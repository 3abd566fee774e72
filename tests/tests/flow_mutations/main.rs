//! Every mutation of every kind of target, on five file systems: each has exactly the drift that is in the table.

mod cell;
mod mutation;
mod stage;
mod table;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use drift_tests::{
    agent::{is_built, program},
    scene::Scene,
    skip::skip,
};
use serde_json::{Value, json};

use cell::{CHILD, Cell, declared};
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
        other => of(other).path(),
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
            let content = json!({"file": "declared"});
            let (list, spec) = match column {
                Column::File => (
                    "files",
                    json!({"content": content, "mode": "0640", "owner": "0", "group": "0"}),
                ),
                Column::Bare => ("files", json!({"content": content})),
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
    let output = Command::new(program())
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

/// The cells that are not as the table says.
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

#[test]
fn every_mutation_of_every_target_has_exactly_its_kinds_of_drift() -> Result<()> {
    const TEST: &str = "every_mutation_of_every_target_has_exactly_its_kinds_of_drift";
    if !is_built(TEST) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        skip(TEST, "mounting file systems and making devices need root");
        return Ok(());
    }
    let rows = rows()?;
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    fs::write(scene.policies().join("declared"), declared())?;

    let mut stages = Vec::new();
    for kind in Kind::ALL {
        if let Some(lacks) = kind.lacks() {
            skip(&format!("{TEST} ({})", kind.name()), &lacks);
            continue;
        }
        let lay_out = |place: &Path| -> Result<()> {
            for (number, row) in rows.iter().enumerate() {
                for cell in cells(place, number, row, kind.name()) {
                    cell.prepare()?;
                }
            }
            Ok(())
        };
        let tree = kind.mount(&scene.elsewhere().join(kind.name()), lay_out);
        let tree = tree.with_context(|| kind.name())?;
        declare(&scene, kind, &rows, &tree)?;
        stages.push((kind, tree));
    }
    let (status, found) = check(&scene)?;
    ensure!(
        status == 0 && found.is_empty(),
        "laid out, and not as declared: {found:?}"
    );

    for (kind, tree) in &stages {
        for (number, row) in rows.iter().enumerate() {
            let mutate = mutation::find(row.mutation)
                .with_context(|| format!("nobody knows how: {}", row.mutation))?;
            for cell in cells(tree, number, row, kind.name()) {
                mutate(&cell).with_context(|| {
                    format!("{}: {}: {}", kind.name(), row.mutation, cell.column.name())
                })?;
            }
        }
    }
    let (status, mut found) = check(&scene)?;
    let mut all = 0;
    let mut text = String::new();
    for (kind, tree) in &stages {
        let (cells, wrong) = wrong(*kind, &rows, tree, &mut found);
        all += cells;
        text.push_str(&wrong);
    }
    let head = ["of", "mutation", "target", "expected", "found"];
    if !text.is_empty() {
        let [of, mutation, target, expected, found] = head;
        bail!("wrong:\n{of:<8}{mutation:<46}{target:<12}{expected:<20}{found}\n{text}");
    }
    ensure!(found.is_empty(), "paths that nobody asked about: {found:?}");
    ensure!(status == 7, "unexpected, missing and changed: {status}");
    println!(
        "{} mutations, {} targets, {} file systems: {all} cells, all right",
        rows.len(),
        Column::ALL.len(),
        stages.len()
    );
    mounts.clear()
}
