//! Versions that cross from one namespace to another.

use super::{
    Shape, Value, may, must,
    pattern::{NAME, VERSION},
};

/// Versions that one end names.
pub(crate) const MOST_NAMED: u32 = 64;
/// Namespaces that one end lets take them.
pub(crate) const MOST_NAMESPACES: u32 = 64;

const NAMESPACE: Value = Value::Text("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", 63);

pub(crate) static REFERENCE: Shape = Shape {
    what: "a mapping with policy, and from or to",
    fields: &[
        must(
            "policy",
            NAME,
            "The policy, as it is called in this namespace.",
        ),
        may(
            "versions",
            Value::List(&VERSION, 1, MOST_NAMED),
            "These of its versions; all where it is not said.",
        ),
        may(
            "from",
            Value::Map(&REFERENCE_FROM),
            "This namespace takes them from another, if that one lets it.",
        ),
        may(
            "to",
            Value::Map(&REFERENCE_TO),
            "This namespace lets others take them.",
        ),
    ],
    one_of: &[&["from", "to"]],
    rules: &[],
};

pub(crate) static REFERENCE_FROM: Shape = Shape {
    what: "a mapping with a namespace",
    fields: &[
        must("namespace", NAMESPACE, "Where the PolicyVersions are."),
        may(
            "policy",
            NAME,
            "As the policy is called there; the same where it is not said.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

pub(crate) static REFERENCE_TO: Shape = Shape {
    what: "a mapping with namespaces",
    fields: &[must(
        "namespaces",
        Value::List(&NAMESPACE, 1, MOST_NAMESPACES),
        "Those that may take them.",
    )],
    one_of: &[],
    rules: &[],
};
