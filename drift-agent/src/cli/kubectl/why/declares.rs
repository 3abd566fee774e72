//! Which of the versions that are in force on a node declares a path.

use std::{collections::BTreeSet, os::unix::ffi::OsStrExt as _, path::Path};

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

/// A version that is in force on a node: where it may be, and what it is called there.
struct Sought {
    namespace: String,
    policy: String,
    version: String,
    /// What the node has it for.
    own: (String, String),
}

/// Looks through the versions that are in force on the node, namespace by namespace.
pub(super) async fn ask(
    server: &Server,
    status: &Status,
    path: &str,
) -> Result<Option<Declares>, Unanswered> {
    let mut sought: Vec<Sought> = Vec::new();
    // What comes from files of the node is not in the cluster.
    for policy in status
        .policies
        .iter()
        .filter(|policy| !policy.namespace.is_empty())
    {
        sought.push(Sought {
            namespace: policy.namespace.clone(),
            policy: policy.name.clone(),
            version: policy.active_version.clone().unwrap_or_default(),
            own: (policy.namespace.clone(), policy.name.clone()),
        });
    }
    if let Some(found) = look(server, &sought, path).await? {
        return Ok(Some(found));
    }
    look(server, &taken(server, &sought).await?, path).await
}

fn namespaces(sought: &[Sought]) -> BTreeSet<&str> {
    sought
        .iter()
        .map(|sought| sought.namespace.as_str())
        .collect()
}

/// Where else they may be: in namespaces from which versions are taken.
async fn taken(server: &Server, sought: &[Sought]) -> Result<Vec<Sought>, Unanswered> {
    let mut elsewhere = Vec::new();
    for namespace in namespaces(sought) {
        let api: Api<DynamicObject> =
            Api::namespaced_with(server.client.clone(), namespace, &own("PolicyVersionRef"));
        let params = ListParams::default().limit(PAGE);
        let ends = Server::all(
            &api,
            "policyversionrefs.configdrift.io",
            params,
            |object: DynamicObject| {
                let spec = &object.data["spec"];
                let text = |value: &Value| value.as_str().map(str::to_owned);
                let (policy, from) = (text(&spec["policy"])?, text(&spec["from"]["namespace"])?);
                let theirs = text(&spec["from"]["policy"]).unwrap_or_else(|| policy.clone());
                Some((policy, from, theirs))
            },
        );
        let ends = match ends.await {
            // A cluster that was told of an older drift has none.
            Err(Unanswered::Undefined(_)) => return Ok(elsewhere),
            ends => ends?,
        };
        for (policy, from, theirs) in ends.into_iter().flatten() {
            let of = sought
                .iter()
                .filter(|sought| sought.namespace == namespace && sought.policy == policy);
            elsewhere.extend(of.map(|sought| Sought {
                namespace: from.clone(),
                policy: theirs.clone(),
                version: sought.version.clone(),
                own: sought.own.clone(),
            }));
        }
    }
    Ok(elsewhere)
}

async fn look(
    server: &Server,
    sought: &[Sought],
    path: &str,
) -> Result<Option<Declares>, Unanswered> {
    for namespace in namespaces(sought) {
        let api: Api<DynamicObject> =
            Api::namespaced_with(server.client.clone(), namespace, &own("PolicyVersion"));
        let params = ListParams::default().limit(PAGE);
        let found = Server::all(
            &api,
            "policyversions.configdrift.io",
            params,
            |object: DynamicObject| {
                let mut here = sought.iter().filter(|sought| sought.namespace == namespace);
                here.find_map(|sought| {
                    let list = declares(&object, &sought.policy, &sought.version, path)?;
                    let (namespace, policy) = sought.own.clone();
                    Some(Declares {
                        namespace,
                        policy,
                        version: sought.version.clone(),
                        list,
                    })
                })
            },
        );
        if let Some(found) = found.await?.into_iter().flatten().next() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The list in which the path is; `None`: this is another version, or does not declare it.
fn declares(
    object: &DynamicObject,
    policy: &str,
    version: &str,
    path: &str,
) -> Option<&'static str> {
    let spec = &object.data["spec"];
    if spec["policy"] != policy || spec["version"] != version {
        return None;
    }
    LISTS.into_iter().find(|list| {
        let entries = spec[*list].as_array().into_iter().flatten();
        entries.filter_map(shown).any(|shown| shown == path)
    })
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
        let list = |version: &str, path: &str| declares(&object, "app", version, path);
        assert_eq!(list("1.0.0", "/etc/a"), Some("files"));
        assert_eq!(list("1.0.0", "/etc/app/\\xff"), Some("files"));
        assert_eq!(list("1.0.0", "/etc/b"), Some("absent"));
        assert_eq!(list("1.0.0", "/etc"), None);
        assert_eq!(list("2.0.0", "/etc/a"), None);
    }
}
