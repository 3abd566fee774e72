//! Input text -> output text, and what holds for any text.

mod attributes;
mod bounds;
mod closure;
mod conflicts;
mod contents;
mod display;
mod expected;
mod identity;
mod malformed;
mod properties;
mod reference;
mod rollout;
mod sound;
mod syntax;
mod targets;
mod through;
mod values;

use std::{path::Path, sync::Arc};

use super::*;

/// A file named `p.yaml`.
#[track_caller]
fn source(text: &str) -> Arc<Source> {
    Source::new(Path::new("p.yaml").into(), text.into()).expect("small and UTF-8")
}

fn read(text: &str) -> (Option<Vec<Lineage>>, Problems) {
    let mut problems = Problems::default();
    let documents = parse(&source(text), &mut problems);
    (validate(documents, &Holds::new(), &mut problems), problems)
}

/// `text` must have exactly these problems.
#[track_caller]
fn check(text: &str, expected: &str) {
    let (lineages, problems) = read(text);
    assert_eq!(
        problems.to_string(),
        expected,
        "\n--- the policy\n{text}\n--- its problems\n{problems}\n---"
    );
    assert!(lineages.is_none());
}

/// A Policy, its spec going on with `rest` at line 6.
fn policy(rest: &str) -> String {
    format!(
        "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: web}}\nspec:\n  activeVersion: 1.2.0\n{rest}"
    )
}

/// A PolicyVersion with the items `files`, the first at line 8.
fn version(files: &str) -> String {
    format!(
        "apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: web-1.2.0}}\nspec:\n  policy: web\n  version: 1.2.0\n  files:\n{files}"
    )
}
