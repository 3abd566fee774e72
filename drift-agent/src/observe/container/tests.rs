use super::{Disagree, InContainer, of_path, of_process};

const ID: &str = "3f5c1f0bd6e29c4f2f8b6f1a0b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8";
const OTHER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const UID: &str = "0f3b0c1e-7a52-4d0b-9d0e-1f2a3b4c5d6e";
const HASH: &str = "8f14e45fceea167a5a36dedd4bea2543";

/// `ID`, `OTHER`, `UID`, `UID_` (as slices have it) and `HASH` stand for themselves.
fn path(text: &str) -> String {
    text.replace("UID_", &UID.replace('-', "_"))
        .replace("UID", UID)
        .replace("OTHER", OTHER)
        .replace("ID", ID)
        .replace("HASH", HASH)
}

/// Of whom: a pod's container, one without a pod, one of a pod that a file on the node declares, nobody's.
#[derive(Clone, Copy)]
enum Of {
    Pod,
    Static,
    Container,
    Nobody,
}

fn expected(of: Of) -> Option<InContainer> {
    let pod_uid = match of {
        Of::Pod => Some(UID),
        Of::Static => Some(HASH),
        Of::Container => None,
        Of::Nobody => return None,
    };
    Some(InContainer {
        id: ID.to_owned(),
        pod_uid: pod_uid.map(str::to_owned),
    })
}

const LAYOUTS: [(&str, &str, Of); 40] = [
    // The kubelet with `cgroupfs`.
    (
        "containerd, burstable",
        "/kubepods/burstable/podUID/ID",
        Of::Pod,
    ),
    (
        "containerd, best effort",
        "/kubepods/besteffort/podUID/ID",
        Of::Pod,
    ),
    ("containerd, guaranteed", "/kubepods/podUID/ID", Of::Pod),
    ("CRI-O", "/kubepods/burstable/podUID/crio-ID", Of::Pod),
    ("CRI-O, guaranteed", "/kubepods/podUID/crio-ID", Of::Pod),
    (
        "docker (cri-dockerd)",
        "/kubepods/besteffort/podUID/ID",
        Of::Pod,
    ),
    (
        "beneath --cgroup-root",
        "/drift-kube/node-a/kubepods/burstable/podUID/ID",
        Of::Pod,
    ),
    ("a static pod", "/kubepods/burstable/podHASH/ID", Of::Static),
    // The kubelet with `systemd`.
    (
        "containerd, systemd",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice/cri-containerd-ID.scope",
        Of::Pod,
    ),
    (
        "containerd, systemd, guaranteed",
        "/kubepods.slice/kubepods-podUID_.slice/cri-containerd-ID.scope",
        Of::Pod,
    ),
    (
        "CRI-O, systemd",
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUID_.slice/crio-ID.scope",
        Of::Pod,
    ),
    (
        "CRI-O, systemd, in a group of its own",
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUID_.slice/crio-ID.scope/container",
        Of::Pod,
    ),
    (
        "docker, systemd",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice/docker-ID.scope",
        Of::Pod,
    ),
    (
        "a static pod, systemd",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podHASH.slice/cri-containerd-ID.scope",
        Of::Static,
    ),
    (
        "kind",
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podUID_.slice/cri-containerd-ID.scope",
        Of::Pod,
    ),
    (
        "kind, seen from its machine",
        "/system.slice/docker-OTHER.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podUID_.slice/cri-containerd-ID.scope",
        Of::Pod,
    ),
    (
        "kind, cgroupfs",
        "/docker/OTHER/kubelet/kubepods/besteffort/podUID/ID",
        Of::Pod,
    ),
    (
        "containerd with the other driver than the kubelet",
        "/system.slice/containerd.service/kubepods-burstable-podUID_.slice:cri-containerd:ID",
        Of::Pod,
    ),
    (
        "the same without a service",
        "/kubepods-besteffort-podUID_.slice:cri-containerd:ID",
        Of::Pod,
    ),
    (
        "seen from a control group name space",
        "/../../kubepods-besteffort.slice/kubepods-besteffort-podUID_.slice/cri-containerd-ID.scope",
        Of::Pod,
    ),
    ("gone", "/kubepods/burstable/podUID/ID (deleted)", Of::Pod),
    // What is in a container.
    (
        "systemd in a container",
        "/kubepods.slice/kubepods-podUID_.slice/cri-containerd-ID.scope/system.slice/sshd.service",
        Of::Pod,
    ),
    (
        "docker in a pod",
        "/kubepods/besteffort/podUID/ID/docker/OTHER",
        Of::Pod,
    ),
    (
        "a container that plays another one",
        "/kubepods/besteffort/podUID/ID/kubepods/besteffort/podHASH/OTHER",
        Of::Pod,
    ),
    ("docker in docker", "/docker/ID/docker/OTHER", Of::Container),
    // Without Kubernetes.
    ("docker", "/docker/ID", Of::Container),
    (
        "docker, systemd",
        "/system.slice/docker-ID.scope",
        Of::Container,
    ),
    ("podman", "/machine.slice/libpod-ID.scope", Of::Container),
    (
        "podman, in a group of its own",
        "/machine.slice/libpod-ID.scope/container",
        Of::Container,
    ),
    (
        "podman, cgroupfs",
        "/libpod_parent/libpod-ID",
        Of::Container,
    ),
    ("nerdctl", "/system.slice/nerdctl-ID.scope", Of::Container),
    // Nobody's.
    ("the root", "/", Of::Nobody),
    ("a service", "/system.slice/containerd.service", Of::Nobody),
    (
        "a pod without its container",
        "/kubepods/burstable/podUID",
        Of::Nobody,
    ),
    (
        "CRI-O's monitor, in the pod's slice",
        "/kubepods.slice/kubepods-podUID_.slice/crio-conmon-ID.scope",
        Of::Nobody,
    ),
    (
        "podman's monitor",
        "/machine.slice/libpod-conmon-ID.scope",
        Of::Nobody,
    ),
    (
        "what a user calls it",
        "/user.slice/user-1000.slice/user@1000.service/kubepods/podUID/ID",
        Of::Nobody,
    ),
    (
        "an id that is too short",
        "/docker/3f5c1f0bd6e2",
        Of::Nobody,
    ),
    ("a UID of nobody", "/kubepods/podnone/nothing", Of::Nobody),
    (
        "a pod that is no kubelet's",
        "/mine/podUID/none",
        Of::Nobody,
    ),
];

#[test]
fn every_layout_of_control_groups_names_its_container() {
    for (what, text, of) in LAYOUTS {
        assert_eq!(of_path(&path(text)), expected(of), "{what}: {text}");
    }
}

#[test]
fn a_process_is_in_the_container_that_its_hierarchies_agree_about() {
    let cases = [
        ("version 2", "0::/kubepods/burstable/podUID/ID\n", Of::Pod),
        (
            "version 1",
            "12:pids:/kubepods/burstable/podUID/ID\n11:cpu,cpuacct:/kubepods/burstable/podUID/ID\n1:name=systemd:/kubepods/burstable/podUID/ID\n",
            Of::Pod,
        ),
        (
            "both, the second not used",
            "12:pids:/kubepods/burstable/podUID/ID\n1:name=systemd:/kubepods/burstable/podUID/ID\n0::/\n",
            Of::Pod,
        ),
        (
            "both, the second with the runtime's service",
            "4:memory:/docker/ID\n0::/system.slice/containerd.service\n",
            Of::Container,
        ),
        (
            "controllers that are not used",
            "13:misc:/\n12:pids:/docker/ID\n0::/docker/ID\n",
            Of::Container,
        ),
        (
            "on the machine",
            "1:name=systemd:/\n0::/init.scope\n",
            Of::Nobody,
        ),
        ("nothing", "", Of::Nobody),
        ("not what is expected", "one line\n", Of::Nobody),
    ];
    for (what, text, of) in cases {
        assert_eq!(of_process(&path(text)), Ok(expected(of)), "{what}");
    }
    let moving = path("4:memory:/docker/ID\n0::/docker/OTHER\n");
    assert_eq!(of_process(&moving), Err(Disagree));
}
