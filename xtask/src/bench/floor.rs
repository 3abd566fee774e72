//! The least that a look at many files can cost: the system calls, and nothing of what they say.
//!
//! A program of its own, as those it is compared with are.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::PathBuf,
    thread,
};

use anyhow::Result;
use clap::ValueEnum;

use super::tree;

/// Opens, reads and closes every file of a tree; or asks for its times only.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    what: What,
    tree: PathBuf,
    files: usize,
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum What {
    Read,
    Stat,
}

impl What {
    pub(super) fn name(self) -> &'static str {
        match self {
            What::Read => "read",
            What::Stat => "stat",
        }
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let Args {
        what,
        tree,
        files,
        threads,
    } = args;
    thread::scope(|scope| {
        let share = files.div_ceil(*threads);
        let workers: Vec<_> = (0..*threads)
            .map(|thread| {
                let numbers = thread * share..((thread + 1) * share).min(*files);
                scope.spawn(move || {
                    let mut buffer = [0; 64 << 10];
                    for number in numbers {
                        let path = tree::path(tree, number);
                        match what {
                            What::Read => {
                                std::hint::black_box(File::open(path)?.read(&mut buffer)?);
                            }
                            What::Stat => {
                                std::hint::black_box(fs::symlink_metadata(path)?);
                            }
                        }
                    }
                    Ok::<_, io::Error>(())
                })
            })
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => done?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })
}
