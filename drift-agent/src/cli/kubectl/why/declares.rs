//! Which of the versions that are in force on a node declares a path.

use std::{collections::BTreeMap, os::unix::ffi::OsStrExt as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_common::escape;
use kube::{
    Api,
    api::{DynamicObject, ListParams},
};
use serde_json::Value;

use super::super::{
    ask::{Server, Unanswered},
    report::Status,
};
use crate::cluster::own;

/// Versions may be large: so many at a time.
const PAGE: u32 = 10;
/// Lists of a version in which paths are.
const LISTS: [&str; 5] = ["files", "symlinks", "masks", "absent", "directories"];

/// Where a path is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declares {
    pub(super) namespace: String,
    pub(super) policy: String,
    pub(super) version: String,
    pub(super) list: &'static str,
}

/// Looks through the versions that are in force on the node, namespace by namespace.
pub(super) async fn ask(
    server: &Server,
    status: &Status,
    path: &str,
) -> Result<Option<Declares>, Unanswered> {
    let mut namespaces: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for policy in &status.policies {
        let version = policy.active_version.as_deref().unwrap_or_default();
        namespaces
            .entry(&policy.namespace)
            .or_default()
            .push((&policy.name, version));
    }
    // What comes from files of the node is not in the cluster.
    namespaces.remove("");
    for (namespace, in_force) in namespaces {
        let api = Api::namespaced_with(server.client.clone(), namespace, &own("PolicyVersion"));
        let params = ListParams::default().limit(PAGE);
        let found = Server::all(&api, "policyversions.configdrift.io", params, |object| {
            declares(&object, &in_force, path)
        });
        if let Some((policy, version, list)) = found.await?.into_iter().flatten().next() {
            return Ok(Some(Declares {
                namespace: namespace.to_owned(),
                policy,
                version,
                list,
            }));
        }
    }
    Ok(None)
}

/// The policy, the version, and the list in which the path is; `None`: this version does not declare it, or is not in force.
fn declares(
    object: &DynamicObject,
    in_force: &[(&str, &str)],
    path: &str,
) -> Option<(String, String, &'static str)> {
    let spec = &object.data["spec"];
    let (policy, version) = (spec["policy"].as_str()?, spec["version"].as_str()?);
    if !in_force.contains(&(policy, version)) {
        return None;
    }
    let list = LISTS.into_iter().find(|list| {
        let entries = spec[*list].as_array().into_iter().flatten();
        entries.filter_map(shown).any(|shown| shown == path)
    })?;
    Some((policy.to_owned(), version.to_owned(), list))
}

/// A declared path as an agent shows it.
fn shown(entry: &Value) -> Option<String> {
    let bytes = match entry["path"].as_str() {
        Some(path) => path.as_bytes().to_vec(),
        None => STANDARD.decode(entry["pathBytes"].as_str()?).ok()?,
    };
    let path = Path::new(std::ffi::OsStr::from_bytes(&bytes));
    Some(escape::path(path).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_version_in_force_declares_what_stands_in_its_lists() {
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "app-1"},
            "spec": {"policy": "app", "version": "1.0.0",
                "files": [{"path": "/etc/a"}, {"pathBytes": "L2V0Yy9hcHAv/w=="}],
                "absent": [{"path": "/etc/b"}], "masks": "wrong"},
        }))
        .expect("an object");
        let list = |version: &str, path: &str| {
            declares(&object, &[("app", version)], path).map(|(.., list)| list)
        };
        assert_eq!(list("1.0.0", "/etc/a"), Some("files"));
        assert_eq!(list("1.0.0", "/etc/app/\\xff"), Some("files"));
        assert_eq!(list("1.0.0", "/etc/b"), Some("absent"));
        assert_eq!(list("1.0.0", "/etc"), None);
        assert_eq!(list("2.0.0", "/etc/a"), None);
    }
}
