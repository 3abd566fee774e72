//! From the path of a control group to the container that it is of. Pure.
//!
//! Container runtimes and the kubelet name control groups by the container's id and the pod's UID, each in its own way: as directories (`cgroupfs`) or as slices
//! and scopes of systemd. The outermost container counts: what is made further in is the container's own, which may call it what it likes.

/// Hexadecimal digits of a container's id, whatever runtime made it.
const ID: usize = 64;

/// What a runtime puts before the id of a container.
const RUNTIMES: [&str; 6] = [
    "cri-containerd",
    "crio",
    "docker",
    "libpod",
    "nerdctl",
    "cri-o",
];

/// A container, as the path of its control group says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InContainer {
    /// 64 hexadecimal digits.
    pub id: String,
    /// Of the pod, as the kubelet calls it: of a pod from a file on the node that is the hash of the file.
    pub pod_uid: Option<String>,
}

/// The container of a control group's path, in any hierarchy.
#[must_use]
pub fn of_path(path: &str) -> Option<InContainer> {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    // Each user names control groups there as they like.
    if path.split('/').any(|part| part == "user.slice") {
        return None;
    }
    // Where the runtime takes systemd's way of writing for a directory's: `slice:prefix:name`.
    let mut parts = path.split(['/', ':']).filter(|part| !part.is_empty());
    let mut outermost = None;
    let mut is_kubelets = false;
    while let Some(part) = parts.next() {
        is_kubelets |= part.contains("kubepods");
        if let Some(pod_uid) = pod_uid(part).filter(|_| is_kubelets) {
            // What is in a pod's group and is no container is the kubelet's own.
            let id = parts.find_map(|part| match part {
                "cri-containerd" | "docker" | "crio" => None, // before the name
                other => Some(container_id(other)),
            });
            let id = id.flatten()?;
            return Some(InContainer {
                id,
                pod_uid: Some(pod_uid),
            });
        }
        if outermost.is_none() {
            outermost = container_id(part);
        }
    }
    outermost.map(|id| InContainer { id, pod_uid: None })
}

/// The hierarchies of control groups name several containers: the process is just being moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disagree;

/// The container of a process, from `/proc/PID/cgroup` (`cgroups(7)`): in the second version's hierarchy, or the first's.
pub fn of_process(text: &str) -> Result<Option<InContainer>, Disagree> {
    let mut found: Option<InContainer> = None;
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    for one in paths.filter_map(of_path) {
        match &found {
            Some(other) if one.id != other.id => return Err(Disagree),
            Some(_) => {}
            None => found = Some(one),
        }
    }
    Ok(found)
}

/// The UID in `pod<UID>` and `kubepods-burstable-pod<UID>.slice`, where the minus signs are underscores.
fn pod_uid(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = name.rsplit_once("pod")?;
    let uid = uid.replace('_', "-");
    let is_hex = |text: &str| {
        text.bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
    let is_uid = lengths == [8, 4, 4, 4, 12] || lengths == [32];
    (is_uid && is_hex(&uid.replace('-', "")) && (before.is_empty() || before.ends_with('-')))
        .then_some(uid)
}

/// The id in `<id>`, `crio-<id>` and `cri-containerd-<id>.scope`. `crio-conmon-<id>.scope` is beside the container, and not in it.
fn container_id(part: &str) -> Option<String> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = match name.rsplit_once('-') {
        None => name,
        Some((runtime, id)) if RUNTIMES.contains(&runtime) => id,
        Some(_) => return None,
    };
    let is_id = id.len() == ID
        && id
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_id.then(|| id.to_owned())
}

#[cfg(test)]
mod tests;
