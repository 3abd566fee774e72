//! What counts as the same.

use super::pointer::{Cursor, Pattern, PatternError, Patterns, Token};

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

/// Whether `Port` and `port` are the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    #[default]
    Exact,
    AnyCase,
}

/// Whether something counts that most readers of a file do not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heed {
    #[default]
    Exact,
    Ignore,
}

/// What counts as the same. The default is strict: only the order of keys, comments and the way of writing are free.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(super) absence: Absence,
    pub(super) keys: Keys,
    pub(in crate::compare) final_newline: Heed,
    pub(in crate::compare) line_endings: Heed,
    ignore: Patterns,
    sets: Patterns,
    equal: Patterns,
    equals: Vec<Equal>,
    managed: Option<Patterns>,
}

impl Rules {
    /// What is the same as a key that is not there.
    #[must_use]
    pub fn absence(self, absence: Absence) -> Self {
        Self { absence, ..self }
    }

    #[must_use]
    pub fn keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }

    /// Whether a new line at the file's end counts as another way of writing.
    #[must_use]
    pub fn final_newline(self, final_newline: Heed) -> Self {
        Self {
            final_newline,
            ..self
        }
    }

    /// Whether `\r\n` against `\n` counts as another way of writing.
    #[must_use]
    pub fn line_endings(self, line_endings: Heed) -> Self {
        Self {
            line_endings,
            ..self
        }
    }

    /// What stands at `pattern` is not compared.
    ///
    /// # Errors
    /// No pointer and no pattern of pointers.
    pub fn ignore(mut self, pattern: &str) -> Result<Self, PatternError> {
        self.ignore.push(Pattern::parse(pattern)?);
        Ok(self)
    }

    /// The order of the list at `pattern` is free.
    ///
    /// # Errors
    /// No pointer and no pattern of pointers.
    pub fn set(mut self, pattern: &str) -> Result<Self, PatternError> {
        self.sets.push(Pattern::parse(pattern)?);
        Ok(self)
    }

    /// Scalars at `pattern` are compared as `equal` says. Where several patterns fit, the first counts.
    ///
    /// # Errors
    /// No pointer and no pattern of pointers.
    pub fn equal(mut self, pattern: &str, equal: Equal) -> Result<Self, PatternError> {
        self.equal.push(Pattern::parse(pattern)?);
        self.equals.push(equal);
        Ok(self)
    }

    /// Only what stands at such patterns is declared; the rest of the file belongs to others.
    ///
    /// # Errors
    /// No pointer and no pattern of pointers.
    pub fn manage(mut self, pattern: &str) -> Result<Self, PatternError> {
        let pattern = Pattern::parse(pattern)?;
        self.managed.get_or_insert_default().push(pattern);
        Ok(self)
    }

    /// Whether all of a file is compared.
    pub(super) fn manages_all(&self) -> bool {
        self.managed.is_none()
    }

    pub(super) fn is_any_case(&self) -> bool {
        self.keys == Keys::AnyCase
    }
}

/// How much of what stands at a place is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    All,
    /// Perhaps something below.
    Some,
    None,
}

/// The rules as seen from one place of a tree.
#[derive(Clone)]
pub(super) struct Place<'r> {
    pub(super) rules: &'r Rules,
    ignore: Cursor,
    sets: Cursor,
    equal: Cursor,
    managed: Cursor,
    covered: bool,
}

impl<'r> Place<'r> {
    pub(super) fn document(rules: &'r Rules, document: usize) -> Self {
        let managed = rules.managed.as_ref();
        let mut place = Self {
            rules,
            ignore: rules.ignore.start(document),
            sets: rules.sets.start(document),
            equal: rules.equal.start(document),
            managed: managed.map_or_else(Cursor::default, |patterns| patterns.start(document)),
            covered: managed.is_none(),
        };
        place.cover();
        place
    }

    pub(super) fn child(&self, token: &Token) -> Self {
        let any_case = self.rules.is_any_case();
        let step = |patterns: &Patterns, cursor: &Cursor| {
            if cursor.is_lost() {
                return Cursor::default();
            }
            patterns.step(cursor, token, any_case)
        };
        let mut place = Self {
            rules: self.rules,
            ignore: step(&self.rules.ignore, &self.ignore),
            sets: step(&self.rules.sets, &self.sets),
            equal: step(&self.rules.equal, &self.equal),
            managed: match &self.rules.managed {
                Some(patterns) if !self.covered => step(patterns, &self.managed),
                Some(_) | None => Cursor::default(),
            },
            covered: self.covered,
        };
        place.cover();
        place
    }

    fn cover(&mut self) {
        let hit = |patterns: &Patterns| patterns.hit(&self.managed).is_some();
        self.covered = self.covered || self.rules.managed.as_ref().is_some_and(hit);
    }

    pub(super) fn is_ignored(&self) -> bool {
        self.rules.ignore.hit(&self.ignore).is_some()
    }

    pub(super) fn is_set(&self) -> bool {
        self.rules.sets.hit(&self.sets).is_some()
    }

    pub(super) fn equal(&self) -> Option<Equal> {
        let number = self.rules.equal.hit(&self.equal)?;
        self.rules.equals.get(number).copied()
    }

    /// No rule says anything about what is here or below: what is written alike is the same.
    pub(super) fn is_plain(&self) -> bool {
        self.covered && self.ignore.is_lost() && self.sets.is_lost() && self.equal.is_lost()
    }

    pub(super) fn coverage(&self) -> Coverage {
        if self.covered {
            Coverage::All
        } else if self.managed.is_lost() {
            Coverage::None
        } else {
            Coverage::Some
        }
    }
}
