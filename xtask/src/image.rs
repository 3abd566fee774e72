//! `cargo xtask image`: the agent as a container image, without a builder and without a registry.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::{
    archive::{self, Entry, What},
    build, setup,
    workspace::Workspace,
};

const EXAMPLES: &str = "\
Examples:
  cargo xtask image                                    target/image/drift-agent.tar
  ctr -n k8s.io images import target/image/drift-agent.tar     onto a node
  docker load -i target/image/drift-agent.tar

In it are the agent, which needs no library, and folders in which a pod mounts what it is given: no
other program, no shell, nothing that its mode lets anybody write to. The same tree gives the same
bytes. deploy/Containerfile is for those who build with a builder.";

/// Write the agent's container image.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

/// An image that was written.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) file: PathBuf,
    /// As in `localhost/drift-agent:0.1.0`.
    pub(crate) reference: String,
    /// Of its configuration: what container runtimes call its ID.
    digest: String,
}

pub(crate) fn run(_: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let image = write(&workspace)?;
    println!("file       {}", workspace.shown(&image.file));
    println!("reference  {}", image.reference);
    println!("id         sha256:{}", image.digest);
    if std::env::consts::ARCH != "aarch64" {
        println!(
            "\nSKIPPED: an image for arm64. It is written by this command on an arm64 machine: there is no cross build yet."
        );
    }
    Ok(())
}

/// Where a pod finds what the chart mounts for it.
const FOLDERS: [&str; 5] = ["etc", "host", "proc", "run", "sys"];
const PROGRAM: &str = "drift-agent";

/// Builds the agent and writes its image.
pub(crate) fn write(workspace: &Workspace) -> Result<Image> {
    let toolchain = setup::ensure(workspace)?;
    build::probes(workspace, &toolchain)?;
    let agent = build::static_agent(workspace)?;
    let program = fs::read(&agent).with_context(|| format!("reading {}", agent.display()))?;
    ensure!(
        !asks_for_a_loader(&program)?,
        "{} needs libraries of the machine that runs it: no image has any",
        agent.display()
    );
    let folder = workspace.target.join("image");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    save(
        folder.join("drift-agent.tar"),
        env!("CARGO_PKG_VERSION"),
        program,
    )
}

/// The image of a program that was built before, with a tag of its own: what is upgraded from.
pub(crate) fn write_again(workspace: &Workspace, tag: &str) -> Result<Image> {
    let agent = build::static_agent(workspace)?;
    let program = fs::read(&agent).with_context(|| format!("reading {}", agent.display()))?;
    let file = workspace.target.join("image").join(format!("{tag}.tar"));
    save(file, tag, program)
}

fn save(file: PathBuf, tag: &str, program: Vec<u8>) -> Result<Image> {
    let reference = format!("localhost/{PROGRAM}:{tag}");
    // Into a name of its own, then renamed: it is there whole or not at all.
    let staged = file.with_extension("new");
    let output =
        fs::File::create(&staged).with_context(|| format!("writing {}", staged.display()))?;
    let digest = put(output, &reference, program)?;
    fs::rename(&staged, &file).with_context(|| format!("renaming to {}", file.display()))?;
    Ok(Image {
        file,
        reference,
        digest,
    })
}

fn put(to: impl std::io::Write, reference: &str, program: Vec<u8>) -> Result<String> {
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
    archive::write(to, reference, &[&format!("/{PROGRAM}")], &entries)
}

/// Whether an ELF file of 64 bits, least byte first, names an interpreter: the loader of shared libraries.
fn asks_for_a_loader(file: &[u8]) -> Result<bool> {
    const INTERPRETER: u32 = 3;
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
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for index in 0..count {
        if number(table + index * size, 4)? == INTERPRETER as usize {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_same_program_gives_the_same_image_with_nothing_else_in_it() {
        let made = |bytes: &[u8]| {
            let mut image = Vec::new();
            let digest = put(&mut image, "localhost/drift-agent:1", bytes.to_vec()).unwrap();
            (image, digest)
        };
        let (image, digest) = made(b"program");
        assert_eq!((image.clone(), digest.clone()), made(b"program"));
        assert_ne!(digest, made(b"another").1);
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
    fn a_program_that_needs_libraries_is_told_from_one_that_does_not() {
        // This test's own program, as Cargo builds it, has a loader.
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(asks_for_a_loader(&own).unwrap());
        let mut file = vec![0; 64 + 2 * 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (file[32], file[54], file[56]) = (64, 56, 2);
        (file[64], file[64 + 56]) = (1, 1);
        assert!(!asks_for_a_loader(&file).unwrap());
        file[64 + 56] = 3;
        assert!(asks_for_a_loader(&file).unwrap());
        assert!(asks_for_a_loader(&file[..100]).is_err());
        assert!(asks_for_a_loader(b"#!/bin/sh\n").is_err());
    }
}
