//! What a cluster needs of the machine beside its own programs.

use std::path::Path;

use anyhow::Result;

use crate::{apt, machine};

/// Programs, and Debian's packages they are in.
const ALWAYS: [(&str, &str); 3] = [
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
];
const FOR_NODES: [(&str, &str); 2] = [("runc", "runc"), ("busybox", "busybox-static")];

/// Plugins that give pods their network, and where distributions and others put them.
const CNI_PACKAGE: &str = "containernetworking-plugins";
const CNI: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];

/// The folder with the plugins.
pub(super) fn cni() -> Option<&'static str> {
    CNI.into_iter()
        .find(|folder| machine::is_executable(&Path::new(folder).join("ptp")))
}

fn missing(nodes: bool) -> Vec<&'static str> {
    let for_nodes = if nodes { &FOR_NODES[..] } else { &[] };
    let programs = ALWAYS.iter().chain(for_nodes);
    let mut packages: Vec<&str> = programs
        .filter(|(program, _)| machine::which(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    packages.extend((nodes && cni().is_none()).then_some(CNI_PACKAGE));
    packages
}

/// Installs what is missing, where that is possible. `Err(reason)`: something still is.
pub(super) fn needs(nodes: bool) -> Result<Result<(), String>> {
    if !missing(nodes).is_empty() && apt::may_install() {
        apt::install(&missing(nodes))?;
    }
    let missing = missing(nodes);
    Ok(if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("not installed: {}", missing.join(", ")))
    })
}
