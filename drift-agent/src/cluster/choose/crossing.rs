//! Versions of another namespace. The one that takes them says so in a PolicyVersionRef with `from`, the one that gives them in one with `to`: without both
//! nothing crosses, and whoever takes learns nothing of what is there.

use std::collections::{BTreeMap, BTreeSet};

use drift_common::{
    escape,
    policy::{Document, End, PolicyVersionRef},
};

use super::{Key, Kind, Object, Share, document, local, parsed, policy_of, text, version};

/// Adds them to what their namespaces say. A namespace that takes what it is not given is refused as a whole, like one whose ConfigMap is missing.
pub(super) fn add(
    shares: &mut BTreeMap<String, Share>,
    chosen: &BTreeSet<&Key>,
    versions: &Kind<Object>,
    references: &Kind<Object>,
) {
    let mut ends: Vec<(&Key, PolicyVersionRef)> = Vec::new();
    for (key, _, object) in references.iter() {
        let document = document(
            "PolicyVersionRef",
            &local(&key.namespace, &key.name),
            object,
        );
        if let Some(Document::Reference(reference)) = parsed(&document.to_string()) {
            ends.push((key, reference));
        } else if chosen.contains(&policy_of(key, object))
            && let Some(share) = shares.get_mut(&key.namespace)
        {
            // Who reads it says what is wrong with it.
            share.documents.push(document);
        }
    }
    let mut taken = BTreeSet::new();
    for (key, reference) in &ends {
        let End::From { namespace, policy } = &reference.end else {
            continue;
        };
        let own = Key {
            namespace: key.namespace.clone(),
            name: reference.policy.value.clone(),
        };
        let theirs = Key {
            namespace: namespace.value.clone(),
            name: policy.as_ref().unwrap_or(&reference.policy).value.clone(),
        };
        let Some(share) = shares
            .get_mut(&key.namespace)
            .filter(|_| chosen.contains(&own))
        else {
            continue;
        };
        let given: Vec<&PolicyVersionRef> = ends
            .iter()
            .filter(|(at, end)| at.namespace == theirs.namespace && gives(end, &theirs, &own))
            .map(|(_, end)| end)
            .collect();
        if let Some(why) = refused(key, reference, &theirs, &given) {
            share.refused.get_or_insert(why);
            continue;
        }
        for (at, _, object) in versions.iter() {
            let number = text(&object.spec, "version").and_then(|number| number.parse().ok());
            let Some(number) = number.filter(|_| policy_of(at, object) == theirs) else {
                continue;
            };
            let is_given = given.iter().any(|end| end.names(&number));
            if reference.names(&number) && is_given && taken.insert((own.clone(), at.clone())) {
                // The names of this namespace's own versions begin with another word.
                let name = format!("{}.{}.{}", at.namespace, key.name, at.name);
                share.documents.push(version(&name, object, &own));
                share.homes.insert(name, at.namespace.clone());
            }
        }
    }
}

/// Whether `end`, which stands in the namespace of `theirs`, gives versions of it to the namespace of `own`.
fn gives(end: &PolicyVersionRef, theirs: &Key, own: &Key) -> bool {
    match &end.end {
        End::To { namespaces } => {
            end.policy.value == theirs.name && namespaces.iter().any(|to| to.value == own.namespace)
        }
        End::From { .. } => false,
    }
}

/// Why nothing may be taken by the reference at `key`, if so, and what to do about it.
fn refused(
    key: &Key,
    reference: &PolicyVersionRef,
    theirs: &Key,
    given: &[&PolicyVersionRef],
) -> Option<String> {
    let shown = escape::name(&key.name);
    if theirs.namespace == key.namespace {
        return Some(format!(
            "the PolicyVersionRef {shown} takes versions from its own namespace: write PolicyVersions with `policy: {}`",
            reference.policy.value
        ));
    }
    let mut named = reference.versions.iter().map(|version| &version.value);
    let missing = match given {
        [] => Some(String::new()),
        given => named
            .find(|number| !given.iter().any(|end| end.names(number)))
            .map(|number| format!(", version {number}")),
    };
    missing.map(|missing| {
        let Key { namespace, name } = theirs;
        format!(
            "the PolicyVersionRef {shown} takes {name}{missing} from the namespace {namespace}, which does not give it to {own}: make a PolicyVersionRef in {namespace} with `policy: {name}` and `to: {{namespaces: [{own}]}}`, or remove this one",
            own = key.namespace
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::{
            choose, refused as unfit,
            tests::{kind, node},
        },
        *,
    };

    fn policies() -> Kind<Object> {
        kind(&[("shop", "web", json!({"activeVersion": "1.2.0"}))])
    }

    fn versions() -> Kind<Object> {
        let of = |number: &str| json!({"policy": "base", "version": number, "absent": [{"path": "/etc/x"}], "dependencies": []});
        kind(&[
            ("platform", "base-1.2.0", of("1.2.0")),
            ("platform", "base-1.3.0", of("1.3.0")),
            (
                "platform",
                "other-1",
                json!({"policy": "other", "version": "1.0.0"}),
            ),
            ("third", "base-1.2.0", of("9.0.0")),
        ])
    }

    fn taken(references: &[(&str, &str, Value)]) -> Share {
        let mut shares = choose(&policies(), &versions(), &kind(references), &node("web"));
        assert_eq!(shares.len(), 1, "nobody else says anything");
        shares.remove("shop").expect("a share")
    }

    fn numbers(share: &Share) -> Vec<&str> {
        let versions = share
            .documents
            .iter()
            .filter(|document| document["kind"] == "PolicyVersion");
        versions
            .filter_map(|document| document["spec"]["version"].as_str())
            .collect()
    }

    const FROM: (&str, &str) = ("shop", "base");
    const TO: (&str, &str) = ("platform", "to-shop");

    fn from(more: Value) -> (&'static str, &'static str, Value) {
        let mut spec =
            json!({"policy": "web", "from": {"namespace": "platform", "policy": "base"}});
        if !more.is_null() {
            spec["versions"] = more;
        }
        (FROM.0, FROM.1, spec)
    }

    fn to(namespace: &str, more: Value) -> (&'static str, &'static str, Value) {
        let mut spec = json!({"policy": "base", "to": {"namespaces": ["else", namespace]}});
        if !more.is_null() {
            spec["versions"] = more;
        }
        (TO.0, TO.1, spec)
    }

    #[test]
    fn what_both_namespaces_say_crosses() {
        let share = taken(&[from(Value::Null), to("shop", Value::Null)]);
        assert_eq!(share.refused, None);
        assert_eq!(numbers(&share), ["1.2.0", "1.3.0"]);
        let document = &share.documents[1];
        assert_eq!(document["metadata"]["name"], "platform.base.base-1.2.0");
        assert_eq!(document["spec"]["policy"], "shop.web");
        assert_eq!(share.home("shop", document), "platform");
        assert_eq!(share.home("shop", &share.documents[0]), "shop");
        let text: Vec<String> = share.documents.iter().map(Value::to_string).collect();
        assert_eq!(unfit("shop", &text.join("\n---\n")), None);
        // Each end may name versions.
        let share = taken(&[from(json!(["1.2.0"])), to("shop", Value::Null)]);
        assert_eq!(numbers(&share), ["1.2.0"]);
        let share = taken(&[from(Value::Null), to("shop", json!(["1.2.0", "7.0.0"]))]);
        assert_eq!(numbers(&share), ["1.2.0"]);
        // Two that take the same are as one.
        let again = ("shop", "again", from(Value::Null).2);
        let share = taken(&[from(Value::Null), again, to("shop", Value::Null)]);
        assert_eq!(numbers(&share), ["1.2.0", "1.3.0"]);
    }

    #[test]
    fn what_one_of_them_says_does_not_and_the_remedy_is_said() {
        #[track_caller]
        fn check(references: &[(&str, &str, Value)], expected: &str) {
            let share = taken(references);
            let why = share.refused.as_deref().unwrap_or_default();
            assert!(why.contains(expected), "{why}");
            assert!(numbers(&share).is_empty());
        }
        let remedy = "make a PolicyVersionRef in platform with `policy: base` and `to: {namespaces: [shop]}`";
        check(&[from(Value::Null)], remedy);
        check(&[from(Value::Null), to("team", Value::Null)], remedy);
        check(
            &[from(json!(["1.2.0"])), to("shop", json!(["1.3.0"]))],
            "takes base, version 1.2.0 from the namespace platform",
        );
        // A grant in another namespace than that of the versions is none, nor is one for another policy.
        let elsewhere = ("third", "to-shop", to("shop", Value::Null).2);
        check(&[from(Value::Null), elsewhere], remedy);
        let other = (
            "platform",
            "to-shop",
            json!({"policy": "other", "to": {"namespaces": ["shop"]}}),
        );
        check(&[from(Value::Null), other], remedy);
        let own = (
            "shop",
            "base",
            json!({"policy": "web", "from": {"namespace": "shop"}}),
        );
        check(&[own], "takes versions from its own namespace");
        // Whoever gives gets nothing by it, and nobody is given what he does not take.
        let share = taken(&[to("shop", Value::Null)]);
        assert!(share.refused.is_none() && numbers(&share).is_empty());
    }

    #[test]
    fn one_that_cannot_be_read_is_refused_by_who_reads_it() {
        let wrong = ("shop", "base", json!({"policy": "web"}));
        let share = taken(&[wrong]);
        let text: Vec<String> = share.documents.iter().map(Value::to_string).collect();
        let said = unfit("shop", &text.join("\n---\n")).unwrap_or_default();
        assert!(said.contains("from"), "{said}");
    }
}
