//! What a healed file keeps and gets, down to the bit: everything that a file has, of any size, under any name.

use std::{
    collections::BTreeMap,
    ffi::{CString, OsStr},
    fs,
    io::{BufReader, Read as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use drift_agent::{
    compare::differences,
    declare::load,
    heal,
    observe::{Host, observe},
};
use drift_tests::{
    agent::{Agent, is_built},
    privilege::{SCAN, restorer},
    scene::Scene,
    skip::skip,
    sweep::is_long,
};
use rustix::fs::{
    FallocateFlags, IFlags, XattrFlags, fallocate, getxattr, ioctl_getflags, ioctl_setflags,
    listxattr, setxattr,
};

/// Everything but the content.
#[derive(Debug, PartialEq, Eq)]
struct Face {
    mode: u32,
    uid: u32,
    gid: u32,
    xattrs: BTreeMap<CString, Vec<u8>>,
    flags: Option<u32>,
}

fn face(path: &Path) -> Result<Face> {
    let stat = fs::symlink_metadata(path)?;
    let mut names = vec![0u8; 64 << 10];
    let length = listxattr(path, &mut names[..])?;
    let mut xattrs = BTreeMap::new();
    for name in names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let name = CString::new(name)?;
        let mut value = vec![0u8; 64 << 10];
        let length = getxattr(path, &*name, &mut value[..])?;
        value.truncate(length);
        xattrs.insert(name, value);
    }
    // Which blocks it has is the file system's own business.
    let own = IFlags::from_bits_retain(0x0008_0000 | 0x1000_0000);
    let flags = ioctl_getflags(fs::File::open(path)?);
    Ok(Face {
        mode: stat.mode(),
        uid: stat.uid(),
        gid: stat.gid(),
        xattrs,
        flags: flags.ok().map(|flags| flags.difference(own).bits()),
    })
}

/// Dresses a file in all that there is. What is not to be had here.
fn dress(path: &Path) -> Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    chown(path, Some(7), Some(8))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o4751))?;
    let mut set = |name: &str, value: &[u8], what: &'static str| {
        if setxattr(path, name, value, XattrFlags::empty()).is_err() {
            missing.push(what);
        }
    };
    for number in 0..64u8 {
        let value = [number, 0, 0xff, b'\n'];
        set(&format!("user.n{number}"), &value, "64 user attributes");
    }
    // Version 2; owner rwx, user 9 r, group r, mask r, others x: as the kernel keeps them.
    let mut list = vec![2, 0, 0, 0];
    let none = u32::MAX;
    for (tag, permissions, id) in [
        (1u16, 7u16, none),
        (2, 4, 9),
        (4, 4, none),
        (0x10, 5, none),
        (0x20, 1, none),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    set("system.posix_acl_access", &list, "an access list");
    // Revision 2, effective; cap_net_raw permitted.
    let mut capability = Vec::new();
    for word in [0x0200_0001u32, 1 << 13, 0, 0, 0] {
        capability.extend(word.to_le_bytes());
    }
    set("security.capability", &capability, "capabilities");
    set(
        "security.selinux",
        b"system_u:object_r:etc_t:s0\0",
        "an SELinux label",
    );
    let file = fs::File::open(path)?;
    let flags = ioctl_getflags(&file).map(|flags| flags | IFlags::NODUMP | IFlags::NOATIME);
    if flags
        .and_then(|flags| ioctl_setflags(&file, flags))
        .is_err()
    {
        missing.push("flags");
    }
    missing.sort_unstable();
    missing.dedup();
    Ok(missing)
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Result<Place> {
        let folder = tempfile::Builder::new()
            .prefix("drift-fidelity-")
            .tempdir()?;
        fs::create_dir_all(folder.path().join("policies/blobs"))?;
        fs::create_dir(folder.path().join("tree"))?;
        Ok(Place { folder })
    }

    fn at(&self, name: &[u8]) -> PathBuf {
        self.folder
            .path()
            .join("tree")
            .join(OsStr::from_bytes(name))
    }

    /// Declares the content of one path and nothing else of it, and heals that.
    fn heal(&self, path: &Path, content: &[u8]) -> Result<()> {
        let policies = self.folder.path().join("policies");
        let digest = blake3::hash(content);
        fs::write(policies.join("blobs").join(digest.to_string()), content)?;
        let text = format!(
            "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec: {{activeVersion: 1.0.0, mode: heal}}\n\
             ---\napiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: p-1}}\nspec:\n  policy: p\n  version: 1.0.0\n  files:\n    \
             - {{pathBytes: {}, content: {{digest: 'blake3:{digest}'}}}}\n",
            base64(path)
        );
        fs::write(policies.join("p.yaml"), text)?;
        let snapshot = load(&policies, Path::new("/"), None, &Default::default())
            .map_err(|rejected| anyhow::anyhow!("{}", rejected.plain()))?;
        let declared = snapshot.files.first().context("a file")?;
        ensure!(declared.path == path, "{}", declared.path.display());
        let host = Host::new(Path::new("/"))?;
        let observed = observe(&host, declared, None, &mut |_| {});
        let drifts = differences(declared, &observed);
        ensure!(!drifts.is_empty(), "nothing differs");
        let action = heal::plan(declared, &drifts, &observed.found)
            .map_err(|why| anyhow::anyhow!(why.sentence()))?;
        heal::execute(&host, declared, &action, observed.stat.as_ref())?;
        let observed = observe(&host, declared, None, &mut |_| {});
        let drifts = differences(declared, &observed);
        ensure!(drifts.is_empty(), "{drifts:?}");
        Ok(())
    }
}

fn base64(path: &Path) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(path.as_os_str().as_bytes())
}

#[test]
fn a_healed_file_is_equal_bit_for_bit_in_everything_it_had_at_any_size_and_name() -> Result<()> {
    let test = "a_healed_file_is_equal_bit_for_bit_in_everything_it_had_at_any_size_and_name";
    if !rustix::process::geteuid().is_root() {
        skip(test, "giving files away, and capabilities, need root");
        return Ok(());
    }
    let place = Place::new()?;
    let mut sizes = vec![0, 1, 1024, 4095, 4096, 65_537, 1 << 20];
    if is_long() {
        // What is held in memory at most, and more.
        sizes.extend([16 << 20, (16 << 20) + 1, 64 << 20]);
    }
    for (number, size) in sizes.into_iter().enumerate() {
        let path = place.at(format!("size-{number}").as_bytes());
        let content = noise(size);
        fs::write(&path, noise(size + 1))?;
        let missing = dress(&path)?;
        if !missing.is_empty() {
            skip(
                test,
                &format!("not on this file system: {}", missing.join(", ")),
            );
        }
        let before = face(&path)?;
        place.heal(&path, &content)?;
        ensure!(fs::read(&path)? == content, "{size} bytes");
        let after = face(&path)?;
        ensure!(
            after == before,
            "{size} bytes: {after:?}, and was {before:?}"
        );
    }
    // A file with a hole, put back where another stands; and one that is put where a hole stood.
    let path = place.at(b"sparse");
    let mut content = vec![0; 1 << 20];
    content.extend_from_slice(b"end");
    fs::write(&path, b"x")?;
    place.heal(&path, &content)?;
    ensure!(fs::read(&path)? == content, "with a hole");
    let file = fs::File::create(&path)?;
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20)?;
    file.set_len(1 << 20)?;
    place.heal(&path, &content)?;
    ensure!(fs::read(&path)? == content, "where a hole stood");
    // Every byte that a name can have.
    let bytes: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    for name in bytes.chunks(100) {
        let path = place.at(name);
        fs::write(&path, b"drifted")?;
        place.heal(&path, b"declared")?;
        ensure!(fs::read(&path)? == b"declared", "{}", path.display());
    }
    Ok(())
}

/// The most memory that a process has had, in bytes.
fn most_memory(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let most = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next())
        .context("no VmHWM")?;
    Ok(most.parse::<u64>()? << 10)
}

fn digest_of(path: &Path) -> Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut file = BufReader::new(fs::File::open(path)?);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            length => drop(hasher.update(&buffer[..length])),
        }
    }
}

/// A file of 1 GiB, most of it holes, and one of 200 MiB without any: put back by the agent, in no more memory than small ones.
#[test]
fn the_largest_files_are_healed_with_their_holes_in_bounded_memory() -> Result<()> {
    const MIB: u64 = 1 << 20;
    /// Both processes have much less; the dense file alone is more.
    const MOST_MEMORY: u64 = 160 * MIB;
    if !is_built("the_largest_files_are_healed_with_their_holes_in_bounded_memory") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let blobs = scene.policies().join("blobs");
    fs::create_dir(&blobs)?;
    let sparse = blobs.join("sparse");
    let file = fs::File::create(&sparse)?;
    file.set_len(1024 * MIB)?;
    for at in [0, 512 * MIB + 4096, 1024 * MIB - 3] {
        file.write_all_at(b"end", at)?;
    }
    let dense = blobs.join("dense");
    let file = fs::File::create(&dense)?;
    let part = noise(1 << 20);
    for at in 0..200 {
        file.write_all_at(&part, at * MIB)?;
    }
    file.sync_all()?;
    let digest = digest_of(&dense)?;
    fs::rename(&dense, blobs.join(digest.to_string()))?;
    let tree = scene.tree().display().to_string();
    let text = format!(
        "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec: {{activeVersion: 1.0.0, mode: heal}}\n\
         ---\napiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: p-1}}\nspec:\n  policy: p\n  version: 1.0.0\n  files:\n    \
         - {{path: {tree}/dense, content: {{digest: 'blake3:{digest}'}}}}\n    - {{path: {tree}/sparse, content: {{file: blobs/sparse}}}}\n"
    );
    fs::write(scene.policies().join("policy.yaml"), text)?;
    fs::write(scene.at("sparse"), "drifted")?;
    let agent = Agent::start(&scene, &SCAN)?;
    for name in ["sparse", "dense"] {
        agent.event(0, "config.drift.healed", &scene.at(name))?;
    }
    ensure!(digest_of(&scene.at("sparse"))? == digest_of(&sparse)?);
    ensure!(digest_of(&scene.at("dense"))? == digest);
    let on_disk = |path: &Path| Ok::<_, anyhow::Error>(fs::metadata(path)?.blocks() * 512);
    let (healed, declared) = (on_disk(&scene.at("sparse"))?, on_disk(&sparse)?);
    ensure!(
        healed <= declared,
        "{healed} bytes on the disk for {declared}"
    );
    let mut most = Vec::new();
    for process in [agent.pid(), u32::try_from(restorer(&scene)?)?] {
        most.push(most_memory(process)?);
    }
    eprintln!(
        "1 GiB with holes ({healed} bytes on the disk) and 200 MiB: at most {} MiB of memory in the detector, {} MiB in the restorer",
        most[0] / MIB,
        most[1] / MIB
    );
    ensure!(most.iter().all(|most| *most < MOST_MEMORY), "{most:?}");
    ensure!(agent.stop()?.success());
    Ok(())
}
