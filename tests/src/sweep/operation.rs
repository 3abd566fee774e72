//! What is done again and again: how it is laid out, done, and judged.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use drift_agent::store::{DEFAULT_QUOTA, Store, read_history};

use super::{Ground, ended};
use crate::agent::program;

/// Policies that need each other, from the first to the last; between them they have [`FILES`] files in each version.
const POLICIES: [&str; 3] = ["app", "lib", "base"];
const FILES: usize = 20;

/// Records before and after a compaction.
const RECORDS: (u32, u32) = (30, 70);

/// So many of the latest fit into the bounds in any case.
const LATEST: u32 = 20;

/// Whose a healed file is.
const OWNER: u32 = 7;
const GROUP: u32 = 8;

/// Something that is whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One file is put back.
    Heal,
    /// One file is put back by writing into it: until that has come to its end, it may hold some of each.
    InPlace,
    /// All three policies from 1.0.0 to 2.0.0.
    Activate,
    /// And back.
    Rollback,
    /// The history is kept within its bounds.
    Compact,
}

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As before the operation.
    Old,
    /// As after it.
    New,
    /// Some files are old, and some are new. Each is whole.
    Mixed,
}

impl Operation {
    pub const ALL: [Operation; 5] = [
        Operation::Heal,
        Operation::InPlace,
        Operation::Activate,
        Operation::Rollback,
        Operation::Compact,
    ];

    /// The versions before and after it, of a change of versions.
    const fn versions(self) -> (u32, u32) {
        match self {
            Self::Rollback => (2, 1),
            Self::Heal | Self::InPlace | Self::Activate | Self::Compact => (1, 2),
        }
    }

    /// Whether it puts one file back.
    #[must_use]
    pub const fn is_heal(self) -> bool {
        matches!(self, Self::Heal | Self::InPlace)
    }

    /// What a file that is put back holds in a version: what is written into it is shorter than what was there.
    fn healed(self, version: u32) -> String {
        let longer = usize::from(self == Self::InPlace && version == 1);
        content(longer, version)
    }
}

/// A program of this package that does what only the agent's library does.
pub(super) fn worker() -> PathBuf {
    // Beside the tests' programs, which are in `deps`.
    let tests = std::env::current_exe().unwrap_or_default();
    let mut folders = tests.ancestors().skip(1);
    folders
        .find_map(|folder| Some(folder.join("drift-worker")).filter(|worker| worker.is_file()))
        .unwrap_or_else(|| PathBuf::from("drift-worker"))
}

impl Ground {
    pub(super) fn lay_out(&self) -> Result<()> {
        fs::write(self.policies().join("all.yaml"), self.declared())?;
        match self.operation {
            Operation::Heal | Operation::InPlace => {
                fs::write(self.healed_file(), self.operation.healed(1))?;
                let mode = fs::Permissions::from_mode(0o600);
                Ok(fs::set_permissions(self.healed_file(), mode)?)
            }
            Operation::Compact => run_all(vec![self.compaction(RECORDS.0)]),
            Operation::Activate | Operation::Rollback => {
                // The first change is made from nothing, so that the agent knows the version.
                for file in 0..FILES {
                    fs::write(self.file(file), content(file, 2))?;
                }
                let mut changes = vec![
                    self.agent(&["activate", "app", "2.0.0"]),
                    self.agent(&["activate", "app", "1.0.0"]),
                ];
                if self.operation == Operation::Rollback {
                    changes.push(self.agent(&["activate", "app", "2.0.0"]));
                }
                run_all(changes)
            }
        }
    }

    fn agent(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .arg("--policies")
            .arg(self.policies())
            .arg("--state")
            .arg(self.state_folder());
        command
    }

    fn compaction(&self, last: u32) -> Command {
        let mut command = Command::new(worker());
        command
            .arg("compact")
            .arg(self.state_folder())
            .arg(last.to_string());
        command
    }

    fn healing(&self, what: &str) -> Command {
        let mut command = Command::new(worker());
        command
            .arg(what)
            .arg(self.policies())
            .arg(self.state_folder())
            .arg(self.healed_file());
        command
    }

    /// What does it.
    pub(super) fn command(&self) -> Command {
        match self.operation {
            Operation::Heal | Operation::InPlace => self.healing("heal"),
            Operation::Activate => self.agent(&["activate", "app", "2.0.0"]),
            Operation::Rollback => self.agent(&["rollback", "app"]),
            Operation::Compact => self.compaction(RECORDS.1),
        }
    }

    /// What brings things in order: the next start of the same, or of a change that asks for nothing.
    pub(super) fn recovery(&self) -> Command {
        match self.operation {
            Operation::Heal => self.healing("heal"),
            // No heal: what was begun comes to its end without one.
            Operation::InPlace => self.healing("recover"),
            Operation::Activate | Operation::Rollback => {
                self.agent(&["activate", "other", "1.0.0"])
            }
            Operation::Compact => self.compaction(RECORDS.1),
        }
    }

    pub(super) fn healed_file(&self) -> PathBuf {
        self.tree().join("healed")
    }

    fn file(&self, number: usize) -> PathBuf {
        self.tree().join(format!("file-{number}"))
    }

    fn declared(&self) -> String {
        let head = "---\napiVersion: configdrift.io/v1alpha1\n";
        if self.operation.is_heal() {
            let write = match self.operation {
                Operation::InPlace => "inPlace",
                _ => "replace",
            };
            return format!(
                "{head}kind: Policy\nmetadata: {{name: one}}\nspec: {{activeVersion: 1.0.0, mode: heal}}\n\
                 {head}kind: PolicyVersion\nmetadata: {{name: one-1}}\nspec:\n  policy: one\n  version: 1.0.0\n  files:\n    \
                 - {{path: {}, content: {{inline: '{}'}}, mode: '0640', owner: {OWNER}, group: {GROUP}, write: {write}}}\n",
                self.healed_file().display(),
                self.operation.healed(2)
            );
        }
        let mut text = String::new();
        for (index, policy) in POLICIES.iter().enumerate() {
            text += &format!(
                "{head}kind: Policy\nmetadata: {{name: {policy}}}\nspec: {{activeVersion: 1.0.0, mode: heal, onRemove: remove}}\n"
            );
            for version in 1..=2 {
                text += &format!(
                    "{head}kind: PolicyVersion\nmetadata: {{name: {policy}-{version}}}\nspec:\n  policy: {policy}\n  version: {version}.0.0\n"
                );
                if let Some(needs) = POLICIES.get(index + 1) {
                    text +=
                        &format!("  dependencies: [{{policy: {needs}, version: ^{version}}}]\n");
                }
                text += "  files:\n";
                for file in (0..FILES).filter(|file| file % POLICIES.len() == index) {
                    text += &format!(
                        "    - {{path: {}, content: {{inline: '{}'}}, mode: '06{version}0'}}\n",
                        self.file(file).display(),
                        content(file, version)
                    );
                }
                let tree = self.tree();
                let tree = tree.display();
                text += &format!(
                    "    - {{path: {tree}/of-{version}/{policy}/file, content: {{inline: x}}}}\n  symlinks:\n    - {{path: {tree}/link-{policy}, target: to-{version}}}\n"
                );
            }
        }
        // What is asked for only to bring things in order.
        text += &format!(
            "{head}kind: Policy\nmetadata: {{name: other}}\nspec: {{activeVersion: 1.0.0}}\n{head}kind: PolicyVersion\nmetadata: {{name: other-1}}\nspec: {{policy: other, version: 1.0.0}}\n"
        );
        text
    }

    /// How things stand.
    ///
    /// # Errors
    /// A file is torn, or has attributes that it should never have.
    pub fn state(&self) -> Result<State> {
        match self.operation {
            Operation::Heal => self.state_of_heal(),
            // Neither, and what is to be written is safe beside it.
            Operation::InPlace => Ok(self.state_of_heal().unwrap_or(State::Mixed)),
            Operation::Activate | Operation::Rollback => self.state_of_change(),
            Operation::Compact => {
                let (last, _) = self.history()?;
                // Each record stands for itself: what is not lost is not mixed.
                let is_new = last == RECORDS.1;
                Ok(if is_new { State::New } else { State::Old })
            }
        }
    }

    fn state_of_heal(&self) -> Result<State> {
        let path = self.healed_file();
        let text = fs::read_to_string(&path)?;
        let stat = fs::metadata(&path)?;
        let seen = (stat.mode() & 0o7777, stat.uid(), stat.gid());
        for (version, state) in [(1, State::Old), (2, State::New)] {
            if text == self.operation.healed(version) {
                let own = fs::metadata(self.policies())?;
                let expected = match state {
                    State::New => (0o640, OWNER, GROUP),
                    State::Old | State::Mixed => (0o600, own.uid(), own.gid()),
                };
                ensure!(seen == expected, "attributes are {seen:?}");
                return Ok(state);
            }
        }
        bail!("{} is torn: {text:?}", path.display())
    }

    fn state_of_change(&self) -> Result<State> {
        let mut versions = Vec::new();
        for file in 0..FILES {
            let path = self.file(file);
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let mode = fs::metadata(&path)?.permissions().mode() & 0o777;
            let of = |version: &u32| text == content(file, *version);
            let Some(version) = [1, 2].into_iter().find(of) else {
                bail!("{} is torn: {text:?}", path.display());
            };
            let expected = 0o600 | (version << 3);
            ensure!(mode == expected, "{} has {mode:o}", path.display());
            versions.push(version);
        }
        for policy in POLICIES {
            let target = fs::read_link(self.tree().join(format!("link-{policy}")))?;
            versions.push(if target == Path::new("to-2") { 2 } else { 1 });
        }
        versions.dedup();
        let (old, _) = self.operation.versions();
        Ok(match versions[..] {
            [version] if version == old => State::Old,
            [_] => State::New,
            _ => State::Mixed,
        })
    }

    /// The last record, and how many lines are not what was written.
    fn history(&self) -> Result<(u32, u64)> {
        let mut numbers: Vec<u32> = Vec::new();
        let past = read_history(&self.state_folder(), None, |record| {
            numbers.extend(record.trim_end_matches('.').parse::<u32>());
        })?;
        ensure!(
            numbers.is_sorted_by(|one, next| one < next),
            "records are out of order: {numbers:?}"
        );
        let last = numbers.last().copied().unwrap_or(0);
        // Older ones may have gone; a segment that could not be removed may be older still.
        let latest = last.saturating_sub(LATEST)..=last;
        ensure!(
            last >= RECORDS.0 && numbers.ends_with(&latest.collect::<Vec<_>>()),
            "records are lost: {numbers:?}"
        );
        Ok((last, past.damaged))
    }

    /// Whether the agent says the same.
    pub(super) fn agrees(&self, state: State) -> Result<()> {
        if self.operation == Operation::Compact {
            let (_, damaged) = self.history()?;
            ensure!(damaged == 0, "{damaged} lines are damaged");
            return Ok(());
        }
        let store = Store::open(&self.state_folder(), DEFAULT_QUOTA)?;
        ensure!(store.notes().is_empty(), "{:?}", store.notes());
        ensure!(store.journal()?.is_none(), "a journal is left");
        if self.operation.is_heal() {
            let is_healed = state == State::New || self.operation == Operation::InPlace;
            ensure!(is_healed, "it is not healed");
            return Ok(());
        }
        let (old, new) = self.operation.versions();
        let (version, other) = match state {
            State::New => (new, old),
            State::Old | State::Mixed => (old, new),
        };
        for (path, is_there) in [(version, true), (other, false)] {
            for policy in POLICIES {
                let file = self.tree().join(format!("of-{path}/{policy}/file"));
                ensure!(file.exists() == is_there, "{}", file.display());
            }
        }
        let (snapshot, _) = store.look(&self.policies(), Path::new("/"), None);
        let snapshot = snapshot.map_err(|rejected| anyhow::anyhow!("{rejected}"))?;
        for policy in POLICIES {
            let (active, _) = snapshot.policy(policy).context("a policy")?;
            ensure!(
                active.version == format!("{version}.0.0"),
                "{policy} has {} for the agent, and {version} on the disk",
                active.version
            );
        }
        Ok(())
    }
}

pub(super) fn run_all(commands: Vec<Command>) -> Result<()> {
    for command in commands {
        let ended = ended(command)?;
        ensure!(ended.output.status.success(), "{}", ended.said());
    }
    Ok(())
}

fn content(file: usize, version: u32) -> String {
    format!("{file} {version} ").repeat(1 + file * 97)
}
