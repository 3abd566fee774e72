//! What the language is described with.

/// A mapping with certain fields.
#[derive(Debug)]
pub(crate) struct Shape {
    /// What it is, with its article.
    pub(crate) what: &'static str,
    pub(crate) fields: &'static [Field],
    /// Of each of these groups exactly one must be there.
    pub(crate) one_of: &'static [&'static [&'static str]],
    /// What holds between its fields, for those who read no Rust. The decoder knows it too.
    pub(crate) rules: &'static [Rule],
}

/// A rule in the Common Expression Language, as the API server has it; `self` is the mapping.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) expression: &'static str,
    /// What is wrong where it does not hold, and what to do.
    pub(crate) message: &'static str,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) value: Value,
    /// A sentence for the schema.
    pub(crate) about: &'static str,
}

/// What can stand in a field. Numbers behind lengths and lists are the most that there can be.
#[derive(Debug)]
pub(crate) enum Value {
    /// A text that this regular expression matches.
    Text(&'static str, u32),
    /// As `Text`; to YAML without quotes it may look like a number, and then its digits count. To other programs it would be a number: there it is a text only.
    Digits(&'static str, u32),
    /// A whole number from the last but one to the last, or a text that this regular expression matches.
    Scalar(&'static str, u32, u32, u32),
    /// Numbers with units, as in `1h30m`; at most a year.
    Duration,
    /// A whole number from the first to the second.
    Number(u32, u32),
    /// `true` or `false`.
    Flag,
    /// `true`.
    True,
    /// One of these words.
    Words(fn() -> Vec<&'static str>),
    /// At least so many, and at most.
    List(&'static Value, u32, u32),
    /// One, or a list of them.
    OneOrList(&'static Value, u32),
    Map(&'static Shape),
    /// A mapping from any keys.
    Entries(&'static Value, u32),
    /// A text, or a mapping.
    TextOr(&'static Shape, u32),
    /// One word, or a mapping.
    WordOr(&'static str, &'static Shape),
}

pub(super) const fn must(name: &'static str, value: Value, about: &'static str) -> Field {
    Field {
        name,
        required: true,
        value,
        about,
    }
}

pub(super) const fn may(name: &'static str, value: Value, about: &'static str) -> Field {
    Field {
        name,
        required: false,
        value,
        about,
    }
}
