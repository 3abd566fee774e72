//! Files in an archive, of which the same files always give the same bytes; and images without a registry and without a builder: an archive as
//! `docker save` writes it, with one layer, in which no mode lets anybody write.

use std::{io::Write, path::Path};

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::architecture::Architecture;

/// A file or link, at a path without its first `/`.
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) what: What,
}

pub(crate) enum What {
    Directory,
    Program(Vec<u8>),
    File(Vec<u8>),
    Link(String),
}

/// Writes the image `reference` (as in `localhost/x:1`) for nodes of that kind, with `entries` and this entry point; gives the digest of its configuration, by which
/// container runtimes know it.
pub(crate) fn write(
    to: impl Write,
    reference: &str,
    architecture: Architecture,
    entrypoint: &[&str],
    entries: &[Entry],
) -> Result<String> {
    let layer = files(entries, Owner::Reads)?;
    let layer_digest = digest(&layer);
    let config = json!({
        "architecture": architecture.name(),
        "os": "linux",
        "config": {"Entrypoint": entrypoint, "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]},
        "history": [{"created_by": "cargo xtask"}],
    })
    .to_string();
    let config_digest = digest(config.as_bytes());
    let config_name = format!("{config_digest}.json");
    let layer_name = format!("{layer_digest}.tar");
    let manifest =
        json!([{"Config": config_name, "RepoTags": [reference], "Layers": [layer_name]}])
            .to_string();
    let mut archive = tar::Builder::new(to);
    for (name, bytes) in [
        (config_name.as_str(), config.as_bytes()),
        (layer_name.as_str(), &layer),
        ("manifest.json", manifest.as_bytes()),
    ] {
        file(&mut archive, name, 0o644, bytes)?;
    }
    archive.finish().context("ending an image")?;
    Ok(config_digest)
}

/// What the owner of all files, root, may do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Reads,
    Writes,
}

/// An archive of `entries`, all of which are root's.
pub(crate) fn files(entries: &[Entry], owner: Owner) -> Result<Vec<u8>> {
    let write = match owner {
        Owner::Reads => 0,
        Owner::Writes => 0o200,
    };
    let mut archive = tar::Builder::new(Vec::new());
    for Entry { path, what } in entries {
        match what {
            What::Program(bytes) => file(&mut archive, path, 0o555 | write, bytes)?,
            What::File(bytes) => file(&mut archive, path, 0o444 | write, bytes)?,
            What::Directory => {
                let mut header = header(tar::EntryType::Directory, 0o555 | write, 0);
                archive
                    .append_data(&mut header, Path::new(path), std::io::empty())
                    .with_context(|| format!("adding {path}"))?;
            }
            What::Link(target) => {
                let mut header = header(tar::EntryType::Symlink, 0o777, 0);
                archive
                    .append_link(&mut header, path, target)
                    .with_context(|| format!("adding {path}"))?;
            }
        }
    }
    archive.into_inner().context("ending an archive")
}

fn file<W: Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    mode: u32,
    bytes: &[u8],
) -> Result<()> {
    let mut header = header(tar::EntryType::Regular, mode, bytes.len() as u64);
    archive
        .append_data(&mut header, name, bytes)
        .with_context(|| format!("adding {name}"))
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    // The field has room for them.
    for set in [tar::Header::set_username, tar::Header::set_groupname] {
        set(&mut header, "root").expect("a short name");
    }
    header.set_mtime(0); // the same files, the same bytes
    header
}

fn digest(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn made() -> Vec<u8> {
        let mut image = Vec::new();
        let entries = [
            Entry {
                path: "bin".to_owned(),
                what: What::Directory,
            },
            Entry {
                path: "bin/x".to_owned(),
                what: What::Program(b"program".to_vec()),
            },
            Entry {
                path: "bin/sh".to_owned(),
                what: What::Link("x".to_owned()),
            },
        ];
        let architecture = Architecture::Arm64;
        write(
            &mut image,
            "localhost/x:1",
            architecture,
            &["/bin/x"],
            &entries,
        )
        .unwrap();
        image
    }

    #[test]
    fn an_image_names_its_parts_by_their_digests_and_is_the_same_each_time() {
        let image = made();
        assert_eq!(image, made());
        let mut parts = std::collections::BTreeMap::new();
        for entry in tar::Archive::new(&image[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            parts.insert(name, bytes);
        }
        let manifest: serde_json::Value = serde_json::from_slice(&parts["manifest.json"]).unwrap();
        assert_eq!(manifest[0]["RepoTags"][0], "localhost/x:1");
        let layer = manifest[0]["Layers"][0].as_str().unwrap();
        assert_eq!(layer, format!("{}.tar", digest(&parts[layer])));
        let config: serde_json::Value =
            serde_json::from_slice(&parts[manifest[0]["Config"].as_str().unwrap()]).unwrap();
        assert_eq!(config["architecture"], "arm64");
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            format!("sha256:{}", digest(&parts[layer]))
        );
        let paths: Vec<(String, u32)> = tar::Archive::new(&parts[layer][..])
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let path = entry.path().unwrap().display().to_string();
                (path, entry.header().mode().unwrap())
            })
            .collect();
        // A link has no mode of its own.
        let expected = [("bin", 0o555), ("bin/x", 0o555), ("bin/sh", 0o777)];
        assert_eq!(paths, expected.map(|(path, mode)| (path.to_owned(), mode)));
        assert_eq!(
            digest(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
