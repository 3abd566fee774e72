//! drift's own commands: `cargo xtask --help`. One file per command; what several of them need comes first.

#![forbid(unsafe_code)]

mod apt;
mod architecture;
mod archive;
mod go;
mod interrupt;
mod machine;
mod shell;
mod step;
mod workspace;

mod bench;
mod build;
mod ci;
mod collector;
mod deb;
mod demo;
mod generate;
mod image;
mod kube;
mod setup;
mod sweep;
mod test;
mod tidy;
mod vmtest;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  cargo xtask demo              see drifts of real files being seen, attributed, healed, verified
  cargo xtask build --release   the one binary, kernel programs inside: target/release/drift-agent
  cargo xtask test              every test this machine can run, and what was skipped and why
  cargo xtask vmtest            the kernel tier of the tests in other kernels, in QEMU
  cargo xtask image             the agent as a container image: target/image/drift-agent.tar
  cargo xtask kube up           a real Kubernetes on this machine, in seconds
  cargo xtask setup --check     what building the kernel programs still needs here";

/// drift's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
struct Cli {
    /// Show each command before it is run.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Setup(setup::Args),
    Build(build::Args),
    Demo(demo::Args),
    Test(test::Args),
    Sweep(sweep::Args),
    Vmtest(vmtest::Args),
    Image(image::Args),
    Deb(deb::Args),
    Kube(kube::Args),
    Bench(bench::Args),
    Generate(generate::Args),
    Tidy(tidy::Args),
    Ci(ci::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    step::be_verbose(cli.verbose);
    let result = match cli.command {
        Command::Setup(args) => setup::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Vmtest(args) => vmtest::run(&args),
        Command::Image(args) => image::run(&args),
        Command::Deb(args) => deb::run(&args),
        Command::Kube(args) => kube::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Tidy(args) => tidy::run(&args),
        Command::Ci(args) => ci::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<interrupt::Interrupted>() => {
            eprintln!("interrupted");
            ExitCode::from(130) // what a shell reports for Ctrl-C
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The names of the commands above; `tidy` holds the documents against them.
fn command_names() -> Vec<String> {
    Cli::command()
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_holds_together_and_every_command_says_what_it_does() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            // Wider lines are broken where they say least.
            let examples = command.get_after_help().map(ToString::to_string);
            for line in examples.unwrap_or_default().lines() {
                assert!(line.chars().count() <= 100, "{line}");
            }
        }
        assert!(command_names().contains(&"demo".to_owned()));
    }
}
