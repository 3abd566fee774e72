//! A scratch folder with policies, state, and the tree they are about. Gone with its value.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// One declared file.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Relative to the tree.
    pub path: &'static str,
    pub content: String,
    /// Octal, as in a policy; `None`: not declared.
    pub mode: Option<&'static str>,
    pub owner: Option<&'static str>,
}

/// `path` with `content`, nothing else declared.
#[must_use]
pub fn file(path: &'static str, content: &str) -> Declared {
    Declared {
        path,
        content: content.to_owned(),
        mode: None,
        owner: None,
    }
}

/// The folder.
#[derive(Debug)]
pub struct Scene {
    folder: TempDir,
}

impl Scene {
    /// An empty one.
    ///
    /// # Errors
    /// The file system's.
    pub fn new() -> Result<Scene> {
        let folder = tempfile::Builder::new().prefix("drift-test-").tempdir()?;
        let scene = Scene { folder };
        for folder in [scene.policies(), scene.tree(), scene.elsewhere()] {
            fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        }
        Ok(scene)
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The policy folder.
    #[must_use]
    pub fn policies(&self) -> PathBuf {
        self.root().join("policies")
    }

    /// Where declared files stand.
    #[must_use]
    pub fn tree(&self) -> PathBuf {
        self.root().join("tree")
    }

    /// On the same file system, not declared.
    #[must_use]
    pub fn elsewhere(&self) -> PathBuf {
        self.root().join("elsewhere")
    }

    /// A path in the tree.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        self.tree().join(path)
    }

    /// Writes policy "p" as declared, with extra lines for the Policy's `spec` (indented by two).
    ///
    /// # Errors
    /// The file system's.
    pub fn declare(&self, version: &str, policy_spec: &str, files: &[Declared]) -> Result<()> {
        // Written aside and moved in, as a careful user does: the agent never sees half a policy.
        let aside = self.root().join("policy.new");
        fs::write(&aside, self.policy(version, policy_spec, files))?;
        fs::rename(aside, self.policies().join("policy.yaml"))?;
        Ok(())
    }

    /// Writes policy "p" with these lines for the PolicyVersion's `spec` (indented by two); `TREE` in them is where declared files stand.
    ///
    /// # Errors
    /// The file system's.
    pub fn declare_spec(&self, version: &str, policy_spec: &str, spec: &str) -> Result<()> {
        let text = self.policy(version, policy_spec, &[]);
        let text = text.trim_end().trim_end_matches("files:").to_owned() + spec.trim_start();
        let text = text.replace("TREE", &self.tree().display().to_string());
        let aside = self.root().join("policy.new");
        fs::write(&aside, text)?;
        fs::rename(aside, self.policies().join("policy.yaml"))?;
        Ok(())
    }

    /// The policy's text.
    #[must_use]
    pub fn policy(&self, version: &str, policy_spec: &str, files: &[Declared]) -> String {
        let mut text = format!(
            "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec:\n  activeVersion: {version}\n{policy_spec}\
             ---\napiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: p-{version}}}\nspec:\n  policy: p\n  version: {version}\n  files:\n"
        );
        for file in files {
            let path = serde_json::Value::from(self.at(file.path).display().to_string());
            let content = serde_json::Value::from(file.content.clone());
            text.push_str(&format!(
                "    - path: {path}\n      content: {{inline: {content}}}\n"
            ));
            if let Some(mode) = file.mode {
                text.push_str(&format!("      mode: \"{mode}\"\n"));
            }
            if let Some(owner) = file.owner {
                text.push_str(&format!("      owner: {owner}\n"));
            }
        }
        text
    }

    /// Puts the files there as declared, so that an agent finds nothing at its start.
    ///
    /// # Errors
    /// The file system's.
    pub fn lay_out(&self, files: &[Declared]) -> Result<()> {
        lay_out_in(&self.tree(), files)
    }
}

/// Puts the files as declared into a folder that is seen as the tree of a scene later, as the lower layer of an overlay.
///
/// # Errors
/// The file system's.
pub fn lay_out_in(tree: &Path, files: &[Declared]) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for file in files {
        let path = tree.join(file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.content)?;
        if let Some(mode) = file.mode {
            fs::set_permissions(
                &path,
                fs::Permissions::from_mode(u32::from_str_radix(mode, 8)?),
            )?;
        }
    }
    Ok(())
}

/// Heals at once, every time.
pub const HEAL_AT_ONCE: &str = "  mode: heal\n  guard: {backoff: {first: 0s}}\n";
/// Heals with the default brakes.
pub const HEAL: &str = "  mode: heal\n";
/// Says nothing of a mode.
pub const DEFAULT: &str = "";
