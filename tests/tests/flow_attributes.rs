//! Extended attributes, access lists, labels, capabilities and flags: changed by ordinary calls, seen, attributed, put back.
//!
//! What it takes: a file system with all of them under the temporary folder.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, has_probes, is_built, tool},
    scene::{HEAL_AT_ONCE, Scene},
    skip::skip,
    wait::until,
};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags, lgetxattr};

/// Takes flags away at the end, so that the scene can be removed.
struct Flagged(Vec<PathBuf>);

impl Drop for Flagged {
    fn drop(&mut self) {
        for path in &self.0 {
            // What stays is seen: the folder cannot be removed.
            let _result = File::open(path).map(|file| ioctl_setflags(&file, IFlags::empty()));
        }
    }
}

fn flags(path: &Path) -> Result<IFlags> {
    let both = IFlags::IMMUTABLE | IFlags::APPEND;
    Ok(ioctl_getflags(File::open(path)?)? & both)
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>> {
    let mut value = vec![0; 1024];
    let length = lgetxattr(path, name, &mut value[..]).with_context(|| name.to_owned())?;
    value.truncate(length);
    Ok(value)
}

const ALL: &str = r#"files:
    - path: TREE/labelled.conf
      content: {inline: "declared\n"}
      mode: "0640"
      acl: "user::rw-,user:1000:r--,group::r--,mask::r--,other::---"
      xattrs: {user.origin: web, user.gone: {absent: true}}
      selinux: system_u:object_r:etc_t:s0
      capabilities: cap_net_raw=ep
    - path: TREE/flagged.conf
      content: {inline: "declared\n"}
      flags: [immutable]
  directories:
    - path: TREE/listed.d
      defaultAcl: ["user::rwx", "group::r-x", "other::---"]
      xattrs: {user.k: v}
  symlinks:
    - path: TREE/alias.conf
      target: labelled.conf
      xattrs: {trusted.k: v}
"#;

/// B063, B062.
#[test]
fn every_way_to_change_an_attribute_is_seen_attributed_and_healed() -> Result<()> {
    if !has_probes("every_way_to_change_an_attribute_is_seen_attributed_and_healed") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, ALL)?;
    let _flagged = Flagged(vec![scene.at("flagged.conf")]);
    let agent = Agent::start(&scene, &[])?;
    let [app, fixed, d, link] =
        ["labelled.conf", "flagged.conf", "listed.d", "alias.conf"].map(|name| scene.at(name));
    for path in [&app, &fixed, &d, &link] {
        agent.event(0, "config.drift.healed", path)?;
    }
    let list = get(&app, "system.posix_acl_access")?;
    let capabilities = get(&app, "security.capability")?;
    ensure!(flags(&fixed)? == IFlags::IMMUTABLE);

    let name = |path: &Path| path.display().to_string();
    // Flags by their calls: FS_IOC_SETFLAGS, and FS_IOC_FSSETXATTR with a structure in which the second word are flags of another kind.
    let chattr = format!(
        "import fcntl, struct\nf = open('{}')\nfcntl.ioctl(f, 0x40086602, struct.pack('L', 0x80000))",
        name(&fixed)
    );
    let fssetxattr = format!(
        "import fcntl, struct\nf = open('{}')\nb = fcntl.ioctl(f, 0x801c581f, bytes(28))\nw = struct.unpack('7I', b)\nfcntl.ioctl(f, 0x401c5820, struct.pack('7I', w[0] & ~8, *w[1:]))",
        name(&fixed)
    );
    let app_name = name(&app);
    let through = |call: &str| format!("f = os.open('{app_name}', os.O_RDONLY)\n{call}");
    for (path, script, said) in [
        (
            &app,
            format!("os.setxattr('{app_name}', 'user.origin', b'evil')"),
            "attribute user.origin has another value",
        ),
        (
            &app,
            format!("os.removexattr('{app_name}', 'user.origin')"),
            "attribute user.origin is not there",
        ),
        (
            &app,
            through("os.setxattr(f, 'user.gone', b'')"),
            "attribute user.gone may not be there",
        ),
        (
            &app,
            through("os.removexattr(f, 'security.selinux')"),
            "label: none, not system_u:object_r:etc_t:s0",
        ),
        (
            &app,
            format!("os.setxattr('{app_name}', 'security.selinux', b'a:b:c\\0')"),
            "label: a:b:c, not system_u:object_r:etc_t:s0",
        ),
        (
            &app,
            format!("os.removexattr('{app_name}', 'security.capability')"),
            "capabilities: none, not cap_net_raw=ep",
        ),
        (
            &app,
            format!("os.removexattr('{app_name}', 'system.posix_acl_access')"),
            "access list: user::rw-,group::r--,other::---, not user::rw-,user:1000:r--,group::r--,mask::r--,other::---",
        ),
        (
            &link,
            format!(
                "os.removexattr('{}', 'trusted.k', follow_symlinks=False)",
                name(&link)
            ),
            "attribute trusted.k is not there",
        ),
        (
            &link,
            format!(
                "os.setxattr('{}', 'trusted.k', b'x', follow_symlinks=False)",
                name(&link)
            ),
            "attribute trusted.k has another value",
        ),
        (
            &d,
            format!("os.removexattr('{}', 'system.posix_acl_default')", name(&d)),
            "default access list: none, not user::rwx,group::r-x,other::---",
        ),
        (
            &d,
            format!("os.chdir('{}')\nos.removexattr('.', 'user.k')", name(&d)),
            "attribute user.k is not there",
        ),
        (&fixed, chattr, "flags: none, not immutable"),
        (&fixed, fssetxattr, "flags: none, not immutable"),
    ] {
        let mark = agent.mark();
        let pid = tool("python3", &["-c", &format!("import os\n{script}")])?;
        let detected = agent.event(mark, "config.drift.detected", path)?;
        ensure!(
            detected["drift"] == serde_json::json!(["xattr"]),
            "{script}: {detected}"
        );
        let message = detected["message"].as_str().unwrap_or_default();
        ensure!(message.contains(said), "{script}: {detected}");
        ensure!(detected["cause"] == "kernel", "{script}: {detected}");
        ensure!(
            detected["actor"]["pid"] == pid,
            "{script}: not by {pid}: {detected}"
        );
        agent.event(mark, "config.drift.healed", path)?;
    }
    ensure!(get(&app, "system.posix_acl_access")? == list);
    ensure!(get(&app, "security.capability")? == capabilities);
    ensure!(get(&app, "user.origin")? == b"web");
    ensure!(get(&app, "user.gone").is_err());
    ensure!(get(&link, "trusted.k")? == b"v");
    ensure!(flags(&fixed)? == IFlags::IMMUTABLE);

    // Replaced as an editor does: what is declared is there on the new file too.
    let mark = agent.mark();
    let aside = name(&scene.elsewhere().join("new"));
    tool(
        "sh",
        &[
            "-c",
            &format!("echo x > {aside}; exec mv {aside} {app_name}"),
        ],
    )?;
    agent.event(mark, "config.drift.healed", &app)?;
    ensure!(get(&app, "system.posix_acl_access")? == list);
    ensure!(get(&app, "security.capability")? == capabilities);
    ensure!(get(&app, "security.selinux")? == b"system_u:object_r:etc_t:s0\0");
    // The flag taken away, the content changed, the flag put back.
    let mark = agent.mark();
    let fixed_name = name(&fixed);
    let script = format!(
        "import fcntl, struct\nf = open('{fixed_name}')\nset = lambda flags: fcntl.ioctl(f, 0x40086602, struct.pack('L', flags))\nset(0x80000)\nopen('{fixed_name}', 'w').write('evil')\nset(0x80010)"
    );
    tool("python3", &["-c", &script])?;
    agent.event(mark, "config.drift.healed", &fixed)?;
    until(SOON, || {
        let content = fs::read(&fixed)?;
        let now = flags(&fixed)?;
        ensure!(
            content == b"declared\n" && now == IFlags::IMMUTABLE,
            "{now:?} {}",
            agent.all()
        );
        Ok(())
    })?;
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn the_scan_finds_them_without_probes_and_check_says_the_same() -> Result<()> {
    if !is_built("the_scan_finds_them_without_probes_and_check_says_the_same") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, ALL)?;
    let _flagged = Flagged(vec![scene.at("flagged.conf")]);
    let agent = Agent::start(&scene, &["--sensor", "scan", "--scan-interval", "100ms"])?;
    let (app, fixed) = (scene.at("labelled.conf"), scene.at("flagged.conf"));
    for path in [&app, &fixed] {
        agent.event(0, "config.drift.healed", path)?;
    }
    let mark = agent.mark();
    rustix::fs::removexattr(&app, "security.capability")?;
    ioctl_setflags(File::open(&fixed)?, IFlags::empty())?;
    for path in [&app, &fixed] {
        agent.event(mark, "config.drift.healed", path)?;
    }
    ensure!(agent.stop()?.success());
    let check = || {
        std::process::Command::new(drift_tests::agent::program())
            .args(["check", "-o", "jsonl", "--policies"])
            .arg(scene.policies())
            .output()
    };
    let clean = check()?;
    ensure!(
        clean.status.code() == Some(0),
        "{}",
        String::from_utf8_lossy(&clean.stdout)
    );
    rustix::fs::removexattr(&app, "security.capability")?;
    let drifting = check()?;
    let said = String::from_utf8_lossy(&drifting.stdout);
    ensure!(drifting.status.code() == Some(4), "{said}");
    ensure!(
        said.contains("capabilities: none, not cap_net_raw=ep"),
        "{said}"
    );
    Ok(())
}

/// B063: a FAT-like file system has none of it. ramfs stands in for it.
#[test]
fn a_file_system_without_attributes_is_said_once_and_its_paths_drift_once() -> Result<()> {
    if !has_probes("a_file_system_without_attributes_is_said_once_and_its_paths_drift_once") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let place = scene.tree().display().to_string();
    tool("mount", &["-t", "ramfs", "none", &place])?;
    let result = without_attributes(&scene);
    tool("umount", &[&place])?;
    result
}

fn without_attributes(scene: &Scene) -> Result<()> {
    let files: String = (0..20)
        .map(|number| {
            format!(
                "    - {{path: TREE/{number}, content: {{inline: a}}, acl: 'user::rw,user:7:r,group::r,mask::r,other::-', xattrs: {{user.k: v}}}}\n"
            )
        })
        .collect();
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, &format!("files:\n{files}"))?;
    for number in 0..20 {
        fs::write(scene.at(&number.to_string()), "b")?;
    }
    let agent = Agent::start(scene, &["--scan-interval", "100ms"])?;
    let told = |agent: &Agent, event: &str, number: i32| {
        let path = scene.at(&number.to_string()).display().to_string();
        let all = agent.since(0).into_iter();
        all.filter(|record| record["event"] == event && record["path"] == path)
            .count()
    };
    for number in 0..20 {
        // The content is put back all the same.
        agent.event(0, "config.drift.healed", &scene.at(&number.to_string()))?;
    }
    // Some scans later.
    let mark = agent.mark();
    fs::write(scene.at("0"), "c")?;
    agent.event(mark, "config.drift.healed", &scene.at("0"))?;
    for number in 1..20 {
        ensure!(
            told(&agent, "config.drift.detected", number) == 1,
            "{}",
            agent.all()
        );
        ensure!(told(&agent, "config.drift.heal_failed", number) == 0);
    }
    let warned = agent.errors().matches("does not have attributes").count();
    ensure!(warned == 1, "{warned}: {}", agent.errors());
    ensure!(agent.stop()?.success());
    Ok(())
}

/// A file system in the scene's tree, its mount gone with the value.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        // What stays mounted keeps the scene's folder from being removed, and that is seen.
        let _status = std::process::Command::new("umount").arg(&self.0).status();
    }
}

/// Each of these has all kinds of attributes; what a new inode gets of them, and what `statx` says of flags, is each file system's own code.
#[test]
fn attributes_are_put_back_on_every_file_system_that_has_them() -> Result<()> {
    const NAME: &str = "attributes_are_put_back_on_every_file_system_that_has_them";
    if !is_built(NAME) {
        return Ok(());
    }
    for kind in ["tmpfs", "ext4", "xfs", "btrfs", "overlay"] {
        let scene = Scene::new()?;
        let tree = scene.tree().display().to_string();
        let image = scene.root().join("image");
        let below = scene.elsewhere().display().to_string();
        let mut mounts = Vec::new();
        match kind {
            "tmpfs" => {
                tool("mount", &["-t", "tmpfs", "none", &tree])?;
            }
            "overlay" => {
                tool("mount", &["-t", "tmpfs", "none", &below])?;
                mounts.push(Mounted(scene.elsewhere()));
                for layer in ["lower", "upper", "work"] {
                    fs::create_dir(scene.elsewhere().join(layer))?;
                }
                let layers =
                    format!("lowerdir={below}/lower,upperdir={below}/upper,workdir={below}/work");
                tool("mount", &["-t", "overlay", "none", "-o", &layers, &tree])?;
            }
            _ => {
                let mkfs = format!("mkfs.{kind}");
                // The smallest that xfs makes.
                File::create(&image)?.set_len(320 << 20)?;
                let made = std::process::Command::new(&mkfs)
                    .arg("-q")
                    .arg(&image)
                    .output();
                if !made.is_ok_and(|made| made.status.success()) {
                    skip(NAME, &format!("{kind}: {mkfs} is not there"));
                    continue;
                }
                tool(
                    "mount",
                    &["-o", "loop", &image.display().to_string(), &tree],
                )?;
            }
        }
        mounts.insert(0, Mounted(scene.tree()));
        put_back(&scene).with_context(|| kind.to_owned())?;
        drop(mounts);
    }
    Ok(())
}

fn put_back(scene: &Scene) -> Result<()> {
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, ALL)?;
    let (app, fixed) = (scene.at("labelled.conf"), scene.at("flagged.conf"));
    let _flagged = Flagged(vec![fixed.clone()]);
    fs::write(&app, "other")?;
    let agent = Agent::start(scene, &["--sensor", "scan", "--scan-interval", "100ms"])?;
    for path in [&app, &fixed, &scene.at("listed.d"), &scene.at("alias.conf")] {
        agent.event(0, "config.drift.healed", path)?;
    }
    let list = get(&app, "system.posix_acl_access")?;
    ensure!(flags(&fixed)? == IFlags::IMMUTABLE);
    // In place, and by replacement.
    for drift in [false, true] {
        let mark = agent.mark();
        rustix::fs::removexattr(&app, "system.posix_acl_access")?;
        rustix::fs::removexattr(&app, "security.capability")?;
        rustix::fs::removexattr(&app, "user.origin")?;
        ioctl_setflags(File::open(&fixed)?, IFlags::empty())?;
        if drift {
            fs::write(&app, "other")?;
            fs::write(&fixed, "other")?;
        }
        for path in [&app, &fixed] {
            agent.event(mark, "config.drift.healed", path)?;
        }
        until(SOON, || {
            ensure!(fs::read(&app)? == b"declared\n" && fs::read(&fixed)? == b"declared\n");
            ensure!(get(&app, "system.posix_acl_access")? == list);
            ensure!(get(&app, "user.origin")? == b"web");
            ensure!(get(&app, "security.capability")?.len() == 20);
            ensure!(flags(&fixed)? == IFlags::IMMUTABLE);
            Ok(())
        })
        .with_context(|| agent.all())?;
    }
    ensure!(agent.stop()?.success());
    let check = std::process::Command::new(drift_tests::agent::program())
        .args(["check", "--policies"])
        .arg(scene.policies())
        .output()?;
    ensure!(
        check.status.success(),
        "{}",
        String::from_utf8_lossy(&check.stdout)
    );
    Ok(())
}
