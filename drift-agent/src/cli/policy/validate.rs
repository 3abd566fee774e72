//! `drift-agent policy validate`.

use std::{path::Path, process::ExitCode};

use clap::Args;

use super::{Folder, Said, refused};
use crate::{
    declare::{self, Names},
    lint,
    observe::Host,
    report::complain,
};

/// Warnings that are shown.
const MOST_WARNINGS: usize = 20;

/// Check policy files: all problems, each with its place and what to write instead.
///
/// Every content that a version declares must be there. Users and groups are those of the nodes; with --host they are looked up on this
/// machine, as the agent here would, and files that somebody else than root may write are warned of.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Validate {
    #[command(flatten)]
    folder: Folder,
    /// Look users and groups up on this machine.
    #[arg(long)]
    host: bool,
}

const EXAMPLES: &str = "\
Examples:
  drift-agent policy validate --policies policies
  drift-agent policy validate --policies policies --host    what `run` would say here";

impl Validate {
    pub(super) fn run(self) -> Said {
        let Validate { folder, host } = self;
        let identified = folder.identify()?;
        let mut warnings = Vec::new();
        if host {
            let root = Path::new("/");
            let snapshot = declare::load(&folder.policies, root, None, &declare::Holds::new())
                .map_err(|why| refused(&why))?;
            warnings = weak(&snapshot)?;
        }
        let versions: usize = identified.iter().map(|policy| policy.versions.len()).sum();
        let s = |count: usize| if count == 1 { "" } else { "s" };
        let y = |count: usize| if count == 1 { "y" } else { "ies" };
        let mut text = String::new();
        for warning in warnings.iter().take(MOST_WARNINGS) {
            text += &format!("warning: {warning}\n");
        }
        if warnings.len() > MOST_WARNINGS {
            text += &format!("and {} more warnings\n", warnings.len() - MOST_WARNINGS);
        }
        text += &format!(
            "{} polic{} with {versions} version{}: no problems\n",
            identified.len(),
            y(identified.len()),
            s(versions)
        );
        Ok(text)
    }
}

/// Files that somebody else than root may write, each with where it is declared.
fn weak(snapshot: &declare::Snapshot) -> Result<Vec<String>, ExitCode> {
    let host = Host::new(Path::new("/")).map_err(|error| {
        complain(format_args!("cannot open the root directory: {error}"));
        ExitCode::FAILURE
    })?;
    let names = Names::of(Path::new("/"));
    let each = snapshot.files.iter().flat_map(|declared| {
        let weaknesses = lint::weaknesses(&host, declared);
        let names = &names;
        weaknesses
            .into_iter()
            .map(move |weak| format!("{}: {}", declared.at, weak.sentence(names, &[])))
    });
    Ok(each.collect())
}
