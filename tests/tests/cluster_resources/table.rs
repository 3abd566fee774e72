//! Values of fields, those that are taken and those that are refused.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

pub(super) struct Case {
    pub(super) name: String,
    pub(super) document: Value,
    /// What a message must name.
    pub(super) field: String,
    /// Whether each takes it.
    pub(super) agent: bool,
    pub(super) server: bool,
}

/// A field as a JSON pointer from the document; values that are taken, values that are refused.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const POLICY: &[Row] = &[
    (
        "/spec/activeVersion",
        &["\"0.0.1\"", "\"1.2.3-rc.1+build.7\"", "\"1.0.0-alpha-b\""],
        &[
            "\"1.2\"",
            "\"v1.2.3\"",
            "\"01.2.3\"",
            "\"\"",
            "1.2",
            "null",
            "\"1.2.3-01\"",
            "\"1.2.3 \"",
        ],
    ),
    (
        "/spec/mode",
        &["\"observe\"", "\"heal\""],
        &["\"Heal\"", "\"off\"", "true", "[]"],
    ),
    (
        "/spec/onRemove",
        &["\"leave\"", "\"remove\""],
        &["\"keep\"", "1"],
    ),
    (
        "/spec/guard",
        &["{}"],
        &["[]", "\"none\"", "{\"perHour\": 1}"],
    ),
    (
        "/spec/guard/backoff",
        &[
            "{}",
            "{\"first\": \"0s\"}",
            "{\"cap\": \"1s\"}",
            "{\"first\": \"300s\"}",
            "{\"first\": \"1h\", \"cap\": \"2h\"}",
        ],
        &[
            "{\"first\": \"301s\"}",
            "{\"first\": \"2s\", \"cap\": \"1s\"}",
            "{\"wait\": \"1s\"}",
        ],
    ),
    (
        "/spec/guard/backoff/first",
        &["\"1m0s5ms\"", "\"500ms\""],
        &[
            "\"5\"", "5", "\"1.5s\"", "\"-1s\"", "\"1s1s\"", "\"\"", "\"5d\"",
        ],
    ),
    (
        "/spec/guard/backoff/factor",
        &["1", "1000"],
        &["0", "1001", "1.5", "\"3\""],
    ),
    (
        "/spec/guard/backoff/cap",
        &["\"8760h\"", "\"1h30m\""],
        &["\"8761h\"", "\"30m1h\""],
    ),
    (
        "/spec/guard/perMinute",
        &["0", "1000000"],
        &["-1", "1000001", "\"all\""],
    ),
    (
        "/spec/guard/massDrift",
        &["\"hold\"", "\"heal\""],
        &["\"stop\""],
    ),
    (
        "/spec/guard/fight",
        &["{\"heals\": 2}", "{\"within\": \"1m\", \"hold\": \"1h\"}"],
        &[
            "{\"heals\": 1}",
            "{\"heals\": 101}",
            "{\"within\": \"soon\"}",
        ],
    ),
    (
        "/spec/guard/windows",
        &[
            "[]",
            "[{\"from\": \"22:00\", \"to\": \"06:00\", \"kind\": \"deny\", \"timeZone\": \"UTC\"}]",
        ],
        &[
            "[{\"from\": \"24:00\", \"to\": \"06:00\"}]",
            "[{\"from\": \"22:00\"}]",
        ],
    ),
    (
        "/spec/evidence",
        &["\"content\"", "\"inode\"", "\"none\""],
        &["\"all\"", "1"],
    ),
    (
        "/spec/nodeSelector",
        &[
            "{}",
            "{\"role\": \"web\"}",
            "{\"topology.kubernetes.io/zone\": \"a_b.C-1\", \"gpu\": \"\"}",
        ],
        &[
            "[]",
            "{\"a\": 1}",
            "{\"a\": \"-x\"}",
            "{\"a\": \"x y\"}",
            "\"role=web\"",
        ],
    ),
    (
        "/spec/rollout",
        &[
            "{\"canary\": {\"version\": \"1.3.0\", \"weight\": 0}}",
            "{\"canary\": {\"version\": \"1.3.0\", \"weight\": 100}}",
        ],
        &[
            "{}",
            "{\"canary\": {\"version\": \"1.3.0\", \"weight\": 1}, \"arms\": [{\"name\": \"a\", \"version\": \"1.3.0\", \"weight\": 1}]}",
        ],
    ),
    (
        "/spec/rollout/canary",
        &["{\"version\": \"2.0.0\", \"weight\": 7}"],
        &[
            "{\"weight\": 7}",
            "{\"version\": \"2.0.0\"}",
            "{\"version\": \"2\", \"weight\": 7}",
            "{\"version\": \"2.0.0\", \"weight\": -1}",
            "{\"version\": \"2.0.0\", \"weight\": \"10%\"}",
            "{\"version\": \"2.0.0\", \"weight\": 7, \"nodes\": 3}",
        ],
    ),
    (
        "/spec/rollout/arms",
        &[
            "[{\"name\": \"a\", \"version\": \"2.0.0\", \"weight\": 50}, {\"name\": \"b\", \"version\": \"3.0.0\", \"weight\": 50}]",
        ],
        &[
            "[]",
            "[{\"name\": \"a\", \"version\": \"2.0.0\", \"weight\": 50}, {\"name\": \"b\", \"version\": \"3.0.0\", \"weight\": 51}]",
            "[{\"name\": \"a\", \"version\": \"2.0.0\", \"weight\": 1}, {\"name\": \"a\", \"version\": \"3.0.0\", \"weight\": 1}]",
            "[{\"version\": \"2.0.0\", \"weight\": 1}]",
        ],
    ),
    ("/spec/modde", &[], &["\"heal\""]),
    ("/spec", &[], &["null", "{}", "[]"]),
];

const VERSION: &[Row] = &[
    (
        "/spec/policy",
        &["\"a\"", "\"a.b-c\""],
        &["\"A\"", "\"-a\"", "\"a..b\"", "\"\"", "7"],
    ),
    ("/spec/version", &["\"10.20.30\""], &["\"1\"", "true"]),
    ("/spec/files", &["[]"], &["{}", "\"none\"", "[\"/etc/a\"]"]),
    (
        "/spec/files/0/path",
        &[
            "\"/a\"",
            "\"/etc/a b\"",
            "\"/etc/..a\"",
            "\"/etc/.a\"",
            "\"/etc/...\"",
            "\"/é\"",
        ],
        &[
            "\"/\"",
            "\"etc/a\"",
            "\"/etc/\"",
            "\"/etc//a\"",
            "\"/etc/./a\"",
            "\"/etc/../a\"",
            "\"~/a\"",
            "\"\"",
            "7",
        ],
    ),
    (
        "/spec/files/0/content",
        &[
            "{\"base64\": \"YQ==\"}",
            "{\"base64\": \"YWI\"}",
            "{\"base64\": \"\"}",
            "{\"dataUrl\": \"data:,a%20b\"}",
            "{\"file\": \"blobs/a\"}",
            "{\"configMap\": {\"name\": \"app\", \"key\": \"a.conf\"}}",
            "{\"secret\": {\"name\": \"app.v1\", \"key\": \"A_b-c\"}}",
        ],
        &[
            "{}",
            "{\"configMap\": {\"name\": \"app\"}}",
            "{\"configMap\": {\"name\": \"App\", \"key\": \"a\"}}",
            "{\"configMap\": {\"name\": \"app\", \"key\": \"a/b\"}}",
            "{\"secret\": {\"name\": \"app\", \"key\": \"\"}}",
            "{\"secret\": {\"name\": \"app\", \"key\": \"a\", \"optional\": true}}",
            "{\"secret\": {\"name\": \"app\", \"key\": \"a\"}, \"inline\": \"a\"}",
            "{\"inline\": \"a\", \"base64\": \"YQ==\"}",
            "{\"text\": \"a\"}",
            "{\"base64\": \"YR==\"}",
            "{\"base64\": \"Y\"}",
            "{\"base64\": \"Y!==\"}",
            "{\"dataUrl\": \"a\"}",
            "{\"file\": \"/etc/a\"}",
            "{\"file\": \"../a\"}",
            "{\"digest\": \"blake3:12\"}",
            "{\"digest\": \"sha256:0000000000000000000000000000000000000000000000000000000000000000\"}",
            "\"a\"",
        ],
    ),
    (
        "/spec/files/0/content/inline",
        &["\"\"", "\"a\\n\"", "\"0644\""],
        &["7", "true", "null"],
    ),
    (
        "/spec/files/0/mode",
        &["\"0644\"", "\"644\"", "\"0o755\"", "\"4755\"", "\"01777\""],
        &["\"rw-r--r--\"", "\"888\"", "\"64\"", "\"17777\"", "true"],
    ),
    (
        "/spec/files/0/owner",
        &["\"root\"", "0", "\"1000\"", "\"www-data\"", "\"7up\""],
        &["\"a:b\"", "\"a b\"", "-1", "4294967295", "\"\"", "[]"],
    ),
    (
        "/spec/files/0/group",
        &["\"wheel\"", "65534"],
        &["1.5", "{}"],
    ),
    (
        "/spec/files/0/severity",
        &["\"info\"", "\"critical\""],
        &["\"high\"", "3"],
    ),
    ("/spec/files/0/onDrift", &["\"observe\""], &["\"ignore\""]),
    (
        "/spec/files/0/redact",
        &["\"none\"", "\"all\""],
        &["\"some\""],
    ),
    (
        "/spec/files/0/maxSize",
        &[
            "512",
            "\"64KiB\"",
            "\"01MiB\"",
            "67108865",
            "1073741824",
            "\"1073741824B\"",
            "\"1048576KiB\"",
            "\"1024Mi\"",
        ],
        &[
            "0",
            "\"1k\"",
            "-1",
            "\"0\"",
            "1073741825",
            "\"1073741825\"",
            "\"1048577Ki\"",
            "\"1025MiB\"",
        ],
    ),
    (
        "/spec/files/0/finalNewline",
        &["\"exact\"", "\"ignore\""],
        &["\"trim\""],
    ),
    (
        "/spec/files/0/hardLinks",
        &["\"report\"", "\"allow\""],
        &["\"deny\""],
    ),
    (
        "/spec/files/0/write",
        &["\"replace\"", "\"inPlace\""],
        &["\"append\""],
    ),
    (
        "/spec/files/0/compare",
        &[
            "\"exact\"",
            "{\"format\": \"json\"}",
            "{\"format\": \"yaml\", \"sets\": [\"/a\"], \"keys\": \"anyCase\"}",
        ],
        &["\"bytes\""],
    ),
    (
        "/spec/files/0/acl",
        &[
            "[]",
            "[\"user::rw-\", \"group::r--\", \"other::---\"]",
            "\"u::rw,g::r,o::-\"",
        ],
        &[],
    ),
    (
        "/spec/files/0/flags",
        &["[]", "[\"immutable\"]", "[\"immutable\", \"append\"]"],
        &["[\"undeletable\"]", "\"immutable\""],
    ),
    (
        "/spec/files/0/selinux",
        &["\"system_u:object_r:etc_t:s0\""],
        &["\"etc_t\"", "7"],
    ),
    (
        "/spec/files/0/xattrs",
        &[
            "{}",
            "{\"user.a\": \"b\"}",
            "{\"user.a\": {\"absent\": true}}",
        ],
        &["[]", "\"a\""],
    ),
    ("/spec/files/0/unknown", &[], &["1"]),
    (
        "/spec/symlinks",
        &["[{\"path\": \"/a/l\", \"target\": \"../x/\"}]"],
        &[
            "[{\"path\": \"/a/l\"}]",
            "[{\"target\": \"x\"}]",
            "[{\"path\": \"/a/l\", \"target\": \"\"}]",
            "[{\"path\": \"/a/l\", \"target\": \"x\", \"mode\": \"0777\"}]",
        ],
    ),
    (
        "/spec/masks",
        &["[{\"path\": \"/a/m\", \"severity\": \"error\"}]"],
        &["[{\"path\": \"/a/m\", \"target\": \"x\"}]"],
    ),
    (
        "/spec/absent",
        &["[{\"pathBytes\": \"L2EvYg==\"}]"],
        &[
            "[{}]",
            "[{\"path\": \"/a/b\", \"pathBytes\": \"L2EvYg==\"}]",
            "[{\"pathBytes\": \"not base64\"}]",
        ],
    ),
    (
        "/spec/directories",
        &[
            "[{\"path\": \"/a/d\"}]",
            "[{\"path\": \"/a/d\", \"exhaustive\": true, \"ignore\": [\"*.bak\"], \"onUnexpected\": \"remove\"}]",
            "[{\"path\": \"/a/d\", \"exhaustive\": false}]",
        ],
        &[
            "[{\"path\": \"/a/d\", \"exhaustive\": \"yes\"}]",
            "[{\"path\": \"/a/d\", \"ignore\": [\"*\"]}]",
            "[{\"path\": \"/a/d\", \"exhaustive\": false, \"onUnexpected\": \"report\"}]",
            "[{\"path\": \"/a/d\", \"content\": {\"inline\": \"\"}}]",
        ],
    ),
    (
        "/spec/dependencies",
        &["[{\"policy\": \"base\", \"version\": \"^2.1\"}]"],
        &[
            "[{\"policy\": \"base\"}]",
            "[{\"policy\": \"Base\", \"version\": \"1.0.0\"}]",
        ],
    ),
    (
        "/spec/environment",
        &[
            "[{\"process\": \"/bin/a\", \"variables\": [{\"name\": \"LANG\", \"value\": \"C\"}, {\"name\": \"X\", \"absent\": true}]}]",
        ],
        &[
            "[{\"process\": \"a\", \"variables\": []}]",
            "[{\"process\": \"/bin/a\", \"variables\": [{\"name\": \"A=B\", \"value\": \"\"}]}]",
            "[{\"process\": \"/bin/a\", \"variables\": [{\"name\": \"A\", \"value\": \"b\", \"absent\": true}]}]",
            "[{\"process\": \"/bin/a\", \"variables\": [{\"name\": \"A\", \"absent\": false}]}]",
        ],
    ),
    (
        "/spec/files/0/afterHeal",
        &[
            "[{\"signal\": \"HUP\", \"unit\": \"a.service\"}, {\"restart\": \"a@b.service\"}, {\"command\": [\"/bin/a\", \"-s\"], \"timeout\": \"1s\"}]",
        ],
        &[
            "[{}]",
            "[{\"signal\": \"KILL\", \"unit\": \"a.service\"}]",
            "[{\"signal\": \"HUP\"}]",
            "[{\"signal\": \"HUP\", \"unit\": \"a.service\", \"process\": \"/bin/a\"}]",
            "[{\"reload\": \"a\"}]",
            "[{\"command\": []}]",
            "[{\"reload\": \"a.service\", \"timeout\": \"1s\"}]",
            "[{\"reload\": \"a.service\", \"restart\": \"a.service\"}]",
        ],
    ),
];

const REFERENCE: &[Row] = &[
    (
        "/spec/policy",
        &["\"a.b-c\""],
        &["\"A\"", "\"\"", "7", "null"],
    ),
    (
        "/spec/versions",
        &["[\"1.2.0\"]", "[\"1.2.0\", \"2.0.0-rc.1\"]"],
        &["[]", "[\"1.2\"]", "\"1.2.0\"", "[7]", "{}"],
    ),
    (
        "/spec/from",
        &[
            "{\"namespace\": \"platform\"}",
            "{\"namespace\": \"a-1\", \"policy\": \"base.x\"}",
        ],
        &[
            "{}",
            "{\"namespace\": \"Platform\"}",
            "{\"namespace\": \"a.b\"}",
            "{\"namespace\": \"\"}",
            "{\"namespace\": \"a\", \"policy\": \"-b\"}",
            "{\"namespace\": \"a\", \"name\": \"b\"}",
            "\"platform\"",
            "[]",
        ],
    ),
    (
        "/spec/from/namespace",
        &["\"a23456789012345678901234567890123456789012345678901234567890123\""],
        &["\"a234567890123456789012345678901234567890123456789012345678901234\""],
    ),
    // The other end, which is in the place of the first.
    (
        "/spec",
        &[
            "{\"policy\": \"a\", \"to\": {\"namespaces\": [\"shop\"]}}",
            "{\"policy\": \"a\", \"versions\": [\"1.0.0\"], \"to\": {\"namespaces\": [\"shop\", \"team-b\"]}}",
        ],
        &[
            "{\"policy\": \"a\"}",
            "{\"policy\": \"a\", \"from\": {\"namespace\": \"b\"}, \"to\": {\"namespaces\": [\"b\"]}}",
            "{\"policy\": \"a\", \"to\": {\"namespaces\": []}}",
            "{\"policy\": \"a\", \"to\": {\"namespaces\": [\"*\"]}}",
            "{\"policy\": \"a\", \"to\": {}}",
            "{\"to\": {\"namespaces\": [\"shop\"]}}",
        ],
    ),
];

/// What the API server cannot see, and the agent refuses: packed contents, access lists, capabilities, patterns, and what is within a value that can be of two types.
const ONLY_THE_AGENT: &[(&str, &str)] = &[
    (
        "/spec/files/0/afterHeal",
        "[{\"command\": [\"/bin/a\"], \"timeout\": \"0s\"}]",
    ),
    ("/spec/files/0/content", "{\"gzip\": \"YWJj\"}"),
    ("/spec/files/0/content", "{\"dataUrl\": \"data:,%zz\"}"),
    ("/spec/files/0/acl", "[\"user::rw-\"]"),
    ("/spec/files/0/acl", "7"),
    ("/spec/files/0/capabilities", "\"cap_no_such=ep\""),
    ("/spec/files/0/compare", "{\"format\": \"xml\"}"),
    ("/spec/files/0/xattrs", "{\"no.such\": \"x\"}"),
    (
        "/spec/directories",
        "[{\"path\": \"/a/d\", \"exhaustive\": true, \"ignore\": [\"[\"]}]",
    ),
    (
        "/spec/dependencies",
        "[{\"policy\": \"base\", \"version\": \"latest\"}]",
    ),
];

/// What only a file can have: without quotes, digits count as they are written. To JSON they would be another number.
const ONLY_A_FILE: &[(&str, &str)] = &[
    ("/spec/files/0/mode", "644"),
    ("/spec/files/0/content", "{\"base64\": 1234}"),
];

fn base(kind: &str) -> Value {
    let spec = match kind {
        "Policy" => json!({"activeVersion": "1.2.0"}),
        "PolicyVersionRef" => json!({"policy": "web", "from": {"namespace": "platform"}}),
        _ => {
            json!({"policy": "web", "version": "1.2.0", "files": [{"path": "/etc/a", "content": {"inline": "a"}}]})
        }
    };
    json!({"apiVersion": "configdrift.io/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec})
}

/// The document with `value` at `pointer`; mappings on the way are made.
fn with(kind: &str, pointer: &str, value: &str) -> Result<Value> {
    let value: Value =
        serde_json::from_str(value).with_context(|| format!("{pointer}: {value}"))?;
    let mut document = base(kind);
    let mut at = &mut document;
    for key in pointer.split('/').skip(1) {
        at = match key.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[key],
        };
    }
    *at = value;
    Ok(document)
}

pub(super) fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut add =
        |kind: &str, pointer: &str, value: &str, agent: bool, server: bool| -> Result<()> {
            let mut document = with(kind, pointer, value)?;
            let name = format!("case-{}", cases.len());
            document["metadata"]["name"] = json!(name);
            let field = pointer.rsplit('/').next().unwrap_or_default().to_owned();
            cases.push(Case {
                name,
                document,
                field,
                agent,
                server,
            });
            Ok(())
        };
    for (kind, rows) in [
        ("Policy", POLICY),
        ("PolicyVersion", VERSION),
        ("PolicyVersionRef", REFERENCE),
    ] {
        for (pointer, taken, refused) in rows {
            for (values, verdict) in [(taken, true), (refused, false)] {
                for value in *values {
                    add(kind, pointer, value, verdict, verdict)?;
                }
            }
        }
    }
    for (pointer, value) in ONLY_THE_AGENT {
        add("PolicyVersion", pointer, value, false, true)?;
    }
    for (pointer, value) in ONLY_A_FILE {
        add("PolicyVersion", pointer, value, true, false)?;
    }
    Ok(cases)
}
