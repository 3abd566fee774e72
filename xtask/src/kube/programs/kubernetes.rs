//! Kubernetes as a module to build from.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};

use super::{Program, Version};
use crate::{go, step::Step};

/// The version that they tell of themselves; a kubelet that does not know its own is refused by the API server.
pub(super) fn flags(Version(version): Version) -> String {
    const AT: &str = "k8s.io/component-base/version";
    let minor = version.split_once('.').map_or(version, |(minor, _)| minor);
    format!("-s -w -X {AT}.gitVersion=v1.{version} -X {AT}.gitMajor=1 -X {AT}.gitMinor={minor}")
}

/// `go`, of the version that this Kubernetes asks for, fetched where the machine's is older.
pub(super) fn step(name: impl Into<String>) -> Step {
    go::step(name).env("GOTOOLCHAIN", "auto")
}

/// A module that depends on Kubernetes. Its own replacements point into its tree, which the proxy does not serve: the published libraries instead.
pub(super) fn module(module: &Path, Version(version): Version, programs: &[Program]) -> Result<()> {
    let answer = step(format!("fetch Kubernetes 1.{version}"))
        .args([
            "mod",
            "download",
            "-json",
            &format!("k8s.io/kubernetes@v1.{version}"),
        ])
        .current_dir(module)
        .read()?;
    let answer: serde_json::Value = serde_json::from_str(&answer).context("Go's answer")?;
    let theirs = answer["GoMod"]
        .as_str()
        .context("Go's answer has no GoMod")?;
    let theirs = fs::read_to_string(theirs).with_context(|| format!("reading {theirs}"))?;
    let own = go_mod(&theirs, version);
    ensure!(
        own.contains("replace "),
        "the go.mod of Kubernetes {version} has no replacements: it is written in another way than this knows"
    );
    fs::write(module.join("go.mod"), own).context("writing a go.mod")?;
    let imports: String = programs
        .iter()
        .map(|program| format!("import _ \"k8s.io/kubernetes/cmd/{}\"\n", program.name()))
        .collect();
    fs::write(module.join("tools.go"), format!("package tools\n{imports}"))
        .context("writing tools.go")?;
    step("fetch what Kubernetes depends on")
        .args(["mod", "tidy"])
        .current_dir(module)
        .read()
        .map(drop)
}

/// From the go.mod of Kubernetes, which has `require k8s.io/api v0.0.0` and `replace k8s.io/api => ./staging/src/k8s.io/api`.
fn go_mod(theirs: &str, version: &str) -> String {
    let mut own = vec!["module tools".to_owned()];
    own.extend(
        theirs
            .lines()
            .find(|line| line.starts_with("go "))
            .map(str::to_owned),
    );
    own.push(format!("require k8s.io/kubernetes v1.{version}"));
    for line in theirs.lines() {
        let line = line.trim().trim_start_matches("replace ");
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [library, "v0.0.0", ..] if library.starts_with("k8s.io/") => {
                own.push(format!("require {library} v0.{version}"));
            }
            [library, "=>", ..] if library.starts_with("k8s.io/") => {
                own.push(format!("replace {library} => {library} v0.{version}"));
            }
            _ => {}
        }
    }
    own.push(String::new());
    own.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_takes_from_its_tree_is_taken_from_the_proxy() {
        let theirs = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/x/y v1.0.0\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.130.1\n)\n\n\
                      replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        assert_eq!(
            go_mod(theirs, "36.3"),
            "module tools\ngo 1.26.0\nrequire k8s.io/kubernetes v1.36.3\nrequire k8s.io/api v0.36.3\n\
             replace k8s.io/api => k8s.io/api v0.36.3\n"
        );
    }
}
