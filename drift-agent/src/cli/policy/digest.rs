//! `drift-agent policy digest`.

use clap::Args;
use drift_common::policy::canonical;
use serde_json::json;

use super::{Folder, Said, columns};
use crate::cli::format::Format;

/// What each version is: the digest of its canonical form.
///
/// It is the same for the same meaning, however it is written and on whatever machine. Two versions with one number and different digests
/// are not the same version.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Digest {
    #[command(flatten)]
    folder: Folder,
    /// Print the canonical forms themselves, a line each: what the digests are made of.
    #[arg(long)]
    canonical: bool,
    #[arg(short, long, value_enum, default_value_t, conflicts_with = "canonical")]
    output: Format,
}

const EXAMPLES: &str = "\
Examples:
  drift-agent policy digest --policies policies
  drift-agent policy digest --policies policies -o json
  drift-agent policy digest --policies policies --canonical | head -n1 | tr -d '\\n' | b3sum";

impl Digest {
    pub(super) fn run(self) -> Said {
        let Digest {
            folder,
            canonical: forms,
            output,
        } = self;
        let identified = folder.identify()?;
        let each = identified.iter().flat_map(|policy| {
            let active = &policy.lineage.active().version.value;
            let versions = policy.lineage.versions.iter().zip(&policy.versions);
            versions.map(move |(version, identity)| {
                (version, identity, version.version.value == *active)
            })
        });
        if forms {
            let lines =
                each.map(|(version, identity, _)| canonical(version, &identity.contents) + "\n");
            return Ok(lines.collect());
        }
        let digest = |hash: &blake3::Hash| format!("blake3:{hash}");
        let values = each.clone().map(|(version, identity, active)| {
            json!({
                "policy": version.policy.value,
                "version": version.version.value.to_string(),
                "active": active,
                "digest": digest(&identity.digest),
            })
        });
        Ok(output.print(values.collect(), || {
            let rows = each.map(|(version, identity, active)| {
                let note = if active { "active" } else { "" };
                vec![
                    digest(&identity.digest),
                    version.policy.value.clone(),
                    version.version.value.to_string(),
                    note.to_owned(),
                ]
            });
            columns(&rows.collect::<Vec<_>>())
        }))
    }
}
