//! What counts as the same.

use drift_common::{
    escape,
    policy::{self, Heed},
};

use super::{
    Absence, Equal, Format, Keys,
    pointer::{Cursor, Pattern, PatternError, Patterns, Token},
};

/// A rule of a policy that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is no pattern of places: {why}", escape::name(.pattern))]
pub struct RulesError {
    pub pattern: String,
    pub why: PatternError,
}

/// What counts as the same. The default is strict: only the order of keys, comments and the way of writing are free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// As a policy says them.
    ///
    /// # Errors
    /// One of its patterns is none.
    pub fn of(
        said: &policy::Rules,
        final_newline: Heed,
        line_endings: Heed,
    ) -> Result<Self, RulesError> {
        let policy::Rules {
            format: _,
            sets,
            ignore,
            equal,
            manage,
            absent,
            keys,
        } = said;
        let mut rules = Self::default()
            .absence(*absent)
            .keys(*keys)
            .final_newline(final_newline)
            .line_endings(line_endings);
        let why = |pattern: &str| {
            let pattern = pattern.to_owned();
            move |why| RulesError { pattern, why }
        };
        for pattern in ignore {
            rules = rules.ignore(pattern).map_err(why(pattern))?;
        }
        for pattern in sets {
            rules = rules.set(pattern).map_err(why(pattern))?;
        }
        for (pattern, equal) in equal {
            rules = rules.equal(pattern, *equal).map_err(why(pattern))?;
        }
        for pattern in manage.iter().flatten() {
            rules = rules.manage(pattern).map_err(why(pattern))?;
        }
        Ok(rules)
    }

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
    /// A key may stand several times in this format.
    repeats: bool,
    ignore: Cursor,
    sets: Cursor,
    equal: Cursor,
    managed: Cursor,
    covered: bool,
}

impl<'r> Place<'r> {
    pub(super) fn document(rules: &'r Rules, document: usize, format: Format) -> Self {
        let managed = rules.managed.as_ref();
        let mut place = Self {
            rules,
            repeats: match format {
                Format::Ini | Format::Env | Format::KeyValue => true,
                Format::Yaml | Format::Json | Format::Json5 | Format::Toml => false,
            },
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
        self.stepped(|patterns, cursor| patterns.step(cursor, token, any_case))
    }

    /// The place of the only value of a key.
    pub(super) fn only(&self, is_scalar: bool) -> Self {
        if !self.repeats {
            return self.clone();
        }
        self.stepped(|patterns, cursor| patterns.only(cursor, is_scalar))
    }

    fn stepped(&self, way: impl Fn(&Patterns, &Cursor) -> Cursor) -> Self {
        let step = |patterns: &Patterns, cursor: &Cursor| {
            if cursor.is_lost() {
                return Cursor::default();
            }
            way(patterns, cursor)
        };
        let mut place = Self {
            rules: self.rules,
            repeats: self.repeats,
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
