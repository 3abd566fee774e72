//! The scratch tree: files as declared, the policy that declares them, and room for the agent's state.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

/// A declared file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    App,
    Tls,
    Limits,
    Hosts,
}

impl Target {
    const ALL: [Target; 4] = [Target::App, Target::Tls, Target::Limits, Target::Hosts];

    pub(super) fn name(self) -> &'static str {
        match self {
            Target::App => "app.conf",
            Target::Tls => "tls.pem",
            Target::Limits => "limits.conf",
            Target::Hosts => "hosts.yaml",
        }
    }

    fn content(self) -> &'static str {
        match self {
            Target::App => "listen = 80\nworkers = 4\nlog = info\n",
            Target::Tls => "-----BEGIN DEMO-----\nnot a real key\n-----END DEMO-----\n",
            Target::Limits => "nofile = 4096\nnproc = 512\n",
            Target::Hosts => "web-1: 192.0.2.1\nweb-2: 192.0.2.2\n",
        }
    }

    fn mode(self) -> u32 {
        match self {
            Target::App | Target::Limits | Target::Hosts => 0o644,
            Target::Tls => 0o600,
        }
    }
}

/// A declared file and where it is.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) path: PathBuf,
    target: Target,
    uid: u32,
    gid: u32,
}

impl Declared {
    /// Whether the file is as declared; the demo's own look, not the agent's.
    pub(super) fn compare(&self) -> Result<(), String> {
        let name = self.target.name();
        let meta = fs::symlink_metadata(&self.path).map_err(|error| format!("{name}: {error}"))?;
        if !meta.is_file() {
            return Err(format!("{name} is no regular file"));
        }
        let content = fs::read(&self.path).map_err(|error| format!("{name}: {error}"))?;
        if content != self.target.content().as_bytes() {
            return Err(format!("the content of {name} is not as declared"));
        }
        let mode = meta.mode() & 0o7777;
        if mode != self.target.mode() {
            return Err(format!(
                "{name} has mode {mode:04o}, not {:04o}",
                self.target.mode()
            ));
        }
        let owner = (meta.uid(), meta.gid());
        if owner != (self.uid, self.gid) {
            return Err(format!(
                "{name} belongs to {}:{}, not to {}:{}",
                owner.0, owner.1, self.uid, self.gid
            ));
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct Scene {
    /// Removed when it is dropped, however the demo ends.
    scratch: TempDir,
    /// The same without symbolic links on the way: a declared path has to lead where it says.
    root: PathBuf,
    files: Vec<Declared>,
}

impl Scene {
    pub(super) fn set() -> Result<Scene> {
        let scratch = tempfile::Builder::new()
            .prefix("drift-demo-")
            .tempdir()
            .context("making a scratch folder")?;
        let root = scratch
            .path()
            .canonicalize()
            .context("finding the scratch folder")?;
        ensure!(
            root.to_str().is_some(),
            "{} is not UTF-8; set TMPDIR to another folder",
            root.display()
        );
        let (uid, gid) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let files = Target::ALL
            .into_iter()
            .map(|target| Declared {
                path: root.join("etc").join(target.name()),
                target,
                uid,
                gid,
            })
            .collect();
        let scene = Scene {
            scratch,
            root,
            files,
        };
        scene.build().context("building the scratch tree")?;
        Ok(scene)
    }

    fn build(&self) -> io::Result<()> {
        for folder in ["etc", "new", "elsewhere", "policies", "state"] {
            fs::create_dir(self.root.join(folder))?;
        }
        for file in &self.files {
            write(&file.path, file.target.content(), file.target.mode())?;
        }
        // What `mv` puts over a declared file, and another name for one.
        write(
            &self.root.join("new/hosts.yaml"),
            "web-1: 198.51.100.66\n",
            0o644,
        )?;
        std::os::unix::fs::symlink("../etc/app.conf", self.root.join("elsewhere/app"))?;
        fs::write(self.policies().join("demo.yaml"), self.policy())
    }

    /// As a person would write it. A JSON string is a YAML string.
    fn policy(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let owner = name_of_id("/etc/passwd", self.files.first().map_or(0, |file| file.uid));
        let group = name_of_id("/etc/group", self.files.first().map_or(0, |file| file.gid));
        let mut text = "\
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: demo}
spec:
  activeVersion: 1.0.0
  mode: heal
  guard: {backoff: {first: 0s}}   # heal every time at once: the demo drifts one file again and again
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: demo-1.0.0}
spec:
  policy: demo
  version: 1.0.0
  files:
"
        .to_owned();
        for file in &self.files {
            text.push_str(&format!(
                "    - path: {}\n      content: {{inline: {}}}\n      mode: \"{:04o}\"\n      owner: {owner}\n      group: {group}\n",
                quoted(&file.path.to_string_lossy()),
                quoted(file.target.content()),
                file.target.mode(),
            ));
        }
        text
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the declared files are.
    pub(super) fn folder(&self) -> PathBuf {
        self.root.join("etc")
    }

    pub(super) fn policies(&self) -> PathBuf {
        self.root.join("policies")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    pub(super) fn ready_file(&self) -> PathBuf {
        self.root.join("ready")
    }

    pub(super) fn file(&self, target: Target) -> &Declared {
        // `files` was made from `Target::ALL`, whose order is that of the enum.
        &self.files[target as usize]
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "{} files declared by policy \"demo\" 1.0.0, mode heal",
            self.files.len()
        )
    }

    /// What lies beside the declared files and was not there before: a healing's forgotten temporary file.
    pub(super) fn undeclared_files(&self) -> Vec<String> {
        let folder = self.folder();
        let Ok(entries) = fs::read_dir(&folder) else {
            return vec![format!("{} cannot be read any more", folder.display())];
        };
        entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| self.files.iter().all(|file| file.path != *path))
            .map(|path| format!("the file {}", path.display()))
            .collect()
    }

    /// Removes the scratch tree; says what would not go.
    pub(super) fn clear(self) -> Option<String> {
        let path = self.root.clone();
        match self.scratch.close() {
            Ok(()) => None,
            Err(error) => Some(format!("{} ({error})", path.display())),
        }
    }
}

fn write(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)) // whatever the umask
}

/// The name for an id as a policy would have it, or the number where the file knows no name.
fn name_of_id(database: &str, id: u32) -> String {
    let text = fs::read_to_string(database).unwrap_or_default();
    name_in(&text, id).map_or_else(|| id.to_string(), str::to_owned)
}

/// In lines `name:password:id:…`; only a name that needs no quotes.
fn name_in(text: &str, id: u32) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, own) = (fields.next()?, fields.nth(1)?);
        let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        (own.parse() == Ok(id) && plain).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scene_is_as_declared_and_goes_away() {
        let scene = Scene::set().unwrap();
        let root = scene.root().to_owned();
        for target in Target::ALL {
            assert_eq!(scene.file(target).compare(), Ok(()));
            assert!(scene.file(target).path.ends_with(target.name()));
        }
        assert!(scene.undeclared_files().is_empty());
        let policy = fs::read_to_string(scene.policies().join("demo.yaml")).unwrap();
        assert!(
            policy.contains("content: {inline: \"nofile = 4096\\nnproc = 512\\n\"}"),
            "{policy}"
        );

        fs::write(scene.folder().join(".left"), "").unwrap();
        assert_eq!(scene.undeclared_files().len(), 1);
        let app = scene.file(Target::App);
        fs::write(&app.path, "else").unwrap();
        assert!(app.compare().unwrap_err().contains("content"));
        fs::remove_file(&app.path).unwrap();
        assert!(app.compare().is_err());
        assert_eq!(scene.clear(), None);
        assert!(!root.exists());
    }

    #[test]
    fn names_are_found_by_id_when_they_need_no_quotes() {
        let text = "root:x:0:0:root:/root:/bin/sh\n1odd:x:7:7::/:\nuser:x:1000:1000::/:\n";
        assert_eq!(name_in(text, 0), Some("root"));
        assert_eq!(name_in(text, 1000), Some("user"));
        assert_eq!(name_in(text, 7), None);
        assert_eq!(name_in(text, 8), None);
    }
}
