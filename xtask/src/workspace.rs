//! Where the checkout is and where its builds go.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::step::Step;

#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's own answer: `target`, or where CARGO_TARGET_DIR or a configuration file points.
    pub(crate) target: PathBuf,
    /// The least Rust that builds drift: (major, minor).
    pub(crate) rust: (u32, u32),
    /// Each member's name and `license` field.
    pub(crate) licenses: Vec<(String, Option<String>)>,
}

/// How the agent is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Dev,
    Release,
}

impl Profile {
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Profile::Dev => "debug",
            Profile::Release => "release",
        }
    }
}

impl Workspace {
    pub(crate) fn find() -> Result<Workspace> {
        // Cargo says at run time where this package is; the compiled-in place is for a binary started by hand.
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package
            .parent()
            .context("xtask lies in no folder")?
            .to_owned();
        let answer = Step::cargo("ask cargo about the workspace")
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .current_dir(&root)
            .read()?;
        let metadata: Value = serde_json::from_str(&answer).context("cargo metadata's answer")?;
        Workspace::from_metadata(&metadata).context("cargo metadata's answer lacks a field")
    }

    fn from_metadata(metadata: &Value) -> Option<Workspace> {
        let packages = metadata["packages"].as_array()?;
        let named = |name: &str| packages.iter().find(|package| package["name"] == *name);
        Some(Workspace {
            root: metadata["workspace_root"].as_str()?.into(),
            target: metadata["target_directory"].as_str()?.into(),
            rust: release(named("drift-ebpf")?["rust_version"].as_str()?)?,
            licenses: packages
                .iter()
                .map(|package| {
                    Some((
                        package["name"].as_str()?.to_owned(),
                        package["license"].as_str().map(str::to_owned),
                    ))
                })
                .collect::<Option<_>>()?,
        })
    }

    /// The kernel programs as the agent embeds them. `.cargo/config.toml` names the same place for a plain `cargo build`.
    pub(crate) fn probes(&self) -> PathBuf {
        self.target.join("probes").join("drift-ebpf")
    }

    pub(crate) fn agent(&self, profile: Profile) -> PathBuf {
        self.target.join(profile.folder()).join("drift-agent")
    }

    pub(crate) fn tools(&self) -> PathBuf {
        crate::machine::tools_folder(&self.target)
    }

    /// `path` as it is best read: relative to the checkout when it lies in it.
    pub(crate) fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// Major and minor of a version such as `1.95`, `1.96.0` or `1.97.0-nightly`.
pub(crate) fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim().split(['.', '-', '+', '~']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_release_is_compared_as_numbers() {
        assert_eq!(release("1.95"), Some((1, 95)));
        assert_eq!(release("1.96.0+dfsg1-1~deb12u2"), Some((1, 96)));
        assert_eq!(release("1.100.0-nightly"), Some((1, 100)));
        assert!(release("1.100.0") > release("1.95.0"));
        assert_eq!(release("stable"), None);
    }

    #[test]
    fn the_workspace_is_read_from_cargos_answer() {
        let workspace = Workspace::from_metadata(&serde_json::json!({
            "workspace_root": "/w",
            "target_directory": "/t",
            "packages": [
                {"name": "drift-ebpf", "rust_version": "1.95", "license": "GPL-2.0 OR MIT"},
                {"name": "xtask", "rust_version": "1.95", "license": null},
            ],
        }))
        .unwrap();
        assert_eq!(workspace.probes(), Path::new("/t/probes/drift-ebpf"));
        assert_eq!(
            workspace.agent(Profile::Release),
            Path::new("/t/release/drift-agent")
        );
        assert_eq!(workspace.rust, (1, 95));
        assert_eq!(workspace.licenses[1], ("xtask".to_owned(), None));
    }
}
