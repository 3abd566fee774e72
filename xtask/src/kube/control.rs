//! The control plane: one network, in which nothing leads out of the machine. The API server listens on 443 of the bridge and of the
//! address of the `kubernetes` service, so that in-cluster configuration works without kube-proxy.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use anyhow::{Context as _, Result};

use super::{
    programs::{Program, Programs},
    state::{Daemon, State, run_in, wait},
};
use crate::{interrupt::Interrupt, step::Step};

pub(super) const ADDRESS: &str = "10.99.0.1";
pub(super) const SERVICE: &str = "10.98.0.1";
/// The group in which the API server calls kubelets.
pub(super) const KUBELET_CALLERS: &str = "drift:kubelet-callers";
const ETCD: &str = "http://127.0.0.1:2379";
const PEER: &str = "http://127.0.0.1:2380";

pub(super) struct Control<'a> {
    pub(super) state: &'a State,
    pub(super) programs: &'a Programs,
    pub(super) interrupt: &'a Interrupt,
}

/// A process that does nothing but have namespaces of its own: network, mounts, and what `kinds` adds.
pub(super) fn holder(
    state: &State,
    interrupt: &Interrupt,
    name: &str,
    group: &str,
    kinds: &[&str],
) -> Result<u32> {
    let mut arguments: Vec<String> = vec!["--net".to_owned(), "--mount".to_owned()];
    arguments.extend(kinds.iter().map(|kind| (*kind).to_owned()));
    arguments.extend(["--propagation", "private", "--", "sleep", "infinity"].map(str::to_owned));
    let unshare = crate::machine::which("unshare").context("unshare is not on the PATH")?;
    let pid = Daemon {
        name: name.to_owned(),
        group: group.to_owned(),
        like: None,
        program: &unshare,
        arguments,
        path: None,
    }
    .start(state)?;
    // Each step to it is another program of the same process.
    wait(interrupt, name, Duration::from_secs(10), || {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "sleep")
    })?;
    Ok(pid)
}

/// How much of a cluster there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// An API server, which takes and refuses; nobody does anything with what it has taken.
    ApiServer,
    ControlPlane,
    Nodes,
}

impl Control<'_> {
    /// Starts it, and gives the process that has its namespaces.
    pub(super) fn up(&self, extent: Extent) -> Result<u32> {
        let holder = holder(self.state, self.interrupt, "holder", "control", &[])?;
        fs::write(self.state.holder(), holder.to_string()).context("keeping the holder's pid")?;
        run_in(
            holder,
            "make the cluster's network",
            &format!(
                "mount --make-rshared /
                 echo nameserver 127.0.0.1 > {state}/resolv.conf
                 mount --bind {state}/resolv.conf /etc/resolv.conf
                 ip link set lo up
                 ip link add drift0 type bridge
                 ip addr add {ADDRESS}/24 dev drift0
                 ip link set drift0 up
                 ip addr add {SERVICE}/32 dev lo
                 echo 1 > /proc/sys/net/ipv4/ip_forward",
                state = self.state.folder.display()
            ),
        )?;
        self.start(holder, Program::Etcd, self.etcd())?;
        self.start(holder, Program::ApiServer, self.api_server())?;
        self.kubectl(holder)?;
        if extent != Extent::ControlPlane {
            self.helm(holder)?;
        }
        wait(
            self.interrupt,
            "the API server is ready",
            Duration::from_secs(90),
            || {
                self.ask(&["get", "--raw", "/readyz"])
                    .is_ok_and(|answer| answer == "ok")
            },
        )
        .with_context(|| format!("see {}", self.state.log("kube-apiserver").display()))?;
        if extent == Extent::ApiServer {
            return Ok(holder);
        }
        // Only now: both end at once when they find an API server whose roles are not there yet.
        self.start(
            holder,
            Program::ControllerManager,
            self.controller_manager(),
        )?;
        if extent == Extent::Nodes {
            self.start(holder, Program::Scheduler, self.scheduler())?;
            self.ask(&[
                "create",
                "clusterrolebinding",
                "drift-kubelet-callers",
                "--clusterrole=system:kubelet-api-admin",
                &format!("--group={KUBELET_CALLERS}"),
            ])?;
        }
        // The sign of a controller manager at work, and what every pod needs.
        wait(
            self.interrupt,
            "the namespace `default` has its service account",
            Duration::from_secs(60),
            || {
                self.ask(&["-n", "default", "get", "serviceaccount", "default"])
                    .is_ok()
            },
        )
        .with_context(|| {
            format!(
                "see {}",
                self.state.log("kube-controller-manager").display()
            )
        })?;
        Ok(holder)
    }

    fn start(&self, holder: u32, program: Program, arguments: Vec<String>) -> Result<()> {
        Daemon {
            name: program.name().to_owned(),
            group: "control".to_owned(),
            like: Some(holder),
            program: self.programs.path(program)?,
            arguments,
            path: None,
        }
        .start(self.state)
        .map(drop)
    }

    pub(super) fn ask(&self, arguments: &[&str]) -> Result<String> {
        Step::new("ask the API server", self.state.kubectl())
            .args(arguments)
            .read()
    }

    /// A program for people and tests: kubectl, in the cluster's network.
    fn kubectl(&self, holder: u32) -> Result<()> {
        let kubectl = self.programs.path(Program::Kubectl)?.display();
        let config = self.state.kubeconfig();
        let command = format!("{kubectl} --kubeconfig {}", config.display());
        script(&self.state.kubectl(), holder, &command)
    }

    /// Helm, likewise; what it keeps goes with the cluster.
    fn helm(&self, holder: u32) -> Result<()> {
        let helm = self.programs.path(Program::Helm)?.display();
        let own = self.state.folder.join("helm-files");
        let own = own.display();
        let command = format!(
            "env HELM_CACHE_HOME={own}/cache HELM_CONFIG_HOME={own}/config HELM_DATA_HOME={own}/data KUBECONFIG={config} {helm}",
            config = self.state.kubeconfig().display()
        );
        script(&self.state.helm(), holder, &command)
    }

    fn etcd(&self) -> Vec<String> {
        let data = self.state.folder.join("etcd");
        [
            format!("--data-dir={}", data.display()),
            "--unsafe-no-fsync".to_owned(), // nothing of it outlives the cluster
            format!("--listen-client-urls={ETCD}"),
            format!("--advertise-client-urls={ETCD}"),
            format!("--listen-peer-urls={PEER}"),
            format!("--initial-advertise-peer-urls={PEER}"),
            format!("--initial-cluster=default={PEER}"),
            "--log-level=warn".to_owned(),
        ]
        .to_vec()
    }

    fn api_server(&self) -> Vec<String> {
        let pki = self.state.pki();
        let pki = pki.display();
        [
            format!("--etcd-servers={ETCD}"),
            "--bind-address=0.0.0.0".to_owned(),
            "--secure-port=443".to_owned(),
            format!("--advertise-address={ADDRESS}"),
            "--service-cluster-ip-range=10.98.0.0/16".to_owned(),
            format!("--client-ca-file={pki}/ca.crt"),
            format!("--tls-cert-file={pki}/apiserver.crt"),
            format!("--tls-private-key-file={pki}/apiserver.key"),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={pki}/sa.pub"),
            format!("--service-account-signing-key-file={pki}/sa.key"),
            format!("--kubelet-client-certificate={pki}/apiserver-kubelet.crt"),
            format!("--kubelet-client-key={pki}/apiserver-kubelet.key"),
            // Nodes have no names that anybody could look up: logs and exec would fail.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--profiling=false".to_owned(),
        ]
        .to_vec()
    }

    /// How the two that watch the API server call it.
    fn callers(&self, component: &str) -> Vec<String> {
        let config = self.state.pki().join(format!("{component}.kubeconfig"));
        let config = config.display();
        [
            format!("--kubeconfig={config}"),
            format!("--authentication-kubeconfig={config}"),
            format!("--authorization-kubeconfig={config}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--leader-elect=false".to_owned(),
            "--profiling=false".to_owned(),
        ]
        .to_vec()
    }

    fn controller_manager(&self) -> Vec<String> {
        let pki = self.state.pki();
        let pki = pki.display();
        let mut arguments = self.callers(Program::ControllerManager.name());
        arguments.extend([
            "--use-service-account-credentials=true".to_owned(),
            format!("--service-account-private-key-file={pki}/sa.key"),
            format!("--root-ca-file={pki}/ca.crt"),
            format!("--cluster-signing-cert-file={pki}/ca.crt"),
            format!("--cluster-signing-key-file={pki}/ca.key"),
            format!(
                "--flex-volume-plugin-dir={}/empty",
                self.state.folder.display()
            ),
            "--node-monitor-period=1s".to_owned(),
            "--node-monitor-grace-period=8s".to_owned(),
            "--kube-api-qps=200".to_owned(), // else its start alone takes 4 s
            "--kube-api-burst=400".to_owned(),
        ]);
        arguments
    }

    fn scheduler(&self) -> Vec<String> {
        self.callers(Program::Scheduler.name())
    }
}

/// Writes a program that runs `command` with its arguments in the network of the process `holder`.
fn script(path: &Path, holder: u32, command: &str) -> Result<()> {
    let script = format!("#!/bin/sh\nexec nsenter -t {holder} -n -- {command} \"$@\"\n");
    fs::write(path, script)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("writing {}", path.display()))
}
