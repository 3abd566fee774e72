//! An API server and its etcd of a test's own: what it does to them disturbs nobody. There are no controllers and no nodes.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{cluster::Cluster, collector::free_port, middle::Target, wait};

/// How long either may take to be there.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    Etcd,
    ApiServer,
}

/// Both. They end with this value.
#[derive(Debug)]
pub struct Plane {
    folder: TempDir,
    programs: PathBuf,
    pki: PathBuf,
    clients: u16,
    peers: u16,
    port: u16,
    etcd: Option<Child>,
    api_server: Option<Child>,
    target: Target,
}

impl Plane {
    /// With the programs and keys of a cluster that is up, and drift's resources.
    ///
    /// # Errors
    /// They do not come up.
    pub fn start(like: &Cluster) -> Result<Self> {
        let [clients, peers, port] = [free_port()?, free_port()?, free_port()?];
        let pki = like.folder().join("pki");
        let mut plane = Self {
            folder: tempfile::Builder::new().prefix("drift-plane-").tempdir()?,
            programs: like.folder().join("programs"),
            target: Target::new(port, &pki)?,
            pki,
            clients,
            peers,
            port,
            etcd: None,
            api_server: None,
        };
        plane.begin(Daemon::Etcd)?;
        plane.begin(Daemon::ApiServer)?;
        plane.is_ready()?;
        plane.define()?;
        Ok(plane)
    }

    /// The API server, as the admin.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("etcd")
    }

    fn backup(&self) -> PathBuf {
        self.folder.path().join("backup")
    }

    fn child(&mut self, daemon: Daemon) -> &mut Option<Child> {
        match daemon {
            Daemon::Etcd => &mut self.etcd,
            Daemon::ApiServer => &mut self.api_server,
        }
    }

    /// Starts one that is not running.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin(&mut self, daemon: Daemon) -> Result<()> {
        let (name, arguments) = match daemon {
            Daemon::Etcd => ("etcd", self.etcd_arguments()),
            Daemon::ApiServer => ("kube-apiserver", self.api_server_arguments()),
        };
        let log = self.folder.path().join(format!("{name}.log"));
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let child = Command::new("setpriv")
            // A test that is killed leaves none behind.
            .args(["--pdeathsig", "KILL", "--"])
            .arg(self.programs.join(name))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        *self.child(daemon) = Some(child);
        Ok(())
    }

    fn etcd_arguments(&self) -> Vec<String> {
        let own = |port: u16| format!("http://127.0.0.1:{port}");
        let (clients, peers) = (own(self.clients), own(self.peers));
        vec![
            format!("--data-dir={}", self.data().display()),
            "--unsafe-no-fsync".to_owned(),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
            "--log-level=warn".to_owned(),
        ]
    }

    fn api_server_arguments(&self) -> Vec<String> {
        let pki = self.pki.display();
        vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.clients),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port),
            // Nobody reaches it by its service.
            "--advertise-address=10.99.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.98.0.0/16".to_owned(),
            format!("--client-ca-file={pki}/ca.crt"),
            format!("--tls-cert-file={pki}/apiserver.crt"),
            format!("--tls-private-key-file={pki}/apiserver.key"),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={pki}/sa.pub"),
            format!("--service-account-signing-key-file={pki}/sa.key"),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--profiling=false".to_owned(),
        ]
    }

    /// Waits until the API server is ready.
    ///
    /// # Errors
    /// It is not in time.
    pub fn is_ready(&self) -> Result<()> {
        let ready = || self.target.ask("GET", "/readyz", None).map(drop);
        wait::until(PATIENCE, ready).context("the API server is not ready")
    }

    /// Kills one.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self, daemon: Daemon) -> Result<()> {
        let mut child = self.child(daemon).take().context("it does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Sends one a signal: to stop, or to go on.
    ///
    /// # Errors
    /// It does not run.
    pub fn signal(&mut self, daemon: Daemon, signal: Signal) -> Result<()> {
        let child = self.child(daemon).as_ref().context("it does not run")?;
        let pid =
            Pid::from_raw(i32::try_from(child.id())?).context("a process without a number")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Keeps what etcd has now.
    ///
    /// # Errors
    /// It cannot be copied.
    pub fn back_up(&mut self) -> Result<()> {
        match fs::remove_dir_all(self.backup()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.signal(Daemon::Etcd, Signal::STOP)?;
        let copied = copy(&self.data(), &self.backup());
        self.signal(Daemon::Etcd, Signal::CONT)?;
        copied
    }

    /// Has etcd lost, with what it had, and puts the backup in its place. Neither of the two runs then.
    ///
    /// # Errors
    /// It cannot be put there.
    pub fn lose_and_restore(&mut self) -> Result<()> {
        self.kill(Daemon::ApiServer)?;
        self.kill(Daemon::Etcd)?;
        fs::remove_dir_all(self.data())?;
        copy(&self.backup(), &self.data())
    }

    /// A namespaced object of drift's, made or brought to this state.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn apply(&self, plural: &str, namespace: &str, object: &Value) -> Result<Value> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!(
            "{}/{name}?fieldManager=test&force=true",
            own(namespace, plural)
        );
        let body = Some(("application/apply-patch+yaml", object));
        self.target.ask("PATCH", &path, body)
    }

    /// # Errors
    /// The API server refuses.
    pub fn delete(&self, plural: &str, namespace: &str, name: &str) -> Result<()> {
        let path = format!("{}/{name}", own(namespace, plural));
        self.target.ask("DELETE", &path, None).map(drop)
    }

    /// A Node, with the label `role`.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn node(&self, name: &str, role: &str) -> Result<()> {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"role": role}}});
        let body = Some(("application/json", &node));
        self.target.ask("POST", "/api/v1/nodes", body).map(drop)
    }

    /// A namespace.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn namespace(&self, name: &str) -> Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let body = Some(("application/json", &object));
        let made = wait::until(PATIENCE, || {
            self.target.ask("POST", "/api/v1/namespaces", body)
        });
        made.map(drop)
    }

    /// As much as happens in a cluster in some minutes: etcd's numbers go on.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn age(&self, namespace: &str) -> Result<()> {
        const WRITES: usize = 400;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/age?fieldManager=test");
        let mut session = self.target.session()?;
        for write in 0..WRITES {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "age"}, "data": {"write": write.to_string()}});
            let body = Some(("application/apply-patch+yaml", &object));
            session.ask("PATCH", &path, body)?;
        }
        Ok(())
    }

    fn define(&self) -> Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/crds");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "drift",
            "clusters": [{"name": "drift", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port), "certificate-authority": self.pki.join("ca.crt")}}],
            "users": [{"name": "admin", "user": {
                "client-certificate": self.pki.join("admin.crt"), "client-key": self.pki.join("admin.key")}}],
            "contexts": [{"name": "drift", "context": {"cluster": "drift", "user": "admin"}}],
        });
        let path = self.folder.path().join("admin.kubeconfig");
        fs::write(&path, config.to_string())?;
        for what in [
            &["apply", "--server-side"][..],
            &["wait", "--for=condition=Established", "--timeout=20s"],
        ] {
            let output = Command::new(self.programs.join("kubectl"))
                .arg("--kubeconfig")
                .arg(&path)
                .args(what)
                .arg("-f")
                .arg(&folder)
                .output()
                .context("starting kubectl")?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "kubectl {what:?}: {said}");
        }
        Ok(())
    }
}

/// Where drift's objects of a kind are.
fn own(namespace: &str, plural: &str) -> String {
    format!("/apis/configdrift.io/v1alpha1/namespaces/{namespace}/{plural}")
}

impl Drop for Plane {
    fn drop(&mut self) {
        for daemon in [Daemon::ApiServer, Daemon::Etcd] {
            if let Some(mut child) = self.child(daemon).take() {
                // One that is gone need not be ended.
                let _gone = child.kill();
                let _gone = child.wait();
            }
        }
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    ensure!(status.success(), "cp -a {}: {status}", from.display());
    Ok(())
}
