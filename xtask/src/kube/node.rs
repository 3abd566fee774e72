//! A node: namespaces of its own, a root of its own (an overlay over the machine's, so that what pods write through hostPath stays in it),
//! containerd and a kubelet.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::{
    control::{self, Control},
    machine as needed,
    programs::{NODE, Program},
    state::{self, Daemon, GROUP, run_in, wait},
};
use crate::{
    architecture::Architecture,
    archive::{self, Entry, What},
    machine,
    step::Step,
};

/// The sandbox of every pod, and what tests run in pods.
pub(crate) const BUSYBOX: &str = "localhost/drift-busybox:1";

/// What all nodes share, in folders that each sees at the same place; `images` beside busybox.
pub(super) fn share(control: &Control<'_>, images: &[PathBuf]) -> Result<()> {
    let bin = control.state.programs();
    fs::create_dir_all(&bin).with_context(|| format!("making {}", bin.display()))?;
    for (program, path) in control.programs.iter() {
        if NODE.contains(&program) {
            let here = bin.join(program.name());
            fs::copy(path, &here)
                .with_context(|| format!("copying {} to {}", path.display(), here.display()))?;
        }
    }
    let busybox = machine::which("busybox").context("busybox is not on the PATH")?;
    let program = fs::read(&busybox).with_context(|| format!("reading {}", busybox.display()))?;
    let mut entries: Vec<Entry> = ["bin", "tmp", "proc", "sys", "dev", "host", "etc"]
        .map(|folder| Entry {
            path: folder.to_owned(),
            what: What::Directory,
        })
        .into();
    entries.push(Entry {
        path: "bin/busybox".to_owned(),
        what: What::Program(program),
    });
    let applets = Step::new("ask busybox what it is", &busybox)
        .arg("--list")
        .read()?;
    entries.extend(
        applets
            .lines()
            .filter(|applet| *applet != "busybox")
            .map(|applet| Entry {
                path: format!("bin/{applet}"),
                what: What::Link("busybox".to_owned()),
            }),
    );
    let folder = control.state.images();
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for (number, image) in images.iter().enumerate() {
        let here = folder.join(format!("{number}.tar"));
        fs::copy(image, &here)
            .with_context(|| format!("copying {} to {}", image.display(), here.display()))?;
    }
    let file = folder.join("busybox.tar");
    let output = fs::File::create(&file).with_context(|| format!("writing {}", file.display()))?;
    let architecture = Architecture::here();
    archive::write(
        output,
        BUSYBOX,
        architecture,
        &["/bin/sleep", "1000000000"],
        &entries,
    )
    .map(drop)
}

pub(super) struct Node<'a> {
    pub(super) control: &'a Control<'a>,
    pub(super) name: &'a str,
    /// From 1: of its addresses.
    pub(super) number: usize,
    /// The process with the control plane's namespaces.
    pub(super) bridge: u32,
}

impl Node<'_> {
    pub(super) fn up(&self) -> Result<()> {
        let Control {
            state, interrupt, ..
        } = self.control;
        let folder = self.folder();
        for part in [
            "containerd",
            "kubelet",
            "pods",
            "containers",
            "cni",
            "upper",
            "work",
            "root",
        ] {
            let part = folder.join(part);
            fs::create_dir_all(&part).with_context(|| format!("making {}", part.display()))?;
        }
        self.settings()?;
        self.groups()?;
        let holder = control::holder(
            state,
            interrupt,
            &format!("{}-holder", self.name),
            &self.system(),
            &["--uts"],
        )?;
        let number = self.number;
        run_in(
            self.bridge,
            "connect a node",
            &format!(
                "ip link add v{number} type veth peer name eth0 netns {holder}
                 ip link set v{number} master drift0 up
                 ip route replace {pods}.0/24 via {address}",
                pods = self.pods(),
                address = self.address(),
            ),
        )?;
        run_in(holder, "make a node's root", &self.root())?;
        self.containerd(holder)?;
        self.daemon(
            holder,
            Program::Kubelet,
            vec![
                format!("--config={}", folder.join("kubelet.json").display()),
                format!(
                    "--kubeconfig={}/{}.kubeconfig",
                    state.pki().display(),
                    self.name
                ),
                format!("--hostname-override={}", self.name),
                format!("--node-ip={}", self.address()),
                "--root-dir=/var/lib/kubelet".to_owned(),
            ],
        )?;
        const READY: &str = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
        wait(
            interrupt,
            &format!("{} is ready", self.name),
            Duration::from_secs(90),
            || {
                self.control
                    .ask(&["get", "node", self.name, "-o", READY])
                    .is_ok_and(|answer| answer == "True")
            },
        )
        .with_context(|| {
            format!(
                "see {}",
                state.log(&self.daemon_name(Program::Kubelet)).display()
            )
        })
    }

    fn folder(&self) -> PathBuf {
        self.control.state.folder.join(self.name)
    }

    fn system(&self) -> String {
        format!("{}/system", self.name)
    }

    fn address(&self) -> String {
        format!("10.99.0.{}", 10 + self.number)
    }

    /// The first three numbers of its pods' addresses.
    fn pods(&self) -> String {
        format!("10.97.{}", self.number)
    }

    fn daemon_name(&self, program: Program) -> String {
        format!("{}-{}", self.name, program.name())
    }

    fn daemon(&self, holder: u32, program: Program, arguments: Vec<String>) -> Result<()> {
        let bin = self.control.state.programs();
        Daemon {
            name: self.daemon_name(program),
            group: self.system(),
            like: Some(holder),
            program: &bin.join(program.name()),
            arguments,
            path: Some(&bin), // where containerd looks for its shim
        }
        .start(self.control.state)
        .map(drop)
    }

    fn containerd(&self, holder: u32) -> Result<()> {
        let config = self.folder().join("containerd.toml");
        self.daemon(
            holder,
            Program::Containerd,
            vec![format!("--config={}", config.display())],
        )?;
        let ctr = self.control.state.programs().join(Program::Ctr.name());
        let ctr = |arguments: &[&str]| {
            Step::new("ask containerd", "nsenter")
                .args(["-t", &holder.to_string(), "-n", "-m", "-u", "--"])
                .arg(&ctr)
                .args(["-n", "k8s.io"])
                .args(arguments)
                .read()
        };
        wait(
            self.control.interrupt,
            "containerd answers",
            Duration::from_secs(30),
            || ctr(&["version"]).is_ok(),
        )?;
        let folder = self.control.state.images();
        let images =
            fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?;
        for image in images {
            let image = image.context("listing the images")?.path();
            ctr(&["images", "import", &image.to_string_lossy()])?;
        }
        Ok(())
    }

    /// runc makes a container's group in every hierarchy, and none above it.
    fn groups(&self) -> Result<()> {
        for hierarchy in state::hierarchies() {
            let mut group = hierarchy;
            for part in [GROUP, self.name] {
                let above = group.clone();
                group.push(part);
                fs::create_dir_all(&group)
                    .with_context(|| format!("making {}", group.display()))?;
                // A new group of this hierarchy has no processors, and nothing can be put into it.
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    if let Ok(all) = fs::read_to_string(above.join(file)) {
                        let own = group.join(file);
                        fs::write(&own, all.trim())
                            .with_context(|| format!("writing {}", own.display()))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The script that gives the holder's mount namespace its root.
    fn root(&self) -> String {
        let folder = self.folder();
        let folder = folder.display();
        format!(
            "cd {folder}
             mount -t overlay overlay -o lowerdir=/,upperdir={folder}/upper,workdir={folder}/work root
             for d in proc sys dev; do mount --rbind /$d root/$d; done
             mkdir -p root/var/lib/kubelet root/var/log/pods root/var/log/containers root{state}
             mount --bind {state} root{state}
             cd root
             pivot_root . mnt
             cd /
             umount -l /mnt
             mount --make-rshared / # what pods may ask of hostPath; after pivot_root, which refuses it
             mount -t tmpfs tmpfs /run
             mkdir -p /run/containerd /run/lock
             mount --bind {folder}/kubelet /var/lib/kubelet
             mount --bind {folder}/pods /var/log/pods
             mount --bind {folder}/containers /var/log/containers
             mount -t bpf bpf /sys/fs/bpf
             # It may be the machine's already, and is one for all.
             [ -d /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing
             mount --bind {state}/resolv.conf /etc/resolv.conf
             # The kubelet wants these so, and would write the machine's.
             mount --bind {folder}/one /proc/sys/vm/overcommit_memory
             mount --bind {folder}/ten /proc/sys/kernel/panic
             mount --bind {folder}/one /proc/sys/kernel/panic_on_oops
             hostname {name}
             ip link set lo up
             ip addr add {address}/24 dev eth0
             ip link set eth0 up
             ip route add default via {bridge}
             echo 1 > /proc/sys/net/ipv4/ip_forward",
            state = self.control.state.folder.display(),
            name = self.name,
            address = self.address(),
            bridge = control::ADDRESS,
        )
    }

    fn settings(&self) -> Result<()> {
        let folder = self.folder();
        let cni = needed::cni().context("the plugins of container networks are not there")?;
        for (name, text) in [
            ("one", "1\n".to_owned()),
            ("ten", "10\n".to_owned()),
            ("containerd.toml", self.containerd_settings(cni)),
            ("kubelet.json", format!("{:#}\n", self.kubelet_settings())),
            (
                "cni/10-ptp.conflist",
                format!("{:#}\n", self.network_settings()),
            ),
        ] {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    fn containerd_settings(&self, cni: &str) -> String {
        let folder = self.folder();
        let folder = folder.display();
        format!(
            "version = 4
root = '{folder}/containerd'
state = '/run/containerd'
imports = []
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.devmapper', \
             'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs']
[plugins.'io.containerd.metadata.v1.bolt']
  no_sync = true
[plugins.'io.containerd.internal.v1.opt']
  path = '{folder}/containerd/opt'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{BUSYBOX}'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true # root may have no CAP_SYS_RESOURCE
  disable_apparmor = true
  cdi_spec_dirs = []
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{cni}']
    conf_dir = '{folder}/cni'
"
        )
    }

    fn network_settings(&self) -> serde_json::Value {
        json!({"cniVersion": "1.0.0", "name": "drift", "plugins": [{
            "type": "ptp",
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/cni-ipam",
                "ranges": [[{"subnet": format!("{}.0/24", self.pods())}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }]})
    }

    fn kubelet_settings(&self) -> serde_json::Value {
        let pki = self.control.state.pki();
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": false,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/{GROUP}/{}", self.name),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "address": self.address(),
            "healthzBindAddress": "127.0.0.1",
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": pki.join("ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "failSwapOn": false,
            "oomScoreAdj": 0,
            "protectKernelDefaults": true,
            "makeIPTablesUtilChains": false,
            "volumePluginDir": self.control.state.folder.join("empty"),
            // The machine's disk is not the tests' business.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "resolvConf": "",
            "clusterDNS": ["10.98.0.10"],
            "clusterDomain": "cluster.local",
            "nodeStatusUpdateFrequency": "2s",
            "nodeLeaseDurationSeconds": 8,
            "syncFrequency": "5s",
        })
    }
}
