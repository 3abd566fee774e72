//! Packages of other releases of Debian, fetched and unpacked without installing them: apt with lists, cache and sources of its own.

use std::{
    cell::OnceCell,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::sources::Source;
use crate::{apt, architecture::Architecture, step::Step};

#[derive(Debug)]
pub(crate) struct Archive {
    /// Where everything is kept.
    folder: PathBuf,
    architecture: Architecture,
    source: Source,
    /// This machine's release, by its name.
    codename: String,
    /// Other suites that are asked.
    suites: Vec<String>,
    listed: OnceCell<()>,
}

impl Archive {
    /// The packages of this machine's release, of its security updates and backports, and of `suites`. `Err`: why packages cannot be fetched here.
    pub(crate) fn find(
        folder: &Path,
        architecture: Architecture,
        suites: &[&str],
    ) -> Result<Archive, String> {
        if !apt::is_here() {
            return Err("they come from Debian's packages, and there is no apt-get here".into());
        }
        let release = fs::read_to_string("/etc/os-release")
            .map_err(|error| format!("/etc/os-release: {error}"))?;
        let codename = release
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
            .ok_or("/etc/os-release has no VERSION_CODENAME")?
            .trim_matches('"')
            .to_owned();
        let source = configured(&codename).ok_or_else(|| {
            format!("apt has no source for {codename} that another suite could be derived from")
        })?;
        let mut all = vec![
            codename.clone(),
            format!("{codename}-security"),
            format!("{codename}-backports"),
        ];
        for suite in suites {
            if !all.iter().any(|known| known == suite) {
                all.push((*suite).to_owned());
            }
        }
        Ok(Archive {
            folder: folder.to_owned(),
            architecture,
            source,
            codename,
            suites: all,
            listed: OnceCell::new(),
        })
    }

    /// A place of one's own in the folder.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The suite of this machine's release.
    pub(crate) fn release(&self) -> String {
        self.codename.clone()
    }

    /// The suite with newer programs for this machine's release.
    pub(crate) fn backports(&self) -> String {
        format!("{}-backports", self.codename)
    }

    /// Removes all that is kept.
    pub(crate) fn forget(&self) -> Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", self.folder.display()))
            }
            _ => Ok(()),
        }
    }

    /// apt's own files. Another architecture's have a place of their own: what is installed on this machine says nothing about them.
    fn apt(&self) -> PathBuf {
        self.folder.join(if self.is_foreign() {
            format!("apt-{}", self.architecture.name())
        } else {
            "apt".to_owned()
        })
    }

    fn is_foreign(&self) -> bool {
        self.architecture != Architecture::here()
    }

    /// The lines of a list file: a suite that this machine has comes from where it has it from, the others from where its release does.
    fn list(&self) -> String {
        self.suites
            .iter()
            .filter_map(|suite| {
                let own = configured(suite);
                // Security updates are not beside the release on every mirror.
                if own.is_none() && suite.ends_with("-security") {
                    return None;
                }
                Some(own.as_ref().unwrap_or(&self.source).line(suite))
            })
            .collect()
    }

    /// A command of apt's that knows nothing but this archive.
    fn step(&self, name: impl Into<String>, program: &str) -> Step {
        let apt = self.apt();
        let place = |option: &str, name: &str| format!("{option}={}", apt.join(name).display());
        let mut options = vec![
            place("Dir::Etc::sourcelist", "sources.list"),
            "Dir::Etc::sourceparts=-".to_owned(),
            place("Dir::State::lists", "lists"),
            place("Dir::Cache", "cache"),
            place("Dir::Cache::archives", "archives"),
            // apt's own user may not write to this one's folders.
            format!("APT::Sandbox::User={}", user()),
            // Releases that are no longer looked after say so by an old date; their signature is checked all the same.
            "Acquire::Check-Valid-Until=false".to_owned(),
            "Acquire::Retries=2".to_owned(),
            "Acquire::http::Timeout=30".to_owned(),
            "Acquire::https::Timeout=30".to_owned(),
            // The machine's own hooks after an update are about the machine's own lists.
            "APT::Update::Post-Invoke-Success::=true".to_owned(),
            "Debug::NoLocking=true".to_owned(),
        ];
        if self.is_foreign() {
            options.extend([
                format!("APT::Architecture={}", self.architecture.name()),
                format!("APT::Architectures={}", self.architecture.name()),
                // Nothing of that architecture is installed.
                place("Dir::State::status", "status"),
            ]);
        }
        options
            .iter()
            .fold(Step::new(name, program), |step, option| {
                step.arg("-o").arg(option)
            })
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("LC_ALL", "C")
    }

    /// Fetches the lists, once per run. A suite that is gone is no reason to stop: what is missing then is said by name.
    fn lists(&self) -> Result<()> {
        if self.listed.get().is_some() {
            return Ok(());
        }
        let apt = self.apt();
        for name in ["lists/partial", "cache", "archives/partial"] {
            let place = apt.join(name);
            fs::create_dir_all(&place).with_context(|| format!("making {}", place.display()))?;
        }
        for (name, text) in [("sources.list", self.list()), ("status", String::new())] {
            let file = apt.join(name);
            fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        let step = self
            .step(
                format!(
                    "fetch the lists of packages for {}",
                    self.architecture.name()
                ),
                "apt-get",
            )
            .args(["update", "-q"]);
        if let Err(error) = step.read() {
            eprintln!("warning: {error:#}");
        }
        self.listed.get_or_init(|| ());
        Ok(())
    }

    /// The names of all packages that begin so.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        self.lists()?;
        let said = self
            .step("ask apt for names", "apt-cache")
            .args(["pkgnames", prefix])
            .read()?;
        Ok(said.lines().map(str::to_owned).collect())
    }

    /// Whether the package is there, and not only spoken of by others.
    pub(crate) fn has(&self, package: &str) -> bool {
        self.step("ask apt", "apt-cache")
            .args(["show", "--no-all-versions", package])
            .read()
            .is_ok_and(|said| said.contains("Filename:"))
    }

    /// Fetches packages and unpacks them into a folder.
    pub(crate) fn unpack(&self, packages: &[&str], into: &Path) -> Result<()> {
        self.lists()?;
        let fetched = self.fetched()?;
        self.step(format!("fetch {}", packages.join(" ")), "apt-get")
            .args(["download", "-q"])
            .args(packages)
            .current_dir(fetched.path())
            .run()?;
        unpack_all(fetched.path(), into)
    }

    /// Fetches packages of a suite with all that they need and that is not on this machine, and unpacks them into a folder.
    pub(crate) fn unpack_with_needs(
        &self,
        packages: &[&str],
        suite: &str,
        into: &Path,
    ) -> Result<()> {
        self.lists()?;
        let fetched = self.fetched()?;
        fs::create_dir(fetched.path().join("partial")).context("making a folder for apt")?;
        self.step(format!("fetch {}", packages.join(" ")), "apt-get")
            .arg("-o")
            .arg(format!("Dir::Cache::archives={}", fetched.path().display()))
            .args(["install", "-y", "-q", "--download-only", "--reinstall"])
            .args(["--no-install-recommends", "-t", suite])
            .args(packages)
            .run()?;
        unpack_all(fetched.path(), into)
    }

    fn fetched(&self) -> Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix(".fetched-")
            .tempdir_in(&self.folder)
            .with_context(|| format!("making a folder in {}", self.folder.display()))
    }
}

fn unpack_all(from: &Path, into: &Path) -> Result<()> {
    let mut any = false;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            Step::new("unpack a package", "dpkg-deb")
                .arg("--extract")
                .args([&path, into])
                .read()?;
            any = true;
        }
    }
    anyhow::ensure!(any, "apt-get reported success, but fetched no package");
    Ok(())
}

fn user() -> String {
    std::env::var("USER")
        .ok()
        .filter(|_| !crate::machine::is_root())
        .unwrap_or_else(|| "root".to_owned())
}

/// What this machine's apt has for its own release.
fn configured(codename: &str) -> Option<Source> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    files.iter().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        match file.extension()?.to_str()? {
            "list" => Source::in_list(&text, codename),
            "sources" => Source::in_stanzas(&text, codename),
            _ => None,
        }
    })
}
