//! `kubectl drift`: a fleet of nodes, as the API server of its cluster has it. This reads, and writes nothing.
//!
//! ```text
//! ask (the API server, page by page) -> report (what one agent has written) -> fleet (all of them) -> nodes, policies, why: JSON and tables
//! follow: the same again, whenever something has changed
//! ```
//!
//! Whoever may write objects of a cluster chooses their texts: all of them are made printable before they are shown.

mod ask;
mod complete;
mod events;
mod fleet;
mod follow;
mod nodes;
mod policies;
mod report;
mod why;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};
use serde_json::Value;

use self::{ask::Server, report::printable};
use super::{Command, format::Format, policy::print};

/// Show how the nodes of a cluster are: as `kubectl drift`, where this program is called kubectl-drift.
///
/// Reads what the agents have written into the cluster, and asks no node.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Kubectl {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    to: To,
}

/// The same, called as a plugin of kubectl.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-drift",
    bin_name = "kubectl drift",
    version,
    max_term_width = 100
)]
pub struct Plugin {
    #[command(flatten)]
    kubectl: Kubectl,
}

impl From<Plugin> for Command {
    fn from(plugin: Plugin) -> Self {
        Self::Kubectl(plugin.kubectl)
    }
}

const EXAMPLES: &str = "\
Status of `status`, `nodes` and `why`:
  0   as declared
  4   drifting: something is not as declared
  5   not known: an agent does not report, or cannot do all it should
  1   something went wrong

Examples:
  kubectl drift status
  kubectl drift nodes -w
  kubectl drift why node-7 /etc/app/app.conf
  kubectl drift policies -A
  kubectl drift events -n web -w
  kubectl drift nodes -o json | jq -r '.[] | select(.health != \"as declared\").node'

ln -s drift-agent kubectl-drift, in a folder of PATH, makes this program a plugin of kubectl; a link
kubectl_complete-drift completes its commands where kubectl's are completed.";

/// Which cluster, and where in it.
#[derive(Debug, Args)]
struct To {
    /// Instead of what KUBECONFIG names, or ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Of the kubeconfig, instead of its current one.
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// For `policies` and `events`: of this namespace, instead of the context's. Nodes are in none.
    #[arg(short, long, global = true, value_name = "NAME")]
    namespace: Option<String>,
    /// For `policies` and `events`: of all namespaces.
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace")]
    all_namespaces: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the fleet: its sums, the versions in force, and the nodes that are not as they should be.
    Status(Shown),
    /// Show every node, those first that are not as they should be.
    Nodes(Shown),
    Why(why::Why),
    /// Show policies: on how many nodes they are in force, and where they drift.
    Policies(Shown),
    /// Show what the agents have told lately, oldest first. The API server keeps it for an hour.
    Events(Shown),
}

/// How it is shown.
#[derive(Clone, Copy, Debug, Args)]
struct Shown {
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Again, whenever something has changed. With `-o jsonl`: what has changed.
    #[arg(short, long)]
    watch: bool,
}

impl Kubectl {
    /// Runs the command.
    ///
    /// # Errors
    /// The API server does not say what it was asked, or standard output cannot be written to.
    pub fn run(self) -> Result<ExitCode> {
        runtime()?.block_on(async {
            let Kubectl { what, to } = self;
            let server = Server::reach(&to).await?;
            match what {
                What::Status(shown) => nodes::run(&server, shown, nodes::Which::Status).await,
                What::Nodes(shown) => nodes::run(&server, shown, nodes::Which::All).await,
                What::Why(why) => why.run(&server).await,
                What::Policies(shown) => policies::run(&server, shown).await,
                What::Events(shown) => events::run(&server, shown).await,
            }
        })
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start what waits for the API server")
}

/// What this program is called, where that says what it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Plugin,
    Completion,
}

/// As kubectl calls it.
pub(super) fn called_as() -> Option<Name> {
    std::env::args_os().next().as_deref().and_then(name)
}

fn name(program: &OsStr) -> Option<Name> {
    match Path::new(program).file_name()?.to_str()? {
        "kubectl-drift" => Some(Name::Plugin),
        "kubectl_complete-drift" => Some(Name::Completion),
        _ => None,
    }
}

/// Prints what may come next, in the way that kubectl asks its plugins for it. What it cannot find out it does not offer.
pub(super) fn complete(words: Vec<OsString>) -> ExitCode {
    let words: Vec<String> = words
        .into_iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match print(&complete::answer(&words)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// A value for programs, in which nothing drives a terminal.
fn shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable(&text)),
        Value::Array(items) => items.into_iter().map(shown).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (printable(&key), shown(value)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn a_link_makes_it_a_plugin() {
        for (program, expected) in [
            ("kubectl-drift", Some(Name::Plugin)),
            ("/usr/bin/kubectl-drift", Some(Name::Plugin)),
            ("/usr/bin/kubectl_complete-drift", Some(Name::Completion)),
            ("/usr/sbin/drift-agent", None),
            ("/usr/bin/kubectl-drift/x", None),
            ("", None),
        ] {
            assert_eq!(name(OsStr::new(program)), expected, "{program}");
        }
    }

    #[test]
    fn the_plugin_takes_what_people_type_after_kubectl() {
        Plugin::command().debug_assert();
        for words in [
            &["status"][..],
            &["status", "-w", "-o", "jsonl", "--context", "prod"],
            &["nodes", "-n", "web"],
            &["policies", "-A"],
            &["why", "node-a"],
            &["--kubeconfig", "k", "why", "node-a", "/etc/a"],
            &["events", "--namespace=web", "--watch"],
        ] {
            let words = ["kubectl-drift"].into_iter().chain(words.iter().copied());
            assert!(Plugin::try_parse_from(words.clone()).is_ok(), "{words:?}");
        }
        for words in [
            &[][..],
            &["policies", "-A", "-n", "web"],
            &["why"],
            &["why", "node-a", "etc/a"],
            &["status", "node-a"],
        ] {
            let words = ["kubectl-drift"].into_iter().chain(words.iter().copied());
            assert!(Plugin::try_parse_from(words.clone()).is_err(), "{words:?}");
        }
    }
}
