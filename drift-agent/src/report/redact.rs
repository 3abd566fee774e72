//! What of a file's content may be shown: redaction, here and nowhere else.
//!
//! Whatever quotes a file is a [`Redactable`], whose text nobody outside this module can read. A [`Redactor`] turns it into a [`Shown`], which
//! can be displayed and nothing else: there is no way back to bytes, so what heals (and takes bytes from the declared snapshot) can never
//! write a mask into a file.

mod detect;
mod holds;
mod key;
mod line;
mod listing;
mod secret;
#[cfg(test)]
mod tests;
mod unified;

use std::{borrow::Cow, fmt, sync::Arc};

use drift_common::escape;

use crate::{compare::structured::Side, declare::Redact};
use secret::Secrets;

/// What stands where something was hidden, however long that is.
const MASK: &str = "•••";

/// Why something was hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// Its key says that it is secret.
    Key,
    /// It looks like a secret.
    Look,
    /// It is the value of a declared secret.
    Secret,
    /// Everything is hidden here.
    All,
}

impl Why {
    /// After `redacted`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Why::Key => "by key name",
            Why::Look => "by its look",
            Why::Secret => "as a declared secret",
            Why::All => "as the policy says",
        }
    }
}

/// A text that quotes a file's content, as it is: to be shown only through [`Redactor::show`].
#[derive(Clone, Default)]
pub struct Redactable<'a> {
    parts: Vec<Part<'a>>,
}

#[derive(Clone)]
enum Part<'a> {
    /// Brackets, keys.
    Syntax(Cow<'a, str>),
    /// A value and the keys it stands under.
    Value(Arc<[Arc<str>]>, Cow<'a, str>),
}

impl<'a> Redactable<'a> {
    /// A value without a key.
    pub fn of(text: impl Into<Cow<'a, str>>) -> Self {
        let mut redactable = Self::default();
        redactable.value(&[], text);
        redactable
    }

    /// What is no value: brackets, keys.
    pub fn syntax(&mut self, text: impl Into<Cow<'a, str>>) {
        self.parts.push(Part::Syntax(text.into()));
    }

    /// A value that stands under `keys`, the outermost first.
    pub fn value(&mut self, keys: &[Arc<str>], text: impl Into<Cow<'a, str>>) {
        self.parts.push(Part::Value(keys.into(), text.into()));
    }
}

impl fmt::Debug for Redactable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactable(…)")
    }
}

/// What may be seen: redacted, and without anything that drives a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    text: String,
    why: Option<Why>,
}

impl Shown {
    /// Why something of it is hidden, if it is.
    #[must_use]
    pub fn why(&self) -> Option<Why> {
        self.why
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The rules of one path.
#[derive(Clone, Default)]
pub struct Redactor {
    level: Redact,
    secrets: Secrets,
    allowed: Vec<String>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("level", &self.level)
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}

impl Redactor {
    #[must_use]
    pub fn new(level: Redact) -> Self {
        Self {
            level,
            ..Self::default()
        }
    }

    /// The value of a declared secret: hidden at every level, wherever it is seen.
    #[must_use]
    pub fn with_secret(mut self, secret: &str) -> Self {
        self.secrets.add(secret);
        self
    }

    /// A key whose values are no secret, whatever it is called.
    #[must_use]
    pub fn with_allowed(mut self, key: &str) -> Self {
        self.allowed.push(key.to_lowercase());
        self
    }

    #[must_use]
    pub fn show(&self, text: &Redactable<'_>) -> Shown {
        let (text, why) = self.bare(text);
        Shown {
            text: escape::printable(&text).into_owned(),
            why,
        }
    }

    /// The first 16 digits of the value's digest, where the value itself may be seen: that of a short secret can be guessed.
    #[must_use]
    pub fn digest(&self, side: &Side) -> Option<String> {
        let shown = self.show(&side.text);
        let digits = || side.digest.to_hex().chars().take(16).collect();
        shown.why.is_none().then(digits)
    }

    /// Redacted, and not yet escaped.
    fn bare(&self, text: &Redactable<'_>) -> (String, Option<Why>) {
        let mut shown = String::new();
        let mut why = None;
        for part in &text.parts {
            let (text, because) = match part {
                // A key may be a secret too.
                Part::Syntax(text) => self.in_text(text),
                Part::Value(keys, text) => self.value(keys, text),
            };
            shown.push_str(&text);
            why = why.max(because);
        }
        (shown, why)
    }

    fn value<'t>(&self, keys: &[Arc<str>], text: &'t str) -> (Cow<'t, str>, Option<Why>) {
        let because = match self.level {
            Redact::All => Some(Why::All),
            Redact::Keys if keys.iter().any(|key| self.is_secret(key)) => Some(Why::Key),
            Redact::Keys | Redact::None => self.secrets.is_one(text).then_some(Why::Secret),
        };
        match because {
            Some(why) => (Cow::Borrowed(MASK), Some(why)),
            None => self.in_text(text),
        }
    }

    /// Hides what is a secret within a text.
    fn in_text<'t>(&self, text: &'t str) -> (Cow<'t, str>, Option<Why>) {
        let mut spans: Vec<_> = self.secrets.within(text);
        let mut why = (!spans.is_empty()).then_some(Why::Secret);
        if self.level != Redact::None {
            let found = detect::spans(text);
            why = why.max((!found.is_empty()).then_some(Why::Look));
            spans.extend(found);
        }
        (mask(text, spans), why)
    }

    fn is_secret(&self, key: &str) -> bool {
        !self.allowed.contains(&key.to_lowercase()) && key::is_secret(key)
    }
}

/// `text` with [`MASK`] in the place of each of `spans`; spans that touch are one.
fn mask(text: &str, mut spans: Vec<std::ops::Range<usize>>) -> Cow<'_, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_by_key(|span| (span.start, span.end));
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    let mut masked = None;
    for span in spans {
        if span.end <= at {
            continue;
        }
        let start = span.start.max(at);
        if masked != Some(start) {
            shown.push_str(&text[at..start]);
            shown.push_str(MASK);
        }
        at = span.end;
        masked = Some(at);
    }
    shown.push_str(&text[at..]);
    Cow::Owned(shown)
}
