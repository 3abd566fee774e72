//! `cargo xtask generate`: files of the tree that are made from the code, and kept in it so that nobody has to build to use them.

mod chart;
mod yaml;

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use drift_common::policy;
use serde_json::{Value, json};

use crate::workspace::Workspace;

const EXAMPLES: &str = "\
Examples:
  cargo xtask generate             writes them anew
  cargo xtask generate --check     says which are not as they would be written

What there is: deploy/crds, the custom resource definitions, from the language of policies; the same
for Helm in deploy/chart/files/crds; and deploy/chart/README.md, from the comments of values.yaml.";

/// Make the files that come from the code.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write nothing; fail where something is not as it would be written.
    #[arg(long)]
    check: bool,
}

/// Folders in which every file is made, relative to the checkout.
const FOLDERS: [&str; 2] = [CRDS, CHART_CRDS];
const CRDS: &str = "deploy/crds";
const CHART_CRDS: &str = "deploy/chart/files/crds";

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    if args.check {
        return check(&workspace);
    }
    for (path, text) in files(&workspace)? {
        let path = workspace.root.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        println!("{}", workspace.shown(&path));
    }
    Ok(())
}

/// Fails where a file is not as it would be written, or is of nobody.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let made = files(workspace)?;
    let mut wrong = Vec::new();
    for (path, text) in &made {
        match fs::read_to_string(workspace.root.join(path)) {
            Ok(there) if there == *text => {}
            Ok(there) => wrong.push(format!(
                "{}: {}",
                path.display(),
                first_difference(&there, text)
            )),
            Err(error) => wrong.push(format!("{}: {error}", path.display())),
        }
    }
    for folder in FOLDERS {
        let entries = fs::read_dir(workspace.root.join(folder))
            .with_context(|| format!("listing {folder}"))?;
        for entry in entries {
            let path = PathBuf::from(folder).join(entry?.file_name());
            if !made.contains_key(&path) {
                wrong.push(format!("{}: nothing makes it", path.display()));
            }
        }
    }
    if wrong.is_empty() {
        println!("generated: {} files as they would be made now", made.len());
        return Ok(());
    }
    bail!(
        "not as it would be made now:\n  {}\nType `cargo xtask generate`.",
        wrong.join("\n  ")
    )
}

fn first_difference(there: &str, made: &str) -> String {
    let line = there
        .lines()
        .zip(made.lines())
        .take_while(|(there, made)| there == made)
        .count();
    let at = |text: &str| {
        text.lines()
            .nth(line)
            .unwrap_or("nothing")
            .trim()
            .to_owned()
    };
    format!(
        "line {} is `{}`, and would be `{}`",
        line + 1,
        at(there),
        at(made)
    )
}

fn files(workspace: &Workspace) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for (name, mut definition) in policy::definitions() {
        let mut put = |folder: &str, definition: &Value| {
            let text = format!(
                "# Made by `cargo xtask generate`.\n{}",
                yaml::document(definition)
            );
            files.insert(PathBuf::from(folder).join(&name), text);
        };
        put(CRDS, &definition);
        definition["metadata"]["labels"] = json!({"app.kubernetes.io/part-of": "drift"});
        // With the definitions, Helm would remove everybody's policies.
        definition["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
        put(CHART_CRDS, &definition);
    }
    let values = workspace.root.join("deploy/chart/values.yaml");
    let values =
        fs::read_to_string(&values).with_context(|| format!("reading {}", values.display()))?;
    files.insert(
        PathBuf::from("deploy/chart/README.md"),
        chart::page(&values),
    );
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_where_it_begins() {
        assert_eq!(
            first_difference("a\nb\nc\n", "a\nB\nc\n"),
            "line 2 is `b`, and would be `B`"
        );
        assert_eq!(
            first_difference("a\n", "a\nb\n"),
            "line 2 is `nothing`, and would be `b`"
        );
    }
}
