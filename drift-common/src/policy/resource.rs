//! The documents of the language as resources of a cluster: definitions for its API server, made from the language's one description.
//!
//! The API server checks what it can. What it cannot (contents that are packed, access lists, paths within each other) the agent finds, as in a file.

use serde_json::{Map, Value as Json, json};

use super::{
    parse::API_VERSION,
    schema::{DURATION, MAX_DURATION, text},
    shape::{self, Field, Shape, Value},
};

/// What there is of an object beside its metadata.
enum Part {
    /// People write it. Such objects are in a namespace, and are the documents of policy files.
    Spec(&'static Shape),
    /// An agent writes it, beside the object. Such an object is a node's.
    Status(&'static Shape),
}

/// A kind of object.
struct Resource {
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    part: Part,
    about: &'static str,
    /// Rules of the spec as a whole, beside those of its shape.
    rules: &'static [(&'static str, &'static str)],
    /// What `kubectl get` shows: a title, and where it is.
    columns: &'static [(&'static str, &'static str, &'static str)],
}

const RESOURCES: [Resource; 4] = [
    Resource {
        kind: "Policy",
        plural: "policies",
        short: "cpol",
        part: Part::Spec(&shape::POLICY),
        about: "A named line of configuration: which of its versions is active on which nodes, and what to do on drift.",
        rules: &[],
        columns: &[
            ("Active", "string", ".spec.activeVersion"),
            ("Mode", "string", ".spec.mode"),
            ("Canary", "string", ".spec.rollout.canary.version"),
            ("Weight", "integer", ".spec.rollout.canary.weight"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    },
    Resource {
        kind: "PolicyVersion",
        plural: "policyversions",
        short: "cpv",
        part: Part::Spec(&shape::VERSION_SPEC),
        about: "One declared snapshot of a policy. It never changes: what is to be declared otherwise is another version.",
        rules: &[
            (
                "self == oldSelf",
                "a version never changes: make a PolicyVersion with another `version`, and let the Policy's `activeVersion` name it",
            ),
            // etcd would refuse an object of more than 1.5 MiB, and say no more than that.
            (
                "!has(self.files) || self.files.map(file, has(file.content) ? [has(file.content.inline) ? size(file.content.inline) : 0, has(file.content.base64) ? size(file.content.base64) : 0, has(file.content.gzip) ? size(file.content.gzip) : 0, has(file.content.dataUrl) ? size(file.content.dataUrl) : 0].sum() : 0).sum() <= 1000000",
                "contents come to more than 1,000,000 bytes: keep large ones in immutable ConfigMaps or Secrets (`configMap`, `secret`), or name them by their `digest`",
            ),
        ],
        columns: &[
            ("Policy", "string", ".spec.policy"),
            ("Version", "string", ".spec.version"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    },
    Resource {
        kind: "PolicyVersionRef",
        plural: "policyversionrefs",
        short: "cpvref",
        part: Part::Spec(&shape::REFERENCE),
        about: "Versions of a policy that cross from one namespace to another: one namespace says `from`, the other `to`, and without both nothing crosses.",
        rules: &[],
        columns: &[
            ("Policy", "string", ".spec.policy"),
            ("From", "string", ".spec.from.namespace"),
            ("As", "string", ".spec.from.policy"),
            ("To", "string", ".spec.to.namespaces"),
            ("Versions", "string", ".spec.versions"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    },
    Resource {
        kind: NODE_DRIFT,
        plural: "nodedrifts",
        short: "nd",
        part: Part::Status(&shape::NODE_DRIFT),
        about: "How a node is, by its agent: what is in force there, what is not as declared, and whether the agent can do all it should.",
        rules: &[],
        columns: &[
            (
                "Synced",
                "string",
                ".status.conditions[?(@.type==\"Synced\")].status",
            ),
            (
                "Healed",
                "string",
                ".status.conditions[?(@.type==\"Healed\")].status",
            ),
            ("Policies", "integer", ".status.counts.policies"),
            ("Files", "integer", ".status.counts.files"),
            ("Drifting", "integer", ".status.counts.drifting"),
            ("Heals", "integer", ".status.counts.healed"),
            ("Sensor", "string", ".status.sensor.name"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    },
];

/// The kind of the object that an agent writes.
pub const NODE_DRIFT: &str = "NodeDrift";

/// Lists of a status whose items are told apart by these fields, so that they can be changed one by one.
const KEYED: [(&str, &[&str]); 2] = [
    ("conditions", &["type"]),
    ("policies", &["namespace", "name"]),
];

/// The group, and the version, of [`API_VERSION`].
fn group_and_version() -> (&'static str, &'static str) {
    API_VERSION.split_once('/').unwrap_or((API_VERSION, ""))
}

/// Each definition, and the name of its file.
#[must_use]
pub fn definitions() -> Vec<(String, Json)> {
    let (group, _) = group_and_version();
    RESOURCES
        .iter()
        .map(|resource| {
            (
                format!("{group}_{}.yaml", resource.plural),
                definition(resource),
            )
        })
        .collect()
}

fn definition(resource: &Resource) -> Json {
    let (group, version) = group_and_version();
    let columns: Vec<Json> = resource
        .columns
        .iter()
        .map(|(name, kind, path)| json!({"name": name, "type": kind, "jsonPath": path}))
        .collect();
    let (name, shape, scope) = match resource.part {
        Part::Spec(shape) => ("spec", shape, "Namespaced"),
        Part::Status(shape) => ("status", shape, "Cluster"),
    };
    let mut part = map(shape);
    for (expression, message) in resource.rules {
        rule(&mut part, expression, message);
    }
    let mut schema = json!({
        "description": resource.about,
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
        },
    });
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{group}", resource.plural)},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "kind": resource.kind,
                "listKind": format!("{}List", resource.kind),
                "plural": resource.plural,
                "singular": resource.kind.to_lowercase(),
                "shortNames": [resource.short],
                "categories": ["drift"],
            },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "additionalPrinterColumns": columns,
            }],
        },
    });
    match resource.part {
        Part::Spec(_) => schema["required"] = json!([name]),
        Part::Status(_) => {
            for (list, keys) in KEYED {
                let list = &mut part["properties"][list];
                list["x-kubernetes-list-type"] = json!("map");
                list["x-kubernetes-list-map-keys"] = json!(keys);
            }
            definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
        }
    }
    schema["properties"][name] = part;
    definition["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": schema});
    definition
}

fn rule(schema: &mut Json, expression: &str, message: &str) {
    let rules = &mut schema["x-kubernetes-validations"];
    if !rules.is_array() {
        *rules = json!([]);
    }
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({"rule": expression, "message": message}));
    }
}

/// What to write instead of what does not match: an API server says of a pattern only that it was not matched.
const SENTENCES: [(&str, &str); 2] = [
    (
        shape::VERSION_PATTERN,
        "write a semantic version: three numbers without leading zeros, and perhaps a pre-release, as in `1.2.0` or `1.2.0-rc.1`",
    ),
    (
        shape::NAME_PATTERN,
        "write a name: lower-case letters, digits, `-` and `.`, a letter or digit at both ends and beside each `.`",
    ),
];

/// A text that matches `pattern` and for which `more` holds. Only of texts of which there are few: a rule costs more than a pattern.
fn matching(pattern: &str, most: u32, more: &str, sentence: &str) -> Json {
    let mut matching = text("", most);
    rule(
        &mut matching,
        &format!("self.matches(r'{pattern}'){more}"),
        sentence,
    );
    matching
}

fn map(shape: &Shape) -> Json {
    let mut map = json!({"type": "object", "properties": properties(shape)});
    let required: Vec<&str> = shape
        .fields
        .iter()
        .filter(|field| field.required)
        .map(|field| field.name)
        .collect();
    if !required.is_empty() {
        map["required"] = json!(required);
    }
    for group in shape.one_of {
        let there: Vec<String> = group
            .iter()
            .map(|field| format!("has(self.{field})"))
            .collect();
        let names: Vec<String> = group.iter().map(|field| format!("`{field}`")).collect();
        let names = names.join(", ");
        rule(
            &mut map,
            &format!("[{}].filter(there, there).size() == 1", there.join(", ")),
            &format!("exactly one of {names} must be there: write one of them, and only one"),
        );
    }
    for shape::Rule {
        expression,
        message,
    } in shape.rules
    {
        rule(&mut map, expression, message);
    }
    map
}

fn properties(shape: &Shape) -> Map<String, Json> {
    let property = |field: &Field| {
        let mut property = value(&field.value);
        property["description"] = json!(field.about);
        (field.name.to_owned(), property)
    };
    shape.fields.iter().map(property).collect()
}

fn value(value: &Value) -> Json {
    match value {
        // To JSON an unquoted 0644 is the number 420: here only a text will do.
        Value::Text(pattern, most) | Value::Digits(pattern, most) => {
            match SENTENCES.iter().find(|(of, _)| of == pattern) {
                None => text(pattern, *most),
                Some((_, sentence)) => matching(pattern, *most, "", sentence),
            }
        }
        Value::Scalar(pattern, longest, least, most) => json!({
            "x-kubernetes-int-or-string": true,
            "pattern": pattern,
            "maxLength": longest,
            "minimum": least,
            "maximum": most,
        }),
        Value::Duration => matching(
            DURATION,
            MAX_DURATION,
            " && duration(self) <= duration('8760h')",
            "write whole numbers with units (h, m, s, ms), as in `500ms`, `2s`, `1h30m`; at most a year, 8760h",
        ),
        Value::Number(least, most) => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        Value::Flag => json!({"type": "boolean"}),
        Value::True => json!({"type": "boolean", "enum": [true]}),
        Value::Words(words) => json!({"type": "string", "enum": words()}),
        Value::List(item, least, most) => {
            let mut list = json!({"type": "array", "items": self::value(item), "maxItems": most});
            if *least > 0 {
                list["minItems"] = json!(least);
            }
            list
        }
        Value::Map(shape) => map(shape),
        Value::Entries(value, most) => {
            json!({"type": "object", "additionalProperties": self::value(value), "maxProperties": most})
        }
        // A schema of the API server's kind has one type. Without any, what it says of texts binds texts, and what it says of lists binds lists.
        Value::OneOrList(item, most) => {
            let mut one = self::value(item);
            if let Some(one) = one.as_object_mut() {
                one.remove("type");
            }
            one["x-kubernetes-preserve-unknown-fields"] = json!(true);
            one["maxItems"] = json!(most);
            one["maxProperties"] = json!(0);
            one
        }
        Value::TextOr(shape, most) => {
            let mut either =
                json!({"x-kubernetes-preserve-unknown-fields": true, "maxLength": most});
            either["maxProperties"] = json!(shape.fields.len());
            either
        }
        Value::WordOr(word, shape) => json!({
            "x-kubernetes-preserve-unknown-fields": true,
            "pattern": format!("^{word}$"),
            "maxProperties": shape.fields.len(),
        }),
    }
}
