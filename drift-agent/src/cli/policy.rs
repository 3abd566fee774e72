//! `drift-agent policy`: what policy files say, without acting on it.

mod digest;
mod list;
mod render;
mod schema;
mod validate;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::{
    declare::{self, Identified},
    report::complain,
};

/// The status of a command that was given policies with problems.
const INVALID: u8 = 10;

/// Look at policy files: are they right, what do they say, what are their versions.
///
/// None of these commands needs root or touches what the policies declare. Their status is 0, 10 where the policies have problems, and
/// 1 where something else went wrong.
#[derive(Debug, Args)]
pub struct Policy {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Validate(validate::Validate),
    Digest(digest::Digest),
    List(list::List),
    Render(render::Render),
    Schema(schema::Schema),
}

/// Where the policies are.
#[derive(Debug, Args)]
struct Folder {
    /// Folder of policy files (*.yaml, *.yml).
    #[arg(long, value_name = "DIR")]
    policies: PathBuf,
}

impl Policy {
    /// Runs the command.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn run(self) -> Result<ExitCode> {
        let said = match self.command {
            Command::Validate(validate) => validate.run(),
            Command::Digest(digest) => digest.run(),
            Command::List(list) => list.run(),
            Command::Render(render) => render.run(),
            Command::Schema(schema) => schema.run(),
        };
        match said {
            Ok(text) => print(&text).map(|()| ExitCode::SUCCESS),
            Err(code) => Ok(code),
        }
    }
}

/// What a command says, or the status it ends with when it has said why on standard error.
type Said = Result<String, ExitCode>;

impl Folder {
    /// The policies with all their versions.
    fn identify(&self) -> Result<Vec<Identified>, ExitCode> {
        declare::identify(&self.policies).map_err(|why| refused(&why))
    }
}

/// Says what is wrong. The lines of a policy may hold secrets: they are shown to who sits there, never to a log.
pub(super) fn refused(why: &declare::Rejected) -> ExitCode {
    if io::stderr().is_terminal() {
        complain(why);
    } else {
        complain(why.plain());
    }
    match why {
        declare::Rejected::Invalid { .. }
        | declare::Rejected::NoPolicies { .. }
        | declare::Rejected::VersionChanged { .. } => ExitCode::from(INVALID),
        declare::Rejected::FolderUnreadable { .. }
        | declare::Rejected::Changing { .. }
        | declare::Rejected::HoldsUnreadable { .. } => super::no_answer(1),
    }
}

/// Prints it. That nobody reads on is no failure.
pub(super) fn print(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Rows with their columns side by side, two spaces between them.
fn columns(rows: &[Vec<String>]) -> String {
    use unicode_width::UnicodeWidthStr;
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (index, cell) in row.iter().enumerate() {
            let width = cell.width();
            match widths.get_mut(index) {
                Some(known) => *known = width.max(*known),
                None => widths.push(width),
            }
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width - cell.width() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
