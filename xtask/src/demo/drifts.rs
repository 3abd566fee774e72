//! The ways of drifting: ordinary tools, as child processes whose ids are known.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

use super::scene::{Scene, Target};
use crate::{machine, step};

/// One tool that makes one declared file differ.
#[derive(Debug)]
pub(super) struct Tool {
    /// What was done, as one would type it in the folder of the declared files.
    pub(super) shown: String,
    /// Program and arguments.
    words: Vec<&'static str>,
    pub(super) target: Target,
    /// Any of these is the right name for it.
    pub(super) kinds: &'static [&'static str],
    /// A machine where it cannot be run shows one row less.
    pub(super) may_be_missing: bool,
}

/// Whether it ran.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ran {
    Done { pid: u32 },
    Not { reason: String },
}

/// Nobody: an id that every system leaves to nobody, and root may give a file to.
const NOBODY: &str = "65534";

/// In the order they are shown.
pub(super) fn all(scene: &Scene) -> Vec<Tool> {
    let python = "open('hosts.yaml', 'w').write('web-1: 203.0.113.9\\n')";
    let mut tools = vec![
        tool(
            &["sed", "-i", "s/80/81/", "app.conf"],
            Target::App,
            &["content"],
        ),
        shell("echo evil >> app.conf", Target::App, &["content"]),
        tool(&["chmod", "666", "tls.pem"], Target::Tls, &["mode"]),
        tool(&["rm", "limits.conf"], Target::Limits, &["missing"]),
        tool(
            &["mv", "../new/hosts.yaml", "hosts.yaml"],
            Target::Hosts,
            &["content"],
        ),
        Tool {
            shown: "python3: open('hosts.yaml','w')".to_owned(),
            may_be_missing: true,
            ..tool(&["python3", "-c", python], Target::Hosts, &["content"])
        },
        tool(
            &["truncate", "-s", "4", "limits.conf"],
            Target::Limits,
            &["content"],
        ),
        // No write at all: opening it empties it.
        tool(&["cp", "/dev/null", "app.conf"], Target::App, &["content"]),
        Tool {
            shown: "dd of=tls.pem conv=notrunc".to_owned(),
            ..tool(
                &[
                    "dd",
                    "if=/dev/zero",
                    "of=tls.pem",
                    "bs=8",
                    "count=1",
                    "conv=notrunc",
                    "status=none",
                ],
                Target::Tls,
                &["content"],
            )
        },
        tool(
            &["ln", "-sf", "/dev/null", "limits.conf"],
            Target::Limits,
            &["type", "relocated"],
        ),
        // Through another name for it.
        shell("echo evil >> ../elsewhere/app", Target::App, &["content"]),
    ];
    if machine::is_root() {
        tools.push(Tool {
            may_be_missing: true, // root of a container may not give files away
            ..tool(&["chown", NOBODY, "hosts.yaml"], Target::Hosts, &["owner"])
        });
    }
    debug_assert!(scene.root().is_absolute());
    tools
}

fn tool(words: &[&'static str], target: Target, kinds: &'static [&'static str]) -> Tool {
    Tool {
        shown: words.join(" "),
        words: words.to_vec(),
        target,
        kinds,
        may_be_missing: false,
    }
}

/// A line for a shell, which is then the process that makes the change.
fn shell(line: &'static str, target: Target, kinds: &'static [&'static str]) -> Tool {
    Tool {
        shown: line.to_owned(),
        ..tool(&["sh", "-c", line], target, kinds)
    }
}

impl Tool {
    /// The name under which the kernel knows the process.
    pub(super) fn comm(&self) -> &'static str {
        self.words.first().copied().unwrap_or_default()
    }

    pub(super) fn run(&self, folder: &Path) -> Result<Ran> {
        let [program, args @ ..] = &self.words[..] else {
            anyhow::bail!("`{}` names no program", self.shown);
        };
        if machine::which(program).is_none() {
            return Ok(Ran::Not {
                reason: format!("there is no {program} on the PATH"),
            });
        }
        let child = Command::new(program)
            .args(args)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("running {}", self.shown))?;
        let pid = child.id();
        let output = child
            .wait_with_output()
            .with_context(|| format!("waiting for {}", self.shown))?;
        if output.status.success() {
            return Ok(Ran::Done { pid });
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Ok(Ran::Not {
            reason: format!("{}: {}", step::ended(output.status), said.trim()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::table;

    #[test]
    fn each_tool_makes_its_file_differ_and_no_other() {
        let scene = Scene::set().unwrap();
        let tools = all(&scene);
        assert!(tools.len() >= 8);
        for tool in tools {
            let scene = Scene::set().unwrap();
            assert!(
                tool.shown.len() <= table::WHAT_WIDTH,
                "`{}` does not fit its column",
                tool.shown
            );
            match tool.run(&scene.folder()).unwrap() {
                Ran::Done { .. } => {
                    assert!(scene.file(tool.target).compare().is_err(), "{}", tool.shown);
                }
                Ran::Not { reason } => assert!(tool.may_be_missing, "{}: {reason}", tool.shown),
            }
            for other in [Target::App, Target::Tls, Target::Limits, Target::Hosts] {
                if other != tool.target {
                    assert_eq!(scene.file(other).compare(), Ok(()), "{}", tool.shown);
                }
            }
            assert!(scene.undeclared_files().is_empty(), "{}", tool.shown);
        }
    }
}
