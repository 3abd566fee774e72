//! `drift-agent snapshot`: what this machine has, as a policy to start from.

mod aim;
mod summary;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use drift_common::{
    escape,
    policy::{Globs, Source, is_name},
};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget};
use semver::Version;

use crate::{
    capture::{self, Asked, Base, Captured, Contents, Part, Stage, Title, Wanted},
    compare,
    declare::{self, Beside, MAX_BYTES, MAX_CONTENTS, MAX_FILES, Names},
    observe::{Host, Pace, Seen, scan},
    report::progress,
};
use aim::Aim;
pub(super) use aim::ending;

/// Write a policy that declares what is at some paths now: the way to begin.
///
/// Files with their contents, links and directories are declared as they are, with their modes, owners and groups, in a Policy that only observes
/// and a PolicyVersion, both in one file. Contents that are no short text, and all that may be secrets, are files of their own in the folder
/// `blobs` beside it, which only you can read. Nothing is written unless the policy is valid; then it is compared with the machine once.
///
/// What cannot be declared is left out and said. More than one policy file can hold (300,000 fields, 4 MiB: some ten thousand files) becomes several
/// policies, NAME, NAME-2 and so on, in files of these names.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Snapshot {
    /// What to declare, with everything beneath it. A link here is followed, links on the way are declared with it; links in it are declared as links.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The policy file to write, or `-` for standard output (where no blobs are needed).
    #[arg(short, long, value_name = "FILE.yaml")]
    output: PathBuf,
    /// What the policy is called. By default as the first PATH is.
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// The number of the version.
    #[arg(long, value_name = "VERSION", default_value = "1.0.0", value_parser = super::version)]
    version: Version,
    /// Leave out what has this name, as in `*.bak`, or, with a `/` in it, this path, as in `/etc/ssl/**`. Can be given several times.
    #[arg(long, value_name = "GLOB")]
    ignore: Vec<String>,
    /// Declare that nothing else may be in the directories, but what is left out now.
    #[arg(long)]
    exhaustive: bool,
    /// Declare only what differs from this tree, as from what an image has in /usr/etc: what was changed, what was added, and, as absent, what was
    /// deleted. For one PATH, a directory.
    #[arg(long, value_name = "DIR", conflicts_with = "exhaustive")]
    against: Option<PathBuf>,
    /// Leave out what is mounted beneath the paths.
    #[arg(long)]
    one_file_system: bool,
    /// Replace the policy file if it is there.
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "\
Status:
  0   the policy is written, and everything that was asked for is in it
  16  the policy is written, but something could not be declared, or changed meanwhile
  1   nothing is written

Examples:
  drift-agent snapshot /etc/ssh -o policies/ssh.yaml
      declare /etc/ssh as it is now
  drift-agent snapshot /etc -o policies/etc.yaml --ignore '*.dpkg-*' --ignore '/etc/ssl/certs/**'
      all of /etc without some of it
  drift-agent snapshot /etc/app -o policies/app.yaml --exhaustive --version 1.1.0 --force
      the next version of a policy, in which new files are drift too
  drift-agent snapshot /etc --against /usr/etc -o policies/etc.yaml --ignore '*.lock'
      what this machine has otherwise than its image
  drift-agent snapshot /etc/motd -o -
      look at what would be written";

/// The status where something is not in the snapshot.
const INCOMPLETE: u8 = 16;

/// What takes longer shows how far it is, on a terminal.
const LONG: Duration = Duration::from_secs(1);

impl Snapshot {
    /// Runs the command.
    ///
    /// # Errors
    /// In one sentence: why nothing was written.
    pub fn run(self) -> Result<ExitCode> {
        let Snapshot {
            paths,
            output,
            policy,
            version,
            ignore,
            exhaustive,
            against,
            one_file_system,
            force,
        } = self;
        let start = Instant::now();
        let source = Source::new(Path::new("snapshot").into(), Vec::new())
            .map_err(|problem| anyhow::anyhow!("{}", problem.one_line()))?;
        let (paths, mut notes) = aim::resolve(&paths, &source)?;
        let title = Title {
            policy: policy_name(policy, &paths)?,
            version,
        };
        let aim = Aim::of(&output, force)?;
        let (by_path, by_name) = ignore.into_iter().partition(|glob| glob.contains('/'));
        let host = Host::new(Path::new("/")).context("cannot open the root directory")?;
        let ignored_names = Globs::new(by_name).map_err(|why| not_a_pattern(&why))?;
        let against = against
            .map(|against| aim::against(&against, &paths))
            .transpose()?
            .map(|root| Base::read(&host, &root, &ignored_names));
        let wanted = Wanted {
            paths,
            ignored_names,
            ignored_paths: Globs::of_paths(by_path).map_err(|why| not_a_pattern(&why))?,
            exhaustive,
            one_file_system,
            policies: aim.policies()?,
            against,
        };
        let stage = aim.stage()?;
        let mut contents = Contents::new(Some(stage.blobs()));
        let captured = capture(&host, &wanted, &mut contents, &source)?;
        fits(&captured, &contents)?;
        if let Aim::Stdout = aim
            && let Some(path) = captured.blobs.first()
        {
            bail!(
                "{} cannot be a text in the policy: name a file with -o FILE.yaml, and its content will be beside that",
                shown(path)
            );
        }
        let mut captured = captured;
        let entries = std::mem::take(&mut captured.entries);
        let kinds = summary::Kinds::of(&entries);
        let parts = capture::parts(entries, &title, &source);
        let names = aim.names(parts.len())?;
        for (name, part) in names.iter().zip(&parts) {
            stage
                .write(name, &part.text, captured.private)
                .context("cannot write the policy")?;
        }
        let snapshot = verified(&stage)?;
        notes.extend(aim.beside(&names, &parts)?);
        notes.extend(aim.replaced(&names, &parts));
        let changed = changed(&host, &snapshot);
        let complete = changed.is_empty() && captured.left.iter().all(|(_, why)| why.is_meant());
        let summary = summary::Summary {
            aim: &aim,
            title: &title,
            names: &names,
            kinds,
            captured: &captured,
            blobs: (contents.count(), contents.bytes()),
            changed: &changed,
            notes: &notes,
            took: start.elapsed(),
        };
        let text = summary.to_string();
        match &aim {
            Aim::Stdout => {
                for part in &parts {
                    super::policy::print(&part.text)?;
                }
                progress(&text);
            }
            Aim::File { folder, .. } => {
                stage
                    .install(folder, &names, force)
                    .with_context(|| format!("cannot write {}", shown(&output)))?;
                super::policy::print(&text)?;
            }
        }
        Ok(if complete {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(INCOMPLETE)
        })
    }
}

fn shown(path: &Path) -> impl std::fmt::Display + '_ {
    escape::path(path)
}

fn not_a_pattern(why: &str) -> anyhow::Error {
    anyhow::anyhow!("a pattern of --ignore cannot be used: {why}")
}

fn policy_name(asked: Option<String>, paths: &[Asked]) -> Result<String> {
    if let Some(name) = asked {
        if !is_name(&name) {
            bail!(
                "--policy {}: a name has lower-case letters, digits, `-` and `.`, as in {}",
                escape::name(&name),
                Title::name_of(&name)
            );
        }
        return Ok(name);
    }
    let first = paths.first().and_then(|asked| asked.path.file_name());
    Ok(first.map_or_else(
        || "root".to_owned(),
        |name| Title::name_of(&name.to_string_lossy()),
    ))
}

fn capture(
    host: &Host,
    wanted: &Wanted,
    contents: &mut Contents,
    source: &Arc<Source>,
) -> Result<Captured> {
    let start = Instant::now();
    // Shown on a terminal alone, and only when it takes long.
    let progress = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    let mut is_long = false;
    let captured = capture::walk(
        host,
        wanted,
        &Names::of(Path::new("/")),
        contents,
        source,
        |paths, bytes| {
            if !is_long && start.elapsed() > LONG {
                is_long = true;
                progress.set_draw_target(ProgressDrawTarget::stderr());
            }
            if !progress.is_hidden() {
                progress.set_message(format!("{paths} paths, {}", HumanBytes(bytes)));
                progress.tick();
            }
        },
    );
    progress.finish_and_clear();
    captured.context("cannot keep a content")
}

/// Whether a policy folder has room for all contents.
fn fits(captured: &Captured, contents: &Contents) -> Result<()> {
    if contents.bytes() <= MAX_CONTENTS {
        return Ok(());
    }
    let mut heaviest: Vec<_> = captured.weights.iter().collect();
    heaviest.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    let heaviest: Vec<String> = heaviest
        .iter()
        .take(3)
        .map(|(path, bytes)| format!("{} ({})", shown(path), HumanBytes(**bytes)))
        .collect();
    bail!(
        "the contents that need files of their own are {}, and a policy folder has at most {}: leave something out with --ignore. The most is in {}",
        HumanBytes(contents.bytes()),
        HumanBytes(MAX_CONTENTS),
        heaviest.join(", ")
    )
}

/// What the agent makes of the policies: a policy that it would refuse is never installed.
fn verified(stage: &Stage) -> Result<declare::Snapshot> {
    declare::load(stage.path(), Path::new("/"), None, &declare::Holds::new()).map_err(|why| {
        // The texts of a policy may be secret: the problem is named without them.
        let why = why.plain().to_string();
        let first = why.lines().next().unwrap_or_default();
        anyhow::anyhow!("what is there cannot be declared: {first}. Leave it out with --ignore")
    })
}

/// The paths that are not as they were when they were read.
fn changed(host: &Host, snapshot: &declare::Snapshot) -> Vec<PathBuf> {
    let changed = scan(
        host,
        &snapshot.files,
        Pace::of(None),
        &Seen::default(),
        |declared, look| {
            let drifts = compare::differences(declared, &look.observed);
            (!drifts.is_empty()).then(|| declared.path.clone())
        },
        |_| {},
    );
    changed.into_iter().map(|(_, path)| path).collect()
}
