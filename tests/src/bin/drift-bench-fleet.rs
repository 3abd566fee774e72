//! Many agents' ways to and from a cluster, in one process, and what they ask of its API server: `cargo xtask bench fleet`.
//!
//! Each of them watches and writes as an agent does, by the agent's own library. In place of a pipeline there is one that says at once that all is as declared.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use drift_agent::{
    cluster::{self, Notices, Source},
    report::{Event, Record},
    serve::{Asked, Body, Desk, Status},
    store::{DEFAULT_QUOTA, Store},
};
use drift_tests::{
    cluster::Cluster,
    middle::{self, Middle},
    plane::{Daemon, Plane},
};
use serde_json::json;
use tokio::{sync::mpsc, time};

const NAMESPACE: &str = "fleet";
/// For all of them to have heard something.
const PATIENCE: Duration = Duration::from_secs(300);
/// What was heard first has been written by then, and what is written less often begins.
const SETTLE: Duration = Duration::from_secs(60);
/// How soon a node sees that its policy folder has changed.
const LOOK: Duration = Duration::from_millis(200);

fn main() -> Result<()> {
    let numbers: Vec<u64> = env::args()
        .skip(1)
        .map_while(|word| word.parse().ok())
        .collect();
    let [agents, quiet, away] = numbers[..] else {
        bail!("needs how many agents, and how many seconds of quiet and of an outage");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut fleet = Fleet::new(usize::try_from(agents)?)?;
    runtime.block_on(fleet.start())?;
    println!("{agents} agents, of one policy; requests of all of them\n");
    println!(
        " {:<50} {:>8} {:>9} {:>11} {:>12}",
        "", "seconds", "requests", "most in 1 s", "1/s an agent"
    );
    let heard = fleet.all_have(1, fleet.begun)?;
    fleet.row("the first start of all at once", fleet.begun, heard);
    std::thread::sleep(SETTLE);
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(quiet));
    fleet.row("quiet", begun, begun.elapsed());

    fleet.plane.kill(Daemon::ApiServer)?;
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(away));
    fleet.row("the API server is away", begun, begun.elapsed());
    fleet.plane.begin(Daemon::ApiServer)?;
    fleet.plane.is_ready()?;
    let begun = Instant::now();
    fleet.declare(2)?;
    let heard = fleet.all_have(2, begun)?;
    fleet.row(
        "it is there again: until all have a new version",
        begun,
        heard,
    );
    let told = fleet.all_told(2, begun)?;
    fleet.row("and until all have told that they have it", begun, told);
    Ok(())
}

struct Fleet {
    plane: Plane,
    middle: Middle,
    folder: tempfile::TempDir,
    store: Arc<Store>,
    /// Which version each node has, 1.N.0.
    versions: Arc<Vec<AtomicUsize>>,
    begun: Instant,
}

impl Fleet {
    fn new(agents: usize) -> Result<Self> {
        let cluster = Cluster::find("fleet").context("no cluster: cargo xtask bench fleet")?;
        let plane = Plane::start(&cluster)?;
        plane.namespace(NAMESPACE)?;
        for number in 0..agents {
            plane.node(&name(number), "web")?;
        }
        let middle = Middle::start(plane.target().clone())?;
        let folder = tempfile::Builder::new().prefix("drift-fleet-").tempdir()?;
        middle.kubeconfig(&folder.path().join("kubeconfig"))?;
        let own = folder.path().join("store");
        fs::create_dir(&own)?;
        let store = Arc::new(Store::open(&own, DEFAULT_QUOTA)?);
        let mut versions = Vec::new();
        versions.resize_with(agents, || AtomicUsize::new(0));
        let fleet = Self {
            plane,
            middle,
            folder,
            store,
            versions: Arc::new(versions),
            begun: Instant::now(),
        };
        fleet.declare(1)?;
        Ok(fleet)
    }

    fn declare(&self, number: usize) -> Result<()> {
        let (version, api) = (format!("1.{number}.0"), "configdrift.io/v1alpha1");
        let object = json!({"apiVersion": api, "kind": "PolicyVersion", "metadata": {"name": format!("app-{version}")},
            "spec": {"policy": "app", "version": version, "files": [{"path": "/etc/app.conf", "content": {"inline": version}}]}});
        self.plane.apply("policyversions", NAMESPACE, &object)?;
        let policy = json!({"apiVersion": api, "kind": "Policy", "metadata": {"name": "app"},
            "spec": {"activeVersion": version, "nodeSelector": {"role": "web"}}});
        self.plane.apply("policies", NAMESPACE, &policy).map(drop)
    }

    async fn start(&mut self) -> Result<()> {
        self.begun = Instant::now();
        for number in 0..self.versions.len() {
            let state = self.folder.path().join(name(number));
            fs::create_dir(&state)?;
            let source = Source {
                kubeconfig: Some(self.folder.path().join("kubeconfig")),
                node: name(number),
                files: None,
            };
            let link = cluster::follow(source, &state).await?;
            let (ask, asked) = mpsc::channel(8);
            let soak = Duration::from_secs(60);
            let desk = Arc::new(Desk::new(ask, Arc::clone(&self.store), None, soak));
            let notices = link.notices();
            link.publish(desk);
            let versions = Arc::clone(&self.versions);
            let file = cluster::policies(&state).join(format!("{NAMESPACE}.yaml"));
            tokio::spawn(node(number, file, asked, notices, versions));
        }
        Ok(())
    }

    /// Waits until every node has this version. How long after `begun`.
    fn all_have(&self, version: usize, begun: Instant) -> Result<Duration> {
        let end = Instant::now() + PATIENCE;
        let has = |of: &AtomicUsize| of.load(Ordering::Relaxed) == version;
        loop {
            let count = self.versions.iter().filter(|of| has(of)).count();
            if count == self.versions.len() {
                return Ok(begun.elapsed());
            }
            ensure!(
                Instant::now() < end,
                "{count} nodes have version 1.{version}.0"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until every NodeDrift says that its node has this version. How long after `begun`.
    fn all_told(&self, version: usize, begun: Instant) -> Result<Duration> {
        let end = Instant::now() + PATIENCE;
        let version = format!("1.{version}.0");
        loop {
            let path = "/apis/configdrift.io/v1alpha1/nodedrifts?resourceVersion=0";
            let list = self.plane.target().ask("GET", path, None)?;
            let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
            let told = items
                .iter()
                .filter(|item| item["status"]["agentVersion"] == *version);
            let told = told.count();
            if told == self.versions.len() {
                return Ok(begun.elapsed());
            }
            ensure!(
                Instant::now() < end,
                "{told} have told that they have {version}"
            );
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// What was asked from `begun` on, for so long.
    fn row(&self, what: &str, begun: Instant, time: Duration) {
        let mut asked = self.middle.asked(begun);
        asked.retain(|asked| asked.at < begun + time);
        let each = asked.len() as f64 / time.as_secs_f64() / self.versions.len() as f64;
        println!(
            " {what:<50} {:>8.1} {:>9} {:>11} {each:>12.4}",
            time.as_secs_f64(),
            asked.len(),
            middle::peak(&asked)
        );
    }
}

fn name(number: usize) -> String {
    format!("fleet-{number:04}")
}

/// In place of a pipeline: its files are as declared, whatever is declared.
async fn node(
    number: usize,
    file: PathBuf,
    mut asked: mpsc::Receiver<Asked>,
    notices: Notices,
    versions: Arc<Vec<AtomicUsize>>,
) {
    let mut look = time::interval(LOOK);
    let mut version = String::new();
    loop {
        tokio::select! {
            Some(asked) = asked.recv() => {
                // Who no longer waits needs no answer.
                let _unheard = status(number, &version).map(|status| asked.answer.send(Body::Status(Box::new(status))));
            }
            _ = look.tick() => {
                if let Some((text, now)) = active(&file) && text != version {
                    version = text;
                    versions[number].store(now, Ordering::Relaxed);
                    let mut record = Record::new(Event::PolicyActivated);
                    record.policy = Some(format!("{NAMESPACE}.app"));
                    record.version = Some(version.clone());
                    notices.push(&record);
                }
            }
        }
    }
}

fn status(number: usize, version: &str) -> Result<Status> {
    let status = json!({"node": name(number), "health": "healthy", "reasons": [], "agent": version, "policies": [], "drifts": [],
        "sensor": {"name": "btf", "hooks_attached": 30, "hooks": 30, "cannot_see": []}});
    Ok(serde_json::from_value(status)?)
}

/// The version that a namespace's file says is active, and its number.
fn active(file: &Path) -> Option<(String, usize)> {
    let text = fs::read_to_string(file).ok()?;
    let (_, rest) = text.split_once("\"activeVersion\":\"")?;
    let version = rest.split('"').next()?;
    let number = version.split('.').nth(1)?.parse().ok()?;
    Some((version.to_owned(), number))
}
