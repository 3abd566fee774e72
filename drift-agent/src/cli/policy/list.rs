//! `drift-agent policy list`.

use clap::Args;
use serde_json::{Value, json};

use super::{Folder, Said, columns};
use crate::cli::format::Format;

/// The policies: which version is active, what happens on drift, how much is declared.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct List {
    #[command(flatten)]
    folder: Folder,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "\
Examples:
  drift-agent policy list --policies policies
  drift-agent policy list --policies policies -o yaml";

impl List {
    pub(super) fn run(self) -> Said {
        let List { folder, output } = self;
        let identified = folder.identify()?;
        let values = identified.iter().map(|policy| {
            let lineage = &policy.lineage;
            let versions = lineage.versions.iter();
            let versions = versions.map(|version| Value::from(version.version.value.to_string()));
            json!({
                "policy": lineage.policy.name.value,
                "activeVersion": lineage.active().version.value.to_string(),
                "mode": lineage.policy.mode.name(),
                "files": lineage.active().files.len(),
                "versions": versions.collect::<Value>(),
            })
        });
        Ok(output.print(values.collect(), || {
            let mut rows = vec![
                ["policy", "active", "mode", "files", "versions"]
                    .map(String::from)
                    .to_vec(),
            ];
            rows.extend(identified.iter().map(|policy| {
                let lineage = &policy.lineage;
                vec![
                    lineage.policy.name.value.clone(),
                    lineage.active().version.value.to_string(),
                    lineage.policy.mode.to_string(),
                    lineage.active().files.len().to_string(),
                    lineage.versions.len().to_string(),
                ]
            }));
            columns(&rows)
        }))
    }
}
