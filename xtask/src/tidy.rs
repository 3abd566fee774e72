//! `cargo xtask tidy`: what keeps documents, names and tree together.
//!
//! A check is a function from the checkout to its findings; a finding says where, what, and what to do about it.

mod cases;
mod docs;
mod files;
mod licence;
mod modules;
mod source;
mod tree;

use std::{fmt, path::PathBuf};

use anyhow::{Result, bail};

use crate::workspace::Workspace;
use files::Files;

const EXAMPLES: &str = "\
Checks:
  tree       every path named in the ```tree block of docs/architecture.md exists
  docs       relative links and `cargo xtask` commands in README.md and docs/ exist
  cases      each case in docs/cases.md has the test that it names
  contract   docs/record.schema.json equals ../shared/contract/record.schema.json, where that exists
  names      no module is called util, helper, common, misc, types or manager
  modules    every .rs file is declared by a `mod` (a test file nobody declares never runs)
  source     no ignored tests, no to-do markers that panic, no file over 600 lines
  licence    every crate names its licence, and the texts are there";

/// Check that documents, names and tree fit together.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

/// Something that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// Relative to the checkout.
    file: PathBuf,
    /// From 1; 0 for the file as a whole.
    line: usize,
    what: String,
    remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        write!(f, " {}\n    {}", self.what, self.remedy)
    }
}

pub(crate) fn run(_args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let files = Files::find(&workspace.root, &workspace.target)?;
    let mut findings = Vec::new();
    findings.extend(tree::check(&files));
    findings.extend(docs::check(&files, &crate::command_names()));
    findings.extend(docs::check_contract(&files));
    findings.extend(cases::check(&files));
    findings.extend(source::check_names(&files));
    findings.extend(modules::check(&files));
    findings.extend(source::check(&files));
    findings.extend(licence::check(&files, &workspace.licenses));
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to tidy", files.len());
        Ok(())
    } else {
        bail!("tidy: {} found", count(findings.len(), "thing", "things"))
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
