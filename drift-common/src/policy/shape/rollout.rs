//! Which nodes have which version.

use super::{
    Field, Rule, Shape, Value, may, must,
    pattern::{NAME, VERSION},
};
use crate::policy::rollout::WHOLE;

pub(super) static LABEL: Value = Value::Text("^(([A-Za-z0-9][A-Za-z0-9_.-]*)?[A-Za-z0-9])?$", 63);
const WEIGHT: Field = must(
    "weight",
    Value::Number(0, WHOLE),
    "How many in a hundred nodes have it.",
);

pub(crate) static ROLLOUT: Shape = Shape {
    what: "a mapping with canary or arms",
    fields: &[
        may(
            "canary",
            Value::Map(&CANARY),
            "One version, to be seen before all nodes have it.",
        ),
        may(
            "arms",
            Value::List(&Value::Map(&ARM), 1, 16),
            "Several versions side by side; their weights come to 100 at most.",
        ),
    ],
    one_of: &[&["canary", "arms"]],
    rules: &[
        Rule {
            expression: "!has(self.arms) || self.arms.map(arm, arm.weight).sum() <= 100",
            message: "the weights of `arms` come to more than 100: lower some",
        },
        Rule {
            expression: "!has(self.arms) || self.arms.all(arm, self.arms.exists_one(other, other.name == arm.name))",
            message: "two `arms` have one name: give each a name of its own",
        },
    ],
};

pub(crate) static CANARY: Shape = Shape {
    what: "a mapping with version and weight",
    fields: &[must("version", VERSION, "The version."), WEIGHT],
    one_of: &[],
    rules: &[],
};

pub(crate) static ARM: Shape = Shape {
    what: "a mapping with name, version and weight",
    fields: &[
        must("name", NAME, "What it is called."),
        must("version", VERSION, "The version."),
        WEIGHT,
    ],
    one_of: &[],
    rules: &[],
};
