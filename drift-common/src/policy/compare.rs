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

/// A format that is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Yaml,
    Json,
    Toml,
    Ini,
    /// `NAME=value` lines, as shells and systemd read them.
    Env,
    /// `key value` or `key = value` lines, as in sshd_config and sysctl.conf.
    KeyValue,
}

impl Format {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 6] = [
        ("yaml", Self::Yaml),
        ("json", Self::Json),
        ("toml", Self::Toml),
        ("ini", Self::Ini),
        ("env", Self::Env),
        ("keyvalue", Self::KeyValue),
    ];
}

/// How two scalars may be written in different ways and still be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equal {
    Number,
    Quantity,
    Bool,
    Duration,
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
    /// Nothing.
    #[default]
    Strict,
    Null,
    /// Null, the empty text, list and map.
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
