//! The cluster's programs: those the machine has already, else built from the Go module proxy and kept by version.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use crate::{go, machine};

/// Kubernetes 1.x; its libraries are 0.x.
const KUBERNETES: &str = "36.3";
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
    fn kept(self, tools: &Path) -> PathBuf {
        let folder = match self.source() {
            Source::Kubernetes => format!("kubernetes-1.{KUBERNETES}"),
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
    let assets = std::env::var_os(ASSETS).map(PathBuf::from);
    find_in(assets.as_deref(), tools, wanted)
}

fn find_in(
    assets: Option<&Path>,
    tools: &Path,
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
            .chain([program.kept(tools)]);
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
    let missing = match find(tools, wanted) {
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
    build(tools, &missing)?;
    find(tools, wanted).map(Ok).map_err(|missing| {
        let names: Vec<&str> = missing.iter().map(|program| program.name()).collect();
        anyhow::anyhow!("built, and still not there: {}", names.join(", "))
    })
}

fn build(tools: &Path, missing: &[Program]) -> Result<()> {
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
        kubernetes_module(&module, &kubernetes)?;
        for program in kubernetes {
            let package = format!("k8s.io/kubernetes/cmd/{}", program.name());
            compile(&module, tools, program, &package, &kubernetes_flags())?;
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
                tools,
                *program,
                &format!("{module}{package}"),
                "-s -w",
            )?;
        }
    }
    Ok(())
}

/// Into a name of its own, then renamed: it is there whole or not at all.
fn compile(
    module: &Path,
    tools: &Path,
    program: Program,
    package: &str,
    flags: &str,
) -> Result<()> {
    let kept = program.kept(tools);
    let place = kept.parent().context("a program is kept in no folder")?;
    fs::create_dir_all(place).with_context(|| format!("making {}", place.display()))?;
    let output = module.join(format!("{}.out", program.name()));
    go::step(format!(
        "build {} (once; all of the cluster's take 10 minutes)",
        program.name()
    ))
    .args(["build", "-trimpath", "-ldflags", flags, "-o"])
    .arg(&output)
    .arg(package)
    .current_dir(module)
    .run()?;
    fs::rename(&output, &kept).with_context(|| format!("keeping it as {}", kept.display()))
}

/// The version that they tell of themselves; a kubelet that does not know its own is refused by the API server.
fn kubernetes_flags() -> String {
    const AT: &str = "k8s.io/component-base/version";
    let minor = KUBERNETES
        .split_once('.')
        .map_or(KUBERNETES, |(minor, _)| minor);
    format!("-s -w -X {AT}.gitVersion=v1.{KUBERNETES} -X {AT}.gitMajor=1 -X {AT}.gitMinor={minor}")
}

/// A module that depends on Kubernetes. Its own replacements point into its tree, which the proxy does not serve: the published libraries instead.
fn kubernetes_module(module: &Path, programs: &[Program]) -> Result<()> {
    let answer = go::step(format!("fetch Kubernetes 1.{KUBERNETES}"))
        .args([
            "mod",
            "download",
            "-json",
            &format!("k8s.io/kubernetes@v1.{KUBERNETES}"),
        ])
        .current_dir(module)
        .read()?;
    let answer: serde_json::Value = serde_json::from_str(&answer).context("Go's answer")?;
    let theirs = answer["GoMod"]
        .as_str()
        .context("Go's answer has no GoMod")?;
    let theirs = fs::read_to_string(theirs).with_context(|| format!("reading {theirs}"))?;
    let own = go_mod(&theirs);
    ensure!(
        own.contains("replace "),
        "the go.mod of Kubernetes {KUBERNETES} has no replacements: it is written in another way than this knows"
    );
    fs::write(module.join("go.mod"), own).context("writing a go.mod")?;
    let imports: String = programs
        .iter()
        .map(|program| format!("import _ \"k8s.io/kubernetes/cmd/{}\"\n", program.name()))
        .collect();
    fs::write(module.join("tools.go"), format!("package tools\n{imports}"))
        .context("writing tools.go")?;
    go::step("fetch what Kubernetes depends on")
        .args(["mod", "tidy"])
        .current_dir(module)
        .read()
        .map(drop)
}

/// From the go.mod of Kubernetes, which has `require k8s.io/api v0.0.0` and `replace k8s.io/api => ./staging/src/k8s.io/api`.
fn go_mod(theirs: &str) -> String {
    let mut own = vec!["module tools".to_owned()];
    own.extend(
        theirs
            .lines()
            .find(|line| line.starts_with("go "))
            .map(str::to_owned),
    );
    own.push(format!("require k8s.io/kubernetes v1.{KUBERNETES}"));
    for line in theirs.lines() {
        let line = line.trim().trim_start_matches("replace ");
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [library, "v0.0.0", ..] if library.starts_with("k8s.io/") => {
                own.push(format!("require {library} v0.{KUBERNETES}"));
            }
            [library, "=>", ..] if library.starts_with("k8s.io/") => {
                own.push(format!("replace {library} => {library} v0.{KUBERNETES}"));
            }
            _ => {}
        }
    }
    own.push(String::new());
    own.join("\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_kubernetes_takes_from_its_tree_is_taken_from_the_proxy() {
        let theirs = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/x/y v1.0.0\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.130.1\n)\n\n\
                      replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        assert_eq!(
            go_mod(theirs),
            "module tools\ngo 1.26.0\nrequire k8s.io/kubernetes v1.36.3\nrequire k8s.io/api v0.36.3\n\
             replace k8s.io/api => k8s.io/api v0.36.3\n"
        );
    }

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
        put(&Program::Etcd.kept(&tools));
        assert!(Program::Etcd.kept(&tools).ends_with("etcd-3.7.3/etcd"));
        assert!(Program::Ctr.kept(&tools).ends_with("containerd-2.4.2/ctr"));
        assert!(Program::Helm.kept(&tools).ends_with("helm-4.3.1/helm"));
        let missing = find_in(Some(&assets), &tools, &wanted).unwrap_err();
        assert_eq!(missing, [Program::Kubectl]);
        put(&assets.join("etcd"));
        put(&Program::Kubectl.kept(&tools));
        let found = find_in(Some(&assets), &tools, &wanted).unwrap();
        assert_eq!(found.path(Program::Etcd).unwrap(), assets.join("etcd"));
        assert!(found.path(Program::Kubectl).unwrap().starts_with(&tools));
        assert!(found.path(Program::Ctr).is_err());
    }
}
