//! `drift-agent diff`: what differs now between what is declared and what is there.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Result;
use clap::Args;
use drift_common::escape;
use serde_json::Value;

use super::{check::status, difference::Difference, format::Format, root::HostRoot, whole::whole};
use crate::{
    compare,
    declare::{self, Declared, Holds, Names},
    observe::{Pace, Seen, scan},
    report::{complain, shown},
};

/// Show what differs between what is declared and what is there: attributes, values, lines.
///
/// Needs no running agent and no root, and changes nothing. Of contents it shows what `redact` of their path allows: with `keys`, which is
/// the default, secrets are hidden by their keys and by their look. Lines with `-` are declared, lines with `+` are there.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Diff {
    /// Only these declared paths, and what is declared beneath them.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Folder of policy files (*.yaml, *.yml).
    #[arg(long, value_name = "DIR")]
    policies: PathBuf,
    #[command(flatten)]
    root: HostRoot,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "\
Status: as that of check
  0   everything is as declared, or says what is declared in another way
  1   a bit: something is there that was not declared
  2   a bit: something declared is missing
  4   a bit: something is there and differs
  16  a bit: something could not be looked at, or no policy declares it
  10  the policies have problems: nothing was looked at
  64  no answer: a wrong command line, something that cannot be read or written

Examples:
  drift-agent diff --policies policies
  drift-agent diff --policies policies /etc/ssh
  drift-agent diff --policies policies -o json | jq '.[].content'";

/// What could not be looked at.
const NOT_LOOKED_AT: u8 = 16;

impl Diff {
    /// Runs the command.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub(super) fn run(self) -> Result<ExitCode> {
        let Diff {
            paths,
            policies,
            root,
            output,
        } = self;
        let host = root.host()?;
        let snapshot = match declare::load(&policies, &root.host_root, None, &Holds::new()) {
            Ok(snapshot) => snapshot,
            Err(why) => return Ok(super::policy::refused(&why)),
        };
        let (files, mut status_bits) = select(&snapshot.files, &paths)?;
        // First which, on all threads; then one after the other, so that no more than one content is held.
        let drifting = scan(
            &host,
            &files,
            Pace::of(None),
            &Seen::default(),
            |declared, look| {
                let drifts = compare::differences(declared, &look.observed);
                (!drifts.is_empty()).then_some(())
            },
            |_| {},
        );
        let host = host.holding();
        let names = Names::of(&root.host_root);
        let mut values: Vec<Value> = Vec::new();
        let mut count = 0;
        for (index, ()) in drifting {
            let difference = Difference::look(&host, &files[index]);
            if difference.is_none() {
                continue; // put back since
            }
            count += 1;
            status_bits |= status(difference.compared.drifts.iter());
            match output {
                Format::Table => {
                    let first = if count == 1 { "" } else { "\n" };
                    super::policy::print(&format!("{first}{}", table(&difference, &names)))?;
                }
                Format::Jsonl => super::policy::print(&format!("{}\n", difference.value(&names)))?,
                Format::Json | Format::Yaml => values.push(difference.value(&names)),
            }
        }
        match output {
            Format::Table if count == 0 && !files.is_empty() => {
                super::policy::print(&format!("nothing differs in {} paths\n", files.len()))?;
            }
            Format::Table if count == 0 && paths.is_empty() => {
                super::policy::print("the policies declare no paths: nothing to look at\n")?;
            }
            Format::Table | Format::Jsonl => {}
            Format::Json | Format::Yaml => {
                super::policy::print(&output.print(values, String::new))?;
            }
        }
        Ok(ExitCode::from(status_bits))
    }
}

/// The declared paths that are asked for, and the status that those come to that nobody declares.
fn select(files: &[Arc<Declared>], paths: &[PathBuf]) -> Result<(Vec<Arc<Declared>>, u8)> {
    if paths.is_empty() {
        return Ok((files.to_vec(), 0));
    }
    let mut status = 0;
    let mut wanted = Vec::new();
    for path in paths {
        let path = whole(path)?;
        if !files.iter().any(|file| file.path.starts_with(&path)) {
            complain(format_args!(
                "no policy declares {}, or anything beneath it",
                escape::path_name(&path)
            ));
            status |= NOT_LOOKED_AT;
        }
        wanted.push(path);
    }
    let is_wanted = |file: &&Arc<Declared>| wanted.iter().any(|path| file.path.starts_with(path));
    let files = files.iter().filter(is_wanted).cloned().collect();
    Ok((files, status))
}

fn table(difference: &Difference<'_>, names: &Names) -> String {
    let mut text = format!(
        "{}: {}   ({})\n",
        shown(&difference.declared.path),
        difference.kinds(),
        difference.place()
    );
    for line in difference.lines(names) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}
