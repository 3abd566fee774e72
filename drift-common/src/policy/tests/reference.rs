//! Versions that cross from one namespace to another.

use super::*;

fn parsed(text: &str) -> (Vec<Document>, Problems) {
    let mut problems = Problems::default();
    (parse(&source(text), &mut problems), problems)
}

#[test]
fn both_ends_of_a_reference_are_read() {
    let text = "
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersionRef
metadata: {name: base}
spec: {policy: web, from: {namespace: platform, policy: base}, versions: [1.2.0]}
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersionRef
metadata: {name: to-shop}
spec: {policy: base, to: {namespaces: [shop, team-b]}}
";
    let (documents, problems) = parsed(text);
    assert!(problems.is_empty(), "{}", problems.one_line());
    let [Document::Reference(from), Document::Reference(to)] = &documents[..] else {
        panic!("{documents:?}");
    };
    let End::From { namespace, policy } = &from.end else {
        panic!("{from:?}");
    };
    assert_eq!(namespace.value, "platform");
    assert_eq!(
        policy.as_ref().map(|policy| policy.value.as_str()),
        Some("base")
    );
    let version = |text: &str| text.parse().expect("a version");
    assert!(from.names(&version("1.2.0")) && !from.names(&version("1.2.1")));
    let End::To { namespaces } = &to.end else {
        panic!("{to:?}");
    };
    assert_eq!(namespaces.len(), 2);
    assert!(to.names(&version("7.0.0")));
    // What is shown of them is a policy file again.
    let (again, problems) = parsed(&render(&documents).to_string());
    assert!(problems.is_empty(), "{}", problems.one_line());
    assert_eq!(again.len(), documents.len());
    assert_eq!(render(&again).to_string(), render(&documents).to_string());
}

#[test]
fn in_a_folder_a_reference_brings_no_version_and_that_is_said_where_one_is_missing() {
    let reference = "
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersionRef
metadata: {name: web}
spec: {policy: web, from: {namespace: platform}}
";
    let policy = "
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web}
spec: {activeVersion: 1.0.0}
";
    let version = "
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1}
spec: {policy: web, version: 1.0.0}
";
    let lineages = |text: &str| {
        let (documents, mut problems) = parsed(text);
        let lineages = validate(documents, &Holds::new(), &mut problems);
        (lineages, problems)
    };
    let (whole, problems) = lineages(&format!("{policy}{version}{reference}"));
    assert!(problems.is_empty(), "{}", problems.one_line());
    assert_eq!(whole.map(|whole| whole.len()), Some(1));
    let (_, problems) = lineages(&format!("{policy}{reference}"));
    let said = problems.to_string();
    assert!(
        said.contains("`web` has no version 1.0.0") && said.contains("a PolicyVersionRef takes versions from a namespace of a cluster, and files have none"),
        "{said}"
    );
}
