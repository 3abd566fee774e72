//! How a node is, as its agent writes it into the cluster. Nobody reads it from a file.

use super::{Shape, Value, may, must};
use crate::policy::expect::Severity;

/// Policies that are listed; of more only their number is told.
pub const MOST_POLICIES: usize = 200;
/// Drifts that are listed.
pub const MOST_DRIFTS: usize = 20;
/// Things that the sensor cannot see.
pub const MOST_BLIND: usize = 16;
/// Characters of a path, and of other texts.
pub const LONGEST_PATH: usize = 1024;
pub const LONGEST_TEXT: usize = 256;
pub const LONGEST_MESSAGE: usize = 1024;

const TEXT: Value = Value::Text("", LONGEST_TEXT as u32);
const MESSAGE: Value = Value::Text("", LONGEST_MESSAGE as u32);
const SHOWN_PATH: Value = Value::Text("", LONGEST_PATH as u32);
/// As RFC 3339 has it.
const TIME: Value = Value::Text(
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z$",
    64,
);
const COUNT: Value = Value::Number(0, u32::MAX);

pub(crate) static NODE_DRIFT: Shape = Shape {
    what: "a mapping",
    fields: &[
        may("agentVersion", TEXT, "The version of the agent."),
        may("observedAt", TIME, "When this was so."),
        may("sensor", Value::Map(&SENSOR), "How changes are seen."),
        may("counts", Value::Map(&COUNTS), "Of all policies."),
        may(
            "conditions",
            Value::List(&Value::Map(&CONDITION), 0, 16),
            "Synced, Healed, Lossless, HooksAttached and SnapshotFresh.",
        ),
        may(
            "policies",
            Value::List(&Value::Map(&POLICY), 0, MOST_POLICIES as u32),
            "The policies of this node.",
        ),
        may(
            "drifts",
            Value::List(&Value::Map(&DRIFT), 0, MOST_DRIFTS as u32),
            "What is not as declared, the gravest first, and then what was healed last.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

static SENSOR: Shape = Shape {
    what: "a mapping",
    fields: &[
        may("name", TEXT, "btf, tracepoint or scan."),
        may("hooksAttached", COUNT, "Kernel programs that are attached."),
        may("hooks", COUNT, "Kernel programs that there are."),
        may(
            "cannotSee",
            Value::List(&TEXT, 0, MOST_BLIND as u32),
            "What it does not see on this kernel.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

static COUNTS: Shape = Shape {
    what: "a mapping",
    fields: &[
        may("policies", COUNT, "Policies of this node, listed or not."),
        may("files", COUNT, "Declared paths."),
        may("asDeclared", COUNT, "Those that are as declared."),
        may("drifting", COUNT, "Those that are not."),
        may("notCompared", COUNT, "Those that were not looked at yet."),
        may("held", COUNT, "Those that are left as they are for now."),
        may("healed", COUNT, "Heals of the last 24 hours."),
        may(
            "eventsLost",
            COUNT,
            "Lost by the kernel half since the start; each was answered by looking.",
        ),
        may(
            "recordsLost",
            COUNT,
            "Records that did not leave the node, since the start.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

static CONDITION: Shape = Shape {
    what: "a mapping",
    fields: &[
        must("type", Value::Text("", 64), "What it is about."),
        must(
            "status",
            Value::Words(|| vec!["True", "False", "Unknown"]),
            "Whether it is so.",
        ),
        must("reason", Value::Text("^[A-Za-z]+$", 64), "Why, in a word."),
        must("message", MESSAGE, "Why, in a sentence."),
        must("lastTransitionTime", TIME, "Since when."),
    ],
    one_of: &[],
    rules: &[],
};

static POLICY: Shape = Shape {
    what: "a mapping",
    fields: &[
        must(
            "namespace",
            Value::Text("", 63),
            "Its namespace; empty: it is from a file on the node.",
        ),
        must("name", Value::Text("", 253), "Its name."),
        may("activeVersion", TEXT, "The version that is in force."),
        may(
            "lastGoodVersion",
            TEXT,
            "The version that was as declared for the whole soak, last.",
        ),
        may(
            "failedVersion",
            TEXT,
            "The version whose activation failed last.",
        ),
        may("mode", TEXT, "observe or heal."),
        may("files", COUNT, "Declared paths."),
        may("drifting", COUNT, "Those that are not as declared."),
        may("notCompared", COUNT, "Those that were not looked at yet."),
        may("held", COUNT, "Those that are left as they are for now."),
        may("healed", COUNT, "Heals of the last 24 hours."),
        may("message", MESSAGE, "What is held, and what has failed."),
    ],
    one_of: &[],
    rules: &[],
};

static DRIFT: Shape = Shape {
    what: "a mapping",
    fields: &[
        must("path", SHOWN_PATH, "The declared path."),
        may("namespace", Value::Text("", 63), "Of the policy."),
        may(
            "policy",
            Value::Text("", 253),
            "The policy that declares it.",
        ),
        may(
            "kinds",
            Value::List(&TEXT, 0, 16),
            "What differs: content, mode, owner and so on.",
        ),
        may(
            "severity",
            Value::Words(|| Severity::ALL.iter().map(|(word, _)| *word).collect()),
            "How much it matters.",
        ),
        may("since", TIME, "When it was changed, as far as known."),
        may(
            "outcome",
            Value::Words(|| vec!["observed", "pending", "suppressed", "failed", "healed"]),
            "What has come of it: only watched, about to be healed, held back, tried in vain, healed.",
        ),
        may("reason", TEXT, "Why healing is held back or has failed."),
        may("actor", Value::Map(&ACTOR), "Who has changed it."),
        may("actorUnknown", MESSAGE, "Why that is not known."),
    ],
    one_of: &[],
    rules: &[],
};

static ACTOR: Shape = Shape {
    what: "a mapping",
    fields: &[
        may("comm", TEXT, "The process's name."),
        may("pid", COUNT, "Its number on the node."),
        may("uid", COUNT, "Its user."),
        may("exe", SHOWN_PATH, "Its program."),
        may("cgroup", SHOWN_PATH, "Its control group."),
        may("container", TEXT, "The container's id."),
        may("containerName", TEXT, "What the pod calls the container."),
        may("image", TEXT, "Of the container."),
        may("pod", Value::Text("", 253), "The pod."),
        may("namespace", Value::Text("", 63), "The pod's namespace."),
        may(
            "workload",
            TEXT,
            "What the pod belongs to, as Deployment/web.",
        ),
        may("serviceAccount", TEXT, "Of the pod."),
        may(
            "containerUnknown",
            TEXT,
            "Why it is not known in which container it runs.",
        ),
    ],
    one_of: &[],
    rules: &[],
};
