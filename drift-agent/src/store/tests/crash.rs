//! Killed at any step, the store is as it was before or as it should have become.
//!
//! A copy of this test program does the work under `strace`, which kills it at the n-th call of those that change the disk, for each n.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use super::*;
use crate::declare::Sources;

/// Where the killed one works; not set: this is not the killed one.
const WORK: &str = "DRIFT_STORE_CRASH";

/// The calls that change the disk.
const CALLS: &str = "openat,openat2,write,pwrite64,fsync,fdatasync,syncfs,ftruncate,renameat,renameat2,unlinkat,mkdirat,mkdir";

/// The sweep takes fewer steps on a slow machine rather than longer.
const MOST_TIME: Duration = Duration::from_secs(40);

fn sources(content: &str) -> Sources {
    let policies = (PathBuf::from("web.yaml"), content.as_bytes().into());
    Sources::from([
        policies,
        ("large".into(), noise(content.len() as u64, 9000).into()),
    ])
}

const OLD: &str = "old";
const NEW: &str = "new content";
const FOLDER: &str = "/etc/drift/policies";

fn activation(version: &str) -> Activation {
    Activation {
        seen: Seen {
            policy: "web".to_owned(),
            version: version.to_owned(),
            digest: blake3::hash(version.as_bytes()),
        },
        declaration: None,
        blobs: std::collections::BTreeSet::default(),
    }
}

/// Everything that writes.
fn work(dir: &Path, version: &str, content: &str) -> Result<(), StoreError> {
    let store = Store::open(dir, DEFAULT_QUOTA)?;
    let now = SystemTime::now();
    let activation = activation(version);
    store
        .state()
        .admit(std::slice::from_ref(&activation.seen), now)?;
    store.state().activate(&[activation], now)?;
    store.save(Path::new(FOLDER), &sources(content), now)?;
    store.restore(Path::new(FOLDER))?;
    let io = StoreError::io("keep the history");
    let mut history = HistoryWriter::open(dir, Bounds::default(), now).map_err(&io)?;
    for part in ["begun", "done"] {
        let record = format!("{version} {part}");
        history.append([&*record].into_iter(), now).map_err(&io)?;
        history.sync(now).map_err(&io)?;
    }
    Ok(())
}

/// What the history has, oldest first. Nothing in it is damaged.
fn history(dir: &Path, what: &str) -> Vec<String> {
    let mut records = Vec::new();
    let past = read_history(dir, None, |record| records.push(record.to_owned())).expect(what);
    assert_eq!(past.damaged, 0, "{what}");
    records
}

#[test]
fn the_one_that_is_killed() {
    if let Some(dir) = std::env::var_os(WORK) {
        work(Path::new(&dir), "2.0.0", NEW).expect("the work");
    }
}

/// Does the work, killed at call `number`. Whether it was killed; `None`: there is no strace here that can do it.
fn killed_at(dir: &Path, number: usize) -> Option<bool> {
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e"])
        .arg(format!("trace={CALLS}"))
        .arg("-e")
        .arg(format!("inject={CALLS}:signal=KILL:when={number}"))
        .arg(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "store::tests::crash::the_one_that_is_killed",
            "--test-threads=1",
        ])
        .env(WORK, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    match (status.signal(), status.code()) {
        (Some(9), _) => Some(true),
        (_, Some(0)) => Some(false),
        _ => None,
    }
}

/// Looks at what a kill has left.
fn check(dir: &Path, what: &str) {
    let store = open(dir);
    assert_eq!(store.notes(), [""; 0], "{what}");
    let all = ["1.0.0 begun", "1.0.0 done", "2.0.0 begun", "2.0.0 done"];
    let kept = history(dir, what);
    assert!(
        kept.len() >= 2 && all.starts_with(&kept.iter().map(String::as_str).collect::<Vec<_>>()),
        "{what}: {kept:?}"
    );
    let active = store.state().active().expect(what);
    assert!(
        ["1.0.0", "2.0.0"].contains(&active["web"].as_str()),
        "{what}"
    );
    let restored = store.restore(Path::new(FOLDER)).expect(what).expect(what);
    let text = fs::read_to_string(restored.folder.join("web.yaml")).expect(what);
    let large = fs::read(restored.folder.join("large")).expect(what);
    assert!([OLD, NEW].contains(&text.as_str()), "{what}");
    assert_eq!(large, noise(text.len() as u64, 9000), "{what}");
    drop(store);
    // And it goes on from there.
    work(dir, "2.0.0", NEW).expect(what);
    let on = [
        &kept[..],
        &all[2..]
            .iter()
            .map(|record| (*record).to_owned())
            .collect::<Vec<_>>(),
    ]
    .concat();
    assert_eq!(history(dir, what), on, "{what}");
    let names = fs::read_dir(dir).expect("a folder");
    let left = names.filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.as_encoded_bytes().starts_with(b".new-")
    });
    assert_eq!(left.count(), 0, "{what}");
}

#[test]
fn killed_at_any_step_it_is_as_before_or_as_it_should_have_become() {
    let started = Instant::now();
    let mut kills = 0;
    let mut number = 1;
    loop {
        let dir = folder();
        work(dir.path(), "1.0.0", OLD).expect("the old state");
        match killed_at(dir.path(), number) {
            Some(true) => {}
            Some(false) => break,
            None if number == 1 => {
                eprintln!("SKIPPED: strace cannot trace here (PTRACE_TRACEME)");
                return;
            }
            None => panic!("the work itself failed at call {number}"),
        }
        check(dir.path(), &format!("killed at call {number}"));
        kills += 1;
        // The first calls are the loader's; a slow machine leaves some out.
        number += if started.elapsed() > MOST_TIME / 2 {
            7
        } else {
            1
        };
        if started.elapsed() > MOST_TIME {
            break;
        }
    }
    assert!(kills > 10, "only {kills} kills, of {number} calls");
}
