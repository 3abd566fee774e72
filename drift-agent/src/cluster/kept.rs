//! Contents that the cluster keeps in ConfigMaps and Secrets: put into the versions that name them, before these are written down.
//!
//! A version never changes, and so what it names must not: only immutable objects will do, and each is asked for once.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_common::policy::{Keeper, Kept};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use super::{
    choose::Share,
    publish::{Unwritten, answer},
};

/// Contents of one namespace.
const MOST: usize = 256;

/// By namespace, as base64.
type Known = BTreeMap<(String, Kept), String>;

/// What was read of them.
pub(super) struct Contents {
    client: Client,
    known: Known,
}

impl Contents {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            known: Known::new(),
        }
    }

    /// Puts them in. A share of which one is not there is refused; whether there is such a share.
    pub(super) async fn fill(&mut self, shares: &mut BTreeMap<String, Share>) -> bool {
        let mut lacks = false;
        let mut all = BTreeSet::new();
        for (namespace, share) in shares {
            let wanted = wanted(&share.documents, |document| share.home(namespace, document));
            if share.refused.is_some() {
                // It is not taken, whatever is there.
            } else if let Err(why) = self.read(namespace, &wanted).await {
                share.refused = Some(why);
                lacks = true;
            } else {
                let mut documents = std::mem::take(&mut share.documents);
                put(&mut documents, |document, kept| {
                    let home = share.home(namespace, document).to_owned();
                    self.known.get(&(home, kept.clone())).cloned()
                });
                share.documents = documents;
            }
            all.extend(wanted);
        }
        self.known.retain(|key, _| all.contains(key));
        lacks
    }

    async fn read(
        &mut self,
        namespace: &str,
        wanted: &BTreeSet<(String, Kept)>,
    ) -> Result<(), String> {
        if wanted.len() > MOST {
            return Err(format!(
                "its versions name more than {MOST} keys of ConfigMaps and Secrets"
            ));
        }
        // They are sorted: the keys of one object stand beside each other.
        let mut object: Option<((&str, Keeper, &str), Data)> = None;
        for place in wanted {
            if self.known.contains_key(place) {
                continue;
            }
            let (home, kept) = place;
            let which = (home.as_str(), kept.by, &*kept.name);
            let mut what = format!("{} {}", kept.by.kind(), kept.name);
            if home != namespace {
                what = format!("{what} in the namespace {home}");
            }
            if object.as_ref().is_none_or(|(of, _)| *of != which) {
                object = Some((which, self.get(home, kept, &what).await?));
            }
            let data = object.as_mut().map(|(_, data)| data);
            let bytes = data.and_then(|data| data.remove(&*kept.key));
            let bytes = bytes.ok_or_else(|| format!("the {what} has no key {}", kept.key))?;
            self.known.insert(place.clone(), STANDARD.encode(bytes));
        }
        Ok(())
    }

    async fn get(&self, namespace: &str, kept: &Kept, what: &str) -> Result<Data, String> {
        let client = self.client.clone();
        let found = match kept.by {
            Keeper::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(client, namespace);
                answer(api.get_opt(&kept.name))
                    .await
                    .map(|found| found.map(of_config_map))
            }
            Keeper::Secret => {
                let api: Api<Secret> = Api::namespaced(client, namespace);
                answer(api.get_opt(&kept.name))
                    .await
                    .map(|found| found.map(of_secret))
            }
        };
        match found {
            Ok(Some((Some(true), data))) => Ok(data),
            Ok(Some(_)) => Err(format!(
                "the {what} can change, and a version never does: give it `immutable: true`"
            )),
            Ok(None) | Err(Unwritten::Undefined) => Err(format!("there is no {what}")),
            Err(error) => Err(format!("the {what} cannot be read: {error}")),
        }
    }
}

type Data = BTreeMap<String, Vec<u8>>;

fn of_config_map(object: ConfigMap) -> (Option<bool>, Data) {
    let texts = object.data.unwrap_or_default().into_iter();
    let bytes = object.binary_data.unwrap_or_default().into_iter();
    let data = texts
        .map(|(key, text)| (key, text.into_bytes()))
        .chain(bytes.map(|(key, ByteString(bytes))| (key, bytes)));
    (object.immutable, data.collect())
}

fn of_secret(object: Secret) -> (Option<bool>, Data) {
    let bytes = object.data.unwrap_or_default().into_iter();
    let data = bytes.map(|(key, ByteString(bytes))| (key, bytes));
    (object.immutable, data.collect())
}

/// What the documents name, and in which namespace, as `home` says. What is not well written is left to who reads them.
fn wanted<'h>(documents: &[Value], home: impl Fn(&Value) -> &'h str) -> BTreeSet<(String, Kept)> {
    let of = |document| {
        let home = home(document);
        let files = document["spec"]["files"].as_array().into_iter().flatten();
        let named = files.filter_map(|file| named(file["content"].as_object()?));
        named.map(move |kept| (home.to_owned(), kept))
    };
    documents.iter().flat_map(of).collect()
}

fn named(content: &Map<String, Value>) -> Option<Kept> {
    let (field, fields) = content.iter().next().filter(|_| content.len() == 1)?;
    let by = Keeper::ALL.into_iter().find(|by| by.field() == field)?;
    let text = |name: &str| fields[name].as_str().map(Into::into);
    Some(Kept {
        by,
        name: text("name")?,
        key: text("key")?,
    })
}

/// Puts in what `known` gives. Of a Secret's content nothing is shown, unless the file says otherwise.
fn put(documents: &mut [Value], known: impl Fn(&Value, &Kept) -> Option<String>) {
    for document in documents {
        let files = document
            .pointer_mut("/spec/files")
            .and_then(Value::as_array_mut);
        let Some(mut files) = files.map(std::mem::take) else {
            continue;
        };
        for file in &mut files {
            let Some(kept) = file["content"].as_object().and_then(named) else {
                continue;
            };
            let Some(base64) = known(document, &kept) else {
                continue;
            };
            file["content"] = json!({"base64": base64});
            if kept.by == Keeper::Secret && file.get("redact").is_none() {
                file["redact"] = json!("all");
            }
        }
        document["spec"]["files"] = Value::Array(files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_put_in_and_a_secret_is_not_shown() {
        let mut documents = vec![
            json!({"kind": "Policy", "spec": {"activeVersion": "1.0.0"}}),
            json!({"kind": "PolicyVersion", "spec": {"files": [
                {"path": "/a", "content": {"configMap": {"name": "app", "key": "a.conf"}}},
                {"path": "/b", "content": {"secret": {"name": "app", "key": "b"}}},
                {"path": "/c", "content": {"secret": {"name": "app", "key": "b"}}, "redact": "keys"},
                {"path": "/d", "content": {"inline": "d"}},
                {"path": "/e", "content": {"configMap": {"name": "app"}}},
                {"path": "/f", "content": {"configMap": {"name": "app", "key": "gone"}}},
                {"path": "/g"},
            ]}}),
            json!({"kind": "PolicyVersion"}),
        ];
        let wanted = wanted(&documents, |_| "here");
        let keys: Vec<&str> = wanted.iter().map(|(_, kept)| &*kept.key).collect();
        assert_eq!(keys, ["a.conf", "gone", "b"]);
        put(&mut documents, |_, kept| {
            (&*kept.key != "gone").then(|| STANDARD.encode(&*kept.key))
        });
        let files = &documents[1]["spec"]["files"];
        assert_eq!(files[0]["content"], json!({"base64": "YS5jb25m"}));
        assert_eq!(files[0].get("redact"), None);
        assert_eq!(files[1]["content"], json!({"base64": "Yg=="}));
        assert_eq!(files[1]["redact"], "all");
        assert_eq!(files[2]["redact"], "keys");
        assert_eq!(files[3]["content"], json!({"inline": "d"}));
        assert_eq!(files[5]["content"]["configMap"]["key"], "gone");
    }
}
