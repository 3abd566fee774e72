//! Debian's packages, where this process may install them.

mod archive;
mod sources;

use std::{fs, sync::OnceLock};

use anyhow::{Result, bail};

use crate::{machine, step::Step};
pub(crate) use archive::Archive;

/// Whether packages can be asked for here at all: Debian or a child of it.
pub(crate) fn is_here() -> bool {
    static HERE: OnceLock<bool> = OnceLock::new();
    *HERE.get_or_init(|| {
        machine::which("apt-get").is_some()
            && fs::read_to_string("/etc/os-release").is_ok_and(|text| is_debian_like(&text))
    })
}

/// Whether this process may install packages.
pub(crate) fn may_install() -> bool {
    is_here() && machine::is_root()
}

fn is_debian_like(os_release: &str) -> bool {
    os_release.lines().any(|line| {
        let value = line
            .strip_prefix("ID=")
            .or_else(|| line.strip_prefix("ID_LIKE="));
        value.is_some_and(|ids| {
            ids.trim_matches('"')
                .split_whitespace()
                .any(|id| id == "debian")
        })
    })
}

pub(crate) fn is_installed(package: &str) -> bool {
    Step::new("ask dpkg", "dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", package])
        .read()
        .is_ok_and(|status| status == "installed")
}

/// The version that would be installed, as far as the lists on this machine know.
pub(crate) fn candidate(package: &str) -> Option<String> {
    Step::new("ask apt", "apt-cache")
        .args(["policy", package])
        .env("LC_ALL", "C")
        .read()
        .ok()
        .and_then(|answer| candidate_in(&answer))
}

fn candidate_in(answer: &str) -> Option<String> {
    let version = answer
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate:"))?
        .trim();
    (version != "(none)").then(|| version.to_owned())
}

/// Fetches the lists of packages, once per run. A list of somebody else's that cannot be fetched is no reason to stop: what is then missing
/// is said by name.
pub(crate) fn update() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        let step = Step::new("fetch the lists of packages", "apt-get")
            .args(["update", "-q"])
            .env("DEBIAN_FRONTEND", "noninteractive");
        if let Err(error) = step.run() {
            eprintln!("warning: {error:#}");
        }
    });
}

/// Installs those of `packages` that are not there.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let wanted = not_installed(packages);
    if wanted.is_empty() {
        return Ok(());
    }
    if wanted.iter().any(|package| candidate(package).is_none()) {
        update();
    }
    if let Err(first) = install_step(&wanted).run() {
        // Old lists name versions that the archive no longer has.
        eprintln!("warning: {first:#}\nTrying once more with fresh lists.");
        update();
        install_step(&wanted).run()?;
    }
    let still = not_installed(&wanted);
    if !still.is_empty() {
        bail!(
            "apt-get reported success, but these are not installed: {}",
            still.join(" ")
        );
    }
    Ok(())
}

fn not_installed<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    let missing = |package: &&str| !is_installed(package);
    packages.iter().copied().filter(missing).collect()
}

fn install_step(packages: &[&str]) -> Step {
    Step::new(format!("install {}", packages.join(" ")), "apt-get")
        .args(["install", "-y", "-q", "--no-install-recommends"])
        .args(["-o", "Dpkg::Use-Pty=0"]) // no progress bars in logs
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_and_its_children_are_told_from_the_rest() {
        assert!(is_debian_like("NAME=\"Debian GNU/Linux\"\nID=debian\n"));
        assert!(is_debian_like("ID=ubuntu\nID_LIKE=\"debian\"\n"));
        assert!(is_debian_like("ID=mint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian_like("ID=fedora\nNAME=not-debian\n"));
    }

    #[test]
    fn the_candidate_is_read_from_apts_answer() {
        let answer = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n  Version table:\n";
        assert_eq!(
            candidate_in(answer).as_deref(),
            Some("1.96.0+dfsg1-1~deb12u2")
        );
        assert_eq!(
            candidate_in("x:\n  Installed: (none)\n  Candidate: (none)\n"),
            None
        );
        assert_eq!(candidate_in(""), None);
    }
}
