//! What this node is to a rollout, where no cluster says it.

use std::{collections::BTreeMap, io::Read, path::Path};

use drift_common::policy::{Document, Node};
use rustix::fs::{Mode, OFlags, ResolveFlags, open};

use super::{Basis, content::open_beneath};

/// The label that Kubernetes gives to every node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// A machine's own number: made once, at its installation. Relative to the root.
const MACHINE_ID: &str = "etc/machine-id";
/// Bytes of it that are looked at: it has 33.
const MOST: u64 = 64;

/// Whether a document says different things to different nodes.
pub(super) fn matters(document: &Document) -> bool {
    match document {
        Document::Policy(policy) => policy.rollout.is_some() || !policy.node_selector.is_empty(),
        Document::Version(_) | Document::Reference(_) => false,
    }
}

/// The node that this host is: known by its machine id, or by its name where it has none, and labelled with its name.
pub(super) fn of_host(host_root: &Path, basis: &mut Basis) -> Node {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .to_lowercase();
    Node {
        uid: machine_id(host_root, basis).unwrap_or_else(|| name.clone()),
        labels: BTreeMap::from([(HOSTNAME.to_owned(), name)]),
    }
}

fn machine_id(host_root: &Path, basis: &mut Basis) -> Option<String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(host_root, flags, Mode::empty()).ok()?;
    let file = open_beneath(&root, Path::new(MACHINE_ID), ResolveFlags::IN_ROOT).ok()?;
    basis.saw(host_root.join(MACHINE_ID), file.metadata().ok().as_ref());
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).ok()?;
    let text = text.trim();
    // `uninitialized` is what stands there before the first start.
    let is_id = text.len() == 32 && text.bytes().all(|c| c.is_ascii_hexdigit());
    is_id.then(|| text.to_owned())
}
