//! `drift-agent snapshot` of what files have beside content, mode and owner.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::is_built,
    command::{check, is_clean, snapshot},
    scene::Scene,
    skip::skip,
};
use rustix::fs::{IFlags, XattrFlags, ioctl_setflags, lremovexattr, lsetxattr};

/// An access list as the kernel keeps it: tag, permissions, id.
fn access_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(bits.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

#[test]
fn attributes_that_are_there_are_declared_but_for_secrets() -> Result<()> {
    let test = "attributes_that_are_there_are_declared_but_for_secrets";
    if !is_built(test) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        skip(test, "setting capabilities, labels and flags needs root");
        return Ok(());
    }
    let scene = Scene::new()?;
    let set = |name: &str, attribute: &str, value: &[u8]| {
        lsetxattr(scene.at(name), attribute, value, XattrFlags::empty()).with_context(|| {
            format!("{attribute}: the temporary folder's file system must have it")
        })
    };
    const NOBODY: u32 = u32::MAX;
    fs::write(scene.at("probe"), "x\n")?;
    fs::write(scene.at("other"), "x\n")?;
    fs::create_dir(scene.at("d"))?;
    symlink("probe", scene.at("link"))?;
    fs::set_permissions(scene.at("probe"), Permissions::from_mode(0o754))?;
    let list = [
        (0x01, 7, NOBODY),
        (0x02, 4, 0),
        (0x02, 6, 54_321),
        (0x04, 4, NOBODY),
        (0x10, 5, NOBODY),
        (0x20, 4, NOBODY),
    ];
    set("probe", "system.posix_acl_access", &access_list(&list))?;
    let list = [(0x01, 7, NOBODY), (0x04, 5, NOBODY), (0x20, 0, NOBODY)];
    set("d", "system.posix_acl_default", &access_list(&list))?;
    set("probe", "security.selinux", b"system_u:object_r:bin_t:s0\0")?;
    set("link", "security.selinux", b"system_u:object_r:etc_t:s0\0")?;
    set("probe", "user.origin", b"web: \"1\"")?;
    set("probe", "user.bytes", b"\xff\0")?;
    set("probe", "user.api_token", b"SECRET")?;
    set("other", "user.large", &[b' '; 1500])?;
    set("other", "user.more", &[b' '; 600])?;
    // CAP_NET_RAW, in effect.
    let capabilities = [0x0200_0001u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes);
    set("probe", "security.capability", capabilities.as_flattened())?;
    let other = fs::File::open(scene.at("other"))?;
    ioctl_setflags(&other, IFlags::APPEND)?;
    let result = declared_attributes(&scene);
    // Else the scene could not be removed.
    ioctl_setflags(&other, IFlags::empty())?;
    result
}

fn declared_attributes(scene: &Scene) -> Result<()> {
    let (status, out, err) = snapshot(scene, &["tree", "-o", "policies/all.yaml"])?;
    ensure!(status == 0, "{out}{err}");
    for line in [
        "attributes that are left alone:\n",
        "/probe: user.api_token may be secret\n",
        "/other: user.more is too large\n",
    ] {
        ensure!(out.contains(line), "no {line:?}:\n{out}");
    }
    let text = fs::read_to_string(scene.policies().join("all.yaml"))?;
    for line in [
        "acl: [\"user::rwx\", \"user:54321:rw-\", \"user:root:r--\", \"group::r--\", \"mask::r-x\", \"other::r--\"]",
        "defaultAcl: [\"user::rwx\", \"group::r-x\", \"other::---\"]",
        "capabilities: \"cap_net_raw=ep\"",
        "selinux: \"system_u:object_r:bin_t:s0\"",
        "selinux: \"system_u:object_r:etc_t:s0\"",
        "user.origin: \"web: \\\"1\\\"\"",
        "user.bytes: {base64: ",
        "flags: [append]",
    ] {
        ensure!(text.contains(line), "no {line:?}:\n{text}");
    }
    ensure!(
        !text.contains("SECRET") && !out.contains("SECRET"),
        "{text}"
    );
    is_clean(scene)?;
    for attribute in [
        "user.origin",
        "security.capability",
        "system.posix_acl_access",
    ] {
        lremovexattr(scene.at("probe"), attribute)?;
        let (status, records) = check(scene)?;
        ensure!(
            status == 4 && records.len() == 1,
            "{attribute}: {records:?}"
        );
    }
    Ok(())
}
