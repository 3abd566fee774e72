//! `cargo xtask deb`: the agent and its unit as a Debian package, for hosts without Kubernetes. Written here: a package is three small archives, and the
//! same tree gives the same bytes.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};

use crate::{
    architecture::Architecture,
    archive::{self, Entry, Owner, What},
    build, setup,
    workspace::Workspace,
};

const EXAMPLES: &str = "\
Examples:
  cargo xtask deb        target/deb/drift-agent_<version>_<architecture>.deb
  sudo dpkg -i target/deb/drift-agent_*.deb

It brings /usr/sbin/drift-agent, links by which kubectl finds its plugin, and a unit, starts
nothing by itself, and takes the state folder away when it is purged. Policies go into
/etc/drift/policies.";

/// Write the agent as a Debian package.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let toolchain = setup::ensure(&workspace)?;
    build::probes(&workspace, &toolchain)?;
    // Without libraries of the machine, it is for every release of Debian.
    let agent = build::static_agent(&workspace, Architecture::here())?;
    let read =
        |path: PathBuf| fs::read(&path).with_context(|| format!("reading {}", path.display()));
    let parts = Parts {
        program: read(agent)?,
        unit: read(workspace.root.join("deploy/systemd/drift-agent.service"))?,
        licence: read(workspace.root.join("LICENSE-APACHE"))?,
    };
    let folder = workspace.target.join("deb");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let (version, architecture) = (env!("CARGO_PKG_VERSION"), Architecture::here().name());
    let file = folder.join(format!("drift-agent_{version}_{architecture}.deb"));
    let staged = file.with_extension("new");
    fs::write(&staged, package(parts)?).with_context(|| format!("writing {}", staged.display()))?;
    fs::rename(&staged, &file).with_context(|| format!("renaming to {}", file.display()))?;
    println!("{}", workspace.shown(&file));
    Ok(())
}

/// What is installed.
struct Parts {
    program: Vec<u8>,
    unit: Vec<u8>,
    licence: Vec<u8>,
}

/// Run by dpkg after files were put in place.
const AFTER: &str = "\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart drift-agent.service
fi
";

/// Before files go, for good or for another version.
const BEFORE_REMOVAL: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now drift-agent.service
fi
";

const AFTER_REMOVAL: &str = "\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
if [ \"$1\" = purge ]; then
    rm -rf /var/lib/drift-agent
fi
";

fn package(parts: Parts) -> Result<Vec<u8>> {
    let Parts {
        program,
        unit,
        licence,
    } = parts;
    let kibibytes = (program.len() + unit.len() + licence.len()).div_ceil(1024);
    let control = format!(
        "Package: drift-agent
Version: {}
Architecture: {}
Maintainer: drift
Section: admin
Priority: optional
Installed-Size: {kibibytes}
Description: keeps configuration files as they are declared
 Kernel programs see who changes a declared file. The agent compares it with what
 is declared, puts that back where a policy says so, and reports who it was.
",
        env!("CARGO_PKG_VERSION"),
        Architecture::here().name()
    );
    let script = |path: &str, text: &str| Entry {
        path: path.to_owned(),
        what: What::Program(text.into()),
    };
    let control = [
        Entry {
            path: "control".to_owned(),
            what: What::File(control.into_bytes()),
        },
        script("postinst", AFTER),
        script("prerm", BEFORE_REMOVAL),
        script("postrm", AFTER_REMOVAL),
    ];
    let mut data: Vec<Entry> = [
        "etc",
        "etc/drift",
        "etc/drift/policies",
        "usr",
        "usr/bin",
        "usr/lib",
        "usr/lib/systemd",
        "usr/lib/systemd/system",
        "usr/sbin",
        "usr/share",
        "usr/share/doc",
        "usr/share/doc/drift-agent",
    ]
    .map(|folder| Entry {
        path: folder.to_owned(),
        what: What::Directory,
    })
    .into();
    for (path, what) in [
        ("usr/sbin/drift-agent", What::Program(program)),
        (
            "usr/lib/systemd/system/drift-agent.service",
            What::File(unit),
        ),
        ("usr/share/doc/drift-agent/copyright", What::File(licence)),
        // By these names kubectl finds its plugins, and what completes their commands.
        ("usr/bin/kubectl-drift", link()),
        ("usr/bin/kubectl_complete-drift", link()),
    ] {
        data.push(Entry {
            path: path.to_owned(),
            what,
        });
    }
    let mut package = b"!<arch>\n".to_vec();
    member(&mut package, "debian-binary", b"2.0\n");
    let control = archive::files(&control, Owner::Writes)?;
    member(&mut package, "control.tar", &control);
    member(
        &mut package,
        "data.tar",
        &archive::files(&data, Owner::Writes)?,
    );
    Ok(package)
}

fn link() -> What {
    What::Link("../sbin/drift-agent".to_owned())
}

/// A file in an archive of `ar(1)`: a line of fixed columns, the bytes, and one more where their number is odd.
fn member(archive: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    let (time, user, group, mode, size) = (0, 0, 0, 100_644, bytes.len());
    let head = format!("{name:<16}{time:<12}{user:<6}{group:<6}{mode:<8}{size:<10}`\n");
    archive.extend(head.bytes());
    archive.extend(bytes);
    if !bytes.len().is_multiple_of(2) {
        archive.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Vec<u8> {
        package(Parts {
            program: b"program".to_vec(),
            unit: b"[Unit]\n".to_vec(),
            licence: b"licence\n".to_vec(),
        })
        .unwrap()
    }

    #[test]
    fn a_package_has_three_members_and_is_the_same_each_time() {
        let package = made();
        assert_eq!(package, made());
        let mut rest = package.strip_prefix(b"!<arch>\n").unwrap();
        let mut names = Vec::new();
        while !rest.is_empty() {
            let (head, after) = rest.split_at(60);
            let head = std::str::from_utf8(head).unwrap();
            assert!(head.ends_with("`\n"), "{head}");
            let size: usize = head[48..58].trim().parse().unwrap();
            names.push(head[..16].trim().to_owned());
            if names.last().is_some_and(|name| name == "data.tar") {
                let mut data = tar::Archive::new(&after[..size]);
                let paths: Vec<String> = data
                    .entries()
                    .unwrap()
                    .map(Result::unwrap)
                    .filter(|entry| entry.header().entry_type().is_file())
                    .map(|entry| entry.path().unwrap().display().to_string())
                    .collect();
                assert!(
                    paths.contains(&"usr/sbin/drift-agent".to_owned()),
                    "{paths:?}"
                );
                assert_eq!(paths.len(), 3);
                let mut data = tar::Archive::new(&after[..size]);
                let links = data.entries().unwrap().map(Result::unwrap);
                let links: Vec<_> = links
                    .filter(|entry| entry.header().entry_type().is_symlink())
                    .map(|entry| {
                        let target = entry.link_name().unwrap().unwrap().into_owned();
                        (entry.path().unwrap().into_owned(), target)
                    })
                    .collect();
                let link = |name: &str| (name.into(), "../sbin/drift-agent".into());
                assert_eq!(
                    links,
                    [
                        link("usr/bin/kubectl-drift"),
                        link("usr/bin/kubectl_complete-drift")
                    ]
                );
            }
            rest = &after[size + size % 2..];
        }
        assert_eq!(names, ["debian-binary", "control.tar", "data.tar"]);
    }

    /// Debian's own program is the judge, where it is.
    #[test]
    fn dpkg_reads_it() {
        let Some(dpkg) = crate::machine::which("dpkg-deb") else {
            eprintln!("SKIPPED dpkg_reads_it: not installed: dpkg-deb");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.deb");
        fs::write(&file, made()).unwrap();
        let ask = |what: &str| {
            let step = crate::step::Step::new("ask dpkg", &dpkg);
            step.arg(what).arg(&file).read().unwrap()
        };
        assert!(ask("--info").contains("Package: drift-agent"));
        let listed = ask("--contents");
        assert!(listed.contains("-rwxr-xr-x root/root"), "{listed}");
        assert!(
            listed.contains("usr/lib/systemd/system/drift-agent.service"),
            "{listed}"
        );
    }
}
