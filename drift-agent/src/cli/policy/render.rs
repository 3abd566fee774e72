//! `drift-agent policy render`.

use clap::Args;
use drift_common::policy::{self, Document};

use super::{Folder, Said};

/// The policies as drift understands them: one policy file with every default that counts, and every alias followed.
///
/// Contents that are written in the policies are printed, secrets included.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Render {
    #[command(flatten)]
    folder: Folder,
}

const EXAMPLES: &str = "\
Examples:
  drift-agent policy render --policies policies > all.yaml";

impl Render {
    pub(super) fn run(self) -> Said {
        let Render { folder } = self;
        let documents: Vec<Document> = folder
            .identify()?
            .into_iter()
            .flat_map(|policy| {
                let versions = policy.lineage.versions.into_iter().map(Document::Version);
                [Document::Policy(policy.lineage.policy)]
                    .into_iter()
                    .chain(versions)
            })
            .collect();
        Ok(policy::render(&documents).to_string())
    }
}
