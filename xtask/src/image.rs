//! `cargo xtask image`: the agent as a container image, without a builder and without a registry.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::{
    architecture::Architecture,
    archive::{self, Entry, What},
    build, setup,
    workspace::Workspace,
};

const EXAMPLES: &str = "\
Examples:
  cargo xtask image                                    target/image/drift-agent.tar
  cargo xtask image --arch arm64                       target/image/drift-agent-arm64.tar
  cargo xtask image --arch all                         both, on an amd64 machine
  ctr -n k8s.io images import target/image/drift-agent.tar     onto a node
  docker load -i target/image/drift-agent.tar

In it are the agent, which needs no library, and folders in which a pod mounts what it is given: no
other program, no shell, nothing that its mode lets anybody write to. The same tree gives the same
bytes. The image of each architecture is a file of its own, with the same reference: import it on
nodes of that kind. What arm64 needs besides is found or installed, as `cargo xtask build --arch
arm64` does; continuous integration does not build it. deploy/Containerfile is for those who build
with a builder.";

/// Write the agent's container image.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What nodes it is for [default: those like this machine].
    #[arg(long, value_name = "ARCH")]
    arch: Option<Which>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    Amd64,
    Arm64,
    All,
}

impl Which {
    fn architectures(self) -> Vec<Architecture> {
        match self {
            Which::Amd64 => vec![Architecture::Amd64],
            Which::Arm64 => vec![Architecture::Arm64],
            Which::All => Architecture::ALL.to_vec(),
        }
    }
}

/// An image that was written.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) file: PathBuf,
    /// As in `localhost/drift-agent:0.1.0`.
    pub(crate) reference: String,
    /// Of its configuration: what container runtimes call its ID.
    digest: String,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let architectures = args
        .arch
        .map_or_else(|| vec![Architecture::here()], Which::architectures);
    for architecture in architectures {
        let image = write(&workspace, architecture)?;
        println!("file       {}", workspace.shown(&image.file));
        println!("platform   linux/{}", architecture.name());
        println!("reference  {}", image.reference);
        println!("id         sha256:{}", image.digest);
    }
    Ok(())
}

/// Where a pod finds what the chart mounts for it.
const FOLDERS: [&str; 5] = ["etc", "host", "proc", "run", "sys"];
const PROGRAM: &str = "drift-agent";

/// Builds the agent and writes its image.
pub(crate) fn write(workspace: &Workspace, architecture: Architecture) -> Result<Image> {
    let toolchain = setup::ensure(workspace)?;
    build::probes(workspace, &toolchain)?;
    let agent = build::static_agent(workspace, architecture)?;
    let program = fs::read(&agent).with_context(|| format!("reading {}", agent.display()))?;
    let needs = needs(&program).with_context(|| format!("reading {}", agent.display()))?;
    ensure!(
        needs.architecture == Some(architecture),
        "{} is not for {}",
        agent.display(),
        architecture.name()
    );
    ensure!(
        !needs.loader,
        "{} needs libraries of the machine that runs it: no image has any",
        agent.display()
    );
    let folder = workspace.target.join("image");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    save(
        folder.join(file_name(architecture)),
        env!("CARGO_PKG_VERSION"),
        architecture,
        program,
    )
}

/// Plain for nodes like this machine.
fn file_name(architecture: Architecture) -> String {
    if architecture == Architecture::here() {
        format!("{PROGRAM}.tar")
    } else {
        format!("{PROGRAM}-{}.tar", architecture.name())
    }
}

/// The image of a program that was built before, with a tag of its own: what is upgraded from.
pub(crate) fn write_again(workspace: &Workspace, tag: &str) -> Result<Image> {
    let architecture = Architecture::here();
    let agent = build::static_agent(workspace, architecture)?;
    let program = fs::read(&agent).with_context(|| format!("reading {}", agent.display()))?;
    let file = workspace.target.join("image").join(format!("{tag}.tar"));
    save(file, tag, architecture, program)
}

fn save(file: PathBuf, tag: &str, architecture: Architecture, program: Vec<u8>) -> Result<Image> {
    let reference = format!("localhost/{PROGRAM}:{tag}");
    // Into a name of its own, then renamed: it is there whole or not at all.
    let staged = file.with_extension("new");
    let output =
        fs::File::create(&staged).with_context(|| format!("writing {}", staged.display()))?;
    let digest = put(output, &reference, architecture, program)?;
    fs::rename(&staged, &file).with_context(|| format!("renaming to {}", file.display()))?;
    Ok(Image {
        file,
        reference,
        digest,
    })
}

fn put(
    to: impl std::io::Write,
    reference: &str,
    architecture: Architecture,
    program: Vec<u8>,
) -> Result<String> {
    let mut entries: Vec<Entry> = FOLDERS
        .map(|folder| Entry {
            path: folder.to_owned(),
            what: What::Directory,
        })
        .into();
    entries.push(Entry {
        path: PROGRAM.to_owned(),
        what: What::Program(program),
    });
    archive::write(
        to,
        reference,
        architecture,
        &[&format!("/{PROGRAM}")],
        &entries,
    )
}

/// What a program asks of the machine that runs it.
#[derive(Debug, PartialEq, Eq)]
struct Needs {
    /// `None`: one that drift is not built for.
    architecture: Option<Architecture>,
    /// The loader of shared libraries.
    loader: bool,
}

/// Of an ELF file of 64 bits, least byte first.
fn needs(file: &[u8]) -> Result<Needs> {
    const INTERPRETER: usize = 3;
    const X86_64: usize = 62;
    const AARCH64: usize = 183;
    let part = |at: usize, length: usize| {
        at.checked_add(length)
            .and_then(|end| file.get(at..end))
            .context("the program is cut off")
    };
    let number = |at: usize, length: usize| -> Result<usize> {
        let bytes = part(at, length)?.iter().rev();
        Ok(bytes.fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    ensure!(
        part(0, 6)? == b"\x7fELF\x02\x01",
        "the program is no ELF file of 64 bits, least byte first"
    );
    let architecture = match number(18, 2)? {
        X86_64 => Some(Architecture::Amd64),
        AARCH64 => Some(Architecture::Arm64),
        _ => None,
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut loader = false;
    for index in 0..count {
        loader |= number(table + index * size, 4)? == INTERPRETER;
    }
    Ok(Needs {
        architecture,
        loader,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_same_program_gives_the_same_image_with_nothing_else_in_it() {
        let made = |architecture: Architecture, bytes: &[u8]| {
            let mut image = Vec::new();
            let reference = "localhost/drift-agent:1";
            let digest = put(&mut image, reference, architecture, bytes.to_vec()).unwrap();
            (image, digest)
        };
        for architecture in Architecture::ALL {
            assert_eq!(
                made(architecture, b"program"),
                made(architecture, b"program")
            );
        }
        let (image, digest) = made(Architecture::Amd64, b"program");
        assert_ne!(digest, made(Architecture::Amd64, b"another").1);
        assert_ne!(digest, made(Architecture::Arm64, b"program").1);
        let mut files = Vec::new();
        for entry in tar::Archive::new(&image[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            if name.ends_with(".tar") {
                let mut layer = tar::Archive::new(&bytes[..]);
                for entry in layer.entries().unwrap() {
                    let entry = entry.unwrap();
                    let header = entry.header();
                    assert_eq!(header.mode().unwrap() & 0o222, 0, "{:?}", entry.path());
                    assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
                    if header.entry_type().is_file() {
                        files.push(entry.path().unwrap().display().to_string());
                    }
                }
            }
        }
        assert_eq!(files, ["drift-agent"], "no shell, no library");
    }

    #[test]
    fn what_a_program_needs_is_read_from_its_headers() {
        // This test's own program, as Cargo builds it, has a loader.
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let asked = Needs {
            architecture: Some(Architecture::here()),
            loader: true,
        };
        assert_eq!(needs(&own).unwrap(), asked);
        let mut file = vec![0; 64 + 2 * 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (file[18], file[32], file[54], file[56]) = (183, 64, 56, 2);
        (file[64], file[64 + 56]) = (1, 1);
        let asked = Needs {
            architecture: Some(Architecture::Arm64),
            loader: false,
        };
        assert_eq!(needs(&file).unwrap(), asked);
        file[64 + 56] = 3;
        assert!(needs(&file).unwrap().loader);
        file[18] = 8;
        assert_eq!(needs(&file).unwrap().architecture, None);
        assert!(needs(&file[..100]).is_err());
        assert!(needs(b"#!/bin/sh\n").is_err());
    }
}
