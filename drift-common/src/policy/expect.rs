//! What is said of a drift, and how much it takes to be one.

use std::borrow::Cow;

/// How much a drift of a path matters: what is said of it has this severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    Info,
    #[default]
    Warning,
    Error,
    Critical,
}

impl Severity {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 4] = [
        ("info", Self::Info),
        ("warning", Self::Warning),
        ("error", Self::Error),
        ("critical", Self::Critical),
    ];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// What of a content may be shown, where contents are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redact {
    /// All of it.
    None,
    /// All but the values of keys that sound like secrets, and what looks like one.
    #[default]
    Keys,
    /// Nothing.
    All,
}

impl Redact {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 3] = [
        ("none", Self::None),
        ("keys", Self::Keys),
        ("all", Self::All),
    ];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Keys => "keys",
            Self::All => "all",
        }
    }
}

/// Whether something is a difference that most readers of a file do not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heed {
    #[default]
    Exact,
    Ignore,
}

impl Heed {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 2] = [("exact", Self::Exact), ("ignore", Self::Ignore)];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Ignore => "ignore",
        }
    }
}

/// Whether a file may have other names: hard links, through which it can be changed too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HardLinks {
    /// They are told.
    #[default]
    Report,
    Allow,
}

impl HardLinks {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 2] = [("report", Self::Report), ("allow", Self::Allow)];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Allow => "allow",
        }
    }
}

/// How a file gets its declared content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writing {
    /// A new file takes the place of what is there.
    #[default]
    Replace,
    /// It is written into the file that is there: one that is mounted alone has no place that another could take.
    InPlace,
}

impl Writing {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 2] =
        [("replace", Self::Replace), ("inPlace", Self::InPlace)];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::InPlace => "inPlace",
        }
    }
}

/// `content` with `\n` for each `\r\n`.
#[must_use]
pub fn with_unix_line_ends(content: &[u8]) -> Cow<'_, [u8]> {
    if !content.contains(&b'\r') {
        return Cow::Borrowed(content);
    }
    let mut unix = Vec::with_capacity(content.len());
    for (at, byte) in content.iter().enumerate() {
        if *byte != b'\r' || content.get(at + 1) != Some(&b'\n') {
            unix.push(*byte);
        }
    }
    Cow::Owned(unix)
}

/// `content` without one line end (`\n` or `\r\n`) at its end.
#[must_use]
pub fn without_final_newline(content: &[u8]) -> &[u8] {
    content
        .strip_suffix(b"\r\n")
        .or_else(|| content.strip_suffix(b"\n"))
        .unwrap_or(content)
}

/// The bound of files that are compared, where none is declared.
pub const MAX_SIZE: u64 = 64 << 20;
