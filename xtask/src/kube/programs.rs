//! The cluster's programs: those the machine has already, else built from the Go module proxy and kept by version.

mod kubernetes;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{go, machine};

/// Kubernetes 1.x, as `x`; its libraries are 0.x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(pub(super) &'static str);

/// Of the clusters that tests and people get.
const USUAL: Version = Version("36.3");
/// Of API servers alone, with which what is rendered is tried: the oldest that agents can do with, and the newest.
pub(super) const OTHERS: [Version; 2] = [Version("34.4"), Version("37.2")];
const ETCD: &str = "3.7.3";
const CONTAINERD: &str = "2.4.2";
const HELM: &str = "4.3.1";

/// The convention of other projects' tests: a folder with etcd, kube-apiserver and kubectl in it.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    Etcd,
    ApiServer,
    ControllerManager,
    Kubectl,
    Scheduler,
    Kubelet,
    Containerd,
    Shim,
    Ctr,
    Helm,
}

/// What a control plane without nodes needs.
pub(super) const CONTROL_PLANE: [Program; 4] = [
    Program::Etcd,
    Program::ApiServer,
    Program::ControllerManager,
    Program::Kubectl,
];

/// What nodes need besides.
pub(super) const NODE: [Program; 5] = [
    Program::Scheduler,
    Program::Kubelet,
    Program::Containerd,
    Program::Shim,
    Program::Ctr,
];

/// What is used where there are nodes.
pub(super) const DEPLOYMENT: [Program; 1] = [Program::Helm];

impl Program {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::Containerd => "containerd",
            Self::Shim => "containerd-shim-runc-v2",
            Self::Ctr => "ctr",
            Self::Helm => "helm",
        }
    }

    fn source(self) -> Source {
        const CONTAINERD_MODULE: &str = "github.com/containerd/containerd/v2";
        match self {
            Self::Etcd => Source::Tool {
                module: "go.etcd.io/etcd/server/v3",
                version: ETCD,
                package: "",
            },
            Self::Containerd | Self::Shim | Self::Ctr => Source::Tool {
                module: CONTAINERD_MODULE,
                version: CONTAINERD,
                package: match self {
                    Self::Containerd => "/cmd/containerd",
                    Self::Shim => "/cmd/containerd-shim-runc-v2",
                    _ => "/cmd/ctr",
                },
            },
            Self::Helm => Source::Tool {
                module: "helm.sh/helm/v4",
                version: HELM,
                package: "/cmd/helm",
            },
            Self::ApiServer
            | Self::ControllerManager
            | Self::Kubectl
            | Self::Scheduler
            | Self::Kubelet => Source::Kubernetes,
        }
    }

    /// Where a built one is kept.
    fn kept(self, tools: &Path, Version(version): Version) -> PathBuf {
        let folder = match self.source() {
            Source::Kubernetes => format!("kubernetes-1.{version}"),
            Source::Tool {
                module, version, ..
            } => {
                let mut parts = module.rsplit('/').skip(1);
                let name = parts.find(|part| *part != "server").unwrap_or(module);
                format!("{name}-{version}")
            }
        };
        tools.join(folder).join(self.name())
    }
}

enum Source {
    /// A module of its own.
    Tool {
        module: &'static str,
        version: &'static str,
        package: &'static str,
    },
    /// The one module whose replacements have to be named anew.
    Kubernetes,
}

/// Where each program is.
#[derive(Debug)]
pub(crate) struct Programs(BTreeMap<Program, PathBuf>);

impl Programs {
    pub(super) fn path(&self, program: Program) -> Result<&Path> {
        self.0
            .get(&program)
            .map(PathBuf::as_path)
            .with_context(|| format!("{} was not asked for", program.name()))
    }

    /// Makes a folder in which each has its own name: for tests that start some of their own.
    pub(super) fn link(&self, folder: &Path) -> Result<()> {
        fs::create_dir(folder).with_context(|| format!("making {}", folder.display()))?;
        for (program, path) in self.iter() {
            let link = folder.join(program.name());
            std::os::unix::fs::symlink(path, &link)
                .with_context(|| format!("linking {}", link.display()))?;
        }
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Program, &Path)> {
        self.0
            .iter()
            .map(|(program, path)| (*program, path.as_path()))
    }
}

/// `wanted`, as far as nothing has to be built for it; else those that have to.
pub(crate) fn find(tools: &Path, wanted: &[Program]) -> Result<Programs, Vec<Program>> {
    find_of(USUAL, tools, wanted)
}

fn find_of(version: Version, tools: &Path, wanted: &[Program]) -> Result<Programs, Vec<Program>> {
    // Somebody's own programs are of some version: where a certain one is asked for they are of no use.
    let assets = std::env::var_os(ASSETS).filter(|_| version == USUAL);
    find_in(assets.map(PathBuf::from).as_deref(), tools, version, wanted)
}

fn find_in(
    assets: Option<&Path>,
    tools: &Path,
    version: Version,
    wanted: &[Program],
) -> Result<Programs, Vec<Program>> {
    let mut found = BTreeMap::new();
    let mut missing = Vec::new();
    for program in wanted {
        let own = assets.map(|folder| folder.join(program.name()));
        // Of the others the version matters: they are of one cluster.
        let installed = (*program == Program::Helm).then(|| machine::which(program.name()));
        let places = own
            .into_iter()
            .chain(installed.flatten())
            .chain([program.kept(tools, version)]);
        match places.into_iter().find(|file| machine::is_executable(file)) {
            Some(place) => drop(found.insert(*program, place)),
            None => missing.push(*program),
        }
    }
    if missing.is_empty() {
        Ok(Programs(found))
    } else {
        Err(missing)
    }
}

/// `wanted`, built first where it has to be. `Err(reason)`: this machine cannot build them.
pub(crate) fn ensure(tools: &Path, wanted: &[Program]) -> Result<Result<Programs, String>> {
    ensure_of(USUAL, tools, wanted)
}

/// The usual programs of a control plane, and Helm; the API server is of another version.
pub(super) fn with_api_server(version: Version, tools: &Path) -> Result<Result<Programs, String>> {
    let wanted = [&CONTROL_PLANE[..], &DEPLOYMENT].concat();
    let mut programs = match ensure(tools, &wanted)? {
        Ok(programs) => programs,
        Err(reason) => return Ok(Err(reason)),
    };
    Ok(
        ensure_of(version, tools, &[Program::ApiServer])?.map(|Programs(other)| {
            programs.0.extend(other);
            programs
        }),
    )
}

fn ensure_of(
    version: Version,
    tools: &Path,
    wanted: &[Program],
) -> Result<Result<Programs, String>> {
    let missing = match find_of(version, tools, wanted) {
        Ok(found) => return Ok(Ok(found)),
        Err(missing) => missing,
    };
    if !go::is_here() {
        let names: Vec<&str> = missing.iter().map(|program| program.name()).collect();
        return Ok(Err(format!(
            "not installed: {}. Put them into a folder and set {ASSETS} to it, or install Go (1.26 or newer), with which they are built",
            names.join(", ")
        )));
    }
    build(version, tools, &missing)?;
    find_of(version, tools, wanted).map(Ok).map_err(|missing| {
        let names: Vec<&str> = missing.iter().map(|program| program.name()).collect();
        anyhow::anyhow!("built, and still not there: {}", names.join(", "))
    })
}

fn build(of: Version, tools: &Path, missing: &[Program]) -> Result<()> {
    fs::create_dir_all(tools).with_context(|| format!("making {}", tools.display()))?;
    let scratch = tempfile::Builder::new()
        .prefix(".kube-")
        .tempdir_in(tools)
        .with_context(|| format!("making a folder in {}", tools.display()))?;
    let kubernetes: Vec<Program> = missing
        .iter()
        .copied()
        .filter(|program| matches!(program.source(), Source::Kubernetes))
        .collect();
    if !kubernetes.is_empty() {
        let module = scratch.path().join("kubernetes");
        fs::create_dir(&module).context("making a folder for Kubernetes")?;
        kubernetes::module(&module, of, &kubernetes)?;
        let flags = kubernetes::flags(of);
        for program in kubernetes {
            let package = format!("k8s.io/kubernetes/cmd/{}", program.name());
            let kept = program.kept(tools, of);
            compile(&module, &kept, program, &package, &flags)?;
        }
    }
    for program in missing {
        if let Source::Tool {
            module,
            version,
            package,
        } = program.source()
        {
            let folder = scratch.path().join(program.name());
            fs::create_dir(&folder)
                .with_context(|| format!("making a folder for {}", program.name()))?;
            fs::write(folder.join("go.mod"), "module tools\n").context("writing a go.mod")?;
            go::step(format!("fetch {} {version}", program.name()))
                .args(["get", "-tool", &format!("{module}{package}@v{version}")])
                .current_dir(&folder)
                .read()?;
            compile(
                &folder,
                &program.kept(tools, of),
                *program,
                &format!("{module}{package}"),
                "-s -w",
            )?;
        }
    }
    Ok(())
}

/// Into a name of its own, then renamed: it is there whole or not at all.
fn compile(module: &Path, kept: &Path, program: Program, package: &str, flags: &str) -> Result<()> {
    let place = kept.parent().context("a program is kept in no folder")?;
    fs::create_dir_all(place).with_context(|| format!("making {}", place.display()))?;
    let output = module.join(format!("{}.out", program.name()));
    kubernetes::step(format!(
        "build {} (once; all of the cluster's take 10 minutes)",
        program.name()
    ))
    .args(["build", "-trimpath", "-ldflags", flags, "-o"])
    .arg(&output)
    .arg(package)
    .current_dir(module)
    .run()?;
    fs::rename(&output, kept).with_context(|| format!("keeping it as {}", kept.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_the_machine_has_comes_before_what_was_built() {
        let folder = tempfile::tempdir().unwrap();
        let (assets, tools) = (folder.path().join("assets"), folder.path().join("tools"));
        let put = |file: &Path| {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let wanted = [Program::Etcd, Program::Kubectl];
        put(&Program::Etcd.kept(&tools, USUAL));
        assert!(
            Program::Etcd
                .kept(&tools, USUAL)
                .ends_with("etcd-3.7.3/etcd")
        );
        assert!(
            Program::Ctr
                .kept(&tools, USUAL)
                .ends_with("containerd-2.4.2/ctr")
        );
        assert!(
            Program::Helm
                .kept(&tools, USUAL)
                .ends_with("helm-4.3.1/helm")
        );
        let missing = find_in(Some(&assets), &tools, USUAL, &wanted).unwrap_err();
        assert_eq!(missing, [Program::Kubectl]);
        put(&assets.join("etcd"));
        put(&Program::Kubectl.kept(&tools, USUAL));
        let found = find_in(Some(&assets), &tools, USUAL, &wanted).unwrap();
        assert_eq!(found.path(Program::Etcd).unwrap(), assets.join("etcd"));
        assert!(found.path(Program::Kubectl).unwrap().starts_with(&tools));
        assert!(found.path(Program::Ctr).is_err());
    }
}
