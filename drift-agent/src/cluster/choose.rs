//! Which of a cluster's policies are for a node, and how they are called there. No I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use drift_common::policy::{self, API_VERSION, Document, Holds, Node, Problems, Source, assign};
use serde_json::{Map, Value, json};

use super::{
    mark::Mark,
    seen::{Key, Kind, Object},
};

/// What one namespace says to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// Policies that are for the node (or that cannot be read, which is said when they are), and all versions of these.
    pub(super) documents: Vec<Value>,
    /// The Policies by their names on the node, with their UIDs.
    pub(super) policies: Vec<(String, (Key, String))>,
    /// How far each Policy is, by its UID.
    pub(super) marks: BTreeMap<String, Mark>,
    /// UIDs of policies that may be older than before.
    pub(super) accepted: BTreeSet<String>,
    /// Why none of it can be taken, where that is known before it is read.
    pub(super) refused: Option<String>,
}

/// What each namespace says to `node`. A namespace that says nothing is left out.
///
/// A policy `web` of the namespace `shop` is called `shop.web` on the node: a namespace has no dots.
pub(super) fn choose(
    policies: &Kind<Object>,
    versions: &Kind<Object>,
    node: &Node,
) -> BTreeMap<String, Share> {
    let mut shares: BTreeMap<String, Share> = BTreeMap::new();
    let mut chosen = BTreeSet::new();
    for (key, stamp, object) in policies.iter() {
        let Some(document) = assigned(key, object, node) else {
            continue;
        };
        chosen.insert(key);
        let share = shares.entry(key.namespace.clone()).or_default();
        share.documents.push(document);
        let name = local(&key.namespace, &key.name);
        share
            .policies
            .push((name, (key.clone(), stamp.uid.clone())));
        let mark = Mark::new(key, stamp, object.generation);
        share.marks.insert(stamp.uid.clone(), mark);
        if object.accepts_older {
            share.accepted.insert(stamp.uid.clone());
        }
    }
    for (key, _, object) in versions.iter() {
        let of = Key {
            namespace: key.namespace.clone(),
            name: text(&object.spec, "policy").unwrap_or_default().to_owned(),
        };
        if chosen.contains(&of)
            && let Some(share) = shares.get_mut(&key.namespace)
        {
            share.documents.push(version(key, object));
        }
    }
    shares
}

/// The Policy as it is for `node`; `None`: it is not for it.
fn assigned(key: &Key, object: &Object, node: &Node) -> Option<Value> {
    let mut document = document("Policy", key, object);
    let policy = parsed(&document.to_string());
    let spec = document["spec"].as_object_mut();
    if let (Some(policy), Some(spec)) = (policy, spec) {
        let version = assign(&policy, node)?;
        spec.insert("activeVersion".to_owned(), json!(version.value.to_string()));
        spec.remove("rollout");
        spec.remove("nodeSelector");
    }
    Some(document)
}

/// `None`: it is not right, which is said by who reads what is written here.
fn parsed(text: &str) -> Option<policy::Policy> {
    let mut problems = Problems::default();
    let source = Source::new(Path::new("policy").into(), text.as_bytes().to_vec()).ok()?;
    let documents = policy::parse(&source, &mut problems);
    match documents.into_iter().next() {
        Some(Document::Policy(policy)) if problems.is_empty() => Some(policy),
        _ => None,
    }
}

/// With the name that it has on the node.
fn document(kind: &str, key: &Key, object: &Object) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": local(&key.namespace, &key.name)},
        "spec": object.spec,
    })
}

fn version(key: &Key, object: &Object) -> Value {
    let mut document = document("PolicyVersion", key, object);
    let rename = |fields: &mut Map<String, Value>| {
        if let Some(Value::String(name)) = fields.get_mut("policy") {
            *name = local(&key.namespace, name);
        }
    };
    if let Some(spec) = document["spec"].as_object_mut() {
        rename(spec);
        let needed = spec.get_mut("dependencies").and_then(Value::as_array_mut);
        for needed in needed.into_iter().flatten() {
            if let Some(fields) = needed.as_object_mut() {
                rename(fields);
            }
        }
    }
    document
}

fn local(namespace: &str, name: &str) -> String {
    format!("{namespace}.{name}")
}

fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field)?.as_str()
}

/// Why the documents of a namespace cannot be taken, if so: the first problem, and how many more.
pub(super) fn refused(namespace: &str, text: &str) -> Option<String> {
    let mut problems = Problems::default();
    match Source::new(Path::new(namespace).into(), text.as_bytes().to_vec()) {
        Ok(source) => {
            let documents = policy::parse(&source, &mut problems);
            policy::validate(documents, &Holds::new(), &mut problems);
        }
        Err(problem) => problems.push(problem),
    }
    (!problems.is_empty()).then(|| problems.one_line().to_string())
}

#[cfg(test)]
mod tests {
    use super::{
        super::seen::{News, Stamp},
        *,
    };

    fn kind(objects: &[(&str, &str, Value)]) -> Kind<Object> {
        let mut kind = Kind::default();
        for (namespace, name, spec) in objects {
            let key = Key {
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
            };
            let stamp = Stamp {
                uid: format!("{namespace}/{name}"),
                revision: Some(1),
            };
            let object = Object {
                generation: 3,
                accepts_older: false,
                spec: spec.clone(),
            };
            kind.take(News::Changed(key, stamp, object));
        }
        kind
    }

    fn node(role: &str) -> Node {
        Node {
            uid: "uid".to_owned(),
            labels: [("role".to_owned(), role.to_owned())].into(),
        }
    }

    fn version_of(policy: &str, number: &str) -> Value {
        json!({"policy": policy, "version": number, "absent": [{"path": format!("/etc/{policy}")}],
            "dependencies": if policy == "app" { json!([{"policy": "base", "version": "1"}]) } else { json!([]) }})
    }

    #[test]
    fn a_node_has_what_selects_it_with_all_its_versions_under_names_of_the_namespace() {
        let policies = kind(&[
            (
                "shop",
                "app",
                json!({"activeVersion": "1.0.0", "rollout": {"canary": {"version": "2.0.0", "weight": 100}}}),
            ),
            (
                "shop",
                "base",
                json!({"activeVersion": "1.0.0", "nodeSelector": {"role": "web"}}),
            ),
            (
                "shop",
                "db",
                json!({"activeVersion": "1.0.0", "nodeSelector": {"role": "db"}}),
            ),
            (
                "other",
                "db",
                json!({"activeVersion": "1.0.0", "nodeSelector": {"role": "db"}}),
            ),
        ]);
        let versions = kind(&[
            ("shop", "app-1", version_of("app", "1.0.0")),
            ("shop", "app-2", version_of("app", "2.0.0")),
            ("shop", "base-1", version_of("base", "1.0.0")),
            ("shop", "db-1", version_of("db", "1.0.0")),
            ("other", "app-1", version_of("app", "1.0.0")),
            ("other", "db-1", version_of("db", "1.0.0")),
        ]);
        let shares = choose(&policies, &versions, &node("web"));
        assert_eq!(shares.keys().collect::<Vec<_>>(), ["shop"]);
        let share = &shares["shop"];
        let names: Vec<&str> = share
            .documents
            .iter()
            .filter_map(|document| document["metadata"]["name"].as_str())
            .collect();
        assert_eq!(
            names,
            [
                "shop.app",
                "shop.base",
                "shop.app-1",
                "shop.app-2",
                "shop.base-1"
            ]
        );
        assert_eq!(
            share.documents[0]["spec"],
            json!({"activeVersion": "2.0.0"})
        );
        assert_eq!(
            share.documents[1]["spec"],
            json!({"activeVersion": "1.0.0"})
        );
        assert_eq!(share.documents[3]["spec"]["policy"], "shop.app");
        assert_eq!(
            share.documents[3]["spec"]["dependencies"][0]["policy"],
            "shop.base"
        );
        assert_eq!(share.marks["shop/app"].generation, 3);
        let text: Vec<String> = share.documents.iter().map(Value::to_string).collect();
        assert_eq!(refused("shop", &text.join("\n---\n")), None);
        assert_eq!(
            choose(&policies, &versions, &node("db"))
                .keys()
                .collect::<Vec<_>>(),
            ["other", "shop"]
        );
    }

    #[test]
    fn what_cannot_be_read_is_for_every_node_and_is_refused() {
        let policies = kind(&[("shop", "app", json!({"activeVersion": "1"}))]);
        let shares = choose(&policies, &Kind::default(), &node("web"));
        let text = shares["shop"].documents[0].to_string();
        let said = refused("shop", &text).unwrap_or_default();
        assert!(said.contains("`1` is not a semantic version"), "{said}");
    }
}
