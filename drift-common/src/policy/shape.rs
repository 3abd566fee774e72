//! The language's one description: which mappings there are, and which fields they have. The decoder takes the names from here, and the JSON
//! schema is made from it.

mod pattern;
mod value;

use super::{
    attribute::Flags,
    compare::{Absence, Equal, Format, Keys},
    expect::{HardLinks, Heed, Redact, Severity, Writing},
    guard::{Evidence, Mode, OnRemove},
    reload::{Method, Signal},
    version::OnUnexpected,
};

use pattern::{
    ABSOLUTE, ANY, BASE64, BENEATH, MOST_PATH, MOST_PATHS, MOST_RULES, MOST_TEXT, NAME, OBJECT,
    POINTER, POINTERS, PRINCIPAL, SIZE, UNIT, VERSION, WORD,
};
pub(crate) use pattern::{NAME_PATTERN, VERSION_PATTERN};
pub(crate) use value::{Field, Rule, Shape, Value};
use value::{may, must};

/// The words of a table.
macro_rules! words {
    ($of:ty) => {
        Value::Words(|| <$of>::ALL.iter().map(|(word, _)| *word).collect())
    };
}

// After the macro, which it uses.
mod guard;
pub mod node_drift;
mod reference;
mod rollout;

pub(crate) use node_drift::NODE_DRIFT;

pub(crate) use guard::{BACKOFF, FIGHT, GUARD, MAX_HEALS, MAX_PER_MINUTE, MAX_WINDOWS, WINDOW};
pub(crate) use reference::{MOST_NAMED, MOST_NAMESPACES, REFERENCE, REFERENCE_FROM, REFERENCE_TO};
use rollout::LABEL;
pub(crate) use rollout::{ARM, CANARY, ROLLOUT};

pub(crate) static POLICY: Shape = Shape {
    what: "a mapping with an activeVersion",
    fields: &[
        must(
            "activeVersion",
            VERSION,
            "The version that must be there now.",
        ),
        may(
            "mode",
            words!(Mode),
            "What to do on drift: observe (the default) or heal.",
        ),
        may(
            "onRemove",
            words!(OnRemove),
            "What becomes of paths that another version no longer declares: leave (the default) or remove.",
        ),
        may("guard", Value::Map(&GUARD), "What holds healing back."),
        may(
            "evidence",
            words!(Evidence),
            "What is kept of what healing takes away: content (the default) or none.",
        ),
        may(
            "nodeSelector",
            Value::Entries(&LABEL, 16),
            "Only nodes with these labels have this policy.",
        ),
        may(
            "rollout",
            Value::Map(&ROLLOUT),
            "Other versions for a part of the nodes.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

pub(crate) static VERSION_SPEC: Shape = Shape {
    what: "a mapping with policy, version and files",
    fields: &[
        must("policy", NAME, "The policy that this is a version of."),
        must("version", VERSION, "A semantic version."),
        may(
            "files",
            Value::List(&Value::Map(&FILE), 0, MOST_PATHS),
            "Regular files with their content.",
        ),
        may(
            "symlinks",
            Value::List(&Value::Map(&SYMLINK), 0, MOST_PATHS),
            "Symbolic links.",
        ),
        may(
            "masks",
            Value::List(&Value::Map(&NOTHING), 0, MOST_PATHS),
            "Symbolic links to /dev/null.",
        ),
        may(
            "absent",
            Value::List(&Value::Map(&NOTHING), 0, MOST_PATHS),
            "Paths at which nothing may be.",
        ),
        may(
            "directories",
            Value::List(&Value::Map(&DIRECTORY), 0, MOST_PATHS),
            "Directories.",
        ),
        may(
            "environment",
            Value::List(&Value::Map(&ENVIRONMENT), 0, 256),
            "What processes must find in their environment. Not supported yet.",
        ),
        may(
            "dependencies",
            Value::List(&Value::Map(&DEPENDENCY), 0, 256),
            "Versions of other policies that this one needs.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

const PATH: Field = may("path", ABSOLUTE, "Absolute, spelt as the kernel would.");
const PATH_BYTES: Field = may(
    "pathBytes",
    Value::Text(BASE64, 8192),
    "Instead of path, its base64: where it is not UTF-8.",
);
static A_LINK: Value = Value::Map(&LINK);
const THROUGH: Field = may(
    "through",
    Value::List(&A_LINK, 1, 16),
    "Links that the way to it may go through. No other may.",
);
const ONE_PATH: &[&str] = &["path", "pathBytes"];
const FILE_MODE: Field = may(
    "mode",
    Value::Digits("^(0o)?0?([0-7]{3}|[0-7]{4})$", 7),
    "Permission bits, always octal. Left alone where it is not said.",
);
const OWNER: Field = may(
    "owner",
    PRINCIPAL,
    "A name or an id. Left alone where it is not said.",
);
const GROUP: Field = may(
    "group",
    PRINCIPAL,
    "A name or an id. Left alone where it is not said.",
);
static XATTR_VALUE: Value = Value::TextOr(&XATTR, MOST_TEXT);
const XATTRS: Field = may(
    "xattrs",
    Value::Entries(&XATTR_VALUE, 256),
    "Extended attributes by name. Those that are not named are left alone.",
);
const ACL: Field = may(
    "acl",
    ACCESS_LIST,
    "Who may do what, as getfacl prints it; []: nobody beside those of the mode.",
);
const SELINUX: Field = may(
    "selinux",
    Value::Text("^[^:]+:[^:]+:[^:]+", 4095),
    "The label, as ls -Z prints it.",
);
const FLAGS: Field = may(
    "flags",
    Value::List(&words!(Flags), 0, 2),
    "Those that are set. The others are not.",
);
const ACCESS_LIST: Value = Value::OneOrList(&WORD, 256);
const ON_DRIFT: Field = may(
    "onDrift",
    words!(Mode),
    "For this path, instead of the policy's mode.",
);
const SEVERITY: Field = may("severity", words!(Severity), "How much a drift matters.");

pub(crate) static FILE: Shape = Shape {
    what: "a mapping with path and content",
    fields: &[
        PATH,
        PATH_BYTES,
        THROUGH,
        must("content", Value::Map(&CONTENT), "What the file must hold."),
        FILE_MODE,
        OWNER,
        GROUP,
        XATTRS,
        ACL,
        SELINUX,
        may(
            "capabilities",
            WORD,
            "What a program gets from its file, as getcap prints it; none: nothing.",
        ),
        FLAGS,
        ON_DRIFT,
        SEVERITY,
        may(
            "redact",
            words!(Redact),
            "What is hidden where contents are shown.",
        ),
        may(
            "maxSize",
            SIZE,
            "A larger file is not read, and not as declared.",
        ),
        may(
            "finalNewline",
            words!(Heed),
            "Whether one line end more or less at the end is a difference.",
        ),
        may(
            "lineEndings",
            words!(Heed),
            "Whether `\\r\\n` against `\\n` is a difference.",
        ),
        may(
            "hardLinks",
            words!(HardLinks),
            "Whether the file may have other names.",
        ),
        may(
            "write",
            words!(Writing),
            "How the file gets its content: in a new file that takes its place, or into the one that is there.",
        ),
        may(
            "compare",
            Value::WordOr("exact", &COMPARE),
            "What counts as the same.",
        ),
        may(
            "afterHeal",
            Value::List(&Value::Map(&AFTER_HEAL), 0, 4),
            "What makes programs take a healed file in.",
        ),
    ],
    one_of: &[ONE_PATH],
    rules: &[],
};

pub(crate) static SYMLINK: Shape = Shape {
    what: "a mapping with path and target",
    fields: &[
        PATH,
        PATH_BYTES,
        THROUGH,
        must(
            "target",
            Value::Text("^.+$", MOST_PATH),
            "Exactly what the link holds.",
        ),
        OWNER,
        GROUP,
        XATTRS,
        SELINUX,
        ON_DRIFT,
        SEVERITY,
    ],
    one_of: &[ONE_PATH],
    rules: &[],
};

pub(crate) static LINK: Shape = Shape {
    what: "a mapping with path and target",
    fields: &[
        PATH,
        PATH_BYTES,
        must(
            "target",
            Value::Text("^.+$", MOST_PATH),
            "Exactly what the link holds.",
        ),
    ],
    one_of: &[ONE_PATH],
    rules: &[],
};

pub(crate) static XATTR: Shape = Shape {
    what: "a text, or a mapping with base64 or absent",
    fields: &[
        may(
            "base64",
            Value::Digits(BASE64, MOST_TEXT),
            "The base64 of these bytes.",
        ),
        may("absent", Value::True, "It must not be there."),
    ],
    one_of: &[&["base64", "absent"]],
    rules: &[],
};

pub(crate) static NOTHING: Shape = Shape {
    what: "a mapping with path",
    fields: &[PATH, PATH_BYTES, THROUGH, ON_DRIFT, SEVERITY],
    one_of: &[ONE_PATH],
    rules: &[],
};

static GLOB: Value = Value::Text("^.+$", 1024);

pub(crate) static DIRECTORY: Shape = Shape {
    what: "a mapping with path",
    fields: &[
        PATH,
        PATH_BYTES,
        THROUGH,
        FILE_MODE,
        OWNER,
        GROUP,
        XATTRS,
        ACL,
        may(
            "defaultAcl",
            ACCESS_LIST,
            "The access list that what is made in it begins with; []: none.",
        ),
        SELINUX,
        FLAGS,
        may(
            "exhaustive",
            Value::Flag,
            "Whether nothing undeclared may be in it.",
        ),
        may(
            "ignore",
            Value::List(&GLOB, 0, 256),
            "Names that may be in it all the same, as globs.",
        ),
        may(
            "onUnexpected",
            words!(OnUnexpected),
            "Whether healing removes what may not be in it.",
        ),
        ON_DRIFT,
        SEVERITY,
    ],
    one_of: &[ONE_PATH],
    rules: &[Rule {
        expression: "(has(self.exhaustive) && self.exhaustive) || !(has(self.ignore) || has(self.onUnexpected))",
        message: "`ignore` and `onUnexpected` say something only of an exhaustive directory: add `exhaustive: true`, or remove them",
    }],
};

pub(crate) static CONTENT: Shape = Shape {
    what: "a mapping with `inline` or `file`",
    fields: &[
        may("inline", ANY, "Exactly these bytes."),
        may(
            "base64",
            Value::Digits(BASE64, MOST_TEXT),
            "What `base64 FILE` prints.",
        ),
        may(
            "gzip",
            Value::Digits(BASE64, MOST_TEXT),
            "What `gzip -c FILE | base64` prints.",
        ),
        may(
            "dataUrl",
            Value::Text("^[Dd][Aa][Tt][Aa]:[^,]*,", MOST_TEXT),
            "RFC 2397.",
        ),
        may(
            "file",
            BENEATH,
            "A file in the policy folder or beneath it.",
        ),
        may(
            "digest",
            Value::Text("^blake3:[0-9a-fA-F]{64}$", 71),
            "Whatever has this digest.",
        ),
        may(
            "configMap",
            Value::Map(&KEPT),
            "What an immutable ConfigMap of the namespace keeps there. In a cluster only.",
        ),
        may(
            "secret",
            Value::Map(&KEPT),
            "What an immutable Secret of the namespace keeps there. In a cluster only.",
        ),
    ],
    one_of: &[&[
        "inline",
        "base64",
        "gzip",
        "dataUrl",
        "file",
        "digest",
        "configMap",
        "secret",
    ]],
    rules: &[],
};

/// Characters of a key, as Kubernetes has it.
pub(crate) const MOST_KEY: usize = 253;

pub(crate) static KEPT: Shape = Shape {
    what: "a mapping with name and key",
    fields: &[
        must("name", OBJECT, "Its name."),
        must(
            "key",
            Value::Text("^[-._a-zA-Z0-9]+$", MOST_KEY as u32),
            "A key of its data.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

pub(crate) static COMPARE: Shape = Shape {
    what: "`exact` or a mapping with a format",
    fields: &[
        must("format", words!(Format), "What the file is written in."),
        may(
            "sets",
            POINTERS,
            "Lists whose order is free, as JSON pointers.",
        ),
        may("ignore", POINTERS, "What is not compared."),
        may(
            "equal",
            Value::List(&Value::Map(&EQUAL), 0, MOST_RULES),
            "Scalars that may be written in different ways.",
        ),
        may(
            "manage",
            Value::List(&POINTER, 1, MOST_RULES),
            "What is declared; the rest belongs to others.",
        ),
        may(
            "absent",
            words!(Absence),
            "What is the same as a key that is not there.",
        ),
        may(
            "keys",
            words!(Keys),
            "Whether upper and lower case differ in keys.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

pub(crate) static EQUAL: Shape = Shape {
    what: "a mapping with at and as",
    fields: &[
        must("at", POINTER, "A JSON pointer."),
        must("as", words!(Equal), "What they are compared as."),
    ],
    one_of: &[],
    rules: &[],
};

pub(crate) static AFTER_HEAL: Shape = Shape {
    what: "a mapping with signal, reload, restart, command or http",
    fields: &[
        may("signal", words!(Signal), "Send this signal …"),
        may("unit", UNIT, "… to the main process of this unit …"),
        may(
            "pidFile",
            ABSOLUTE,
            "… or to the process whose number is in this file …",
        ),
        may(
            "process",
            ABSOLUTE,
            "… or to every process of this program.",
        ),
        may("reload", UNIT, "Reload this unit."),
        may("restart", UNIT, "Restart this unit."),
        may(
            "command",
            Value::List(&WORD, 1, 256),
            "Run this program, without a shell.",
        ),
        may(
            "http",
            Value::Text(
                r"^http://(127(\.[0-9]{1,3}){3}|\[::1\]|localhost)(:[0-9]+)?(/[!-~]*)?$",
                2048,
            ),
            "Ask this address, on this machine alone.",
        ),
        may("method", words!(Method), "How: POST (the default) or GET."),
        may(
            "status",
            Value::Number(100, 599),
            "The answer that is right; where that is not said, any from 200 to 299.",
        ),
        may(
            "timeout",
            Value::Duration,
            "What the command or the answer may take: 30s where that is not said, 10m at most.",
        ),
    ],
    one_of: &[&["signal", "reload", "restart", "command", "http"]],
    rules: &[
        Rule {
            expression: "[has(self.unit), has(self.pidFile), has(self.process)].filter(there, there).size() == (has(self.signal) ? 1 : 0)",
            message: "a `signal` goes to one of `unit`, `pidFile` and `process`, and nothing else has these: write one of them beside `signal`",
        },
        Rule {
            expression: "!has(self.timeout) || has(self.command) || has(self.http)",
            message: "only a `command` and `http` have a `timeout`: remove it",
        },
        Rule {
            expression: "has(self.http) || !(has(self.method) || has(self.status))",
            message: "only `http` has `method` and `status`: remove them",
        },
    ],
};

pub(crate) static ENVIRONMENT: Shape = Shape {
    what: "a mapping with process and variables",
    fields: &[
        must("process", ABSOLUTE, "The program."),
        must(
            "variables",
            Value::List(&Value::Map(&VARIABLE), 0, 256),
            "What it must find.",
        ),
    ],
    one_of: &[],
    rules: &[],
};

pub(crate) static VARIABLE: Shape = Shape {
    what: "a mapping with name and value",
    fields: &[
        must("name", Value::Text("^[^=]+$", 4096), "As in LANG."),
        may("value", ANY, "Exactly this."),
        may("absent", Value::True, "It must not be set."),
    ],
    one_of: &[&["value", "absent"]],
    rules: &[],
};

pub(crate) static DEPENDENCY: Shape = Shape {
    what: "a mapping with policy and version",
    fields: &[
        must("policy", NAME, "The other policy."),
        must(
            "version",
            Value::Digits("", 256),
            "A range of versions, as in >=1.2.0, <2.0.0.",
        ),
    ],
    one_of: &[],
    rules: &[],
};
