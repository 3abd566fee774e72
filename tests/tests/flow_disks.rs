//! What the file system does not let happen: a heal of it has a defined end, the file is whole, and the reason is one that can be acted upon.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use drift_agent::{
    compare::differences,
    declare::{Declared, load},
    heal::{self, HealError, Healed},
    observe::{Host, observe},
    store::{DEFAULT_QUOTA, Store},
};
use drift_tests::skip::skip;
use std::sync::Arc;
use tempfile::TempDir;

/// A small file system with a declared file `dir/file`.
struct Small {
    folder: TempDir,
    /// Of the file: `replace` or `inPlace`.
    write: &'static str,
}

const OLD: &str = "old\n";

fn new() -> String {
    "new content\n".repeat(1000)
}

fn sh(line: &str) -> bool {
    let output = Command::new("sh").args(["-c", line]).output();
    output.is_ok_and(|output| output.status.success())
}

impl Small {
    /// With a tmpfs of these options; `None`: not here, which is said.
    fn new(test: &str, options: &str) -> Result<Option<Small>> {
        if !rustix::process::geteuid().is_root() {
            skip(test, "mounting needs root");
            return Ok(None);
        }
        let folder = tempfile::Builder::new().prefix("drift-disks-").tempdir()?;
        let tree = folder.path().join("tree");
        fs::create_dir(&tree)?;
        if !sh(&format!(
            "mount -t tmpfs -o mode=755,{options} none {}",
            tree.display()
        )) {
            skip(test, &format!("no tmpfs with {options} on this kernel"));
            return Ok(None);
        }
        let small = Small {
            folder,
            write: "replace",
        };
        fs::create_dir(small.tree().join("dir"))?;
        fs::write(small.file(), OLD)?;
        Ok(Some(small))
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn file(&self) -> PathBuf {
        self.tree().join("dir/file")
    }

    fn declared(&self) -> Result<Arc<Declared>> {
        let policies = self.folder.path().join("policies");
        fs::create_dir_all(&policies)?;
        let text = format!(
            "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec: {{activeVersion: 1.0.0, mode: heal}}\n\
             ---\napiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: p-1}}\nspec:\n  policy: p\n  version: 1.0.0\n  files:\n    \
             - {{path: {}, content: {{inline: {}}}, mode: '0640', write: {}}}\n",
            self.file().display(),
            serde_json::Value::from(new()),
            self.write
        );
        fs::write(policies.join("p.yaml"), text)?;
        let snapshot = load(&policies, Path::new("/"), None, &Default::default())
            .map_err(|rejected| anyhow::anyhow!("{}", rejected.plain()))?;
        snapshot.files.first().cloned().context("a file")
    }

    /// As the agent heals: look, plan, do.
    fn heal(&self) -> Result<Result<Healed, HealError>> {
        let host = Host::new(Path::new("/"))?;
        let declared = self.declared()?;
        let observed = observe(&host, &declared, None, &mut |_| {});
        let drifts = differences(&declared, &observed);
        ensure!(!drifts.is_empty(), "nothing differs");
        let action = heal::plan(&declared, &drifts, &observed.found)
            .map_err(|why| anyhow::anyhow!(why.sentence()))?;
        let state = self.folder.path().join("state");
        fs::create_dir_all(&state)?;
        let store = Store::open(&state, DEFAULT_QUOTA)?;
        let result = heal::put_back(&host, &store, &declared, &action, &observed);
        ensure!(store.journal()?.is_none(), "a journal is left");
        Ok(result)
    }

    /// It fails for this reason, with the file as it was, and nothing is left.
    #[track_caller]
    fn fails(&self, reason: &str) -> Result<()> {
        let Err(error) = self.heal()? else {
            anyhow::bail!("it is healed")
        };
        ensure!(error.reason() == reason, "{}: {error}", error.reason());
        ensure!(fs::read_to_string(self.file())? == OLD, "it has changed");
        self.is_tidy()
    }

    #[track_caller]
    fn is_healed(&self) -> Result<Healed> {
        let healed = self.heal()??;
        ensure!(fs::read_to_string(self.file())? == new());
        ensure!(fs::metadata(self.file())?.mode() & 0o7777 == 0o640);
        self.is_tidy()?;
        Ok(healed)
    }

    fn is_tidy(&self) -> Result<()> {
        for entry in fs::read_dir(self.tree().join("dir"))? {
            let name = entry?.file_name().display().to_string();
            ensure!(!name.starts_with(".drift-"), "{name} is left");
        }
        Ok(())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Everything that a test has mounted or locked.
        let tree = self.tree();
        let tree = tree.display();
        sh(&format!(
            "chattr -i {tree}/dir/file; umount {tree}/dir/file"
        ));
        if !sh(&format!("umount {tree} || umount -l {tree}")) {
            eprintln!("{tree} stays mounted");
        }
    }
}

#[test]
fn a_full_file_system_leaves_the_file_as_it_was_and_heals_when_there_is_room() -> Result<()> {
    let test = "a_full_file_system_leaves_the_file_as_it_was_and_heals_when_there_is_room";
    let Some(small) = Small::new(test, "size=64k")? else {
        return Ok(());
    };
    let filler = small.tree().join("filler");
    sh(&format!("cat /dev/zero > {}", filler.display()));
    small.fails("no-space")?;
    fs::remove_file(filler)?;
    small.is_healed()?;
    Ok(())
}

#[test]
fn a_full_inode_table_leaves_the_file_as_it_was_and_heals_when_there_is_room() -> Result<()> {
    let test = "a_full_inode_table_leaves_the_file_as_it_was_and_heals_when_there_is_room";
    let Some(small) = Small::new(test, "nr_inodes=20")? else {
        return Ok(());
    };
    let mut fillers = Vec::new();
    for number in 0..40 {
        let filler = small.tree().join(format!("filler-{number}"));
        if fs::write(&filler, "").is_err() {
            break;
        }
        fillers.push(filler);
    }
    ensure!(fillers.len() < 40, "there is always one more");
    small.fails("no-space")?;
    for filler in fillers {
        fs::remove_file(filler)?;
    }
    small.is_healed()?;
    Ok(())
}

#[test]
fn a_quota_that_is_reached_leaves_the_file_as_it_was_and_heals_when_there_is_room() -> Result<()> {
    let test = "a_quota_that_is_reached_leaves_the_file_as_it_was_and_heals_when_there_is_room";
    let Some(small) = Small::new(test, "usrquota_block_hardlimit=64k")? else {
        return Ok(());
    };
    let filler = small.tree().join("filler");
    // Whoever may exceed quotas (CAP_SYS_RESOURCE) is not held by one.
    let is_held = !sh(&format!(
        "dd if=/dev/zero of={} bs=4k count=64",
        filler.display()
    ));
    if !is_held {
        skip(test, "quotas do not hold root here (CAP_SYS_RESOURCE)");
        return Ok(());
    }
    small.fails("no-space")?;
    fs::remove_file(filler)?;
    small.is_healed()?;
    Ok(())
}

/// Case B126.
#[test]
fn a_read_only_file_system_is_said_and_heals_when_it_can_be_written_again() -> Result<()> {
    let test = "a_read_only_file_system_is_said_and_heals_when_it_can_be_written_again";
    let Some(small) = Small::new(test, "size=1m")? else {
        return Ok(());
    };
    let remount = |how: &str| {
        let line = format!("mount -o remount,{how} {}", small.tree().display());
        ensure!(sh(&line), "{line}");
        Ok(())
    };
    remount("ro")?;
    small.fails("read-only")?;
    remount("rw")?;
    small.is_healed()?;
    Ok(())
}

#[test]
fn an_immutable_file_is_said_and_heals_when_it_is_that_no_longer() -> Result<()> {
    let test = "an_immutable_file_is_said_and_heals_when_it_is_that_no_longer";
    let Some(small) = Small::new(test, "size=1m")? else {
        return Ok(());
    };
    let chattr = |how: &str| sh(&format!("chattr {how} {}", small.file().display()));
    if !chattr("+i") {
        skip(test, "chattr +i does not work on a tmpfs here");
        return Ok(());
    }
    small.fails("not-permitted")?;
    ensure!(chattr("-i"));
    small.is_healed()?;
    Ok(())
}

/// Case B027.
#[test]
fn a_file_that_is_a_mount_point_is_said_and_heals_when_it_is_that_no_longer() -> Result<()> {
    let test = "a_file_that_is_a_mount_point_is_said_and_heals_when_it_is_that_no_longer";
    let Some(small) = Small::new(test, "size=1m")? else {
        return Ok(());
    };
    let other = small.tree().join("mounted");
    fs::write(&other, OLD)?;
    fs::set_permissions(&other, fs::Permissions::from_mode(0o640))?;
    let file = small.file();
    let (other, file) = (other.display(), file.display());
    ensure!(sh(&format!("mount --bind {other} {file}")));
    small.fails("busy-mount-point")?;
    ensure!(sh(&format!("umount {file}")));
    small.is_healed()?;
    Ok(())
}

/// Case B027: where the policy says so, what is mounted is written to, and stays the file that it is for who has it open.
#[test]
fn a_file_that_is_a_mount_point_is_written_in_place_where_the_policy_says_so() -> Result<()> {
    let test = "a_file_that_is_a_mount_point_is_written_in_place_where_the_policy_says_so";
    let Some(mut small) = Small::new(test, "size=1m")? else {
        return Ok(());
    };
    small.write = "inPlace";
    let other = small.tree().join("mounted");
    fs::write(&other, OLD.repeat(5000))?;
    let file = small.file();
    ensure!(sh(&format!(
        "mount --bind {} {}",
        other.display(),
        file.display()
    )));
    let mut reader = fs::File::open(&file)?;
    let before = fs::metadata(&file)?.ino();
    small.is_healed()?;
    ensure!(fs::read_to_string(&other)? == new(), "what was mounted");
    ensure!(fs::metadata(&file)?.ino() == before, "another file");
    let mut seen = String::new();
    reader.read_to_string(&mut seen)?;
    ensure!(seen == new(), "who has it open reads something else");
    drop(reader);
    // Where there is no file to write into, one is made.
    ensure!(sh(&format!("umount {}", file.display())));
    fs::remove_file(&file)?;
    small.is_healed()?;
    // What cannot be written to, or has no room for it, is found before anything has changed.
    fs::write(&file, OLD)?;
    ensure!(sh(&format!("mount --bind {0} {0}", file.display())));
    ensure!(sh(&format!("mount -o remount,bind,ro {}", file.display())));
    small.fails("read-only")?;
    ensure!(sh(&format!("umount {}", file.display())));
    small.is_healed()?;
    // Only attributes: nothing is written.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    small.is_healed()?;
    Ok(())
}

#[test]
fn a_parent_that_has_vanished_is_made_again() -> Result<()> {
    let test = "a_parent_that_has_vanished_is_made_again";
    let Some(small) = Small::new(test, "size=1m")? else {
        return Ok(());
    };
    fs::remove_dir_all(small.tree().join("dir"))?;
    let healed = small.is_healed()?;
    let made = fs::metadata(small.tree().join("dir"))?;
    let made = (made.mode() & 0o7777, made.uid(), made.gid());
    ensure!(made == (0o755, 0, 0), "{made:?}");
    ensure!(
        healed
            .notes
            .iter()
            .any(|note| note.contains("made the missing directory")),
        "{healed:?}"
    );
    Ok(())
}
