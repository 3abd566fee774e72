//! `cargo xtask kube`: a real Kubernetes on this machine, in seconds and without residue.

mod certificates;
mod control;
mod demo;
mod machine;
mod node;
mod place;
mod programs;
mod state;
mod test;
mod versions;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{interrupt::Interrupt, workspace::Workspace};
use control::{Control, Extent};
use node::Node;
use programs::{Programs, Version};
use state::State;

const EXAMPLES: &str = "\
Examples:
  sudo -E cargo xtask kube up               a control plane and one node
  sudo -E cargo xtask kube up --nodes 0     a control plane alone
  sudo -E cargo xtask kube up --image target/image/drift-agent.tar
                                            with an image on every node
  sudo -E cargo xtask kube demo             the chart installed, a pod's drift healed on its node
  sudo -E cargo xtask kube test             the tests that need a cluster, in one of their own
  sudo -E cargo xtask kube versions         what is rendered, and 200 resources, on the oldest and
                                            the newest API server (7 minutes to build both, once)
  sudo -E cargo xtask kube down             ends and removes it, also what a killed `up` has left

The programs are those in the folder that KUBEBUILDER_ASSETS names; what is not there is built
with Go from its module proxy, once (10 minutes on two cores), and kept in ~/.cache/drift/tools.
The cluster has networks, mounts and control groups of its own: nothing of it leaves the machine,
and the machine's files stay as they are.";

/// A real Kubernetes cluster for tests.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Up(Up),
    Down(Down),
    Demo(demo::Args),
    Test(test::Args),
    Versions(versions::Args),
    #[command(hide = true)]
    Place(place::Args),
}

/// Bring a cluster up.
#[derive(Debug, clap::Args)]
struct Up {
    /// How many nodes, called node-a, node-b and so on.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=9))]
    nodes: u8,
    /// An image, as `cargo xtask image` writes it, for every node to have. May be given more than once.
    #[arg(long = "image", value_name = "FILE")]
    images: Vec<PathBuf>,
}

/// End the cluster and remove all of it, also what a killed `up` has left.
#[derive(Debug, clap::Args)]
struct Down {}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let What::Place(args) = &args.what {
        return place::run(args); // a daemon: it has no checkout
    }
    let workspace = Workspace::find()?;
    if let Some(reason) = state::refused() {
        bail!("{reason}");
    }
    match &args.what {
        What::Up(up) => {
            let cluster = match Cluster::up(&workspace, up.nodes, &up.images)? {
                Ok(cluster) => cluster,
                Err(reason) => bail!("{reason}"),
            };
            let state = cluster.keep();
            println!("kubectl as the admin:  {}", state.kubectl().display());
            if up.nodes > 0 {
                println!("helm as the admin:     {}", state.helm().display());
            }
            println!("end it:                cargo xtask kube down");
            Ok(())
        }
        What::Down(Down {}) => {
            let start = Instant::now();
            if state::down(&State::new(&workspace.tools()))? {
                println!("down after {} ms", start.elapsed().as_millis());
            } else {
                println!("there was no cluster");
            }
            Ok(())
        }
        What::Demo(demo::Args {}) => demo::run(&workspace),
        What::Test(args) => test::run(&workspace, args),
        What::Versions(versions::Args {}) => versions::run(&workspace),
        What::Place(_) => Ok(()), // above
    }
}

/// A cluster that ends with this value.
pub(crate) struct Cluster {
    state: Option<State>,
}

impl Cluster {
    /// Brings one up, with its programs built first where they have to be, and `images` on every node. `Err(reason)`: not on this machine.
    pub(crate) fn up(
        workspace: &Workspace,
        nodes: u8,
        images: &[PathBuf],
    ) -> Result<Result<Cluster, String>> {
        let mut wanted = programs::CONTROL_PLANE.to_vec();
        if nodes > 0 {
            wanted.extend(programs::NODE);
            wanted.extend(programs::DEPLOYMENT);
        }
        let extent = if nodes > 0 {
            Extent::Nodes
        } else {
            Extent::ControlPlane
        };
        let programs = || programs::ensure(&workspace.tools(), &wanted);
        Self::up_with(workspace, programs, extent, nodes, images)
    }

    /// An API server alone, of a certain version, with Helm.
    fn api_server(workspace: &Workspace, version: Version) -> Result<Result<Cluster, String>> {
        let programs = || programs::with_api_server(version, &workspace.tools());
        Self::up_with(workspace, programs, Extent::ApiServer, 0, &[])
    }

    fn up_with(
        workspace: &Workspace,
        programs: impl FnOnce() -> Result<Result<Programs, String>>,
        extent: Extent,
        nodes: u8,
        images: &[PathBuf],
    ) -> Result<Result<Cluster, String>> {
        if let Some(reason) = state::refused() {
            return Ok(Err(reason));
        }
        if let Err(reason) = machine::needs(nodes > 0)? {
            return Ok(Err(reason));
        }
        let programs = match programs()? {
            Ok(programs) => programs,
            Err(reason) => return Ok(Err(reason)),
        };
        let state = State::new(&workspace.tools());
        match fs::create_dir(&state.folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(
                "{} is there: a cluster is up, or was and was killed. End it first: cargo xtask kube down",
                state.folder.display()
            ),
            Err(error) => {
                return Err(error).with_context(|| format!("making {}", state.folder.display()));
            }
        }
        let cluster = Cluster { state: Some(state) };
        cluster.start(&programs, extent, nodes, images)?; // where it fails, what there is of it ends here
        Ok(Ok(cluster))
    }

    fn start(
        &self,
        programs: &Programs,
        extent: Extent,
        nodes: u8,
        images: &[PathBuf],
    ) -> Result<()> {
        let state = self.state.as_ref().context("a cluster that has ended")?;
        let interrupt = Interrupt::listen().context("listening for signals")?;
        let start = Instant::now();
        let names: Vec<String> = (b'a'..)
            .take(nodes.into())
            .map(|letter| format!("node-{}", char::from(letter)))
            .collect();
        for folder in ["log", "etcd", "empty", "pids", "again"] {
            let folder = state.folder.join(folder);
            fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        }
        certificates::write(&state.pki(), &names)?;
        programs.link(&state.folder.join("programs"))?;
        let control = Control {
            state,
            programs,
            interrupt: &interrupt,
        };
        let bridge = control.up(extent)?;
        said("control plane", start.elapsed());
        if nodes > 0 {
            node::share(&control, images)?;
        }
        std::thread::scope(|scope| {
            let nodes: Vec<_> = (1..)
                .zip(&names)
                .map(|(number, name)| {
                    let node = Node {
                        control: &control,
                        name,
                        number,
                        bridge,
                    };
                    scope.spawn(move || {
                        let start = Instant::now();
                        node.up()
                            .with_context(|| format!("starting {}", node.name))?;
                        said(node.name, start.elapsed());
                        Ok(())
                    })
                })
                .collect();
            nodes
                .into_iter()
                .try_for_each(|node| node.join().unwrap_or_else(|_| bail!("a thread panicked")))
        })?;
        said("all", start.elapsed());
        Ok(())
    }

    /// Where `kubectl`, keys and logs are.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.folder.clone())
    }

    /// Whether nothing has to be built first.
    pub(crate) fn is_built(workspace: &Workspace) -> bool {
        programs::find(&workspace.tools(), &programs::CONTROL_PLANE).is_ok()
    }

    /// It stays when this value goes.
    fn keep(mut self) -> State {
        self.state
            .take()
            .unwrap_or_else(|| unreachable!("only this takes it, and consumes it"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(state) = &self.state
            && let Err(error) = state::down(state)
        {
            eprintln!("warning: {error:#}");
        }
    }
}

/// The programs and keys of a cluster, for tests that start API servers of their own: several can run beside each other, and beside a cluster. They go with this
/// value.
pub(crate) struct Kit(tempfile::TempDir);

impl Kit {
    /// `Err(reason)`: not on this machine.
    pub(crate) fn new(workspace: &Workspace) -> Result<Result<Kit, String>> {
        let programs = match programs::ensure(&workspace.tools(), &programs::CONTROL_PLANE)? {
            Ok(programs) => programs,
            Err(reason) => return Ok(Err(reason)),
        };
        let folder = tempfile::Builder::new()
            .prefix("cluster-kit-")
            .tempdir_in(&workspace.target)
            .with_context(|| format!("making a folder in {}", workspace.target.display()))?;
        certificates::write(&folder.path().join("pki"), &[])?;
        programs.link(&folder.path().join("programs"))?;
        Ok(Ok(Kit(folder)))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }
}

fn said(what: &str, took: Duration) {
    println!("{what:<16}{:>7} ms", took.as_millis());
}
