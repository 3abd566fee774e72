//! Random things happen to a random tree of which random things are declared. A model in memory, which shares no code with the agent, says what
//! drift there must be: none is missed, none is false. Then all is healed, and what healing promises must hold.
//!
//! `cargo xtask sweep` is the long run of it.

mod declaration;
mod heal;
mod model;
mod operation;

use std::{
    cell::Cell,
    env, fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use drift_agent::{
    compare, declare,
    observe::{Host, observe},
};
use drift_tests::skip::skip;
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner},
};

use declaration::{Declaration, declaration, laying_out, policy, verdict};
use model::Model;
use operation::{Operation, Tree, operation};

/// What was counted over all sequences.
#[derive(Debug, Default)]
struct Count {
    sequences: Cell<usize>,
    operations: Cell<usize>,
    refused: Cell<usize>,
    verdicts: Cell<usize>,
    drifting: Cell<usize>,
    missed: Cell<usize>,
    wrong: Cell<usize>,
    not_healable: Cell<usize>,
}

fn add(to: &Cell<usize>, more: usize) {
    to.set(to.get() + more);
}

/// A folder in memory, where there is one: nothing here is about disks, and healing syncs each file.
fn scratch() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    builder.prefix("drift-oracle-");
    if memory.is_dir() {
        return Ok(builder.tempdir_in(memory)?);
    }
    Ok(builder.tempdir()?)
}

/// One sequence, from an empty tree to a healed one.
fn sequence(
    folder: &Path,
    declaration: &Declaration,
    operations: &[Operation],
    count: &Count,
) -> Result<()> {
    let (policies, root) = (folder.join("policies"), folder.join("tree"));
    for folder in [&policies, &root] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir(folder)?;
    }
    let shown = root.display().to_string();
    fs::write(policies.join("p.yaml"), policy(declaration, &shown))?;
    let snapshot = declare::load(&policies, Path::new("/"), None);
    let snapshot = snapshot.map_err(|why| anyhow::anyhow!("{why}"))?;
    ensure!(
        snapshot.files.len() == declaration.len(),
        "not all is declared"
    );

    let tree = Tree::new(root.clone())?;
    let mut model = Model::new();
    for operation in laying_out(declaration) {
        both(&tree, &mut model, &operation, count)?;
    }
    judge(&root, &snapshot, declaration, &model, count)?;
    for operation in operations {
        both(&tree, &mut model, operation, count)?;
    }
    ensure!(
        tree.read()?.listing() == model.listing(),
        "the model is not what is there: {:#?} {:#?}",
        tree.read()?.listing(),
        model.listing()
    );
    judge(&root, &snapshot, declaration, &model, count)?;
    let host = Host::new(Path::new("/"))?;
    let left = heal::check(&tree, &host, &snapshot.files, declaration)?;
    add(&count.not_healable, left);
    judge(&root, &snapshot, declaration, &tree.read()?, count)?;
    add(&count.sequences, 1);
    Ok(())
}

/// Does one operation to the tree and to the model, which must agree on whether it can be done.
fn both(tree: &Tree, model: &mut Model, operation: &Operation, count: &Count) -> Result<()> {
    // What is refused changes nothing, and what is refused half-way is half done in both.
    let imagined = operation.imagine(model).is_some();
    let performed = tree.perform(operation);
    add(&count.operations, 1);
    add(&count.refused, usize::from(performed.is_err()));
    ensure!(
        imagined == performed.is_ok(),
        "{operation:?}: the model says {imagined}, the kernel {performed:?}"
    );
    Ok(())
}

/// Holds what the agent finds against what the model says.
fn judge(
    root: &Path,
    snapshot: &declare::Snapshot,
    declaration: &Declaration,
    model: &Model,
    count: &Count,
) -> Result<()> {
    let host = Host::new(Path::new("/"))?;
    for path in declaration.keys() {
        let expected = verdict(model, declaration, path);
        let place: PathBuf = root.join(path.join("/"));
        let declared = heal::of(&snapshot.files, &place)?;
        let observed = observe(&host, declared, None, &mut |_| {});
        let found = compare::differences(declared, &observed);
        let found: Vec<&str> = found.iter().map(|drift| drift.name()).collect();
        add(&count.verdicts, 1);
        add(&count.drifting, usize::from(!expected.is_empty()));
        let missed = expected.iter().filter(|kind| !found.contains(kind)).count();
        let wrong = found.iter().filter(|kind| !expected.contains(kind)).count();
        add(&count.missed, missed);
        add(&count.wrong, wrong);
        ensure!(
            found == expected,
            "{}: {expected:?} is right, and {found:?} was found",
            path.join("/")
        );
    }
    Ok(())
}

fn number(name: &str, otherwise: u64) -> Result<u64> {
    match env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text}")),
        Err(_) => Ok(otherwise),
    }
}

#[test]
fn no_drift_is_missed_and_none_is_false_whatever_happens_to_a_tree() -> Result<()> {
    const TEST: &str = "no_drift_is_missed_and_none_is_false_whatever_happens_to_a_tree";
    if !rustix::process::geteuid().is_root() {
        skip(TEST, "giving files away needs root");
        return Ok(());
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let sequences = number("DRIFT_ORACLE_SEQUENCES", 1_000)?;
    let seed = number("DRIFT_ORACLE_SEED", 1)?;
    let folder = scratch()?;
    let count = Count::default();
    let config = Config {
        cases: u32::try_from(sequences)?,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let everything = (declaration(), prop::collection::vec(operation(), 0..30));
    let start = Instant::now();
    let outcome = runner.run(&everything, |(declaration, operations)| {
        sequence(folder.path(), &declaration, &operations, &count)
            .map_err(|why| TestCaseError::fail(format!("{why:#}")))
    });
    println!(
        "oracle: seed {seed}: {} sequences, {} operations ({} refused), {} verdicts ({} of drift): {} missed, {} false; {} could not be healed, rightly; {:.1} s",
        count.sequences.get(),
        count.operations.get(),
        count.refused.get(),
        count.verdicts.get(),
        count.drifting.get(),
        count.missed.get(),
        count.wrong.get(),
        count.not_healable.get(),
        start.elapsed().as_secs_f64()
    );
    outcome.map_err(|failure| anyhow::anyhow!("DRIFT_ORACLE_SEED={seed}: {failure}"))
}
