//! `drift-agent completions` and `drift-agent man`: what shells and readers of manuals want, made from the definition of the command line when it is
//! asked for. Nothing of it is kept anywhere else, so nothing can be out of date.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, policy::print};

/// Print what a shell needs to complete this program's commands.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  drift-agent completions bash > /etc/bash_completion.d/drift-agent
  drift-agent completions fish > ~/.config/fish/completions/drift-agent.fish";

impl Completions {
    /// Runs the command.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn run(self) -> Result<ExitCode> {
        print(&script(self.shell))?;
        Ok(ExitCode::SUCCESS)
    }
}

const NAME: &str = "drift-agent";

/// What `shell` reads.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        // The generator sets `drift__agent__…` and asks for `drift__subcmd__agent__…`: it takes the hyphen of our name for the way to a subcommand,
        // and no option of any command would be completed.
        Shell::Bash => script.replace("drift__subcmd__agent", "drift__agent"),
        _ => script,
    }
}

/// Write the manual, a page for each command.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct Man {
    /// Folder for the pages; it is made where it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

const MAN_EXAMPLES: &str = "\
Examples:
  drift-agent man man1 && man ./man1/drift-agent-run.1
  sudo drift-agent man /usr/local/share/man/man1";

impl Man {
    /// Runs the command.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn run(self) -> Result<ExitCode> {
        let shown = self.folder.display().to_string();
        let write = || {
            fs::create_dir_all(&self.folder)?;
            clap_mangen::generate_to(Cli::command(), &self.folder)
        };
        write().with_context(|| format!("cannot write the manual to {shown}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, ValueEnum};

    use super::*;

    /// The pages of a command and of all below it.
    fn pages(command: &Command, above: &str, pages: &mut Vec<String>) {
        let name = format!("{above}{}", command.get_name());
        pages.push(format!("{name}.1"));
        for below in command
            .get_subcommands()
            .filter(|below| below.get_name() != "help")
        {
            self::pages(below, &format!("{name}-"), pages);
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_page_and_every_page_its_examples() {
        let folder = tempfile::tempdir().expect("a folder");
        let man = Man {
            folder: folder.path().join("man1"),
        };
        man.run().expect("written");
        let mut expected = Vec::new();
        pages(&Cli::command(), "", &mut expected);
        for page in &expected {
            let text = fs::read_to_string(folder.path().join("man1").join(page)).expect(page);
            assert!(text.contains(".SH NAME"), "{page}");
        }
        for name in [
            "drift-agent.1",
            "drift-agent-run.1",
            "drift-agent-history.1",
            "drift-agent-status.1",
        ] {
            assert!(expected.contains(&name.to_owned()), "{expected:?}");
            let text = fs::read_to_string(folder.path().join("man1").join(name)).expect(name);
            assert!(text.contains("Examples:"), "{name}");
        }
    }

    #[test]
    fn every_shell_is_told_every_command() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for command in Cli::command().get_subcommands() {
                assert!(
                    script.contains(command.get_name()),
                    "{shell}: {}",
                    command.get_name()
                );
            }
        }
    }

    #[test]
    fn bash_finds_the_options_of_every_command_it_is_told_of() {
        let script = script(Shell::Bash);
        let commands = script.split("cmd=\"").skip(1);
        let commands: Vec<&str> = commands
            .filter_map(|rest| Some(rest.split_once('"')?.0))
            .filter(|command| !command.is_empty())
            .collect();
        assert!(commands.len() > 20, "{commands:?}");
        for command in commands {
            assert!(
                script.contains(&format!("\n        {command})\n")),
                "{command}"
            );
        }
    }
}
