//! `drift-agent accept`: what is there becomes what is declared, in a draft of the next version.

mod taken;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use drift_common::{
    escape,
    policy::{Content, Document, Lineage, PolicyVersion, Problems, Source, parse, render},
};
use semver::Version;

use self::taken::Accepted;
use super::{root::HostRoot, snapshot::ending, whole::whole};
use crate::{
    capture::{Contents, Stage, Title},
    declare::{self, Holds, Names},
};

/// Take drift for right: write a draft of the policy's next version, in which these paths are as they are now.
///
/// All else in it is as the active version has it, and nothing is in force before it is activated. Contents that are no short text, and all that may be
/// secrets, are files of their own in the folder `blobs` beside it. Nothing is ever overwritten.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Accept {
    /// Paths that drift; of a directory, whatever drifts in it.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Folder of policy files (*.yaml, *.yml).
    #[arg(long, value_name = "DIR")]
    policies: PathBuf,
    #[command(flatten)]
    root: HostRoot,
    /// The file to write [default: POLICY-VERSION.yaml in the policy folder].
    #[arg(short, long, value_name = "FILE.yaml")]
    output: Option<PathBuf>,
    /// The number of the new version [default: the next patch level after the newest].
    #[arg(long, value_name = "VERSION", value_parser = super::version)]
    version: Option<Version>,
}

const EXAMPLES: &str = "\
Status:
  0   the draft is written
  10  the policies are not valid
  1   nothing is written: nothing drifts there, or it cannot be declared

Examples:
  drift-agent accept /etc/ssh/sshd_config --policies policies
  drift-agent accept /etc/app --policies policies --version 2.0.0 -o policies/app-2.yaml
  drift-agent policy validate --policies policies && sudo drift-agent activate app 2.0.0";

impl Accept {
    /// Runs the command.
    ///
    /// # Errors
    /// Nothing was written.
    pub fn run(self) -> Result<ExitCode> {
        let Self {
            paths,
            policies,
            root,
            output,
            version,
        } = self;
        let mut wanted = Vec::new();
        for path in &paths {
            wanted.push(whole(path)?);
        }
        let holds = Holds::new();
        let snapshot = match declare::load(&policies, &root.host_root, None, &holds) {
            Ok(snapshot) => snapshot,
            Err(why) => return Ok(super::policy::refused(&why)),
        };
        let lineages = match declare::lineages(&policies, &holds) {
            Ok(lineages) => lineages,
            Err(why) => return Ok(super::policy::refused(&why)),
        };
        let host = root.host()?;
        let accepted = Accepted::of(&host, &snapshot, &wanted)?;
        let lineage = lineages
            .iter()
            .find(|lineage| lineage.policy.name.value == accepted.policy)
            .context("the policy folder has changed meanwhile: try again")?;
        let title = Title {
            policy: accepted.policy.clone(),
            version: next(lineage, version)?,
        };
        let target = output.unwrap_or_else(|| {
            let name = format!("{}-{}.yaml", title.policy, title.version);
            policies.join(name.replace('+', "-"))
        });
        ending(&target)?;
        let name = target.file_name().context("-o names no file")?.to_owned();
        let parent = target
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let folder = parent.unwrap_or(Path::new(".")).to_owned();
        let is_in_folder = is_same(&folder, &policies);
        if std::fs::symlink_metadata(&target).is_ok() {
            bail!(
                "{} is there already: name another with -o",
                escape::path(&target)
            );
        }
        if !is_in_folder && refers_to_files(lineage.active()) {
            bail!(
                "the active version has contents in files beside it (`content: {{file: …}}`): write the draft into {}",
                escape::path(&policies)
            );
        }
        let stage = Stage::new(&folder)
            .with_context(|| format!("cannot write in {}", escape::path(&folder)))?;
        let mut contents = Contents::new(Some(stage.blobs()));
        let source = Source::new(Path::new("accept").into(), Vec::new())
            .map_err(|problem| anyhow::anyhow!("{}", problem.one_line()))?;
        let captured = accepted.capture(
            lineage.active(),
            (&host, &Names::of(&root.host_root)),
            &policies,
            &mut contents,
            &source,
        )?;
        let secrets = captured.secrets.clone();
        let private = captured.private;
        let mut draft = lineage.active().clone();
        draft.name.value = title.document();
        draft.version.value = title.version.clone();
        accepted.apply(&mut draft, captured, &source)?;
        let text = render(&[Document::Version(draft)]).to_string();
        reads(&name, &text)?;
        stage.write(&name, &text, private)?;
        stage
            .install(&folder, std::slice::from_ref(&name), false)
            .with_context(|| format!("cannot write {}", escape::path(&target)))?;
        if is_in_folder && let Err(why) = declare::lineages(&policies, &holds) {
            // A draft must not take the folder with it.
            std::fs::remove_file(&target)?;
            bail!(
                "the draft would not be valid, and was removed again: {}",
                why.plain()
            );
        }
        let mut said = format!(
            "{}: {} {}, with {} as now\n",
            escape::path(&target),
            title.policy,
            title.version,
            match accepted.paths.len() {
                1 => "1 path".to_owned(),
                more => format!("{more} paths"),
            }
        );
        for (path, what) in accepted.paths.iter().take(MOST_NAMED) {
            said += &format!("  {what} {}\n", escape::path(path));
        }
        if accepted.paths.len() > MOST_NAMED {
            said += &format!("  … and {} more\n", accepted.paths.len() - MOST_NAMED);
        }
        for (path, why) in &secrets {
            said += &format!(
                "warning: {} may hold a secret ({why}): its content is in {}, which only you can read\n",
                escape::path(path),
                escape::path(&folder.join("blobs"))
            );
        }
        said += &format!(
            "Nothing is in force yet. Look at it, and then:\n  drift-agent policy validate --policies {}\n  drift-agent activate {} {}\n",
            escape::path(&policies),
            title.policy,
            title.version
        );
        super::policy::print(&said)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Paths that are named to people.
const MOST_NAMED: usize = 20;

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(one).is_some() && real(one) == real(other)
}

fn refers_to_files(version: &PolicyVersion) -> bool {
    let mut files = version.files.iter();
    files.any(|file| {
        matches!(
            file.content.value,
            Content::File(_) | Content::Blob(_) | Content::Kept(_)
        )
    })
}

/// The number of the draft.
fn next(lineage: &Lineage, asked: Option<Version>) -> Result<Version> {
    if let Some(asked) = asked {
        if lineage.position(&asked).is_some() {
            bail!("there is a version {asked} already, and versions do not change: choose another");
        }
        return Ok(asked);
    }
    let newest = lineage
        .versions
        .last()
        .map(|version| &version.version.value);
    let newest = newest.unwrap_or(&lineage.active().version.value);
    // What comes after 2.0.0-rc.1 is 2.0.0.
    let patch = if newest.pre.is_empty() {
        newest
            .patch
            .checked_add(1)
            .context("there is no higher number")?
    } else {
        newest.patch
    };
    Ok(Version::new(newest.major, newest.minor, patch))
}

/// The reader of policies takes it.
fn reads(name: &std::ffi::OsStr, text: &str) -> Result<()> {
    let mut problems = Problems::default();
    let source = Source::new(Path::new(name).into(), text.as_bytes().to_vec())
        .map_err(|problem| anyhow::anyhow!("{}", problem.one_line()))?;
    parse(&source, &mut problems);
    if !problems.is_empty() {
        bail!("the draft would not be valid: {}", problems.one_line());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(stage: &Path) -> Vec<std::ffi::OsString> {
        let entries = std::fs::read_dir(stage).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    const POLICY: &str = "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {activeVersion: 1.4.0}\n---\n\
        apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {name: p-1.4.0}\nspec:\n  policy: p\n  version: 1.4.0\n  files:\n";

    /// A policy folder and a tree with two files, of which one drifts.
    fn place() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let policies = dir.path().join("policies");
        std::fs::create_dir(&policies).unwrap();
        let mut text = POLICY.to_owned();
        for name in ["a", "b"] {
            let path = dir.path().join(name);
            std::fs::write(&path, "declared\n").unwrap();
            text += &format!(
                "    - {{path: {}, content: {{inline: \"declared\\n\"}}, severity: error}}\n",
                path.display()
            );
        }
        std::fs::write(policies.join("p.yaml"), text).unwrap();
        std::fs::write(dir.path().join("a"), "by hand\n").unwrap();
        dir
    }

    fn accept(dir: &Path, name: &str, version: Option<&str>) -> Result<ExitCode> {
        Accept {
            paths: vec![dir.join(name)],
            policies: dir.join("policies"),
            root: HostRoot {
                host_root: "/".into(),
            },
            output: None,
            version: version.map(|version| version.parse().unwrap()),
        }
        .run()
    }

    #[test]
    fn the_draft_declares_what_is_there_and_all_else_as_before() {
        let dir = place();
        accept(dir.path(), "a", None).unwrap();
        let policies = dir.path().join("policies");
        assert!(
            names(&policies).contains(&"p-1.4.1.yaml".into()),
            "{:?}",
            names(&policies)
        );
        let lineages = declare::lineages(&policies, &Holds::new()).unwrap();
        let [old, new] = &lineages[0].versions[..] else {
            panic!("two versions")
        };
        assert_eq!(
            lineages[0].active().version.value,
            old.version.value,
            "nothing is in force"
        );
        assert_eq!(
            new.files[0].content.value,
            Content::Inline("by hand\n".into())
        );
        assert_eq!(new.files[0].severity, old.files[0].severity);
        assert_eq!(new.files[0].mode, None, "as little is declared as before");
        assert_eq!(new.files[1], old.files[1]);
        // Twice: there is another number, and nothing was overwritten.
        accept(dir.path(), "a", None).unwrap();
        assert!(names(&policies).contains(&"p-1.4.2.yaml".into()));
        assert!(accept(dir.path(), "a", Some("1.4.1")).is_err());
        let clean = accept(dir.path(), "b", None).unwrap_err().to_string();
        assert!(clean.contains("as declared"), "{clean}");
        let none = accept(dir.path(), "none", None).unwrap_err().to_string();
        assert!(none.contains("not declared"), "{none}");
    }

    #[test]
    fn what_is_gone_is_declared_absent() {
        let dir = place();
        std::fs::remove_file(dir.path().join("a")).unwrap();
        accept(dir.path(), "a", Some("2.0.0")).unwrap();
        let lineages = declare::lineages(&dir.path().join("policies"), &Holds::new()).unwrap();
        let new = lineages[0].versions.last().unwrap();
        assert_eq!(new.files.len(), 1);
        assert_eq!(new.absent[0].path.value, dir.path().join("a"));
    }
}
