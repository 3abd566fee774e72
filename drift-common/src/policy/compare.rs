//! What counts as the same content: the bytes, or what they mean in a format.

/// How a file is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// By its bytes.
    #[default]
    Exact,
    /// By what it means.
    Structured(Box<Rules>),
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// YAML 1.2, several documents, anchors, merge keys.
    Yaml,
    /// As RFC 8259 has it.
    Json,
    /// JSON with comments, commas at the end, and the rest of JSON5.
    Json5,
    Toml,
    /// Sections of keys: systemd units, Git's configuration, WireGuard.
    Ini,
    /// `NAME=value` lines, as shells and systemd read them; Java's properties.
    Env,
    /// `key value` or `key = value` lines, as in sshd_config and sysctl.conf.
    KeyValue,
}

impl Format {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 7] = [
        ("yaml", Self::Yaml),
        ("json", Self::Json),
        ("json5", Self::Json5),
        ("toml", Self::Toml),
        ("ini", Self::Ini),
        ("env", Self::Env),
        ("keyvalue", Self::KeyValue),
    ];

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        word(&Self::ALL, &self)
    }
}

/// How two values of the same place may be written in different ways and still be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equal {
    /// `1`, `1.0` and `"1"`.
    Number,
    /// `1000m` and `1`, `1Gi` and `1024Mi` (as Kubernetes writes them).
    Quantity,
    /// `yes`, `on`, `true`, `1`.
    Bool,
    /// `90s` and `1m30s`; a number without a unit is seconds.
    Duration,
    /// `INFO` and `info`.
    CaseInsensitive,
}

impl Equal {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 5] = [
        ("number", Self::Number),
        ("quantity", Self::Quantity),
        ("bool", Self::Bool),
        ("duration", Self::Duration),
        ("caseInsensitive", Self::CaseInsensitive),
    ];
}

/// What is the same as a key that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Absence {
    /// Nothing: `k:`, `k: ""` and no `k` are three different things.
    #[default]
    Strict,
    /// Null.
    Null,
    /// Null, the empty text, the empty list, the empty map, and a map of nothing else.
    Empty,
}

impl Absence {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 3] = [
        ("strict", Self::Strict),
        ("null", Self::Null),
        ("empty", Self::Empty),
    ];
}

/// Whether `Port` and `port` are the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    #[default]
    Exact,
    AnyCase,
}

impl Keys {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 2] = [("exact", Self::Exact), ("anyCase", Self::AnyCase)];
}

/// What counts as the same in a format. Places are JSON pointers (RFC 6901), perhaps with `*` for any key; each is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub format: Format,
    /// Lists whose order is free.
    pub sets: Vec<String>,
    /// What is not compared.
    pub ignore: Vec<String>,
    /// Scalars that may be written in different ways. Where several fit, the first counts.
    pub equal: Vec<(String, Equal)>,
    /// What is declared; the rest of the file belongs to others. `None`: all of it is.
    pub manage: Option<Vec<String>>,
    pub absent: Absence,
    pub keys: Keys,
}

/// The word for `value` among `words`, which has every value.
pub(crate) fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words
        .iter()
        .find(|(_, known)| known == value)
        .map_or("", |(word, _)| word)
}
