//! What goes wrong between a node and its API server: while it does, drift is healed; no older version comes into force; afterwards news are heard, and nobody
//! asks more than he should. `cargo xtask sweep cluster` tries a thousand.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use drift_tests::{
    agent::{Agent, is_built, program},
    cluster::Cluster,
    middle::{Asked, Fault, Middle, peak},
    plane::{Daemon, Plane},
    scene::Scene,
    wait,
};
use rustix::process::Signal;
use serde_json::{Value, json};

const NAMESPACE: &str = "drift-faults";
const NODE: &str = "faults-a";
/// For news to be heard after the longest pause between two tries.
const HEARD: Duration = Duration::from_secs(60);
/// For a heal.
const HEALED: Duration = Duration::from_secs(10);
/// Requests of one agent within a second: its four watches, each begun anew after an error, what it writes, and tries of these.
const MOST: usize = 24;
/// How long what is done on the way is done.
const SPELL: Duration = Duration::from_millis(1500);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ApiKilled,
    EtcdKilled,
    ApiStopped,
    EtcdStopped,
    Restored,
    Cut,
    Gone,
    Busy,
    Broken,
    Away,
    Slow,
    Late,
    Twice,
}

impl Kind {
    const ALL: [Kind; 13] = [
        Kind::ApiKilled,
        Kind::EtcdKilled,
        Kind::ApiStopped,
        Kind::EtcdStopped,
        Kind::Restored,
        Kind::Cut,
        Kind::Gone,
        Kind::Busy,
        Kind::Broken,
        Kind::Away,
        Kind::Slow,
        Kind::Late,
        Kind::Twice,
    ];

    const fn name(self) -> &'static str {
        match self {
            Kind::ApiKilled => "API server killed",
            Kind::EtcdKilled => "etcd killed",
            Kind::ApiStopped => "API server stopped",
            Kind::EtcdStopped => "etcd stopped",
            Kind::Restored => "etcd from an older backup",
            Kind::Cut => "watches cut",
            Kind::Gone => "410, also in a watch",
            Kind::Busy => "429",
            Kind::Broken => "500",
            Kind::Away => "503",
            Kind::Slow => "slow",
            Kind::Late => "events out of order",
            Kind::Twice => "events again",
        }
    }
}

/// What `cargo xtask sweep cluster` says in the environment.
fn asked(name: &str, otherwise: usize) -> usize {
    let said = env::var(name).ok();
    said.and_then(|count| count.parse().ok())
        .unwrap_or(otherwise)
}

/// A node, and who stands between it and its API server.
struct Ground {
    agent: Agent,
    middle: Middle,
    plane: Plane,
    path: PathBuf,
    /// The version in force, 1.N.0.
    now: usize,
    scene: Scene,
}

impl Ground {
    fn new(cluster: &Cluster) -> Result<Self> {
        let plane = Plane::start(cluster)?;
        plane.namespace(NAMESPACE)?;
        plane.node(NODE, "web")?;
        let middle = Middle::start(plane.target().clone())?;
        let scene = Scene::new()?;
        let config = scene.root().join("kubeconfig");
        middle.kubeconfig(&config)?;
        let path = scene.at("app.conf");
        let mut command = Command::new(program());
        command
            .args(["run", "--source", "crd", "--sensor", "scan"])
            .args(["--node-name", NODE, "--kubeconfig"])
            .arg(config);
        let ground = Self {
            agent: Agent::start_as(command, &scene)?,
            middle,
            plane,
            path,
            now: 1,
            scene,
        };
        ground.declare(1)?;
        ground.is_in_force(0, 1)?;
        Ok(ground)
    }

    fn text(number: usize) -> String {
        format!("version 1.{number}.0\n")
    }

    /// Makes a version, and the active one.
    fn declare(&self, number: usize) -> Result<()> {
        self.declare_in(NAMESPACE, &self.path, number, &json!({}))
    }

    fn declare_in(
        &self,
        namespace: &str,
        path: &Path,
        number: usize,
        annotations: &Value,
    ) -> Result<()> {
        let (version, api) = (format!("1.{number}.0"), "configdrift.io/v1alpha1");
        let object = json!({"apiVersion": api, "kind": "PolicyVersion", "metadata": {"name": format!("app-{version}")},
            "spec": {"policy": "app", "version": version, "files": [{"path": path, "content": {"inline": Self::text(number)}}]}});
        self.plane.apply("policyversions", namespace, &object)?;
        let policy = json!({"apiVersion": api, "kind": "Policy", "metadata": {"name": "app", "annotations": annotations},
            "spec": {"activeVersion": version, "mode": "heal", "guard": {"backoff": {"first": "0s"}}, "nodeSelector": {"role": "web"}}});
        self.plane.apply("policies", namespace, &policy).map(drop)
    }

    /// That it is, soon, and how long that took.
    fn is_in_force(&self, mark: usize, number: usize) -> Result<Duration> {
        let (start, version) = (Instant::now(), format!("1.{number}.0"));
        let is_there = || {
            let records = self.agent.since(mark);
            let there = records.iter().any(|record| {
                record["event"] == "config.policy.activated" && record["version"] == *version
            });
            if there { Ok(()) } else { Err(()) }
        };
        wait::until(HEARD, is_there).map_err(|()| {
            anyhow::anyhow!("version {version} is not in force\n{}", self.agent.errors())
        })?;
        self.holds(number)?;
        Ok(start.elapsed())
    }

    fn holds(&self, number: usize) -> Result<()> {
        self.holds_at(&self.path, number)
    }

    fn holds_at(&self, path: &Path, number: usize) -> Result<()> {
        let text = Self::text(number);
        let found = wait::until(HEALED, || match fs::read_to_string(path) {
            Ok(found) if found == text => Ok(()),
            other => Err(format!("{other:?}")),
        });
        found.map_err(|found| {
            let path = path.display();
            anyhow::anyhow!("{path} is {found}, not {text:?}\n{}", self.agent.errors())
        })
    }

    fn says(&self, what: &str) -> Result<()> {
        let said = wait::until(HEARD, || {
            let said = self.agent.errors();
            if said.contains(what) {
                Ok(())
            } else {
                Err(said)
            }
        });
        said.map_err(|said| anyhow::anyhow!("it does not say `{what}`: {said}"))
    }

    /// Drift is healed to the version in force. How long that takes.
    fn drift(&self) -> Result<Duration> {
        let start = Instant::now();
        fs::write(&self.path, "drift\n")?;
        self.holds(self.now)?;
        Ok(start.elapsed())
    }

    /// Waits until the agent has asked for something `times` times.
    fn asks(&self, since: Instant, times: usize) -> Result<()> {
        let asked = wait::until(HEARD, || match self.middle.asked(since).len() {
            count if count >= times => Ok(()),
            count => Err(count),
        });
        asked.map_err(|count| anyhow::anyhow!("it has asked {count} times, not {times}"))
    }

    /// One fault, and what is said after it, which is heard.
    fn one(&mut self, kind: Kind) -> Result<Observed> {
        let (mark, start) = (self.agent.mark(), Instant::now());
        let healed = self.fault(kind)?;
        let next = self.now + 1;
        let after = Instant::now();
        self.declare(next)?;
        self.is_in_force(mark, next)?;
        let heard = after.elapsed();
        self.now = next;
        self.never_went_back(mark)?;
        let asked = self.middle.asked(start);
        let most = peak(&asked);
        ensure!(
            most <= MOST,
            "{most} requests within a second: {}",
            list(&asked)
        );
        // Versions that nobody needs any more.
        for old in next.saturating_sub(8)..next.saturating_sub(4) {
            let name = format!("app-1.{old}.0");
            let _gone = self.plane.delete("policyversions", NAMESPACE, &name);
        }
        Ok(Observed {
            healed,
            heard,
            asked: asked.len(),
            peak: most,
        })
    }

    /// One fault from its beginning to its end, with a drift while it lasts. How long the heal took.
    fn fault(&mut self, kind: Kind) -> Result<Duration> {
        match kind {
            Kind::ApiKilled => self.killed(Daemon::ApiServer),
            Kind::EtcdKilled => self.killed(Daemon::Etcd),
            Kind::ApiStopped => self.stopped(Daemon::ApiServer),
            Kind::EtcdStopped => self.stopped(Daemon::Etcd),
            Kind::Restored => self.restored(),
            Kind::Cut => {
                self.middle.cut();
                let healed = self.drift()?;
                self.middle.cut();
                Ok(healed)
            }
            Kind::Gone => self.on_the_way(Fault::Answer(410)),
            Kind::Busy => self.on_the_way(Fault::Answer(429)),
            Kind::Broken => self.on_the_way(Fault::Answer(500)),
            Kind::Away => self.on_the_way(Fault::Answer(503)),
            Kind::Slow => self.on_the_way(Fault::Slow(Duration::from_millis(400))),
            Kind::Late => self.mangled(Fault::Late),
            Kind::Twice => self.mangled(Fault::Twice),
        }
    }

    fn killed(&mut self, daemon: Daemon) -> Result<Duration> {
        self.plane.kill(daemon)?;
        let healed = self.drift();
        thread::sleep(SPELL);
        self.plane.begin(daemon)?;
        self.plane.is_ready()?;
        healed
    }

    fn stopped(&mut self, daemon: Daemon) -> Result<Duration> {
        self.plane.signal(daemon, Signal::STOP)?;
        let healed = self.drift();
        thread::sleep(SPELL);
        self.plane.signal(daemon, Signal::CONT)?;
        self.plane.is_ready()?;
        healed
    }

    /// The version in force is newer than the backup.
    fn restored(&mut self) -> Result<Duration> {
        self.plane.back_up()?;
        self.plane.age(NAMESPACE)?;
        let mark = self.agent.mark();
        self.declare(self.now + 1)?;
        self.is_in_force(mark, self.now + 1)?;
        self.now += 1;
        self.plane.lose_and_restore()?;
        let healed = self.drift()?;
        let start = Instant::now();
        self.begin_both()?;
        let path = format!("/apis/configdrift.io/v1alpha1/namespaces/{NAMESPACE}/policies/app");
        let there = self.plane.target().ask("GET", &path, None)?;
        let older = format!("1.{}.0", self.now - 1);
        ensure!(
            there["spec"]["activeVersion"] == *older,
            "it was not set back: {there}"
        );
        // It has seen what is there now: all four lists.
        self.asks(start, 4)?;
        Ok(healed.max(self.drift()?))
    }

    fn begin_both(&mut self) -> Result<()> {
        self.plane.begin(Daemon::Etcd)?;
        self.plane.begin(Daemon::ApiServer)?;
        self.plane.is_ready()
    }

    fn on_the_way(&mut self, fault: Fault) -> Result<Duration> {
        let start = Instant::now();
        self.middle.set(fault);
        match fault {
            Fault::Answer(410) => self.middle.expire(),
            _ => self.middle.cut(),
        }
        let healed = self.drift();
        // What is said meanwhile is heard later.
        self.declare(self.now + 1)?;
        thread::sleep(SPELL.saturating_sub(start.elapsed()));
        self.middle.set(Fault::None);
        if healed.is_ok() {
            self.now += 1;
        }
        healed
    }

    /// Two changes; the agent hears of the older one last.
    fn mangled(&mut self, fault: Fault) -> Result<Duration> {
        self.middle.set(fault);
        let mark = self.agent.mark();
        self.declare(self.now + 1)?;
        self.declare(self.now + 2)?;
        self.is_in_force(mark, self.now + 2)?;
        self.now += 2;
        let healed = self.drift();
        self.middle.set(Fault::None);
        healed
    }

    /// That the versions that came into force since are each higher than the one before.
    fn never_went_back(&self, mark: usize) -> Result<()> {
        let records = self.agent.since(mark);
        let activated = records
            .iter()
            .filter(|record| record["event"] == "config.policy.activated");
        let numbers: Vec<usize> = activated
            .filter_map(|record| record["version"].as_str()?.split('.').nth(1)?.parse().ok())
            .collect();
        ensure!(
            numbers.is_sorted(),
            "an older version came into force: {numbers:?}"
        );
        Ok(())
    }
}

/// Faults that are tried by several nodes side by side, each with an API server and an etcd of its own.
struct Trial {
    faults: usize,
    next: AtomicUsize,
    tallies: Mutex<BTreeMap<Kind, Tally>>,
}

impl Trial {
    /// Takes one fault after the other until there is none left. Where something is not as it should be, the others stop, too.
    fn of_a_node(&self, cluster: &Cluster) -> Result<()> {
        let tried = self.faults_of_a_node(cluster);
        if tried.is_err() {
            self.next.store(self.faults, Ordering::Relaxed);
        }
        tried
    }

    fn faults_of_a_node(&self, cluster: &Cluster) -> Result<()> {
        let mut ground = Ground::new(cluster)?;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.faults {
                break;
            }
            let kind = Kind::ALL[number % Kind::ALL.len()];
            let seen = ground
                .one(kind)
                .with_context(|| format!("fault {number}: {}", kind.name()))?;
            let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
            tallies.entry(kind).or_default().add(&seen);
        }
        ground.never_went_back(0)?;
        ground.agent.stop()?;
        Ok(())
    }

    fn print(&self) {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        println!(
            "\n {:<27} {:>5} {:>17} {:>17} {:>9} {:>7}",
            "", "", "healed in ms", "heard after ms", "requests", "most in"
        );
        println!(
            " {:<27} {:>5} {:>9} {:>7} {:>9} {:>7} {:>9} {:>7}",
            "", "times", "median", "most", "median", "most", "each", "1 s"
        );
        for (kind, tally) in &mut *tallies {
            println!("{}", tally.row(*kind));
        }
        let all: usize = tallies.values().map(|tally| tally.healed.len()).sum();
        println!("\n{all} faults; older versions in force: 0; drifts not healed meanwhile: 0");
    }
}

/// Of one fault.
struct Observed {
    healed: Duration,
    heard: Duration,
    asked: usize,
    peak: usize,
}

/// Of all faults of a kind.
#[derive(Default)]
struct Tally {
    healed: Vec<Duration>,
    heard: Vec<Duration>,
    asked: Vec<usize>,
    peak: usize,
}

impl Tally {
    fn add(&mut self, seen: &Observed) {
        self.healed.push(seen.healed);
        self.heard.push(seen.heard);
        self.asked.push(seen.asked);
        self.peak = self.peak.max(seen.peak);
    }

    fn row(&mut self, kind: Kind) -> String {
        self.healed.sort_unstable();
        self.heard.sort_unstable();
        let middle = |times: &[Duration]| times[times.len() / 2].as_millis();
        let most = |times: &[Duration]| times.iter().max().map_or(0, Duration::as_millis);
        let asked = self.asked.iter().sum::<usize>() as f64 / self.asked.len() as f64;
        format!(
            " {:<27} {:>5} {:>9} {:>7} {:>9} {:>7} {:>9.1} {:>7}",
            kind.name(),
            self.healed.len(),
            middle(&self.healed),
            most(&self.healed),
            middle(&self.heard),
            most(&self.heard),
            asked,
            self.peak
        )
    }
}

#[test]
fn whatever_goes_wrong_with_the_api_server_drift_is_healed_and_no_older_version_comes() -> Result<()>
{
    const TEST: &str =
        "whatever_goes_wrong_with_the_api_server_drift_is_healed_and_no_older_version_comes";
    let Some(cluster) = Cluster::find(TEST).filter(|_| is_built(TEST)) else {
        return Ok(());
    };
    let trial = Trial {
        faults: asked("DRIFT_CLUSTER_FAULTS", 3 * Kind::ALL.len()),
        next: AtomicUsize::new(0),
        tallies: Mutex::default(),
    };
    let nodes = asked("DRIFT_CLUSTER_NODES", 1);
    let tried = thread::scope(|scope| -> Result<()> {
        let nodes: Vec<_> = (0..nodes)
            .map(|_| scope.spawn(|| trial.of_a_node(&cluster)))
            .collect();
        let ends = nodes.into_iter().map(|node| match node.join() {
            Ok(end) => end,
            Err(_) => Err(anyhow::anyhow!("a thread panicked")),
        });
        // All of them end before the first that failed is told.
        ends.collect::<Vec<_>>().into_iter().collect()
    });
    trial.print();
    tried
}

#[test]
fn what_a_backup_does_not_know_stays_in_force_and_what_was_deleted_since_does_not_come_again()
-> Result<()> {
    const TEST: &str =
        "what_a_backup_does_not_know_stays_in_force_and_what_was_deleted_since_does_not_come_again";
    let Some(cluster) = Cluster::find(TEST).filter(|_| is_built(TEST)) else {
        return Ok(());
    };
    let (new, old) = ("drift-new", "drift-old");
    let mut ground = Ground::new(&cluster)?;
    let (made, deleted) = (
        ground.scene.at("made.conf"),
        ground.scene.at("deleted.conf"),
    );
    let folder = ground.scene.root().join("state/cluster/policies");
    let is_gone = |namespace: &str| {
        let file = folder.join(format!("{namespace}.yaml"));
        let gone = wait::until(HEARD, || if file.exists() { Err(()) } else { Ok(()) });
        gone.map_err(|()| anyhow::anyhow!("{} is there still", file.display()))
    };
    ground.plane.namespace(new)?;
    ground.plane.namespace(old)?;
    ground.declare_in(old, &deleted, 1, &json!({}))?;
    ground.holds_at(&deleted, 1)?;
    ground.plane.back_up()?;
    ground.plane.age(NAMESPACE)?;
    ground.declare_in(new, &made, 1, &json!({}))?;
    ground.holds_at(&made, 1)?;
    ground.plane.delete("policies", old, "app")?;
    is_gone(old)?;

    ground.plane.lose_and_restore()?;
    ground.begin_both()?;
    ground.says("The API server shows an earlier state than before")?;
    ground.says("the Policy app is not there any more, and nobody has deleted it")?;
    ground.says("the Policy app was deleted and is there again")?;
    fs::write(&made, "drift\n")?;
    ground.holds_at(&made, 1)?;
    fs::write(&deleted, "nobody declares this\n")?;
    ground.drift()?; // by when the other would have been healed too
    ensure!(fs::read_to_string(&deleted)? == "nobody declares this\n");

    // What people say then is what counts.
    let meant = json!({"configdrift.io/accept-older": "true"});
    ground.declare_in(old, &deleted, 1, &meant)?;
    ground.holds_at(&deleted, 1)?;
    ground.declare_in(new, &made, 2, &json!({}))?;
    ground.holds_at(&made, 2)?;
    ground.plane.delete("policies", new, "app")?;
    is_gone(new)?;
    ground.agent.stop()?;
    Ok(())
}

fn list(asked: &[Asked]) -> String {
    let first = asked.first().map(|asked| asked.at);
    let line = |asked: &Asked| {
        let since = first.map(|first| asked.at.duration_since(first));
        let watch = if asked.is_watch { " (watch)" } else { "" };
        format!(
            "\n{:>7} ms {}{watch}",
            since.unwrap_or_default().as_millis(),
            asked.what
        )
    };
    asked.iter().map(line).collect()
}
