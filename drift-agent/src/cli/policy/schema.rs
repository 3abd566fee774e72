//! `drift-agent policy schema`.

use clap::Args;
use drift_common::policy;

use super::Said;

/// The language of policies as a JSON schema, for editors.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Schema {}

const EXAMPLES: &str = "\
Examples:
  drift-agent policy schema > drift-policy.schema.json
  # and as the first line of a policy file, for editors with a YAML language server:
  # yaml-language-server: $schema=drift-policy.schema.json";

impl Schema {
    pub(super) fn run(self) -> Said {
        let Schema {} = self;
        Ok(format!("{:#}\n", policy::schema()))
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use drift_common::policy::{self, Problems, Source};
    use serde_json::{Value, json};

    fn version(file: &Value) -> Value {
        json!({
            "apiVersion": policy::API_VERSION,
            "kind": "PolicyVersion",
            "metadata": {"name": "web-1.2.0"},
            "spec": {"policy": "web", "version": "1.2.0", "files": [file]},
        })
    }

    /// Whether the parser takes a document.
    fn parses(document: &Value) -> bool {
        let name: Arc<Path> = Path::new("p.yaml").into();
        let source = Source::new(name, document.to_string().into_bytes()).unwrap();
        let mut problems = Problems::default();
        policy::parse(&source, &mut problems);
        problems.is_empty()
    }

    #[test]
    fn what_the_parser_takes_the_schema_takes_and_what_it_refuses_too() {
        let schema = policy::schema();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let policy = |spec: &Value| json!({"apiVersion": policy::API_VERSION, "kind": "Policy", "metadata": {"name": "web"}, "spec": spec});
        let full = json!({
            "path": "/etc/a", "content": {"gzip": "H4sIAAAAAAACA0sEAEO+t+gBAAAA"}, "mode": "0644", "owner": "root", "group": 7,
            "onDrift": "heal", "severity": "error", "redact": "none", "maxSize": "1MiB", "finalNewline": "ignore", "lineEndings": "ignore",
            "compare": {"format": "json", "sets": ["/a"], "ignore": [], "equal": [{"at": "", "as": "number"}], "manage": ["/b"], "absent": "null", "keys": "anyCase"},
            "afterHeal": [{"signal": "HUP", "unit": "a.service"}, {"reload": "a.service"}, {"restart": "a.service"}, {"command": ["/bin/a"], "timeout": "1s"}],
        });
        let with = |field: &str, value: Value| {
            let mut file = json!({"path": "/etc/a", "content": {"inline": "a"}});
            file[field] = value;
            version(&file)
        };
        let other = |field: &str, item: Value| {
            let mut document = version(&full);
            document["spec"][field] = json!([item]);
            document
        };
        for (document, valid) in [
            (
                other(
                    "symlinks",
                    json!({"path": "/l", "target": "x", "owner": "root", "onDrift": "heal"}),
                ),
                true,
            ),
            (other("symlinks", json!({"path": "/l"})), false),
            (other("masks", json!({"path": "/l"})), true),
            (other("masks", json!({"path": "/l", "target": "x"})), false),
            (other("absent", json!({"pathBytes": "L2E="})), true),
            (
                other("absent", json!({"path": "/l", "mode": "0644"})),
                false,
            ),
            (
                other(
                    "directories",
                    json!({"path": "/d", "mode": "0755", "exhaustive": true, "ignore": ["*"], "onUnexpected": "remove"}),
                ),
                true,
            ),
            (
                other("directories", json!({"path": "/d", "exhaustive": "yes"})),
                false,
            ),
            (policy(&json!({"activeVersion": "1.2.0"})), true),
            (
                policy(
                    &json!({"activeVersion": "1.2.0", "mode": "heal", "guard": {"backoff": {"first": "0s", "factor": 2, "cap": "1h30m"}}}),
                ),
                true,
            ),
            (policy(&json!({"mode": "heal"})), false),
            (policy(&json!({"activeVersion": "1.2"})), false),
            (
                policy(&json!({"activeVersion": "1.2.0", "modde": "heal"})),
                false,
            ),
            (
                policy(&json!({"activeVersion": "1.2.0", "guard": {"backoff": {"factor": 0}}})),
                false,
            ),
            (version(&full), true),
            (
                version(
                    &json!({"pathBytes": "L2E=", "content": {"digest": format!("blake3:{}", "0".repeat(64))}}),
                ),
                true,
            ),
            (version(&json!({"path": "/a"})), false),
            (version(&json!({"content": {"inline": ""}})), false),
            (
                version(&json!({"path": "/a", "pathBytes": "L2E=", "content": {"inline": ""}})),
                false,
            ),
            (
                with("content", json!({"inline": "a", "base64": "YQ=="})),
                false,
            ),
            (with("content", json!({})), false),
            (with("content", json!({"digest": "blake3:12"})), false),
            (with("mode", json!("rw-r--r--")), false),
            (with("mode", json!(644)), true),
            (with("severity", json!("high")), false),
            (with("maxSize", json!("1k")), false),
            (with("maxSize", json!(512)), true),
            (with("maxSize", json!("1024MiB")), true),
            (with("maxSize", json!("1025MiB")), false),
            (with("compare", json!("exact")), true),
            (with("compare", json!("bytes")), false),
            (with("compare", json!({"sets": []})), false),
            (
                with(
                    "afterHeal",
                    json!([{"signal": "KILL", "unit": "a.service"}]),
                ),
                false,
            ),
            (with("afterHeal", json!([{}])), false),
            (with("unknown", json!(1)), false),
        ] {
            assert_eq!(parses(&document), valid, "parser: {document}");
            assert_eq!(validator.is_valid(&document), valid, "schema: {document}");
        }
    }
}
